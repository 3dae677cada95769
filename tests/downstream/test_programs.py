"""By which files a server's program is known, and which changes of them show."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from toolcrib.config.settings import HttpTarget, StdioTarget
from toolcrib.downstream.programs import Freshness, Program


def target(
    command: str | Path, *args: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> StdioTarget:
    return StdioTarget(str(command), tuple(map(str, args)), {"PATH": os.defpath, **(env or {})}, cwd)


def mark(of: StdioTarget) -> str | None:
    return Program.find(of).mark()


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    write(path, text).chmod(0o755)
    return path


def rewrite(file: Path) -> None:
    file.write_text(file.read_text() + "# new\n")


def touch(file: Path) -> None:
    os.utime(file, ns=(1, 1))


def replace(file: Path) -> None:
    """Put a file of the same size and time in its place that is another one, reached by a link."""
    state = file.stat()
    other = write(file.with_name("other"), file.read_text())
    other.chmod(0o755)
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    file.unlink()
    file.symlink_to(other)


def remove(file: Path) -> None:
    file.unlink()


CHANGES = [rewrite, touch, replace, remove]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("changed", ["run", "server.py"])
def test_a_change_of_the_command_or_of_a_file_in_its_arguments_shows(
    tmp_path: Path, changed: str, change: Callable[[Path], None]
):
    program(tmp_path / "run")
    write(tmp_path / "server.py")
    of = target(tmp_path / "run", "--verbose", "server.py", "missing.py", cwd=tmp_path)
    before = mark(of)
    assert before == mark(of)
    change(tmp_path / changed)
    assert mark(of) != before


def test_the_command_is_what_the_servers_own_search_path_leads_to(tmp_path: Path):
    program(tmp_path / "later/run")
    of = target("run", env={"PATH": f"{tmp_path / 'first'}{os.pathsep}{tmp_path / 'later'}"})
    before = mark(of)
    assert Program.find(of).files == (tmp_path / "later/run",)
    program(tmp_path / "first/run")
    assert mark(of) != before


def test_a_file_is_found_behind_an_equals_sign_and_in_a_folder_that_another_argument_names(tmp_path: Path):
    settings, script = write(tmp_path / "settings.toml"), write(tmp_path / "project/weather.py")
    of = target("uv", "--directory", tmp_path / "project", f"--config={settings}", "run", "weather.py")
    assert Program.find(of) == Program(Freshness.FILES, (settings, script))


def test_folders_and_what_no_path_can_be_are_no_files(tmp_path: Path):
    program(tmp_path / "run")
    of = target(tmp_path / "run", tmp_path, ".", "", "a\0b", "x" * 5000, "/dev/null")
    assert Program.find(of).files == (tmp_path / "run",)


def test_a_command_that_is_nowhere_is_noticed_once_it_is_there(tmp_path: Path):
    of = target(tmp_path / "run")
    before = mark(of)
    program(tmp_path / "run")
    assert mark(of) not in (None, before)


# -- python -m -----------------------------------------------------------------------------------


class Environment:
    """A virtual environment that nobody can run, in which a distribution is installed."""

    def __init__(self, folder: Path) -> None:
        self.python = program(folder / "bin/python")
        write(folder / "pyvenv.cfg")
        self.site = folder / "lib/python3.13/site-packages"
        self.beginning = write(self.site / "mcp_server_git/__init__.py", "raise SystemExit('imported')")
        self.record = write(self.site / "mcp_server_git-1.2.dist-info/RECORD")
        write(self.site / "another-1.0.dist-info/RECORD")

    def target(self, module: str = "mcp_server_git") -> StdioTarget:
        return target(self.python, "-m", module, "--repository", ".")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def test_an_installed_module_is_known_by_its_beginning_and_its_distribution_and_is_not_imported(
    environment: Environment,
):
    files = (environment.python, environment.beginning, environment.record)
    assert Program.find(environment.target()) == Program(Freshness.FILES, files)
    assert "mcp_server_git" not in sys.modules


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("changed", ["python", "beginning", "record"])
def test_a_change_of_the_interpreter_the_module_or_its_record_shows(
    environment: Environment, changed: str, change: Callable[[Path], None]
):
    before = mark(environment.target())
    change(getattr(environment, changed))
    assert mark(environment.target()) != before


def test_another_version_of_the_distribution_shows(environment: Environment):
    before = mark(environment.target())
    environment.record.parent.rename(environment.site / "MCP.Server_Git-1.3.dist-info")
    assert mark(environment.target()) != before


def test_another_distribution_does_not_show(environment: Environment):
    before = mark(environment.target())
    rewrite(environment.site / "another-1.0.dist-info/RECORD")
    write(environment.site / "third-1.0.dist-info/RECORD")
    assert mark(environment.target()) == before


def test_a_module_under_development_is_known_by_all_its_sources(environment: Environment, tmp_path: Path):
    deep = write(tmp_path / "work/src/mine/tools/more.py")
    write(tmp_path / "work/src/mine/__main__.py")
    write(environment.site / "mine.pth", f"import something\n{tmp_path / 'work/src'}\n")
    of = environment.target("mine")
    before = mark(of)
    rewrite(deep)
    assert Program.find(of).freshness is Freshness.FILES
    assert mark(of) != before


@pytest.mark.parametrize("place", ["cwd", "PYTHONPATH"])
def test_a_module_is_found_beside_the_server_and_on_its_python_path(
    environment: Environment, tmp_path: Path, place: str
):
    file = write(tmp_path / "here/inner/one.py")
    env = {"PYTHONPATH": str(tmp_path / "here")} if place == "PYTHONPATH" else {}
    cwd = tmp_path / "here" if place == "cwd" else None
    of = target(environment.python, "-u", "-m", "inner.one", cwd=cwd, env=env)
    assert file in Program.find(of).files


@pytest.mark.parametrize("module", ["nowhere", "../mcp_server_git", "", "a" * 3000])
def test_a_module_that_is_not_found_goes_by_age(environment: Environment, module: str):
    assert Program.find(environment.target(module)) == Program(Freshness.AGE, (environment.python,))


# -- launchers, and what is far away -------------------------------------------------------------

COMMIT, DIGEST = "0123456789abcdef0123456789abcdef01234567", "ab" * 32


@pytest.mark.parametrize(
    "line",
    [
        "npx -y @modelcontextprotocol/server-everything@2025.11.25",
        "npx --package=server@1.2.3-beta.1 start",
        "npx -p server@1.2.3 start",
        "pnpm dlx server@1.2.3",
        "uvx mcp-server-git==2025.1.14",
        "uvx --python 3.12 mcp-server-git[extra]@2025.1.14",
        f"uvx --from git+https://example.org/x/y@{COMMIT} y",
        "/usr/local/bin/uvx.exe server==1.0",
        f"docker run -i --rm -e TOKEN mcp/server@sha256:{DIGEST}",
    ],
)
def test_what_a_launcher_runs_in_one_version_needs_no_look(line: str):
    assert Program.find(target(*line.split())) == Program(Freshness.VERSION)


@pytest.mark.parametrize(
    "line",
    [
        "npx -y @modelcontextprotocol/server-everything",
        "npx -y @scope/server@latest",
        "npx server@1",
        "npx server --user me@10.0.0.1",
        "uvx mcp-server-git",
        "uvx --with other==1.2.3 server",
        "uvx mcp-server-git>=1.2",
        "uvx --python 3.12",
        "uv run server",
        "docker run -i --rm mcp/server:1.2.3",
    ],
)
def test_what_a_launcher_downloads_in_any_version_goes_by_age(line: str):
    found = Program.find(target(*line.split()))
    assert (found, found.mark()) == (Program(Freshness.AGE), None)


def test_a_file_of_settings_makes_a_launched_program_no_known_one(tmp_path: Path):
    settings = write(tmp_path / "settings.json")
    assert Program.find(target("npx", "server", settings)) == Program(Freshness.AGE, (settings,))


def test_what_is_reached_by_http_goes_by_the_hour():
    found = Program.find(HttpTarget("https://example.org/mcp", {}))
    assert (found, found.mark()) == (Program(Freshness.HOUR), None)
