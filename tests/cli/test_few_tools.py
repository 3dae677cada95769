"""`toolcrib init` at a terminal asks whether few tools are to be listed all at once, and writes it after a yes only."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.command_line import Run
from fakes.menu import FakeServer, tool

WORDY = "It does what its name says. " * 60
START, WHOLE = "Start 1 server once", "List all of them"

Asking = Callable[..., list[str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Return a home in which Cursor has one server with three tools; ``run`` has set up the rest of the environment."""
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    configure(home, FakeServer(home, "zoo", tools=[tool("feed"), tool("wash"), tool("walk")]))
    return home


def configure(home: Path, server: FakeServer) -> None:
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {server.name: server.entry()}}))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return the config that is written: one that is the same with optional packages installed."""
    config = tmp_path / "etc" / "toolcrib" / "toolcrib.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"toolcrib": {"programs": {"enabled": "off"}}}')
    return config


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Return what gives the answers of a person at a terminal, by words of the questions, and keeps the questions."""

    def answered(**answers: str) -> list[str]:
        asked: list[str] = []

        def answer(question: str) -> str:
            asked.append(question)
            return next((said for word, said in answers.items() if word in question), "y")

        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("builtins.input", answer)
        return asked

    return answered


def gate(config: Path) -> object:
    return json.loads(config.read_text(encoding="utf-8")).get("toolcrib", {}).get("gate")


def test_who_has_few_tools_is_asked_with_what_both_ways_take(run: Run, home: Path, written: Path, asking: Asking):
    asked = asking()
    code, out, err = run("init")
    assert (code, err) == (0, "")
    assert [question.partition("?")[0].split(",")[0] for question in asked] == [
        f"Write 1 server to {written}",
        START,
        WHOLE,
    ]
    prices = json.loads(run("tokens", "--json")[1])
    limit = gate(written)
    assert isinstance(limit, dict)
    assert prices["toolcrib"]["tokens"] == prices["all_listed"] < limit["pass_through_tokens"]
    assert f"listing all of them takes less: {prices['all_listed']:,} tokens, instead of 1," in out
    assert out.index("with each search.") < out.index("Written: toolcrib.gate.") < out.index("Next: ")
    assert json.loads(run("status", "--json")[1])["whole_list"] is True


def test_after_a_no_nothing_more_is_written_and_the_key_is_named(run: Run, home: Path, written: Path, asking: Asking):
    asking(**{WHOLE: "n"})
    out = run("init")[1]
    assert gate(written) is None
    assert "toolcrib.gate.pass_through_tokens: " in out


def test_no_server_is_started_without_a_yes(run: Run, home: Path, written: Path, asking: Asking):
    asked = asking(**{START: "n"})
    code, _out, _err = run("init")
    assert (code, len(asked), gate(written)) == (0, 2, None)
    assert not (home / "zoo.record.jsonl").exists()


def test_where_nobody_is_asked_nothing_is_started_and_the_command_that_tells_is_named(
    run: Run, home: Path, written: Path
):
    code, out, _err = run("init", "--yes")
    assert (code, gate(written)) == (0, None)
    assert "`toolcrib tokens`" in out
    assert not (home / "zoo.record.jsonl").exists()


def test_where_searching_takes_less_that_is_said_and_nothing_is_asked(
    run: Run, home: Path, written: Path, asking: Asking
):
    configure(home, FakeServer(home, "farm", tools=[tool(f"echo_{number}", WORDY) for number in range(20)]))
    asked = asking()
    out = run("init")[1]
    prices = json.loads(run("tokens", "--json")[1])
    assert (len(asked), gate(written)) == (2, None)
    said = f"All tools listed take {prices['all_listed']:,} tokens; with toolcrib, a model first reads 1,"
    assert said in out


def test_a_server_that_fails_is_named_and_what_is_not_known_is_not_proposed(
    run: Run, home: Path, written: Path, asking: Asking
):
    configure(home, FakeServer(home, "broken", exit_at="spawn"))
    asking()
    code, out, err = run("init")
    assert (code, gate(written)) == (0, None)
    assert "broken: " in err
    assert "broken not counted" in out


def test_a_config_that_says_how_many_are_few_has_its_answer(run: Run, home: Path, written: Path, asking: Asking):
    written.write_text('{"toolcrib": {"gate": {"pass_through_tokens": 0}}}')
    asked = asking()
    assert run("init")[0] == 0
    assert (len(asked), gate(written)) == (1, {"pass_through_tokens": 0})


def test_with_skills_of_ones_own_their_tools_count_beside_the_list(
    run: Run, home: Path, written: Path, asking: Asking, tmp_path: Path
):
    """They stay listed, so fewer tools are few: what is proposed saves with them, too."""
    asking(**{WHOLE: "n"})
    run("init")
    alone = json.loads(run("tokens", "--json")[1])
    skill = tmp_path / "skills" / "mine" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: mine\ndescription: How I walk the dog.\n---\n1. Take the leash.\n")
    document = json.loads(written.read_text())
    document["toolcrib"]["skills"] = {"skill_dirs": [str(tmp_path / "skills")]}
    written.write_text(json.dumps(document))
    beside = json.loads(run("tokens", "--json")[1])
    assert alone["listed_whole"] == alone["all_listed"] == beside["all_listed"]
    assert beside["listed_whole"] > alone["listed_whole"] + 300


def test_what_stays_listed_with_an_extra_counts_beside_the_list(run: Run, home: Path, written: Path, asking: Asking):
    pytest.importorskip("pydantic_monty")
    written.write_text("{}")
    asking(**{WHOLE: "n"})
    run("init")
    found = json.loads(run("tokens", "--json")[1])
    assert found["listed_whole"] == found["all_listed"] + found["toolcrib"]["own"]["tool_run"]
