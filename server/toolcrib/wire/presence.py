"""Whether the client of an HTTP session is still there: it has a request open, or had one a moment ago.

Knows how many requests are open and since when none is; never knows what they ask.
2025-11-25 lets a client lose its connection and come back (basic/transports): a call outlives a short absence.
"""

import math
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup

STATE, KEY = "state", "toolcrib.client"
"""Where the scope of a request has its client."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Client:
    """The client of one session. ``patience_s`` is how long it may be away."""

    patience_s: float
    requests: int = 0
    left_at: float = -math.inf
    _change: anyio.Event = field(default_factory=anyio.Event)

    def note(self, change: int) -> None:
        """Count a request that has begun (1) or ended (-1)."""
        self.requests += change
        if not self.requests:
            self.left_at = anyio.current_time()
        self._change.set()
        self._change = anyio.Event()

    async def gone(self) -> None:
        """Wait until it has been away for too long."""
        while True:
            until = math.inf if self.requests else self.left_at + self.patience_s
            if anyio.current_time() >= until:
                return
            with anyio.CancelScope(deadline=until):
                await self._change.wait()


def client_of(request: Any) -> Client | None:
    """Return the client that sent an HTTP request; None where it has no session, and on other transports."""
    scope: Mapping[str, Any] = getattr(request, "scope", {})
    return scope.get(STATE, {}).get(KEY)


def ended_without(client: Client | None, tasks: TaskGroup) -> AbstractContextManager[None]:
    """Cancel the block when the client has gone; ``tasks`` own the watching."""
    return nullcontext() if client is None else _watched(client, tasks)


@contextmanager
def _watched(client: Client, tasks: TaskGroup) -> Generator[None]:
    watching = anyio.CancelScope()

    async def watch(work: anyio.CancelScope) -> None:
        with watching:
            await client.gone()
            work.cancel()

    with anyio.CancelScope() as work:
        tasks.start_soon(watch, work)
        try:
            yield
        finally:
            watching.cancel()
