"""An incoming request of a peer: its metadata, and the channel back to the peer while it is handled.

Knows ids, progress tokens and whether a request was cancelled; never knows how messages travel.
"""

from collections.abc import Mapping
from typing import Any

import anyio

from toolcrib.base.model import JsonObject
from toolcrib.streams.sdk import (
    CallOptions,
    DispatchContext,
    NoBackChannelError,
    Outbound,
    ProgressToken,
    RequestId,
    TransportContext,
)

_TRANSPORT = TransportContext(kind="stdio", can_send_request=True)

Params = Mapping[str, Any]


class IncomingRequest(DispatchContext[TransportContext]):
    """The context of an incoming request or notification, and the channel to its sender while it is being handled."""

    __slots__ = ("_cancel_requested", "_dispatcher", "_is_done", "_progress_token", "_request_id", "scope")

    def __init__(
        self, dispatcher: Outbound, request_id: RequestId | None, progress_token: ProgressToken | None
    ) -> None:
        self._dispatcher, self._request_id, self._progress_token = dispatcher, request_id, progress_token
        self._cancel_requested: anyio.Event | None = None
        self._is_done = False
        self.scope = anyio.CancelScope()

    @property
    def transport(self) -> TransportContext:
        """The transport, a pipe: it allows requests in both directions."""
        return _TRANSPORT

    @property
    def message_metadata(self) -> None:
        """None: a pipe attaches no metadata to messages."""
        return None

    @property
    def request_id(self) -> RequestId | None:
        """The id as sent by the peer; None for a notification."""
        return self._request_id

    @property
    def can_send_request(self) -> bool:
        """Whether the peer can be sent requests: until this request has been handled."""
        return not self._is_done

    @property
    def cancel_requested(self) -> anyio.Event:
        """Set when the peer cancels the request."""
        if self._cancel_requested is None:
            self._cancel_requested = anyio.Event()
        return self._cancel_requested

    @property
    def is_cancelled(self) -> bool:
        """Whether the peer has cancelled the request: then it gets no answer."""
        return self._cancel_requested is not None and self._cancel_requested.is_set()

    def cancel(self) -> None:
        """Cancel the handler, because the peer has cancelled the request."""
        self.cancel_requested.set()
        self.scope.cancel()

    def close(self) -> None:
        """Close the channel: the request has been handled."""
        self._is_done = True

    async def send_raw_request(self, method: str, params: Params | None, opts: CallOptions | None = None) -> JsonObject:
        """Send the peer a request on behalf of this request.

        Raises:
            MCPError: the peer's own error, or the channel is closed.

        """
        if self._is_done:
            raise NoBackChannelError(method)
        return await self._dispatcher.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Params | None, opts: CallOptions | None = None) -> None:
        """Send the peer a notification on behalf of this request; dropped once it has been handled."""
        if not self._is_done:
            await self._dispatcher.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress of this request to the peer, if it asked for it."""
        if self._progress_token is None:
            return
        facts = {"progressToken": self._progress_token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {key: fact for key, fact in facts.items() if fact is not None})
