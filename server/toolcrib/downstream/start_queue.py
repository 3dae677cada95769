"""The queue of background starts: a bounded number at a time, those that a request waits for first.

Knows keys and their order; never knows what a start is or how long it may take.
"""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager

import anyio


class StartQueue:
    """Lets ``slots`` starts go on at a time, in the order in which they were asked for."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[tuple[str, anyio.Event]] = []

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None]:
        """Wait for a slot, and keep it until left."""
        turn = anyio.Event()
        self._waiting.append((key, turn))
        self._hand_out()
        try:
            await turn.wait()
            yield
        finally:
            if turn.is_set():
                self._free += 1
            else:
                self._waiting.remove((key, turn))
            self._hand_out()

    def prefer(self, keys: Collection[str]) -> None:
        """Let these go before the others that are waiting."""
        self._waiting.sort(key=lambda waiting: waiting[0] not in keys)

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            _, turn = self._waiting.pop(0)
            self._free -= 1
            turn.set()
