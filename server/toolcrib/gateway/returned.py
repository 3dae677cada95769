"""The result of a tool as a program gets it: a text, or what its tool declares, and never another type (ADR 93)."""

import json
from collections.abc import Callable
from typing import Any

from toolcrib.base.cache import Recent
from toolcrib.base.json_values import as_list, compact, weight
from toolcrib.base.model import JsonObject
from toolcrib.base.text import characters_of, one_line, sanitize, truncate
from toolcrib.catalog.outputs import Output
from toolcrib.catalog.shapes import names_in
from toolcrib.gateway.blocks import bytes_of, is_structured_alone, text_of
from toolcrib.programs.running import CallFailed, Result

_ENCODED_AT_ONCE = 256 * 1024
"""Bytes of structured content that are written as JSON in one step, which nothing else can interrupt."""
_SAID_MAX = 300
_READ_MAX, _SECRET_MAX = 256 * 1024, 4096
"""Characters of a result whose names are read for that, and those of a secret."""
_TOOLS_TOLD, _NAMES_TOKENS, _BEGUN_MAX = 3, 60, 240
"""What is told of results that a program took for something else: of how many tools, and how much of each."""


def returned(name: str, result: JsonObject, output: Output) -> Result:
    """Return the result of a tool as its program gets it. Takes time in proportion to its size.

    Raises:
        CallFailed: its server says that the call has failed, or it lacks the structure that the tool declares.

    """
    if result.get("isError"):
        raise CallFailed(text_of_result(result))
    if output.is_text:
        return Result("text", text_of_result(result))
    try:
        value = output.value(result["structuredContent"])
    except (KeyError, ValueError):
        raise CallFailed(
            f"The call was made, but its result has no structured content as {name} declares it ({output.shown}). "
            f"It says: {_beginning(result)}"
        ) from None
    return Result("json", _json(value))


def text_of_result(result: JsonObject) -> str:
    """Return what a result says as one text, its blocks one after the other, each from a line of its own.

    A block without a text, such as an image or a link, is its JSON (specification 2025-11-25, Tools, Tool Result); and
    so is structured content, which comes last, where there is no text besides.
    """
    parts = [_json(block) if (text := text_of(block)) is None else text for block in as_list(result.get("content"))]
    if is_structured_alone(result):
        parts = [*filter(str.strip, parts), _json(result["structuredContent"])]
    return "\n".join(parts)


def read_size(result: JsonObject, taken: Result) -> int:
    """Return how many characters a model would have read of a result that a program has taken; bytes are no text."""
    media = map(bytes_of, as_list(result.get("content"))) if taken.kind == "text" else ()
    return max(len(taken.text) - sum(map(len, filter(None, media))), 0)


class LastReturned:
    """What the tools of one run have returned last, for what is said where a program took it for something else.

    ``clean`` replaces secrets and keys in a text.
    """

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._results = Recent[str, Result](_TOOLS_TOLD)

    def keep(self, name: str, result: Result) -> None:
        """Keep what a tool has returned, in the place of what it has returned before; of a large one the beginning."""
        self._results[name] = Result(result.kind, result.text[: _READ_MAX + 1])

    def told(self) -> str:
        """Return a line about it, the last tool first: the names in it, two levels deep, or how it begins. Blocks."""
        each = [f"{name} {self._told_of(result)}" for name, result in reversed(self._results.items())]
        return f"Returned last: {'; '.join(each)}." if each else ""

    def _told_of(self, result: Result) -> str:
        text, is_text, is_cut = result.text, result.kind == "text", len(result.text) > _READ_MAX
        if not is_text and text.startswith('"'):  # a text that is declared
            text, is_text = _decoded(text), True
        # Before any of it is cut, since a secret is known only as a whole: it may have been cut at the end.
        text = self._clean(text)[: -_SECRET_MAX if is_cut else None]
        try:
            names = names_in(text, characters_of(_NAMES_TOKENS))
        except ValueError:
            begun = text[: 2 * _BEGUN_MAX]
            if not is_text:
                return truncate(one_line(begun), _BEGUN_MAX)
            # With its lines: a program that parses a text goes by them.
            return f"a str, {json.dumps(truncate(sanitize(begun), _BEGUN_MAX), ensure_ascii=False)}"
        return f"a str of JSON {names}" if is_text else names


def _decoded(written: str) -> str:
    """Return the text that JSON is; of one that was cut, as it is written."""
    try:
        return str(json.loads(written))
    except ValueError:
        return written[1:]


def _beginning(result: JsonObject) -> str:
    texts = (text for block in as_list(result.get("content")) if (text := text_of(block)))
    return truncate(one_line(next(texts, "nothing")[: 2 * _SAID_MAX]), _SAID_MAX)


def _json(value: Any) -> str:
    if weight(value, _ENCODED_AT_ONCE) <= _ENCODED_AT_ONCE:
        return compact(value)
    # Piece by piece, so that other threads come in between.
    return "".join(json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).iterencode(value))
