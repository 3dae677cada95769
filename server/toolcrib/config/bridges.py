"""Entries that run ``mcp-remote``, a bridge from stdio to an HTTP server, and the equivalent direct entries.

Knows that program's command line; never knows whether its server answers.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath
from urllib.parse import urlsplit

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject

_BRIDGE = re.compile(r"mcp-remote(?:@[\w.^~-]+)?\Z")
_LAUNCHERS = frozenset({"bun", "bunx", "cmd", "npm", "npx", "pnpm", "yarn"})
_WITH_VALUE = frozenset(
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


def bridge_in(entry: JsonObject) -> Bridge | None:
    """Return what an entry of ``mcpServers`` is without ``mcp-remote``; None where it does not run that."""
    args = [each if isinstance(each, str) else "" for each in as_list(entry.get("args"))]
    rest = _after_the_bridge(str(entry.get("command") or ""), args)
    place = next((number for number, each in enumerate(rest) if each.startswith(("https://", "http://"))), None)
    if place is None:
        return None
    url, options = rest[place], list(_options([*rest[:place], *rest[place + 1 :]]))
    transports = [value for name, value in options if name == "--transport"]
    headers = dict(_headers(options, as_object(entry.get("env"))))
    kept = {key: value for key, value in entry.items() if key not in ("args", "command", "cwd", "env", "type")}
    is_sse = _is_sse(url, transports)
    direct = {**({"type": "sse"} if is_sse else {}), "url": url, **({"headers": headers} if headers else {}), **kept}
    return Bridge(url, direct, tuple(dict.fromkeys(name for name, _ in options if name not in _NEEDLESS)))


def _after_the_bridge(command: str, args: Sequence[str]) -> list[str]:
    """Return the arguments of ``mcp-remote``; none where it is not what is run."""
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
            yield name, value if equals or name not in _WITH_VALUE else next(rest, "")


def _headers(options: Sequence[tuple[str, str]], env: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the headers; a variable in one that the entry sets for the bridge is what it is set to."""
    for name, value in options:
        header, colon, content = value.partition(":")
        if name == "--header" and colon:
            yield header.strip(), _VARIABLE.sub(lambda match: str(env.get(match[1], match[0])), content.strip())


def _is_sse(url: str, transports: Sequence[str]) -> bool:
    """Return whether the older transport is meant: by name, or as addresses of such servers end."""
    if transports:
        return transports[-1].startswith("sse")
    try:
        return urlsplit(url).path.rstrip("/").endswith("/sse")
    except ValueError:
        return False
