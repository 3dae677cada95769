"""Reads in a result that is too long to be shown whole: what it consists of, and its parts by words or by JSON path."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from toolcrib.base.errors import BadRequest
from toolcrib.base.json_values import as_list, as_object, compact
from toolcrib.base.model import JsonObject
from toolcrib.gateway.blocks import text_of

if TYPE_CHECKING:
    from jsonpath import JSONPath

_SHOWN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}\Z")
"""Names that may stand in a text of ours: a server chooses them, and could write sentences with others."""
_NAMES_MAX, _SHAPE_DEPTH = 12, 3
_EXCERPT = 120
"""Characters on both sides of a word that is found."""
_PATH_MAX = 300


def document_of(result: Any) -> Any:
    """Return the JSON value that a result consists of: structured, or its only text; None if there is none."""
    fields = as_object(result)
    if isinstance(fields.get("structuredContent"), (dict, list)):
        return fields["structuredContent"]
    texts = _texts(fields)
    if len(texts) == 1 and texts[0].lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            return json.loads(texts[0])
    return None


def _texts(result: JsonObject) -> list[str]:
    """Return the texts of a result, not those of resources; a server may send blocks without one."""
    blocks = map(as_object, as_list(result.get("content")))
    return [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]


def shape_of(value: Any, depth: int = _SHAPE_DEPTH) -> str:
    """Return what a JSON value consists of: names of members, numbers of items, and kinds of values."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if depth == 0 or not members:
            return "{…}" if members else "{}"
        named = [f"{_shown(key)}: {shape_of(held, depth - 1)}" for key, held in list(members.items())[:_NAMES_MAX]]
        return f"{{{', '.join(named)}{', …' if len(members) > _NAMES_MAX else ''}}}"
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return f"{len(items):,} of {shape_of(items[0], depth - 1) if depth else '…'}" if items else "[]"
    if isinstance(value, str):
        return "text"
    return "null" if value is None else "true or false" if isinstance(value, bool) else "number"


def _shown(name: str) -> str:
    return name if _SHOWN_NAME.match(name) else "…"


def excerpts(result: Any, words: str) -> Iterator[str]:
    """Yield the lines of a result's texts that have all of these words, in any case, in order, with their number.

    A long line is cut to what surrounds the first word. Structured content is searched where there is no text.
    """
    wanted = [word.casefold() for word in words.split()]
    fields = as_object(result)
    texts = [text for block in as_list(fields.get("content")) if (text := text_of(block)) is not None]
    if not texts:
        texts = [json.dumps(fields.get("structuredContent"), ensure_ascii=False, indent=1)]
    for number, line in enumerate(chain.from_iterable(text.splitlines() for text in texts), start=1):
        folded = line.casefold()
        if all(word in folded for word in wanted):
            place = folded.index(wanted[0])
            start, end = max(0, place - _EXCERPT), place + len(wanted[0]) + _EXCERPT
            cut = line[start:end].strip()
            yield f"{number}: {'…' if start else ''}{cut}{'…' if end < len(line) else ''}"


def at_path(document: Any, path: str, is_late: Callable[[], bool]) -> Iterator[str]:
    """Yield what a JSON path (RFC 9535) finds in a document: one line each, its place and its value as JSON.

    ``is_late`` says at each step whether it takes too long. What a step of the library cannot be stopped in is refused:
    regular expressions, and searches among all descendants inside of a filter.

    Raises:
        BadRequest: it is not a path, or takes too long.

    """
    # Used by few, and not needed for a start.
    from jsonpath import JSONPathEnvironment, JSONPathError, JSONPathMatch  # noqa: PLC0415

    class Place(JSONPathMatch):
        def new_child(self, obj: object, key: int | str) -> JSONPathMatch:
            if is_late():
                raise BadRequest("'path' takes too long: name more of the members on the way, with fewer '..'.")
            return super().new_child(obj, key)

    if len(path) > _PATH_MAX or ".." in path.partition("?")[2]:
        raise BadRequest(f"'path' may have {_PATH_MAX} characters, and '..' only before its first filter.")
    environment = JSONPathEnvironment(strict=True)
    for name in ("match", "search"):
        environment.function_extensions.pop(name, None)
    root = Place(filter_context={}, obj=document, parent=None, path="$", parts=(), root=document)
    try:
        places: Iterable[JSONPathMatch] = [root]
        # One path: several, joined by operators, are not part of RFC 9535.
        for segment in cast("JSONPath", environment.compile(path)).segments:
            places = segment.resolve(places)
        for place in places:
            yield f"{place.path}: {compact(place.obj)}"
    except (JSONPathError, RecursionError) as error:
        why = str(error).partition("\n")[0]
        raise BadRequest(f"'path' is not a JSON path (RFC 9535), such as $.items[0].name: {why}") from None
