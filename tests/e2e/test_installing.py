"""Installed from a built wheel into an empty home, with each tool that the documents name: used, upgraded, removed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from release_rehearsal import HELLO, build

from toolcrib import __version__

pytestmark = pytest.mark.full(group="release")

ROOT = Path(__file__).resolve().parents[2]
NEXT_VERSION = f"{__version__}.post1"
INSTALL_S = 400
RUN_S = 90
OF_INSTALLERS = ("toolcrib-venv", ".cache/uv", ".local/share/pipx", ".local/state/pipx")
"""Where the installers keep caches, locks and logs of their own."""

PASSED_ON = re.compile(r"(PIP|UV|SSL|REQUESTS)_\w+|\w+_(PROXY|proxy)")
"""What a machine needs to reach its package index."""


@dataclass(frozen=True)
class Home:
    """An empty home, and a shell in it that nobody has set up."""

    path: Path

    def run(self, *command: object, at: Path | None = None, given: str = "", seconds: float = RUN_S) -> tuple[int, str]:
        """Run a command; return its exit code, and what it prints or, where that is nothing, its errors."""
        environment = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
        environment |= {"HOME": str(self.path), "PATH": f"{self.path / '.local' / 'bin'}{os.pathsep}{os.defpath}"}
        done = subprocess.run(
            [str(each) for each in command],
            env=environment,
            cwd=at or self.path,
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return done.returncode, done.stdout or done.stderr

    def done(self, *command: object, at: Path | None = None, given: str = "", seconds: float = RUN_S) -> str:
        """Run a command that must end well, and return what it prints."""
        code, said = self.run(*command, at=at, given=given, seconds=seconds)
        assert code == 0, f"{' '.join(map(str, command))} ended with {code}: {said}"
        return said


Command = Callable[[Path], Sequence[object]]


@dataclass(frozen=True)
class Installer:
    """One way to have toolcrib, as docs/install.md names it: its commands, and the program that is there then."""

    program: Path
    install: Command
    upgrade: Command
    uninstall: Sequence[object]


def with_demo(wheel: Path) -> str:
    return f"toolcrib[demo] @ {wheel.as_uri()}"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build this version, and the same source as the next one."""
    folder = tmp_path_factory.mktemp("wheels")
    sdist, wheel = build(folder)
    source = folder / "next"
    with tarfile.open(sdist) as archive:
        archive.extractall(source, filter="data")
    (tree,) = source.iterdir()
    constant = tree / "server" / "toolcrib" / "__init__.py"
    text = constant.read_text(encoding="utf-8")
    (tree / "PKG-INFO").unlink()  # it would say the version before
    constant.write_text(text.replace(f'"{__version__}"', f'"{NEXT_VERSION}"'), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(source)],
        cwd=tree,
        check=True,
        capture_output=True,
        timeout=RUN_S,
    )
    (later,) = source.glob("*.whl")
    return wheel, later


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


def tool_of(name: str, folder: Path) -> Path:
    """Install a tool that installs programs into an environment of the test's own; skip where it cannot be had."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=INSTALL_S)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "-q", name]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        pytest.skip(f"{name} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return folder / "bin" / name


def pip_in(home: Home, _folder: Path) -> Installer:
    environment = home.path / "toolcrib-venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=INSTALL_S)
    pip = (environment / "bin" / "pip", "-q")
    return Installer(
        environment / "bin" / "toolcrib",
        lambda wheel: (*pip, "install", with_demo(wheel)),
        lambda wheel: (*pip, "install", "--upgrade", with_demo(wheel)),
        (*pip, "uninstall", "--yes", "toolcrib"),
    )


def pipx_in(home: Home, folder: Path) -> Installer:
    pipx = tool_of("pipx", folder)
    install = (pipx, "install", "--quiet", "--python", sys.executable)
    return Installer(
        home.path / ".local" / "bin" / "toolcrib",
        lambda wheel: (*install, with_demo(wheel)),
        lambda wheel: (*install, "--force", with_demo(wheel)),
        (pipx, "uninstall", "toolcrib"),
    )


def uv_in(home: Home, folder: Path) -> Installer:
    uv = tool_of("uv", folder)
    install = (uv, "tool", "install", "--quiet", "--python", sys.executable)
    return Installer(
        home.path / ".local" / "bin" / "toolcrib",
        lambda wheel: (*install, with_demo(wheel)),
        lambda wheel: (*install, "--reinstall", with_demo(wheel)),
        (uv, "tool", "uninstall", "toolcrib"),
    )


@pytest.fixture(params=[pip_in, pipx_in, uv_in], ids=["pip", "pipx", "uv"])
def installer(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> Installer:
    return request.param(home, tmp_path / "installer")


def list_once(home: Home, command: Sequence[object], at: Path) -> list[str]:
    """Say hello to a server as a client does, and return the names of its tools."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in HELLO)
    said = home.done(*command, at=at, given=lines)
    answers = {message.get("id"): message for message in map(json.loads, said.splitlines())}
    return [tool["name"] for tool in answers[2]["result"]["tools"]]


def test_it_is_installed_used_upgraded_and_removed_without_a_trace(
    home: Home, installer: Installer, wheels: tuple[Path, Path], tmp_path: Path
):
    wheel, later = wheels
    home.done(*installer.install(wheel), seconds=INSTALL_S)
    program = installer.program
    assert home.done(program, "--version") == f"toolcrib {__version__}\n"

    # The examples as they stand, from a copy of the repository's own.
    repository = tmp_path / "repository"
    shutil.copytree(ROOT / "docs" / "examples", repository / "docs" / "examples")
    shutil.copy(ROOT / "mcp.json.example", repository)
    example = ("--config", "docs/examples/toolcrib.yaml")
    assert home.done(program, "config", "check", *example, at=repository).startswith("OK: ")
    assert "time: 2 tools" in home.done(program, "index", "refresh", *example, at=repository)
    assert "git__git_log" in home.done(program, "search", "commit log", *example, at=repository)
    registered = json.loads((repository / "mcp.json.example").read_text(encoding="utf-8"))["mcpServers"]["toolcrib"]
    command = program if registered["command"] == "toolcrib" else registered["command"]
    listed = list_once(home, [command, *registered["args"]], repository)
    assert {"tool_search", "time__get_current_time"} <= set(listed)

    home.done(*installer.upgrade(later), seconds=INSTALL_S)
    assert home.done(program, "--version") == f"toolcrib {NEXT_VERSION}\n"
    assert "git__git_log" in home.done(program, "search", "commit log", *example, at=repository), "the index is kept"

    kept = json.loads(home.done(program, "config", "path", "--json", *example, at=repository))
    home.done(*installer.uninstall)
    assert not program.exists()
    for folder in {Path(kept["cache_dir"]).parent, Path(kept["state_dir"]).parent}:
        assert folder.name == "toolcrib"
        shutil.rmtree(folder, ignore_errors=True)
    left = [path.relative_to(home.path) for path in home.path.rglob("*toolcrib*")]
    ours = [path for path in left if not any(path.is_relative_to(folder) for folder in OF_INSTALLERS)]
    assert ours == [], "what docs/install.md says is all there is"


def test_the_documents_name_each_way_and_every_folder():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    for command in ("pipx install", "uv tool install", "pip install", "pipx upgrade", "uv tool upgrade"):
        assert command in page
    for command in (
        "pipx uninstall",
        "uv tool uninstall",
        "pip uninstall",
        "~/.cache/toolcrib",
        "~/.local/share/toolcrib",
    ):
        assert command in page
