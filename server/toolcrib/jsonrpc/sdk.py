"""The adapter to private and provisional parts of the MCP SDK (mcp 2.3): a minor release may move any of them.

Public is what ``mcp``, ``mcp.server``, ``mcp.types`` and the modules of the transports export.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from operator import attrgetter
from typing import Any, Literal, Protocol, cast

import anyio
import mcp_types as types
from mcp import MCPError, ServerSession
from mcp.client._memory import InMemoryTransport
from mcp.client._transport import TransportStreams
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.server import InitializationOptions, NotificationOptions, Server, ServerRequestContext, runner
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.mcpserver import MCPServer
from mcp.server.runner import (
    ServerRunner,
    aclose_shielded,
    serve_one,
)
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import (
    CallOptions,
    DispatchContext,
    Dispatcher,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    Outbound,
    ProgressFnT,
    as_request_id,
    coerce_request_id,
    run_notify_intercept,
)
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    InboundLadderRejection,
    classify_inbound_request,
    decode_header_value,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import (
    JSONRPCDispatcher,
    cancelled_request_id_from_params,
    handler_exception_to_error_data,
    progress_token_from_params,
)
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import ProgressToken, RequestId
from mcp_types.methods import validate_client_request
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from toolcrib.base.model import JsonObject

__all__ = [
    "MCP_METHOD_HEADER",
    "MCP_NAME_HEADER",
    "MCP_PROTOCOL_VERSION_HEADER",
    "NAME_BEARING_METHODS",
    "CallNext",
    "CallOptions",
    "Channel",
    "Connection",
    "Context",
    "DispatchContext",
    "HandlerResult",
    "IncomingMessage",
    "NoBackChannelError",
    "OnNotify",
    "OnNotifyIntercept",
    "OnRequest",
    "Outbound",
    "ProgressFnT",
    "ProgressToken",
    "PromptsListChanged",
    "ProtocolServer",
    "ReadStream",
    "RequestId",
    "ResourceUpdated",
    "ResourcesListChanged",
    "ServerEvent",
    "ServerMiddleware",
    "ServerObject",
    "SessionMessage",
    "StreamDispatcher",
    "SubscriptionLost",
    "Subscriptions",
    "ToolsListChanged",
    "TransportContext",
    "TransportStreams",
    "WriteStream",
    "as_request_id",
    "cancelled_request_id_from_params",
    "channel_of",
    "coerce_request_id",
    "connection_of",
    "decode_header_value",
    "encode_header_value",
    "envelope_of",
    "find_invalid_x_mcp_header",
    "handler_exception_to_error_data",
    "listen",
    "low_level_server",
    "mcp_param_headers",
    "open_object",
    "progress_token_from_params",
    "run_notify_intercept",
    "serve_by_era",
    "x_mcp_header_map",
]

Context = ServerRequestContext[Any, Any]
"""The context of a request."""

INVALID_ID = "The id of a request must be a string or an integer."
"""The answer to a request with another id (MCP 2025-11-25, Base Protocol, Requests), null among them."""

connection_of: Callable[[ServerSession], Connection] = attrgetter("_connection")
"""Returns the connection on which a session's requests arrive; the SDK has no public accessor."""

channel_of: Callable[[ServerSession], DispatchContext[TransportContext]] = attrgetter("_request_outbound")
"""Returns the channel of one request, on which its client can be sent requests and notifications while it waits."""


# -- as a server ---------------------------------------------------------------------------------


Verbatim = Callable[[Context, JsonObject], Coroutine[Any, Any, JsonObject]]
"""Returns the complete result of a request with these params."""


Validate = Callable[[str, str, "Mapping[str, Any] | None"], object]
"""Validates the params of a method in a protocol revision.

Raises:
    KeyError: the revision has no such method.
    ValidationError, MCPError: the params are invalid.

"""


