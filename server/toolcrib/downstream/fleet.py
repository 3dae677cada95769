"""All downstreams together: which are indexed first, how many start at once, and which stay running."""

from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from toolcrib.auth.logins import Logins
from toolcrib.base.cache import Recent
from toolcrib.base.errors import StartFailed, Unavailable
from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.downstream.connection import Era, Greeting, LiveTools
from toolcrib.downstream.isolation import SHARED, Scope
from toolcrib.downstream.lifecycle import Downstream, DownstreamDependencies
from toolcrib.downstream.offers import OfferSink
from toolcrib.downstream.states import DOWN, RawList, ServersNow, Spoken, State, Status
from toolcrib.policy.sessions import Session

if TYPE_CHECKING:
    from toolcrib.downstream.conditional_tools import ConditionalTools


class StartQueue:
    """Lets ``slots`` starts go on at a time, in the order in which they were asked for."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[tuple[str, anyio.Event]] = []

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None]:
        """Wait for a slot, and keep it until left."""
        turn = anyio.Event()
        self._waiting.append((key, turn))
        self._hand_out()
        try:
            await turn.wait()
            yield
        finally:
            if turn.is_set():
                self._free += 1
            else:
                self._waiting.remove((key, turn))
            self._hand_out()

    def prefer(self, keys: Collection[str]) -> None:
        """Let these go before the others that are waiting."""
        self._waiting.sort(key=lambda waiting: waiting[0] not in keys)

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            _, turn = self._waiting.pop(0)
            self._free -= 1
            turn.set()


_KEEP_UP_PAUSE_S = 1.0
_SLOT_S = 2.0
"""How long a start occupies a slot: one that hangs, or downloads, continues without it."""

_SILENT_S = 5.0
"""Time after which a first start counts as silent: later starts do not wait for that server until it answers."""

_FIRST_RETRIES_S = (15.0, 30.0, 60.0, 120.0, 240.0)
"""Pauses before an automatic retry of a server that was never listed: a download may have failed."""


_RELISTED = 256
"""Connections of some callers of which it is known by which list the server was listed for all again."""


def _load_conditional_tools() -> "type[ConditionalTools]":
    from toolcrib.downstream.conditional_tools import ConditionalTools  # noqa: PLC0415

    return ConditionalTools


@dataclass(frozen=True, slots=True)
class StartPlan:
    """The initial state of a fleet. Servers in ``unlisted`` were never listed, of ``incomplete`` ones only the tools.

    Those that are ``silent`` gave no answer at an earlier start. Those that are ``closed`` are of use to nobody, and
    are never started by themselves.
    """

    unlisted: Collection[str] = ()
    incomplete: Collection[str] = ()
    silent: Collection[str] = ()
    closed: Collection[str] = ()


class Fleet:
    """The configured servers by key and, if isolated, by scope. Make one with :func:`open_fleet`.

    A server is listed, and kept up, by the connection that is everybody's; ``fleet[key]`` is that one.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerSettings],
        eras: Mapping[str, Era],
        dependencies: DownstreamDependencies,
        tasks: TaskGroup,
    ) -> None:
        self._dependencies, self._tasks = dependencies, tasks
        self._shared_dependencies = self._for_shared(dependencies)
        self._scoped_dependencies = self._for_scoped(dependencies)
        self._conditional: ConditionalTools | None = None
        self._servers = {
            key: Downstream(settings, eras.get(key), self._shared_dependencies, tasks)
            for key, settings in servers.items()
        }
        self._kept_up: dict[str, Downstream] = {}
        self._scoped: dict[str, dict[Scope, Downstream]] = {key: {} for key in servers}
        self._relisted = Recent[tuple[str, Scope], LiveTools](_RELISTED)
        self._first_listing: dict[str, anyio.Event] = {}
        self._listing: set[str] = set()
        self._silent = self._closed = frozenset[str]()
        self._begun: list[str] = []
        self._starts = StartQueue(dependencies.limits.parallel_starts)
        self._outdated = anyio.Semaphore(dependencies.limits.parallel_starts)

    def change(
        self, servers: Mapping[str, ServerSettings], eras: Mapping[str, Era], dependencies: DownstreamDependencies
    ) -> None:
        """Switch to these servers. One with an unchanged entry keeps its process.

        Another one is left as soon as the calls under way have ended. :meth:`begin` is to follow.
        """
        self._dependencies = dependencies
        self._shared_dependencies = self._for_shared(dependencies)
        self._scoped_dependencies = self._for_scoped(dependencies)
        self._starts = StartQueue(dependencies.limits.parallel_starts)
        self._outdated = anyio.Semaphore(dependencies.limits.parallel_starts)
        before, scoped = self._servers, self._scoped
        kept = {key for key, server in before.items() if key in servers and server.settings.is_run_as(servers[key])}
        self._servers = {
            key: before[key]
            if key in kept
            else Downstream(settings, eras.get(key), self._shared_dependencies, self._tasks)
            for key, settings in servers.items()
        }
        self._scoped = {key: scoped[key] if key in kept else {} for key in servers}
        for key, server in before.items():
            for each in (server, *scoped[key].values()):
                if key in kept:
                    each.change(self._shared_dependencies if each is server else self._scoped_dependencies)
                else:
                    each.leave()
            if key not in kept and self._conditional:
                self._conditional.forget(key)
        for key in before.keys() - servers.keys():
            # Nobody can come back to these: a retry names a tool that there is no more.
            gone = f"The server {key!r} was removed from the config during the call. The call may have run."
            dependencies.suspended_calls.end(key, gone)
        for key in self._first_listing.keys() - kept:
            self._first_listing.pop(key).set()

    def _for_shared(self, dependencies: DownstreamDependencies) -> DownstreamDependencies:
        """Return the dependencies of the connection by which a server is listed for everybody."""
        one_client = dependencies.isolation.one_client
        return dependencies if one_client else replace(dependencies, ingest=self._list_for_all)

    async def _list_for_all(self, settings: ServerSettings, raw: RawList, greeting: Greeting) -> LiveTools:
        """Have the list of a client that cannot be asked indexed, with what is listed to others besides."""
        declared = self._dependencies.isolation.of_any_client(settings)
        # In 2026-07-28 a list is the same for all who may read it.
        if greeting.era == "modern" or not declared:
            return await self._dependencies.ingest(settings, raw, greeting)
        if self._conditional is None:
            # In a thread, since it reads a file; for such servers alone.
            self._conditional = (await anyio.to_thread.run_sync(_load_conditional_tools))(self._tasks)
        key, server = settings.key, self._servers[settings.key]
        is_for_call = server.starts_for_call and key not in self._kept_up and key not in self.listing
        return await self._conditional.take_in(
            *(self._dependencies, settings, raw, greeting),
            declared=declared,
            before=server.live,
            is_brief=is_for_call,
        )

    def is_conditional(self, key: str, tool: str) -> bool:
        """Return whether a server lists a tool, by its own name, only to clients which it can ask something."""
        return self._conditional is not None and tool in self._conditional.names(key)

    def _for_scoped(self, dependencies: DownstreamDependencies) -> DownstreamDependencies:
        """Return the dependencies of a connection that only some callers share."""
        elsewhere = dependencies.offers
        is_read = dependencies.offers.kinds or dependencies.offers.skills
        if is_read and not dependencies.isolation.one_client:
            elsewhere = OfferSink(changed=self._offers_changed)
        return replace(dependencies, offers=elsewhere)

    def __getitem__(self, key: str) -> Downstream:
        """Return a server; KeyError if it is not configured."""
        return self._servers[key]

    def __contains__(self, key: str) -> bool:
        return key in self._servers

    def resolve(self, key: str, session: Session) -> Downstream:
        """Return the server on the connection that a session uses.

        Raises:
            Unavailable: a connection of its own is wanted, and there are too many already; or the config has been
                reloaded, and has no such server any more.

        """
        server = self._servers.get(key)
        if server is None:
            raise Unavailable(key, f"The server {key!r} was removed from the config. Nothing ran.")
        scope = self._scope(server, session)
        if scope == SHARED:
            return server
        scoped = self._scoped[key]
        known = scoped.pop(scope, None)
        if known is None:
            self._make_room(key)
            dependencies = self._scoped_dependencies
            # The connections of the only client list what is listed, which may depend on what it can do.
            if not dependencies.isolation.one_client:
                dependencies = replace(dependencies, ingest=partial(self._compare, scope))
            known = Downstream(server.settings, server.era, dependencies, self._tasks, scope)
            if self._dependencies.isolation.one_client and key in self._kept_up:
                self._kept_up[key] = known
                server.stop()
        scoped[scope] = known  # last: the one used longest ago stands first
        return known

    def _scope(self, server: Downstream, session: Session) -> Scope:
        """Return the scope of the connection by which a session uses a server."""
        isolation, scoped = self._dependencies.isolation, self._scoped[server.settings.key]
        scope = isolation.scope(server.settings, server.era, session)
        if scope.session or not session.lasting or not (scope in scoped and scoped[scope].asks_apart):
            return scope
        # Whom it asks there is known only of a connection that one session uses; another costs an address little.
        own = isolation.scope(server.settings, server.era, session, alone=True)
        has_room = len(scoped) < self._dependencies.limits.connections_per_server
        return own if own in scoped or has_room else scope

    def _make_room(self, key: str) -> None:
        """Close idle connections if a server has its maximum number of them; refuse if none is idle."""
        scoped, most = self._scoped[key], self._dependencies.limits.connections_per_server
        for scope, server in list(scoped.items()):
            if len(scoped) < most:
                return
            if server.is_idle and (not scope.session or server.status.state is not State.READY):
                scoped.pop(scope).stop()
        if len(scoped) >= most:
            raise Unavailable(
                key,
                f"The server {key!r} has {most} connections, all used by others (limits.connections_per_server). "
                "Nothing ran; try again later.",
            )

    async def _compare(self, scope: Scope, settings: ServerSettings, raw: RawList, _greeting: Greeting) -> LiveTools:
        """Use a list for one connection only; if the index cannot be right beside it, list the server for all again."""
        key = settings.key
        tools, indexed = await self._dependencies.compare(settings, raw.items)
        if raw.is_passing:
            return tools
        lacking = indexed.keys() - tools.keys()
        is_indexed = tools.items() <= indexed.items() and all(self.is_conditional(key, name) for name in lacking)
        # A list may differ by whom it is for. Then it would still differ afterwards, and each reading bring another.
        is_known = (key, scope) in self._relisted and self._relisted[key, scope] == tools
        if not is_indexed and not is_known and key not in self.listing:
            self._in_background(partial(self._list_beside, scope, tools), key)
        return tools

    async def _list_beside(self, scope: Scope, tools: LiveTools, key: str) -> None:
        if await self._list_again(key):
            self._relisted[key, scope] = tools

    def _offers_changed(self, key: str) -> None:
        """Refresh a server's resources and prompts on the shared connection."""
        self._in_background(self._read_offers, key)

    async def _read_offers(self, key: str) -> None:
        server = self._servers[key]
        with suppress(StartFailed):
            is_up = server.status.state is State.READY
            connection = await server.connection(wanted=False)
            if is_up:  # else it reads them by itself
                await server.offers.read(connection)

    async def list_now(self, key: str, server: Downstream) -> None:
        """List a server again on one of its connections; the index is shared by all of them.

        Raises:
            StartFailed: it cannot be started, or its list cannot be read.

        """
        await server.list_again()
        shared = self._servers[key]
        if server is shared:
            return
        if shared.status.state is State.READY:
            await shared.list_again()
        else:
            await shared.connection(wanted=False)

    @property
    def logins(self) -> Logins | None:
        """The logins to the servers."""
        return self._dependencies.logins

    def identity(self, key: str, session: Session) -> str | None:
        """Return as whom a server sees a session's caller: empty where all are one to it, None if it was removed."""
        server = self._servers.get(key)
        return server and self._dependencies.isolation.identity(server.settings, session)

    def withheld(self, key: str, session: Session) -> list[str]:
        """Return the capabilities of a session's client that a server is not told of."""
        server = self._servers[key]
        scope = self._scope(server, session)
        own = server if scope.prefers == "modern" else self._scoped[key].get(scope)
        alone = bool(scope.session) and not self._dependencies.isolation.one_client
        return self._dependencies.isolation.withheld(server.settings, own and own.era, session, alone=alone)

    def spoken(self, key: str, session: Session) -> Spoken | None:
        """Return what is spoken on the connection by which a session uses a server; None while there is none."""
        server = self._servers[key]
        scope = self._scope(server, session)
        own = server if scope == SHARED else self._scoped[key].get(scope)
        return own and own.status.spoken

    def expect(self, session: Session) -> None:
        """Have what is kept up be kept up for the one client there is, now that it is known what it can do."""
        if self._dependencies.isolation.one_client:
            for key in list(self._kept_up):
                self.resolve(key, session)

    async def notify(self, session: Session, method: str) -> None:
        """Forward a notification of a client to the servers that it uses alone."""
        for key, scoped in self._scoped.items():
            scope = self._scope(self._servers[key], session)
            if self._dependencies.isolation.is_exclusive(scope) and scope in scoped:
                await scoped[scope].notify(method)

    def end_session(self, session: Session) -> None:
        """Release the connections that belonged to one session."""
        for scoped in self._scoped.values():
            for scope in [scope for scope in scoped if scope.session == session.label]:
                scoped.pop(scope).stop()

    def status(self, key: str) -> Status:
        """Return a server's state: of its connections, that of one that is up, else of the one that changed last."""
        if key not in self._servers:  # for a request that began under an earlier config
            return Status(State.SLEEPING, since=anyio.current_time())
        statuses = [server.status for server in (self._servers[key], *self._scoped[key].values())]
        return max(statuses, key=lambda status: (status.state is State.READY, status.since))

    def has_failed(self, key: str) -> bool:
        """Return whether a server has failed; a removed one has not."""
        return key in self._servers and self.status(key).state in DOWN

    def is_up(self, key: str) -> bool:
        """Return whether a server can be called without being started."""
        return key in self._servers and self.status(key).state is State.READY

    def statuses(self) -> dict[str, Status]:
        """Return every server's state."""
        return {key: self.status(key) for key in self._servers}

    def snapshot(self) -> ServersNow:
        """Return every server's state, and how far those are that were never listed."""
        statuses, first = self.statuses(), set(self.listing_first)
        unlisted = {key: each for key, server in self._servers.items() if (each := server.arriving)}
        on_their_way = {key for key in unlisted if key in first or statuses[key].state is State.STARTING}
        return ServersNow(statuses, unlisted.keys(), {key: unlisted[key] for key in unlisted if key in on_their_way})

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to report: none has failed, and none is in its first start."""
        return not self.listing_first and not any(
            server.status.state in DOWN or (server.was_never_listed and server.status.state is State.STARTING)
            for server in self._servers.values()
        )

    def begin(self, plan: StartPlan) -> None:
        """Start in the background the servers to list, never-listed ones first, and those that stay running.

        Searches and calls may wait for servers that were never listed (:meth:`first_listing`). Those of them that were
        silent at an earlier start come last, and are not :attr:`awaited`.
        """
        self._silent, self._closed = frozenset(plan.silent), frozenset(plan.closed)
        self._begun = [key for key in dict.fromkeys((*plan.unlisted, *plan.incomplete)) if key not in self._silent]
        for key in sorted(plan.unlisted, key=self._silent.__contains__):
            if listed := self._first_listing.get(key):
                listed.set()  # under an earlier config
            self._first_listing[key] = anyio.Event()
            self._servers[key].was_never_listed = self._lister(key).status.state is not State.READY
            self._tasks.start_soon(self._list_first, key, self._servers[key], self._first_listing[key])
        self.list_again(plan.incomplete)
        for key, server in self._servers.items():
            is_wanted = server.settings.options.start == "eager" and key not in self._closed
            if is_wanted and self._kept_up.get(key) not in (server, *self._scoped[key].values()):
                self._kept_up[key] = server
                self._tasks.start_soon(self._keep_up, key, server)

    @property
    def listing_first(self) -> list[str]:
        """Servers whose very first listing is in progress."""
        return [key for key, listed in self._first_listing.items() if not listed.is_set()]

    @property
    def listing(self) -> set[str]:
        """Servers that are being listed, or wait for their turn."""
        return {*self._listing, *self.listing_first}

    @property
    def awaited(self) -> list[str]:
        """Those of them whose answer may be waited for."""
        return [key for key in self.listing_first if key not in self._silent]

    @property
    def offering_first(self) -> list[str]:
        """Servers begun with whose lists besides tools were not read yet; those silent before are left out."""
        begun = (key for key in self._begun if key in self._servers)
        return [key for key in begun if not self._servers[key].offers.first.is_set()]

    def prefer(self, keys: Collection[str]) -> None:
        """Start these servers before others in the queue."""
        self._starts.prefer(keys)

    async def first_listing(self, keys: Iterable[str]) -> None:
        """Wait until none of these servers is being listed for the first time. Failed ones are not waited for."""
        for key in keys:
            if listed := self._first_listing.get(key):
                await listed.wait()

    async def try_again(self, key: str) -> None:
        """Start a server that failed before it was ever listed, unless it pauses; wait for it a little.

        Whoever comes while it is being tried again for another waits likewise.
        """
        server = self._servers[key]
        is_tried = server.status.state is State.STARTING and key not in self.listing_first
        if server.was_never_listed and (is_tried or server.status.state in DOWN):
            with suppress(StartFailed), anyio.move_on_after(_SILENT_S):
                await server.connection(wanted=False)

    async def list_all(self, keys: Collection[str] | None = None) -> dict[str, Status]:
        """List these servers, None: all, if unused and not denied to everyone; return every server's state."""
        wanted = self._servers.keys() if keys is None else self._servers.keys() & set(keys)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.first_listing, [key for key in self._first_listing if key in wanted])
            for key in wanted - self._first_listing.keys() - self._closed:
                tasks.start_soon(self._list, key, self._servers[key])
        return self.statuses()

    def list_again(self, keys: Iterable[str]) -> None:
        """List these servers in the background, including running ones."""
        for key in keys:
            self._in_background(self._list_again, key)

    def list_outdated(self, key: str) -> None:
        """List a server whose list is known in the background; of those reached by HTTP only so many at a time."""
        self._in_background(self._list_outdated, key)

    def _in_background(self, work: Callable[[str], Coroutine[Any, Any, object]], key: str) -> None:
        # Whoever wants something listed may learn that it is worth it only when the fleet has been closed.
        if not self._tasks.cancel_scope.cancel_called:
            self._tasks.start_soon(work, key)

    async def _list_outdated(self, key: str) -> None:
        server = self._servers.get(key)
        # One that hangs holds up others of its kind, which nobody waits for, but no program that was replaced.
        bound = self._outdated if server and isinstance(server.settings.target, HttpTarget) else nullcontext()
        async with bound:
            await self._list_again(key)

    async def _list_again(self, key: str) -> bool:
        """List a server, on its live connection if there is one; return whether that was possible."""
        if key not in self._servers:
            return False
        shared, server = self._servers[key], self._lister(key)
        if server.status.state is not State.READY:
            return await self._list(key, server)
        try:
            await server.list_again()
        except StartFailed:
            return False
        shared.was_never_listed = False
        with suppress(StartFailed):
            await server.offers.read(await server.connection())
        return True

    def _lister(self, key: str) -> Downstream:
        """Return the connection to list a server on: of those whose lists are indexed, one that is up if any is."""
        shared = self._servers[key]
        indexed = (shared, *self._scoped[key].values()) if self._dependencies.isolation.one_client else (shared,)
        return next((each for each in indexed if each.status.state is State.READY), shared)

    async def _list_first(self, key: str, server: Downstream, listed: anyio.Event) -> None:
        """List a server for the first time under a config; if that fails, nobody waits longer, and it is retried."""
        try:
            is_listed = await self._list_again(key)
        finally:
            listed.set()
        for pause_s in _FIRST_RETRIES_S:
            if is_listed:
                return
            await anyio.sleep(pause_s)
            if self._servers.get(key) is not server:
                return
            is_listed = await self._list_again(key)

    async def _list(self, key: str, server: Downstream) -> bool:
        """Start a server to list it; a lazy one is stopped again. Return whether that was possible."""
        wanted = server.settings.options.start == "eager"
        self._listing.add(key)
        # A failure's state and reason are kept and told by the server itself.
        try:
            async with self._starts.turn(key):
                with anyio.move_on_after(_SLOT_S) as slot:
                    await server.connection(wanted=wanted)
            if slot.cancelled_caught:  # it goes on starting; only the wait for it has ended
                with anyio.move_on_after(_SILENT_S - _SLOT_S) as waiting:
                    await server.connection(wanted=wanted)
                if waiting.cancelled_caught:
                    server.note_silence(_SILENT_S)
                    await server.connection(wanted=wanted)
        except StartFailed:
            return False
        finally:
            self._listing.discard(key)
        return True

    async def _keep_up(self, key: str, server: Downstream) -> None:
        while self._servers.get(key) is server:
            with suppress(StartFailed):
                async with self._starts.turn(key):
                    connection = await self._kept_up[key].connection()
                await connection.closed.wait()
            await anyio.sleep(_KEEP_UP_PAUSE_S)


@asynccontextmanager
async def open_fleet(
    servers: Mapping[str, ServerSettings], eras: Mapping[str, Era], dependencies: DownstreamDependencies
) -> AsyncGenerator[Fleet]:
    """Run a fleet; on exit, every connection is closed and every process has ended."""
    async with anyio.create_task_group() as tasks:
        yield Fleet(servers, eras, dependencies, tasks)
        tasks.cancel_scope.cancel()


def failed(statuses: Mapping[str, Status]) -> dict[str, str]:
    """Return the servers that are down, with the reasons; of those that want a login, with what to run too."""
    down = {key: status for key, status in statuses.items() if status.state in DOWN}
    return {key: str(s.failure) if s.failure and s.failure.needs_login else s.reason for key, s in down.items()}
