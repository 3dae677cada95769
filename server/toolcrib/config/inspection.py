"""Problems of a parsed config on this machine: missing programs and folders, dangling paths.

Knows this machine's files and the search path of each server; never knows an index, and starts nothing.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from toolcrib.base.errors import Problem
from toolcrib.config.findings import join
from toolcrib.config.loading import PRESET, RESOURCE
from toolcrib.config.programs import find_program, is_program
from toolcrib.config.settings import ServerSettings, Settings, StdioTarget

_INSTALL = {
    **dict.fromkeys(("npx", "npm", "node"), "install Node.js, or write its full path"),
    **dict.fromkeys(("uvx", "uv"), "install uv, or write its full path"),
    "docker": "install Docker, or write its full path",
    "python": "it may be called python3 here",
}
"""What helps where one of these programs is not found."""

_LOST_BACKSLASHES = re.compile(r"[A-Za-z]:.*[\x00-\x1f\x7f]", re.DOTALL)
"""How a path such as ``C:\\new`` was read in double quotes."""

_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|.*\\")
_HOME = re.compile(r"(?:\A|[=:,])~(?:/|\\|\Z)")


def inspect(settings: Settings) -> Iterator[Problem]:
    """Yield everything that cannot have been meant so, for a person who asks. Reads folders, and runs nothing."""
    if reason := settings.why_no_servers:
        yield reason
    for server in settings.servers.values():
        if isinstance(server.target, StdioTarget):
            yield from _of_process(server, server.target)
    yield from _folders(settings)


def _of_process(server: ServerSettings, target: StdioTarget) -> Iterator[Problem]:
    path = join("mcpServers", server.key)
    if target.cwd is not None and not target.cwd.is_dir():
        yield Problem(join(path, "cwd"), f"there is no folder {server.redactor.clean(str(target.cwd))}")
    elif find_program(target) is None:
        yield _not_found(server, target)
    for number, text in enumerate(target.args):
        if _LOST_BACKSLASHES.match(text):
            yield _lost_backslashes(join(path, "args", number))
        elif _HOME.search(text):
            hint = "no shell expands it; write ${HOME}"
            yield Problem(join(path, "args", number), "has a ~, which is not expanded to the home directory", hint)


def _not_found(server: ServerSettings, target: StdioTarget) -> Problem:
    place, command = join("mcpServers", server.key, "command"), target.command
    if _LOST_BACKSLASHES.match(command):
        return _lost_backslashes(place)
    program, *rest = command.split()
    if rest and is_program(program, target):
        return Problem(place, "contains arguments too", f"write {program} alone, and the rest as args, one text each")
    if os.sep == "/" and _WINDOWS_PATH.match(command):
        hint = "it is a path of Windows"
    elif os.sep in command:
        hint = "check the path"
    else:
        hint = _INSTALL.get(command, "install it, or write its full path")
    return Problem(place, f"there is no program {server.redactor.clean(command)}", hint)


def _lost_backslashes(place: str) -> Problem:
    return Problem(place, "is a path of Windows whose backslashes were read as escapes", "write \\\\ for each, or /")


def _folders(settings: Settings) -> Iterator[Problem]:
    skills, path = settings.toolcrib.skills, "toolcrib.skills"
    for number, text in enumerate(skills.skill_dirs):
        if not text.startswith(PRESET) and not Path(text).is_dir():
            yield Problem(join(path, "skill_dirs", number), f"there is no folder {text}")
    for number, pack in enumerate(skills.skill_packs):
        if pack.enabled and not RESOURCE.match(pack.path) and not Path(pack.path).exists():
            yield Problem(join(path, "skill_packs", number, "path"), f"there is no file or folder {pack.path}")
