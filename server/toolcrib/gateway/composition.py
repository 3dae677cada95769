"""Composes a gateway from a config and a runtime, without a transport or a protocol (ADR 58).

    async with open_gateway(settings, Runtime()) as gateway:
        answer = await gateway.tools.search_tools(session, SearchRequest("create issue"), "signature")

What belongs to one config is a :class:`Generation`. A reload opens another one beside it, and replaces it as a whole.
The server, the commands and a program use the same gateway; the server adds its protocol through ``prepare_reload``.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Iterable, Mapping
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Never, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from toolcrib.auth.logins import Logins
from toolcrib.base.errors import StartFailed, StoreError, ToolcribError, innermost
from toolcrib.base.model import OfferKind
from toolcrib.base.signals import ChangeSignal
from toolcrib.catalog.gate import SkillToolStates
from toolcrib.catalog.indexing import CatalogChange
from toolcrib.catalog.learnt_shapes import LearntShapes
from toolcrib.catalog.offers import OfferIndexer
from toolcrib.config.loading import keep_fixed_keys
from toolcrib.config.settings import STATE, TOOL_CACHE, ServerSettings, Settings
from toolcrib.downstream.connection import Era, Greeting, LiveTools, known_era
from toolcrib.downstream.fleet import Fleet, StartPlan, open_fleet
from toolcrib.downstream.isolation import Isolation
from toolcrib.downstream.lifecycle import DownstreamDependencies, UsesConnection
from toolcrib.downstream.offers import OfferSink
from toolcrib.downstream.process import open_lifeline
from toolcrib.downstream.states import DOWN, Offered, OfferedSkills, RawList, Status
from toolcrib.downstream.suspended import SuspendedCalls
from toolcrib.downstream.transport import Connector, open_streams
from toolcrib.events.kinds import ConfigReloaded, DownstreamState, ListOutdated, StateReplaced
from toolcrib.events.server_logs import open_server_logs
from toolcrib.gateway.instances import Snapshot
from toolcrib.gateway.offers import OfferUseCases
from toolcrib.gateway.offline import Offline, open_decisions, open_offline, report_replaced_file
from toolcrib.gateway.results import LongResults, ResultPages
from toolcrib.gateway.runtime import Runtime
from toolcrib.gateway.skills import open_skills
from toolcrib.gateway.status import Loaded, StatusReader, TaskCounts
from toolcrib.gateway.tools import ToolUseCases, report_definitions
from toolcrib.gateway.whole_lists import WholeLists
from toolcrib.policy.sessions import Session, SharedActivations, SkillScopes, local_caller
from toolcrib.policy.state import State
from toolcrib.programs.installed import are_installed
from toolcrib.skills.use_cases import SkillRuntime, SkillUseCases

if TYPE_CHECKING:
    from toolcrib.gateway.programs import Programs, ProgramUseCases
    from toolcrib.gateway.tasks import CallerTasks

_T = TypeVar("_T")

_AGE_CHECK_S = 3600.0
"""Maximum interval between two checks of the catalog's age."""
_RELEASE_S = 5.0
"""How long the holders of a generation may take to end after the gateway was closed."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Generation:
    """Everything that belongs to one config; opened as a whole, and replaced as a whole by a reload.

    ``skills`` is None if they are disabled. ``programs`` loads what runs programs; None if they are disabled, or their
    extra is not installed. ``start_plan`` says which servers to list when it is put in use, ``eras`` what each server
    spoke when it was last listed. ``retired`` is set once another generation has replaced this one; it is closed when
    nobody holds it any more.
    """

    settings: Settings
    offline: Offline
    tools: ToolUseCases
    offers: OfferUseCases
    skills: SkillUseCases | None
    status: StatusReader
    programs: Callable[[], Awaitable["ProgramUseCases"]] | None
    start_plan: StartPlan
    eras: Mapping[str, Era]
    retired: anyio.Event = field(default_factory=anyio.Event)
    _holders: int = 0
    _released: anyio.Event = field(default_factory=anyio.Event)

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep it open during the block, even if a reload replaces it meanwhile."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._released.set()
                # Another event for later holders: each waiter looks at their number again.
                self._released = anyio.Event()

    async def released(self) -> None:
        """Wait until nobody holds it."""
        while self._holders:
            await self._released.wait()


PrepareReload = Callable[[Generation], Awaitable[AbstractContextManager[None]]]
"""Prepares for another generation, or refuses it by an error. The gateway switches to it inside the returned block."""


class Gateway:
    """The gateway of one program, whatever its config is at the moment. Make one with :func:`open_gateway`.

    It holds what outlives a config: the connections to servers whose entry stays the same, the decisions of a person,
    the activations of sessions, and the rest of long results. ``tasks`` own work that continues after a request.
    ``changed`` is signalled when :meth:`snapshot` would differ. ``prepare_reload`` is called before a switch.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        reports: "_ServerReports",
        fleet: Fleet,
        state: State,
        tasks: TaskGroup,
        *,
        skills: bool | None,
        list_only: Collection[str] | None,
    ) -> None:
        self.runtime, self.fleet, self.tasks = runtime, fleet, tasks
        self.activations = SharedActivations(state.sessions, runtime.lasting_clock)
        self.whole_lists = WholeLists(lambda: self.generation)
        self.scopes = SkillScopes(runtime.clock, settings.toolcrib.limits.skill_handles_s, runtime.new_handle)
        self.changed = reports.changed
        self.prepare_reload: PrepareReload = _prepare_nothing
        self._reports, self._state = reports, state
        self._pages = ResultPages(settings.toolcrib.limits, runtime.clock, runtime.new_handle)
        self._caller_tasks: CallerTasks | None = None
        self._programs: Programs | None = None
        self._skills, self._list_only = skills, list_only
        self._keep_rows = list_only is not None  # who lists only some leaves what others have listed
        self._loaded = Loaded(runtime.wall_clock())
        self._reloading = anyio.Lock()

    @property
    def generation(self) -> Generation:
        """The config in use, with everything that belongs to it. Hold it (:meth:`Generation.held`) across awaits."""
        return self._reports.generation

    @property
    def settings(self) -> Settings:
        """The config in use."""
        return self.generation.settings

    @property
    def tools(self) -> ToolUseCases:
        """Lists, searches and calls tools."""
        return self.generation.tools

    @property
    def offers(self) -> OfferUseCases:
        """Lists, searches and reads resources and prompts."""
        return self.generation.offers

    @property
    def skills(self) -> SkillUseCases:
        """Lists, searches and reads skills.

        Raises:
            ToolcribError: they are disabled (``skills.enabled``).

        """
        if self.generation.skills is None:
            raise ToolcribError("Skills are disabled (skills.enabled).")
        return self.generation.skills

    async def caller_tasks(self) -> "CallerTasks":
        """Return the tasks of callers."""
        if self._caller_tasks is None:
            made = await anyio.to_thread.run_sync(_load_caller_tasks)
            # Another request may have come here meanwhile.
            self._caller_tasks = self._caller_tasks or made(
                self.tasks,
                new_handle=self.runtime.new_handle,
                now=self.runtime.clock,
                wall_clock=self.runtime.wall_clock,
                events=lambda: self.generation.offline.events,
            )
        return self._caller_tasks

    async def _programs_of(self, tools: ToolUseCases, offline: Offline) -> "ProgramUseCases":
        shared, use_cases = await anyio.to_thread.run_sync(_load_programs)
        # What runs is counted across configs, and its workers serve the next one too.
        self._programs = self._programs or shared(self.tasks)
        return use_cases(tools, self._programs, offline.events)

    def _count_tasks(self, session: Session) -> TaskCounts:
        kept = self._caller_tasks.of(session) if self._caller_tasks else []
        running = sum(not task.ended.is_set() for task in kept)
        return TaskCounts(running, len(kept) - running)

    def end_session(self, session: Session) -> None:
        """Release what belonged to one session: its connections, and its tasks."""
        self.fleet.end_session(session)
        if self._caller_tasks is not None:
            self._caller_tasks.end_session(session)

    def snapshot(self, sessions: Iterable[Session]) -> Snapshot:
        """Return what the gateway is doing for these sessions."""
        offline = self.generation.offline
        return Snapshot(
            settings=self.settings,
            now=self.runtime.wall_clock(),
            sessions=sessions,
            statuses=self.fleet.statuses(),
            skill_tools=partial(
                SkillToolStates(offline.gate, self.fleet.has_failed).active_skills, catalog=offline.indexer.current()
            ),
            reload_failure=self._loaded.failure,
        )

    async def reload(self, read: Callable[[], Settings]) -> Loaded:
        """Switch to the config that ``read``, which may block, returns; report the outcome.

        All of it is opened before anything is changed; if that fails, nothing has changed. Requests under way end in
        the generation in which they began.
        """
        # One at a time: two would both replace the same generation.
        async with self._reloading:
            began, failure, fixed = self.runtime.wall_clock(), "", ()
            try:
                settings, fixed = keep_fixed_keys(self.settings, await anyio.to_thread.run_sync(read))
                await self._replace(settings)
            # A generation is opened inside task groups, so even a single error may come as a group.
            except* (ToolcribError, OSError) as failures:
                failure = str(innermost(failures))
            loaded = self._loaded = Loaded(self._loaded.at if failure else began, failure, fixed)
            self.changed.event.set()
            offline = self.generation.offline
            offline.events.emit(ConfigReloaded(ok=not failure, reason=failure, unchanged=fixed))
            await anyio.to_thread.run_sync(offline.index.note_reload, began, failure)
            return loaded

    async def begin(self, settings: Settings) -> None:
        """Put the first config in use, and list its servers where they have to be listed."""
        self._use(await self.tasks.start(self._own, settings))
        # From now on another config is opened while this one uses its rows.
        self._keep_rows = True
        self.tasks.start_soon(self._list_outdated_hourly)

    def list_now(self, keys: Collection[str]) -> None:
        """Start to list servers that ``list_only`` left out."""
        plan = self.generation.start_plan
        self.fleet.begin(StartPlan(list(keys), [], plan.silent, plan.closed))

    async def _replace(self, settings: Settings) -> None:
        generation = await self.tasks.start(self._own, settings)
        with ExitStack() as unused:
            # If the switch is refused, the new generation closes again.
            unused.callback(generation.retired.set)
            switching = await self.prepare_reload(generation)
            unused.pop_all()
        # One step, without an await, so that nobody sees both.
        with switching:
            before = self.generation
            generation.offline.finder.reuse_index_of(before.offline.finder)
            before.offline.indexer.unsubscribe()
            before.offline.offers.unsubscribe()
            self.scopes.lasts_s = settings.toolcrib.limits.skill_handles_s
            self._use(generation)
        before.retired.set()

    def _use(self, generation: Generation) -> None:
        # Before the fleet, whose servers report to the config in use.
        self._reports.use(generation)
        dependencies = self._reports.dependencies(generation.settings, generation.offline.offers.kinds)
        self.fleet.change(generation.settings.servers, generation.eras, dependencies)
        self.fleet.begin(generation.start_plan)
        # Nobody waits for it: files have to be looked at, and the known lists are good enough for the first answers.
        self.tasks.start_soon(self._list_outdated, generation)

    async def _own(self, settings: Settings, *, task_status: TaskStatus[Generation]) -> None:
        """Own a generation until another one has replaced it and nobody holds it any more."""
        async with self._open_generation(settings) as generation:
            task_status.started(generation)
            try:
                await generation.retired.wait()
                await generation.released()
            finally:
                # At the end, too, no file is closed under somebody who is still reading it.
                with anyio.move_on_after(_RELEASE_S, shield=True):
                    await generation.released()

    @asynccontextmanager
    async def _open_generation(self, settings: Settings) -> AsyncGenerator[Generation]:
        runtime, fleet, section = self.runtime, self.fleet, settings.toolcrib
        deadline = anyio.current_time() + section.limits.first_index_wait_s
        async with AsyncExitStack() as stack:
            before = self._reports.replaced.offline if self._reports.replaced else None
            opening = partial(
                open_offline, settings, runtime, state=self._state, keep_rows=self._keep_rows, before=before
            )
            offline = await stack.enter_async_context(_opened(opening))
            long_results = LongResults(settings, offline.gate, offline.index, self._pages, runtime.clock)
            runs_programs = section.programs.enabled != "off" and await anyio.to_thread.run_sync(are_installed)
            learns = runs_programs and section.programs.shapes
            shapes = LearntShapes(
                offline.index,
                offline.stores[TOOL_CACHE],
                settings.redactor.without_keys,
                runtime.wall_clock,
                is_enabled=learns,
            )
            if learns:
                await anyio.to_thread.run_sync(shapes.open)
            tools = ToolUseCases(offline, fleet, long_results, shapes, deadline, self.caller_tasks)
            await stack.enter_async_context(_following(offline, fleet, shapes))
            skills = None
            if section.skills.enabled if self._skills is None else self._skills:
                skill_runtime = SkillRuntime(deadline, self._reports.one_client, fleet.has_failed, self.scopes.store)
                opening = partial(open_skills, offline, runtime, skill_runtime)
                skills = await stack.enter_async_context(_opened(opening))
                await stack.enter_async_context(_scanning(skills))
            # These read the index, so they may fail: last, but before anybody uses the generation.
            start_plan, eras = await anyio.to_thread.run_sync(lambda: (self._start_plan(offline), _known_eras(offline)))
            yield Generation(
                settings=settings,
                offline=offline,
                tools=tools,
                offers=OfferUseCases(offline, fleet, deadline),
                skills=skills,
                status=StatusReader(
                    settings,
                    offline,
                    skills=skills,
                    fleet=fleet,
                    now=runtime.wall_clock,
                    loaded=lambda: self._loaded,
                    tasks=self._count_tasks,
                ),
                programs=partial(self._programs_of, tools, offline) if runs_programs else None,
                start_plan=start_plan,
                eras=eras,
            )

    def _start_plan(self, offline: Offline) -> StartPlan:
        """Return which servers to list, and which are skipped."""
        unlisted = [key for key in offline.indexer.unlisted() if self._lists(key)]
        skipped = {*unlisted, *offline.indexer.closed}
        return StartPlan(
            unlisted,
            [key for key in offline.offers.unlisted() if key not in skipped and self._lists(key)],
            offline.failures.silent(),
            offline.indexer.closed,
        )

    def _lists(self, key: str) -> bool:
        return self._list_only is None or key in self._list_only

    async def _list_outdated_hourly(self) -> Never:
        """List outdated servers in a long-running process too."""
        while True:
            await self.runtime.pause(min(self.settings.toolcrib.limits.catalog_max_age_s, _AGE_CHECK_S))
            await self._list_outdated(self.generation)

    async def _list_outdated(self, generation: Generation) -> None:
        """List the servers of a generation in the background whose known list may be another by now."""
        offline = generation.offline
        with generation.held():
            try:
                outdated = await anyio.to_thread.run_sync(offline.indexer.outdated)
            except StoreError as error:
                _log.warning("whether known lists are still current could not be looked up: %s", error)
                return
            if generation is not self.generation:
                return
            for key, reason in outdated.items():
                # What runs lists what it has always listed: a replaced program is listed once it is started.
                if self._lists(key) and not (reason == "program" and self.fleet.is_up(key)):
                    offline.events.emit(ListOutdated(server=key, reason=reason))
                    self.fleet.list_outdated(key)


