"""What is known without a running server: the indexes, decisions and policy of a config, opened and closed again."""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from toolcrib.base.clocks import steady
from toolcrib.base.model import BUILTIN_NAMES
from toolcrib.catalog.arguments import SchemaChecker
from toolcrib.catalog.denied_names import NameMaskers
from toolcrib.catalog.failures import ServerFailures
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.index import TOOL_TEXTS, TOOLS_SCHEMA, ToolIndex
from toolcrib.catalog.indexing import Indexer
from toolcrib.catalog.learning import Learning
from toolcrib.catalog.offer_search import OfferGate, OfferTexts
from toolcrib.catalog.offers import OfferIndex, OfferIndexer
from toolcrib.catalog.tool_search import Searcher, ToolFinder
from toolcrib.catalog.views import CatalogViews
from toolcrib.config.settings import STATE, TOOL_CACHE, Settings
from toolcrib.events.kinds import IndexRebuilt, StateReplaced
from toolcrib.events.log import EventFile, EventLog, open_event_log
from toolcrib.policy.confirmations import Confirmations
from toolcrib.policy.rules import Policy, policy_of
from toolcrib.policy.state import SessionBounds, State, open_state
from toolcrib.search.engine import SearchSettings
from toolcrib.search.semantic import Semantic, SharedModel, VectorStore, load_model
from toolcrib.storage.store import Store
from toolcrib.storage.vectors import VectorCache

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Four clocks: wall time, a clock for stored times, monotonic time, and a thread's CPU time.

    The wall clock is for show alone: somebody may set it at any moment. What is kept with a time, and forgotten or read
    again after some time, goes by ``lasting_clock``; what ends with the process by ``clock``. The last is for bounds on
    a pattern's own work.
    """

    wall_clock: Callable[[], float] = time.time
    lasting_clock: Callable[[], float] = field(default_factory=steady)
    clock: Callable[[], float] = time.monotonic
    thread_clock: Callable[[], float] = time.thread_time


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of tools without any server being up, and where events go. ``stores`` are the open index files."""

    index: ToolIndex
    indexer: Indexer
    failures: ServerFailures
    gate: Gate
    state: State
    confirmations: Confirmations
    views: CatalogViews
    checker: SchemaChecker
    events: EventLog
    model: SharedModel | None
    search: SearchSettings
    stores: dict[str, Store]
    offers: OfferIndexer
    offer_gate: OfferGate
    offer_texts: OfferTexts
    learning: Learning


@contextmanager
def open_catalog(
    settings: Settings,
    clocks: Clocks,
    mirror: Callable[[str], None] | None = None,
    state: State | None = None,
    *,
    keep_rows: bool = False,
) -> Generator[Known]:
    """Open everything known about tools, with the event log, ready to list servers again.

    ``state`` are decisions that are open already. ``keep_rows``: no server is listed anew, or another config is in use
    meanwhile, so nothing is dropped of what is indexed: another process may be finding tools by it.
    """
    with _open_events(settings, clocks, mirror) as events, open_known(settings, clocks, events, state) as known:
        if keep_rows:
            known.indexer.load()
        else:
            known.indexer.open()
        known.offers.load()
        known.failures.open()
        known.learning.open()
        yield known


@contextmanager
def open_known(settings: Settings, clocks: Clocks, events: EventLog, state: State | None = None) -> Generator[Known]:
    """Open all that is known of tools; what happens is told to ``events``. ``state``: see :func:`open_catalog`."""
    section = settings.toolcrib
    with ExitStack() as stack:
        state = state or stack.enter_context(open_decisions(settings, clocks, teller(events, StateReplaced, STATE)))
        told = teller(events, IndexRebuilt, TOOL_CACHE)
        store = stack.enter_context(
            Store(settings.tool_cache, TOOLS_SCHEMA, fts=section.tool_search.fts, clock=clocks.lasting_clock, told=told)
        )
        index = ToolIndex(store)
        policy = policy_of(settings.toolcrib.policy)
        checker = SchemaChecker(section.limits.schema_check_ms, clocks.clock)
        indexer = Indexer(settings, policy, index, clocks.lasting_clock, checker.fits)
        failures = ServerFailures(settings, store, clocks.wall_clock)
        gate, maskers = gate_of(settings, policy)
        views = CatalogViews(index, maskers)
        stores = {STATE: state.store, TOOL_CACHE: store}
        model = model_of(settings)
        search = search_settings(settings, clocks, model, VectorCache(store, TOOL_TEXTS))
        offer_index = OfferIndex(store)
        offers = OfferIndexer(settings, policy, offer_index, clocks.lasting_clock)
        yield Known(
            index=index,
            indexer=indexer,
            failures=failures,
            gate=gate,
            state=state,
            confirmations=Confirmations(state.approvals, section.limits.answer_timeout_s, events, clocks.lasting_clock),
            views=views,
            checker=checker,
            events=events,
            model=model,
            search=search,
            stores=stores,
            offers=offers,
            offer_gate=OfferGate(settings.servers, gate, offers, indexer.current),
            offer_texts=OfferTexts(offer_index),
            learning=Learning(settings, policy, state.vocabularies, clocks.lasting_clock),
        )


