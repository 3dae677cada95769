"""Forwards progress of a call to its caller: it restarts the deadline, and a slow receiver delays nobody.

Knows one call's deadline and receiver; never knows what the call does or which server runs it.
"""

import anyio

from toolcrib.base.json_decoding import whole
from toolcrib.downstream.patience import Patience
from toolcrib.policy.asking import Progress

_LAST_S = 1.0
"""Seconds that the report under way has to be delivered once the call has ended."""


class Relay:
    """Passes progress on as fast as the receiver takes it: of what comes meanwhile, only the latest report.

    Each report restarts the deadline.
    """

    def __init__(self, patience: Patience, on_progress: Progress) -> None:
        self._patience, self._on_progress = patience, on_progress
        self._latest: tuple[float, float | None, str | None] | None = None
        self._settled: anyio.Event | None = None

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass one report on, or leave it to whoever is still passing on the one before."""
        self._patience.restart()
        self._latest = progress, total, message and whole(message)
        if self._settled is not None:
            return
        self._settled = anyio.Event()
        try:
            while self._latest is not None:
                report, self._latest = self._latest, None
                await self._on_progress(*report)
        finally:
            self._settled.set()
            self._settled = self._latest = None

    async def settle(self) -> None:
        """Wait a moment for what is under way: after its result, progress would reach nobody."""
        if self._settled is not None:
            with anyio.move_on_after(_LAST_S, shield=True):
                await self._settled.wait()
