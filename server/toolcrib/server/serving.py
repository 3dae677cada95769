"""What is served: the parts built for one config, replaced by those of another when it is reloaded."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Never, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from toolcrib.auth.logins import Logins
from toolcrib.base.errors import StartFailed, StoreError, ToolcribError, innermost
from toolcrib.base.model import OfferKind
from toolcrib.catalog.gate import SkillToolStates
from toolcrib.config.loading import keep_fixed_keys
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import STATE, ServerSettings, Settings
from toolcrib.downstream.connection import Era, LiveTools
from toolcrib.downstream.fleet import Due, Fleet, open_fleet
from toolcrib.downstream.isolation import Isolation
from toolcrib.downstream.lifecycle import Surroundings
from toolcrib.downstream.offers import OfferSink
from toolcrib.downstream.states import Offered, Status
from toolcrib.downstream.suspended import SuspendedCalls
from toolcrib.downstream.transport import Connector
from toolcrib.events.kinds import ConfigReloaded, StateReplaced
from toolcrib.gateway.composition import (
    Outside,
    due,
    eras_of,
    offer_use_cases,
    open_connector,
    open_tool_use_cases,
    opened,
    report_state,
    scanning,
)
from toolcrib.gateway.instances import ChangeSignal, Moment
from toolcrib.gateway.offers import OfferUseCases
from toolcrib.gateway.offline import Known, open_catalog, open_decisions, teller
from toolcrib.gateway.results import ResultPages
from toolcrib.gateway.status import Loaded, StatusParts, open_known_skills
from toolcrib.gateway.tools import ToolUseCases
from toolcrib.policy.activations import SharedActivations
from toolcrib.policy.client_profiles import ClientProfiles
from toolcrib.policy.state import State
from toolcrib.server.builtin.registry import Builtins
from toolcrib.server.builtin.tool import BuiltinParts
from toolcrib.server.handshake_cache import GreetingParts
from toolcrib.server.instructions import Instructions
from toolcrib.server.lists import Listing
from toolcrib.server.methods import methods_offered
from toolcrib.server.protocol import Gateway, Wire, WireParts
from toolcrib.server.sessions import ResumableRequests, SessionParts, Sessions, open_resumable
from toolcrib.server.subscriptions import ResourceUpdates
from toolcrib.skills.use_cases import SkillRuntime, SkillUseCases

_T = TypeVar("_T")

_AGE_LOOK_S = 3600.0
"""Maximum interval between two checks of the catalog's age."""
_DRAIN_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class _Cases:
    """The use cases of one config, and their parts."""

    settings: Settings
    hosts: ClientProfiles
    known: Known
    tool_use_cases: ToolUseCases
    skill_use_cases: SkillUseCases | None
    offers: OfferUseCases
    resumable: ResumableRequests


@dataclass(eq=False)
class World:
    """Everything that belongs to one config. ``retired`` is set when another one has replaced it.

    ``due`` are the servers that were to be listed when it was opened, ``eras`` what each of them spoke before.
    """

    settings: Settings
    known: Known
    tool_use_cases: ToolUseCases
    offers: OfferUseCases
    wire: Wire
    due: Due
    eras: Mapping[str, Era]
    retired: anyio.Event = field(default_factory=anyio.Event)