class _ServerReports:
    """Takes in what servers report, as of the generation in use when they do so."""

    generation: Generation

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        connector: Connector,
        logins: Logins | None,
        *,
        one_client: bool,
        names_callers: bool,
    ) -> None:
        self._names_callers = names_callers
        self.one_client, self._jitter, self._connector, self._logins = one_client, runtime.jitter, connector, logins
        self._suspended_calls = SuspendedCalls(settings.toolcrib.limits, runtime.new_handle)
        self.changed = ChangeSignal()
        self._is_begun, self._unreported = False, list[str]()

    @property
    def replaced(self) -> Generation | None:
        """The generation in use, which the next one replaces; None if there is none yet."""
        return self.generation if self._is_begun else None

    def use(self, generation: Generation) -> None:
        """Report to another generation from now on."""
        self.generation, self._is_begun = generation, True
        while self._unreported:
            self.state_replaced(self._unreported.pop(0))

    def state_replaced(self, reason: str) -> None:
        """Report that another file has taken the place of the decisions', as soon as there is an event log."""
        if self._is_begun:
            report_replaced_file(self.generation.offline.events, StateReplaced, STATE, reason)
        else:
            self._unreported.append(reason)

    def dependencies(self, settings: Settings, kinds: frozenset[OfferKind]) -> DownstreamDependencies:
        """Return what servers get from the gateway; ``kinds`` are listed besides tools."""
        section = settings.toolcrib
        return DownstreamDependencies(
            limits=section.limits,
            connector=self._connector,
            ingest=self._listed,
            state_changed=self._state_changed,
            jitter=self._jitter,
            compare=self._compared,
            isolation=self._isolation(settings),
            offers=OfferSink(
                kinds,
                self._offered,
                announced=self._offers_announced,
                skills=self._offered_skills if section.skills.enabled and section.skills.from_servers else None,
            ),
            suspended_calls=self._suspended_calls,
            logins=self._logins,
            announced=self._announced,
        )

    def _isolation(self, settings: Settings) -> Isolation:
        if self._names_callers:
            owner = local_caller(settings)
            return Isolation(one_client=False, one_principal=False, owner=(owner.tenant_id or "", owner.principal))
        principals = {(entry.tenant_id, entry.subject) for entry in settings.toolcrib.http.tokens}
        return Isolation(one_client=self.one_client, one_principal=self.one_client or len(principals) <= 1)

    async def _listed(self, server: ServerSettings, raw: RawList, greeting: Greeting) -> LiveTools:
        said = greeting.era, greeting.instructions, greeting.program, greeting.extensions
        return await self._ingested(
            lambda offline: offline.indexer.listed(
                self._entry(server), raw.items, *said, cut=raw.cut, is_passing=raw.is_passing
            )
        )

    async def _compared(self, server: ServerSettings, raw: list[Any]) -> tuple[LiveTools, LiveTools]:
        return await self._ingested(lambda offline: offline.indexer.compared(self._entry(server), raw))

    async def _offered(self, server: ServerSettings, offered: Offered) -> None:
        await self._ingested(lambda offline: offline.offers.listed(self._entry(server), offered))

    def _announced(self, server: str, uses: UsesConnection) -> None:
        self.generation.offline.indexer.announced(server, uses)

    def _offers_announced(self, kinds: Collection[OfferKind]) -> None:
        self.generation.offline.offers.announced(kinds)

    async def _offered_skills(self, server: ServerSettings, offered: OfferedSkills) -> None:
        generation = self.generation
        if generation.skills is not None:
            with generation.held():
                await generation.skills.mirror(self._entry(server), offered)

    async def _ingested(self, ingest: Callable[[Offline], Awaitable[_T]]) -> _T:
        """Return the result of ``ingest`` for the generation in use; repeat it if that was replaced meanwhile.

        The replaced one has stored the report under its own config, or could not, because its files were closed.
        """
        while True:
            generation = self.generation
            try:
                ingested = await ingest(generation.offline)
            except StoreError:
                if generation is self.generation:
                    raise
            else:
                if generation is self.generation:
                    return ingested

    def _state_changed(self, server: str, status: Status) -> None:
        if server not in self.generation.settings.servers:
            return
        offline = self.generation.offline
        offline.failures.note(server, status)
        spoken = (status.spoken.protocol, status.spoken.reason) if status.spoken else (None, None)
        offline.events.emit(DownstreamState(server, status.state.value, status.reason, *spoken))
        if status.state in DOWN:
            _log.warning("server %s: %s", server, status.reason)
        self.changed.event.set()

    def _entry(self, server: ServerSettings) -> ServerSettings:
        """Return a server's entry in the config in use, with its policy.

        Raises:
            StartFailed: it has another entry by now, or none: nobody takes in what it lists.

        """
        entry = self.generation.settings.servers.get(server.key)
        if entry is None or not server.is_run_as(entry):
            raise StartFailed(server.key, f"The server {server.key!r} was changed or removed in the config.")
        return entry


