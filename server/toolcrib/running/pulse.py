"""Something has changed: told by many, waited for by one.

Knows that, and no more; never knows what has changed.
"""

import anyio


class Pulse:
    """Beats where something has changed. What changes before somebody waits for it is not missed."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def beat(self) -> None:
        """Tell that something has changed."""
        self._event.set()

    async def next(self) -> None:
        """Wait until something has changed since this was waited for the last time."""
        await self._event.wait()
        self._event = anyio.Event()
