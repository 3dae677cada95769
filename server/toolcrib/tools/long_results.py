"""Paging of results that are too large to pass on whole: the first page now, the others on request.

Knows what a model is told about a paged result; never knows which tool returned it.
"""

import json
from collections.abc import Awaitable, Callable, Sequence

import anyio.to_thread

from toolcrib.base.json_values import compact, weight
from toolcrib.base.model import READ_MORE, JsonObject
from toolcrib.config.settings import Settings
from toolcrib.policy.sessions import Session
from toolcrib.tools.kept_pages import KeptPages
from toolcrib.tools.results import Pages, pages

_LARGE = 2
"""A page this many times as large as others is announced before it is read."""


class LongResults:
    """Splits results by ``limits.result_max_bytes`` and stores the rest in ``kept``."""

    def __init__(self, settings: Settings, kept: KeptPages) -> None:
        section = settings.toolcrib
        self._limits = section.limits
        self._kept = kept
        self._lists_all = not section.tool_search.enabled
        self._door = "tool_call_read" if section.gate.call_tools == "split" else "tool_call"

    async def bounded(
        self, session: Session, result: JsonObject, announce: Callable[[], Awaitable[None]]
    ) -> tuple[JsonObject, int]:
        """Return the result and its size; for one that is too large its first page, which says how to read on.

        ``announce`` is called if the session's list has grown by ``read_more``.
        """
        limit = self._limits.result_max_bytes
        size = weight(result, limit)
        if size <= limit:
            return result, size
        cut, rest = await anyio.to_thread.run_sync(_cut, result, limit)
        handle, kept = self._kept.keep((session.caller, session.label), rest)
        if kept and not session.reads_more and self._lists_it(session):
            session.reads_more = True
            await announce()
        told = self._first_page_notice(session, cut, rest, handle, kept)
        return _with_notice(cut.first, told), limit

    def _lists_it(self, session: Session) -> bool:
        """Whether the session's list shows ``read_more`` from now on (ADR 25)."""
        return session.growing or (session.lasting and self._lists_all)

    async def page(self, session: Session, handle: str, number: int | None) -> JsonObject:
        """Return a later page of a result, as a tool result.

        Raises:
            BadRequest: no valid handle of this session, or no such page.

        """
        page = self._kept.page((session.caller, session.label), handle, number)
        content = await anyio.to_thread.run_sync(json.loads, page.content)
        if page.number == page.last:
            return _with_notice(content, f"[toolcrib: page {page.number} of {page.last}, the last one.]")
        how = self._how(session, handle, page.number + 1)
        return _with_notice(content, f"[toolcrib: page {page.number} of {page.last}. {how}]")

    def _first_page_notice(self, session: Session, cut: Pages, rest: Sequence[bytes], handle: str, kept: int) -> str:
        limit = self._limits.result_max_bytes
        said = [f"the tool has run, but its result was larger than {limit} bytes (limits.result_max_bytes), so it has "]
        if kept:
            minutes = self._limits.results_kept_s / 60
            said[0] += f"been cut: this is page 1 of {kept + 1}, kept for {minutes:.0f} minutes."
            said.append(self._how(session, handle, 2))
            if len(rest[0]) > _LARGE * limit:
                said.append(f"Page 2 takes {len(rest[0])} bytes.")
        else:
            said[0] += "been cut."
        if kept < len(rest):
            said.append(f"{len(rest) - kept} more pages were too much to keep (limits.results_kept_bytes).")
        if cut.left_out:
            said.append(f"Left out: {', '.join(cut.left_out[:3])}.")
        if kept < len(rest) or cut.left_out:
            said.append("To get it whole, ask for less at a time, for instance with a filter, a range or a page.")
        return f"[toolcrib: {' '.join(said)}]"

    def _how(self, session: Session, handle: str, page: int) -> str:
        """Return how to get a page, using the built-in tool available to the session."""
        arguments: JsonObject = {"handle": handle, "page": page}
        name = READ_MORE
        if not session.reads_more and not self._lists_all:
            name, arguments = self._door, {"name": READ_MORE, "arguments": arguments}
        return f"For page {page}, call toolcrib's {name} with {compact(arguments)}."


def _cut(result: JsonObject, limit: int) -> tuple[Pages, list[bytes]]:
    cut = pages(result, limit)
    return cut, [_encoded(page) for page in cut.rest]


def _encoded(page: JsonObject) -> bytes:
    try:
        return compact(page).encode("utf-8", "surrogatepass")
    except RecursionError:
        return compact({"content": [{"type": "text", "text": "(nested too deeply to be kept)"}]}).encode()


def _with_notice(result: JsonObject, notice: str) -> JsonObject:
    return {**result, "content": [*result["content"], {"type": "text", "text": notice}]}
