"""The adapter to private parts of the MCP SDK's HTTP sessions (mcp 2.3): a minor release may move any of them.

Knows which parts of the SDK's manager and transport of sessions those are; never knows a caller or a limit.
"""

import math
from collections.abc import Callable
from typing import Any

from mcp.server import Server
from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class HttpSessions(StreamableHTTPSessionManager):
    """The SDK's manager of HTTP sessions, which gives each of them its own event store, and closes it.

    A shared store would send one session the events of another, because streams are named by request ids.
    """

    def __init__(self, server: Server[Any], new_event_store: Callable[[], EventStore | None], **options: Any) -> None:
        super().__init__(server, **options)
        self._new_event_store = new_event_store

    def _admit_session(self, requestor: Any) -> Any:
        # Called under the manager's lock, and reads the attribute once.
        self.event_store = self._new_event_store()
        return super()._admit_session(requestor)

    def idle_ends(self) -> dict[str, float]:
        """Return the ids of open sessions with the time of their idle timeout: never while a request is open."""
        scopes = ((key, transport.idle_scope) for key, transport in self._server_instances.items())
        return {key: scope.deadline if scope else math.inf for key, scope in scopes}

    async def end(self, key: str) -> None:
        """End an open session, as its client could."""
        await self._discard_session(key, self._server_instances[key])
