"""What a server's command starts: which program, with which environment, and never toolcrib itself."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PureWindowsPath

from toolcrib.base.errors import StartRefused
from toolcrib.base.text import glob_matcher
from toolcrib.config.settings import StdioTarget

PARENT_MARKER = "TOOLCRIB_PARENT"
"""Set in the environment of every server that toolcrib starts."""

_OURSELVES = "toolcrib"
_LAUNCHER_OPTIONS_WITH_VALUE = frozenset(
    "--from --with --with-editable --with-requirements --python -p --index --default-index --index-url -i "
    "--extra-index-url --directory --project --spec --pip-args --env-file --extra --group -X -W".split()
)
"""Options of uv, pipx and Python that take the next argument."""


def refuse_nested(environ: Mapping[str, str]) -> None:
    """Refuse to go on in a process that a toolcrib has started.

    Raises:
        StartRefused: the environment has the marker.

    """
    if environ.get(PARENT_MARKER):
        raise StartRefused(
            "This toolcrib was started by another toolcrib, which would recurse without end. Remove the entry that "
            "starts it from mcpServers, and list the servers behind it there instead."
        )


def starts_toolcrib(command: str, args: Sequence[str]) -> bool:
    """Return whether a command line plainly starts toolcrib: by itself, with uv or pipx, or as a Python module."""
    program = PureWindowsPath(command).name.lower()
    program = program.removesuffix(".exe").removesuffix(".cmd").removesuffix(".bat")
    if program == "uvx":
        return _runs_package(args)
    if program in ("uv", "pipx"):
        # "uv tool run" is "uv run" of a package.
        rest = args[1:] if args[:1] == ["tool"] else args
        return rest[:1] == ["run"] and _runs_package(rest[1:])
    if program.startswith(("python", "pypy")) or program == "py":
        return module_of(args) == _OURSELVES
    return program == _OURSELVES


def _runs_package(args: Sequence[str]) -> bool:
    """Whether ``--from`` or ``--spec``, or else the first argument that is no option, is our package."""
    rest = iter(args)
    for arg in rest:
        if not arg.startswith("-"):
            return _package(arg) == _OURSELVES
        # "--from=toolcrib" is one argument, "--from toolcrib" two.
        name, equals, value = arg.partition("=")
        if not equals and name in _LAUNCHER_OPTIONS_WITH_VALUE:
            value = next(rest, "")
        if name in ("--from", "--spec"):
            return _package(value) == _OURSELVES
        if name == "-m":
            return next(rest, "") == _OURSELVES
    return False


def _package(requirement: str) -> str:
    """Return the name in a requirement such as ``toolcrib[demo]>=1`` or ``toolcrib@latest``."""
    end = next((i for i, char in enumerate(requirement) if not (char.isalnum() or char in "-_.")), None)
    return requirement[:end].lower()


def module_of(args: Sequence[str]) -> str | None:
    """Return the module that a Python with these arguments runs (``-m``); None if it runs something else."""
    rest = iter(args)
    for arg in rest:
        if arg == "-m":
            return next(rest, None)
        if not arg.startswith("-"):
            return None
        if arg in _LAUNCHER_OPTIONS_WITH_VALUE:
            next(rest, None)
    return None


def find_program(target: StdioTarget) -> str | None:
    """Return what to start for a server, as it is written or with its folder; None where there is no such program.

    What the search path does not have is looked for beside toolcrib's own Python: servers that were installed with it,
    as those of the extra ``demo``, are found even if its environment is not activated.
    """
    return target.command if is_program(target.command, target) else _beside_toolcrib(target.command)


def is_program(command: str, target: StdioTarget) -> bool:
    """Return whether a server could start ``command``, by its own search path and from its own folder."""
    return _found(command, target) is not None


def path_of_program(target: StdioTarget) -> Path | None:
    """Return the file of what :func:`find_program` returns."""
    found = _found(target.command, target) or _beside_toolcrib(target.command)
    return None if found is None else Path(found).absolute()


def _found(command: str, target: StdioTarget) -> str | None:
    is_bare = Path(command).name == command
    path = command if is_bare or target.cwd is None else str(target.cwd / command)
    return shutil.which(path, path=target.env.get("PATH", os.defpath))


def _beside_toolcrib(command: str) -> str | None:
    if Path(command).name != command:
        return None
    return shutil.which(command, path=str(Path(sys.executable).parent))


SAFE_POSIX = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
SAFE_WINDOWS = (
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""What the MCP SDK passes on: its ``mcp.client.stdio.DEFAULT_INHERITED_ENV_VARS``."""

NEEDED = (
    "LANG", "LC_*", "TZ", "TMPDIR", "XDG_*", "*_PROXY", "*_proxy", "SSL_*", "NODE_EXTRA_CA_CERTS",
    "PIP_*", "UV_*", "npm_config_*", "SSH_AUTH_SOCK",
)  # fmt: skip
"""Globs of what servers need besides, to reach the network and to find packages."""


def safe_names(platform: str = sys.platform) -> tuple[str, ...]:
    """Return the names that every server gets, which hold no secrets."""
    return SAFE_WINDOWS if platform == "win32" else SAFE_POSIX


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what an MCP client at least passes on to the servers that it starts, such as to toolcrib."""
    wanted = glob_matcher((*safe_names(), *NEEDED))
    return {name: value for name, value in environ.items() if wanted(name)}


class ChildEnvironments:
    """The environments of servers, out of that of toolcrib. Shell functions, whose values begin with ``()``, stay."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._everybody = self._inherited((*safe_names(), *NEEDED))

    def build(self, inherit: Iterable[str], own: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of a server: what it inherits, its ``own``, and the marker against nesting.

        ``inherit`` are globs of more names than every server gets.
        """
        # The marker last: no entry may take it away, which stops a toolcrib that starts itself.
        return {**self._everybody, **self._inherited(inherit), **own, PARENT_MARKER: "1"}

    def _inherited(self, globs: Iterable[str]) -> dict[str, str]:
        wanted = glob_matcher(globs)
        return {name: value for name, value in self._environ.items() if wanted(name) and not value.startswith("()")}
