"""Hosts that can ask their person get the question whether a tool may run, and what they answer is obeyed."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.npm import HOW_TO_INSTALL, find
from hosts.launching import HOSTS, Launch, Place
from hosts.running import USED, Run, crib, hosts_folder, installed, run

pytestmark = pytest.mark.full(group="hosts")

CONFIRM = {"policy": {"confirm": {"tools": [USED]}}}

Started = Callable[[str], tuple[Run, list[str]]]


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """Return what runs a host whose every call has to be confirmed, and what was answered each time."""
    npm, folder = find(os.environ), hosts_folder(os.environ)

    def start(name: str) -> tuple[Run, list[str]]:
        package = HOSTS[name].package
        if npm is None:
            pytest.skip(HOW_TO_INSTALL)
        if installed(folder, package) is None:
            pytest.skip(f"needs {package}: run scripts/install-hosts")
        behind = crib(tmp_path / name, CONFIRM)
        seen = run(name, npm, folder, behind, approved=True)
        assert (seen.exit_code, seen.model.faults) == (0, []), seen.said
        lines = (behind.folder / "cache" / "events.jsonl").read_text(encoding="utf-8").splitlines()
        events = [event for event in map(json.loads, lines) if event["event"] == "confirmation"]
        return seen, [event["answer"] for event in events]

    return start


@pytest.mark.parametrize(("name", "answer"), [("claude-code", "dismissed"), ("codex", "no"), ("copilot", "no")])
def test_a_host_without_a_person_says_no_and_nothing_runs(started: Started, name: str, answer: str):
    seen, answers = started(name)
    assert answers == [answer, answer]  # for tool_call_read and for tool_call
    assert seen.ran == frozenset()
    for step in ("read", "call"):
        assert f"toolcrib allow {USED}" in seen.answers[step]


@pytest.mark.parametrize("answer", ["once", "this session"])
def test_a_host_that_answers_yes_gets_its_call_and_is_asked_as_often_as_it_said(
    started: Started, monkeypatch: pytest.MonkeyPatch, answer: str
):
    host = HOSTS["claude-code"]

    def launch(place: Place) -> Launch:
        said = {"hookEventName": "Elicitation", "action": "accept", "content": {"answer": answer}}
        place.write("said.json", {"hookSpecificOutput": said})
        hook = {"type": "command", "command": f"cat {place.home / 'said.json'}"}
        place.write(".claude/settings.json", {"hooks": {"Elicitation": [{"hooks": [hook]}]}})
        return host.launch(place)

    monkeypatch.setitem(HOSTS, "claude-code", replace(host, launch=launch))
    seen, answers = started("claude-code")
    assert seen.ran >= {"read", "call"}
    assert answers == [answer] * (len(seen.ran) if answer == "once" else 1)
