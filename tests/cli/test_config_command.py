"""toolcrib config, and how the command line starts and ends."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from cli.command_line import Run
from toolcrib import __version__
from toolcrib.base.errors import StartRefused, ToolcribError
from toolcrib.cli import main
from toolcrib.cli.output import ExitCode, print_error

CONFIG = """
mcpServers:
  git: {command: mcp-server-git, args: [--token, "${GITHUB_TOKEN}"], env: {SECRET: canary-env}}
  web: {url: "https://canary-user:canary-pass@host/mcp?key=canary-query", headers: {X: canary-header}}
  old: {type: sse, url: "https://host/sse"}
  off: {command: x, disabled: true}
other: 1
toolcrib:
  http: {tokens: [{token: canary-token, subject: anna}]}
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    file = tmp_path / "good.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    return str(file)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    file = tmp_path / "bad.json"
    file.write_text('{"mcpServers": {"a": {}}, "toolcrib": {"gat\x1b[2Je": {}}}'.replace("\x1b", r"\u001b"))
    return str(file)


# config check


def test_check_counts_what_it_found_and_says_what_is_left_out(run: Run, good: str):
    code, out, err = run("config", "check", "--config", good)
    assert code == 0
    assert out == f"OK: {good} (servers: 3, skipped: 1, notices: 4)\n"
    assert "skipped: mcpServers.off: is disabled" in err
    assert "notice: " in err


def test_check_says_everything_that_is_wrong_on_stderr(run: Run, bad: str):
    code, out, err = run("config", "check", "--config", bad)
    assert code == ExitCode.CONFIG == 2
    assert out == ""
    assert "mcpServers.a: cannot be used: it needs a command or a url" in err
    assert "toolcrib.gat[2Je: is not a known key (did you mean gate?)" in err
    assert "\x1b" not in err


def test_check_says_which_keys_have_no_effect_and_why(run: Run, tmp_path: Path):
    file = tmp_path / "pasted.yaml"
    file.write_text("toolcrib: {tool_search: {fts_fallback_to_regex: false}, skills: {summarize: true}}")
    code, out, err = run("config", "check", "--config", str(file))
    assert (code, out.endswith("(servers: 0, skipped: 0, notices: 2)\n")) == (1, True)
    _no_servers, search, skills = err.splitlines()
    assert search.startswith("notice: toolcrib.tool_search.fts_fallback_to_regex: has no effect: full-text search")
    assert skills.startswith("notice: toolcrib.skills.summarize: has no effect: skills are shortened")


def test_check_answers_programs_in_json_either_way(run: Run, good: str, bad: str):
    code, out, err = run("config", "check", "--json", "--config", good)
    answer = json.loads(out)
    assert (code, err, answer["ok"], answer["servers"]) == (0, "", True, ["git", "web", "old"])
    assert answer["skipped"] == [{"path": "mcpServers.off", "reason": "is disabled", "hint": ""}]
    written_out = {"mcpServers.git.env.SECRET", "mcpServers.web.url", "toolcrib.http.tokens[0].token"}
    assert {notice["path"] for notice in answer["notices"]} == {good, *written_out}
    assert "canary" not in out

    code, out, err = run("config", "check", "--json", "--config", bad)
    answer = json.loads(out)
    assert (code, err, answer["ok"], answer["source"]) == (2, "", False, bad)
    assert {problem["path"] for problem in answer["problems"]} == {"mcpServers.a", "toolcrib.gat[2Je"}


