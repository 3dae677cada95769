"""Serves a gateway over MCP: what transports run, whatever the config is at the moment."""

from collections.abc import AsyncGenerator, Callable, Collection, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from toolcrib.base.model import Caller
from toolcrib.config.settings import Settings
from toolcrib.gateway.composition import Gateway, Generation, open_gateway
from toolcrib.gateway.instances import Snapshot
from toolcrib.gateway.runtime import Runtime
from toolcrib.jsonrpc.sdk import CallNext, Context, HandlerResult, ServerMiddleware
from toolcrib.policy.client_profiles import ClientProfiles
from toolcrib.server.early import EarlyExchange
from toolcrib.server.handshake_cache import open_handshake_cache
from toolcrib.server.protocol import CurrentServer, RequestHandler
from toolcrib.server.sessions import Sessions, open_resumable
from toolcrib.server.subscriptions import ResourceUpdates

PROGRAM = "program"
"""The transport of a gateway that a program opens for itself."""

_CLIENT, _ISSUER = "toolcrib", "toolcrib:tokens"
_DRAIN_POLL_S = 0.05


class Serving:
    """A gateway served to clients of one transport. Make one with :func:`open_server`.

    ``handler`` answers requests from the generation in use; a request ends on the handler on which it began. Sessions
    and subscriptions outlive handlers, as connections do. ``on_change`` is called with each config that a reload puts
    in use.
    """

    handler: RequestHandler

    def __init__(self, gateway: Gateway, transport: str, profiles: ClientProfiles) -> None:
        self.gateway, self._transport, self._tasks = gateway, transport, gateway.tasks
        self.sessions = Sessions(gateway, profiles)
        self._updates = ResourceUpdates(self.sessions, gateway.tasks)
        self.on_change: Callable[[Settings], None] = lambda _settings: None
        self.server = self.server_behind()

    async def begin(self, profiles: ClientProfiles) -> None:
        """Serve the first generation, and from then on each one that a reload puts in use."""
        self.handler = await self._tasks.start(self._own, self.gateway.generation, profiles)
        self._updates.use(self.gateway.offers, self.gateway.settings.toolcrib.limits.subscriptions)
        self.gateway.prepare_reload = self._prepare

    def server_behind(self, *front: ServerMiddleware[Any]) -> Server[Any]:
        """Return the server for the SDK to run, with the transport's middleware in front."""
        return CurrentServer(self, front)

    def server_for(self, caller: Caller, *front: ServerMiddleware[Any]) -> Server[Any]:
        """Return the server for the SDK to run whose requests are all made on account of one caller; as above."""
        user = AuthenticatedUser(access_of(caller))

        async def on_account(ctx: Context, call_next: CallNext) -> HandlerResult:
            before = auth_context_var.set(user)
            try:
                return await call_next(ctx)
            finally:
                auth_context_var.reset(before)

        return self.server_behind(*front, on_account)

    def is_ready(self) -> bool:
        """Return whether answers no longer wait for servers that are being listed for the first time."""
        return self.gateway.tools.is_ready

    def snapshot(self) -> Snapshot:
        """Return what is going on, for `toolcrib top`."""
        return self.gateway.snapshot(self.sessions.seen())

    @asynccontextmanager
    async def handshakes_cached(self, early: EarlyExchange) -> AsyncGenerator[None]:
        """Store for the next start what the client of stdio is answered first, and verify what was replayed to it."""
        handler = self.handler
        opening = open_handshake_cache(
            self.gateway.generation,
            handler.instructions,
            handler.listing,
            early,
            self.gateway.whole_lists.decide,
            self._take_back_tools,
        )
        async with opening as handler.handshake_cache:
            yield

    def _take_back_tools(self) -> None:
        self.handler.changes.take_back_tools()

    async def _prepare(self, generation: Generation) -> AbstractContextManager[None]:
        """Open what serves another generation, before anything has changed."""
        # In a thread, because the table of known clients is a file.
        profiles = await anyio.to_thread.run_sync(ClientProfiles, generation.settings, self._transport)
        handler = await self._tasks.start(self._own, generation, profiles)
        return self._switching(generation, profiles, handler)

    @contextmanager
    def _switching(self, generation: Generation, profiles: ClientProfiles, handler: RequestHandler) -> Generator[None]:
        """Serve from another handler after the block, and notify the clients whose lists differ."""
        # The lists of before, to be compared with those after the switch.
        settings, before, lists = generation.settings, self.handler, self.handler.lists()
        yield
        self.sessions.change(settings, profiles)
        self._updates.use(generation.offers, settings.toolcrib.limits.subscriptions)
        self.handler = handler
        handler.take_over(before, lists)
        self.on_change(settings)

    async def _own(
        self, generation: Generation, profiles: ClientProfiles, *, task_status: TaskStatus[RequestHandler]
    ) -> None:
        """Own what serves one generation, until another one has replaced it and its last request has ended."""
        limits = generation.settings.toolcrib.limits
        # A request that began before a reload reads the files of its generation until it ends.
        with generation.held():
            async with open_resumable(limits, self.gateway.runtime.new_handle) as resumable:
                handler = RequestHandler(
                    generation,
                    sessions=self.sessions,
                    profiles=profiles,
                    updates=self._updates,
                    resumable=resumable,
                    tasks=self._tasks,
                    changed=self.gateway.changed,
                )
                task_status.started(handler)
                await generation.retired.wait()
                # No call takes longer: what is still counted then hangs, and must not keep files open.
                with anyio.move_on_after(limits.call_max_s):
                    while handler.under_way:
                        await anyio.sleep(_DRAIN_POLL_S)


def access_of(caller: Caller, token: str = "") -> AccessToken:
    """Return the caller in the form in which the SDK hands on whoever has authenticated."""
    facts = {"tenant_id": caller.tenant_id, "project_id": caller.project_id, "profile": caller.profile}
    claims = {"iss": _ISSUER, **{key: value for key, value in facts.items() if value is not None}}
    return AccessToken(token=token, client_id=_CLIENT, scopes=[], subject=caller.principal, claims=claims)


@asynccontextmanager
async def open_server(
    settings: Settings, transport: str, runtime: Runtime, list_only: Collection[str] | None = None
) -> AsyncGenerator[Serving]:
    """Serve a config over ``stdio`` or ``http``, until a reload replaces it. ``list_only``: see :func:`open_gateway`.

    A ``program`` makes requests itself, on account of whomever it names, and its clients are like those of ``http``.

    Raises:
        StoreError: a database file can neither be read nor replaced.

    """
    profiles = await anyio.to_thread.run_sync(ClientProfiles, settings, transport)
    opening = open_gateway(
        settings,
        runtime,
        one_client=profiles.has_one_client,
        names_callers=transport == PROGRAM,
        list_only=list_only,
    )
    async with opening as gateway:
        serving = Serving(gateway, transport, profiles)
        await serving.begin(profiles)
        yield serving
