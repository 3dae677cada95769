"""The composition root: puts the parts together for a config, and takes them apart again in order.

Knows which part needs which; never knows what any of them does in detail.
"""

import logging
import random
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial

import anyio

from toolcrib.access.activations import KeptActivations
from toolcrib.access.hosts import Hosts
from toolcrib.access.policy import policy_of
from toolcrib.config.settings import SKILL_CACHE, Settings
from toolcrib.downstream.connection import Era, known_era
from toolcrib.downstream.fleet import open_fleet
from toolcrib.downstream.lifecycle import Surroundings
from toolcrib.downstream.live_offers import OfferSink
from toolcrib.downstream.parking import Parking
from toolcrib.downstream.process import open_lifeline
from toolcrib.downstream.scopes import Front
from toolcrib.downstream.states import Status
from toolcrib.downstream.transport import Connector, open_streams
from toolcrib.errors import StartRefused
from toolcrib.events.kinds import DownstreamState, IndexRebuilt
from toolcrib.events.log import EventLog
from toolcrib.events.server_logs import open_server_logs
from toolcrib.known import (
    Clocks,
    Known,
    finder_of,
    gate_of,
    model_of,
    open_catalog,
    open_known,
    search_settings,
    teller,
)
from toolcrib.model import Refused
from toolcrib.offers.indexing import OfferIndexer
from toolcrib.offers.search import OfferSearcher
from toolcrib.offers.use_cases import OfferUseCaseParts, OfferUseCases
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.index.skill_index import SkillIndex
from toolcrib.skills.index.tables import SKILL_TEXTS, SKILLS_SCHEMA
from toolcrib.skills.search import SkillSearcher
from toolcrib.skills.use_cases import SkillUseCaseParts, SkillUseCases
from toolcrib.status import StatusParts
from toolcrib.store.store import Store
from toolcrib.store.vectors import VectorCache
from toolcrib.tools.arguments.checks import ArgumentChecks
from toolcrib.tools.failures import ServerFailures
from toolcrib.tools.index.catalog import Catalog
from toolcrib.tools.indexing import CatalogChange
from toolcrib.tools.long_results import LongResults
from toolcrib.tools.use_cases import ToolUseCaseParts, ToolUseCases
from toolcrib.wire.builtin.registry import Builtins
from toolcrib.wire.builtin.tool import BuiltinParts
from toolcrib.wire.greeting import GreetingParts
from toolcrib.wire.instructions import Instructions
from toolcrib.wire.methods.registry import methods_offered
from toolcrib.wire.server import Wire, WireParts, open_wire
from toolcrib.wire.sessions import Sessions

_log = logging.getLogger(__name__)
_IN_PROCESS = Front(one_client=True, one_principal=True)
"""Who comes to a toolcrib that a command runs for itself."""


@dataclass(frozen=True, slots=True)
class Outside(Clocks):
    """What the program takes from the world: clocks, chance, a mirror for events, and ways to reach servers.

    Where no ``connector`` is given, servers are reached as the config says. ``only`` are the servers that are listed by
    themselves at the start, where they have to be; None: all.
    """

    connector: Connector | None = None
    jitter: Callable[[], float] = random.random
    mirror: Callable[[str], None] | None = None
    only: Collection[str] | None = None

    def lists(self, key: str) -> bool:
        """Return whether a server is listed by itself at the start, where it has to be."""
        return self.only is None or key in self.only


def refuse_without_session(settings: Settings) -> None:
    """Refuse session scope on stdio where nothing names the session (R79).

    Raises:
        StartRefused: ``activation_scope: session`` without a session id.

    """
    if settings.toolcrib.tool_search.activation_scope == "session" and not settings.session_id:
        raise StartRefused(
            "tool_search.activation_scope is 'session', but there is no session id. Set context.session_id in the "
            "config or TOOLCRIB_SESSION_ID in the environment, or use activation_scope 'run'."
        )


