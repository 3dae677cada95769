"""What was searched for, and the calls that followed, as recorded in events."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from toolcrib.base.model import JsonObject
from toolcrib.events.reading import time_of

_SOON = timedelta(minutes=5)
"""The longest time from a search to a call of a tool that it did not find, as for learning from use (ADR 49)."""


@dataclass(frozen=True, slots=True)
class FollowedQuery:
    """A query, and the public names of the tools that were called for it, in order; each once."""

    query: str
    tools: tuple[str, ...]


@dataclass(slots=True)
class _Search:
    event: JsonObject
    tools: list[str] = field(default_factory=list[str])


def followed_queries(events: Iterable[JsonObject]) -> list[FollowedQuery]:
    """Return the full-text queries that a successful call followed, in order; equal ones are one.

    A call belongs to the search that found its tool. One whose tool no search of the session found belongs to the last
    search, if that was soon before and led to no other call.
    """
    by_query: dict[str, dict[str, None]] = {}
    for search in _searches(events):
        query = str(search.event.get("query")).strip()
        if search.tools and query:
            by_query.setdefault(query, {}).update(dict.fromkeys(search.tools))
    return [FollowedQuery(query, tuple(tools)) for query, tools in by_query.items()]


def _searches(events: Iterable[JsonObject]) -> list[_Search]:
    """Return the searches in order, each with the tools of its calls."""
    found: list[_Search] = []
    # A later process may give a session the same label; its searches then replace those of the same number.
    by_number: dict[tuple[str, object], _Search] = {}
    last: dict[str, _Search] = {}
    for event in events:
        session, number = str(event.get("session")), event.get("search")
        if event.get("event") == "tool_search_query" and event.get("effective_search_type", "fts") == "fts":
            search = _Search(event)
            found.append(search)
            by_number[session, number] = last[session] = search
        elif event.get("event") == "tool_call" and event.get("ok") is True:
            of_number, latest = by_number.get((session, number)), last.get(session)
            if of_number is not None:
                of_number.tools.append(str(event.get("tool_name")))
            elif number is None and latest is not None and not latest.tools and _is_soon(latest.event, event):
                latest.tools.append(str(event.get("tool_name")))
    return found


def _is_soon(search: JsonObject, call: JsonObject) -> bool:
    began, ended = time_of(search), time_of(call)
    return began is not None and ended is not None and timedelta() <= ended - began <= _SOON
