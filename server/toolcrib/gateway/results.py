"""Paging of results that are too large to pass on whole: the first page now, the others on request."""

import codecs
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any, Literal, TypeVar, cast

import anyio.to_thread

from toolcrib.base.errors import BadRequest
from toolcrib.base.handles import NewHandle, new_handle
from toolcrib.base.json_values import as_list, as_object, compact, weight
from toolcrib.base.model import BUILTIN_NAMES, READ_MORE, Caller, JsonObject, Tool
from toolcrib.base.text import characters_of, marked
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.index import ToolIndex
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import Settings
from toolcrib.gateway.blocks import (
    bytes_of,
    is_structured_alone,
    repeats_media,
    structured_text,
    text_of,
    without_bytes,
)
from toolcrib.policy.client_profiles import NO_CLIENT
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session

_Value = TypeVar("_Value")

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


Weigh = Callable[[Any, int], int]
"""Returns how much of a page a value takes, in bytes; stops counting soon after a limit."""

_IMAGE = 6400
"""What a model reads of an image, in bytes of text: some 1,600 tokens, whatever it takes to send."""


def read_weight(value: Any, limit: int) -> int:
    """Return the approximate size of a value as a model reads it, in bytes: images and sounds are not read as text."""
    data = bytes_of(value)
    if data is None:
        return weight(value, limit)
    return min(_IMAGE, len(data)) + weight(without_bytes(value), limit)


Structured = Literal["whole", "fitting", "as text"]
"""What becomes of structured content: whole for a client that was promised it, which raises if it is missing; on the
first page if it is small; or as text, for a host that would show its model nothing else.
"""


