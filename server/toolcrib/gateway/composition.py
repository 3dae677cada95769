"""The composition root: builds the parts for a config, and closes them in order."""

import logging
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from toolcrib.auth.logins import Logins
from toolcrib.base.errors import StartRefused
from toolcrib.catalog.arguments import ArgumentChecks
from toolcrib.catalog.indexing import CatalogChange
from toolcrib.catalog.offer_search import OfferSearcher
from toolcrib.catalog.offers import OfferIndexer
from toolcrib.config.settings import Settings
from toolcrib.downstream.connection import Era, known_era
from toolcrib.downstream.fleet import Due, Fleet, open_fleet
from toolcrib.downstream.isolation import Isolation
from toolcrib.downstream.lifecycle import Surroundings
from toolcrib.downstream.offers import OfferSink
from toolcrib.downstream.process import open_lifeline
from toolcrib.downstream.states import DOWN, Status
from toolcrib.downstream.suspended import SuspendedCalls
from toolcrib.downstream.transport import Connector, open_streams
from toolcrib.events.kinds import DownstreamState
from toolcrib.events.server_logs import open_server_logs
from toolcrib.gateway.offers import OfferUseCaseParts, OfferUseCases
from toolcrib.gateway.offline import (
    Clocks,
    Known,
    finder_of,
    open_catalog,
)
from toolcrib.gateway.results import LongResults, ResultPages
from toolcrib.gateway.status import open_known_skills
from toolcrib.gateway.tools import CallConfirmations, ToolUseCaseParts, ToolUseCases, report_definitions
from toolcrib.skills.use_cases import SkillRuntime, SkillUseCases

_Opened = TypeVar("_Opened")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outside(Clocks):
    """External dependencies of the program: clocks, randomness, a mirror for events, and transports to servers.

    Where no ``connector`` is given, servers are reached as the config says. ``pause`` waits so many seconds between two
    looks at how old the catalog is. ``only`` are the servers that are listed by themselves at the start, where they
    have to be; None: all. ``pid`` is the number of this process.
    """

    connector: Connector | None = None
    jitter: Callable[[], float] = random.random
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
    mirror: Callable[[str], None] | None = None
    only: Collection[str] | None = None
    pid: int = field(default_factory=os.getpid)

    def lists(self, key: str) -> bool:
        """Return whether a server is listed automatically at the start, if it has to be."""
        return self.only is None or key in self.only


def refuse_without_session(settings: Settings) -> None:
    """Refuse session scope on stdio without a session id (R79).

    Raises:
        StartRefused: ``activation_scope: session`` without a session id.

    """
    if settings.toolcrib.tool_search.activation_scope == "session" and not settings.session_id:
        raise StartRefused(
            "tool_search.activation_scope is 'session', but there is no session id. Set context.session_id in the "
            "config or TOOLCRIB_SESSION_ID in the environment, or use activation_scope 'run'."
        )


@asynccontextmanager
async def _open_tools(settings: Settings, known: Known, outside: Outside) -> AsyncGenerator[ToolUseCases]:
    logins = Logins(settings.tokens_dir)
    async with (
        open_connector(settings, outside, logins) as connector,
        open_fleet(
            settings.servers, eras_of(known), _surroundings(settings, known, connector, outside, logins)
        ) as fleet,
        open_tool_use_cases(settings, known, outside, fleet) as tool_use_cases,
    ):
        fleet.begin(due(known, outside))
        yield tool_use_cases


