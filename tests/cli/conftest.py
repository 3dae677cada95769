"""The command line in an empty directory, for tests that bring their own config."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.command_line import Run
from toolcrib.cli import app, main


@pytest.fixture(scope="session")
def _command_line() -> Callable[[str], Any]:
    """Return what makes the command line as Typer makes it of our functions: once for each command, it takes longer."""
    build = app.build
    return functools.cache(lambda wanted: typer.main.get_command(build(wanted)))


@pytest.fixture(autouse=True)
def _made_once(monkeypatch: pytest.MonkeyPatch, _command_line: Callable[[str], Any]) -> None:
    monkeypatch.setattr(app, "build", _command_line)


@pytest.fixture
def in_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run commands in an empty project, as a person who has nothing in their home."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TOOLCRIB_PARENT", raising=False)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run the command line in an empty directory, with an environment of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "etc"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    for name in ("TOOLCRIB_CONFIG", "TOOLCRIB_CACHE_DIR", "TOOLCRIB_STATE_DIR", "TOOLCRIB_PARENT", "UNSET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GITHUB_TOKEN", "canary-variable")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session")
def _listed_folders() -> dict[str, Path]:
    """Return the folders whose servers were listed, by name."""
    return {}


@pytest.fixture
def listed_once(
    _listed_folders: dict[str, Path], run: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Callable[[Path], dict[str, Any]]], str]:
    """Give each test its copy of a config whose servers were listed for the first test that asked for that name."""

    def listed_once(name: str, servers: Callable[[Path], dict[str, Any]]) -> str:
        if name not in _listed_folders:
            folder = tmp_path_factory.mktemp(name)
            document = {"mcpServers": servers(folder), "toolcrib": {"cache_dir": "cache"}}
            (folder / "crib.json").write_text(json.dumps(document))
            run("index", "refresh", "--config", str(folder / "crib.json"))
            _listed_folders[name] = folder
        shutil.copytree(_listed_folders[name], tmp_path, dirs_exist_ok=True)
        return str(tmp_path / "crib.json")

    return listed_once