@contextmanager
def open_index(settings: Settings, clocks: Clocks) -> Generator[ToolIndex | None]:
    """Open only the index of tools, for reading; None if there is none yet.

    Raises:
        StoreError: it cannot be read.

    """
    if not settings.tool_cache.exists():
        yield None
        return
    fts = settings.toolcrib.tool_search.fts
    with Store(settings.tool_cache, TOOLS_SCHEMA, fts=fts, clock=clocks.lasting_clock) as store:
        yield ToolIndex(store)


def gate_of(settings: Settings, policy: Policy) -> tuple[Gate, NameMaskers]:
    """Return the gate that decides what a caller may use, and the index of names mentioned in texts."""
    maskers = NameMaskers(tuple(settings.servers), BUILTIN_NAMES)
    return Gate(settings, policy, maskers), maskers


@contextmanager
def open_decisions(settings: Settings, clocks: Clocks, told: Callable[[str], None] | None = None) -> Generator[State]:
    """Open ``state.db``, with what a person has decided.

    ``told`` gets the reason, from any thread, where another file or memory is used in its place.

    Raises:
        StoreError: it can neither be read nor replaced.

    """
    limits = settings.toolcrib.limits
    bounds = SessionBounds(limits.sessions_kept, limits.activations_kept, limits.sessions_kept_s)
    told = told or teller(None, StateReplaced, STATE)
    with open_state(settings.state_file, bounds, clock=clocks.lasting_clock, told=told) as state:
        yield state


def teller(events: EventLog | None, kind: type[IndexRebuilt] | type[StateReplaced], file: str) -> Callable[[str], None]:
    """Return what tells, from any thread, that another file or memory is used in the place of one of ours."""

    def tell(reason: str) -> None:
        _log.warning("%s: %s", file, reason)
        if events:
            events.emit(kind(file=file, reason=reason))

    return tell


def model_of(settings: Settings) -> SharedModel | None:
    """Return the model for search by meaning, if configured; it is loaded on first use."""
    section = settings.toolcrib.tool_search.semantic
    if not section.enabled or section.path is None:
        return None
    return SharedModel(partial(load_model, Path(section.path)))


def search_settings(
    settings: Settings, clocks: Clocks, model: SharedModel | None, vectors: VectorStore
) -> SearchSettings:
    """Return the settings of one search; those for tools and for skills share the model, each has its own vectors."""
    alpha = settings.toolcrib.tool_search.semantic.alpha
    semantic = None if model is None else Semantic(model, vectors, alpha)
    limits = settings.toolcrib.limits
    return SearchSettings(limits.regex_ms, clocks.thread_clock, semantic, ranked_in_memory=limits.ranked_in_memory)


def finder_of(settings: Settings, known: Known) -> ToolFinder:
    """Return the search over the index of tools, whether their servers are running or not."""
    preferred = settings.toolcrib.tool_search.preferred_namespaces
    return ToolFinder(Searcher(known.views, known.search, preferred), known.gate, known.views, known.learning)


def _open_events(
    settings: Settings, clocks: Clocks, mirror: Callable[[str], None] | None
) -> AbstractContextManager[EventLog]:
    """Open the event log, which redacts secrets of servers and personal data."""
    section = settings.toolcrib.events
    return open_event_log(
        EventFile(settings.events_file, section.max_bytes),
        level=section.level,
        mirror=mirror,
        clean=settings.redactor.redact,
        clock=clocks.wall_clock,
    )
