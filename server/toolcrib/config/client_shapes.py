"""How other clients' config files look, so that errors can name the client.

Knows the keys of their files and what to write instead; never knows what a server is or whether it works.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.base.errors import Problem
from toolcrib.base.json_values import as_object, value_at
from toolcrib.base.model import JsonObject
from toolcrib.config.findings import join

_RENAME = "rename it to mcpServers"
_PROGRAM = "command is the program alone, args the list of the rest"


@dataclass(frozen=True, slots=True)
class _Shape:
    """A key under which a client keeps its servers by name, and how to write them here."""

    key: str
    client: str
    hint: str


_SHAPES = (
    _Shape("servers", "VS Code", _RENAME),
    _Shape("context_servers", "Zed", f"{_RENAME}; {_PROGRAM}"),
    _Shape("mcp", "opencode", f"{_RENAME}; {_PROGRAM}; environment is env"),
    _Shape("extensions", "Goose", f"{_RENAME}; cmd is command, envs is env, uri is url"),
    _Shape("mcp_servers", "Codex", f"{_RENAME}; http_headers is headers"),
    _Shape("amp.mcpServers", "Amp", _RENAME),
)
_NESTED = _Shape("mcp.servers", "VS Code's settings", "write what is under it as mcpServers")
_PROJECTS = _Shape("projects", "Claude Code, for each folder,", "write the mcpServers of one of them as mcpServers")

_OF_A_SERVER = ("command", "cmd", "url", "uri", "httpUrl", "serverUrl")
"""What an entry of any client's has one of."""

_ADDRESSES = {"httpUrl": "Gemini CLI and Qwen Code", "serverUrl": "Windsurf", "uri": "Goose"}
_MEANINGS = {
    "cmd": "Goose's command",
    "envs": "Goose's env",
    "environment": "opencode's env",
    "envFile": "VS Code's file of variables: write them as env",
    "enabled": "to leave a server out, write disabled: true",
    "http_headers": "Codex's headers",
    "env_http_headers": "Codex's headers: write ${VARIABLE} into headers",
    "bearer_token_env_var": 'Codex\'s token: write headers: {"Authorization": "Bearer ${VARIABLE}"}',
    "requestOptions": "Continue's headers: write headers",
    "transport": "write type: http or sse",
    **{key: f"{client}'s url" for key, client in _ADDRESSES.items()},
}
"""Keys of other clients' entries that toolcrib does not read, and what to write instead."""

_TOML = re.compile(r"^[ \t]*\[(?:mcp_servers|profiles|projects|tools)\b[^\]\n]*\][ \t]*$", re.MULTILINE)


def import_hint(path: Path) -> str:
    """Return the command that takes over the servers of another client's file."""
    return f"`toolcrib import {shlex.quote(str(path))}` imports them"


def foreign_shapes(document: JsonObject, path: Path) -> Iterator[Problem]:
    """Yield a problem for each place where a file without ``mcpServers`` keeps servers as another client does."""
    if document.get("mcpServers"):
        return
    nested = value_at(document, ("mcp", "servers"))
    if _holds_servers(nested):
        yield _problem(_NESTED, path)
    if any(_holds_servers(as_object(each).get("mcpServers")) for each in as_object(document.get("projects")).values()):
        yield _problem(_PROJECTS, path)
    for shape in _SHAPES:
        if _holds_servers(document.get(shape.key)):
            yield _problem(shape, path)


def list_hint(servers: Any) -> str:
    """Return what to do where ``mcpServers`` is not an object; empty where nothing is known of it."""
    return "a list is Continue's: write each entry under its name instead" if isinstance(servers, list) else ""


def foreign_entry(raw: Any, path: str) -> Problem | None:
    """Return what makes an entry of ``mcpServers`` another client's and of no use here; None where it is ours."""
    entry = as_object(raw)
    command = entry.get("command")
    if isinstance(command, list):
        return Problem(join(path, "command"), "is a list, as opencode writes it", _PROGRAM, is_mistake=True)
    if isinstance(command, Mapping):
        return Problem(join(path, "command"), "is an object, as Zed writes it", _PROGRAM, is_mistake=True)
    if command is not None or "url" in entry:
        return None
    for key, client in _ADDRESSES.items():
        if key in entry:
            return Problem(path, f"has {key}, the url of {client}", f"rename {key} to url", is_mistake=True)
    if "cmd" in entry:
        return Problem(path, "has cmd, the command of Goose", "rename cmd to command", is_mistake=True)
    return None


def meanings(entry: JsonObject) -> Mapping[str, str]:
    """Return what keys of an entry mean to other clients, and what to write instead; empty where nothing is lost."""
    harmless = [key for key in entry if "Tools" in key or "_tools" in key]  # foreign_rules has looked at these
    harmless += [] if entry.get("enabled") is False else ["enabled"]
    return {**_MEANINGS, **dict.fromkeys(harmless, "")}


def is_toml(text: str) -> bool:
    """Return whether a text that is no JSON has the tables of Codex's ``config.toml``."""
    return bool(_TOML.search(text))


def _problem(shape: _Shape, path: Path) -> Problem:
    reason = f"is where {shape.client} keeps servers, which toolcrib does not read"
    return Problem(shape.key, reason, f"{import_hint(path)}; or {shape.hint}")


def _holds_servers(value: Any) -> bool:
    entries = (as_object(entry) for entry in as_object(value).values())
    return any(key in entry for entry in entries for key in _OF_A_SERVER)
