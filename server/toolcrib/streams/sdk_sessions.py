"""The adapter to private parts of the MCP SDK's HTTP sessions (mcp 2.3): a minor release may move any of them.

Knows which parts of the SDK's manager and transport of sessions those are; never knows a caller or a limit.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from mcp.server import Server
from mcp.server.streamable_http import EventId, EventStore, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


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
    """The SDK's transport of one session, which discards what was sent once the session has ended."""

    @property
    def _sent(self) -> SessionEventStore | None:
        """What was sent and is kept for a client that loses a stream; None if nothing is."""
        return self._event_store if isinstance(self._event_store, SessionEventStore) else None

    def forget(self) -> None:
        """Discard what was sent: the session has ended."""
        if self._sent:
            self._sent.end()
