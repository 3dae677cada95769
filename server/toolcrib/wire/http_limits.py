"""Middleware before the MCP endpoint: presence of clients, rate and session limits, and health checks.

Knows requests by their headers; never knows what one asks.
"""

import logging
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from weakref import WeakValueDictionary

import anyio
import anyio.lowlevel
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types import INVALID_REQUEST
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolcrib.base.cache import Recent
from toolcrib.jsonrpc.rate_limit import Pace, PaceBounds
from toolcrib.jsonrpc.sdk_http import HttpSessions
from toolcrib.wire.presence import KEY, STATE, Client

_log = logging.getLogger(__name__)

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

_GONE = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": "Session not found"}}
"""The SDK's answer for an unknown session."""


class PlainHosts:
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


class Presence:
    """Records which sessions have open requests. ``patience_s`` is how long a client may have none, in seconds."""

    def __init__(self, app: ASGIApp, patience_s: float) -> None:
        self._app, self._patience_s = app, patience_s
        self._clients = WeakValueDictionary[str, Client]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session is None:
            await self._app(scope, receive, send)
            return
        # Kept alive by its requests and by the calls that wait for it.
        client = self._clients.setdefault(session, Client(self._patience_s))
        client.note(1)
        try:
            await self._app({**scope, STATE: {**scope.get(STATE, {}), KEY: client}}, receive, send)
        finally:
            client.note(-1)


class PacedNotes:
    """Slows a client that sends messages without a response faster than its pace; a flood ends its session.

    These are notifications and responses, which are not distinguished here: unlike over stdio, expected responses and
    progress count like unsolicited messages. They are accepted with a delay, so that a client that waits for that sends
    no faster, and one that does not has as many pending as it has connections. Those still waiting when their session
    ends are not accepted: 404.
    """

    def __init__(self, app: ASGIApp, sessions: HttpSessions, bounds: PaceBounds, most: int) -> None:
        self._app, self._sessions, self._bounds = app, sessions, bounds
        self._paces = Recent[str, Pace](most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; delay its acceptance if it came too early."""
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session is None:
            await self._app(scope, receive, send)
            return

        with anyio.CancelScope() as serving:

            async def told(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] == HTTPStatus.ACCEPTED:
                    await self._slow_down(session)
                    if session not in self._sessions.idle_ends():
                        # Accepting it now would make the SDK write into a closed session.
                        serving.cancel()
                        await anyio.lowlevel.checkpoint()
                await send(message)

            await self._app(scope, receive, told)
        if serving.cancelled_caught:
            await JSONResponse(_GONE, status_code=HTTPStatus.NOT_FOUND)(scope, receive, send)

    async def _slow_down(self, session: str) -> None:
        pace = self._paces.get(session, lambda: Pace(self._bounds, anyio.current_time))
        if pause := pace.pause():
            await anyio.sleep(pause)
        if pace.is_flood and session in self._sessions.idle_ends():
            _log.warning("a session over HTTP is ended, because its client %s", self._bounds.fault)
            await self._sessions.end(session)


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
