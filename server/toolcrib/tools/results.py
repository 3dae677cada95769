"""Tool results: their size, and the pages of one that is too large to pass on whole.

Knows the parts of a tool result; never knows which tool made it, for whom, or where pages are kept.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.base.json_values import as_list, as_object, compact, weight
from toolcrib.base.model import JsonObject

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
            elif (size > limit or room > limit // 2) and (parts := _split(rest, room)):
                filled[-1].append(parts[0])
                filled.append([])
                room, rest = limit, parts[1]
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