@asynccontextmanager
async def open_gateway(
    settings: Settings,
    runtime: Runtime,
    *,
    one_client: bool = True,
    names_callers: bool = False,
    skills: bool | None = None,
    list_only: Collection[str] | None = None,
) -> AsyncGenerator[Gateway]:
    """Open a gateway, and start to list its servers in the background. On exit, every process of theirs has ended.

    ``one_client``: all requests come from one client, which is on this machine. ``names_callers``: whoever opens it
    makes requests on account of callers that nothing here knows yet, besides those of its own. ``skills`` says whether
    they are opened; None: as the config says. ``list_only`` are the servers that are listed without a request; None:
    all.

    Raises:
        StoreError: a database file can neither be read nor replaced.

    """
    async with AsyncExitStack() as stack:
        logins = None if settings.in_memory else Logins(settings.tokens_dir)
        connector = await stack.enter_async_context(_open_connector(settings, runtime, logins))
        reports = _ServerReports(
            settings, runtime, connector, logins, one_client=one_client, names_callers=names_callers
        )
        opening = partial(open_decisions, settings, runtime, reports.state_replaced)
        state = await stack.enter_async_context(_opened(opening))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        # Some of its tasks never end, and the group waits for all of them.
        stack.callback(tasks.cancel_scope.cancel)
        # Closed before the generations are, because servers report until they have ended.
        fleet = await stack.enter_async_context(open_fleet({}, {}, reports.dependencies(settings, frozenset())))
        gateway = Gateway(runtime, settings, reports, fleet, state, tasks, skills=skills, list_only=list_only)
        await gateway.begin(settings)
        yield gateway


