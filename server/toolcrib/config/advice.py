"""Advice for a valid config: secrets in plain text, and unnecessary bridges.

Knows the file as written, before variables are expanded; never knows what is served, and never shows a secret.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import Problem
from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import JsonObject
from toolcrib.base.redaction import MASK
from toolcrib.config.bridges import Bridge, bridge_in
from toolcrib.config.clients.secrets import in_value, secrets_in
from toolcrib.config.documents import read
from toolcrib.config.expansion import VARIABLE, variable_name
from toolcrib.config.findings import join
from toolcrib.config.settings import HttpTarget

_DEPTH_MAX = 20


def advice(path: Path) -> Iterator[Problem]:
    """Yield what a person could do better in the config at ``path``.

    Raises:
        ConfigError: it cannot be read.

    """
    document = read(path)[0]
    for key, value in as_object(document.get("mcpServers")).items():
        entry, place = as_object(value), join("mcpServers", key)
        if bridge := bridge_in(entry):
            yield _about_bridge(place, key, bridge)
        shown = dict.fromkeys((secret.shown, secret.name) for secret in secrets_in(entry, key))
        yield from (_written_out(f"{place}.{where}", name) for where, name in shown)
    yield from _in_section(document.get("toolcrib"), "toolcrib", "", _DEPTH_MAX)


def _in_section(value: Any, place: str, key: str, depth: int) -> Iterator[Problem]:
    """Yield the secrets below one place; ``key`` is what it is called."""
    if isinstance(value, str):
        if any(VARIABLE.sub("", secret).strip() for secret in in_value(key, value, ())):
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
        shown["headers"] = dict.fromkeys(headers, MASK)
    unread = f"; ignored: {', '.join(bridge.unread)}" if bridge.unread else ""
    reason = f"runs mcp-remote, a bridge to {url}, which toolcrib can connect to itself"
    return Problem(
        place, reason, f"write {compact(shown)}, then run `toolcrib login {key}` if it requires a login{unread}"
    )
