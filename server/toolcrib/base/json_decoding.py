"""Guards JSON from outside: counts its values, replaces lone surrogates, and decodes it in steps.

The C decoder holds the interpreter lock for a whole document, in a worker thread too: 26 MB in one call stop everything
else for 0.4 s, hence the steps.
"""

import gc
import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio.lowlevel
from pydantic_core import PydanticSerializationError, to_json

_WINDOW = 64 * 1024
"""Number of bytes counted before yielding to the event loop, a fraction of a millisecond of work."""

_BYTES_EACH = 2
"""Minimum size of a value in a long list: a digit and a comma."""


class ValueCount:
    """Counts the values in a JSON text that arrives in pieces. An empty list or object counts as two."""

    def __init__(self) -> None:
        self.number = 1
        self._is_in_text = False
        self._rest = b""

    def add(self, piece: bytes | bytearray | memoryview) -> int:
        """Count the values of the next piece and return the total so far."""
        data = self._rest + piece
        # A backslash at the end belongs to the next piece, unless it is itself escaped.
        is_open = (len(data) - len(data.rstrip(b"\\"))) % 2 == 1
        data, self._rest = (data[:-1], b"\\") if is_open else (data, b"")
        if b"\\" in data:
            data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = data.split(b'"')
        outside = b"".join(parts[1::2] if self._is_in_text else parts[::2])
        self._is_in_text ^= len(parts) % 2 == 0
        # Each comma separates two values, and each bracket contains at most one more than it has commas.
        self.number += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        return self.number


async def has_more_values(text: bytearray, limit: int) -> bool:
    """Return whether a JSON text contains more than ``limit`` values; yields to other tasks while counting."""
    if len(text) <= _BYTES_EACH * limit:
        return False
    count = ValueCount()
    for window in _windows(text):
        if count.add(window) > limit:
            return True
        await anyio.lowlevel.checkpoint()
    return False


def _windows(text: bytearray) -> Iterator[bytearray]:
    for start in range(0, len(text), _WINDOW):
        yield text[start : start + _WINDOW]


T = TypeVar("T")

_REPLACED = rb"\ufffd"
_SIGNS = (rb"\ud", rb"\uD")
_CUTS = (b"\\", rb"\u")

# Matches every escape in sequence, so that an escaped backslash does not start another one. First an escape cut off by
# the end of the bytes, which later bytes may complete to a pair; then pairs, which are kept.
_ESCAPE = re.compile(
    rb"""(?P<cut>\\(?:u(?:[dD](?:[89a-fA-F][0-9a-fA-F]?
            |[89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?)?)?\Z)
       | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
       | (?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})
       | \\.""",
    re.DOTALL | re.VERBOSE,
)


def without_lone_surrogates(value: T) -> T:
    """Return a JSON value that the SDK can send: the same object, unless a string or key has a lone surrogate.

    JSON may escape half of a UTF-16 pair (RFC 8259, section 8.2), which no UTF-8 text can contain.

    Raises:
        ValueError: it is nested too deeply.

    """
    if _is_encodable(value):
        return value
    mended = json.loads(replace_lone_surrogates(json.dumps(value, ensure_ascii=False)))
    if not _is_encodable(mended):
        raise ValueError("it is nested too deeply to be sent over HTTP")
    return mended


def is_finite(value: Any) -> bool:
    """Return whether JSON can say every number in ``value``: it has no NaN and no infinity (RFC 8259, section 6).

    Decoders make these of the words ``NaN`` and ``Infinity``, and of numbers beyond a double such as ``1e400``.
    """
    try:
        text = to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, UnicodeEncodeError):
        text = b"NaN"
    if b"NaN" not in text and b"Infinity" not in text:
        return True
    # It may be a word in a string: only a slower encoder can tell.
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _is_encodable(value: Any) -> bool:
    try:
        to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        return False
    return True


def replace_lone_surrogates(text: str) -> str:
    """Return ``text`` with U+FFFD for each lone surrogate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class LoneSurrogateFilter:
    """Filters a body of JSON, or of events with JSON, chunk by chunk. Its length does not change."""

    def __init__(self) -> None:
        self._cut = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the output that is final so far, with U+FFFD for each escaped lone surrogate."""
        data, self._cut = self._cut + chunk, b""
        if not any(sign in data for sign in _SIGNS) and not data.endswith(_CUTS):
            return data
        return _ESCAPE.sub(self._replaced, data)

    def end(self) -> bytes:
        """Return the rest when the body ends."""
        return self._cut

    def _replaced(self, match: re.Match[bytes]) -> bytes:
        if (cut := match["cut"]) is not None:
            self._cut = cut
            return b""
        return match[0] if match["lone"] is None else _REPLACED


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
