"""toolcrib lint: what a person is told of tools that are hard to find, what a program gets, and the exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.menu import FakeServer, tool
from toolcrib.base.yaml import parse_yaml
from toolcrib.cli import main

Run = Callable[..., tuple[int, str, str]]

UNTOLD = {"name": "sweep", "inputSchema": {"type": "object"}}
ZOO = [
    tool("feed_lion", "Gives meat to the lion in the morning.", {"grams": "integer"}),
    UNTOLD,
    tool("weigh", "Weigh it."),
]
DESK = [tool("open_ticket", "Opens a new ticket in the tracker of a project.")]


@pytest.fixture
def servers(tmp_path: Path) -> dict[str, FakeServer]:
    return {"zoo": FakeServer(tmp_path, "zoo", tools=ZOO), "desk": FakeServer(tmp_path, "desk", tools=DESK)}


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    servers: dict[str, FakeServer],
) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLCRIB_PARENT", raising=False)

    def run(*arguments: str, **toolcrib: Any) -> tuple[int, str, str]:
        entries = {key: server.entry() for key, server in servers.items()}
        file = tmp_path / "crib.json"
        file.write_text(json.dumps({"mcpServers": entries, "toolcrib": {"cache_dir": "cache", **toolcrib}}))
        code = main(["lint", *arguments, "--config", str(file)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_people_are_told_by_server_what_is_wrong_and_what_to_add(run: Run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "zoo: 0 errors, 1 warning, 2 infos",
        "  warning  no-description  (1)",
        "    sweep: has no description",
    ]
    assert "servers.zoo.tags" in out
    assert out.endswith(
        "4 tools of 2 servers: 100.0% found first by name, 100.0% by first sentence, 100.0% by request; "
        "0 errors, 1 warning, 2 infos\n"
    )


def test_programs_get_every_finding_and_every_rank(run: Run):
    code, out, _err = run("--json")
    report = json.loads(out)
    assert code == 0
    assert report["counts"] == {"error": 0, "warning": 1, "info": 2}
    assert report["found_first"] == {"by_name": 1.0, "by_first_sentence": 1.0, "by_request": 1.0}
    assert report["unlisted"] == []
    [finding] = [each for each in report["findings"] if each["level"] == "warning"]
    assert finding == {
        "level": "warning",
        "code": "no-description",
        "server": "zoo",
        "tool": "zoo__sweep",
        "what": "has no description",
        "others": [],
        "add": finding["add"],
    }
    assert report["tools"][0] == {
        "tool": "desk__open_ticket",
        "server": "desk",
        "searches": [
            {"by": "name", "query": "open ticket", "rank": 1},
            {"by": "first sentence", "query": "Opens a new ticket in the tracker of a project.", "rank": 1},
            {"by": "request", "query": "new tracker project", "rank": 1},
        ],
    }


@pytest.mark.sampled
@pytest.mark.parametrize(("level", "code"), [("error", 0), ("warning", 1), ("info", 1)])
def test_the_level_decides_about_the_exit_code(run: Run, level: str, code: int):
    assert run("--level", level)[0] == code


def test_one_server_may_be_looked_at_alone(run: Run):
    code, out, _err = run("--server", "desk", "--level", "info")
    assert code == 0
    assert out == (
        "1 tool of 1 server: 100.0% found first by name, 100.0% by first sentence, 100.0% by request; "
        "0 errors, 0 warnings, 0 infos\n"
    )
    code, out, err = run("--server", "dask")
    assert (code, out) == (1, "")
    assert err == "Error: There is no server 'dask': did you mean desk?\n"


def test_a_tool_that_nobody_may_use_is_not_looked_at(run: Run):
    assert "sweep" not in run(policy={"deny": ["sweep"]})[1]


def test_examples_of_the_config_are_tried(run: Run):
    examples = {"weigh": [{"args": {}, "description": "Meat for the lion in the morning"}]}
    out = run("--server", "zoo", servers={"zoo": {"tool_examples": examples}})[1]
    assert 'weigh: by its example "Meat for the lion in the morning" it is' in out


def test_many_findings_of_one_kind_are_cut_for_people_and_whole_for_programs(run: Run, servers: dict[str, FakeServer]):
    servers["zoo"].change(tools=[{**UNTOLD, "name": f"sweep_{number}"} for number in range(14)])
    out = run("--server", "zoo")[1]
    assert "warning  no-description  (14)" in out
    assert out.count(": has no description") == 10
    assert "and 4 more; --json shows all" in out
    codes = [finding["code"] for finding in json.loads(run("--json")[1])["findings"]]
    assert codes.count("no-description") == 14


def test_a_server_that_cannot_be_listed_is_told_and_fails(run: Run, servers: dict[str, FakeServer]):
    servers["desk"].change(exit_at="list")
    code, out, err = run()
    assert code == 1
    why, consequence = err.splitlines()
    assert why.startswith("server desk: it closed the connection; it exited with status 3")
    assert consequence == "desk: could not be listed, so its tools were not checked"
    assert "3 tools of 1 server" in out
    assert json.loads(run("--json", "--server", "desk")[1])["unlisted"] == ["desk"]


def test_no_event_tells_of_these_searches(run: Run, tmp_path: Path):
    run()
    assert "tool_search_query" not in (tmp_path / "cache" / "events.jsonl").read_text(encoding="utf-8")


def test_entries_are_proposed_that_the_config_takes_and_that_mend_it(run: Run):
    found = json.loads(run("--json")[1])
    code, out, _err = run("--fix")
    assert code == 0
    proposed = parse_yaml(out.partition("look each of them over:")[2])["toolcrib"]["servers"]
    assert proposed["zoo"]["tools"]["sweep"]["description"] == "Sweep of zoo."
    assert proposed["zoo"]["tools"]["weigh"]["description"] == "Weigh of zoo. Weigh it."
    assert json.loads(run("--fix", "--json")[1])["proposed"] == proposed
    mended = json.loads(run("--json", servers=proposed)[1])
    assert mended["counts"]["warning"] < found["counts"]["warning"]


def test_without_findings_nothing_is_proposed(run: Run):
    assert "Proposed" not in run("--fix", "--server", "desk")[1]


def test_a_tool_in_other_words_is_shown_beside_the_original(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run(servers={"zoo": {"tools": {"weigh": {"description": "Say how heavy an animal is."}}}})
    assert main(["tools", "show", "zoo__weigh", "--config", str(tmp_path / "crib.json")]) == 0
    out = capsys.readouterr().out
    assert out.index("Say how heavy an animal is.") < out.index("In the server's own words") < out.index("Weigh it.")
    main(["tools", "show", "zoo__weigh", "--json", "--config", str(tmp_path / "crib.json")])
    shown = json.loads(capsys.readouterr().out)
    assert shown["original"]["description"] == "Weigh it."
    assert "toolcrib/original" not in shown["_meta"]
