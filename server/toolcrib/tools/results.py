"""How much of a downstream's result may go on to a client.

Knows the parts of a tool result; never knows which tool made it or for whom.
"""

from typing import Any

from toolcrib.base.json_values import as_list, as_object
from toolcrib.model import JsonObject

_SMALL = ("isError", "_meta")
_SMALL_BYTES = 512
"""What each of these may take in a result that is cut."""

_BLOCK_BYTES = 32
"""What a block of text takes besides its text."""


def weight(value: Any, limit: int) -> int:
    """Return roughly how many bytes ``value`` takes as JSON; stops counting soon after ``limit``."""
    total = 0
    left: list[Any] = [value]
    while left and total <= limit:
        item = left.pop()
        if isinstance(item, str):
            total += len(item) + 2
        elif isinstance(item, dict):
            members = as_object(item)
            total += 4 * len(members)
            left += members.keys()
            left += members.values()
        elif isinstance(item, list):
            total += len(as_list(item))
            left += as_list(item)
        else:
            total += 8
    return total


def bounded(result: JsonObject, limit: int) -> tuple[JsonObject, int]:
    """Return the result and its weight; of one over ``limit`` bytes only what fits of its text, with a notice."""
    size = weight(result, limit)
    if size <= limit:
        return result, size
    cut = {key: result[key] for key in _SMALL if key in result and weight(result[key], _SMALL_BYTES) <= _SMALL_BYTES}
    room = limit
    kept: list[JsonObject] = []
    for block in as_list(result.get("content")):
        text = as_object(block).get("text")
        if isinstance(text, str) and room > 0:
            kept.append({"type": "text", "text": text[:room]})
            room -= len(text) + _BLOCK_BYTES
    notice = (
        f"[toolcrib: the tool has run, but its result was larger than {limit} bytes (limits.result_max_bytes) and has "
        "been cut. Ask for less at a time, for instance with a filter, a range or a page.]"
    )
    shown = {**cut, "content": [*kept, {"type": "text", "text": notice}]}
    if "structuredContent" in result:
        shown["isError"] = True  # else a client that was promised structured content raises at its absence
    return shown, limit


def failure(text: str) -> JsonObject:
    """Return a tool result that tells the model what went wrong; all of it in ``content``, which every host shows."""
    return {"content": [{"type": "text", "text": text}], "isError": True}
