"""Recent messages to clients of HTTP sessions, so that one that lost a stream can resume it.

2025-11-25 basic/transports, "Resumability and redelivery": a call whose answer was lost need not be made again.
"""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import count

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, StreamId
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

from toolcrib.base.json_values import memory_of
from toolcrib.jsonrpc.sdk_http import SessionEventStore

RETRY_MS = 1000
"""How long a client is asked to wait before it reconnects, in milliseconds."""

_EVENT_BYTES = 768
"""Approximate size of an event besides its message: its own objects, and its entries here."""

_SHARE = 4
"""A message larger than this fraction (1/n) of the whole bound is not stored: it would evict everybody else's."""


@dataclass(frozen=True, slots=True)
class _Event:
    stream: StreamId
    message: JSONRPCMessage | None
    size: int


class Replay:
    """The newest events of all open sessions, up to ``max_bytes`` bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._ids = count(1)
        self._in_order = OrderedDict[EventId, SessionEvents]()
        self._bytes = 0

    def session(self) -> "SessionEvents | None":
        """Return the event store of a new session; None if replay is disabled."""
        return SessionEvents(self) if self._max_bytes else None

    def keep(self, session: "SessionEvents", stream: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Store an event, unless it is too large, evicting the oldest ones, and return its id."""
        event_id = str(next(self._ids))
        most = self._max_bytes // _SHARE
        size = _EVENT_BYTES + _weight(message, most)
        if size > most:
            # A lost notification costs little, but somebody waits for an answer.
            if not isinstance(message, JSONRPCResponse):
                return event_id
            message, size = _too_large(message), _EVENT_BYTES
        session.events[event_id] = _Event(stream, message, size)
        self._in_order[event_id] = session
        self._bytes += size
        while self._bytes > self._max_bytes:
            oldest, owner = self._in_order.popitem(last=False)
            self._bytes -= owner.events.pop(oldest).size
        return event_id

    def forget(self, session: "SessionEvents") -> None:
        """Discard the events of a session."""
        for event_id, event in session.events.items():
            del self._in_order[event_id]
            self._bytes -= event.size
        session.events.clear()


class SessionEvents(SessionEventStore):
    """The events of one session, unreachable for any other: the SDK names streams by the ids of requests."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.events: dict[EventId, _Event] = {}

    def keep(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Store what is sent on a stream."""
        return self._replay.keep(self, stream_id, message)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send the events of a stream after a given one, and return the stream; None if the event is gone."""
        # Ids count over all sessions; one of another's is not found here, and so resumes nothing.
        last = self.events.get(last_event_id)
        if last is None:
            return None
        after = int(last_event_id)
        for event_id, event in list(self.events.items()):
            if event.stream == last.stream and int(event_id) > after and event.message is not None:
                await send_callback(EventMessage(event.message, event_id))
        return last.stream

    def end(self) -> None:
        """Discard everything: the session has ended, and nobody can resume its streams."""
        self._replay.forget(self)


def _too_large(answer: JSONRPCResponse) -> JSONRPCError:
    """Return the replacement of an answer that is not stored: a client that resumes would otherwise wait in vain."""
    message = (
        "The connection broke before the answer arrived, and the answer is too large to be sent again "
        "(limits.replay_max_bytes). The request has run: check before you repeat it."
    )
    return JSONRPCError(jsonrpc="2.0", id=answer.id, error=ErrorData(code=INTERNAL_ERROR, message=message))


def _weight(message: JSONRPCMessage | None, most: int) -> int:
    match message:
        case None:
            return 0
        case JSONRPCResponse():
            return memory_of(message.result, most)
        case JSONRPCError():
            return memory_of(message.error.data, most) + len(message.error.message)
        case _:
            return memory_of(message.params, most)