class _Reports:
    """The receiver of servers' reports, which outlives a config: forwards them to the current world."""

    world: World
    connector: Connector

    def __init__(self, limits: LimitsSection, jitter: Callable[[], float], logins: Logins) -> None:
        self._jitter, self._suspended_calls, self._logins = jitter, SuspendedCalls(limits), logins
        self._unsaid: list[str] = []
        self._has_begun = False
        self.changed = ChangeSignal()

    def surroundings(self, settings: Settings, hosts: ClientProfiles, kinds: frozenset[OfferKind]) -> Surroundings:
        """Return what servers have around them; ``kinds`` are asked for besides tools."""
        section = settings.toolcrib
        principals = {(entry.tenant_id, entry.subject) for entry in section.http.tokens}
        return Surroundings(
            limits=section.limits,
            connector=self.connector,
            listed=self.listed,
            state_changed=self.state,
            jitter=self._jitter,
            compared=self.compared,
            isolation=Isolation(
                one_client=hosts.has_one_client, one_principal=hosts.has_one_client or len(principals) <= 1
            ),
            offers=OfferSink(kinds, self.offered),
            suspended_calls=self._suspended_calls,
            logins=self._logins,
        )

    async def listed(self, server: ServerSettings, raw: list[Any], era: Era) -> LiveTools:
        """Ingest a server's list."""
        return await self._ingested(lambda known: known.indexer.listed(self._now(server), raw, era))

    async def compared(self, server: ServerSettings, raw: list[Any]) -> tuple[LiveTools, bool]:
        """Ingest the list of a connection that is not shared by all."""
        return await self._ingested(lambda known: known.indexer.compared(self._now(server), raw))

    async def offered(self, server: ServerSettings, offered: Offered) -> None:
        """Ingest a server's resources and prompts."""
        await self._ingested(lambda known: known.offers.listed(self._now(server), offered))

    async def _ingested(self, ingest: Callable[[Known], Awaitable[_T]]) -> _T:
        """Have something ingested by the current world; again if that was replaced meanwhile.

        The one before has stored it as of its own config, or could not, because its files were closed.
        """
        while True:
            world = self.world
            try:
                ingested = await ingest(world.known)
            except StoreError:
                if world is self.world:
                    raise
            else:
                if world is self.world:
                    return ingested

    def state(self, server: str, status: Status) -> None:
        """Record a server's state."""
        if server in self.world.settings.servers:
            report_state(self.world.known, server, status)
            self.changed.event.set()

    def use(self, world: World) -> None:
        """Report to another world from now on; the first is told what was to be said before there was any."""
        self.world, self._has_begun = world, True
        while self._unsaid:
            self.state_replaced(self._unsaid.pop(0))

    def state_replaced(self, reason: str) -> None:
        """Report that the file of decisions was replaced."""
        if self._has_begun:
            teller(self.world.known.events, StateReplaced, STATE)(reason)
        else:
            self._unsaid.append(reason)

    def _now(self, server: ServerSettings) -> ServerSettings:
        """Return a server's settings as they are now, policy and all; what a server lists that went, nobody takes in.

        Raises:
            StartFailed: it is another one in the config by now, or none.

        """
        now = self.world.settings.servers.get(server.key)
        if now is None or not server.is_run_as(now):
            raise StartFailed(server.key, f"The server {server.key!r} was changed or removed in the config.")
        return now


@dataclass(frozen=True, slots=True)
class _Lasting:
    """What outlives a config."""

    state: State
    sessions: Sessions
    result_pages: ResultPages
    fleet: Fleet
    updates: ResourceUpdates
    tasks: TaskGroup