@asynccontextmanager
async def _open_tools(
    settings: Settings, known: Known, outside: Outside, front: Front = _IN_PROCESS
) -> AsyncGenerator[ToolUseCases]:
    section = settings.toolcrib
    eras: dict[str, Era] = {
        key: era for key, row in known.index.server_rows().items() if (era := known_era(row.era)) is not None
    }
    async with (
        _open_connector(settings, outside) as connector,
        open_fleet(settings.servers, eras, _surroundings(settings, known, connector, outside, front)) as fleet,
        anyio.create_task_group() as tasks,
    ):
        parts = ToolUseCaseParts(
            settings=settings,
            indexer=known.indexer,
            finder=finder_of(settings, known),
            fleet=fleet,
            gate=known.gate,
            checks=ArgumentChecks(known.index, known.checker, section.limits.schema_check_ms),
            long_results=LongResults(settings, outside.clock),
            events=known.events,
            first_index_deadline=anyio.current_time() + section.limits.first_index_wait_s,
        )
        unlisted = [key for key in known.indexer.unlisted() if outside.lists(key)]
        stale = dict.fromkeys([*known.indexer.stale(), *known.offers.unlisted()])
        fleet.begin(
            unlisted, [key for key in stale if key not in unlisted and outside.lists(key)], known.failures.silent()
        )
        tasks.start_soon(known.indexer.follow, fleet.list_again)
        tasks.start_soon(known.offers.follow)
        known.indexer.subscribe(partial(_look_at_offers, known.offers))
        tasks.start_soon(known.failures.keep)
        try:
            yield ToolUseCases(parts)
        finally:
            tasks.cancel_scope.cancel()
            known.failures.flush()


@asynccontextmanager
async def _open_connector(settings: Settings, outside: Outside) -> AsyncGenerator[Connector]:
    """Open what reaches servers: no process of theirs outlives ours, and what they say on stderr is kept."""
    max_bytes = settings.toolcrib.limits.server_log_max_bytes
    async with open_lifeline() as lifeline:
        with open_server_logs(settings.cache_dir, max_bytes, settings.redactor.redact, outside.wall_clock) as logs:
            yield outside.connector or partial(open_streams, lifeline=lifeline, on_stderr=logs.note)


def _surroundings(
    settings: Settings, known: Known, connector: Connector, outside: Outside, front: Front
) -> Surroundings:
    return Surroundings(
        limits=settings.toolcrib.limits,
        connector=connector,
        listed=known.indexer.listed,
        state_changed=_state_reporter(known.events, known.failures),
        jitter=outside.jitter,
        compared=known.indexer.compared,
        front=front,
        offers=OfferSink(known.offers.kinds, known.offers.listed),
        parking=Parking(settings.toolcrib.limits),
    )


@asynccontextmanager
async def _open_skills(
    settings: Settings, known: Known, outside: Outside, front: Front = _IN_PROCESS
) -> AsyncGenerator[SkillUseCases]:
    patience_s = settings.toolcrib.limits.first_index_wait_s
    with _open_known_skills(settings, known, outside, patience_s, front) as skill_use_cases:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(skill_use_cases.load)
            try:
                yield skill_use_cases
            finally:
                skill_use_cases.stop()


@contextmanager
def _open_known_skills(
    settings: Settings, known: Known, outside: Outside, patience_s: float, front: Front = _IN_PROCESS
) -> Generator[SkillUseCases]:
    """Open the skills as they were last scanned; questions wait so long for a first scan."""
    section = settings.toolcrib
    told = teller(known.events, IndexRebuilt, SKILL_CACHE)
    with Store(
        settings.skill_cache, SKILLS_SCHEMA, fts=section.tool_search.fts, clock=outside.wall_clock, told=told
    ) as store:
        known.stores[SKILL_CACHE] = store
        index = SkillIndex(store)
        search = search_settings(settings, outside, known.model, VectorCache(store, SKILL_TEXTS))
        parts = SkillUseCaseParts(
            settings=settings,
            catalog=SkillCatalog(settings, index, known.state.skills, outside.wall_clock),
            searcher=SkillSearcher(index, search),
            gate=known.gate,
            indexer=known.indexer,
            events=known.events,
            deadline=anyio.current_time() + patience_s,
            is_local=front.one_client,
        )
        yield SkillUseCases(parts)


@asynccontextmanager
async def open_tools(settings: Settings, outside: Outside) -> AsyncGenerator[ToolUseCases]:
    """Open the index, the fleet and all between, and begin to list what has to be listed."""
    with open_catalog(settings, outside, outside.mirror) as known:
        async with _open_tools(settings, known, outside) as tool_use_cases:
            yield tool_use_cases


@asynccontextmanager
async def open_skills(settings: Settings, outside: Outside) -> AsyncGenerator[SkillUseCases]:
    """Open the skills, with what is known of tools but without any server, and begin to scan for changes."""
    with open_catalog(settings, outside, outside.mirror) as known:
        async with _open_skills(settings, known, outside) as skill_use_cases:
            yield skill_use_cases


