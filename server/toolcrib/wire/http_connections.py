"""HTTP connections: bounded in number, each with time limits for the head and the body of a request.

Knows pending bytes; never knows the caller or the request, because all of it precedes authentication.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolcrib.config.schema import HttpSection

if sys.platform != "win32":
    import resource

HEAD_MAX_BYTES = 16 * 1024
"""A larger request head is refused; at most twice this size is buffered before that."""

_BACKLOG = 128
_OF_DESCRIPTORS = 2
"""Connections use at most this fraction (1/n) of the descriptors that this process may have."""


@dataclass(slots=True, eq=False)
class Connections:
    """State shared by all connections of a listener. ``waited_for``: those with silent clients, the longest first."""

    most: int
    head_timeout_s: float
    body_timeout_s: float
    waited_for: dict["BoundedProtocol", None] = field(default_factory=dict["BoundedProtocol", None])

    def make_room(self) -> None:
        """Close the connection that has been silent for longest."""
        if silent := next(iter(self.waited_for), None):
            silent.abort()


class InPairs:
    """The write side of a connection, which holds back data until the next write or iteration of the loop.

    uvicorn writes the head, the body and the end of a response separately, and each write would wake its reader.
    """

    def __init__(self, transport: Any, soon: Callable[[Callable[[], None]], object]) -> None:
        self._transport, self._soon = transport, soon
        self._held = b""
        self.is_closing: Callable[[], bool] = transport.is_closing
        self.resume_reading: Callable[[], None] = transport.resume_reading

    def write(self, data: bytes) -> None:
        """Write held data together with this, or hold this."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif data:
            self._held = data
            self._soon(self._flush)

    def close(self) -> None:
        """Write held data, then close the connection."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._held = b""
        self._transport.abort()

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self.is_closing():
            self._transport.write(held)


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol with a deadline for the head of each request and one for its body.

    Beyond ``Connections.most``, the longest-silent connection is closed; connections with a request under way stay. A
    new connection is always accepted, however many idle ones there are.
    """

    def __init__(self, shared: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._shared = shared
        self._awaited: object = None
        self._deadline: Any = None

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, and close another one if there are too many."""
        super().connection_made(transport)
        writing: Any = InPairs(transport, self.loop.call_soon)  # has the attributes that uvicorn uses from here on
        self.transport = writing
        self._wait_for("head", self._shared.head_timeout_s)
        if len(self.connections) > self._shared.most:
            self._shared.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._wait_for(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process bytes; extend the wait if the request is incomplete."""
        # h11 bounds only what it has to buffer: a head that arrives in one piece may be as large as the piece.
        while len(data) > HEAD_MAX_BYTES and self.conn.their_state is h11.IDLE:
            super().data_received(data[:HEAD_MAX_BYTES])
            data = data[HEAD_MAX_BYTES:]
        if self.transport.is_closing():  # refused as too large
            return
        super().data_received(data)
        match self.conn.their_state:
            case h11.IDLE:
                self._wait_for("head", self._shared.head_timeout_s)
            case h11.SEND_BODY:
                self._wait_for(self.cycle, self._shared.body_timeout_s)
            case _:
                self._wait_for(None)

    def on_response_complete(self) -> None:
        """Wait for the next request, as long as uvicorn keeps a silent connection, or for the rest of its head."""
        super().on_response_complete()
        if self._awaited is not None or self.conn.their_state is not h11.IDLE:
            return
        begun, _ = self.conn.trailing_data
        if begun:
            self._wait_for("head", self._shared.head_timeout_s)
        else:
            self._shared.waited_for[self] = None

    def abort(self) -> None:
        """Close the connection at once."""
        self._wait_for(None)
        self.transport.abort()

    def _wait_for(self, what: object, seconds: float = 0.0) -> None:
        """Set the deadline for a head, or for the body of one request, unless it is already running."""
        if what is not None and what is self._awaited:
            return
        self._awaited = what
        self._shared.waited_for.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if what is not None:
            self._shared.waited_for[self] = None
            self._deadline = self.loop.call_later(seconds, self.abort)


def bounded(http: HttpSection) -> Callable[..., BoundedProtocol]:
    """Return the factory of the protocols of one listener's connections."""
    return partial(BoundedProtocol, Connections(_most(http), http.head_timeout_s, http.body_timeout_s))


def accepted_at_once(http: HttpSection) -> int:
    """Return the listen backlog: the event loop accepts all of these connections before it closes one."""
    return max(1, min(_BACKLOG, _most(http) // 2))


def _most(http: HttpSection) -> int:
    return min(http.max_connections, _affordable())


def _affordable() -> int:
    """Return the number of connections that the descriptor limit allows: beyond it nobody could connect any more."""
    if sys.platform == "win32":
        return sys.maxsize
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(1, soft // _OF_DESCRIPTORS)
