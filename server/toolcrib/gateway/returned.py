"""The result of a tool as a program gets it: a text, or what its tool declares, and never another type (ADR 93)."""

import json
from typing import Any

from toolcrib.base.json_values import as_list, compact, weight
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.catalog.outputs import Output
from toolcrib.gateway.blocks import is_structured_alone, text_of
from toolcrib.programs.running import CallFailed, Result

_ENCODED_AT_ONCE = 256 * 1024
"""Bytes of structured content that are written as JSON in one step, which nothing else can interrupt."""
_SAID_MAX = 300


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


def _beginning(result: JsonObject) -> str:
    texts = (text for block in as_list(result.get("content")) if (text := text_of(block)))
    return truncate(one_line(next(texts, "nothing")[: 2 * _SAID_MAX]), _SAID_MAX)


def _json(value: Any) -> str:
    if weight(value, _ENCODED_AT_ONCE) <= _ENCODED_AT_ONCE:
        return compact(value)
    # Piece by piece, so that other threads come in between.
    return "".join(json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).iterencode(value))
