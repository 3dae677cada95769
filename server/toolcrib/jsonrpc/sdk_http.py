"""The adapter to private parts of the MCP SDK's HTTP sessions (mcp 2.3): a minor release may move any of them."""

import math
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import anyio
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server import Server
from mcp.server.streamable_http import (
    CONTENT_TYPE_JSON,
    CONTENT_TYPE_SSE,
    MCP_SESSION_ID_HEADER,
    REQUEST_STREAM_BUFFER_SIZE,
    EventId,
    EventMessage,
    EventStore,
    SSEEvent,
    StreamableHTTPServerTransport,
    check_accept_headers,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import SessionMessage
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from sse_starlette import EventSourceResponse
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

AT_ONCE_S: Final = 0.5
"""An answer available within this time, in seconds, is sent without a stream. If it is lost in transit, it cannot be
resumed.
"""

_AT_ONCE_CHARACTERS: Final = 64 * 1024
"""A larger answer is streamed, because its transmission may be interrupted."""

Events = MemoryObjectReceiveStream[EventMessage]


@dataclass(frozen=True, slots=True)
class _Told:
    """A message to the client of a request, as an event; nothing follows an answer."""

    event: SSEEvent
    is_answer: bool


class SessionEventStore(EventStore):
    """The event store of one session."""

    @abstractmethod
    def drop(self, event_ids: Iterable[EventId]) -> None:
        """Discard events that nobody can resume from, whether they are stored or not."""

    @abstractmethod
    def end(self) -> None:
        """Discard everything: the session has ended. Idempotent."""


class HttpSessions(StreamableHTTPSessionManager):
    """The SDK's manager of HTTP sessions, which gives each of them its own event store, and closes it.

    A shared store would send one session the events of another, because streams are named by request ids.
    """

    def __init__(
        self, server: Server[Any], new_event_store: Callable[[], SessionEventStore | None], **options: Any
    ) -> None:
        super().__init__(server, **options)
        self._new_event_store = new_event_store

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        admitted = super()._admit_session(requestor)
        if admitted is None or admitted.mcp_session_id is None:
            return admitted
        session = HttpSession(
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
    """

    @property
    def _sent(self) -> SessionEventStore | None:
        """What was sent and is kept for a client that loses a stream; None if nothing is."""
        return self._event_store if isinstance(self._event_store, SessionEventStore) else None

    def forget(self) -> None:
        """Discard what was sent: the session has ended."""
        if self._sent:
            self._sent.end()

    async def _handle_post_request(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        asked = await self._asked(request)
        if asked is None:
            await super()._handle_post_request(scope, request, receive, send)
            return
        revision = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        stream = str(asked.id)
        primed = await self._mint_priming_event(stream, revision)  # must be older than all events after it
        queue = anyio.create_memory_object_stream[EventMessage](REQUEST_STREAM_BUFFER_SIZE)
        if earlier := self._request_streams.get(stream):  # of a request with the same id, which gets no answer now
            earlier[0].close()
        self._request_streams[stream] = queue
        sender, events = queue
        with sender, events:
            try:
                answer = await self._begun(self._create_session_message(asked, request, stream, revision))
                await (answer or await self._answered(primed, events))(scope, receive, send)
            finally:
                if self._request_streams.get(stream) is queue:
                    del self._request_streams[stream]

    async def _asked(self, request: Request) -> JSONRPCRequest | None:
        """Return the request; None if the SDK has to reject, accept or stream it, or perform the handshake."""
        is_in_order = _prefers_json(request) and self._check_content_type(request)
        if not is_in_order or self._get_session_id(request) != self.mcp_session_id:
            return None
        try:
            decoded = pydantic_core.from_json(await request.body())
            message = jsonrpc_message_adapter.validate_python(decoded, by_name=False)
        except (ValueError, ClientDisconnect):
            return None
        return message if isinstance(message, JSONRPCRequest) and message.method != "initialize" else None

    async def _begun(self, message: SessionMessage) -> Response | None:
        """Dispatch a request; return an error response if the session is ending."""
        assert self._read_stream_writer is not None  # a session is connected before it gets requests
        try:
            await self._read_stream_writer.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return self._create_error_response("Not Found: Session has been terminated", HTTPStatus.NOT_FOUND)
        return None

    async def _answered(self, primed: SSEEvent | None, events: Events) -> Response:
        """Return the response once its form is known: JSON or a stream."""
        first: _Told | None = None
        with anyio.move_on_after(AT_ONCE_S):
            first = await self._next_of(events)
        if first and first.is_answer and len(first.event["data"]) <= _AT_ONCE_CHARACTERS:
            if self._sent:
                self._sent.drop(event["id"] for event in (primed, first.event) if event and "id" in event)
            return Response(first.event["data"], headers=self._headers(CONTENT_TYPE_JSON))
        headers = {**self._headers(CONTENT_TYPE_SSE), "Cache-Control": "no-cache, no-transform"}
        return EventSourceResponse(self._streamed(primed, first, events), headers=headers)

    async def _streamed(self, primed: SSEEvent | None, first: _Told | None, events: Events) -> AsyncGenerator[SSEEvent]:
        """Yield the priming event, which allows resumption, and all messages up to the answer."""
        if primed:
            yield primed
        told = first or await self._next_of(events)
        while told:
            yield told.event
            told = None if told.is_answer else await self._next_of(events)

    async def _next_of(self, events: Events) -> _Told | None:
        """Return the next message; None if the session has ended or has closed the stream."""
        try:
            told = await events.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None
        return _Told(self._create_event_data(told), isinstance(told.message, JSONRPCResponse | JSONRPCError))

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"Content-Type": content_type, MCP_SESSION_ID_HEADER: self.mcp_session_id or ""}


def _prefers_json(request: Request) -> bool:
    """Return whether a client accepts both, as it must, with JSON first; others get a stream immediately."""
    accepted = request.headers.get("accept", "").lower()
    is_first = 0 <= accepted.find(CONTENT_TYPE_JSON) < accepted.find(CONTENT_TYPE_SSE)
    return is_first and all(check_accept_headers(request))
