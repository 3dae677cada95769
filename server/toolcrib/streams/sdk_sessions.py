"""The adapter to what the MCP SDK keeps private of its HTTP sessions (mcp 2.3): a minor release may move any of it.

Knows which parts of the SDK's manager of sessions those are; never knows a caller, a limit or what is sent.
"""

import math
from collections.abc import Callable
from typing import Any

from mcp.server import Server
from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class HttpSessions(StreamableHTTPSessionManager):
    """The SDK's manager of sessions over HTTP, which gives each of them an event store of its own.

    One that all of them share would send a session what another one was sent: streams are named by the ids of requests.
    """

    def __init__(self, server: Server[Any], new_event_store: Callable[[], EventStore | None], **options: Any) -> None:
        super().__init__(server, **options)
        self._new_event_store = new_event_store

    def _admit_session(self, requestor: Any) -> Any:
        # Called under the manager's lock, and reads the attribute once.
        self.event_store = self._new_event_store()
        return super()._admit_session(requestor)

    def idle_ends(self) -> dict[str, float]:
        """Return the ids of open sessions with when each ends of idleness: never while a request of it is open."""
        scopes = ((key, transport.idle_scope) for key, transport in self._server_instances.items())
        return {key: scope.deadline if scope else math.inf for key, scope in scopes}

    async def end(self, key: str) -> None:
        """End an open session, as its client could."""
        await self._discard_session(key, self._server_instances[key])