class Serving:
    """Serves one config after another. ``gateway`` is what transports serve. Make one with :func:`open_server`.

    What outlives a config: connections, sessions and what they have activated, decisions, pages of results that may
    still be read, and every server whose entry stays the same. ``on_change`` is told of each config that is in use.
    """

    def __init__(self, lasting: _Lasting, reports: _Reports, outside: Outside) -> None:
        self._lasting, self._reports, self._outside = lasting, reports, outside
        self._loaded = Loaded(outside.wall_clock())
        self._turn = anyio.Lock()
        self._keep_rows = outside.only is not None  # who does not list anew leaves what others have listed
        self.gateway = Gateway()
        self.on_change: Callable[[Settings], None] = lambda _settings: None

    @property
    def wire(self) -> Wire:
        """The wire that currently answers requests."""
        return self.gateway.wire

    @property
    def settings(self) -> Settings:
        """The current config."""
        return self._reports.world.settings

    @property
    def changed(self) -> ChangeSignal:
        """Signalled when something has changed in what :attr:`moment` returns."""
        return self._reports.changed

    @property
    def moment(self) -> Moment:
        """The current state."""
        seen, fleet, known = self._lasting.sessions.seen(), self._lasting.fleet, self._reports.world.known
        states = SkillToolStates(known.gate, fleet.has_failed)
        tools = partial(states.of, catalog=known.indexer.current())
        now = self._outside.wall_clock()
        return Moment(self.settings, now, seen, fleet.statuses(), tools, self._loaded.failure)

    async def begin(self, settings: Settings, hosts: ClientProfiles) -> None:
        """Serve the first config."""
        world = await self._lasting.tasks.start(self._own, settings, hosts)
        self._use(world, hosts)
        self.gateway.wire, self._keep_rows = world.wire, True
        self._lasting.tasks.start_soon(self._list_what_is_old)

    async def reload(self, read: Callable[[], Settings], hosts_of: Callable[[Settings], ClientProfiles]) -> Loaded:
        """Switch to another config, if it can be used; return the outcome. Otherwise nothing changes.

        All of it is made before anything is changed. Requests under way end under the config that they began with.
        ``read`` may block.
        """
        async with self._turn:
            began, failure, fixed = self._outside.wall_clock(), "", ()
            try:
                settings, fixed = keep_fixed_keys(self.settings, await anyio.to_thread.run_sync(read))
                hosts = await anyio.to_thread.run_sync(hosts_of, settings)
                world = await self._lasting.tasks.start(self._own, settings, hosts)
                self._swap(world, hosts)
            except* (ToolcribError, OSError) as failures:
                failure = str(innermost(failures))
            loaded = Loaded(self._loaded.at if failure else began, failure, fixed)
            self._loaded = loaded
            self.changed.event.set()
            known = self._reports.world.known
            known.events.emit(ConfigReloaded(ok=not failure, reason=failure, unchanged=fixed))
            await anyio.to_thread.run_sync(known.index.note_reload, began, failure)
            return loaded

    def _swap(self, world: World, hosts: ClientProfiles) -> None:
        """Replace everything of the previous config, in one step, so that nobody sees both."""
        before, lists = self._reports.world, self.wire.lists()
        world.tool_use_cases.finder.reuse_index_of(before.tool_use_cases.finder)
        before.known.indexer.unsubscribe()
        before.known.offers.unsubscribe()
        self._lasting.sessions.change(world.settings, hosts)
        self._use(world, hosts)
        self.gateway.use(world.wire, lists)
        before.retired.set()
        self.on_change(world.settings)

    def _use(self, world: World, hosts: ClientProfiles) -> None:
        self._reports.use(world)
        self._lasting.updates.use(world.offers, world.settings.toolcrib.limits.subscriptions)
        surroundings = self._reports.surroundings(world.settings, hosts, world.known.offers.kinds)
        self._lasting.fleet.change(world.settings.servers, world.eras, surroundings)
        self._lasting.fleet.begin(world.due)

    async def _own(self, settings: Settings, hosts: ClientProfiles, *, task_status: TaskStatus[World]) -> None:
        """Own everything that belongs to one config, until another has replaced it and nobody uses it any more."""
        async with self._open_world(settings, hosts) as world:
            task_status.started(world)
            await world.retired.wait()
            with anyio.move_on_after(settings.toolcrib.limits.call_max_s):
                while world.wire.under_way:
                    await anyio.sleep(_DRAIN_POLL_S)

    @asynccontextmanager
    async def _open_world(self, settings: Settings, hosts: ClientProfiles) -> AsyncGenerator[World]:
        lasting, outside = self._lasting, self._outside
        deadline = anyio.current_time() + settings.toolcrib.limits.first_index_wait_s
        async with AsyncExitStack() as stack:
            catalog = partial(open_catalog, settings, outside, outside.mirror, lasting.state, keep_rows=self._keep_rows)
            known = await stack.enter_async_context(opened(catalog))
            tool_use_cases = await stack.enter_async_context(
                open_tool_use_cases(settings, known, outside, lasting.fleet, lasting.result_pages)
            )
            skill_use_cases = None
            if settings.toolcrib.skills.enabled:
                at = SkillRuntime(
                    deadline, hosts.has_one_client, lasting.fleet.has_failed, lasting.sessions.scopes.store
                )
                opening = opened(partial(open_known_skills, settings, known, outside, at))
                skill_use_cases = await stack.enter_async_context(opening)
                await stack.enter_async_context(scanning(skill_use_cases))
            offers = offer_use_cases(settings, known, lasting.fleet, deadline)
            resumable = await stack.enter_async_context(open_resumable(settings.toolcrib.limits))
            cases = _Cases(settings, hosts, known, tool_use_cases, skill_use_cases, offers, resumable)
            wire = Wire(self._wire_parts(cases))
            # Last, but still before it is anybody's: if this fails, all of it is closed again.
            first, eras = await anyio.to_thread.run_sync(lambda: (due(known, outside), eras_of(known)))
            yield World(settings, known, tool_use_cases, offers, wire, first, eras)

    def _wire_parts(self, cases: _Cases) -> WireParts:
        settings, known, skill_use_cases = cases.settings, cases.known, cases.skill_use_cases
        sessions = self._lasting.sessions
        parts = BuiltinParts(settings, cases.tool_use_cases, skill_use_cases, cases.offers, sessions.scopes)
        builtins = Builtins(parts)
        instructions = Instructions(settings, cases.tool_use_cases, builtins, skill_use_cases)
        status = StatusParts(
            settings=settings,
            gate=known.gate,
            catalog=known.indexer.current,
            rows=known.index.server_rows,
            failures=known.failures.read,
            stores=known.stores,
            fleet=self._lasting.fleet,
            skill_use_cases=skill_use_cases,
            offers=known.offer_gate,
            refused_offers=known.offers.refused,
            model=known.model,
            now=self._outside.wall_clock,
            loaded=lambda: self._loaded,
        )
        return WireParts(
            tool_use_cases=cases.tool_use_cases,
            builtins=builtins,
            instructions=instructions,
            sessions=sessions,
            hosts=cases.hosts,
            methods=methods_offered(sessions, status, skill_use_cases, cases.offers, cases.resumable),
            greeting=GreetingParts(
                cache_dir=settings.cache_dir,
                tool_use_cases=cases.tool_use_cases,
                skill_use_cases=skill_use_cases,
                instructions=instructions,
                listing=Listing(cases.tool_use_cases, builtins, known.events),
                stores=known.stores,
            ),
            offers=cases.offers,
            limits=settings.toolcrib.limits,
            logs=bool(settings.servers),
            updates=self._lasting.updates,
            resumable=cases.resumable,
            tasks=self._lasting.tasks,
            events=known.events,
            changed=self.changed,
        )

    async def _list_what_is_old(self) -> Never:
        """List servers again whose list is older than ``limits.catalog_max_age_s``, also in a long-running process."""
        while True:
            await self._outside.pause(min(self.settings.toolcrib.limits.catalog_max_age_s, _AGE_LOOK_S))
            self._lasting.fleet.list_again(await anyio.to_thread.run_sync(self._reports.world.known.indexer.stale))