class ProtocolServer(Server[Any]):
    """The SDK's server with our function ``answer`` in front of every request.

    ``info`` is stamped on results of 2026-07-28. ``input_schema`` returns the schema used to compare ``Mcp-Param-*``
    headers with arguments; it is called before ``answer``.
    """

    def __init__(
        self,
        identity: types.Implementation,
        answer: Callable[[Context, CallNext], Awaitable[HandlerResult]],
        *,
        input_schema: Callable[[str], Mapping[str, Any] | None],
        listen: Callable[[Context, types.SubscriptionsListenRequestParams], Awaitable[Any]],
        set_log_level: Callable[[Context, types.SetLevelRequestParams], Awaitable[types.EmptyResult]] | None,
    ) -> None:
        super().__init__(
            identity.name,
            version=identity.version,
            title=identity.title,
            get_tool_input_schema=input_schema,
            on_list_tools=_answered_in_front,
            on_call_tool=_answered_in_front,
            on_subscriptions_listen=listen,
        )
        if set_log_level:
            self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_log_level)
        self.middleware = [cast("ServerMiddleware[Any]", answer)]
        self.info = self.server_info_stamp
        self._verbatim: dict[str, tuple[Verbatim, Validate]] = {}

    def answer_verbatim(self, method: str, handler: Verbatim, validate: Validate = validate_client_request) -> None:
        """Let ``handler`` return the complete result of a method, bypassing the SDK's shaping; see :meth:`verbatim`.

        ``validate`` checks method, revision and params of one that the SDK does not know; it raises as the SDK's does.
        """
        self._verbatim[method] = handler, validate
        self.add_request_handler(method, types.RequestParams, _answered_in_front)

    def verbatim(self, context: Context) -> Coroutine[Any, Any, JsonObject] | None:
        """Return the answer of a handler registered by :meth:`answer_verbatim`; None if there is none.

        Raises:
            MCPError: the request's protocol revision has no such method.
            ValidationError: its params are invalid for the method.

        """
        known = self._verbatim.get(context.method)
        if known is None:
            return None
        handler, validate = known
        try:
            # Validated as for the SDK's own handlers, none of which runs for it.
            validate(context.method, context.protocol_version, context.params)
        except KeyError:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method) from None
        return handler(context, dict(context.params or {}))

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the declaration of ``initialize``: here the tool list may change, which the SDK's default denies."""
        # The SDK's transports call this without options, which would declare that the list never changes.
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


async def _answered_in_front(_context: Context, _params: Any) -> Any:
    """Serve as a placeholder, so that the SDK declares the tools capability."""
    raise MCPError(code=types.INVALID_REQUEST, message="Not initialized")


class Subscriptions:
    """The 2026-07-28 subscriptions of clients that all receive the same events."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._handler = ListenHandler(self._bus)

    async def serve(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve one subscription until it ends."""
        return await self._handler(context, params)

    async def publish(self, event: ServerEvent) -> None:
        """Publish an event to all subscribers of its kind."""
        await self._bus.publish(event)

    def close(self) -> None:
        """End the subscriptions gracefully: each client is notified."""
        self._handler.close()


# -- one connection, two eras ---------------------------------------------------------------------

Params = Mapping[str, Any]

_PROBE = "server/discover"

_one_way: Callable[[DispatchContext[TransportContext]], DispatchContext[TransportContext]] = attrgetter(
    "_NoServerRequestsDispatchContext"
)(runner)
"""Returns a request context that cannot send requests to the client: 2026-07-28 has no server requests."""


def envelope_of(params: Params | None) -> JsonObject:
    """Return the envelope of a 2026-07-28 request, which names its revision; empty for any other request."""
    meta = (params or {}).get("_meta")
    return cast("JsonObject", meta) if isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta else {}


