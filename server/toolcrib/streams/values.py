"""How many values a JSON text holds, counted before it is decoded: a few bytes can be a whole object in memory.

Knows commas, brackets and where texts begin and end; never knows whether the text is JSON at all.
"""

from collections.abc import Iterator

import anyio.lowlevel

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