def pages(result: JsonObject, limit: int, weigh: Weigh = weight, structured: Structured = "fitting") -> Pages:
    """Return a result as pages of at most about ``limit`` bytes.

    It is split between the blocks of its content, and within a text at the end of a line or sentence. Media come first,
    and the first of them is on the first page whatever it weighs. Any other block that is not text and larger than a
    page is a page of its own. Structured content that is neither whole nor fits into half of the first page follows as
    text, unless blocks say the same. Takes time proportional to the size.
    """
    others, left_out = _others(result, limit // _OTHERS_SHARE)
    room = limit - weight(others, limit)
    blocks = as_list(result.get("content"))
    if "structuredContent" in result:
        value = result["structuredContent"]
        size = weight(value, limit)
        if structured == "whole":
            others = {**others, "structuredContent": value}
        elif structured == "fitting" and size <= room // 2:
            others, room = {**others, "structuredContent": value}, room - size
        elif text := structured_text(result):
            blocks = [*blocks, _text_block(f"structuredContent: {text}")]
    first, *rest = _filled(blocks, room, limit, weigh)
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


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _filled(blocks: Sequence[Any], room: int, limit: int, weigh: Weigh) -> list[list[Any]]:
    """Return the blocks page by page: the first page has ``room`` bytes, the others ``limit``.

    The first page has as many media as fit beside the text, or into half of it where there is more text than that, and
    the first of them in any case; the others follow after the text.
    """
    media = {place: block for place, block in enumerate(blocks) if bytes_of(block) is not None}
    texts = sum(weigh(block, room) for place, block in enumerate(blocks) if place not in media)
    half = room // 2
    at_once = _media_at_once(media, max(room - texts, half), half, weigh)
    filling = _Filling(max(room - sum(weigh(media[place], room) for place in at_once), half), limit, weigh)
    for place, block in enumerate(blocks):
        if place in at_once:
            filling.pages[0].append(block)
        elif place not in media:
            filling.add(block)
    if len(at_once) < len(media):
        filling.begin_page()
    for place, block in media.items():
        if place not in at_once:
            filling.add(block)
    return [filling.pages[0], *filter(None, filling.pages[1:])]


def _media_at_once(media: Mapping[int, Any], room: int, most_besides: int, weigh: Weigh) -> set[int]:
    """Return the places of the media that are on the first page: those in ``room``, and one whatever its bytes take."""
    places = set[int]()
    for place, block in media.items():
        size = weigh(block, room)
        if places and size > room:
            break
        # What is not bytes would be a text that comes whole.
        if size <= room or weight(without_bytes(block), most_besides) <= most_besides:
            places.add(place)
            room -= size
    return places


class _Filling:
    """Pages that are filled one after the other; the first has ``room`` bytes, the others ``limit``."""

    def __init__(self, room: int, limit: int, weigh: Weigh) -> None:
        self._room = self._page = room
        self._limit, self._weigh = limit, weigh
        self.pages: list[list[Any]] = [[]]

    def begin_page(self) -> None:
        self.pages.append([])
        self._room = self._page = self._limit

    def add(self, block: Any) -> None:
        rest: Any = block
        while rest is not None:
            size = self._weigh(rest, self._limit)
            if size <= self._room:
                self.pages[-1].append(rest)
                self._room, rest = self._room - size, None
            # A text that fits on the next page stays whole, unless half of this one would be empty.
            elif (size > self._limit or self._room > self._page // 2) and (parts := _split(rest, self._room)):
                self.pages[-1].append(parts[0])
                self.begin_page()
                rest = parts[1]
            # Half of an image is useless, so what cannot be split gets a page of its own.
            elif size > self._limit and len(self.pages) > 1 and not self.pages[-1]:
                self.pages[-1].append(rest)
                self._room, rest = 0, None
            else:
                self.begin_page()


def _split(block: Any, room: int) -> tuple[JsonObject, JsonObject] | None:
    """Split a block of text, or an embedded text resource, in two; the first takes at most ``room`` bytes.

    None if there is no text, or not enough room for half as much text as other members.
    """
    fields, text = as_object(block), text_of(block)
    if text is None:
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

Permits = Callable[[Tool], bool]
"""Returns whether the owner may use a tool now: the decision falls at each read, not when the result was kept."""


@dataclass(slots=True)
class _Kept:
    """The pages of one result of a tool, page 2 first; ``read`` is the number of the page read last.

    ``whole`` is the result, to be searched, or empty where it is too large to be kept besides.
    """

    owner: Owner
    tool: Tool
    pages: tuple[bytes, ...]
    expires: float
    whole: bytes = b""
    read: int = 1

    @property
    def size(self) -> int:
        return sum(map(len, self.pages)) + len(self.whole)


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

    def keep(self, owner: Owner, tool: Tool, pages: Sequence[bytes], whole: bytes = b"") -> tuple[str, int]:
        """Store the pages of a tool's result that fit into the owner's share, and return their handle and number.

        The whole result is stored too, if there is room. The owner's oldest results are evicted first; if all owners
        together exceed the limit, results of the caller with the most.
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
        fits = len(whole) <= left and len(fitting) == len(pages)
        expires = self._now() + self._limits.results_kept_s
        self._kept[handle] = _Kept(owner, tool, tuple(fitting), expires, whole if fits else b"")
        while self._size(owner) > self._limits.results_kept_bytes:
            self._forget_oldest(lambda kept: kept.owner == owner)
        while self._size() > self._limits.results_kept_total_bytes:
            self._forget_oldest(self._is_of_greatest())
        return handle, len(fitting) if handle in self._kept else 0

    def page(self, owner: Owner, handle: str, number: int | None, permits: Permits) -> Page:
        """Return a page by its number, or the one after the page read last.

        Raises:
            BadRequest: no valid handle of this owner, a tool that it may not use any more, or no such page.

        """
        kept = self._of(owner, handle, permits)
        last = len(kept.pages) + 1
        wanted = kept.read + 1 if number is None else number
        if not 1 < wanted <= last:
            raise BadRequest(f"'page' must be from 2 to {last}; page 1 is what the call itself returned.")
        kept.read = wanted
        return Page(kept.pages[wanted - 2], wanted, last)

    def whole(self, owner: Owner, handle: str, permits: Permits) -> bytes:
        """Return a whole result.

        Raises:
            BadRequest: no valid handle of this owner, a tool that it may not use any more, or only pages are kept.

        """
        whole = self._of(owner, handle, permits).whole
        if not whole:
            raise BadRequest("Only pages of this result are kept, because it is too large: read it with 'page'.")
        return whole

    def _of(self, owner: Owner, handle: str, permits: Permits) -> _Kept:
        self._forget_expired()
        kept = self._kept.get(handle)
        # One answer for all, so that nobody learns which handles exist, nor that a tool was denied.
        if kept is None or kept.owner != owner or not permits(kept.tool):
            raise BadRequest(_NOTHING)
        return kept

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
        """Make room: wholes first, whose pages can still be read."""
        concerned = [handle for handle, kept in self._kept.items() if concerns(kept)]
        for handle in concerned:
            if self._kept[handle].whole:
                self._kept[handle] = replace(self._kept[handle], whole=b"")
                return
        del self._kept[concerned[0]]

    def _forget_expired(self) -> None:
        for handle in [handle for handle, kept in self._kept.items() if kept.expires <= self._now()]:
            del self._kept[handle]


_QUICK = 16 * 1024
"""Bytes of a result whose size is computed on the event loop."""
_LARGE = 2
"""A page this many times as large as others is announced before it is read."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """The most of a result that is given at once: bytes, and how they are counted; ``told`` names it and its key."""

    bytes: int
    weigh: Weigh
    told: str


class LongResults:
    """Splits results by what a model can bear, and stores the rest in ``kept``. ``clock`` is monotonic, in seconds.

    ``gate`` decides who reads on; ``index`` has the definitions of tools. The smallest bound holds: that of the server,
    that of the client's host, and ``limits.result_max_bytes``.
    """

    def __init__(
        self,
        settings: Settings,
        gate: Gate,
        index: ToolIndex,
        kept: ResultPages,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        section = settings.toolcrib
        self._limits, self._gate, self._index, self._clock = section.limits, gate, index, clock
        self._marks_hidden = section.results.hidden == "mark"
        self._of_servers = {key: server.options.results for key, server in settings.servers.items()}
        self._kept = kept
        self._lists_all = not section.tool_search.enabled
        self._door = "tool_call_read" if section.gate.call_tools == "split" else "tool_call"

    async def bounded(self, request: Request, tool: Tool, result: JsonObject) -> tuple[JsonObject, int]:
        """Return a tool's result and its size; for one that is too large its first page, which says how to read on.

        The caller is notified if ``read_more`` is added to the session's list.
        """
        session, server = request.session, tool.server
        if self._marks_hidden:
            result = await anyio.to_thread.run_sync(_marked, result)
        if request.whole_results:
            size = weight(result, _QUICK)
            if size > _QUICK:
                size = await anyio.to_thread.run_sync(weight, result, self._limits.message_max_bytes)
            return result, size
        sent, result = result, await self._in_form(request, tool, result)
        bound = self._bound(session, server)
        size = _size(result, bound)
        if size <= bound.bytes:
            return result, size

        def cut() -> tuple[Pages, list[bytes], bytes, str]:
            small = "fitting" if session.client_profile.structured else "as text"
            structured = "whole" if self._is_promised(request, tool) else small
            cut = pages(result, bound.bytes, bound.weigh, structured)
            if not (cut.rest or cut.left_out):
                return cut, [], b"", ""
            # As bytes, which are what the limits count: parsed values take several times as much memory.
            return cut, [_encoded(page) for page in cut.rest], _encoded(sent), _described(sent)

        # In a thread, because it takes time in proportion to the size.
        first, rest, whole, described = await anyio.to_thread.run_sync(cut)
        if not (rest or first.left_out):  # large is what was promised to the client, or what a model does not read
            return first.first, size
        most = self._of_servers[server].pages_kept
        handle, kept = self._kept.keep((session.caller, session.label), tool, rest[:most], whole)
        if kept and not session.reads_more and self._lists_it(session):
            # Before the notification, which the client may answer with a request for the list.
            session.reads_more = True
            await request.notify_tools_changed()
        told = self._first_page_notice(session, server, bound, first, rest, handle, kept, described)
        return _with_notice(first.first, told), bound.bytes

    async def _in_form(self, request: Request, tool: Tool, result: JsonObject) -> JsonObject:
        """Return a result with its structured content as a text: in its place, or besides where a host needs one."""
        kept = result
        if await self._is_replaced(request, tool, result):
            kept = {key: value for key, value in result.items() if key != "structuredContent"}
        elif not (request.session.client_profile.needs_text and await _short_or_in_thread(is_structured_alone, result)):
            return result
        text = await _short_or_in_thread(structured_text, result)
        return {**kept, "content": [*as_list(result.get("content")), _text_block(text)]} if text else kept

    async def _is_replaced(self, request: Request, tool: Tool, result: JsonObject) -> bool:
        """Return whether a text takes the place of structured content.

        It is not an object, which the revisions with sessions do not allow; or it has the bytes of an image again, and
        the host would show them to its model.
        """
        session, structured = request.session, result.get("structuredContent")
        if structured is None:
            return False
        if not (session.is_modern or isinstance(structured, dict)):
            return True
        if session.client_profile.structured or session.client_profile.needs_text:
            return False
        has_bytes = await _short_or_in_thread(repeats_media, result)
        return has_bytes and not await anyio.to_thread.run_sync(self._is_promised, request, tool)

    def _is_promised(self, request: Request, tool: Tool) -> bool:
        """Return whether the client was shown what the tool's structured content is like. Blocks.

        It is not shown that of a tool that another one calls.
        """
        if request.params.get("name") in BUILTIN_NAMES or not request.session.shows_output_schemas:
            return False
        found = self._index.definitions([tool.row], {tool.row: tool.fingerprint})
        return "outputSchema" in found.get(tool.row, {})

    def shown_at_once(self, session: Session, server: str) -> int:
        """Return about how many characters of one result of a server a session's model is given at once, at most."""
        return self._bound(session, server).bytes

    def _bound(self, session: Session, server: str) -> _Bound:
        most = self._limits.result_max_bytes
        bound = _Bound(most, weight, f"{most} bytes (limits.result_max_bytes)")
        # A command of a person prints it whole.
        if session.client_profile is NO_CLIENT:
            return bound
        for tokens, key in (
            (session.client_profile.result_tokens, f"results.hosts[{json.dumps(session.client)}].max_tokens"),
            (self._of_servers[server].max_tokens, f"servers.{server}.results.max_tokens"),
        ):
            if tokens is not None and characters_of(tokens) < bound.bytes:
                bound = _Bound(characters_of(tokens), read_weight, f"about {tokens} tokens ({key})")
        return bound

    def _lists_it(self, session: Session) -> bool:
        """Whether the session's list shows ``read_more`` from now on (ADR 25)."""
        return session.growing or (session.lasting and self._is_whole(session))

    def _is_whole(self, session: Session) -> bool:
        """Whether the session's list has all tools, and so none for calling others."""
        return self._lists_all or session.whole_list is not None

    async def page(self, session: Session, handle: str, number: int | None) -> JsonObject:
        """Return a later page of a result, as a tool result.

        Raises:
            BadRequest: no valid handle of this session, a tool that it may not use any more, or no such page.

        """
        permits = partial(self._gate.still_permits, session)
        page = self._kept.page((session.caller, session.label), handle, number, permits)
        content = await anyio.to_thread.run_sync(json.loads, page.content)
        if page.number == page.last:
            return _with_notice(content, f"[toolcrib: page {page.number} of {page.last}, the last one.]")
        how = self._how(session, handle, page.number + 1)
        return _with_notice(content, f"[toolcrib: page {page.number} of {page.last}. {how}]")

    async def found(self, session: Session, handle: str, *, words: str = "", path: str = "") -> JsonObject:
        """Return the lines of a result that have all of these words, or what a JSON path finds in it, as a tool result.

        Raises:
            BadRequest: no valid handle of this session, a tool that it may not use any more, no JSON, or no path.

        """
        permits = partial(self._gate.still_permits, session)
        whole = self._kept.whole((session.caller, session.label), handle, permits)
        most = characters_of(session.client_profile.result_tokens or _FOUND_TOKENS)
        is_late = partial(self._is_after, self._clock() + self._limits.json_path_s)
        return await anyio.to_thread.run_sync(partial(_found_in, whole, words, path, most, is_late))

    async def whole(self, session: Session, handle: str) -> JsonObject:
        """Return a result that is kept whole.

        Raises:
            BadRequest: no valid handle of this session, or only pages are kept.

        """
        permits = partial(self._gate.still_permits, session)
        whole = self._kept.whole((session.caller, session.label), handle, permits)
        return await anyio.to_thread.run_sync(json.loads, whole)

    def _is_after(self, deadline: float) -> bool:
        return self._clock() > deadline

    def _first_page_notice(
        self,
        session: Session,
        server: str,
        bound: _Bound,
        cut: Pages,
        rest: Sequence[bytes],
        handle: str,
        kept: int,
        described: str,
    ) -> str:
        said = [f"the tool has run, but its result was larger than {bound.told}, so it has "]
        if kept:
            minutes = self._limits.results_kept_s / 60
            said[0] += f"been cut: this is page 1 of {kept + 1}, kept for {minutes:.0f} minutes."
            said.append(self._how(session, handle, 2))
            said.append(f'Instead of "page": "find" for lines with all of some words{_BY_PATH if described else ""}.')
            if len(rest[0]) > _LARGE * bound.bytes:
                said.append(f"Page 2 takes {len(rest[0])} bytes.")
        else:
            said[0] += "been cut."
        if described:
            said.append(f"It is JSON: {described}.")
        if kept < len(rest):
            most = self._of_servers[server].pages_kept
            key = f"servers.{server}.results.pages_kept" if kept == most else "limits.results_kept_bytes"
            said.append(f"{len(rest) - kept} more pages were too much to keep ({key}).")
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


_BY_PATH = ', "path" for a JSON path'
_FOUND_TOKENS = 20_000
"""Most tokens of what is found in a result, for a client that gets results whole."""


def _size(result: JsonObject, bound: _Bound) -> int:
    """Return how much of a page a result takes; the text and the structured form of the same count once."""
    if bound.weigh is weight:
        return weight(result, bound.bytes)
    text = sum(bound.weigh(block, bound.bytes) for block in as_list(result.get("content")))
    return max(text, weight(result.get("structuredContent"), bound.bytes))


async def _short_or_in_thread(work: Callable[[JsonObject], _Value], result: JsonObject) -> _Value:
    """Return what takes time in proportion to the size of a result."""
    is_short = weight(result, _QUICK) <= _QUICK
    return work(result) if is_short else await anyio.to_thread.run_sync(work, result)


def _described(result: JsonObject) -> str:
    """Return what a result consists of if it is JSON; empty for any other."""
    from toolcrib.gateway.result_reading import document_of, shape_of  # noqa: PLC0415 - most results are short

    document = document_of(result)
    return "" if document is None else shape_of(document)


def _found_in(whole: bytes, words: str, path: str, most: int, is_late: Callable[[], bool]) -> JsonObject:
    from toolcrib.gateway.result_reading import at_path, document_of, excerpts  # noqa: PLC0415 - as above

    result = json.loads(whole)
    if path:
        document = document_of(result)
        if document is None:
            raise BadRequest("This result is not JSON: use 'find' with words, or 'page'.")
        lines = at_path(document, path, is_late)
    else:
        lines = excerpts(result, words)
    shown: list[str] = []
    total = 0
    for line in lines:
        total += 1
        most -= len(line) + 1
        if most >= 0:
            shown.append(line)
        elif not shown:
            # One line that is too long: its beginning says what it is.
            shown.append(f"{line[: most + len(line)]}…")
            most = 0
    head = f"{total:,} found" if total == len(shown) else f"{total:,} found, {len(shown):,} shown: ask for less"
    return {"content": [{"type": "text", "text": "\n".join([*shown, f"[toolcrib: {head}.]"])}]}


def _marked(result: JsonObject) -> JsonObject:
    """Return a result with what a person cannot see in its texts, and in names of members, made visible."""
    whole: list[Any] = [result]
    # Not recursive: a server nests as deep as it likes.
    left: list[tuple[Any, Any]] = [(whole, 0)]
    while left:
        holder, place = left.pop()
        value = holder[place]
        if isinstance(value, str):
            holder[place] = marked(value)
        elif isinstance(value, list):
            holder[place] = items = list(cast("list[Any]", value))
            left += ((items, number) for number in range(len(items)))
        elif isinstance(value, dict):
            holder[place] = members = {marked(key): held for key, held in cast("JsonObject", value).items()}
            left += ((members, key) for key in members)
    return whole[0]


def _encoded(page: JsonObject) -> bytes:
    try:
        return compact(page).encode("utf-8", "surrogatepass")
    except RecursionError:
        return compact({"content": [{"type": "text", "text": "(nested too deeply to be kept)"}]}).encode()


def _with_notice(result: JsonObject, notice: str) -> JsonObject:
    return {**result, "content": [*result["content"], {"type": "text", "text": notice}]}