def test_the_config_may_be_named_in_the_environment(run: Run, good: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOOLCRIB_CONFIG", good)
    assert run("config", "check")[1].startswith(f"OK: {good}")


# config show


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_show_prints_everything_in_effect_and_no_secret(as_json: list[str], run: Run, good: str, tmp_path: Path):
    code, out, err = run("config", "show", "--config", good, *as_json)
    assert (code, err) == (0, "")
    assert "canary" not in out
    shown: dict[str, Any] = json.loads(out) if as_json else yaml.safe_load(out)
    assert shown["toolcrib"]["limits"]["name_max"] == 64
    assert shown["toolcrib"]["http"]["tokens"][0]["token"] == "***"
    assert shown["mcpServers"]["git"]["args"] == ["--token", "***"]
    assert "SECRET" in shown["mcpServers"]["git"]["env"]
    assert shown["mcpServers"]["web"] == {"type": "http", "url": "https://host/mcp", "headers": {"X": "***"}}
    assert shown["mcpServers"]["old"]["type"] == "sse"
    assert shown["skipped"] == ["mcpServers.off: is disabled"]
    assert shown["cache_dir"].startswith(str(tmp_path / "cache"))


def test_show_of_a_wrong_config_is_an_error(run: Run, bad: str):
    code, out, err = run("config", "show", "--config", bad)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")


def test_secrets_in_arguments_are_masked_however_short(run: Run, tmp_path: Path):
    path = tmp_path / "args.json"
    path.write_text(json.dumps({"mcpServers": {"db": {"command": "x", "args": ["--password=12", "--port=12"]}}}))
    _, out, _ = run("config", "show", "--config", str(path), "--json")
    assert json.loads(out)["mcpServers"]["db"]["args"] == ["--password=***", "--port=12"]


def test_a_blank_behind_a_secret_in_arguments_is_masked_as_no_secret(run: Run, tmp_path: Path):
    path = tmp_path / "args.json"
    arguments = ["--header", "Authorization: Bearer tok "]
    path.write_text(json.dumps({"mcpServers": {"db": {"command": "x", "args": arguments}}}))
    _, out, _ = run("config", "show", "--config", str(path), "--json")
    assert json.loads(out)["mcpServers"]["db"]["args"] == ["--header", "Authorization: ***"]


# config path


def test_path_says_which_file_is_used_and_where_things_are(run: Run, good: str, tmp_path: Path):
    code, out, _ = run("config", "path", "--config", good, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["config"] == answer["source"] == good
    assert answer["events_file"] == f"{answer['cache_dir']}/events.jsonl"

    code, out, _ = run("config", "path")
    assert code == 0
    assert out.splitlines() == [
        "source: the built-in defaults",
        f"cache_dir: {tmp_path}/cache/toolcrib/default",
        f"tool_cache_dir: {tmp_path}/cache/toolcrib/default",
        f"state_dir: {tmp_path}/data/toolcrib/default",
        f"events_file: {tmp_path}/cache/toolcrib/default/events.jsonl",
    ]


# The command line


def test_help_names_every_command(run: Run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(name in out for name in ("serve", "demo", "config"))


def test_the_version_is_printed(run: Run):
    assert run("--version") == (0, f"toolcrib {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["nonsense"], ["config", "check", "--nonsense"]])
def test_a_wrong_command_line_exits_like_a_wrong_config(arguments: list[str], run: Run):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "nonsense" in err


def program(name: str, seen: list[list[str]], *, code: int = 7) -> ModuleType:
    """Stand in for the module of a command that reads its own arguments."""

    def main(argv: list[str], _begun: object = None) -> int:
        seen.append(argv)
        return code

    module = ModuleType(name)
    module.__dict__["main"] = main
    return module


@pytest.mark.parametrize("name", ["serve", "demo"])
def test_some_commands_get_their_arguments_as_they_are(name: str, run: Run, monkeypatch: pytest.MonkeyPatch):
    seen: list[list[str]] = []
    monkeypatch.setitem(sys.modules, f"toolcrib.cli.{name}", program(name, seen))
    assert run(name, "--help", "--port", "1", "-x", "y")[0] == 7
    assert seen == [["--help", "--port", "1", "-x", "y"]]


def test_serve_may_be_reached_through_the_other_commands_too(run: Run, monkeypatch: pytest.MonkeyPatch):
    from toolcrib.cli import app

    seen: list[list[str]] = []
    monkeypatch.setitem(sys.modules, "toolcrib.cli.serve", program("serve", seen, code=0))
    assert app.run(["serve", "--port", "1"]) == 0
    assert seen == [["--port", "1"]]


def test_without_arguments_the_command_line_of_the_process_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["toolcrib", "--version"])
    assert main() == 0
    assert __version__ in capsys.readouterr().out


def test_python_can_run_the_package():
    command = [sys.executable, "-m", "toolcrib", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"toolcrib {__version__}\n"


def test_serving_loads_nothing_that_only_people_need():
    code = (
        "import sys, types; stub = types.ModuleType('serve'); stub.main = lambda argv, begun: 0; "
        "sys.modules['toolcrib.cli.serve'] = stub; from toolcrib.cli import main; main(['serve']); "
        "print([m for m in ('typer', 'rich', 'click', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("error", "code"),
    [(ToolcribError("broken"), ExitCode.FAILED), (StartRefused("not safe"), ExitCode.REFUSED)],
)
def test_each_kind_of_error_has_its_exit_code(error: ToolcribError, code: ExitCode, capsys: pytest.CaptureFixture[str]):
    assert print_error(error) == code
    assert capsys.readouterr().err == f"Error: {error}\n"
