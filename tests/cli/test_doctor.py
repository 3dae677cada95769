"""toolcrib doctor: each thing is looked at, and each finding says what mends it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Run
from fakes.menu import FakeServer, tool

PROGRAM = str(Path(sys.executable).parent / "toolcrib")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(PROGRAM).parent), "/usr/bin", "/bin"]))
    monkeypatch.setattr("toolcrib.cli.doctor.WITHIN_S", 60.0)  # a busy machine is slow too
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def _write(tmp_path: Path, servers: dict[str, Any], **toolcrib: Any) -> None:
    file = tmp_path / "etc" / "toolcrib" / "toolcrib.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers, "toolcrib": {"skills": {"enabled": False}, **toolcrib}}))


def _found(run: Run, *flags: str) -> tuple[int, dict[str, dict[str, str]]]:
    code, out, err = run("doctor", "--json", *flags)
    assert out, err
    return code, {f"{each['about']}: {each['level']}": each for each in json.loads(out)["findings"]}


def test_what_works_is_told_with_its_figures(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a", "b"]).entry()})
    assert run("connect", "cursor", "--yes")[0] == 0
    code, found = _found(run)
    assert code == 0
    assert "2 tools in " in found["server good: ok"]["text"]
    assert found["client cursor: ok"]["text"].endswith("mcp.json starts")
    code, out, _err = run("doctor")
    assert (code, "ok       server good: 2 tools" in out) == (0, True)


def test_a_server_that_fails_and_one_that_hangs_are_told_apart_and_how_to_go_on(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("toolcrib.cli.doctor.WITHIN_S", 3.0)
    bad = {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]}
    _write(tmp_path, {"bad": bad, "slow": FakeServer(tmp_path, "slow", hang_at="list").entry()})
    code, found = _found(run)
    assert code == 1
    assert "no licence" in found["server bad: error"]["text"]
    assert found["server bad: error"]["remedy"] == "toolcrib logs bad; toolcrib disable bad"
    assert found["server slow: warning"]["text"] == "no answer within 3 s"


def test_a_config_that_is_not_there_or_cannot_be_used_is_told(run: Run, home: Path, tmp_path: Path):
    code, found = _found(run)
    assert (code, "toolcrib init" in found["config: error"]["remedy"]) == (1, True)
    _write(tmp_path, {}, gat={})
    code, found = _found(run)
    assert (code, found["config: error"]["remedy"]) == (1, "did you mean gate?")


def test_an_entry_that_does_not_start_is_told_with_the_command_that_mends_it(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=["a"]).entry()})
    for name, entry in {
        ".cursor/mcp.json": {"command": str(tmp_path / "gone" / "toolcrib"), "args": ["serve"]},
        ".gemini/settings.json": {"command": PROGRAM, "args": ["serve", "--config", "/nowhere.json"]},
    }.items():
        (home / name).parent.mkdir()
        (home / name).write_text(json.dumps({"mcpServers": {"toolcrib": entry}}))
    code, found = _found(run)
    assert code == 1
    assert "No such file" in found["client cursor: error"]["text"]
    assert found["client cursor: error"]["remedy"] == "toolcrib connect cursor"
    assert "client gemini-cli: error" in found


def test_folders_that_are_missing_are_made_only_when_asked(run: Run, home: Path, tmp_path: Path):
    _write(tmp_path, {}, state_dir=str(tmp_path / "state"))
    _code, found = _found(run)
    assert found["state: warning"]["remedy"] == "toolcrib doctor --fix makes it"
    _code, found = _found(run, "--fix")
    assert "state: warning" not in found
    assert (tmp_path / "state").is_dir()


def test_names_that_some_clients_cut_are_told(run: Run, home: Path, tmp_path: Path):
    long = tool("a_tool_with_a_name_that_is_much_longer_than_it_has_to_be", "Long.")
    _write(tmp_path, {"good": FakeServer(tmp_path, "good", tools=[long]).entry()})
    _code, found = _found(run)
    assert "1 names are longer than 49 characters" in found["names: warning"]["text"]
