"""toolcrib over streamable HTTP: tokens, host and origin checks, and the refusal of unsafe configs."""

import hmac
import ipaddress
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from anyio.abc import TaskStatus
from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from toolcrib.base.errors import StartRefused
from toolcrib.base.json_decoding import replace_lone_surrogates, without_lone_surrogates
from toolcrib.base.model import Caller
from toolcrib.config.schema import HttpSection, LimitsSection, TokenSection
from toolcrib.jsonrpc.rate_limit import RateBounds
from toolcrib.jsonrpc.sdk import CallNext, Context, HandlerResult
from toolcrib.jsonrpc.sdk_http import HttpSessions
from toolcrib.server.http_limits import (
    HEAD_MAX_BYTES,
    HeaderCheck,
    PresenceTracker,
    SessionQuota,
    accepted_at_once,
    bounded,
    health_routes,
)
from toolcrib.server.resumption import RETRY_MS, Replay
from toolcrib.server.serving import Serving, access_of

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_GRACE_S = 2
_UNUSED_S = 30
"""How long an idle connection is kept, in seconds: longer than clients keep it (4 s by Node, 5 s by the SDK's), so that
it is not closed while a request is on its way. If there are too many connections, it is closed earlier.
"""


def is_loopback(host: str) -> bool:
    """Return whether a server bound to ``host`` is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_unsafe(http: HttpSection, *, activation_scope: str) -> None:
    """Refuse to serve HTTP if that would be unsafe.

    Raises:
        StartRefused: bound beyond this machine without tokens, or session scope without tokens.

    """
    if not http.tokens and not is_loopback(http.host):
        raise StartRefused(
            f"http.host is {http.host!r}, which other machines can reach, and there are no http.tokens: anybody could "
            "use your tools. Set http.tokens, or bind to 127.0.0.1."
        )
    if not http.tokens and activation_scope == "session":
        raise StartRefused(
            "tool_search.activation_scope 'session' over HTTP needs http.tokens: without them anybody could take up "
            "another's session by its id. Set http.tokens, or use 'run'."
        )


def http_app(serving: Serving, http: HttpSection, limits: LimitsSection, tokens: "TokenTable") -> Starlette:
    """Return the ASGI application. Host and Origin are checked with and without ``tokens``.

    All sessions and streams end with its lifespan.
    """
    manager = _sessions(serving.server_behind(_carried), http, limits)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield
            serving.handler.changes.end_subscriptions()

    app = Starlette(
        routes=[Route(http.path, _protected(manager, http)), *health_routes(serving.is_ready)],
        middleware=_authentication(tokens) if http.tokens else None,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a redirect repeats the request's Host, unchecked
    return app


class MountedApp:
    """An ASGI application to be mounted in another one, at any path; Host, Origin and tokens are checked as in ours.

    Applications run the lifespan of none that is mounted in them: the first request starts its sessions, and they end
    with the gateway.
    """

    def __init__(self, serving: Serving, caller: Caller | None = None) -> None:
        """Serve it to whoever has a token, else to the person at this machine; with a ``caller`` on their account."""
        section = serving.gateway.settings.toolcrib
        # Where it is reachable from is decided by the application around it.
        refuse_unsafe(
            section.http.model_copy(update={"host": "localhost"}),
            activation_scope=section.tool_search.activation_scope,
        )
        http = section.http if caller is None else section.http.model_copy(update={"tokens": ()})
        tokens = TokenTable(http.tokens)
        if http.tokens:
            serving.on_change = lambda settings: tokens.change(settings.toolcrib.http.tokens)
        server = serving.server_behind(_carried) if caller is None else serving.server_for(caller, _carried)
        self._serving, self._manager = serving, _sessions(server, http, section.limits)
        self._begun: anyio.Event | None = None
        self._app = Starlette(
            routes=[Route("/{path:path}", _protected(self._manager, http))],
            middleware=_authentication(tokens) if http.tokens else None,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await self._begin()
        await self._app(scope, receive, send)

    async def _begin(self) -> None:
        if self._begun is None:
            self._begun = anyio.Event()
            await self._serving.gateway.tasks.start(self._run)
            self._begun.set()
        # Another request may have come first.
        await self._begun.wait()

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        async with self._manager.run():
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._serving.handler.changes.end_subscriptions()


def _sessions(server: Server[Any], http: HttpSection, limits: LimitsSection) -> HttpSessions:
    return HttpSessions(
        server,
        Replay(limits.replay_max_bytes).session,
        RateBounds(limits.notifications_per_s, limits.flood_s),
        retry_interval=RETRY_MS,
        security_settings=_security(http),
        session_idle_timeout=http.session_idle_s,
        max_sessions=http.max_sessions,
        max_request_body_size=limits.request_max_bytes,
    )


def _protected(manager: HttpSessions, http: HttpSection) -> ASGIApp:
    noticed = PresenceTracker(HeaderCheck(StreamableHTTPASGIApp(manager)), http.absence_s)
    capped = SessionQuota(noticed, manager, http.sessions_of_one, http.max_sessions)
    return RequireAuthMiddleware(capped, [], None) if http.tokens else noticed


def _authentication(tokens: "TokenTable") -> list[Middleware]:
    return [
        Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(tokens)),
        Middleware(AuthContextMiddleware),
    ]


async def _carried(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Make an answer sendable by the SDK: one on which it fails would never arrive, although a tool has run."""
    try:
        result = await call_next(ctx)
        return without_lone_surrogates(result) if isinstance(result, dict) else result
    except MCPError as error:
        told = error.error
        raise MCPError(told.code, replace_lone_surrogates(told.message), without_lone_surrogates(told.data)) from None
    except ValidationError:  # the request is invalid and nothing was done: the SDK answers
        raise
    except ValueError as error:
        raise MCPError(
            types.INTERNAL_ERROR, f"The request was processed, but its answer cannot be sent: {error}."
        ) from None


