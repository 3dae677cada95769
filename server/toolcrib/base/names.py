"""Names of tools: public names, the spellings that callers use, and lookups by spelling or prefix."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import TypeVar

from toolcrib.base.text import glob_matcher, spelling_key

SEPARATOR = re.compile(r"(__|[./:])")
"""Possible separators of server and tool in a spelling."""

_ALPHABET = re.compile(r"[A-Za-z0-9_-]+\Z")
_BAD = re.compile(r"[^A-Za-z0-9_-]")
_HASH_END = re.compile(r"-[0-9a-f]{8}\Z")
_SEPARATOR = "__"
_JOINED = re.compile(r"[^\W_]+(?:[ _-][^\W_]+)*\Z")
_SEVERAL = re.compile(r"[ _-]|[a-z0-9][A-Z]")
_HOST_PREFIX, _OURS = "mcp__", "toolcrib__"
SEPARATORS = (_SEPARATOR, ".", "/", ":")
"""The separators of server and tool in their spellings."""


def public_name(server: str, tool: str, name_max: int = 64) -> str:
    """Return the name under which a client sees ``tool`` of ``server``, at most ``name_max`` characters.

    ``server__tool`` where both fit the alphabet of tool names (2026-07-28 server/tools, "Tool Names") and the name can
    be split unambiguously; otherwise cleaned, truncated and suffixed with 8 hex digits of SHA-256(server NUL tool).
    """
    plain = f"{server}{_SEPARATOR}{tool}"
    # A plain name must not look like a hashed one, or two tools could share it.
    if _is_plain_server(server) and _ALPHABET.match(tool) and len(plain) <= name_max and not _HASH_END.search(plain):
        return plain
    digest = sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    # Nine characters are for the hyphen and the digest.
    return f"{_BAD.sub('-', plain)[: name_max - 9]}-{digest}"


def _is_plain_server(server: str) -> bool:
    """Whether the first ``__`` of ``server__tool`` is certain to be the separator."""
    return bool(_ALPHABET.match(server)) and _SEPARATOR not in server and not server.endswith("_")


def qualified_spellings(server: str, tool: str, public: str) -> tuple[str, ...]:
    """Return every spelling qualified by the server; ``allow`` and always patterns are matched against these."""
    return public, f"{server}__{tool}", f"{server}.{tool}", f"{server}/{tool}", f"{server}:{tool}"


def joined_key(name: str) -> str:
    """Return what is the same for ``drop_all``, ``drop-all``, ``dropAll`` and ``drop all``; empty for a single word."""
    plain = name.replace("__", "_")
    return spelling_key(plain) if _SEVERAL.search(plain) and _JOINED.match(plain) else ""


def joined_name(name: str) -> str:
    """Return :func:`joined_key` as a name that no tool has, for what stores names of both kinds; empty if it is."""
    key = joined_key(name)
    return f" {key}" if key else ""


def host_spellings(name: str) -> tuple[str, ...]:
    """Return ``name``, and ``name`` without the prefixes that hosts put before tool names.

    ``mcp__SERVER__TOOL``, or ``mcp__toolcrib__SERVER__TOOL`` for a tool that came through toolcrib.
    """
    own = name.removeprefix(_HOST_PREFIX)
    return tuple(dict.fromkeys((name, own, own.removeprefix(_OURS) if own != name else name)))


def tool_matcher(globs: Iterable[str]) -> Callable[[str, str, str], bool]:
    """Return a predicate on server, name and public name: whether one of the globs matches that tool.

    Every spelling counts, the bare name too; hosts' prefixes do not.
    """
    matches = glob_matcher([spelling for glob in globs for spelling in host_spellings(glob)])
    return lambda server, name, public: any(map(matches, (name, *qualified_spellings(server, name, public))))


def bare_name(name: str, server: str) -> str | None:
    """Return the rest of ``name`` after ``server`` and a separator; None if it does not begin with these."""
    for mark in SEPARATORS:
        if name.startswith(f"{server}{mark}"):
            return name[len(server) + len(mark) :]
    return None


def name_digest(name: str) -> str:
    """Return an identifier of a name that must not be stored itself: 16 hex digits of its SHA-256."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def beginnings(server: str) -> tuple[str, ...]:
    """Return the prefixes of names of tools of ``server``, in every qualified spelling."""
    cleaned = _BAD.sub("-", server)
    return tuple(f"{key}{mark}" for key in dict.fromkeys((server, cleaned)) for mark in SEPARATORS)


def may_belong_to(name: str, server: str) -> bool:
    """Return whether ``name``, in any qualified spelling, could be a tool of ``server``."""
    return name.startswith(beginnings(server))


_Item = TypeVar("_Item")


class Spellings(dict[str, tuple[_Item, ...]]):
    """The items of each name, keyed by :func:`spelling_key`. Must not be changed after creation.

    ``pairs`` are names, already reduced, with an item each; empty names are ignored.
    """

    def __init__(self, pairs: Iterable[tuple[str, _Item]]) -> None:
        groups: defaultdict[str, list[_Item]] = defaultdict(list)
        for name, item in pairs:
            if name:
                groups[name].append(item)
        super().__init__((name, tuple(items)) for name, items in groups.items())
        self._in_order = sorted(self)

    def beginning(self, start: str) -> Iterator[_Item]:
        """Yield the items with a name that begins with ``start``, in any spelling, sorted by name."""
        key = spelling_key(start)
        for place in range(bisect_left(self._in_order, key), len(self._in_order)):
            if not self._in_order[place].startswith(key):
                return
            yield from self[self._in_order[place]]
