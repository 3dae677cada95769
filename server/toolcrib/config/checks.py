"""Problems of a parsed config on this machine: missing programs and folders, dangling paths."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import Problem
from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import JsonObject
from toolcrib.base.redaction import MASK
from toolcrib.config.documents import read
from toolcrib.config.entries import with_texts
from toolcrib.config.findings import join
from toolcrib.config.foreign import Bridge, find_bridge
from toolcrib.config.launching import find_program, is_program
from toolcrib.config.loading import PRESET, RESOURCE
from toolcrib.config.private_values import secrets_in, secrets_in_value
from toolcrib.config.settings import HttpTarget, ServerSettings, Settings, StdioTarget
from toolcrib.config.variables import VARIABLE, variable_name

_DEPTH_MAX = 20


def advice(path: Path) -> Iterator[Problem]:
    """Yield what a person could do better in the config at ``path``.

    Raises:
        ConfigError: it cannot be read.

    """
    document = read(path)[0]
    for key, value in as_object(document.get("mcpServers")).items():
        entry, place = with_texts(as_object(value)), join("mcpServers", key)
        if bridge := find_bridge(entry):
            yield _about_bridge(place, key, bridge)
        # One place may hold several secrets; a person changes it once.
        shown = dict.fromkeys((secret.shown, secret.name) for secret in secrets_in(entry, key))
        yield from (_written_out(f"{place}.{where}", name) for where, name in shown)
    yield from _in_section(document.get("toolcrib"), "toolcrib", "", _DEPTH_MAX)


def _in_section(value: Any, place: str, key: str, depth: int) -> Iterator[Problem]:
    """Yield the secrets below one place; ``key`` is what it is called."""
    if isinstance(value, str):
        # A secret that is only variables is written as it should be.
        if any(VARIABLE.sub("", secret).strip() for secret in secrets_in_value(key, value, ())):
            yield _written_out(place, variable_name(key))
    elif depth and isinstance(value, dict):
        for name, member in cast("JsonObject", value).items():
            yield from _in_section(member, join(place, name), name, depth - 1)
    elif depth and isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _in_section(item, join(place, number), key, depth - 1)


def _written_out(place: str, name: str) -> Problem:
    hint = f"`toolcrib secret set {name}` stores it and says what to write here, or write ${{{name}}}"
    return Problem(place, "looks like a secret in plain text", hint)


def _about_bridge(place: str, key: str, bridge: Bridge) -> Problem:
    url = HttpTarget(bridge.url, {}).public_url
    shown = {**bridge.entry, "url": url}
    if headers := as_object(shown.get("headers")):
        # The hint quotes the entry, and terminals are recorded and shared.
        shown["headers"] = dict.fromkeys(headers, MASK)
    unread = f"; ignored: {', '.join(bridge.unread)}" if bridge.unread else ""
    reason = f"runs mcp-remote, a bridge to {url}, which toolcrib can connect to itself"
    return Problem(
        place, reason, f"write {compact(shown)}, then run `toolcrib login {key}` if it requires a login{unread}"
    )


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
        yield from inspect_server(server)
    if settings.toolcrib.skills.enabled:
        yield from _folders(settings)


def inspect_server(server: ServerSettings) -> Iterator[Problem]:
    """Yield what this machine lacks for a server to start, and what in its arguments cannot have been meant so."""
    if isinstance(server.target, StdioTarget):
        yield from _of_process(server, server.target)


def _of_process(server: ServerSettings, target: StdioTarget) -> Iterator[Problem]:
    path = join("mcpServers", server.key)
    if target.cwd is not None and not target.cwd.is_dir():
        yield Problem(join(path, "cwd"), f"there is no folder {server.redactor.clean(str(target.cwd))}")
    elif find_program(target) is None:
        yield _not_found(server, target)
    for number, text in enumerate(target.args):
        # "C:\new" in double quotes holds a line feed: no program ever gets such an argument on purpose.
        if _LOST_BACKSLASHES.match(text):
            yield _lost_backslashes(join(path, "args", number))
        elif _HOME.search(text):
            hint = "no shell expands it; write ${HOME}"
            yield Problem(join(path, "args", number), "has a ~, which is not expanded to the home directory", hint)


def _not_found(server: ServerSettings, target: StdioTarget) -> Problem:
    place, command = join("mcpServers", server.key, "command"), target.command
    if _LOST_BACKSLASHES.match(command):
        return _lost_backslashes(place)
    # Several clients take a whole command line as the command; here it is the program alone.
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
        # A preset names folders of other clients, which may well be missing.
        if not text.startswith(PRESET) and not Path(text).is_dir():
            yield Problem(join(path, "skill_dirs", number), f"there is no folder {text}")
    for number, pack in enumerate(skills.skill_packs):
        if pack.enabled and not RESOURCE.match(pack.path) and not Path(pack.path).exists():
            yield Problem(join(path, "skill_packs", number, "path"), f"there is no file or folder {pack.path}")
