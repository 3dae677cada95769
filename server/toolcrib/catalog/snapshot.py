"""The catalog in memory: an immutable snapshot of all indexed tools, and the part of it that a caller may use."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from types import MappingProxyType

from toolcrib.base.cache import Recent
from toolcrib.base.model import JsonObject, LoadingMode, Tool
from toolcrib.base.names import SEPARATORS, joined_key, joined_name, name_digest, public_name
from toolcrib.base.text import spelling_key
from toolcrib.policy.rules import Permissions


class ServerTools:
    """The last list of one server; immutable, so catalogs share it until the server is listed again."""

    def __init__(self, server: str, tools: Iterable[Tool]) -> None:
        self.tools = tuple(sorted(tools, key=attrgetter("public_name")))
        self.by_name: Mapping[str, Tool] = {name: tool for tool in self.tools for name in _own_names(server, tool)}
        self._joined_server = spelling_key(server)
        self._permitted: dict[tuple[int, ...], tuple[Tool, ...]] = {}

    def permitted(self, permissions: Permissions) -> tuple[Tool, ...]:
        """Return those that callers with these permissions may use; cached.

        Permissions are compared by key, so all of them must belong to the same policy.
        """
        if permissions.unrestricted:
            return self.tools
        found = self._permitted.get(permissions.key)
        if found is None:
            permits = permissions.permits
            found = tuple(tool for tool in self.tools if permits(tool.server, tool.name, tool.public_name))
            self._permitted[permissions.key] = found
        return found

    def exact(self, key: str) -> list[Tool]:
        """Return the tools named ``key``, in the form of :func:`spelling_key`: bare, with the server, or public."""
        found = [*self._joined.get(key, ()), *self._otherwise_public.get(key, ())] if key else []
        if key.startswith(self._joined_server):
            found += self._joined.get(key[len(self._joined_server) :], ())
        return found

    def beginning(self, key: str) -> Iterator[Tool]:
        """Yield the tools with a name, in one of these forms, that begins with ``key``; tools may repeat."""
        if self._joined_server.startswith(key):
            yield from self.tools
            return
        starts = [key]
        if key.startswith(self._joined_server):
            starts.append(key[len(self._joined_server) :])
        for start in starts:
            for place in range(bisect_left(self._in_order, start), len(self._in_order)):
                if not self._in_order[place].startswith(start):
                    break
                yield from self._joined[self._in_order[place]]
        for name, tools in self._otherwise_public.items():
            if name.startswith(key):
                yield from tools

    def prepare(self) -> None:
        """Build the tables of names, for which the first search would otherwise wait."""
        _ = self._joined, self._otherwise_public

    @cached_property
    def _joined(self) -> Mapping[str, list[Tool]]:
        return _grouped((spelling_key(name), tool) for name, tool in self.by_name.items())

    @cached_property
    def _otherwise_public(self) -> Mapping[str, list[Tool]]:
        """The tools whose public name is not composed of the server's and their own name, by that name."""
        server = self.tools[0].server if self.tools else ""
        plain = f"{server}__" if server else ""
        return _grouped(
            (spelling_key(tool.public_name), tool) for tool in self.tools if tool.public_name != f"{plain}{tool.name}"
        )

    @cached_property
    def _in_order(self) -> list[str]:
        return sorted(self._joined)


def _own_names(server: str, tool: Tool) -> tuple[str, ...]:
    """Return the names of a tool without its server: its own, and the one that the config gives it, if any."""
    shown = tool.public_name.removeprefix(f"{server}__")
    # A public name that is hashed begins with the server's too, but is nobody's choice.
    is_renamed = shown not in (tool.name, tool.public_name) and public_name(server, shown) == tool.public_name
    return (tool.name, shown) if is_renamed else (tool.name,)


def _grouped(pairs: Iterable[tuple[str, Tool]]) -> Mapping[str, list[Tool]]:
    groups: dict[str, list[Tool]] = {}
    for key, tool in pairs:
        known = groups.get(key)
        if known is None:
            groups[key] = [tool]
        else:
            known.append(tool)
    return groups


_NO_OTHERS: Mapping[str, ServerTools] = MappingProxyType({})
_NO_INSTRUCTIONS: Mapping[str, str] = MappingProxyType({})
_NO_EXTENSIONS: Mapping[str, JsonObject] = MappingProxyType({})
_ALL_COMPLETE: Mapping[str, str] = MappingProxyType({})
_SEPARATED_BY = frozenset(separator[0] for separator in SEPARATORS)

_OPEN_MAX = 64
"""Number of cached subsets of a catalog, each with different tools of skills."""