@asynccontextmanager
async def open_server(settings: Settings, hosts: ClientProfiles, outside: Outside) -> AsyncGenerator[Serving]:
    """Serve a config, until another one replaces it; what outlives configs ends with this."""
    async with AsyncExitStack() as stack:
        reports = _Reports(settings.toolcrib.limits, outside.jitter, logins := Logins(settings.tokens_dir))
        reports.connector = await stack.enter_async_context(open_connector(settings, outside, logins))
        # First, because an earlier version kept some of it in the indexes.
        decisions = partial(open_decisions, settings, outside, reports.state_replaced)
        state = await stack.enter_async_context(opened(decisions))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        fleet = await stack.enter_async_context(open_fleet({}, {}, reports.surroundings(settings, hosts, frozenset())))
        kept = SharedActivations(state.sessions, outside.lasting_clock)
        parts = SessionParts(kept, fleet, outside.wall_clock, outside.pid, reports.changed, outside.clock)
        sessions = Sessions(settings, hosts, parts)
        result_pages = ResultPages(settings.toolcrib.limits, outside.clock)
        lasting = _Lasting(state, sessions, result_pages, fleet, ResourceUpdates(sessions, tasks), tasks)
        serving = Serving(lasting, reports, outside)
        await serving.begin(settings, hosts)
        yield serving
