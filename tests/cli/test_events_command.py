"""toolcrib events: what an agent did, from its searches to the calls that came of them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run

NOW = datetime.now(UTC)


def _event(name: str, minutes_ago: float, session: str | None = "local-7 (claude-code)", **more: Any) -> dict[str, Any]:
    at = (NOW - timedelta(minutes=minutes_ago)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"ts": at, "event": name, "session": session, "duration_ms": 12.3, **more}


EVENTS = [
    _event(
        "tool_search_query",
        90,
        query="create issue",
        results_count=2,
        search=1,
        confidence="high",
        hits=["github__create_issue", "github__list_issues"],
    ),
    _event("tool_activated", 89, tool_name="github__create_issue"),
    _event("tool_call", 89, tool_name="github__create_issue", ok=True, bytes=345, search=1, rank=1),
    _event("tool_call_not_run", 5, tool_name="github__list_issues", reason="arguments", search=1, rank=2),
    _event("tool_call", 4, "local-8 (codex)", tool_name="time__now", ok=False, bytes=0, search=None, rank=None),
    _event("tool_activation_denied", 3, "local-8 (codex)", tool_name="db__drop", reason="policy"),
    _event("downstream_state", 2, None, server="git", state="failed", reason="no such\nprogram"),
    _event("downstream_state", 2, None, server="time", state="ready", reason=""),
    _event("skill_get", 1, names=["pdf-forms"]),
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "crib.json"
    file.write_text(json.dumps({"toolcrib": {"cache_dir": str(tmp_path / "cache")}}))
    events = tmp_path / "cache" / "events.jsonl"
    events.parent.mkdir()
    events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    return file


def _shown(run: Run, config: Path, *options: str) -> list[str]:
    code, out, err = run("events", "--config", str(config), *options)
    assert (code, err) == (0, "")
    return [line[21:] for line in out.splitlines()]


def test_a_search_its_hits_and_the_call_that_came_of_it_stand_in_one_line_of_sight(run: Run, config: Path):
    assert _shown(run, config) == [
        'local-7 (claude-code)  searched "create issue" → high: github__create_issue, github__list_issues',
        'local-7 (claude-code)  → called github__create_issue: ok, 345 bytes, 12 ms (hit 1 of "create issue")',
        'local-7 (claude-code)  → NOT RUN github__list_issues: its arguments do not fit (hit 2 of "create issue")',
        "local-8 (codex)  → called time__now: FAILED, 12 ms",
        "local-8 (codex)  → REFUSED db__drop: the policy denies it",
        "server git FAILED: no such program",
        "local-7 (claude-code)  read skills: pdf-forms",
    ]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--session", "CODEX"], ["time__now", "db__drop"]),
        (["--tool", "github__*"], ["github__create_issue", "github__create_issue", "github__list_issues"]),
        (["--tool", "github__list_issues"], ["github__list_issues", "github__list_issues"]),
        (["--failed"], ["github__list_issues", "time__now", "db__drop", "git FAILED"]),
        (["--since", "85m", "--session", "local-7"], ["github__list_issues", "pdf-forms"]),
        (["--since", (NOW - timedelta(seconds=90)).isoformat()], ["pdf-forms"]),
        (["-n", "2"], ["git FAILED", "pdf-forms"]),
    ],
)
def test_only_what_is_asked_for_is_shown(run: Run, config: Path, options: list[str], found: list[str]):
    shown = _shown(run, config, *options)
    assert len(shown) == len(found)
    assert all(word in line for word, line in zip(found, shown, strict=True))


def test_a_program_gets_the_events_as_they_were_written(run: Run, config: Path):
    code, out, _err = run("events", "--config", str(config), "--json", "--failed", "--session", "codex")
    assert code == 0
    assert json.loads(out) == [EVENTS[4], EVENTS[5]]


def test_a_call_whose_search_is_no_longer_kept_names_its_number(run: Run, config: Path, tmp_path: Path):
    (tmp_path / "cache" / "events.jsonl").write_text(json.dumps(EVENTS[2]) + "\n")
    assert _shown(run, config)[0].endswith("(hit 1 of search 1)")


def test_a_program_is_a_line_with_its_calls_and_what_it_saved(run: Run, config: Path, tmp_path: Path):
    ended = {
        "ok": True,
        "calls": 23,
        "failed": 2,
        "characters_read": 41_200,
        "characters_returned": 310,
        "tokens_saved": 10_190,
    }
    failed = {**ended, "ok": False, "calls": 1, "failed": 0, "tokens_saved": -95}
    lines = [json.dumps(_event("program_run", 1, **each)) for each in (ended, failed)]
    (tmp_path / "cache" / "events.jsonl").write_text("\n".join(lines) + "\n")
    sizes = "41200 characters read, 310 returned"
    said = [
        f"23 calls (2 failed), {sizes}, about 10,190 tokens saved, 12 ms",
        f"1 call, {sizes}, about 95 tokens lost, 12 ms",
    ]
    assert _shown(run, config) == [
        f"local-7 (claude-code)  → ran a program: ok, {said[0]}",
        f"local-7 (claude-code)  → ran a program: FAILED, {said[1]}",
    ]
    assert _shown(run, config, "--failed") == [f"local-7 (claude-code)  → ran a program: FAILED, {said[1]}"]


def test_a_program_of_an_earlier_version_is_a_line_too(run: Run, config: Path, tmp_path: Path):
    event = _event("program_run", 1, ok=True, calls=2, failed=0, characters_read=9, characters_returned=1)
    (tmp_path / "cache" / "events.jsonl").write_text(f"{json.dumps(event)}\n")
    [line] = _shown(run, config)
    assert line.endswith("→ ran a program: ok, 2 calls, 9 characters read, 1 returned, 12 ms")


def test_it_says_why_there_is_nothing_to_show(run: Run, config: Path, tmp_path: Path):
    (tmp_path / "cache" / "events.jsonl").unlink()
    assert "nothing was written to" in run("events", "--config", str(config))[2]
    (tmp_path / "cache" / "events.jsonl").write_text('{"ts": "2026-11-22T09:00:00Z", "event": "downstream_state"}\n')
    assert "among 1 event is no search and no call; --json shows" in run("events", "--config", str(config))[2]
    assert "no event is as you ask for" in run("events", "--config", str(config), "--session", "x")[2]
    config.write_text('{"toolcrib": {"events": {"level": "off"}}}')
    assert "toolcrib.events.level is off" in run("events", "--config", str(config))[2]


def test_a_time_that_is_none_is_refused_with_what_would_be_one(run: Run, config: Path):
    code, _out, err = run("events", "--config", str(config), "--since", "yesterday")
    assert code == 2
    assert "10m" in err


def test_what_a_command_of_the_person_did_is_marked_and_can_be_left_out(run: Run, config: Path, tmp_path: Path):
    events = tmp_path / "cache" / "events.jsonl"
    own = _event("tool_call", 0, "command-line", command="call", tool_name="time__now", ok=True, bytes=3)
    failed = _event("downstream_state", 0, None, command="index refresh", server="git", state="failed", reason="gone")
    events.write_text(events.read_text() + json.dumps(own) + "\n" + json.dumps(failed) + "\n")
    assert _shown(run, config)[-2:] == [
        "toolcrib call  → called time__now: ok, 3 bytes, 12 ms",
        "toolcrib index refresh  server git FAILED: gone",
    ]
    assert not [line for line in _shown(run, config, "--agents") if line.startswith("toolcrib")]
