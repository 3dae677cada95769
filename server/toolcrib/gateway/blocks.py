"""The blocks of a tool's result: their texts, their media, and what structured content says besides them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from toolcrib.base.json_values import as_list, as_object, compact
from toolcrib.base.model import JsonObject
from toolcrib.base.uris import own_uri

_WITH_DATA = ("image", "audio")
_ENCODED_MIN = 256
"""Characters of base64 from which bytes that are sent as media are not written again; fewer do no harm."""
_MEDIA_SOUGHT = 32
"""How many media are looked for in structured content: the largest."""
_LINE = 48
"""Lines of base64 are at least this long."""
_PIECE = re.compile(r"(?:\s|\\[nrt])*+([A-Za-z0-9+/]++)")
"""The next line of base64, also in JSON in a text."""


def text_of(block: Any) -> str | None:
    """Return the text of a block, or of its embedded resource; None where there is none."""
    fields = as_object(block)
    text = (fields if fields.get("type") == "text" else as_object(fields.get("resource"))).get("text")
    return text if isinstance(text, str) else None


def bytes_of(block: Any) -> str | None:
    """Return the base64 of an image, audio, or a resource without a text; None for any other block.

    A model does not read these as text.
    """
    fields = as_object(block)
    is_own = fields.get("type") in _WITH_DATA
    data = fields.get("data") if is_own else as_object(fields.get("resource")).get("blob")
    return data if isinstance(data, str) and text_of(block) is None else None


def without_bytes(block: JsonObject) -> JsonObject:
    """Return what a block of media says besides its bytes."""
    if block.get("type") in _WITH_DATA:
        return {**block, "data": ""}
    return {**block, "resource": {**as_object(block.get("resource")), "blob": ""}}


def unwrapped(value: Any) -> Any:
    """Return what SDKs put below ``result``, because structured content has to be an object; else the value itself."""
    fields = as_object(value)
    return fields["result"] if fields.keys() == {"result"} else value


def is_structured_alone(result: JsonObject) -> bool:
    """Return whether a result has structured content, and no text besides; a blank text is none."""
    if result.get("structuredContent") is None:
        return False
    texts = map(text_of, as_list(result.get("content")))
    return not any(text and not text.isspace() for text in texts)


def structured_text(result: JsonObject, write: Callable[[Any], str] = compact) -> str:
    """Return what the structured content of a result says besides its blocks, as JSON; empty if that is nothing.

    Servers mostly send both forms. Bytes of media among the blocks are not written again. Takes time in proportion to
    the size.
    """
    value, blocks = result.get("structuredContent"), as_list(result.get("content"))
    try:
        if value is None or _is_said(value, blocks):
            return ""
        sent = _sent_by(blocks)
        text = write(_without(value, sent) if sent else value)
    except RecursionError:
        return "(nested too deeply to be written)"
    return "" if text in map(text_of, blocks) else text


def repeats_media(result: JsonObject) -> bool:
    """Return whether structured content has the bytes of a block again. Takes time in proportion to its size."""
    sent = _sent_by(as_list(result.get("content")))
    texts = _texts_in(result.get("structuredContent")) if sent else ()
    return any(_without_bytes(text, sent) != text for text in texts)


# -- what the blocks say ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Said:
    """What a block says: its text, and the JSON value in it, and the block itself as a value."""

    values: tuple[Any, ...]
    block: JsonObject | None

    @classmethod
    def by(cls, block: Any) -> "_Said":
        values: list[Any] = []
        if (text := text_of(block)) is not None:
            values.append(text)
            with suppress(ValueError, RecursionError):
                values.append(json.loads(text))
        return cls(tuple(values), _as_block(block))

    def has(self, value: Any) -> bool:
        return value in self.values or (self.block is not None and self.block == _as_block(value))


def _is_said(value: Any, blocks: list[Any]) -> bool:
    """Return whether blocks say all of a value: one of them does, or each item of a list has one, in their order."""
    said = [_Said.by(block) for block in blocks]
    inner = unwrapped(value)
    return any(each.has(value) or each.has(inner) for each in said) or _say_each(said, as_list(inner))


def _say_each(said: Iterable[_Said], items: list[Any]) -> bool:
    left = iter(said)
    return bool(items) and all(any(each.has(item) for each in left) for item in items)


def _as_block(value: Any) -> JsonObject | None:
    """Return a block as an object that is equal for blocks of the same content; None for what is no block."""
    fields = as_object(value)
    if not isinstance(fields.get("type"), str):
        return None
    resource = as_object(fields.get("resource"))
    return _comparable({**fields, "resource": _comparable(resource)} if resource else fields)


def _comparable(fields: JsonObject) -> JsonObject:
    """Return members that are there, which SDKs write as null otherwise; an address as it was before it was public."""
    members = {name: held for name, held in fields.items() if held is not None}
    own = own_uri(uri) if isinstance(uri := members.get("uri"), str) else None
    return {**members, "uri": own[1]} if own else members


# -- bytes that are sent already -------------------------------------------------------------------


def _sent_by(blocks: Iterable[Any]) -> dict[str, str]:
    """Return the bytes of media, as base64 in one line, and what is written in their place."""
    marks: dict[str, str] = {}
    counts: dict[str, int] = {}
    for block in blocks:
        if (data := bytes_of(block)) is None:
            continue
        kind = as_object(block).get("type")
        name = kind if kind in _WITH_DATA else "resource"
        counts[name] = counts.get(name, 0) + 1
        bare = "".join(data.split()).rstrip("=")
        if len(bare) >= _ENCODED_MIN:
            marks.setdefault(bare, f"[the bytes of {name} {counts[name]}]")
    return {data: marks[data] for data in sorted(marks, key=len, reverse=True)[:_MEDIA_SOUGHT]}


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a value, names of members too."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            left += cast("list[Any]", item)
        elif isinstance(item, dict):
            left += cast("JsonObject", item).keys()
            left += cast("JsonObject", item).values()


def _without(value: Any, sent: Mapping[str, str]) -> Any:
    """Return a value in whose texts, names of members too, bytes that were sent are replaced."""
    if isinstance(value, str):
        return _without_bytes(value, sent)
    if isinstance(value, list):
        return [_without(item, sent) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_without(name, sent): _without(held, sent) for name, held in cast("JsonObject", value).items()}
    return value


def _without_bytes(text: str, sent: Mapping[str, str]) -> str:
    if len(text) < _ENCODED_MIN:
        return text
    # As some write "/" in JSON in a text.
    plain = text.replace("\\/", "/")
    cut = plain
    for data, mark in sent.items():
        if len(data) <= len(cut):
            cut = _replaced(cut, data, mark)
    return text if cut is plain else cut


def _replaced(text: str, data: str, mark: str) -> str:
    """Return a text in which base64 is replaced, also where it is in lines."""
    kept: list[str] = []
    done = at = 0
    while (start := text.find(data[:_LINE], at)) >= 0:
        at, end = _followed(text, data, start)
        if end:
            kept += (text[done:start], mark)
            done = end
    return "".join((*kept, text[done:])) if kept else text


def _followed(text: str, data: str, start: int) -> tuple[int, int]:
    """Return how far a text from ``start`` on is base64 like ``data``, and where all of that ends in it, or 0."""
    if text.startswith(data, start):
        end = start + len(data)
    else:
        end, seen = start, 0
        while seen < len(data):
            piece = _PIECE.match(text, end)
            if piece is None:
                return end, 0
            if not data.startswith(piece[1][: len(data) - seen], seen):
                return piece.end(), 0
            end = piece.start(1) + min(len(piece[1]), len(data) - seen)
            seen += len(piece[1])
    padding = text[end : end + 2]
    end += len(padding) - len(padding.lstrip("="))
    return end, end
