"""What a person is told while a command waits: which servers, how many, how long; on stderr, and out of the way."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.menu import FakeServer, tool
from toolcrib.cli import main, waiting
from toolcrib.cli.waiting import WaitingLine, listing_text, starting_text
from toolcrib.downstream.states import State, Status
from waiting import PATIENCE_S

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command with the servers of the fakes; ``terminal``: as if stderr were one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLCRIB_PARENT", raising=False)

    def run(*arguments: str, fake: FakeServer, terminal: bool) -> tuple[int, str, str]:
        file = tmp_path / "crib.json"
        file.write_text(json.dumps({"mcpServers": {"zoo": fake.entry()}, "toolcrib": {"cache_dir": "cache"}}))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
        code = main([*arguments, "--config", str(file)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeServer, str], None]:
    """Return what has a fake go on once so much is told of it; it is told of at once."""
    monkeypatch.setattr(waiting, "_FIRST_S", 0.05)
    monkeypatch.setattr(waiting, "_LINE_S", 0.05)
    show = WaitingLine._show

    def let_go_after(fake: FakeServer, said: str) -> None:
        def noted(line: WaitingLine, text: str) -> None:
            show(line, text)
            if said in text:
                fake.let_go()

        monkeypatch.setattr(WaitingLine, "_show", noted)

    return let_go_after


def test_a_person_at_a_terminal_sees_which_server_is_waited_for_until_it_is_over(
    run: Run, impatient: Callable[[FakeServer, str], None], tmp_path: Path
):
    fake = FakeServer(tmp_path, hold_at="list", exit_at="list")
    impatient(fake, "listing 1 of 1: zoo, ")
    code, out, err = run("index", "refresh", fake=fake, terminal=True)
    assert code == 1
    assert "so far" not in out
    *_, line = re.finditer(r"listing 1 of 1: zoo, \d+ s so far", err)
    after = err[line.end() :]
    assert after.startswith(f"\r{' ' * len(line[0])}\r"), "it is taken away before anything else is printed"
    assert "server zoo: it closed the connection; it exited with status 3" in after


def test_elsewhere_there_is_a_line_now_and_then_and_for_a_program_none(
    run: Run, impatient: Callable[[FakeServer, str], None], tmp_path: Path
):
    fake = FakeServer(tmp_path, hold_at="list", exit_at="list")
    impatient(fake, "listing 1 of 1: zoo, ")
    err = run("index", "refresh", fake=fake, terminal=False)[2]
    assert re.search(r"^listing 1 of 1: zoo, \d+ s so far$", err, re.MULTILINE)
    assert "\r" not in err
    fake.change(hold_at="call", slow_s={"list": 0.3})
    code, out, err = run("index", "refresh", "--json", fake=fake, terminal=False)
    assert (code, err) == (1, "")
    assert json.loads(out)[0]["failed"]


def test_what_takes_no_time_is_not_worth_a_word(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(waiting, "_FIRST_S", PATIENCE_S)
    fake = FakeServer(tmp_path, tools=[tool("echo", "Say it again.", {"text": "string"})])
    assert run("call", "echo", '{"text": "hi"}', fake=fake, terminal=True) == (0, '{"text": "hi"}\n', "")


def test_a_long_call_is_told_and_out_of_the_way_of_its_result(
    run: Run, impatient: Callable[[FakeServer, str], None], tmp_path: Path
):
    fake = FakeServer(tmp_path, tools=["sleep"], hold_at="call")
    impatient(fake, "calling zoo.sleep, ")
    run("index", "refresh", fake=fake, terminal=False)
    code, out, err = run("call", "zoo.sleep", '{"seconds": 0}', fake=fake, terminal=True)
    assert (code, "so far" in out) == (0, False)
    assert re.search(r"calling zoo\.sleep, \d+ s so far", err)
    assert err.endswith("\r")


def starting(**since: float) -> dict[str, Status]:
    return {key: Status(State.STARTING, since=at) for key, at in since.items()}


def test_those_that_take_the_longest_come_first():
    statuses = {**starting(quick=99, slow=86, slower=80, new=100), "up": Status(State.READY, since=1)}
    under_way = {"quick", "slow", "slower", "new", "waits"}
    statuses["waits"] = Status(State.SLEEPING, since=0)
    text = "listing 8 of 12: slower, 20 s so far; slow, 14 s so far; quick, 1 s so far; and 1 more"
    assert listing_text(statuses, under_way, 12, now=100.5) == text
    assert listing_text(statuses, {"waits"}, 12, now=100) == "listing 12 of 12: waiting for a turn"
    assert listing_text(statuses, set(), 12, now=100) == ""


def test_a_server_that_is_started_for_a_call_is_named():
    assert starting_text(starting(zoo=90), now=103.9) == "starting zoo, 13 s so far"
    assert starting_text({"zoo": Status(State.READY)}, now=100) == ""