@dataclass(frozen=True, slots=True, eq=False)
class Permitted:
    """What callers with the same permissions may use, by public name; ``number_by_row`` has the index of each tool.

    ``whole``: nothing of the catalog is, or could be, hidden from it. A caller with a hidden tool and one for whom
    there happens to be none to hide are treated alike, or the difference would be observable. ``scoped`` are those of
    loading mode skill. ``open_rows`` distinguishes subsets that have only some of them, by their rows; None if it has
    all of them.
    """

    permissions: Permissions
    tools: tuple[Tool, ...]
    number_by_row: Mapping[int, int]
    whole: bool
    always: tuple[Tool, ...]
    in_order: tuple[int, ...]
    scoped: tuple[Tool, ...]
    open_rows: frozenset[int] | None = None
    _parts: dict[tuple[bool, str | None], frozenset[int]] = field(
        default_factory=dict[tuple[bool, str | None], frozenset[int]], repr=False
    )

    @property
    def rows(self) -> AbstractSet[int]:
        """The rows of these tools."""
        return self.number_by_row.keys()

    @property
    def deferred_count(self) -> int:
        """How many of these tools are only listed once activated."""
        return len(self.tools) - len(self.always) - len(self.scoped)

    def part(self, *, include_always: bool = True, server: str | None = None) -> frozenset[int] | None:
        """Return the numbers of these tools without the always-loaded ones, or of one server's, or both (R26).

        None: of all.
        """
        if server is None and (include_always or not self.always):
            return None
        key = include_always, server
        part = self._parts.get(key)
        if part is None:
            part = frozenset(
                number
                for number, tool in enumerate(self.tools)
                if (include_always or tool.loading_mode is not LoadingMode.ALWAYS) and server in (None, tool.server)
            )
            if part:  # names of nonexistent servers must not grow the cache
                self._parts[key] = part
        return None if len(part) == len(self.tools) else part