@asynccontextmanager
async def _open_connector(settings: Settings, runtime: Runtime, logins: Logins | None) -> AsyncGenerator[Connector]:
    """Open the transports to servers: no process of theirs outlives ours, and their stderr output is stored."""
    max_bytes = settings.toolcrib.limits.server_log_max_bytes
    logs = open_server_logs(settings.cache_dir, max_bytes, settings.redactor.redact, runtime.wall_clock)
    async with open_lifeline() as lifeline:
        with nullcontext() if settings.in_memory else logs as opened:
            note = opened.note if opened else None
            yield runtime.connector or partial(
                open_streams, lifeline=lifeline, on_stderr=note, logins=logins, ahead=runtime.ahead
            )


@asynccontextmanager
async def _opened(make: Callable[[], AbstractContextManager[_T]]) -> AsyncGenerator[_T]:
    """Open and close files in a worker thread, while others are served."""
    files = ExitStack()
    try:
        yield await anyio.to_thread.run_sync(lambda: files.enter_context(make()))
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(files.close)


@asynccontextmanager
async def _following(offline: Offline, fleet: Fleet, shapes: LearntShapes) -> AsyncGenerator[None]:
    """Keep the indexes up to date in the background, with what this process and others write."""
    indexer, offers = offline.indexer, offline.offers
    indexer.subscribe(partial(_schedule_offers, offers))
    indexer.subscribe(partial(report_definitions, offline.events))
    indexer.prepare_by(offline.finder.prepare)
    if offline.settings.toolcrib.gate.pass_through_tokens:
        indexer.prepare_by(offline.prices.prepare)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(indexer.follow, fleet.list_again)
            tasks.start_soon(offers.follow)
            tasks.start_soon(offline.failures.keep)
            tasks.start_soon(offline.learning.keep)
            tasks.start_soon(offline.own_words.keep)
            tasks.start_soon(shapes.keep)
            yield
            tasks.cancel_scope.cancel()
    finally:
        # What came in since the last write would be lost. What is being written as the tasks end is not written again.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(offline.failures.flush)
            await anyio.to_thread.run_sync(offline.learning.flush)
            await anyio.to_thread.run_sync(shapes.flush)


def _load_caller_tasks() -> "type[CallerTasks]":
    # In a thread, since it reads files; for calls that become tasks alone, which are few.
    from toolcrib.gateway.tasks import CallerTasks  # noqa: PLC0415

    return CallerTasks


def _load_programs() -> "tuple[type[Programs], type[ProgramUseCases]]":
    # As above: most sessions run no program.
    from toolcrib.gateway.programs import Programs, ProgramUseCases  # noqa: PLC0415

    return Programs, ProgramUseCases


def _schedule_offers(offers: OfferIndexer, change: CatalogChange) -> None:
    if change.server is None:  # another process has written the index
        offers.schedule_reload()


@asynccontextmanager
async def _scanning(skills: SkillUseCases) -> AsyncGenerator[None]:
    """Scan the skills for changes in the background."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(skills.load)
        try:
            yield
        finally:
            skills.stop()


def _known_eras(offline: Offline) -> dict[str, Era]:
    """Return the era that each server spoke when it was last listed."""
    rows = offline.index.server_rows()
    return {key: era for key, row in rows.items() if (era := known_era(row.era)) is not None}


async def _prepare_nothing(_generation: Generation) -> AbstractContextManager[None]:
    return nullcontext()
