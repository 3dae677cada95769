"""Whether programs can run is told everywhere, and the command that adds them fits the installation."""

import importlib
import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from cli.command_line import Run
from toolcrib.cli.extras import install_words
from toolcrib.programs.installed import are_installed, has_build

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
RECEIPT = '[tool]\nrequirements = [{ name = "other" }, { name = "toolcrib", extras = ["semantic", "keyring"] }]\n'
MISSING = "their extra, toolcrib[programs], is not installed"


@pytest.fixture
def home(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home, where the extra is not installed and pipx has installed toolcrib."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("toolcrib.programs.installed.find_spec", lambda _name: None)
    monkeypatch.setattr("toolcrib.programs.installed.has_build", lambda *_machine: True)
    prefix = tmp_path / "venvs" / "toolcrib"
    prefix.mkdir(parents=True)
    (prefix / "pipx_metadata.json").touch()
    monkeypatch.setattr("sys.prefix", str(prefix))
    return tmp_path / "home"


@pytest.fixture
def pipx(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file to which the pipx on the search path writes what it is run with; it ends with EXIT."""
    folder = home.parent / "bin"
    folder.mkdir()
    program, told = folder / "pipx", home.parent / "told"
    program.write_text(f'#!/bin/sh\necho "$@" > {shlex.quote(str(told))}\nexit ${{EXIT:-0}}\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin")
    return told


PIPX = "pipx runpip toolcrib install 'toolcrib[programs]'"


@pytest.mark.parametrize(
    ("file", "content", "direct_url", "command"),
    [
        ("pipx_metadata.json", "{}", "", "pipx runpip crib install 'toolcrib[programs]'"),
        ("uv-receipt.toml", RECEIPT, "", "uv tool install 'toolcrib[keyring,programs,semantic]'"),
        (
            "uv-receipt.toml",
            RECEIPT,
            '{"url": "file:///a"}',
            "uv tool install 'toolcrib[keyring,programs,semantic] @ file:///a'",
        ),
        ("uv-receipt.toml", "not toml", "not json", "uv tool install 'toolcrib[programs]'"),
        ("pyvenv.cfg", "", '{"url": "file:///a"}', "/bin/python -m pip install 'toolcrib[programs]'"),
    ],
)
def test_the_command_is_that_of_what_has_installed_toolcrib(
    tmp_path: Path, file: str, content: str, direct_url: str, command: str
):
    prefix = tmp_path / "crib"
    prefix.mkdir()
    (prefix / file).write_text(content)
    assert shlex.join(install_words(prefix, "/bin/python", direct_url=direct_url or None, has_pip=True)) == command


def test_an_environment_without_pip_is_one_of_uv(tmp_path: Path):
    words = install_words(tmp_path, "/bin/python", direct_url=None, has_pip=False)
    assert shlex.join(words) == "uv pip install --python /bin/python 'toolcrib[programs]'"


def test_there_is_a_build_where_the_extra_brings_one():
    extras: Any = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    marker = Requirement(extras["programs"][0]).marker
    assert marker is not None
    machines = [
        *(("linux", machine, "glibc") for machine in ("x86_64", "aarch64", "riscv64")),
        *(("darwin", machine, "") for machine in ("x86_64", "arm64")),
        *(("win32", machine, "") for machine in ("AMD64", "ARM64")),
        ("freebsd14", "amd64", ""),
    ]
    for python in ("CPython", "PyPy"):
        for system, machine, libc in machines:
            named = {"platform_python_implementation": python, "sys_platform": system, "platform_machine": machine}
            assert has_build(system, machine, python, libc) == marker.evaluate(named), named
    # What no marker can say.
    assert not has_build("linux", "x86_64", "CPython", "")


def test_status_and_doctor_say_what_is_missing_and_how_to_get_it(run: Run, home: Path):
    code, out, _err = run("status")
    assert code == 0
    assert f"programs off: {MISSING}\n         {PIPX}\n" in out
    assert json.loads(run("status", "--json")[1])["programs"] == {"state": "off", "reason": MISSING, "install": PIPX}
    findings = json.loads(run("doctor", "--json")[1])["findings"]
    [found] = [each for each in findings if each["about"] == "programs"]
    assert (found["level"], found["text"], found["remedy"]) == ("ok", f"tool_run is off: {MISSING}", PIPX)


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ({"programs": {"enabled": "off"}}, "programs.enabled is off"),
        ({"tool_search": {"enabled": False}}, "tool_search.enabled is false"),
    ],
)
def test_what_a_person_has_switched_off_is_not_missing(
    run: Run, home: Path, tmp_path: Path, section: dict[str, Any], reason: str
):
    config = tmp_path / "crib.json"
    config.write_text(json.dumps({"toolcrib": section}))
    told = json.loads(run("status", "--json", "--config", str(config))[1])["programs"]
    assert told == {"state": "off", "reason": reason, "install": None}
    assert "tool_run" not in run("connect", "cursor", "--yes", "--config", str(config))[1]


def test_a_folder_that_an_uninstall_has_left_behind_is_no_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "pydantic_monty", raising=False)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    (tmp_path / "pydantic_monty").mkdir()
    assert not are_installed()
    (tmp_path / "pydantic_monty" / "__init__.py").touch()
    importlib.invalidate_caches()
    assert are_installed()


def test_where_there_is_no_build_nothing_is_to_be_installed(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.programs.installed.has_build", lambda *_machine: False)
    told = json.loads(run("status", "--json")[1])["programs"]
    assert told == {"state": "off", "reason": "their interpreter has no build for this machine", "install": None}


@pytest.mark.slow
def test_doctor_starts_a_worker(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pydantic_monty", reason="the extra toolcrib[programs] is not installed")

    def programs() -> dict[str, Any]:
        return {each["about"]: each for each in json.loads(run("doctor", "--json")[1])["findings"]}["programs"]

    assert (programs()["level"], programs()["text"]) == ("ok", "tool_run is on")
    monkeypatch.setattr("sys.executable", str(tmp_path / "nothing"))
    assert (programs()["level"], programs()["text"][:21]) == ("warning", "programs cannot run: ")


@pytest.mark.parametrize("already", [False, True])
def test_connect_names_the_command_and_downloads_nothing_by_itself(run: Run, pipx: Path, already: bool):
    if already:
        assert run("connect", "cursor", "--yes")[0] == 0
    code, out, _err = run("connect", "cursor", "--yes")
    assert code == 0
    assert f"\n  {PIPX}\n" in out
    told = json.loads(run("connect", "cursor", "--yes", "--json")[1])
    assert told["message"] == "Cursor is already connected."
    assert not pipx.exists()


@pytest.mark.parametrize(
    ("answer", "fails", "code"), [("n", "0", 0), ("y", "0", 0), ("y", "3", 1)], ids=["no", "yes", "it fails"]
)
def test_at_a_terminal_connect_asks_and_runs_it(
    run: Run, pipx: Path, monkeypatch: pytest.MonkeyPatch, answer: str, fails: str, code: int
):
    asked: list[str] = []

    def answered(question: str) -> str:
        asked.append(question)
        return answer if "downloads" in question else "y"

    monkeypatch.setenv("EXIT", fails)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", answered)
    got, out, err = run("connect", "cursor")
    assert (got, len(asked)) == (code, 2)
    assert pipx.exists() == (answer == "y")
    assert ("Programs are installed." in out) == (answer == "y" and not code)
    assert ("It ended with 3: programs are not installed." in err) == bool(code)
    if answer == "y":
        assert pipx.read_text() == "runpip toolcrib install toolcrib[programs]\n"
    assert run("connect", "cursor", "--yes")[1].startswith("Cursor is already connected.")


def test_an_installer_that_is_not_on_the_search_path_is_named(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    code, _out, err = run("connect", "cursor")
    assert code == 1
    assert "pipx is not in the PATH of this shell" in err
