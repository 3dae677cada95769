"""A change signal: set by many, awaited by one.

Knows that something has changed; never knows what.
"""

import anyio


class Pulse:
    """A change notification. Changes between two waits are not missed."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def beat(self) -> None:
        """Signal a change."""
        self._event.set()

    async def next(self) -> None:
        """Wait until something has changed since the previous wait."""
        await self._event.wait()
        self._event = anyio.Event()
