"""Rate limit for a peer's notifications: a peer that exceeds it is slowed, and disconnected if it continues.

A delayed read slows the peer through back-pressure.
"""

import math
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass

import anyio
from anyio.abc import AsyncResource
from mcp_types import JSONRPCNotification

from toolcrib.jsonrpc.sdk import ReadStream, SessionMessage

_BURST_S = 1.0
"""Size of a permitted burst, in seconds' worth of messages."""

_PAUSE_S = 0.1
"""Additional pause once the burst is used up, in seconds, so that there is not a pause for each message."""

_RECOVERED_S = 0.5
"""Unused allowance, in seconds' worth of messages, at which a peer counts as keeping the pace again."""

PROGRESS = "notifications/progress"

PROGRESS_TIMES = 10
"""How many times the pace is allowed for progress of pending calls: only the latest report of each is forwarded."""


@dataclass(frozen=True, slots=True)
class RateBounds:
    """The notifications per second that a peer may send, and for how many seconds it may exceed that."""

    per_s: int
    flood_s: float

    @property
    def of_progress(self) -> "RateBounds":
        """The bounds of progress that a caller waits for, which never ends a connection."""
        return RateBounds(PROGRESS_TIMES * self.per_s, math.inf)

    @property
    def fault(self) -> str:
        """The violation that ends a connection, as the end of a sentence about the peer."""
        return f"sent more than {self.per_s} notifications a second (limits.notifications_per_s) for {self.flood_s:g} s"


class RateLimiter:
    """Measures the rate of one peer, as a leaky bucket of ``_BURST_S``. ``clock`` returns seconds."""

    def __init__(self, bounds: RateBounds, clock: Callable[[], float]) -> None:
        self._each_s, self._flood_s, self._clock = 1 / bounds.per_s, bounds.flood_s, clock
        self._due = -math.inf
        self._over_since: float | None = None

    def pause(self) -> float:
        """Record one message; return for how many seconds reading should pause."""
        now = self._clock()
        # Not at the first message in time: a flood that pauses for a moment is still one flood.
        if self._due < now - _RECOVERED_S:
            self._over_since = None
        self._due = max(self._due, now - _BURST_S) + self._each_s
        if self._due <= now:
            return 0
        if self._over_since is None:
            self._over_since = now
        return self._due - now + _PAUSE_S

    @property
    def is_flood(self) -> bool:
        """Whether the peer has exceeded its pace for longer than permitted."""
        return self._over_since is not None and self._clock() - self._over_since > self._flood_s


class RateLimitedStream(AsyncResource):
    """A stream of messages that delivers notifications no faster than their pace allows.

    A flood ends the stream; ``fault`` then gives the reason. Progress is only slowed, because a call may be waiting for
    its result.
    """

    def __init__(self, stream: ReadStream[SessionMessage | Exception], bounds: RateBounds) -> None:
        self._stream, self._bounds = stream, bounds
        self._pace = RateLimiter(bounds, anyio.current_time)
        self._progress = RateLimiter(bounds.of_progress, anyio.current_time)
        self.fault = ""

    @property
    def last_context(self) -> Context | None:
        """The context in which the last message was sent: over HTTP, that of the request that it answers."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the stream has ended, or there was a flood of notifications.

        """
        item = await self._stream.receive()
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCNotification):
            pace = self._progress if item.message.method == PROGRESS else self._pace
            if pause := pace.pause():
                await anyio.sleep(pause)
            # Progress has no time limit here, so only unsolicited notifications end the stream.
            if pace.is_flood:
                self.fault = self._bounds.fault
                raise anyio.EndOfStream
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
