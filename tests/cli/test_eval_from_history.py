"""toolcrib eval --from-history: a file of queries, of what was searched for and the calls that followed."""

import json
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fakes.menu import FakeServer, tool
from toolcrib.cli import main

Run = Callable[..., tuple[int, str, str]]
Event = Mapping[str, Any]

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TOOLS = [tool("feed_lion", "Gives meat to the lion."), tool("weigh_lion", "Puts the lion on the scales.")]
FEED, WEIGH = "zoo__feed_lion", "zoo__weigh_lion"


def searched(number: int, query: str, minute: float = 0, session: str = "local-1 (codex)", **more: Any) -> Event:
    at = (NOW + timedelta(minutes=minute)).isoformat(timespec="milliseconds")
    kind = {"event": "tool_search_query", "effective_search_type": "fts"}
    return {"ts": at, "session": session, "search": number, "query": query, **kind, **more}


def called(name: str, search: int | None, minute: float = 0, session: str = "local-1 (codex)", **more: Any) -> Event:
    at = (NOW + timedelta(minutes=minute)).isoformat(timespec="milliseconds")
    return {"ts": at, "event": "tool_call", "session": session, "tool_name": name, "ok": True, "search": search, **more}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLCRIB_PARENT", raising=False)
    config = tmp_path / "crib.json"
    entry = FakeServer(tmp_path, "zoo", tools=TOOLS).entry()

    def run(*options: str, events: tuple[Event, ...] = (), level: str = "info") -> tuple[int, str, str]:
        section = {"cache_dir": "cache", "events": {"level": level}}
        config.write_text(json.dumps({"mcpServers": {"zoo": entry}, "toolcrib": section}))
        if not (tmp_path / "cache").exists():
            assert main(["index", "refresh", "--config", str(config)]) == 0
        if events:
            (tmp_path / "cache" / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
        capsys.readouterr()
        code = main(["eval", *options, "--config", str(config)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def cases(run: Run, *events: Event) -> list[tuple[str, list[str]]]:
    code, out, _err = run("--from-history", events=events)
    assert code == 0
    return [(case["query"], case["tools"]) for case in map(json.loads, out.splitlines())]


def test_what_is_written_is_what_eval_reads(run: Run, tmp_path: Path):
    events = (searched(1, "give it meat"), called(FEED, 1), called(WEIGH, 1), searched(2, "weigh"), called(WEIGH, 2))
    code, out, err = run("--from-history", "own.jsonl", events=events)
    assert (code, out, err) == (0, "2 queries written to own.jsonl\n", "")
    assert stat.S_IMODE((tmp_path / "own.jsonl").stat().st_mode) == 0o600
    code, out, err = run("own.jsonl", "--json")
    assert (code, err) == (0, "")
    assert [(case["query"], case["tools"]) for case in json.loads(out)["cases"]] == [
        ("give it meat", [FEED, WEIGH]),
        ("weigh", [WEIGH]),
    ]


def test_without_a_file_it_is_printed_and_only_that(run: Run):
    code, out, err = run("--from-history", events=(searched(1, "füttern"), called(FEED, 1)))
    assert (code, out, err) == (0, f'{{"query": "füttern", "tools": ["{FEED}"]}}\n', "1 query\n")


def test_programs_get_the_queries_and_what_was_left_out(run: Run):
    redacted = (searched(2, "feed with sk-abcdefghijklmnopqrst1234"), called(FEED, 2))
    gone = (searched(3, "x"), called("zoo__gone", 3))
    code, out, err = run("--from-history", "--json", events=(searched(1, "a lion"), called(FEED, 1), *redacted, *gone))
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "queries": 1,
        "redacted": 1,
        "gone": 1,
        "file": None,
        "cases": [{"query": "a lion", "tools": [FEED]}],
    }


def test_an_equal_query_is_one_with_all_its_tools(run: Run):
    events = (searched(1, "the lion"), called(FEED, 1), searched(1, "the lion ", 9), called(WEIGH, 1, 9))
    assert cases(run, *events) == [("the lion", [FEED, WEIGH])]


def test_a_call_belongs_to_its_session_and_to_the_search_that_found_its_tool(run: Run):
    events = (
        searched(1, "feed"),
        searched(2, "weigh"),
        searched(1, "of another", session="local-2"),
        called(FEED, 1),
        called(WEIGH, 1, session="local-2"),
    )
    assert cases(run, *events) == [("feed", [FEED]), ("of another", [WEIGH])]


def test_a_tool_that_was_not_found_belongs_to_the_search_right_before(run: Run):
    events = (searched(1, "carnivore diet"), called(FEED, None, 4), searched(2, "later"), called(WEIGH, None, 10))
    assert cases(run, *events) == [("carnivore diet", [FEED])]


def test_failed_calls_patterns_and_what_was_redacted_are_left_out(run: Run):
    events = (
        searched(1, "lion"),
        called(FEED, 1, ok=False),
        searched(2, ".*lion", effective_search_type="regex"),
        called(FEED, 2),
        searched(3, "lion for [REDACTED_EMAIL]"),
        called(FEED, 3),
        searched(4, "feed with sk-abcdefghijklmnopqrst1234"),
        called(FEED, 4),
        searched(5, "feed"),
        called(FEED, 5),
    )
    code, out, err = run("--from-history", events=events)
    assert (code, [json.loads(line)["query"] for line in out.splitlines()]) == (0, ["feed"])
    assert err == "1 query; 2 left out, since they contain something that was redacted\n"


def test_it_says_what_is_missing(run: Run, tmp_path: Path):
    code, _out, err = run("--from-history", level="off")
    assert (code, "toolcrib.events.level is off" in err) == (1, True)
    code, _out, err = run("--from-history", events=(searched(1, "lion"),))
    assert (code, "No search that a call followed" in err) == (1, True)
    code, _out, err = run("--from-history", events=(searched(1, "lion"), called("zoo__gone", 1)))
    assert (code, "the tools of 1 are gone" in err) == (1, True)
    (tmp_path / "own.jsonl").write_text("mine")
    code, _out, err = run("--from-history", "own.jsonl", events=(searched(1, "lion"), called(FEED, 1)))
    assert (code, "own.jsonl exists" in err, (tmp_path / "own.jsonl").read_text()) == (1, True, "mine")
    code, _out, err = run()
    assert (code, "--from-history" in err) == (2, True)
