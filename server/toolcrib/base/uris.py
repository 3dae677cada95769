"""Maps the URI of a server to a public URI and back, also inside results, and matches URIs with templates."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject

_PREFIX = "toolcrib://servers/"
_EXPRESSION = re.compile(r"\{[^{}]*\}")
_REST = re.compile(r"[?#]")
_DECODINGS_MAX = 4
_WEB = ("http://", "https://")
_WITH_RESOURCES = ("resource", "resource_link")


def public_uri(server: str, uri: str) -> str:
    """Return the URI under which a client knows ``uri`` of ``server``.

    The server's own URI is appended verbatim, so that a template (RFC 6570) expands to public URIs.
    """
    return f"{_PREFIX}{quote(server, safe='')}/{uri}"


def own_uri(public: str) -> tuple[str, str] | None:
    """Return the server's key and its own URI from a public one; None for any other URI."""
    if not public.startswith(_PREFIX):
        return None
    server, slash, uri = public[len(_PREFIX) :].partition("/")
    return (unquote(server), uri) if slash and uri else None


def resolved(uri: str) -> str:
    """Return ``uri`` as the most lenient server would interpret it, so that a policy cannot be bypassed.

    Decoded, without ``.``, ``..`` and repeated slashes, with scheme and host in lower case.
    """
    for _ in range(_DECODINGS_MAX):
        decoded = unquote(uri)
        if decoded == uri:
            break
        uri = decoded
    scheme, colon, rest = uri.replace("\\", "/").partition(":")
    place = _REST.search(rest)
    path, tail = (rest[: place.start()], rest[place.start() :]) if place else (rest, "")
    start = f"{scheme.lower()}{colon}"
    if path.startswith("//"):
        host, _, path = path[2:].partition("/")
        start += f"//{host.lower()}/"
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    return f"{start}{'/'.join(segments)}{tail}"


def literals(template: str) -> tuple[str, ...]:
    """Return the literal parts of a URI template, between its expressions (RFC 6570)."""
    return tuple(_EXPRESSION.split(template))


def may_expand_to(parts: Sequence[str], uri: str) -> bool:
    """Return whether a template with these ``literals`` may expand to ``uri``; may give false positives."""
    first, *middle = parts
    if not middle:
        return uri == first
    last = middle.pop()
    if len(uri) < len(first) + len(last) or not uri.startswith(first) or not uri.endswith(last):
        return False
    at, end = len(first), len(uri) - len(last)
    for part in middle:
        found = uri.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


# -- in results ----------------------------------------------------------------------------------


def published_tool_result(result: JsonObject, server: str) -> JsonObject:
    """Return a tool's result with public URIs in its links and embedded resources; everything else is shared."""
    blocks = as_list(result.get("content"))
    if not any(as_object(block).get("type") in _WITH_RESOURCES for block in blocks):
        return result
    return {**result, "content": _blocks(blocks, server)}


def published_prompt(result: JsonObject, server: str) -> JsonObject:
    """Return a prompt's result with public URIs in the same way."""
    messages = as_list(result.get("messages"))
    return _with(result, "messages", [_message(message, server) for message in messages])


def published_contents(result: JsonObject, server: str) -> JsonObject:
    """Return a resource's contents with public URIs."""
    return _with(result, "contents", [_at_public_uri(each, server) for each in as_list(result.get("contents"))])


def _with(result: JsonObject, key: str, items: list[Any]) -> JsonObject:
    return {**result, key: items} if items else result


def _message(message: Any, server: str) -> Any:
    content = as_object(message).get("content")
    if isinstance(content, list):
        return {**message, "content": _blocks(content, server)}
    return {**message, "content": _block(content, server)} if isinstance(content, dict) else message


def _blocks(blocks: Any, server: str) -> list[Any]:
    return [_block(block, server) for block in as_list(blocks)]


def _block(block: Any, server: str) -> Any:
    kind = as_object(block).get("type")
    if kind == "resource":
        return {**block, "resource": _at_public_uri(block.get("resource"), server)}
    # By the specification a client may fetch a web link itself, which a public URI would prevent.
    if kind == "resource_link" and not str(block.get("uri")).startswith(_WEB):
        return _at_public_uri(block, server)
    return block


def _at_public_uri(value: Any, server: str) -> Any:
    uri = as_object(value).get("uri")
    return {**value, "uri": public_uri(server, uri)} if isinstance(uri, str) else value
