"""The subscriptions to resources of one server: each held once, however many want it, and again after a restart.

Knows which URIs are wanted, and whom to notify; never knows who that is, or what they do with it.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from toolcrib.base.errors import ConnectionLost, DownstreamError, StartFailed
from toolcrib.downstream.calls import Calls
from toolcrib.downstream.connection import Connection, Undelivered

_AGAIN_S = 5.0
_PATIENCE_S = 30.0

Listener = Callable[[], None]
"""Is called when the resource that it has subscribed to may have changed."""


class Subscriptions:
    """What is subscribed to at one server. ``connection`` starts it where it sleeps, ``live`` does not."""

    def __init__(
        self, calls: Calls, connection: Callable[[], Awaitable[Connection]], live: Callable[[], Connection | None]
    ) -> None:
        self._calls, self._connection, self._live = calls, connection, live
        self._listeners: dict[str, list[Listener]] = {}
        self._changing = anyio.Lock()
        self._is_reviving = False

    @property
    def are_needed(self) -> bool:
        """Whether anybody wants any: such a server is not idle."""
        return bool(self._listeners)

    async def add(self, uri: str, listener: Listener) -> None:
        """Subscribe to a resource for one more; the first has it subscribed to, which starts the server.

        Raises:
            DownstreamError, Unavailable: as for any request; nothing is subscribed to then.

        """
        async with self._changing:
            if uri not in self._listeners:
                await self._calls.deliver("resources/subscribe", lambda connection: connection.subscribe(uri))
            self._listeners.setdefault(uri, []).append(listener)

    async def remove(self, uri: str, listener: Listener) -> None:
        """Let go of a subscription for one; that of the last is ended."""
        async with self._changing:
            listeners = self._listeners[uri]
            listeners.remove(listener)
            if listeners:
                return
            del self._listeners[uri]
            if (connection := self._live()) is not None:
                with suppress(DownstreamError, ConnectionLost, Undelivered), anyio.move_on_after(_PATIENCE_S):
                    await connection.unsubscribe(uri)

    def tell(self, updated: str) -> None:
        """Tell those who have subscribed to a resource, or to one that it is part of, that it has changed."""
        for uri, listeners in self._listeners.items():
            if updated.startswith(uri):
                for listener in listeners:
                    listener()

    async def renew(self, connection: Connection) -> None:
        """Subscribe again on a new connection, and report each resource as possibly changed."""
        for uri in list(self._listeners):
            with suppress(DownstreamError, ConnectionLost, Undelivered), anyio.move_on_after(_PATIENCE_S):
                await connection.subscribe(uri)
            self.tell(uri)

    async def revive(self) -> None:
        """Start a server that has ended again, for as long as anybody wants to hear of its resources."""
        if self._is_reviving:
            return
        self._is_reviving = True
        try:
            while self._listeners:
                with suppress(StartFailed):
                    await self._connection()
                    return
                await anyio.sleep(_AGAIN_S)
        finally:
            self._is_reviving = False
