"""The channel to a server; the server's own requests and notifications are taken out before the SDK parses them.

Knows which messages are taken out; never knows what is done with them. The capabilities it declares are exact too.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.abc

from toolcrib.base.model import JsonObject
from toolcrib.jsonrpc.sdk import (
    CallOptions,
    Channel,
    DispatchContext,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    TransportContext,
)

Asked = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Answers a request of the server; raises MCPError with what it is told instead."""

Told = Callable[[str, JsonObject], Awaitable[bool]]
"""Gets a notification of the server; returns false for one that the SDK is to have."""

Params = Mapping[str, Any] | None


class Tap:
    """A channel like ``channel``. ``declared`` takes the place of what the SDK would declare that its client can do."""

    def __init__(self, channel: Channel, declared: JsonObject, asked: Asked, told: Told) -> None:
        self._channel, self._declared, self._asked, self._told = channel, declared, asked, told

    @property
    def ended(self) -> anyio.Event:
        """Set when nothing more arrives."""
        return self._channel.ended

    async def send_raw_request(self, method: str, params: Params, opts: CallOptions | None = None) -> JsonObject:
        """Send a request and return the raw result."""
        if method == "initialize":
            params = {**(params or {}), "capabilities": self._declared}
        return await self._channel.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Params, opts: CallOptions | None = None) -> None:
        """Send a notification."""
        await self._channel.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,  # noqa: ARG002 - the SDK's, which nothing is left for
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take in messages until the channel ends."""

        async def asked(_context: DispatchContext[TransportContext], method: str, params: Params) -> JsonObject:
            return await self._asked(method, {**(params or {})})

        async def told(context: DispatchContext[TransportContext], method: str, params: Params) -> None:
            if not await self._told(method, {**(params or {})}):
                await on_notify(context, method, params)

        await self._channel.run(asked, told, on_notify_intercept, task_status=task_status)
