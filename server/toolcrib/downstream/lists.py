"""A list of a server, page by page: tools, prompts, resources, templates and skills by the same rule.

What was read stays, and why there is no more of it is told (:class:`RawList`).
"""

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.to_thread
from mcp import MCPError

from toolcrib.base.json_values import is_same, weight
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.failures import wants_login
from toolcrib.downstream.states import RawList

_log = logging.getLogger(__name__)

REPEATED = "its list repeats itself"

_SHARE = 0.8
"""The share of the time left for all that further pages may take: what was read still has to be taken in."""

_REPEATS_MAX = 2
"""How often a page may come again in a row: once it may be an item that the server lists twice."""

Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Sends a request, given its method and params, and returns the raw result."""


@dataclass(frozen=True, slots=True)
class ListBounds:
    """How much of a list is read: pages, and of all but tools items and their bytes (``limits.offers_...``)."""

    pages: int
    items: float = math.inf
    max_bytes: float = math.inf

    @classmethod
    def of_offers(cls, limits: LimitsSection) -> "ListBounds":
        """Return those of lists that are no tools."""
        return cls(limits.list_pages, limits.offers_per_server, limits.offers_max_bytes)


async def read_list(ask: Ask, method: str, key: str, bounds: ListBounds, *, keeps: Callable[[], bool]) -> RawList:
    """Return the raw items of a list, undecoded; they stand under ``key`` in each answer.

    ``keeps`` says whether what was read is of use where a later page cannot be read.

    Raises:
        MCPError, ValueError: the first page was refused, or is no list; or a later one, and nothing is kept.

    """
    reading, params = _Reading(bounds), dict[str, Any]()
    in_time = math.inf
    while True:
        is_first, number, answer = not reading.pages, reading.pages + 1, None
        with anyio.CancelScope(deadline=in_time):
            try:
                answer = await _page(ask, method, key, params)
            except (MCPError, ValueError) as error:
                if is_first or not keeps() or wants_login(error):
                    raise
                _log.warning("page %s of an answer to %s: %s", number, method, type(error).__name__)
                return RawList(reading.items, f"page {number} of its list cannot be read", is_passing=True)
        if answer is None:
            return RawList(reading.items, f"page {number} of its list did not come in time", is_passing=True)
        if is_first and keeps():  # otherwise no page has to come sooner than the rest
            now = anyio.current_time()
            in_time = now + _SHARE * (anyio.current_effective_deadline() - now)
        page, cursor = answer
        cut = await reading.add(page, is_last=not cursor) or (reading.why_not_on(cursor) if cursor else "")
        if cut or not cursor:
            return RawList(reading.items, cut)
        params = {"cursor": cursor}


async def _page(ask: Ask, method: str, key: str, params: JsonObject) -> tuple[list[Any], Any]:
    """Return the items of one page, and the cursor of the next; none if it is the last."""
    result = await ask(method, params)
    page = result.pop(key, None)  # out of the message, which the SDK keeps until the next one arrives
    if not isinstance(page, list):
        raise ValueError(f"its answer to {method} has no list '{key}'")
    return cast("list[Any]", page), result.get("nextCursor")


class _Reading:
    """What was read of one list so far."""

    def __init__(self, bounds: ListBounds) -> None:
        self.items: list[Any] = []
        self.pages = 0
        self._bounds = bounds
        self._last: list[Any] = []
        self._cursors: set[str] = set()
        self._size = self._repeats = 0

    async def add(self, page: list[Any], *, is_last: bool) -> str:
        """Add a page; return why the list ends with it, or before it, empty if it does not."""
        bounds, self.pages = self._bounds, self.pages + 1
        # In a thread: a page may be large.
        is_equal = bool(page) and len(page) == len(self._last)
        if is_equal and await anyio.to_thread.run_sync(is_same, page, self._last):
            self._repeats += 1
            return REPEATED if self._repeats == _REPEATS_MAX and not is_last else ""
        self._repeats = 0
        if bounds.max_bytes < math.inf:
            self._size += await anyio.to_thread.run_sync(weight, page, int(bounds.max_bytes))
            if self._size > bounds.max_bytes:
                return f"limits.offers_max_bytes is {bounds.max_bytes}"
        self._last = page
        self.items += page
        if len(self.items) > bounds.items:
            del self.items[int(bounds.items) :]
            return f"limits.offers_per_server is {bounds.items}"
        return ""

    def why_not_on(self, cursor: Any) -> str:
        """Return why no page is requested with a cursor; empty if there is no reason."""
        if not isinstance(cursor, str):
            return f"page {self.pages} of its list names the next one by no text"
        if cursor in self._cursors:
            return REPEATED
        self._cursors.add(cursor)
        return f"limits.list_pages is {self._bounds.pages}" if self.pages >= self._bounds.pages else ""
