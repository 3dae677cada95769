"""Whether programs can run is told everywhere, and the command that adds them fits the installation."""

import importlib
import json
import shlex
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement

from cli.command_line import Run
from toolcrib.cli.extras import install_words, typed
from toolcrib.programs.installed import are_installed, has_build

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
NAMED = '{ name = "toolcrib", extras = ["semantic", "keyring"] }'
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


PIPX = f"pipx inject toolcrib {shlex.quote('pydantic-monty<2,>=1.4')}"


@pytest.mark.parametrize(
    ("file", "content", "command"),
    [
        ("pipx_metadata.json", "{}", "pipx inject crib 'monty>=1,<2'"),
        (
            "uv-receipt.toml",
            f"[tool]\nrequirements = [{NAMED}]\n",
            "uv tool install 'toolcrib[keyring,programs,semantic]'",
        ),
        ("uv-receipt.toml", '[tool]\nrequirements = [{ name = "toolcrib" }]\n', "uv tool install 'toolcrib[programs]'"),
        ("pyvenv.cfg", "", "/bin/python -m pip install 'toolcrib[programs]'"),
    ],
)
def test_the_command_is_that_of_what_has_installed_toolcrib(tmp_path: Path, file: str, content: str, command: str):
    prefix = tmp_path / "crib"
    prefix.mkdir()
    (prefix / file).write_text(content)
    assert shlex.join(install_words(prefix, "/bin/python", "monty>=1,<2", has_pip=True)) == command


@pytest.mark.parametrize(
    "receipt",
    [
        "",
        "not toml",
        f'[tool]\nrequirements = [{NAMED}, {{ name = "other" }}]\n',
        '[tool]\nrequirements = [{ name = "toolcrib", path = "/a.whl" }]\n',
        '[tool]\nrequirements = [{ name = "toolcrib", editable = "/a" }]\n',
        '[tool]\nrequirements = [{ name = "toolcrib", git = "https://a.example/a?rev=v1" }]\n',
        '[tool]\nrequirements = [{ name = "toolcrib", specifier = "==0.1" }]\n',
        f'[tool]\nrequirements = [{NAMED}]\n[tool.options]\nprerelease = "allow"\n',
    ],
)
def test_what_uv_would_forget_of_an_installation_it_is_not_asked_for_anew(tmp_path: Path, receipt: str):
    (tmp_path / "uv-receipt.toml").write_text(receipt)
    words = install_words(tmp_path, "/bin/python", "monty", has_pip=False)
    assert shlex.join(words) == "uv pip install --python /bin/python 'toolcrib[programs]'"


def test_on_windows_a_command_is_quoted_as_its_shells_read_it():
    words = (r"C:\v\python.exe", "-m", "pip", "install", "toolcrib[programs]", "monty>=1,<2", "a b")
    assert typed(words, "win32") == r'C:\v\python.exe -m pip install toolcrib[programs] "monty>=1,<2" "a b"'


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
    assert ("Programs are installed; restart the client." in out) == (answer == "y" and not code)
    assert ("It ended with 3: programs are not installed." in err) == bool(code)
    if answer == "y":
        assert pipx.read_text() == "inject toolcrib pydantic-monty<2,>=1.4\n"


def test_with_yes_nothing_is_asked_and_nothing_downloaded_at_a_terminal_either(
    run: Run, pipx: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(question: str) -> str:
        raise AssertionError(question)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", refuse)
    code, out, _err = run("connect", "cursor", "--yes")
    assert code == 0
    assert f"\n  {PIPX}\n" in out
    assert not pipx.exists()


def test_on_windows_it_is_named_and_never_run(run: Run, pipx: Path, monkeypatch: pytest.MonkeyPatch):
    windows = SimpleNamespace(platform="win32", prefix=sys.prefix, executable=sys.executable)
    monkeypatch.setattr("toolcrib.cli.extras.sys", windows)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    assert "pipx inject toolcrib" in run("connect", "cursor")[1]
    assert not pipx.exists()


def test_init_names_it_once_it_has_written(run: Run, pipx: Path):
    (pipx.parent / "home" / ".cursor").mkdir(parents=True)
    servers = {"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}
    (pipx.parent / "home" / ".cursor" / "mcp.json").write_text(json.dumps(servers))
    _code, out, _err = run("init", "--yes")
    assert f"\n  {PIPX}\nNext: " in out
    assert PIPX not in run("init", "--yes")[1]


def test_a_config_that_is_not_there_or_cannot_be_read_does_not_decide(
    run: Run, pipx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"toolcrib": {"programs": {"enabled": "off"}}}))
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(other))
    assert PIPX in run("connect", "cursor", "--yes", "--config", str(tmp_path / "new.json"))[1]
    (tmp_path / "new.json").write_text("{")
    code, out, _err = run("connect", "cursor", "--yes", "--config", str(tmp_path / "new.json"))
    assert code == 0
    assert PIPX not in out


def test_an_installer_that_is_not_on_the_search_path_is_named(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    code, _out, err = run("connect", "cursor")
    assert code == 1
    assert "pipx is not in the PATH of this shell" in err
