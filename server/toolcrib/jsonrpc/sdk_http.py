"""The adapter to private parts of the MCP SDK's HTTP sessions (mcp 2.3): a minor release may move any of them."""

import asyncio
import logging
import math
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import anyio
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.server.streamable_http import (
    CONTENT_TYPE_JSON,
    CONTENT_TYPE_SSE,
    GET_STREAM_KEY,
    MCP_SESSION_ID_HEADER,
    REQUEST_STREAM_BUFFER_SIZE,
    EventId,
    EventMessage,
    EventStore,
    SSEEvent,
    StreamableHTTPServerTransport,
    StreamId,
    check_accept_headers,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from mcp_types.version import is_version_at_least
from sse_starlette import EventSourceResponse
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from toolcrib.jsonrpc.rate_limit import RateBounds, RateLimiter
from toolcrib.jsonrpc.sdk import INVALID_ID

AT_ONCE_S: Final = 0.5
"""An answer available within this time, in seconds, is sent without a stream. If it is lost in transit, it cannot be
resumed.
"""

_RESUMABLE_FROM: Final = "2025-11-25"
"""The first revision in which a client can resume a stream."""

_AT_ONCE_CHARACTERS: Final = 64 * 1024
"""A larger answer is streamed, because its transmission may be interrupted."""


_log = logging.getLogger(__name__)


class SessionEventStore(EventStore):
    """The event store of one session."""

    @abstractmethod
    def keep(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Store what is sent on a stream."""

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Do the same, for the SDK."""
        return self.keep(stream_id, message)

    @abstractmethod
    def end(self) -> None:
        """Discard everything: the session has ended. Idempotent."""


class HttpSessions(StreamableHTTPSessionManager):
    """The SDK's manager of HTTP sessions, which gives each of them its own event store, and closes it.

    A shared store would send one session the events of another, because streams are named by request ids. ``pace``
    bounds what clients send without a request.
    """

    def __init__(
        self,
        server: Server[Any],
        new_event_store: Callable[[], SessionEventStore | None],
        pace: RateBounds,
        **options: Any,
    ) -> None:
        super().__init__(server, **options)
        self._new_event_store, self._pace = new_event_store, pace

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        admitted = super()._admit_session(requestor)
        if admitted is None or admitted.mcp_session_id is None:
            return admitted
        session = HttpSession(
            self._pace,
            admitted.mcp_session_id,
            event_store=self._new_event_store(),
            security_settings=self.security_settings,
            retry_interval=self.retry_interval,
            idle_timeout=self.session_idle_timeout,
        )
        self._server_instances[admitted.mcp_session_id] = session
        return session

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        # However a session ends, the manager calls this, usually more than once.
        await super()._discard_session(session_id, transport)
        if isinstance(transport, HttpSession):
            transport.forget()

    def idle_ends(self) -> dict[str, float]:
        """Return the ids of open sessions with the time of their idle timeout: never while a request is open."""
        scopes = ((key, transport.idle_scope) for key, transport in self._server_instances.items())
        return {key: scope.deadline if scope else math.inf for key, scope in scopes}

    async def end(self, key: str) -> None:
        """End an open session, as its client could."""
        await self._discard_session(key, self._server_instances[key])


class HttpSession(StreamableHTTPServerTransport):
    """The SDK's transport of one session, which answers with a stream only where streaming is of use.

    That is if an answer takes longer than a moment, if another message precedes it, or if it is large: part of these
    may be lost, and the client can resume them. Any other answer is one JSON object (2025-11-25 basic/transports leaves
    that to the server): it needs no tasks here, and the client can reuse its connection. The SDK's client closes the
    connection of a stream before its end.

    A client that sends messages without a request faster than ``pace`` is slowed; a flood ends its session. These are
    notifications and responses, which are not distinguished: unlike over stdio, expected responses and progress count
    like unsolicited messages. They are accepted with a delay, so that a client that waits for that sends no faster, and
    one that does not has as many pending as it has connections. Those still waiting when their session ends are not
    accepted: 404.
    """

    def __init__(self, pace: RateBounds, *session: Any, **options: Any) -> None:
        super().__init__(*session, **options)
        self._bounds, self._pace = pace, RateLimiter(pace, anyio.current_time)

    @property
    def _sent(self) -> SessionEventStore | None:
        """What was sent and is kept for a client that loses a stream; None if nothing is."""
        return self._event_store if isinstance(self._event_store, SessionEventStore) else None

    def forget(self) -> None:
        """Discard what was sent: the session has ended."""
        if self._sent:
            self._sent.end()

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Any]:
        """Yield what the SDK's dispatcher reads from and writes to.

        The SDK has a queue before the dispatcher, and a queue, a task and another queue after it: each message would
        wait for the event loop in every one of them (ADR 54). Here one queue precedes it, and what it writes goes to
        the waiting response directly.
        """
        if self._idle_timeout is not None:
            self.idle_scope = anyio.CancelScope()
        # Both have the methods of the SDK's memory streams that it uses.
        incoming: Any = _Incoming()
        outgoing: Any = _Outgoing(self._send_to_client)
        self._read_stream_writer = self._read_stream = incoming
        self._write_stream = self._write_stream_reader = outgoing
        try:
            yield incoming, outgoing
        finally:
            for stream in list(self._request_streams):
                await self._clean_up_memory_streams(stream)
            await incoming.aclose()
            await outgoing.aclose()

    async def _send_to_client(self, sent: SessionMessage) -> None:
        """Send a message to the client: what concerns a request with its answer, anything else on the session's stream.

        The event store gets each message of a stream, even if the client is not reading it: it may resume later.
        """
        stream = _stream_of(sent)
        sender: Any = self._request_streams.get(stream, (None,))[0]
        try:
            if isinstance(sender, _PendingAnswer):
                await sender.send(sent.message)
            else:
                event = EventMessage(sent.message, self._store(stream, sent.message))
                if sender is not None:
                    await sender.send(event)
        # Its reader has gone; what was stored can be fetched by resuming.
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._request_streams.pop(stream, None)

    def close_sse_stream(self, request_id: RequestId) -> None:
        """End the stream of a request early; what follows is stored, and the client resumes from the first event."""
        pending = self._request_streams.get(request_id, (None,))[0]
        if isinstance(pending, _PendingAnswer):
            pending.open_stream()
        super().close_sse_stream(request_id)

    def _store(self, stream: str, message: JSONRPCMessage | None) -> EventId | None:
        return self._sent.keep(stream, message) if self._sent else None

    async def _handle_post_request(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        message = await self._parse_message(request)
        if message is None:
            await super()._handle_post_request(scope, request, receive, send)
        elif isinstance(message, Response):
            await message(scope, receive, send)
        elif isinstance(message, JSONRPCRequest):
            await self._answer_request(message, request, send)
        else:
            # Dispatched only after the pause: the rate limit holds for what reaches the handlers too.
            await (await self._acknowledge())(scope, receive, send)
            await self._dispatch(SessionMessage(message, self._message_metadata(request)))

    async def _answer_request(self, message: JSONRPCRequest, request: Request, send: Send) -> None:
        """Dispatch a request, and respond once its answer or the first message before it is known."""
        stream = str(message.id)
        streams: dict[RequestId, Any] = self._request_streams
        if earlier := streams.get(stream):
            # The client has reused the id of an open request: only the later one can get the answer.
            earlier[0].close()
        revision = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        retry_ms = self._retry_interval if is_version_at_least(revision, _RESUMABLE_FROM) else None
        with _PendingAnswer(partial(self._store, stream), retry_ms) as pending:
            ends = streams[stream] = pending, pending
            try:
                carried = self._create_session_message(message, request, stream, revision)
                response = await self._response_to(pending) if await self._dispatch(carried) else self._session_gone()
                await response(request.scope, request.receive, send)
            finally:
                # A later request with the same id may have taken its place.
                if streams.get(stream) is ends:
                    del streams[stream]

    async def _parse_message(self, request: Request) -> JSONRPCMessage | Response | None:
        """Return the client's message, or the response to an invalid one.

        None if the SDK has to reject or stream it, or perform the handshake.
        """
        is_in_order = all(check_accept_headers(request)) and self._check_content_type(request)
        if not is_in_order or self._get_session_id(request) != self.mcp_session_id:
            return None
        try:
            decoded = pydantic_core.from_json(await request.body())
            message = jsonrpc_message_adapter.validate_python(decoded, by_name=False)
        except (ValueError, ClientDisconnect):
            return None
        if isinstance(message, JSONRPCNotification) and "id" in decoded:
            # Taken for a notification, it would be acknowledged, and its sender would wait for an answer without end.
            return self._create_error_response(INVALID_ID, HTTPStatus.BAD_REQUEST)
        if isinstance(message, JSONRPCRequest) and (message.method == "initialize" or not _prefers_json(request)):
            return None
        return message

    async def _dispatch(self, message: SessionMessage) -> bool:
        """Pass a message to the dispatcher; return false if the session has ended."""
        assert self._read_stream_writer is not None  # a session is connected before it gets requests
        try:
            await self._read_stream_writer.send(message)
        except anyio.ClosedResourceError:
            return False
        return True

    def _session_gone(self) -> Response:
        return self._create_error_response("Session not found", HTTPStatus.NOT_FOUND)

    async def _acknowledge(self) -> Response:
        """Return the response to a message that gets no answer, after a pause if it came too early."""
        if pause := self._pace.pause():
            await anyio.sleep(pause)
        if self._pace.is_flood and not self.is_terminated:
            _log.warning("a session over HTTP is ended, because its client %s", self._bounds.fault)
            await self.terminate()
        return self._session_gone() if self.is_terminated else self._create_json_response(None, HTTPStatus.ACCEPTED)

    async def _response_to(self, pending: "_PendingAnswer") -> Response:
        """Return the response once its form is known: JSON or a stream."""
        answer = await pending.at_once
        if answer is not None:
            return Response(answer, headers=self._headers(CONTENT_TYPE_JSON))
        headers = {**self._headers(CONTENT_TYPE_SSE), "Cache-Control": "no-cache, no-transform"}
        return EventSourceResponse(pending.open_stream()[1], headers=headers)

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"Content-Type": content_type, MCP_SESSION_ID_HEADER: self.mcp_session_id or ""}


class _PendingAnswer:
    """The answer to one request: one JSON object, or a stream with the messages that precede it.

    ``at_once`` becomes the answer as JSON text, or None once a stream is needed: after ``AT_ONCE_S`` seconds, for a
    message before the answer, and for an answer of more than ``_AT_ONCE_CHARACTERS``. The stream buffers
    ``REQUEST_STREAM_BUFFER_SIZE`` events of the SDK's; then whoever sends waits for the client to read. ``keep`` stores
    a message of the stream and returns the event id from which a client resumes. A client of a revision without
    resumption has no ``retry_ms``. The SDK closes this object like both ends of its own streams.
    """

    def __init__(self, keep: Callable[[JSONRPCMessage | None], EventId | None], retry_ms: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.at_once: asyncio.Future[str | None] = loop.create_future()
        self._timer = loop.call_later(AT_ONCE_S, self._need_stream)
        self._keep, self._retry_ms = keep, retry_ms
        self._events: tuple[MemoryObjectSendStream[SSEEvent], MemoryObjectReceiveStream[SSEEvent]] | None = None
        self._is_closed = False

    async def send(self, message: JSONRPCMessage) -> None:
        """Send a message to the client, and end the stream after the answer."""
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        is_answer = isinstance(message, JSONRPCResponse | JSONRPCError)
        if is_answer and not self.at_once.done() and len(text) <= _AT_ONCE_CHARACTERS:
            self.at_once.set_result(text)
            return
        sender, _ = self.open_stream()
        event: SSEEvent = {"event": "message", "data": text}
        if event_id := self._keep(message):
            event["id"] = event_id
        await sender.send(event)
        if is_answer:
            sender.close()

    def open_stream(self) -> tuple[MemoryObjectSendStream[SSEEvent], MemoryObjectReceiveStream[SSEEvent]]:
        """Return both ends of the stream, which the first call opens.

        It begins with the event from which all others can be resumed.
        """
        self._need_stream()
        if self._events is None:
            self._events = anyio.create_memory_object_stream[SSEEvent](REQUEST_STREAM_BUFFER_SIZE)
            if self._is_closed:
                self._events[0].close()
            elif self._retry_ms is not None and (event_id := self._keep(None)):
                self._events[0].send_nowait({"id": event_id, "data": "", "retry": self._retry_ms})
        return self._events

    def close(self) -> None:
        """Send nothing more; idempotent."""
        self._is_closed = True
        self._need_stream()
        if self._events:
            self._events[0].close()

    async def aclose(self) -> None:
        """Close it, under the name that the SDK uses."""
        self.close()

    def _need_stream(self) -> None:
        if not self.at_once.done():
            self.at_once.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self.close()
        if self._events:
            self._events[1].close()


class _End:
    """One end of a session, with the context manager that the SDK's dispatcher expects of a stream."""

    is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _Incoming(_End):
    """The client's messages, in order, each with the context in which it was sent, ``last_context`` after the last one.

    The queue needs no bound: the dispatcher takes messages out without waiting for their handlers. A request keeps its
    connection open until it is answered, and the session's rate limit bounds messages without a request.
    """

    def __init__(self) -> None:
        self._messages = asyncio.Queue[tuple[Context, SessionMessage | Exception] | None]()
        self.last_context: Context | None = None

    async def send(self, message: SessionMessage | Exception) -> None:
        """Raise ClosedResourceError if the session has ended."""
        if self.is_closed:
            raise anyio.ClosedResourceError
        # With its context, which holds the token of its request: tasks made elsewhere would run as another caller.
        self._messages.put_nowait((copy_context(), message))

    async def aclose(self) -> None:
        await super().aclose()
        self._messages.put_nowait(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        arrived = await self._messages.get()
        if arrived is None:
            raise StopAsyncIteration
        self.last_context, message = arrived
        return message


class _Outgoing(_End):
    """The dispatcher's messages, each handed to ``deliver`` before the next one."""

    def __init__(self, deliver: Callable[[SessionMessage], Awaitable[None]]) -> None:
        self._deliver = deliver

    async def send(self, message: SessionMessage) -> None:
        """Raise ClosedResourceError if the session has ended."""
        if self.is_closed:
            raise anyio.ClosedResourceError
        await self._deliver(message)


def _stream_of(sent: SessionMessage) -> str:
    """Return the stream on which a message belongs: that of the request it answers or concerns, or the session's."""
    message, key = sent.message, None
    if isinstance(message, JSONRPCResponse | JSONRPCError):
        key = message.id
    if key is None and isinstance(sent.metadata, ServerMessageMetadata):
        key = sent.metadata.related_request_id
    return GET_STREAM_KEY if key is None else str(key)


def _prefers_json(request: Request) -> bool:
    """Return whether a client names JSON first of what it accepts; others get a stream immediately."""
    accepted = request.headers.get("accept", "").lower()
    return 0 <= accepted.find(CONTENT_TYPE_JSON) < accepted.find(CONTENT_TYPE_SSE)
