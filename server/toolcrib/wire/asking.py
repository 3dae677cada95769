"""The caller of a request as a server can reach it: on the request's channel, or its session's.

Knows the channels of both eras; never knows which server asks, nor whether it may.
"""

from dataclasses import dataclass

import anyio
import mcp_types as types
from mcp import MCPError

from toolcrib.base.json_decoding import carried
from toolcrib.base.model import JsonObject
from toolcrib.jsonrpc.sdk import CallOptions, Context, Outbound, channel_of, connection_of, envelope_of
from toolcrib.policy.asking import Asker, is_at_least, is_level
from toolcrib.policy.sessions import Session
from toolcrib.wire.sessions import is_modern

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(frozen=True, slots=True)
class _Caller:
    """The caller of a request."""

    _context: Context
    _session: Session

    @property
    def session(self) -> str:
        """The label of its session; callers without one share that of their principal and client."""
        return self._session.label

    @property
    def principal(self) -> str:
        """The principal of the caller."""
        return self._session.caller.principal

    @property
    def capabilities(self) -> JsonObject:
        """The capabilities that its client has declared, in the handshake or in the request's envelope."""
        return self._session.capabilities


@dataclass(frozen=True, slots=True)
class SessionAsker(_Caller):
    """A caller with a session, which can be sent requests while its own is under way, and notifications after it."""

    lasting = is_live = True

    @property
    def log_level(self) -> str | None:
        """The level set by ``logging/setLevel``."""
        return self._session.log_level

    def wants_log(self, level: str) -> bool:
        """Return whether log messages of this level are sent to it: all, unless it has set a level."""
        return self.log_level is None or is_at_least(level, self.log_level)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Send it a request and return the raw result; cancelling this call cancels the request.

        Raises:
            MCPError: the client's own error, or its connection is closed.

        """
        try:
            return await self._channel().send_raw_request(method, _sent(self._context, params) or None, CallOptions())
        except _GONE:
            raise MCPError(types.CONNECTION_CLOSED, "The client is gone.") from None
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, f"Nothing was sent: {error}") from None

    async def tell(self, method: str, params: JsonObject) -> None:
        """Send it a notification; if its connection is closed, the notification is dropped."""
        await self._channel().notify(method, _sent(self._context, params))

    def _channel(self) -> Outbound:
        """Return the channel of the request while it is open: over HTTP a client need not open a standalone stream."""
        own = channel_of(self._context.session)
        return own if own.can_send_request else connection_of(self._context.session).outbound


@dataclass(frozen=True, slots=True)
class RequestAsker(_Caller):
    """A caller of 2026-07-28: input is requested by the result of its request, and notifications only precede that."""

    lasting = is_live = False

    @property
    def log_level(self) -> str | None:
        """The level in the request's envelope."""
        level = envelope_of(self._context.params).get(types.LOG_LEVEL_META_KEY)
        return level if is_level(level) else None

    def wants_log(self, level: str) -> bool:
        """Return whether log messages of this level are sent to it: none, unless it asked for them."""
        least = self.log_level
        return least is not None and is_at_least(level, least)

    async def ask(self, method: str, _params: JsonObject) -> JsonObject:
        """Raise: this protocol revision has no requests from servers."""
        raise MCPError(types.METHOD_NOT_FOUND, "The client cannot be asked at once.", method)

    async def tell(self, method: str, params: JsonObject) -> None:
        """Send it a notification on the stream of its request, if the protocol allows its kind."""
        if method == "notifications/message":
            await channel_of(self._context.session).notify(method, _sent(self._context, params))


def _sent(context: Context, params: JsonObject) -> JsonObject:
    """Return params in a form that the transport of the request can send."""
    return params if context.request is None else carried(params)


def asker_of(context: Context, session: Session) -> Asker:
    """Return the means by which a server may reach the caller of a request."""
    return RequestAsker(context, session) if is_modern(context) else SessionAsker(context, session)
