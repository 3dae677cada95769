"""What other MCP clients write into their config files, and what to write for toolcrib instead.

Three questions about a file or an entry: does it keep servers in another client's shape, does it run the bridge
``mcp-remote`` to a server that toolcrib can reach itself, and does it restrict tools with another client's keys.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from toolcrib.base.errors import Problem
from toolcrib.base.json_values import as_list, as_object, value_at
from toolcrib.base.model import JsonObject
from toolcrib.base.text import exact_glob, one_line
from toolcrib.config.findings import Skipped
from toolcrib.config.rule_words import RuleKey
from toolcrib.config.tool_rules import Denials

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
    "http_headers": "Codex's headers",
    "env_http_headers": "Codex's headers: write ${VARIABLE} into headers",
    "bearer_token_env_var": 'Codex\'s token: write headers: {"Authorization": "Bearer ${VARIABLE}"}',
    "requestOptions": "Continue's headers: write headers",
    "transport": "write type: http or sse",
    **{key: f"{client}'s url" for key, client in _ADDRESSES.items()},
}
"""Keys of other clients' entries that toolcrib does not read, and what to write instead."""

_TABLES = ("mcp_servers", "profiles", "projects", "tools")
_TOML = re.compile(r"^[ \t]*\[(?:mcp_servers|profiles|projects|tools)\b[^\]\n]*\][ \t]*$", re.MULTILINE)


def import_hint(path: Path) -> str:
    """Return the command that takes over the servers of another client's file."""
    return f"`toolcrib import {shlex.quote(str(path))}` imports them"


def foreign_shapes(document: JsonObject, path: Path) -> Iterator[Problem]:
    """Yield a problem for each place where a file without ``mcpServers`` keeps servers as another client does."""
    # Whoever has mcpServers has written it for toolcrib; other keys beside it are left to their clients.
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


def foreign_entry(raw: Any) -> Problem | None:
    """Return what makes an entry of ``mcpServers`` another client's and of no use here; None where it is ours.

    Its path is the place in the entry.
    """
    entry = as_object(raw)
    command = entry.get("command")
    if isinstance(command, list):
        return Problem("command", "is a list, as opencode writes it", _PROGRAM)
    if isinstance(command, Mapping):
        return Problem("command", "is an object, as Zed writes it", _PROGRAM)
    if command is not None or "url" in entry:
        return None
    for key, client in _ADDRESSES.items():
        if key in entry:
            return Problem("", f"has {key}, the url of {client}", f"rename {key} to url")
    if "cmd" in entry:
        return Problem("", "has cmd, the command of Goose", "rename cmd to command")
    return None


def foreign_key_hints(entry: JsonObject) -> Mapping[str, str]:
    """Return what keys of an entry mean to other clients, and what to write instead; empty where nothing is lost."""
    harmless = [key for key in entry if RuleKey(key).names_tools]
    return {**_MEANINGS, **dict.fromkeys(harmless, "")}


def is_toml(text: str) -> bool:
    """Return whether a text that is no JSON has the tables of Codex's ``config.toml``."""
    # Searched by the pattern only where it can match: it tries every line, and files may have megabytes.
    return any(f"[{table}" in text for table in _TABLES) and bool(_TOML.search(text))


def _problem(shape: _Shape, path: Path) -> Problem:
    reason = f"is where {shape.client} keeps servers, which toolcrib does not read"
    return Problem(shape.key, reason, f"{import_hint(path)}; or {shape.hint}")


def _holds_servers(value: Any) -> bool:
    entries = (as_object(entry) for entry in as_object(value).values())
    return any(key in entry for entry in entries for key in _OF_A_SERVER)


