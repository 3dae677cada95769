"""The caller of a request, as the server that works for it may reach it: on this request's channel, or its session's.

Knows the channels of both eras; never knows which server asks, nor whether it may.
"""

from dataclasses import dataclass

import anyio
import mcp_types as types
from mcp import MCPError

from toolcrib.access.sessions import Session
from toolcrib.downstream.askers import Asker, is_at_least, is_level
from toolcrib.model import JsonObject
from toolcrib.streams.half_characters import carried
from toolcrib.streams.sdk import CallOptions, Context, Outbound, channel_of, connection_of, envelope_of
from toolcrib.wire.sessions import is_modern

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@dataclass(frozen=True, slots=True)
class _Caller:
    """Whose request it is."""

    _context: Context
    _session: Session

    @property
    def session(self) -> str:
        """The label of its session; callers without one share that of their principal and client."""
        return self._session.label

    @property
    def principal(self) -> str:
        """Who is asking."""
        return self._session.caller.principal

    @property
    def capabilities(self) -> JsonObject:
        """What its client has declared, at the handshake or in the request's envelope."""
        return self._session.capabilities


@dataclass(frozen=True, slots=True)
class SessionAsker(_Caller):
    """A caller with a session, which can be asked while its request is under way, and told things after it."""

    lasting = is_live = True

    @property
    def log_level(self) -> str | None:
        """What it has set by ``logging/setLevel``."""
        return self._session.log_level

    def wants_log(self, level: str) -> bool:
        """Return whether it is told messages of this level: all, as long as it has set none."""
        return self.log_level is None or is_at_least(level, self.log_level)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Send it a request and return the raw answer; leaving early cancels the request.

        Raises:
            MCPError: its own error, or it is gone.

        """
        try:
            return await self._channel().send_raw_request(method, _sent(self._context, params) or None, CallOptions())
        except _GONE:
            raise MCPError(types.CONNECTION_CLOSED, "The client is gone.") from None
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, f"Nothing was sent: {error}") from None

    async def tell(self, method: str, params: JsonObject) -> None:
        """Send it a notification; one that is gone misses nothing."""
        await self._channel().notify(method, _sent(self._context, params))

    def _channel(self) -> Outbound:
        """Return the channel of the request as long as there is one: over HTTP a client need not hold the other."""
        own = channel_of(self._context.session)
        return own if own.can_send_request else connection_of(self._context.session).outbound


@dataclass(frozen=True, slots=True)
class RequestAsker(_Caller):
    """A caller of 2026-07-28, which is asked by the result of its request, and told things only before that."""

    lasting = is_live = False

    @property
    def log_level(self) -> str | None:
        """What the request's envelope asks for."""
        level = envelope_of(self._context.params).get(types.LOG_LEVEL_META_KEY)
        return level if is_level(level) else None

    def wants_log(self, level: str) -> bool:
        """Return whether it is told messages of this level: none, unless it asked for them."""
        least = self.log_level
        return least is not None and is_at_least(level, least)

    async def ask(self, method: str, _params: JsonObject) -> JsonObject:
        """Refuse: the protocol has no requests of servers."""
        raise MCPError(types.METHOD_NOT_FOUND, "The client cannot be asked at once.", method)

    async def tell(self, method: str, params: JsonObject) -> None:
        """Send it a notification with its answer, of the kinds that the protocol has."""
        if method == "notifications/message":
            await channel_of(self._context.session).notify(method, _sent(self._context, params))


def _sent(context: Context, params: JsonObject) -> JsonObject:
    """Return params as they can be sent over the transport that a request came by."""
    return params if context.request is None else carried(params)


def asker_of(context: Context, session: Session) -> Asker:
    """Return how a server may reach the caller of a request."""
    return RequestAsker(context, session) if is_modern(context) else SessionAsker(context, session)
