"""Progress of a call on its way to whoever asked for it: it restarts the deadline, and a slow receiver delays nobody.

Knows one call's deadline and receiver; never knows what the call does or which server runs it.
"""

import anyio

from toolcrib.downstream.connection import Progress

_UNDER_WAY = 100
"""Reports being delivered at a time; with a receiver slower than that, later ones are left out."""

_LAST_S = 1.0
"""Seconds that reports under way have to be delivered once the call has ended."""


class Relay:
    """Passes progress on, and restarts the deadline with it. What the receiver is too slow for is left out."""

    def __init__(self, patience: anyio.CancelScope, deadline_s: float, on_progress: Progress) -> None:
        self._patience, self._deadline_s, self._on_progress = patience, deadline_s, on_progress
        self._under_way = 0
        self._settled = anyio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass one report on, unless too many are still under way."""
        self._patience.deadline = anyio.current_time() + self._deadline_s
        if self._under_way >= _UNDER_WAY:
            return
        self._under_way += 1
        try:
            await self._on_progress(progress, total, message)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._settled.set()

    async def settle(self) -> None:
        """Wait a moment for what is under way: after its result, progress would reach nobody."""
        if self._under_way:
            self._settled = anyio.Event()
            with anyio.move_on_after(_LAST_S, shield=True):
                await self._settled.wait()