class EraRouter:
    """Routes each request of one connection to its protocol era, which the first request settles for all.

    A probe is always answered and settles nothing, unlike in the SDK's own loop: a client that gives up waiting for
    ``server/discover``, or chooses an older revision by it, still performs a handshake. Requires only the SDK's
    dispatcher protocol.
    """

    def __init__(self, server: Server[Any], dispatcher: Dispatcher[Any], state: Any) -> None:
        self._server, self._state = server, state
        self._outbound = NotifyOnlyOutbound(dispatcher)
        self._connection = Connection.for_loop(dispatcher)
        options = server.create_initialization_options()
        self._handshake = ServerRunner(server, self._connection, state, init_options=options)
        self._era: Literal["handshake", "modern"] | None = None

    async def on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Params | None
    ) -> dict[str, Any]:
        """Answer one request.

        Raises:
            MCPError: it is of another era than the connection, or its handler raised one.

        """
        given = params or {}
        is_modern = method != "initialize" and bool(envelope_of(given))
        if is_modern and method == _PROBE:
            return await self._sessionless(context, method, params)
        if self._era is None:
            self._era = "modern" if is_modern else "handshake"
        if self._era == "modern" and method == "initialize":
            raise MCPError(
                code=types.UNSUPPORTED_PROTOCOL_VERSION,
                message="This connection serves the 2026-07-28 protocol, which has no handshake.",
                data={"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": given.get("protocolVersion", "")},
            )
        if self._era == "handshake" and is_modern:
            raise MCPError(
                code=types.INVALID_REQUEST,
                message="This connection has shaken hands: a request with the 2026-07-28 envelope is not for it.",
            )
        if self._era == "handshake":
            return await self._handshake.on_request(context, method, params)
        return await self._sessionless(context, method, params)

    async def _sessionless(
        self, context: DispatchContext[TransportContext], method: str, params: Params | None
    ) -> dict[str, Any]:
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(code=route.code, message=route.message, data=route.data)
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=self._outbound
        )
        one_way = _one_way(context)
        return await serve_one(self._server, one_way, method, params, connection=connection, lifespan_state=self._state)

    async def on_notify(self, context: DispatchContext[TransportContext], method: str, params: Params | None) -> None:
        """Handle one notification; before the era is settled it belongs to the handshake era."""
        if self._era != "modern":
            await self._handshake.on_notify(context, method, params)
            return
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None, outbound=self._outbound)
        one = ServerRunner(self._server, connection, self._state)
        try:
            await one.on_notify(_one_way(context), method, params)
        finally:
            await aclose_shielded(connection)

    async def aclose(self) -> None:
        """Release the resources of the connection."""
        await aclose_shielded(self._connection)


async def serve_by_era(server: Server[Any], dispatcher: Dispatcher[TransportContext], state: Any) -> None:
    """Serve one connection until it ends, in the era with which its client opens it (see :class:`EraRouter`).

    The dispatcher must answer ``initialize`` before it reads the next message, so that messages sent right after it
    find the handshake completed.
    """
    router = EraRouter(server, dispatcher, state)
    try:
        await dispatcher.run(router.on_request, router.on_notify)
    finally:
        await router.aclose()


# -- one connection, either side ------------------------------------------------------------------


class Channel(Dispatcher[TransportContext], Protocol):
    """A dispatcher that also signals the end of its connection."""

    @property
    def ended(self) -> anyio.Event:
        """Set when no more input can arrive."""
        ...


class StreamDispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher over a pair of message streams, which also signals the end of its connection."""

    def __init__(self, read: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage]) -> None:
        # Answered before the next message is read, which may rely on the handshake.
        super().__init__(read, write, inline_methods=frozenset({"initialize"}))
        self.ended = anyio.Event()

    async def run(self, *handlers: Any, **options: Any) -> None:
        """Dispatch messages until the connection ends."""
        try:
            await super().run(*handlers, **options)
        finally:
            self.ended.set()


# -- a server that is an object of this program -----------------------------------------------------


def low_level_server(server: object) -> Server[Any] | None:
    """Return the SDK's server that an object is or has, as those of FastMCP and the SDK's own ``MCPServer`` do."""
    known = (server, getattr(server, "_lowlevel_server", None), getattr(server, "_mcp_server", None))
    return next((cast("Server[Any]", each) for each in known if isinstance(each, Server)), None)


class ServerObject(MCPServer[Any]):
    """A server in the form in which programs hand servers to clients and frameworks in memory: some take no other."""

    def __init__(self, server: Server[Any]) -> None:
        # Without the SDK's own set-up: it would configure the logging of the whole process.
        self._lowlevel_server = server

    def __repr__(self) -> str:
        return f"ServerObject({self.name!r})"


@asynccontextmanager
async def open_object(server: object) -> AsyncGenerator[Channel]:
    """Run a server that is an object of this program, and open a channel to it in memory."""
    found = low_level_server(server)
    assert found is not None
    # FastMCP has a lifespan of its own, besides that of the SDK's server in it.
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] = getattr(server, "_lifespan_manager", nullcontext)
    async with lifespan(), InMemoryTransport(found) as streams:
        yield StreamDispatcher(*streams)
