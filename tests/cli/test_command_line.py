"""The command line itself: help, completion, and how it says no to a person and to a program."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from toolcrib.cli.app import build
from toolcrib.cli.examples import EXAMPLES

COMMANDS = [
    [],
    *(["tools", each] for each in ("list", "show")),
    *(["skills", each] for each in ("list", "search", "show", "check", "enable", "disable")),
    *(["index", each] for each in ("refresh", "clear", "semantic", "vocabulary")),
    *(["config", each] for each in ("check", "show", "path")),
    *(
        [each]
        for each in (
            "init",
            "import",
            "connect",
            "disconnect",
            "uninstall",
            "add",
            "remove",
            "get",
            "logs",
            "doctor",
            "enable",
            "disable",
            "status",
            "search",
            "call",
            "lint",
            "eval",
            "tokens",
            "top",
            "events",
            "tools",
            "skills",
            "index",
            "config",
            "demo",
        )
    ),
]
SLOW_TO_IMPORT = ("rich", "pydantic", "mcp", "anyio", "sqlite3", "importlib.metadata")


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"github": {"command": "a"}, "gitlab": {"command": "b"}, "zoo": {"command": "c"}}}')
    return str(file)


# -- help ----------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: list[str], run: Run):
    code, out, err = run(*command, "-h")
    assert code == 0
    assert "usage" in (out + err).lower()


def test_serve_explains_itself(run: Run, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="0"):
        run("serve", "-h")
    out = capsys.readouterr().out
    assert "--transport" in out
    assert "Example: toolcrib serve --config mcp.json" in out


def test_help_waits_for_nothing_that_is_slow_to_import():
    code = (
        "import sys; from toolcrib.cli import main; main(['--help']); "
        f"print([m for m in {SLOW_TO_IMPORT} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


# -- completion ----------------------------------------------------------------------------------


def offered(run: Run, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Return what bash is offered for the last of these words."""
    monkeypatch.setenv("_TOOLCRIB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("toolcrib", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    code, out, err = run()
    assert (code, err) == (0, "")
    return out.split()


def test_a_shell_completes_commands_and_options(run: Run, monkeypatch: pytest.MonkeyPatch):
    assert offered(run, monkeypatch, "to") == ["top", "tokens", "tools"]
    assert offered(run, monkeypatch, "config", "ch") == ["check"]
    assert offered(run, monkeypatch, "status", "--js") == ["--json"]


@pytest.mark.parametrize("command", [["tools", "list"], ["lint"]], ids=" ".join)
def test_a_shell_completes_the_servers_of_the_config(
    command: list[str], run: Run, config: str, monkeypatch: pytest.MonkeyPatch
):
    assert offered(run, monkeypatch, *command, "--config", config, "--server", "git") == ["github", "gitlab"]


def test_a_shell_is_offered_nothing_where_the_config_is_wrong(run: Run, monkeypatch: pytest.MonkeyPatch):
    assert offered(run, monkeypatch, "tools", "list", "--config", "none.json", "--server", "git") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_had_for_each_shell(shell: str, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: (shell, f"/bin/{shell}"))
    code, out, _err = run("--show-completion")
    assert code == 0
    assert "_TOOLCRIB_COMPLETE" in out


# -- errors --------------------------------------------------------------------------------------


def problem(run: Run, *arguments: str) -> dict[str, Any]:
    """Run a command that fails, and return the error that a program gets."""
    code, out, err = run(*arguments, "--json")
    assert out == ""
    error = json.loads(err)["error"]
    assert error["exit_code"] == code
    return error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serch", "x"], "Did you mean 'search'"),
        (["search"], "Missing argument"),
        (["status", "--confg", "x"], "--config"),
        (["search", "x", "--limit", "0"], "--limit"),
        (["search", "x", "--type", "magic"], "magic"),
        (["call", "x", "{"], "is not JSON"),
    ],
)
def test_a_program_is_told_in_json_what_is_wrong_with_its_arguments(arguments: list[str], said: str, run: Run):
    error = problem(run, *arguments)
    assert (error["kind"], error["exit_code"]) == ("usage", 2)
    assert said in error["message"]


@pytest.mark.parametrize("command", [["status"], ["search", "x"], ["tools", "list"], ["config", "show"], ["lint"]])
def test_a_program_is_told_in_json_everything_that_is_wrong_with_the_config(
    command: list[str], run: Run, tmp_path: Path
):
    file = tmp_path / "bad.json"
    file.write_text('{"mcpServers": {"a": {}}, "toolcrib": {"gat": 1}}')
    error = problem(run, *command, "--config", str(file))
    assert (error["kind"], error["exit_code"], error["source"]) == ("config", 2, str(file))
    assert {each["path"] for each in error["problems"]} == {"mcpServers.a", "toolcrib.gat"}
    assert {"did you mean gate?"} <= {each["hint"] for each in error["problems"]}


def test_a_program_is_told_in_json_that_a_start_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOOLCRIB_PARENT", "1")
    error = problem(run, "tools", "list")
    assert (error["kind"], error["exit_code"]) == ("refused", 3)


def test_a_program_is_told_in_json_that_a_command_failed(run: Run):
    error = problem(run, "skills", "list", "--source", "nowhere")
    assert (error["kind"], error["exit_code"]) == ("failed", 1)
    assert "There is no skill from nowhere" in error["message"]


# -- examples ------------------------------------------------------------------------------------


def test_the_help_of_every_command_has_an_example_of_it(run: Run):
    for command in EXAMPLES:
        code, out, _err = run(*command.split(), "--help")
        assert code == 0
        assert f"Example: toolcrib {command}" in " ".join(out.split())


def test_every_command_has_an_example():
    app = build()
    groups = {group.name: group.typer_instance for group in app.registered_groups}
    names = [command.name for command in app.registered_commands if command.name]
    names += [
        f"{group} {command.name or command.callback.__name__}"
        for group, each in groups.items()
        for command in each.registered_commands
    ]
    assert {*names} == {*EXAMPLES}
