"""Servers that a query may mean but that have nothing to show now: failed, still starting, or not in use.

Knows names, descriptions and states of servers and what a caller may use; never knows a tool or how one is found.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from toolcrib.access.policy import Permissions
from toolcrib.base.text import query_terms, words
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import State, Status
from toolcrib.search.stemming import stem

_SHOWN_MAX = 3
_ANY_SERVER = frozenset({"mcp", "server", "tool", "api"})
_STATES = {State.FAILED: "has failed to start", State.STARTING: "is still starting"}
_IN_CONFIG = "mcpServers."


@dataclass(frozen=True, slots=True)
class _Missing:
    key: str
    reason: str
    stems: frozenset[str]


class MissingServers:
    """The servers of a config that cannot be searched at this moment."""

    def __init__(self, settings: Settings) -> None:
        self._stems = {key: _stems(settings, key) for key in settings.servers}
        left_out = ((problem.path.removeprefix(_IN_CONFIG), problem.reason) for problem in settings.skipped)
        self.left_out = [
            _Missing(key, "is disabled" if reason == "is disabled" else "is not in use", _stems(settings, key))
            for key, reason in left_out
        ]

    def note(
        self,
        query: str,
        permissions: Permissions,
        statuses: Mapping[str, Status],
        found: Collection[str],
        *,
        any_of_them: bool,
    ) -> str:
        """Return in a sentence which servers may be meant, as far as the caller may use them; empty if none is.

        A server is meant where its name or description has a word of ``query``, or ``any_of_them``. Servers in
        ``found`` have hits, which tell their state themselves.
        """
        asked = {stem(term) for term in query_terms(query)} - _ANY_SERVER
        meant = [
            f"{each.key} {each.reason}"
            for each in (*self._not_up(statuses), *self.left_out)
            if each.key not in found and (any_of_them or asked & each.stems) and permissions.permits_some_of(each.key)
        ]
        return f"Not searched: server {'; server '.join(meant[:_SHOWN_MAX])}." if meant else ""

    def _not_up(self, statuses: Mapping[str, Status]) -> Iterable[_Missing]:
        for key, status in statuses.items():
            if status.state in _STATES:
                yield _Missing(key, _STATES[status.state], self._stems[key])


def _stems(settings: Settings, key: str) -> frozenset[str]:
    options = settings.toolcrib.servers.get(key)
    text = f"{key} {options.description if options else ''}"
    return frozenset(map(stem, query_terms(" ".join(words(text))))) - _ANY_SERVER
