"""The tools of one server by their names, in every spelling.

Knows names and which of these tools the policy permits; never knows other servers, a database or a ranking.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter

from toolcrib.base.model import Tool
from toolcrib.base.text import joined
from toolcrib.policy.rules import Permissions


class NamedTools:
    """The last list of one server; immutable, so catalogs share it until the server is listed again."""

    def __init__(self, server: str, tools: Iterable[Tool]) -> None:
        self.tools = tuple(sorted(tools, key=attrgetter("public_name")))
        self.by_name: Mapping[str, Tool] = {tool.name: tool for tool in self.tools}
        self._joined_server = joined(server)
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
        """Return the tools named ``key``, in the form of :func:`joined`: bare, with the server, or public."""
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
        return _grouped((joined(tool.name), tool) for tool in self.tools)

    @cached_property
    def _otherwise_public(self) -> Mapping[str, list[Tool]]:
        """The tools whose public name is not composed of the server's and their own name, by that name."""
        plain = f"{self.tools[0].server}__" if self.tools else ""
        return _grouped(
            (joined(tool.public_name), tool) for tool in self.tools if tool.public_name != f"{plain}{tool.name}"
        )

    @cached_property
    def _in_order(self) -> list[str]:
        return sorted(self._joined)


def _grouped(pairs: Iterable[tuple[str, Tool]]) -> Mapping[str, list[Tool]]:
    groups: dict[str, list[Tool]] = {}
    for key, tool in pairs:
        known = groups.get(key)
        if known is None:
            groups[key] = [tool]
        else:
            known.append(tool)
    return groups
