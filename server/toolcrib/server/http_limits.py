"""Middleware before the MCP endpoint: presence of clients, rate and session limits, and health checks."""

import math
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import h11
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolcrib.config.schema import HttpSection
from toolcrib.jsonrpc.sdk_http import HttpSessions
from toolcrib.server.sessions import KEY, STATE, Client

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


class CoalescingWriter:
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
        # uvicorn closes right after its last write, which is still held.
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
        writing: Any = CoalescingWriter(
            transport, self.loop.call_soon
        )  # has the attributes that uvicorn uses from here on
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


_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\\\[\]]*)(?::\d{1,5})?")
_ORIGIN = re.compile(r"null|[A-Za-z][\w+.-]*://(?:\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\\\[\]]*)(?::\d{1,5})?")
"""RFC 9110 section 7.2 and RFC 6454 section 6.2."""

_REFUSAL = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {
        "code": -32000,
        "message": "Too many open sessions of this token's subject: end one, or wait until one ends.",
    },
}


class HeaderCheck:
    """Rejects malformed Host and Origin headers; which of the others are served, the SDK decides by their prefix."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless one of its headers is ambiguous."""
        headers = Headers(scope=scope)
        if not _HOST.fullmatch(headers.get("host", "")):
            await PlainTextResponse("Invalid Host header", status_code=421)(scope, receive, send)
        elif not _ORIGIN.fullmatch(headers.get("origin", "null")):
            await PlainTextResponse("Invalid Origin header", status_code=403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class PresenceTracker:
    """Records which sessions have open requests. ``absence_s`` is how long a client may have none, in seconds."""

    def __init__(self, app: ASGIApp, absence_s: float) -> None:
        self._app, self._absence_s = app, absence_s
        self._clients = WeakValueDictionary[str, Client]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session is None:
            await self._app(scope, receive, send)
            return
        # Kept alive by its requests and by the calls that wait for it.
        client = self._clients.setdefault(session, Client(self._absence_s))
        client.note(1)
        try:
            await self._app({**scope, STATE: {**scope.get(STATE, {}), KEY: client}}, receive, send)
        finally:
            client.note(-1)


class SessionQuota:
    """Limits each token's subject to ``of_one`` sessions, and all of them to ``of_all``.

    If a new session exceeds the first limit, the longest-idle session of the same subject is ended for it; if it
    exceeds the second, that of the subject with the most sessions, and more than this one has. If none of these is
    idle, it is refused: 429, or 503 if the total is exhausted and this subject might have more. A session with an open
    request, including its own stream, is never idle.
    """

    def __init__(self, app: ASGIApp, sessions: HttpSessions, of_one: int, of_all: int) -> None:
        self._app, self._sessions, self._of_one, self._of_all = app, sessions, of_one, of_all
        self._opened = dict[str, str]()
        self._opening = Counter[str]()
        """Sessions being opened, which have no id yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless it would exceed the limit on sessions."""
        token = get_access_token()
        subject = token.subject if token and _opens_session(scope) else None
        if subject is None:
            await self._app(scope, receive, send)
            return
        idle_ends = self._sessions.idle_ends()
        self._opened = {key: owner for key, owner in self._opened.items() if key in idle_ends}
        counts = Counter(self._opened.values()) + self._opening
        is_room = counts[subject] < self._of_one and counts.total() < self._of_all
        idlest = None if is_room else self._idlest(subject, counts, idle_ends)
        if idlest is None and counts[subject] >= self._of_one:
            await JSONResponse(_REFUSAL, status_code=429)(scope, receive, send)
            return
        await self._open(subject, idlest, lambda told: self._app(scope, receive, told), send)

    def _idlest(self, subject: str, counts: Counter[str], idle_ends: Mapping[str, float]) -> str | None:
        """Return the session to end for a new one of ``subject``; None if there is none."""
        largest = max(counts, key=counts.__getitem__)
        # A subject with no more sessions than the requesting one has not caused the shortage.
        owners = [subject, largest] if counts[subject] < min(self._of_one, counts[largest]) else [subject]
        for owner in owners:
            idle = [key for key, each in self._opened.items() if each == owner and idle_ends[key] < math.inf]
            if idle:
                return min(idle, key=idle_ends.__getitem__)
        return None

    async def _open(
        self, subject: str, idlest: str | None, pass_on: Callable[[Send], Awaitable[None]], send: Send
    ) -> None:
        """Open a session, and record its subject as soon as it has an id."""
        is_on_its_way = True

        async def told(message: Message) -> None:
            nonlocal is_on_its_way
            if message["type"] == "http.response.start" and is_on_its_way:
                is_on_its_way = False
                self._opening[subject] -= 1
                if session := Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER):
                    self._opened[session] = subject
            await send(message)

        self._opening[subject] += 1  # before any await: concurrent requests are counting
        try:
            if idlest is not None:
                await self._sessions.end(idlest)
            await pass_on(told)
        finally:
            if is_on_its_way:
                self._opening[subject] -= 1


def _opens_session(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    if scope["method"] != "POST" or MCP_SESSION_ID_HEADER in headers:
        return False
    return headers.get("mcp-protocol-version") not in MODERN_PROTOCOL_VERSIONS


def health_routes(is_ready: Callable[[], bool]) -> list[Route]:
    """Return ``/healthz``, a liveness check, and ``/readyz``, a readiness check; both are public, and tell no more.

    ``is_ready`` returns whether answers no longer wait for servers that are being listed for the first time.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        return PlainTextResponse("ready\n") if is_ready() else PlainTextResponse("not ready\n", status_code=503)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