def _security(http: HttpSection) -> TransportSecuritySettings:
    """Allow the names of this machine, the bound address, and what the config allows."""
    own = [*_LOOPBACK_NAMES] if _is_any(http.host) else [*_LOOPBACK_NAMES, _in_url(http.host)]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[pattern for name in own for pattern in (name, f"{name}:*")] + list(http.allowed_hosts),
        allowed_origins=[f"http://{name}:*" for name in own] + list(http.allowed_origins),
    )


def host_notice(http: HttpSection) -> str | None:
    """Return a notice for a server that listens on every address but allows no name by which others could reach it."""
    if http.allowed_hosts or not _is_any(http.host):
        return None
    return (
        f"http.host is {http.host!r} and http.allowed_hosts is empty: only clients that address this server as "
        "localhost get past the check of the Host header. Add the names by which others reach it."
    )


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class TokenTable:
    """Looks up the caller of a bearer token, in constant time with respect to the tokens."""

    def __init__(self, tokens: tuple[TokenSection, ...]) -> None:
        self.change(tokens)

    def change(self, tokens: tuple[TokenSection, ...]) -> None:
        """Replace the valid tokens, starting with the next request."""
        self._tokens = [(sha256(token.token.encode()).digest(), token) for token in tokens]

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller whom the token identifies; None for an unknown one."""
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        found: TokenSection | None = None
        # Without an early exit, so that no duration tells which token was close.
        for known, section in self._tokens:
            if hmac.compare_digest(known, digest):
                found = section
        if found is None:
            return None
        return access_of(Caller(found.subject, found.tenant_id, found.project_id, found.profile), token)


class _HttpServer(uvicorn.Server):
    """uvicorn, with signal handling left to the command that runs it."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve_http(app: Starlette, http: HttpSection, listener: socket.socket, stop: anyio.Event) -> None:
    """Serve on a bound socket until ``stop`` is set; requests under way get a moment to end, then streams close."""
    protocol: Any = bounded(http)  # uvicorn expects a class, and calls it
    config = uvicorn.Config(
        app,
        http=protocol,
        h11_max_incomplete_event_size=HEAD_MAX_BYTES,
        backlog=accepted_at_once(http),
        # uvicorn's own would configure the logging of the whole process.
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,  # nothing here asks for the client's address or scheme
        timeout_keep_alive=_UNUSED_S,
        timeout_graceful_shutdown=2 * _GRACE_S,
    )
    server = _HttpServer(config)
    served = anyio.Event()

    async def serve() -> None:
        await server.serve(sockets=[listener])
        served.set()

    async with anyio.create_task_group() as tasks, app.router.lifespan_context(app):
        tasks.start_soon(serve)
        await stop.wait()
        server.should_exit = True
        with anyio.move_on_after(_GRACE_S):
            await served.wait()


def bind(http: HttpSection) -> socket.socket:
    """Return a listening socket.

    Raises:
        StartRefused: the address is in use or not available on this machine.

    """
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    try:
        listener = socket.create_server((http.host.strip("[]"), http.port), family=family)
    except OSError as error:
        raise StartRefused(
            f"Cannot listen on {http.host}:{http.port}: {error.strerror}. Choose another --port."
        ) from None
    # Inherited by connections. Without it every answer in two writes waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket, http: HttpSection) -> str:
    """Return the URL for clients."""
    return f"http://{_in_url(http.host)}:{listener.getsockname()[1]}{http.path}"