_BRIDGE = re.compile(r"mcp-remote(?:@[\w.^~-]+)?\Z")
_LAUNCHERS = frozenset({"bun", "bunx", "cmd", "npm", "npx", "pnpm", "yarn"})
_BRIDGE_OPTIONS_WITH_VALUE = frozenset(
    "--auth-timeout --header --host --ignore-tool --resource --static-oauth-client-info --static-oauth-client-metadata "
    "--transport".split()
)
_NEEDLESS = frozenset("--allow-http --auth-timeout --debug --enable-proxy --header --host --silent --transport".split())
"""Options that are about the bridge itself, or that the direct entry has."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class Bridge:
    """What an entry reaches by the bridge: its URL, the entry without it, and options that nothing is made of."""

    url: str
    entry: JsonObject
    unread: tuple[str, ...]


def find_bridge(entry: JsonObject) -> Bridge | None:
    """Return what an entry of ``mcpServers`` is without ``mcp-remote``; None where it does not run that."""
    args = [each if isinstance(each, str) else "" for each in as_list(entry.get("args"))]
    rest = _after_the_bridge(str(entry.get("command") or ""), args)
    place = next((number for number, each in enumerate(rest) if each.startswith(("https://", "http://"))), None)
    if place is None:
        return None
    url, options = rest[place], list(_options([*rest[:place], *rest[place + 1 :]]))
    transports = [value for name, value in options if name == "--transport"]
    headers = dict(_headers(options, as_object(entry.get("env"))))
    others = {key: value for key, value in entry.items() if key not in ("args", "command", "cwd", "env", "type")}
    is_sse = _is_sse(url, transports)
    direct = {**({"type": "sse"} if is_sse else {}), "url": url, **({"headers": headers} if headers else {}), **others}
    return Bridge(url, direct, tuple(dict.fromkeys(name for name, _ in options if name not in _NEEDLESS)))


def _after_the_bridge(command: str, args: Sequence[str]) -> list[str]:
    """Return the arguments of ``mcp-remote``; none where it is not what is run."""
    # Windows paths split paths of both systems, wherever this runs.
    program = PureWindowsPath(command).name.lower().removesuffix(".cmd").removesuffix(".exe")
    if program == "mcp-remote":
        return list(args)
    if program not in _LAUNCHERS:
        return []
    # The last one: before it, it may be named as the package to bring (npx -p mcp-remote mcp-remote URL).
    places = [number for number, each in enumerate(args) if _BRIDGE.match(each)]
    return list(args[places[-1] + 1 :]) if places else []


def _options(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options, each with its value; a port for the answer of a login has no name, and is none."""
    rest = iter(args)
    for each in rest:
        if each.startswith("--"):
            name, equals, value = each.partition("=")
            yield name, value if equals or name not in _BRIDGE_OPTIONS_WITH_VALUE else next(rest, "")


def _headers(options: Sequence[tuple[str, str]], env: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the headers; a variable in one that the entry sets for the bridge is what it is set to."""
    for name, value in options:
        header, colon, content = value.partition(":")
        if name == "--header" and colon:
            yield (
                header.strip(),
                _VARIABLE.sub(lambda match: str(env.get(match[1], match[0])), content.strip()),
            )


def _is_sse(url: str, transports: Sequence[str]) -> bool:
    """Return whether the older transport is meant: by name, or by the address."""
    return transports[-1].startswith("sse") if transports else looks_like_sse(url)


def looks_like_sse(url: str) -> bool:
    """Return whether an address ends as those of servers with the older transport do."""
    try:
        return urlsplit(url).path.rstrip("/").endswith("/sse")
    except ValueError:
        return False


_SHOWN_MAX = 5


def foreign_rules(key: str, rules: Mapping[str, Denials]) -> Skipped | None:
    """Return why the server ``key`` cannot be served: its entry forbids tools in words of another client."""
    restricting = {name: rule for name, rule in rules.items() if rule.restricts}
    if not restricting:
        return None
    named = ", ".join(map(one_line, list(restricting)[:_SHOWN_MAX]))
    hints = list(dict.fromkeys(hint for rule in restricting.values() for hint in _hints(key, rule)))
    reason = f"restricts its tools with another client's keys ({named}), which toolcrib does not apply"
    return Skipped("", reason, f"{'; '.join(hints[:_SHOWN_MAX])}; then remove {named} here", is_mistake=True)


def _hints(key: str, rule: Denials) -> Iterator[str]:
    """Yield what to write instead, as far as the rule is understood."""
    if rule.allowed:
        yield f"put tools that may be called into toolcrib.policy.allow: {_globs(key, rule.allowed)}"
    denied = ("*",) if rule.allowed == () else rule.denied
    if denied:
        yield f"write toolcrib.policy.deny: {_globs(key, denied)}"
    if rule.unknown:
        yield 'put tools that must not be called into toolcrib.policy.deny, as "SERVER.TOOL"'


def _globs(key: str, tools: Sequence[str]) -> str:
    more = ", …" if len(tools) > _SHOWN_MAX else ""
    server = exact_glob(key)
    shown = ", ".join(json.dumps(one_line(f"{server}.{tool}"), ensure_ascii=False) for tool in tools[:_SHOWN_MAX])
    return f"[{shown}{more}]"
