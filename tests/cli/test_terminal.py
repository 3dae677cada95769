"""What a person sees at a terminal of 60, 80 and 120 columns, with colour and without; and what a pipe gets."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from fakes.menu import FakeServer, tool
from toolcrib.cli import main

SGR = re.compile(r"\x1b\[[0-9;]*m")
LONG = "write_the_whole_quarterly_report_of_everything"
WORDS = "Says it again, as often as it is asked to, in words that are long enough to need more than one line."

COMMANDS = [
    ["status"],
    ["tools", "list"],
    ["tools", "list", "-n", "1"],
    ["tools", "show", "echo"],
    ["search", "say it again"],
    ["search", "nothing like this at all"],
    ["call", "zoo.echo"],
    ["call", "zoo.echo", "text=hi"],
    ["call", "nosuch"],
    ["index", "refresh"],
    ["index", "vocabulary"],
    ["skills", "list"],
    ["skills", "search", "review"],
    ["skills", "show", "nosuch"],
    ["skills", "doctor"],
    ["allow"],
    ["allow", "zoo.echo"],
    ["config", "check"],
    ["config", "path"],
    ["get", "zoo"],
    ["logs", "desk"],
    ["events"],
    ["lint"],
    ["tokens"],
    ["disable", "nosuch"],
    ["add", "zoo", "x"],
    ["status", "--config", "none.json"],
]
VERBATIM = {"tools show", "call zoo.echo text=hi", "logs desk"}
"""Commands that print a document or a result, whose lines are as long as they are."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


@pytest.fixture
def config(listed_once: Callable[..., str]) -> str:
    def servers(folder: Path) -> dict[str, Any]:
        tools = [tool("echo", WORDS, {"text": "string", "times": "integer"}, ["text"]), tool(LONG, WORDS)]
        zoo = FakeServer(folder, "zoo", tools=tools)
        desk = FakeServer(folder, "desk", exit_at="spawn", stderr="there is no licence for this desk on this machine")
        return {"zoo": zoo.entry(), "desk": desk.entry()}

    return listed_once("terminal", servers)


Look = Callable[..., tuple[str, str]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, config: str) -> Look:
    """Run a command at a terminal so wide, and return what it shows on stdout and on stderr."""

    def look(*command: str, columns: int) -> tuple[str, str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out := Terminal())
            patch.setattr(sys, "stderr", err := Terminal())
            main([*command, *([] if "--config" in command else ["--config", config])])
        return out.getvalue(), err.getvalue()

    return look


@pytest.mark.sampled
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_lines_end_between_words_and_no_name_is_broken(command: list[str], look: Look):
    is_verbatim = any(" ".join(command).startswith(each) for each in VERBATIM)
    for columns in (60, 80, 120):
        out, err = look(*command, columns=columns)
        for line in SGR.sub("", out + err).replace("\r", "\n").splitlines():
            # What is longer than the terminal is a single word: a path, or a name.
            assert len(line) <= columns or len(line.split()) <= 2 or is_verbatim, (columns, line)
        if command[:2] == ["tools", "list"] and "-n" not in command:
            assert f"zoo__{LONG}" in out
            words = {*SGR.sub("", out).replace(",", "").split()}
            assert {*WORDS.split(",", maxsplit=1)[0].split()} <= words, "no word is broken"


QUICK = (["status"], ["search", "say it again"])


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=[] if each in QUICK else [pytest.mark.slow]) for each in COMMANDS],
    ids=" ".join,
)
def test_colour_is_only_where_it_is_wanted(command: list[str], look: Look, run: Run, config: str, monkeypatch):
    assert "\x1b[" not in "".join(look(*command, "--color", "never", columns=80))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in "".join(look(*command, columns=80))
    monkeypatch.delenv("NO_COLOR")
    piped = run(*command, *([] if "--config" in command else ["--config", config]))
    assert "\x1b[" not in piped[1] + piped[2]


def test_names_headings_and_what_is_wrong_stand_out(look: Look, run: Run, config: str):
    assert "\x1b[1;31mwrong  \x1b[0m  desk:" in look("status", columns=80)[0]
    assert "\x1b[1mservers\x1b[0m  2, with 2 tools" in look("status", columns=80)[0]
    assert "\x1b[1mTOOL" in look("tools", "list", columns=120)[0]
    assert "  zoo__echo\x1b[0m(text: string, times?: integer)" in look("search", "say it again", columns=120)[0]
    assert "\x1b[1;31mError:\x1b[0m" in look("get", "nosuch", columns=80)[1]
    assert "\x1b[1;36m" in run("tools", "list", "--color", "always", "--config", config)[1], "as for a pager"


def test_a_description_stands_beside_its_name_or_below_it_where_there_is_no_room(look: Look):
    wide = SGR.sub("", look("tools", "list", columns=120)[0]).splitlines()
    assert wide[0].split() == ["TOOL", "LISTED", "WHAT", "IT", "DOES"]
    assert wide[1].startswith("zoo__echo ")
    narrow = SGR.sub("", look("tools", "list", columns=60)[0]).splitlines()
    assert narrow[0] == "zoo__echo  deferred"
    assert narrow[1].startswith("    Says it again,")


def test_status_begins_with_what_is_wrong_and_the_remedy_and_then_the_servers(run: Run, config: str):
    lines = run("status", "--config", config)[1].splitlines()
    assert lines[0].startswith("wrong    desk: ")
    assert "there is no licence for this desk" in lines[0]
    assert "toolcrib logs desk; toolcrib index refresh -s desk" in lines[1]
    assert lines[2] == "servers  2, with 2 tools; 1 of them failed"
    assert [line.split()[0] for line in lines if line.startswith(("config", "sqlite"))] == ["config", "sqlite"]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 120])
def test_a_real_terminal_gets_its_width_and_its_colours(columns: int, config: str):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    command = [sys.executable, "-m", "toolcrib", "tools", "list", "--config", config]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, env={**environment, "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while chunk := os.read(ours, 1 << 16):
                shown += chunk
    os.close(ours)
    assert process.returncode == 0
    text = shown.decode()
    assert "\x1b[1" in text
    assert max(len(line) for line in SGR.sub("", text).splitlines()) <= columns
    assert f"zoo__{LONG}" in text
