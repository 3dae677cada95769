"""What goes before the MCP endpoint: who is still there, how many sessions one may have, and how toolcrib is.

Knows requests by their headers; never knows what one asks.
"""

from collections import Counter
from collections.abc import Callable
from weakref import WeakValueDictionary

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from toolcrib.wire.presence import KEY, STATE, Client

_REFUSAL = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {
        "code": -32000,
        "message": "Too many open sessions of this token's subject: end one, or wait for one to.",
    },
}


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


class SessionCap:
    """Refuses (429) to open a session for a subject who has ``most``; ``count`` returns how many a subject has."""

    def __init__(self, app: ASGIApp, count: Callable[[str], int], most: int) -> None:
        self._app, self._count, self._most = app, count, most
        self._opening = Counter[str]()
        """Sessions on their way, which nobody counts yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless it would open one session too many."""
        token = get_access_token()
        subject = token.subject if token and _opens_session(scope) else None
        if subject is None:
            await self._app(scope, receive, send)
        elif self._count(subject) + self._opening[subject] >= self._most:
            await JSONResponse(_REFUSAL, status_code=429)(scope, receive, send)
        else:
            self._opening[subject] += 1
            try:
                await self._app(scope, receive, send)
            finally:
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
