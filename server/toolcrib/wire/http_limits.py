"""What goes before the MCP endpoint: who is still there, how fast and how often one may come, and how toolcrib is.

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

from toolcrib.base.recent import Recent
from toolcrib.streams.pace import Pace, PaceBounds
from toolcrib.streams.sdk_sessions import HttpSessions
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
        "message": "Too many open sessions of this token's subject: end one, or wait for one to.",
    },
}

_GONE = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": "Session not found"}}
"""What the SDK answers to a session that it does not know."""


class PlainHosts:
    """Refuses a Host or an Origin that is none; which of the others are served, the SDK decides by how they begin."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless one of its heads could be read as two things."""
        headers = Headers(scope=scope)
        if not _HOST.fullmatch(headers.get("host", "")):
            await PlainTextResponse("Invalid Host header", status_code=421)(scope, receive, send)
        elif not _ORIGIN.fullmatch(headers.get("origin", "null")):
            await PlainTextResponse("Invalid Origin header", status_code=403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Presence:
    """Notes which sessions have requests open. ``patience_s`` is how long the client of one may have none."""

    def __init__(self, app: ASGIApp, patience_s: float) -> None:
        self._app, self._patience_s = app, patience_s
        self._clients = WeakValueDictionary[str, Client]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session is None:
            await self._app(scope, receive, send)
            return
        # Kept by its requests and by the calls that wait for it.
        client = self._clients.setdefault(session, Client(self._patience_s))
        client.note(1)
        try:
            await self._app({**scope, STATE: {**scope.get(STATE, {}), KEY: client}}, receive, send)
        finally:
            client.note(-1)


class PacedNotes:
    """Slows the client of a session that sends faster than it may what is accepted and not answered; ends a flood.

    That are notifications and answers, of which none is told from another here: unlike over stdio, an answer that a
    server waits for and progress count as much as what nobody asked for. They are accepted late, so that a client that
    waits for it sends no faster, and one that does not has as many on the way as it has connections. Those that wait
    when their session ends are not accepted: 404.
    """

    def __init__(self, app: ASGIApp, sessions: HttpSessions, bounds: PaceBounds, most: int) -> None:
        self._app, self._sessions, self._bounds = app, sessions, bounds
        self._paces = Recent[str, Pace](most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; have its client wait where it is accepted and comes too early."""
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session is None:
            await self._app(scope, receive, send)
            return

        with anyio.CancelScope() as serving:

            async def told(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] == HTTPStatus.ACCEPTED:
                    await self._slow_down(session)
                    if session not in self._sessions.idle_ends():
                        # Accepting it now would have the SDK write into a session that has been closed.
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
    """Keeps each token's subject to ``of_one`` sessions, and all of them to ``of_all``.

    Where a new one would be one too many, the session of the same subject that has been idle for longest is ended for
    it, or, where it is all of them that are too many, that of the subject who has the most, and more than this one.
    Where none of these is idle it is refused: 429, or 503 where all are taken and this subject might have more. A
    session with a request open, its own stream included, is never idle.
    """

    def __init__(self, app: ASGIApp, sessions: HttpSessions, of_one: int, of_all: int) -> None:
        self._app, self._sessions, self._of_one, self._of_all = app, sessions, of_one, of_all
        self._opened = dict[str, str]()
        self._opening = Counter[str]()
        """Sessions on their way, which have no id yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless it would open one session too many."""
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
        """Return the session that is ended for a new one of ``subject``; None where none may be."""
        largest = max(counts, key=counts.__getitem__)
        # Who has as many as the asking subject, or fewer, has not taken the room that is missing.
        owners = [subject, largest] if counts[subject] < min(self._of_one, counts[largest]) else [subject]
        for owner in owners:
            idle = [key for key, each in self._opened.items() if each == owner and idle_ends[key] < math.inf]
            if idle:
                return min(idle, key=idle_ends.__getitem__)
        return None

    async def _open(
        self, subject: str, idlest: str | None, pass_on: Callable[[Send], Awaitable[None]], send: Send
    ) -> None:
        """Have a session opened, and note whose it is as soon as it has an id."""
        is_on_its_way = True

        async def told(message: Message) -> None:
            nonlocal is_on_its_way
            if message["type"] == "http.response.start" and is_on_its_way:
                is_on_its_way = False
                self._opening[subject] -= 1
                if session := Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER):
                    self._opened[session] = subject
            await send(message)

        self._opening[subject] += 1  # before anything is waited for: others are counting
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
    """Return ``/healthz``, which answers, and ``/readyz``, which says whether it serves; to anybody, and no more.

    ``is_ready`` returns whether answers no longer wait for servers that are being listed for the first time.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        return PlainTextResponse("ready\n") if is_ready() else PlainTextResponse("not ready\n", status_code=503)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
