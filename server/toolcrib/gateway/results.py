"""Paging of results that are too large to pass on whole: the first page now, the others on request."""

import codecs
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from toolcrib.base.errors import BadRequest
from toolcrib.base.handles import NewHandle, new_handle
from toolcrib.base.json_values import as_list, as_object, compact, weight
from toolcrib.base.model import READ_MORE, Caller, JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import Settings
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session

_BULK = ("content", "structuredContent")
"""The members of a result that are split; the others are on its first page."""

_OTHERS_SHARE = 4
"""The other members together get at most this fraction (1/n) of a page."""

_MARKS = (("\n",), (". ", "! ", "? ", "。"), (" ",))
"""Where a text is split: after the end of a line, else of a sentence, else of a word."""


@dataclass(frozen=True, slots=True)
class Pages:
    """A result in pages, each a result of its own. ``left_out`` are omitted members of the result."""

    first: JsonObject
    rest: tuple[JsonObject, ...]
    left_out: tuple[str, ...]


def pages(result: JsonObject, limit: int) -> Pages:
    """Return a result as pages of at most about ``limit`` bytes.

    It is split between the blocks of its content, and within a text at the end of a line or sentence. A block that is
    not text and larger than a page is a page of its own, never the first. Structured content larger than half of the
    first page follows as text, and the first page is then marked as an error: a client that was promised structured
    content raises if anything else lacks it. Takes time proportional to the size.
    """
    others, left_out = _others(result, limit // _OTHERS_SHARE)
    room = limit - weight(others, limit)
    blocks = as_list(result.get("content"))
    if "structuredContent" in result:
        structured = result["structuredContent"]
        size = weight(structured, limit)
        if size <= room // 2:
            others, room = {**others, "structuredContent": structured}, room - size
        else:
            others = {**others, "isError": True}
            blocks = [*blocks, _text_block(structured)]
    first, *rest = _filled(blocks, room, limit)
    kept = {"isError": True} if result.get("isError") is True else {}
    return Pages({**others, "content": first}, tuple({**kept, "content": each} for each in rest), left_out)


def _others(result: JsonObject, limit: int) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the small members of a result, and the names of those that do not fit."""
    kept: JsonObject = {}
    left_out: list[str] = []
    for name, value in result.items():
        if name in _BULK:
            continue
        size = weight({name: value}, limit)
        if size <= limit:
            kept[name], limit = value, limit - size
        else:
            left_out.append(name)
    return kept, tuple(left_out)


def _text_block(structured: Any) -> JsonObject:
    try:
        text = compact(structured)
    except RecursionError:
        text = "(nested too deeply to be written)"
    return {"type": "text", "text": f"structuredContent: {text}"}


def _filled(blocks: Sequence[Any], room: int, limit: int) -> list[list[Any]]:
    """Return the blocks page by page: the first page has ``room`` bytes, the others ``limit``."""
    filled: list[list[Any]] = [[]]
    for block in blocks:
        rest: Any = block
        while rest is not None:
            size = weight(rest, limit)
            if size <= room:
                filled[-1].append(rest)
                room, rest = room - size, None
            # A text that fits on the next page stays whole, unless half of this one would be empty.
            elif (size > limit or room > limit // 2) and (parts := _split(rest, room)):
                filled[-1].append(parts[0])
                filled.append([])
                room, rest = limit, parts[1]
            # Half of an image is useless, so it gets a page of its own: never the first, which the model gets unasked.
            elif size > limit and len(filled) > 1 and not filled[-1]:
                filled[-1].append(rest)
                room, rest = 0, None
            else:
                filled.append([])
                room = limit
    return [filled[0], *filter(None, filled[1:])]


def _split(block: Any, room: int) -> tuple[JsonObject, JsonObject] | None:
    """Split a block of text, or an embedded text resource, in two; the first takes at most ``room`` bytes.

    None if there is no text, or not enough room for half as much text as other members.
    """
    fields = as_object(block)
    holder = fields if fields.get("type") == "text" else as_object(fields.get("resource"))
    text = holder.get("text")
    if not isinstance(text, str):
        return None
    beside = weight(_with_text(fields, ""), room)
    place = _boundary(text, room - beside) if 2 * beside < room else 0
    return (_with_text(fields, text[:place]), _with_text(fields, text[place:])) if place else None


def _with_text(block: JsonObject, text: str) -> JsonObject:
    if block.get("type") == "text":
        return {**block, "text": text}
    return {**block, "resource": {**as_object(block["resource"]), "text": text}}


def _boundary(text: str, most: int) -> int:
    """Return how many characters of ``text`` to take, at most ``most`` bytes, up to a boundary."""
    if not text.isascii():
        # Incremental: an incomplete character at the end is dropped.
        head = text[:most].encode("utf-8", "surrogatepass")[:most]
        most = len(codecs.getincrementaldecoder("utf-8")("surrogatepass").decode(head))
    for marks in _MARKS:
        place = max(text.rfind(mark, most // 2, most) + len(mark) for mark in marks)
        if place > most // 2:
            return place
    return most


def failure(text: str) -> JsonObject:
    """Return a tool result that reports an error to the model; all of it in ``content``, which every host shows."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


_NOTHING = (
    "There is nothing to read with this handle: it is not one of this session, or it has expired. Call the tool again, "
    "and ask for less at a time."
)

Owner = tuple[Caller, str]
"""The caller, and the session."""


@dataclass(slots=True)
class _Kept:
    """The later pages of one result, page 2 first; ``read`` is the number of the page read last."""

    owner: Owner
    pages: tuple[bytes, ...]
    expires: float
    read: int = 1

    @property
    def size(self) -> int:
        return sum(map(len, self.pages))


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a result: its stored bytes, its number, from 2 on, and the number of the last page."""

    content: bytes
    number: int
    last: int


class ResultPages:
    """Stored pages, by handle. ``now`` is a monotonic clock, in seconds."""

    def __init__(self, limits: LimitsSection, now: Callable[[], float], new_handle: NewHandle = new_handle) -> None:
        self._limits, self._now, self._new_handle = limits, now, new_handle
        self._kept: dict[str, _Kept] = {}

    def keep(self, owner: Owner, pages: Sequence[bytes]) -> tuple[str, int]:
        """Store the pages that fit into the owner's share, and return their handle and number.

        The owner's oldest results are evicted first; if all owners together exceed the limit, results of the caller
        with the most.
        """
        self._forget_expired()
        fitting, left = list[bytes](), self._limits.results_kept_bytes
        for page in pages:
            left -= len(page)
            if left < 0:
                break
            fitting.append(page)
        handle = self._new_handle()
        if not fitting:
            return handle, 0
        self._kept[handle] = _Kept(owner, tuple(fitting), self._now() + self._limits.results_kept_s)
        while self._size(owner) > self._limits.results_kept_bytes:
            self._forget_oldest(lambda kept: kept.owner == owner)
        while self._size() > self._limits.results_kept_total_bytes:
            self._forget_oldest(self._is_of_greatest())
        return handle, len(fitting) if handle in self._kept else 0

    def page(self, owner: Owner, handle: str, number: int | None) -> Page:
        """Return a page by its number, or the one after the page read last.

        Raises:
            BadRequest: no valid handle of this owner, or no such page.

        """
        self._forget_expired()
        kept = self._kept.get(handle)
        # One answer for both, so that nobody learns which handles exist.
        if kept is None or kept.owner != owner:
            raise BadRequest(_NOTHING)
        last = len(kept.pages) + 1
        wanted = kept.read + 1 if number is None else number
        if not 1 < wanted <= last:
            raise BadRequest(f"'page' must be from 2 to {last}; page 1 is what the call itself returned.")
        kept.read = wanted
        return Page(kept.pages[wanted - 2], wanted, last)

    def _size(self, owner: Owner | None = None) -> int:
        return sum(kept.size for kept in self._kept.values() if owner in (None, kept.owner))

    def _is_of_greatest(self) -> Callable[[_Kept], bool]:
        """Return a predicate for results of the principal with the most stored bytes."""
        sizes: dict[str, int] = {}
        for kept in self._kept.values():
            principal = kept.owner[0].principal
            sizes[principal] = sizes.get(principal, 0) + kept.size
        principal = max(sizes, key=sizes.__getitem__)
        return lambda kept: kept.owner[0].principal == principal

    def _forget_oldest(self, concerns: Callable[[_Kept], bool]) -> None:
        del self._kept[next(handle for handle, kept in self._kept.items() if concerns(kept))]

    def _forget_expired(self) -> None:
        for handle in [handle for handle, kept in self._kept.items() if kept.expires <= self._now()]:
            del self._kept[handle]


_LARGE = 2
"""A page this many times as large as others is announced before it is read."""


class LongResults:
    """Splits results by ``limits.result_max_bytes`` and stores the rest in ``kept``."""

    def __init__(self, settings: Settings, kept: ResultPages) -> None:
        section = settings.toolcrib
        self._limits = section.limits
        self._kept = kept
        self._lists_all = not section.tool_search.enabled
        self._door = "tool_call_read" if section.gate.call_tools == "split" else "tool_call"

    async def bounded(self, request: Request, result: JsonObject) -> tuple[JsonObject, int]:
        """Return the result and its size; for one that is too large its first page, which says how to read on.

        The caller is notified if that adds ``read_more`` to the session's list.
        """
        limit = self._limits.result_max_bytes
        size = weight(result, limit)
        if size <= limit:
            return result, size
        session = request.session
        # In a thread, because it takes time in proportion to the size.
        cut, rest = await anyio.to_thread.run_sync(_cut, result, limit)
        handle, kept = self._kept.keep((session.caller, session.label), rest)
        if kept and not session.reads_more and self._lists_it(session):
            # Before the notification, which the client may answer with a request for the list.
            session.reads_more = True
            await request.notify_tools_changed()
        told = self._first_page_notice(session, cut, rest, handle, kept)
        return _with_notice(cut.first, told), limit

    def _lists_it(self, session: Session) -> bool:
        """Whether the session's list shows ``read_more`` from now on (ADR 25)."""
        return session.growing or (session.lasting and self._is_whole(session))

    def _is_whole(self, session: Session) -> bool:
        """Whether the session's list has all tools, and so none for calling others."""
        return self._lists_all or session.whole_list is not None

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
        if not session.reads_more and not self._is_whole(session):
            name, arguments = self._door, {"name": READ_MORE, "arguments": arguments}
        return f"For page {page}, call toolcrib's {name} with {compact(arguments)}."


def _cut(result: JsonObject, limit: int) -> tuple[Pages, list[bytes]]:
    cut = pages(result, limit)
    # As bytes, which are what the limits count: parsed values take several times as much memory.
    return cut, [_encoded(page) for page in cut.rest]


def _encoded(page: JsonObject) -> bytes:
    try:
        return compact(page).encode("utf-8", "surrogatepass")
    except RecursionError:
        return compact({"content": [{"type": "text", "text": "(nested too deeply to be kept)"}]}).encode()


def _with_notice(result: JsonObject, notice: str) -> JsonObject:
    return {**result, "content": [*result["content"], {"type": "text", "text": notice}]}
