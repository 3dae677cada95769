"""Running toolcribs asked from a terminal: status, top and events, while they serve and when they were killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.menu import FakeServer
from serve.served import PATIENCE_S, Served, environment, served
from serve.test_terminal import at_a_terminal

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOOLCRIB = [sys.executable, "-m", "toolcrib"]


async def _asked(folder: Path, *arguments: str) -> str:
    """Return what a command prints while toolcrib serves."""
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [*TOOLCRIB, *arguments],
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
    )
    return done.stdout


async def _running(folder: Path, count: int) -> list[dict[str, Any]]:
    """Wait until so many toolcribs tell of themselves, and of their sessions, and return what they tell."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            found = json.loads(await _asked(folder, "top", "--json"))
            if len(found) == count and all(each["sessions"] for each in found):
                return found


async def _used(crib: Served) -> None:
    await crib.initialize()
    await crib.tool("tool_search", query="echo")
    await crib.tool("tool_call", name="zoo__echo", arguments={"text": "x"})


async def test_status_tells_of_all_that_run_and_not_of_one_that_was_killed(tmp_path: Path):
    fake = FakeServer(tmp_path, "zoo")
    async with served(tmp_path, fake) as one, served(tmp_path, fake) as two:
        await _used(one)
        await two.initialize()
        found = await _running(tmp_path, 2)
        assert {each["pid"] for each in found} == {one.process.pid, two.process.pid}
        config = ["--config", str(tmp_path / "toolcrib.json")]
        with anyio.fail_after(PATIENCE_S):
            while "1 search, 1 call;" not in (shown := await _asked(tmp_path, "status", *config)):
                pass
        assert "running  2 toolcribs" in shown
        assert f"local-{one.process.pid}.1 (test): 1 search, 1 call; asked" in shown
        assert "activated: zoo__echo" in shown
        listed = json.loads(await _asked(tmp_path, "status", "--json", *config))
        assert {each["pid"] for each in listed["running"]} == {one.process.pid, two.process.pid}
        two.process.kill()
        await two.ended()
        assert [each["pid"] for each in await _running(tmp_path, 1)] == [one.process.pid]
    assert json.loads(await _asked(tmp_path, "top", "--json")) == []


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_top_shows_them_anew_and_gives_the_terminal_back(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    with at_a_terminal([*TOOLCRIB, "top"], tmp_path) as terminal:
        terminal.until("running  0 toolcribs")
        terminal.type(key)
        assert terminal.ended() == 0
        terminal.until("\x1b[?1049l")
    assert "Traceback" not in terminal.shown
    assert terminal.shown.count("\x1b[?1049h") == terminal.shown.count("\x1b[?1049l") == 1


async def test_top_prints_once_where_there_is_no_terminal(tmp_path: Path):
    assert await _asked(tmp_path, "top") == "running  0 toolcribs\n"


def test_events_are_followed_until_an_interrupt(tmp_path: Path):
    config, events = tmp_path / "toolcrib.json", tmp_path / "events.jsonl"
    config.write_text(json.dumps({"toolcrib": {"events": {"file": str(events)}}}))
    with at_a_terminal([*TOOLCRIB, "events", "--follow", "--config", str(config)], tmp_path) as terminal:
        terminal.until("nothing was written")
        for number in range(2):
            with events.open("a") as file:
                file.write(json.dumps({"event": "skill_get", "ts": "", "names": [f"skill-{number}"]}) + "\n")
            terminal.until(f"skill-{number}")
        terminal.type("\x03")
        assert terminal.ended() == 0
    assert "Traceback" not in terminal.shown