@asynccontextmanager
async def open_server(settings: Settings, hosts: Hosts, outside: Outside) -> AsyncGenerator[Wire]:
    """Open tools and skills with their protocol side."""
    async with AsyncExitStack() as stack:
        known = stack.enter_context(open_catalog(settings, outside, outside.mirror))
        front = _front_of(settings, hosts)
        tool_use_cases = await stack.enter_async_context(_open_tools(settings, known, outside, front))
        kept = KeptActivations(known.state.sessions, outside.wall_clock)
        sessions = Sessions(settings, kept, hosts, tool_use_cases.fleet)
        skill_use_cases = None
        if settings.toolcrib.skills.enabled:
            skill_use_cases = await stack.enter_async_context(_open_skills(settings, known, outside, front))
        offers = OfferUseCases(
            OfferUseCaseParts(
                settings=settings,
                indexer=known.offers,
                texts=known.offer_texts,
                searcher=OfferSearcher(known.search),
                fleet=tool_use_cases.fleet,
                gate=known.offer_gate,
                tools_gate=known.gate,
                tools=known.indexer.current,
                events=known.events,
                first_index_deadline=anyio.current_time() + settings.toolcrib.limits.first_index_wait_s,
            )
        )
        builtins = Builtins(BuiltinParts(settings, tool_use_cases, skill_use_cases, offers))
        status = StatusParts(
            settings=settings,
            gate=known.gate,
            catalog=known.indexer.current,
            rows=known.index.server_rows,
            failures=known.failures.read,
            stores=known.stores,
            fleet=tool_use_cases.fleet,
            skill_use_cases=skill_use_cases,
            offers=known.offer_gate,
            refused_offers=known.offers.refused,
            model=known.model,
            now=outside.wall_clock,
        )
        instructions = Instructions(settings, tool_use_cases, builtins, skill_use_cases)
        parts = WireParts(
            tool_use_cases=tool_use_cases,
            builtins=builtins,
            instructions=instructions,
            sessions=sessions,
            hosts=hosts,
            methods=methods_offered(sessions, status, skill_use_cases, offers),
            greeting=GreetingParts(settings.cache_dir, tool_use_cases, skill_use_cases, instructions, known.stores),
            offers=offers,
            limits=settings.toolcrib.limits,
            logs=bool(settings.servers),
        )
        yield await stack.enter_async_context(open_wire(parts))


@contextmanager
def open_status(settings: Settings, outside: Outside) -> Generator[StatusParts]:
    """Open what is known, without a server or a scan, for whoever the config belongs to. What is not there is not made.

    Raises:
        StoreError: an index cannot be read.

    """
    with ExitStack() as stack:
        known = skill_use_cases = None
        if settings.tool_cache.exists():
            known = stack.enter_context(open_known(settings, outside, EventLog(_to_nobody)))
            known.indexer.load()
            known.offers.load()
            if settings.toolcrib.skills.enabled and settings.skill_cache.exists():
                skill_use_cases = stack.enter_context(_open_known_skills(settings, known, outside, patience_s=0))
        yield StatusParts(
            settings=settings,
            gate=known.gate if known else gate_of(settings, policy_of(settings.toolcrib.policy))[0],
            catalog=known.indexer.current if known else partial(Catalog, ()),
            rows=known.index.server_rows if known else dict,
            failures=known.failures.read if known else dict,
            stores=known.stores if known else {},
            fleet=None,
            skill_use_cases=skill_use_cases,
            offers=known.offer_gate if known else None,
            refused_offers=known.offers.refused if known else _nothing_refused,
            model=model_of(settings),
            now=outside.wall_clock,
            is_owners=True,
        )


def _look_at_offers(offers: OfferIndexer, change: CatalogChange) -> None:
    """Have what is offered besides tools read again where another process has written the index."""
    if change.server is None:
        offers.look()


def _front_of(settings: Settings, hosts: Hosts) -> Front:
    """Return who can come: over HTTP by the tokens there are, else only the person at this machine."""
    principals = {(entry.tenant_id, entry.subject) for entry in settings.toolcrib.http.tokens}
    return Front(one_client=hosts.serves_one, one_principal=hosts.serves_one or len(principals) <= 1)


def _nothing_refused(_server: str) -> tuple[Refused, ...]:
    """Know of nothing that was refused."""
    return ()


def _to_nobody(_line: Callable[[], str]) -> None:
    """Take an event that nobody is told of."""


def _state_reporter(events: EventLog, failures: ServerFailures) -> Callable[[str, Status], None]:
    def report(server: str, status: Status) -> None:
        failures.note(server, status)
        events.emit(DownstreamState(server=server, state=status.state.value, reason=status.reason))
        if status.state.value == "failed":
            _log.warning("server %s: %s", server, status.reason)

    return report
