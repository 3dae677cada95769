"""Whether the client of an HTTP session is still connected: it has a request open, or had one a moment ago.

Knows how many requests are open, and since when there are none; never knows what they ask.
2025-11-25 lets a client lose its connection and come back (basic/transports): a call outlives a short absence.
"""

import math
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import anyio
from anyio.abc import TaskGroup

STATE, KEY = "state", "toolcrib.client"
"""The keys under which the scope of a request stores its client."""


class Client:
    """The client of one session. ``patience_s``: seconds that it may be absent before its calls are cancelled."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._requests = 0
        self._left_at = -math.inf
        self._calls = dict[anyio.CancelScope, TaskGroup]()
        self._is_watched = False

    def note(self, change: int) -> None:
        """Count a request that begins (1) or ends (-1)."""
        self._requests += change
        if not self._requests:
            self._left_at = anyio.current_time()
            self._watch()

    @contextmanager
    def awaiting(self, tasks: TaskGroup) -> Generator[None]:
        """Cancel the block when the client has been absent for too long; ``tasks`` own the watching task."""
        with anyio.CancelScope() as call:
            self._calls[call] = tasks
            if not self._requests:  # it left before the call began
                self._watch()
            try:
                yield
            finally:
                del self._calls[call]

    def _watch(self) -> None:
        """Watch the calls of an absent client; no task runs while it is present."""
        if self._calls and not self._is_watched:
            self._is_watched = True
            next(iter(self._calls.values())).start_soon(self._cancel_when_gone)

    async def _cancel_when_gone(self) -> None:
        try:
            while not self._requests and (left_s := self._left_at + self._patience_s - anyio.current_time()) > 0:
                await anyio.sleep(left_s)
            if not self._requests:
                for call in self._calls:
                    call.cancel()
        finally:
            self._is_watched = False


def client_of(request: Any) -> Client | None:
    """Return the client that sent an HTTP request; None without a session, and on other transports."""
    scope: Mapping[str, Any] = getattr(request, "scope", {})
    return scope.get(STATE, {}).get(KEY)


def ended_without(client: Client | None, tasks: TaskGroup) -> AbstractContextManager[None]:
    """Cancel the block when the client has gone, if that can happen; ``tasks`` own the watching task."""
    return nullcontext() if client is None else client.awaiting(tasks)
