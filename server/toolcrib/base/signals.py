"""Wakes a task that repeats its work."""

import anyio


class ChangeSignal:
    """Whether something has changed since the previous wait: whoever changes something sets ``event``."""

    def __init__(self) -> None:
        self.event = anyio.Event()

    async def wait(self) -> None:
        """Wait until something has changed since the previous wait."""
        await self.event.wait()
        self.event = anyio.Event()
