"""toolcrib tokens: what lists cost, what toolcrib costs instead, and what recorded sessions have saved."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.command_line import Run
from fakes.menu import FakeServer, tool
from toolcrib.base.text import definition_tokens
from toolcrib.cli.tokens import HIT
from toolcrib.events.kinds import Event, ProgramRun, ToolActivated, ToolCall, ToolSearchQuery, ToolsListed
from toolcrib.events.log import EventFile, open_event_log

WORDY = "It does what its name says. " * 60
TOOLS = [tool(f"echo_{number}", WORDY, {"text": "string"}, ["text"]) for number in range(20)]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "zoo").mkdir()
    (tmp_path / "farm").mkdir()
    servers = {
        "zoo": FakeServer(tmp_path / "zoo", tools=TOOLS).entry(),
        "farm": FakeServer(tmp_path / "farm", tools=TOOLS[:2]).entry(),
    }
    file = tmp_path / "crib.json"
    section = {"cache_dir": "cache", "state_dir": "state"}
    file.write_text(json.dumps({"mcpServers": servers, "toolcrib": section}))
    return file


@pytest.fixture
def listed(run: Run, config: Path) -> str:
    """Return a config whose servers were listed."""
    assert run("index", "refresh", "--config", str(config))[0] == 0
    return str(config)


def record(config: str, session: str | None, *events: Event) -> None:
    with open_event_log(EventFile(Path(config).parent / "cache" / "events.jsonl")) as log:
        for event in events:
            log.emit(event, session=session)


def test_each_server_has_its_price_and_a_bar_and_nothing_is_started(run: Run, listed: str):
    code, out, err = run("tokens", "--config", listed)
    assert (code, err) == (0, "")
    zoo, farm = (next(line for line in out.splitlines() if line.strip().startswith(key)) for key in ("zoo", "farm"))
    assert zoo.count("█") > 5 * farm.count("█") > 0
    assert zoo.endswith("20 tools")
    assert "estimated at four characters each" in out
    assert " saved (" in out
    assert "No session is recorded yet." in out


def test_what_toolcrib_shows_instead_is_counted_in_full(run: Run, listed: str):
    found = json.loads(run("tokens", "--config", listed, "--json")[1])
    servers = {each["server"]: each["tokens"] for each in found["servers"]}
    shown = json.loads(run("tools", "show", "zoo.echo_1", "--config", listed, "--json")[1])
    assert servers["zoo"] == pytest.approx(20 * definition_tokens(shown), abs=20)
    assert found["all_listed"] == sum(servers.values())
    own = found["toolcrib"]
    assert list(own["own"]) == [
        *("tool_search", "tool_call", "tool_call_read", "tool_run"),
        *("skill_search", "skill_get", "skill_list"),
    ]
    assert own["tokens"] == sum(own["own"].values()) + own["instructions"]
    assert 100 < own["instructions"] < 520
    assert found["saved"] == found["all_listed"] - own["tokens"] > 0


def test_tools_that_are_always_listed_count_for_toolcrib(run: Run, listed: str):
    file = Path(listed)
    document = json.loads(file.read_text())
    document["toolcrib"]["tool_search"] = {"always_loaded_patterns": ["farm.*"]}
    file.write_text(json.dumps(document))
    assert run("index", "refresh", "--config", listed)[0] == 0
    always = json.loads(run("tokens", "--config", listed, "--json")[1])["toolcrib"]["always"]
    assert list(always) == ["farm__echo_0", "farm__echo_1"]


def test_a_session_is_priced_at_its_end_and_its_changes_are_counted(run: Run, listed: str):
    lists = [ToolsListed(6, (), "a"), ToolsListed(6, (), "a"), ToolsListed(7, ("zoo__echo_1",), "b")]
    search, call = ToolSearchQuery("say", "fts", "fts", 5, 1, "high", ()), ToolCall("zoo__echo_1", ok=True, bytes=9)
    used = ToolActivated("zoo__echo_1", "run", "direct", "first_use")
    record(listed, "local-1.1 (one)", *lists, search, used, call)
    record(listed, "local-1.2 (two)", replace(search, results_count=0))
    record(listed, "command-line", call)
    record(listed, None, lists[0])
    with (Path(listed).parent / "cache" / "events.jsonl").open("a") as file:
        file.write("not json\n[1]\n")
    found = json.loads(run("tokens", "--config", listed, "--json")[1])
    one, two = found["sessions"]
    [echo] = {each["tools"]["zoo__echo_1"] for each in found["servers"] if each["server"] == "zoo"}
    assert (one["list_changes"], one["searches"], one["calls"]) == (1, 1, 1)
    assert one["tokens"] == found["toolcrib"]["tokens"] + echo + 5 * HIT
    assert one["saved"] == found["all_listed"] - one["tokens"]
    assert (two["session"], two["tokens"]) == ("local-1.2 (two)", found["toolcrib"]["tokens"])
    _code, out, _err = run("tokens", "--config", listed)
    assert "2 recorded sessions" in out
    assert "local-1.1 (one): 1 search, 1 call; " in out
    assert "its list changed 1 time\n" in out
    assert "listing: stable" in out


def test_programs_are_counted_with_what_they_kept_out_of_the_context(run: Run, listed: str):
    ended = ProgramRun(ok=True, calls=9, failed=0, characters_read=8_000, characters_returned=60, tokens_saved=1_900)
    record(listed, "local-1.1 (one)", ended, replace(ended, ok=False, tokens_saved=-300))
    record(listed, "local-1.2 (two)", replace(ended, tokens_saved=-50))
    found = json.loads(run("tokens", "--config", listed, "--json")[1])
    assert [(each["programs"], each["programs_saved"]) for each in found["sessions"]] == [(2, 1_600), (1, -50)]
    _code, out, _err = run("tokens", "--config", listed)
    assert "local-1.1 (one): 0 searches, 0 calls, 2 programs (about 1,600 tokens saved); " in out
    assert "1 program (about 50 tokens lost); " in out
    assert "\nBesides, 3 programs (about 1,550 tokens saved).\n" in out


def test_a_session_that_was_shown_everything_has_saved_nothing(run: Run, listed: str):
    record(listed, "local-1.1", ToolsListed(28, [f"zoo__echo_{number}" for number in range(5)], "a"))
    [session] = json.loads(run("tokens", "--config", listed, "--json")[1])["sessions"]
    assert session["saved"] < 0
    assert " more than all of them listed" in run("tokens", "--config", listed)[1]


def test_servers_that_were_never_listed_are_named(run: Run, config: Path):
    code, out, err = run("tokens", "--config", str(config))
    assert code == 0
    assert "zoo: never listed, so not counted; `toolcrib index refresh` lists it" in err
    assert "all listed" in out
