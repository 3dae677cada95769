"""``toolcrib serve`` started by hand: it says what it is waiting for, and ends at once when told to."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from fakes.menu import FakeServer
from serve.served import PATIENCE_S, command, environment, write_config

pytestmark = pytest.mark.slow

WITH_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes its stdin the terminal that sends signals, as a shell does, and becomes the command."""


class Terminal:
    """A process at a terminal of its own; ``shown`` is what the person has seen so far."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process, self._fd, self.shown = process, fd, ""

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, words: str) -> None:
        """Read what is shown until ``words`` stand there."""
        end = monotonic() + PATIENCE_S
        while words not in self.shown:
            readable, _, _ = select.select([self._fd], [], [], max(end - monotonic(), 0))
            assert readable, f"not shown in time: {words!r}; shown: {self.shown!r}"
            self.shown += os.read(self._fd, 65_536).decode()

    def ended(self) -> int:
        return self.process.wait(PATIENCE_S)


@contextmanager
def at_a_terminal(arguments: list[str], folder: Path) -> Generator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_A_TERMINAL, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(folder),
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        os.close(ours)


def test_it_says_what_it_is_waiting_for_and_ends_with_one_interrupt(tmp_path: Path):
    fake = FakeServer(tmp_path)
    with at_a_terminal(command(write_config(tmp_path, fake)), tmp_path) as terminal:
        terminal.until("waiting for an MCP client")
        terminal.until("^C ends it.")
        terminal.type("\x03")
        assert terminal.ended() == 0
    assert "Traceback" not in terminal.shown
    assert "serving 1 server on stdio" in terminal.shown
    assert fake.survivors() == []


def test_the_signal_to_terminate_ends_it_without_a_key(tmp_path: Path):
    with at_a_terminal(command(write_config(tmp_path)), tmp_path) as terminal:
        terminal.until("^C ends it.")
        terminal.process.terminate()
        assert terminal.ended() == 0


def test_the_end_of_input_ends_it(tmp_path: Path):
    with at_a_terminal(command(write_config(tmp_path)), tmp_path) as terminal:
        terminal.until("^C ends it.")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_a_message_typed_by_hand_is_answered(tmp_path: Path):
    with at_a_terminal(command(write_config(tmp_path)), tmp_path) as terminal:
        terminal.until("^C ends it.")
        terminal.type('{"jsonrpc": "2.0", "id": 7, "method": "ping"}\n')
        terminal.until('"result":{}')
        terminal.type("\x03")
        assert terminal.ended() == 0


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_an_interrupt_while_it_starts_shows_no_traceback(tmp_path: Path, transport: str):
    fake = FakeServer(tmp_path, hang_at="initialize")
    arguments = command(write_config(tmp_path, fake), "--transport", transport, "--port", "0")
    with at_a_terminal(arguments, tmp_path) as terminal:
        terminal.until("serving")
        terminal.type("\x03")
        assert terminal.ended() == 0
    assert "Traceback" not in terminal.shown
    assert fake.survivors() == []
