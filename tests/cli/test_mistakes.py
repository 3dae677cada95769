"""Mistakes of a person at the command line: each answer names what is wrong, where, and what mends it."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from fakes.menu import FakeServer, tool

SCREEN = 24
"""Lines of the smallest usual terminal."""


@pytest.fixture
def config(listed_once: Callable[..., str]) -> str:
    """A config with a server that works and is listed, one that fails, and one that is disabled."""

    def servers(folder: Path) -> dict[str, Any]:
        zoo = FakeServer(folder, "zoo", tools=[tool("echo", "Say it again.", {"text": "string"}, ["text"])])
        desk = FakeServer(folder, "desk", exit_at="spawn", stderr="no licence")
        return {"zoo": zoo.entry(), "desk": desk.entry(), "shed": {**zoo.entry(), "disabled": True}}

    return listed_once("mistakes", servers)


FILES = {
    "cut.json": '{\n  "mcpServers": {\n    "a": {"command": "x"',
    "comma.json": '{\n  "mcpServers": {"a": {"command": "x" "args": []}}}',
    "bracket.json": '{"mcpServers": {"a": {"command": "x", "args": ["y"}}}',
    "quote.json": '{"mcpServers": {"a": {"command": "x}}}',
    "cut.yaml": "mcpServers:\n  a: {command: x\n",
    "empty.json": "",
    "key.json": '{"toolcrib": {"gat": 1}}',
    "type.json": '{"toolcrib": {"limits": {"name_max": "many"}}}',
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["status", "--config", "none.json"], 2, ["none.json", "does not exist", "`toolcrib init --config"]),
        (["status", "--config", "cut.json"], 2, ["cut off in line 3", "expected }}}", "line 3, column 10"]),
        (["status", "--config", "comma.json"], 2, ["line 2, column 39", "expected a comma or } before a text"]),
        (["status", "--config", "bracket.json"], 2, ["line 1, column 51", "expected ]", "line 1, column 47"]),
        (["status", "--config", "quote.json"], 2, ["line 1, column 34", 'has no closing "']),
        (["status", "--config", "cut.yaml"], 2, ["line 3, column 1", "expected ',' or '}'"]),
        (["status", "--config", "empty.json"], 2, ["is empty", "write at least {}"]),
        (["status", "--config", "key.json"], 2, ["toolcrib.gat", "did you mean gate?"]),
        (["status", "--config", "type.json"], 2, ["toolcrib.limits.name_max", "must be a whole number"]),
        (["serv"], 2, ["'serv'", "Did you mean 'serve'"]),
        (["search"], 2, ["Missing argument 'query'", 'toolcrib search "create an issue"', "toolcrib search --help"]),
        (["search", "x", "--limit", "x"], 2, ["--limit", "must be a whole number", "toolcrib search --help"]),
        (["search", "x", "-n", "0"], 2, ["--limit", "greater than or equal to 1"]),
        (["search", "x", "-o", "yaml"], 2, ["--output", "'yaml' is none of text, json"]),
        (["search", "x", "--color"], 2, ["--color", "auto, always, never"]),
        (["tools", "lst"], 2, ["'lst'", "Did you mean 'list'"]),
        (["tools", "list", "-s", "zo"], 1, ["no server 'zo'", "did you mean zoo?"]),
        (["tools", "list", "-s", "desk"], 1, ["desk could not be listed", "no licence", "`toolcrib logs desk`"]),
        (["tools", "list", "-s", "shed"], 1, ["'shed' is left out", "is disabled"]),
        (["tools", "show", "zoo__ehco"], 1, ["Unknown tool: zoo__ehco", "zoo__echo"]),
        (["call", "desk__sort"], 1, ["Server desk", "no licence"]),
        (["call", "zoo.echo"], 1, ["text: is required", '"text":{"type":"string"}']),
        (["call", "zoo.echo", "hello"], 2, ["'hello' is neither key=value", "toolcrib call time__get_current_time"]),
        (["call", "zoo.echo", "text:={"], 2, ["text:=", "is not JSON", "line 1, column 2"]),
        (["call", "zoo.echo", "{bad"], 2, ["what begins with { is not JSON", "line 1, column 2"]),
        (["search", "x", "--type", "foo"], 2, ["'--type': 'foo' is not one of 'fts'"]),
        (["call", "zoo.echo", "@none.json"], 2, ["none.json cannot be read", "No such file"]),
        (["get", "zo"], 1, ["no server 'zo'", "did you mean zoo?"]),
        (["add", "zoo", "--", "x"], 1, ["already has a server zoo", "`toolcrib remove zoo`"]),
        (["events", "--since", "noon"], 2, ["'noon' is not valid", "2h", "toolcrib events --help"]),
        (["skills", "disable", "nosuch"], 1, ["Not found: nosuch", "`toolcrib skills list"]),
        (["allow", "nosuch"], 1, ["no tool or skill nosuch", "`toolcrib search`"]),
        (["connect", "nosuch"], 1, ["no client 'nosuch'", "claude-code"]),
        (["secret", "remove", "x"], 1, ["no secret 'x'", "`toolcrib secret set NAME`"]),
        (["login", "zoo"], 1, ["zoo does not use a login"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_the_answer_names_what_is_wrong_and_what_mends_it(
    command: list[str], code: int, said: list[str], run: Run, config: str, tmp_path: Path
):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    without = "--config" in command or command[0] in {"connect", "serv", "secret"}
    ends = len(command) if "--" not in command else command.index("--")
    found, out, err = run(*command[:ends], *([] if without else ["--config", config]), *command[ends:])
    assert (found, out) == (code, "")
    assert not [each for each in said if each not in err], err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= SCREEN


@pytest.mark.parametrize("command", [["search", "x"], ["call", "x"], ["tools", "list"], ["index", "refresh"]])
def test_without_a_config_the_command_that_writes_one_is_named(command: list[str], run: Run):
    code, _out, err = run(*command)
    assert code == 1
    assert "there is no config file" in err
    assert "`toolcrib init`" in err


def test_status_begins_with_what_to_do_where_there_is_no_server(run: Run, tmp_path: Path):
    code, out, _err = run("status")
    assert code == 0
    assert out.startswith("wrong    config: there is no config file, so there are no servers\n")
    assert out.splitlines()[1].startswith("           `toolcrib init`")
    (tmp_path / "empty.json").write_text("{}")
    assert "`toolcrib add` writes one" in run("status", "--config", str(tmp_path / "empty.json"))[1].splitlines()[1]


def test_a_wrong_option_of_serve_is_said_in_one_line(run: Run, capsys: pytest.CaptureFixture[str]):
    for arguments, said in (["--transport", "htttp"], "'stdio', 'http'"), (["--port", "x"], "--port"):
        with pytest.raises(SystemExit, match="2"):
            run("serve", *arguments)
        err = capsys.readouterr().err
        assert len(err.splitlines()) == 1
        assert said in err
        assert "`toolcrib serve --help`" in err


@pytest.mark.slow
def test_an_answer_that_is_none_is_named_and_asked_for_again(tmp_path: Path):
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    command = [sys.executable, "-m", "toolcrib", "import", str(file), "--config", str(tmp_path / "crib.json")]
    ours, theirs = pty.openpty()
    done = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    os.close(theirs)
    os.write(ours, b"maybe\nn\n")
    said, _ = done.communicate(timeout=60)
    os.close(ours)
    assert "'maybe' is no answer to that: type y or n" in said
    assert not (tmp_path / "crib.json").exists()
