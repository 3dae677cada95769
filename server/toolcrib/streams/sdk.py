"""The one adapter to what the MCP SDK keeps private or calls provisional (mcp 2.3): a minor release may move any of it.

Knows which parts of the SDK those are, and gives them names of ours; never knows a tool, a caller or a downstream.
Public is what ``mcp``, ``mcp.server``, ``mcp.types`` and the modules of the transports export.
"""

from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError, ServerSession
from mcp.client._transport import TransportStreams
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.server import InitializationOptions, NotificationOptions, Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage

__all__ = [
    "MCP_METHOD_HEADER",
    "MCP_NAME_HEADER",
    "MCP_PROTOCOL_VERSION_HEADER",
    "CallNext",
    "CallOptions",
    "Connection",
    "Context",
    "EndingDispatcher",
    "HandlerResult",
    "IncomingMessage",
    "ProtocolServer",
    "ReadStream",
    "SessionMessage",
    "SubscriptionLost",
    "Subscriptions",
    "TransportStreams",
    "WriteStream",
    "connection_of",
    "encode_header_value",
    "find_invalid_x_mcp_header",
    "listen",
    "mcp_param_headers",
    "serve_dual_era_loop",
    "serve_loop",
    "x_mcp_header_map",
]

Context = ServerRequestContext[Any, Any]
"""What a request came with."""

connection_of: Callable[[ServerSession], Connection] = attrgetter("_connection")
"""Returns the connection that a session's requests come by; there is no public way to it."""


# -- as a server ---------------------------------------------------------------------------------


class ProtocolServer(Server[Any]):
    """The SDK's server with one function of ours, ``answer``, in front of every request.

    ``info`` is what results of 2026-07-28 are stamped with. ``input_schema`` is asked for the schema by which
    ``Mcp-Param-*`` headers are compared with arguments, before ``answer`` is.
    """

    def __init__(
        self,
        identity: types.Implementation,
        answer: ServerMiddleware[Any],
        *,
        input_schema: Callable[[str], Mapping[str, Any] | None],
        listen: Callable[[Context, types.SubscriptionsListenRequestParams], Awaitable[Any]],
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
        self.middleware = [answer]
        self.info = self.server_info_stamp

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return what ``initialize`` declares: here that the list of tools may change, which the SDK denies."""
        # The SDK's transports call this without options, which would declare that the list never changes.
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


async def _answered_in_front(_context: Context, _params: Any) -> Any:
    """Stand for a handler, so that the SDK declares the tools capability."""
    raise MCPError(code=types.INVALID_REQUEST, message="Not initialized")


class Subscriptions:
    """The 2026-07-28 subscriptions of clients that are all told the same."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._handler = ListenHandler(self._bus)

    async def serve(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve one subscription until it ends."""
        return await self._handler(context, params)

    async def tell_tools_changed(self) -> None:
        """Tell all who asked for it that the list of tools has changed."""
        await self._bus.publish(ToolsListChanged())

    def close(self) -> None:
        """End them in order: each client is told that this was meant."""
        self._handler.close()


# -- as a client ---------------------------------------------------------------------------------


class EndingDispatcher(JSONRPCDispatcher[Any]):
    """The SDK's dispatcher, which also tells when its connection has ended."""

    def __init__(self, *streams: Any) -> None:
        super().__init__(*streams)
        self.ended = anyio.Event()

    async def run(self, *handlers: Any, **options: Any) -> None:
        """Dispatch messages until the connection ends."""
        try:
            await super().run(*handlers, **options)
        finally:
            self.ended.set()