class Catalog:
    """All tools at one moment. ``generation`` distinguishes snapshots; it is larger for a later one.

    ``withheld`` are digests of the names of tools that servers list and that nobody may use. ``others`` are the tools
    of further servers, taken over from an earlier catalog. ``instructions`` are what servers tell a model of
    themselves, ``extensions`` those that clients are told of, ``incomplete`` says why more tools are not known, each by
    server.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        generation: int = 0,
        withheld: Collection[str] = (),
        others: Mapping[str, ServerTools] = _NO_OTHERS,
        instructions: Mapping[str, str] = _NO_INSTRUCTIONS,
        extensions: Mapping[str, JsonObject] = _NO_EXTENSIONS,
        incomplete: Mapping[str, str] = _ALL_COMPLETE,
    ) -> None:
        listed: defaultdict[str, list[Tool]] = defaultdict(list)
        for tool in tools:
            listed[tool.server].append(tool)
        self.generation, self.instructions, self.extensions = generation, instructions, extensions
        self.incomplete = incomplete
        self._withheld = frozenset(withheld)
        self._by_server = {**others, **{server: ServerTools(server, each) for server, each in listed.items()}}
        self._server_max = max(map(len, self._by_server), default=0)
        self.tools = _in_order(named.tools for named in self._by_server.values())
        self._by_public_name = {tool.public_name: tool for tool in self.tools}
        self._permitted: dict[tuple[int, ...], Permitted] = {}
        self._open = Recent[tuple[tuple[int, ...], frozenset[int]], Permitted](_OPEN_MAX)

    def with_lists(
        self,
        servers: Collection[str],
        tools: Iterable[Tool],
        withheld: Collection[str],
        instructions: Mapping[str, str] = _NO_INSTRUCTIONS,
        extensions: Mapping[str, JsonObject] = _NO_EXTENSIONS,
        incomplete: Mapping[str, str] = _ALL_COMPLETE,
    ) -> "Catalog":
        """Return the next catalog, in which these servers have these tools and all others are unchanged.

        ``instructions``, ``extensions`` and ``incomplete`` are those of all servers.
        """
        others = {key: named for key, named in self._by_server.items() if key not in servers}
        return Catalog(tools, self.generation + 1, withheld, others, instructions, extensions, incomplete)

    def get(self, public_name: str) -> Tool | None:
        """Return the tool with exactly this public name."""
        return self._by_public_name.get(public_name)

    def find(self, spelling: str, permitted: Permitted | None = None) -> Tool | None:
        """Return the one tool that ``spelling`` names, case-sensitively, among those permitted (None: all).

        Tried in order: the public name; ``server.tool``, ``server/tool``, ``server:tool``, ``server__tool``; the bare
        name. Of several tools the one that is always loaded is returned (R240), else none.
        """
        rows = None if permitted is None else permitted.rows  # computed in any case: timing must reveal nothing
        for named in (self._public(spelling), self._qualified(spelling), self._bare(spelling)):
            among = [tool for tool in named if rows is None or tool.row in rows]
            if len(among) > 1:
                among = [tool for tool in among if tool.loading_mode is LoadingMode.ALWAYS]
                return among[0] if len(among) == 1 else None
            if among:
                return among[0]
        return None

    def spelled(self, spelling: str) -> tuple[Tool, ...]:
        """Return the tools that have exactly this public, qualified or bare name."""
        found = (*self._public(spelling), *self._qualified(spelling), *self._bare(spelling))
        return tuple({tool.row: tool for tool in found}.values())

    def withholds(self, name: str) -> bool:
        """Return whether a tool that nobody may use has this public or bare name."""
        return bool(self._withheld) and name_digest(name) in self._withheld

    def withholds_joined(self, name: str) -> bool:
        """Return whether one has a name of the same words, however they are joined."""
        joined = joined_name(name) if self._withheld else ""
        return joined != "" and name_digest(joined) in self._withheld

    def joined(self, name: str) -> tuple[Tool, ...]:
        """Return the tools that have this name of several words, bare or public, however these are joined."""
        key = joined_key(name)
        if not key:
            return ()
        found = [tool for named in self._by_server.values() for tool in named.exact(key)]
        # Of the same letters, but as one word, a name is another one.
        names = ((tool, (*_own_names(tool.server, tool), tool.public_name)) for tool in found)
        return tuple({tool.row: tool for tool, own in names if key in map(joined_key, own)}.values())

    def exact(self, query: str) -> tuple[Tool, ...]:
        """Return the tools that ``query`` names: bare or qualified, ignoring case and separators."""
        key = spelling_key(query)
        found = [tool for named in self._by_server.values() for tool in named.exact(key)]
        return _in_order([{tool.row: tool for tool in found}.values()])

    def beginning(self, query: str) -> Iterator[Tool]:
        """Yield the tools with a name that begins with ``query``: bare or qualified, ignoring case and separators.

        In any order; tools may repeat.
        """
        key = spelling_key(query)
        return (tool for named in self._by_server.values() for tool in named.beginning(key))

    def prepare(self) -> None:
        """Build the tables of names, for which the first search would otherwise wait; call it in a worker thread."""
        for named in self._by_server.values():
            named.prepare()

    def permitted(self, permissions: Permissions) -> Permitted:
        """Return what callers with these permissions may use; cached.

        Permissions are compared by key, so all of them must belong to the same policy.
        """
        permitted = self._permitted.get(permissions.key)
        if permitted is None:
            permitted = self._permitted[permissions.key] = self._permit(permissions)
        return permitted

    def open_to(self, permissions: Permissions, rows: frozenset[int]) -> Permitted:
        """Return the same as :meth:`permitted`, but of tools scoped to skills only those with one of these rows."""
        allowed = self.permitted(permissions)
        if not allowed.scoped:
            return allowed
        return self._open.get((permissions.key, rows), lambda: self._opened(allowed, rows))

    def _permit(self, permissions: Permissions) -> Permitted:
        tools = self.tools
        if not permissions.unrestricted:
            tools = _in_order(named.permitted(permissions) for named in self._by_server.values())
        return _part_of(permissions, tools, whole=permissions.sees_all and len(tools) == len(self.tools))

    def _opened(self, allowed: Permitted, rows: frozenset[int]) -> Permitted:
        tools = [tool for tool in allowed.tools if tool.loading_mode is not LoadingMode.SKILL or tool.row in rows]
        whole = allowed.whole and len(tools) == len(allowed.tools)
        return replace(_part_of(allowed.permissions, tools, whole=whole), open_rows=rows)

    def _public(self, spelling: str) -> list[Tool]:
        tool = self._by_public_name.get(spelling)
        return [] if tool is None else [tool]

    def _qualified(self, spelling: str) -> list[Tool]:
        """Return the tools that ``spelling`` names, qualified by their server."""
        found: list[Tool] = []
        for end in range(min(len(spelling), self._server_max + 1)):
            named = self._by_server.get(spelling[:end]) if spelling[end] in _SEPARATED_BY else None
            if named is not None:
                separator = next(filter(lambda each: spelling.startswith(each, end), SEPARATORS), "")
                tool = named.by_name.get(spelling[end + len(separator) :]) if separator else None
                found += [] if tool is None else [tool]
        return found

    def _bare(self, spelling: str) -> list[Tool]:
        return [named.by_name[spelling] for named in self._by_server.values() if spelling in named.by_name]


def _in_order(lists: Iterable[Iterable[Tool]]) -> tuple[Tool, ...]:
    """Return the tools of several servers, sorted by public name."""
    return tuple(sorted(chain.from_iterable(lists), key=attrgetter("public_name")))


def _part_of(permissions: Permissions, tools: Sequence[Tool], *, whole: bool) -> Permitted:
    return Permitted(
        permissions=permissions,
        tools=tuple(tools),
        number_by_row={tool.row: number for number, tool in enumerate(tools)},
        whole=whole,
        always=tuple(tool for tool in tools if tool.loading_mode is LoadingMode.ALWAYS),
        in_order=tuple(tool.row for tool in tools),
        scoped=tuple(tool for tool in tools if tool.loading_mode is LoadingMode.SKILL),
    )
