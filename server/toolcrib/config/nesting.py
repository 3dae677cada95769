"""Whether something would start toolcrib inside toolcrib.

Knows command lines and the marker in the environment; never knows what a server offers.
"""

from collections.abc import Mapping, Sequence
from pathlib import PureWindowsPath

from toolcrib.base.errors import StartRefused

PARENT_MARKER = "TOOLCRIB_PARENT"
"""Set in the environment of every server that toolcrib starts."""

_OURSELVES = "toolcrib"
_WITH_VALUE = frozenset(
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
        rest = args[1:] if args[:1] == ["tool"] else args
        return rest[:1] == ["run"] and _runs_package(rest[1:])
    if program.startswith(("python", "pypy")) or program == "py":
        return _runs_module(args)
    return program == _OURSELVES


def _runs_package(args: Sequence[str]) -> bool:
    """Whether ``--from`` or ``--spec``, or else the first argument that is no option, is our package."""
    rest = iter(args)
    for arg in rest:
        if not arg.startswith("-"):
            return _package(arg) == _OURSELVES
        name, equals, value = arg.partition("=")
        if not equals and name in _WITH_VALUE:
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


def _runs_module(args: Sequence[str]) -> bool:
    rest = iter(args)
    for arg in rest:
        if arg == "-m":
            return next(rest, "") == _OURSELVES
        if not arg.startswith("-"):
            return False
        if arg in _WITH_VALUE:
            next(rest, None)
    return False
