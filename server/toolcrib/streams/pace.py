"""How fast a peer may send what nobody asked it for: slowed when it sends faster, given up when it goes on and on.

Knows rates and time; never knows what is sent. Reading late is what slows a peer: its pipe, or its connection, is full.
"""

import math
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass

import anyio
from anyio.abc import AsyncResource
from mcp_types import JSONRPCNotification

from toolcrib.streams.sdk import ReadStream, SessionMessage

_BURST_S = 1.0
"""Seconds' worth that may come at once."""

_PAUSE_S = 0.1
"""Seconds' worth that is waited for when all that was used up, so that there is not a pause for each message."""

_RECOVERED_S = 0.5
"""Seconds' worth that must be left over for a peer to count as one that keeps the pace again."""

PROGRESS = "notifications/progress"

PROGRESS_TIMES = 10
"""Progress of calls that wait may come so many times as fast: only the latest report of each goes on."""


@dataclass(frozen=True, slots=True)
class PaceBounds:
    """Notifications a second that a peer may send, and for how many seconds it may try to send more."""

    per_s: int
    flood_s: float

    @property
    def of_progress(self) -> "PaceBounds":
        """The bounds of progress that somebody waits for, which is never given up."""
        return PaceBounds(PROGRESS_TIMES * self.per_s, math.inf)

    @property
    def fault(self) -> str:
        """What a peer did that is given up, as the end of a sentence about it."""
        return f"sent more than {self.per_s} notifications a second (limits.notifications_per_s) for {self.flood_s:g} s"


class Pace:
    """Measures one peer. ``clock`` returns seconds."""

    def __init__(self, bounds: PaceBounds, clock: Callable[[], float]) -> None:
        self._each_s, self._flood_s, self._clock = 1 / bounds.per_s, bounds.flood_s, clock
        self._due = -math.inf
        self._over_since: float | None = None

    def pause(self) -> float:
        """Note one message, and return for how many seconds nothing more should be read."""
        now = self._clock()
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
        """Whether the peer has been too fast for longer than it may be."""
        return self._over_since is not None and self._clock() - self._over_since > self._flood_s


class PacedStream(AsyncResource):
    """A stream of messages that hands on notifications no faster than their pace allows.

    Ends a flood: ``fault`` then says why. Progress is only slowed, because a call may be waiting for its result.
    """

    def __init__(self, stream: ReadStream[SessionMessage | Exception], bounds: PaceBounds) -> None:
        self._stream, self._bounds = stream, bounds
        self._pace = Pace(bounds, anyio.current_time)
        self._progress = Pace(bounds.of_progress, anyio.current_time)
        self.fault = ""

    @property
    def last_context(self) -> Context | None:
        """The context that the last message was sent in: over HTTP, that of the request which it is an answer to."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there is none, or there were too many.

        """
        item = await self._stream.receive()
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCNotification):
            pace = self._progress if item.message.method == PROGRESS else self._pace
            if pause := pace.pause():
                await anyio.sleep(pause)
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
