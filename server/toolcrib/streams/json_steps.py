"""Parses large JSON in small steps, so that the event loop keeps running.

Knows JSON's outer structure and how long the event loop may be blocked; never knows what the JSON means.
The C decoder holds the interpreter lock for a whole document, in a worker thread too: 26 MB in one call stop
everything else for 0.4 s.
"""

import gc
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio.lowlevel

STEP = 64 * 1024
"""Number of characters decoded before yielding to the event loop, about a millisecond of work."""

# Message, result, its list, one tool: the members of a tool are small enough to be decoded whole.
_DEPTH = 4
"""Containers down to this depth are decoded member by member; deeper ones at once."""

_skip_space = re.compile(r"[ \t\n\r]*").match
_decode = json.JSONDecoder().raw_decode


async def decode_in_steps(data: bytes | bytearray) -> Any:
    """Decode a JSON document, yielding to other tasks every :data:`STEP` characters or so.

    Raises:
        ValueError: not UTF-8, not JSON, or nested too deeply for the decoder.

    """
    text = data.decode()
    walker = _document(text)
    reached = 0
    try:
        while True:
            position = next(walker)
            if position - reached >= STEP:
                reached = position
                await anyio.lowlevel.checkpoint()
    except StopIteration as done:
        return done.value
    except RecursionError:
        raise ValueError("nested too deep") from None


@contextmanager
def collector_paused() -> Generator[None]:
    """Suspend garbage collection while a large document is being built.

    A collection would traverse all of it at once and find nothing to free: 0.1 s for 25 MB. May be entered by several
    tasks.
    """
    # A task that enters while another is inside leaves re-enabling to that one.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


Walk = Generator[int, None, Any]
"""Yields the position after each member; returns the decoded value."""


def _document(text: str) -> Walk:
    value, position = yield from _value(text, _after_space(text, 0), _DEPTH)
    if _after_space(text, position) != len(text):
        raise ValueError(f"more than one JSON value at character {position}")
    return value


def _value(text: str, position: int, depth: int) -> Generator[int, None, tuple[Any, int]]:
    opening = text[position : position + 1]
    if depth and opening == "{":
        return (yield from _object(text, position + 1, depth))
    if depth and opening == "[":
        return (yield from _array(text, position + 1, depth))
    return _decode(text, position)


def _object(text: str, position: int, depth: int) -> Generator[int, None, tuple[dict[str, Any], int]]:
    found: dict[str, Any] = {}
    position = _after_space(text, position)
    if text[position : position + 1] == "}":
        return found, position + 1
    while True:
        key, position = _decode(text, position)
        if not isinstance(key, str):
            raise ValueError(f"a key that is not a string before character {position}")
        position = _expect(text, position, ":")
        found[key], position = yield from _value(text, position, depth - 1)
        yield position
        position = _after_space(text, position)
        if text[position : position + 1] == "}":
            return found, position + 1
        position = _expect(text, position, ",")


def _array(text: str, position: int, depth: int) -> Generator[int, None, tuple[list[Any], int]]:
    found: list[Any] = []
    position = _after_space(text, position)
    if text[position : position + 1] == "]":
        return found, position + 1
    while True:
        item, position = yield from _value(text, position, depth - 1)
        found.append(item)
        yield position
        position = _after_space(text, position)
        if text[position : position + 1] == "]":
            return found, position + 1
        position = _expect(text, position, ",")


def _after_space(text: str, position: int) -> int:
    match = _skip_space(text, position)
    assert match is not None
    return match.end()


def _expect(text: str, position: int, mark: str) -> int:
    """Return the position after ``mark``, which must be the next character apart from whitespace."""
    position = _after_space(text, position)
    if text[position : position + 1] != mark:
        raise ValueError(f"expected {mark!r} at character {position}")
    return _after_space(text, position + 1)