@asynccontextmanager
async def open_tool_use_cases(
    settings: Settings, known: Known, outside: Outside, fleet: Fleet, kept: ResultPages | None = None
) -> AsyncGenerator[ToolUseCases]:
    """Open the use cases over a fleet, and keep what is known up to date. ``kept`` are pages of results, if any are."""
    section, finder = settings.toolcrib, finder_of(settings, known)
    parts = ToolUseCaseParts(
        settings=settings,
        indexer=known.indexer,
        finder=finder,
        fleet=fleet,
        gate=known.gate,
        checks=ArgumentChecks(known.index, known.checker, section.limits.schema_check_ms),
        call_confirmations=CallConfirmations(
            settings, known.confirmations, lambda session: finder.view(session, known.indexer.current())
        ),
        long_results=LongResults(settings, kept or ResultPages(section.limits, outside.clock)),
        events=known.events,
        learning=known.learning,
        first_index_deadline=anyio.current_time() + section.limits.first_index_wait_s,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(known.indexer.follow, fleet.list_again)
        tasks.start_soon(known.offers.follow)
        known.indexer.subscribe(partial(_look_at_offers, known.offers))
        known.indexer.subscribe(partial(report_definitions, known.events))
        known.indexer.prepare_by(finder.prepare)
        tasks.start_soon(known.failures.keep)
        tasks.start_soon(known.learning.keep)
        try:
            yield ToolUseCases(parts)
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(known.failures.flush)
                await anyio.to_thread.run_sync(known.learning.flush)


def offer_use_cases(settings: Settings, known: Known, fleet: Fleet, first_index_deadline: float) -> OfferUseCases:
    """Return the use cases of resources and prompts over a fleet."""
    return OfferUseCases(
        OfferUseCaseParts(
            settings=settings,
            indexer=known.offers,
            texts=known.offer_texts,
            searcher=OfferSearcher(known.search),
            fleet=fleet,
            gate=known.offer_gate,
            tools_gate=known.gate,
            tools=known.indexer.current,
            events=known.events,
            first_index_deadline=first_index_deadline,
        )
    )


def due(known: Known, outside: Outside) -> Due:
    """Return which servers have to be listed, and which are skipped."""
    unlisted = [key for key in known.indexer.unlisted() if outside.lists(key)]
    stale = dict.fromkeys([*known.indexer.stale(), *known.offers.unlisted()])
    left_out = {*unlisted, *known.indexer.closed}
    return Due(
        unlisted,
        [key for key in stale if key not in left_out and outside.lists(key)],
        known.failures.silent(),
        known.indexer.closed,
    )


def eras_of(known: Known) -> dict[str, Era]:
    """Return the era that each server spoke when it was last listed."""
    rows = known.index.server_rows()
    return {key: era for key, row in rows.items() if (era := known_era(row.era)) is not None}


@asynccontextmanager
async def open_connector(settings: Settings, outside: Outside, logins: Logins) -> AsyncGenerator[Connector]:
    """Open the transports to servers: no process of theirs outlives ours, and their stderr output is stored."""
    max_bytes = settings.toolcrib.limits.server_log_max_bytes
    async with open_lifeline() as lifeline:
        with open_server_logs(settings.cache_dir, max_bytes, settings.redactor.redact, outside.wall_clock) as logs:
            yield outside.connector or partial(open_streams, lifeline=lifeline, on_stderr=logs.note, logins=logins)


def _surroundings(
    settings: Settings, known: Known, connector: Connector, outside: Outside, logins: Logins
) -> Surroundings:
    return Surroundings(
        limits=settings.toolcrib.limits,
        connector=connector,
        listed=known.indexer.listed,
        state_changed=partial(report_state, known),
        jitter=outside.jitter,
        compared=known.indexer.compared,
        isolation=Isolation(one_client=True, one_principal=True),
        offers=OfferSink(known.offers.kinds, known.offers.listed),
        suspended_calls=SuspendedCalls(settings.toolcrib.limits),
        logins=logins,
    )


@asynccontextmanager
async def _open_skills(settings: Settings, known: Known, outside: Outside) -> AsyncGenerator[SkillUseCases]:
    deadline = anyio.current_time() + settings.toolcrib.limits.first_index_wait_s
    with open_known_skills(settings, known, outside, SkillRuntime(deadline)) as skill_use_cases:
        async with scanning(skill_use_cases):
            yield skill_use_cases


@asynccontextmanager
async def scanning(skill_use_cases: SkillUseCases) -> AsyncGenerator[None]:
    """Scan the skills for changes in the background."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(skill_use_cases.load)
        try:
            yield
        finally:
            skill_use_cases.stop()


@asynccontextmanager
async def open_tools(settings: Settings, outside: Outside) -> AsyncGenerator[ToolUseCases]:
    """Open the index, the fleet and all parts in between, and start to list servers that have to be listed."""
    with open_catalog(settings, outside, outside.mirror) as known:
        async with _open_tools(settings, known, outside) as tool_use_cases:
            yield tool_use_cases


@asynccontextmanager
async def open_skills(settings: Settings, outside: Outside) -> AsyncGenerator[SkillUseCases]:
    """Open the skills, with the index of tools but without any server, and start to scan for changes."""
    with open_catalog(settings, outside, outside.mirror, keep_rows=True) as known:
        async with _open_skills(settings, known, outside) as skill_use_cases:
            yield skill_use_cases


@asynccontextmanager
async def opened(make: Callable[[], AbstractContextManager[_Opened]]) -> AsyncGenerator[_Opened]:
    """Open and close files in a worker thread, while others are served."""
    files = ExitStack()
    try:
        yield await anyio.to_thread.run_sync(lambda: files.enter_context(make()))
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(files.close)


def _look_at_offers(offers: OfferIndexer, change: CatalogChange) -> None:
    """Reload resources and prompts after another process has written the index."""
    if change.server is None:
        offers.schedule_reload()


def report_state(known: Known, server: str, status: Status) -> None:
    """Notify everyone who stores or watches it of a server's new state."""
    known.failures.note(server, status)
    known.events.emit(DownstreamState(server=server, state=status.state.value, reason=status.reason))
    if status.state in DOWN:
        _log.warning("server %s: %s", server, status.reason)
