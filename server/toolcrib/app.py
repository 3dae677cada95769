"""The composition root: puts the parts together for a config, and takes them apart again in order.

Knows which part needs which; never knows what any of them does in detail.
"""

import logging
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio

from toolcrib.arguments import ArgumentChecks
from toolcrib.config.schema import Listing
from toolcrib.config.settings import TOOL_CACHE, Settings
from toolcrib.crib import Crib, Parts
from toolcrib.downstream.connection import Era, known_era
from toolcrib.downstream.fleet import open_fleet
from toolcrib.downstream.lifecycle import Status, Surroundings
from toolcrib.downstream.transport import Connector, open_streams
from toolcrib.errors import StartRefused
from toolcrib.events import EventFile, EventLog, open_event_log
from toolcrib.gate import Gate
from toolcrib.index.ranking import Searcher
from toolcrib.index.store import Store
from toolcrib.index.tool_tables import TOOLS_SCHEMA
from toolcrib.index.tools import ToolIndex
from toolcrib.indexing import Indexer
from toolcrib.redaction import Redactor, redact_text
from toolcrib.schema_check import SchemaChecker
from toolcrib.wire.builtin import Builtins
from toolcrib.wire.server import Wire, open_wire
from toolcrib.wire.sessions import Sessions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outside:
    """What the program takes from the world: ways to reach servers, two clocks, chance, and a mirror for events."""

    connector: Connector = open_streams
    wall_clock: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random
    mirror: Callable[[str], None] | None = None


def settle_listing(settings: Settings, transport: str) -> Listing:
    """Return the gate's listing mode: as configured, else by transport."""
    section = settings.toolcrib
    if not settings.servers or not section.tool_search.enabled:
        return "stable"
    if section.gate.listing is not None:
        return section.gate.listing
    return "auto" if transport == "http" and section.http.tokens else "dynamic"


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
async def open_crib(settings: Settings, outside: Outside) -> AsyncGenerator[Crib]:
    """Open the index, the fleet and all between, and begin to list what has to be listed."""
    section = settings.toolcrib
    async with AsyncExitStack() as stack:
        events = stack.enter_context(_open_events(settings, outside))
        store = stack.enter_context(
            Store(settings.tool_cache, TOOLS_SCHEMA, fts=section.tool_search.fts, clock=outside.wall_clock)
        )
        if store.rebuilt:
            events.emit("index_rebuilt", file=TOOL_CACHE, reason=store.rebuilt)
        index = ToolIndex(store)
        index.expire_activations(outside.wall_clock() - section.limits.sessions_kept_s)
        policy = settings.policy
        indexer = Indexer(settings, policy, index, outside.wall_clock)
        indexer.open()
        gate = Gate(settings, policy, index, outside.wall_clock)
        eras: dict[str, Era] = {
            key: era for key, row in index.server_rows().items() if (era := known_era(row.era)) is not None
        }
        surroundings = Surroundings(
            section.limits, outside.connector, indexer.listed, _state_reporter(events), outside.jitter
        )
        fleet = await stack.enter_async_context(open_fleet(settings.servers, eras, surroundings))
        parts = Parts(
            settings=settings,
            index=index,
            indexer=indexer,
            searcher=Searcher(
                index,
                preferred_namespaces=section.tool_search.preferred_namespaces,
                fallback=section.tool_search.fts_fallback_to_regex,
                regex_ms=section.limits.regex_ms,
                clock=outside.clock,
            ),
            fleet=fleet,
            gate=gate,
            checks=ArgumentChecks(
                index, SchemaChecker(section.limits.schema_check_ms, outside.clock), section.limits.schema_check_ms
            ),
            events=events,
            first_index_deadline=anyio.current_time() + section.limits.first_index_wait_s,
        )
        fleet.begin(indexer.unlisted(), indexer.stale())
        yield Crib(parts)


@asynccontextmanager
async def open_server(settings: Settings, listing: Listing, outside: Outside) -> AsyncGenerator[Wire]:
    """Open a crib with its protocol side."""
    async with open_crib(settings, outside) as crib:
        sessions = Sessions(settings, crib.gate, listing)
        async with open_wire(crib, Builtins(settings), sessions, listing) as wire:
            yield wire


def _open_events(settings: Settings, outside: Outside) -> AbstractContextManager[EventLog]:
    """Open the event log; no secret of any server, and nobody's personal data, gets past it."""
    section = settings.toolcrib.events
    redactor = Redactor(secret for server in settings.servers.values() for secret in server.secrets)
    return open_event_log(
        EventFile(settings.events_file, section.max_bytes),
        level=section.level,
        mirror=outside.mirror,
        clean=lambda text: redact_text(redactor.clean(text)),
        now=lambda: datetime.fromtimestamp(outside.wall_clock(), UTC),
    )


def _state_reporter(events: EventLog) -> Callable[[str, Status], None]:
    def report(server: str, status: Status) -> None:
        events.emit("downstream_state", server=server, state=status.state.value, reason=status.reason)
        if status.state.value == "failed":
            _log.warning("server %s: %s", server, status.reason)

    return report
