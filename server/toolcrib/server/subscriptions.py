"""Subscriptions to single resources, in either era: who holds which, and how they are notified."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Generic, TypeVar

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import ServerSession

from toolcrib.base.errors import BadRequest, DownstreamError, Unavailable, UnknownResource
from toolcrib.base.model import JsonObject
from toolcrib.gateway.offers import OfferUseCases, Release
from toolcrib.jsonrpc.sdk import Connection, Context, ProtocolServer, ResourceUpdated, Subscriptions, connection_of
from toolcrib.policy.sessions import Session
from toolcrib.server.sessions import Sessions

_log = logging.getLogger(__name__)
_ANNOUNCE_S = 1.0
_REST_S = 0.05
"""Pause between two rounds of notifications to one client, in seconds: a server's endless updates are not forwarded one
by one.
"""


async def tell(announce: Callable[[], Awaitable[None]]) -> None:
    """Notify one client, unless that takes too long; an error affects only this client."""
    try:
        with anyio.move_on_after(_ANNOUNCE_S):
            await announce()
    except Exception as error:  # barrier: one client that cannot be notified
        _log.warning("a client could not be told of a change", exc_info=error)


_K = TypeVar("_K")


class Teller(Generic[_K]):
    """Notifies one client of what has changed, of each thing once however often it changed meanwhile."""

    def __init__(self, send: Callable[[_K], Awaitable[None]], tasks: TaskGroup) -> None:
        self._send, self._tasks = send, tasks
        self._pending: dict[_K, None] = {}
        self._is_telling = False

    def note(self, changed: _K) -> None:
        """Schedule a notification. Never waits."""
        self._pending[changed] = None
        if not self._is_telling:
            self._is_telling = True
            self._tasks.start_soon(self._tell)

    async def _tell(self) -> None:
        while self._pending:
            told, self._pending = self._pending, {}
            for changed in told:
                await tell(partial(self._send, changed))
            await anyio.sleep(_REST_S)
        self._is_telling = False


class _Client:
    """One client with a session, and its subscriptions by URI; None while a server is being asked.

    ``sessions`` has the subscribing session by URI; ``may`` returns whether it may still read the resource.
    """

    def __init__(
        self, channel: ServerSession, may: Callable[[Session, str], Awaitable[bool]], tasks: TaskGroup
    ) -> None:
        self._channel, self._may = channel, may
        self.held: dict[str, Release | None] = {}
        self.sessions: dict[str, Session] = {}
        self.teller = Teller(self._send, tasks)

    async def _send(self, uri: str) -> None:
        # Asked again with each update, since a reload may have taken the permission away.
        if uri not in self.sessions or not await self._may(self.sessions[uri], uri):
            return
        params = types.ResourceUpdatedNotificationParams(uri=uri)
        await self._channel.send_notification(types.ResourceUpdatedNotification(params=params))


class ResourceUpdates:
    """Holds the subscriptions of clients; ``tasks`` own the sending.

    They outlive a config: a client that may no longer read a resource gets no more updates of it.
    """

    _offers: OfferUseCases
    _most: int

    def __init__(self, sessions: Sessions, tasks: TaskGroup) -> None:
        self._sessions, self._tasks = sessions, tasks
        self._clients: dict[Connection, _Client] = {}

    def use(self, offers: OfferUseCases, most: int) -> None:
        """Switch to these use cases; a client has at most ``most`` subscriptions."""
        self._offers, self._most = offers, most

    async def _may(self, session: Session, uri: str) -> bool:
        try:
            await self._offers.place(session, uri)
        except (UnknownResource, DownstreamError, Unavailable):
            return False
        return True

    def register(self, server: ProtocolServer) -> None:
        """Register the handlers of the methods of the sessionful era."""
        server.answer_verbatim("resources/subscribe", self._subscribe)
        server.answer_verbatim("resources/unsubscribe", self._unsubscribe)

    async def _subscribe(self, context: Context, params: JsonObject) -> JsonObject:
        session, uri = await self._sessions.resolve(context), params["uri"]
        client = self._client(context.session)
        if uri in client.held:
            return {}
        if len(client.held) >= self._most:
            raise BadRequest(f"A session may subscribe to {self._most} resources (limits.subscriptions).")
        with ExitStack() as undoing:
            # Reserved before the server is asked, so that requests that arrive together neither subscribe twice nor
            # pass the bound.
            client.held[uri], client.sessions[uri] = None, session
            undoing.callback(client.held.pop, uri, None)
            release = await self._offers.subscribe(session, uri, partial(client.teller.note, uri))
            undoing.pop_all()
        if client not in self._clients.values() or uri not in client.held:  # it has left or unsubscribed meanwhile
            self._tasks.start_soon(release)
        else:
            client.held[uri] = release
        return {}

    async def _unsubscribe(self, context: Context, params: JsonObject) -> JsonObject:
        release = self._client(context.session).held.pop(params["uri"], None)
        if release is not None:
            await release()
        return {}

    def _client(self, channel: ServerSession) -> _Client:
        connection = connection_of(channel)
        if connection not in self._clients:
            self._clients[connection] = _Client(channel, self._may, self._tasks)
            connection.exit_stack.callback(self._leave, connection)
        return self._clients[connection]

    def _leave(self, connection: Connection) -> None:
        for release in self._clients.pop(connection).held.values():
            if release is not None:
                self._tasks.start_soon(release)

    @asynccontextmanager
    async def held(
        self, session: Session, uris: Sequence[str], subscriptions: Subscriptions
    ) -> AsyncGenerator[list[str]]:
        """Hold the subscriptions of one stream of 2026-07-28; yield the granted URIs."""
        held: dict[str, Release] = {}

        async def send(uri: str) -> None:
            if await self._may(session, uri):
                await subscriptions.publish(ResourceUpdated(uri=uri))

        teller = Teller(send, self._tasks)

        async def subscribe(uri: str) -> None:
            try:
                held[uri] = await self._offers.subscribe(session, uri, partial(teller.note, uri))
            except (UnknownResource, DownstreamError, Unavailable) as error:
                _log.info("a subscription to %s was not granted: %s", uri, error)

        try:
            async with anyio.create_task_group() as tasks:
                # All at once: each may wait for the start of another server.
                for uri in dict.fromkeys(uris[: self._most]):
                    tasks.start_soon(subscribe, uri)
            yield [uri for uri in uris if uri in held]
        finally:
            for release in held.values():
                self._tasks.start_soon(release)
