"""What works without a running server: the indexes, decisions, policy, search and events of one config.

Nothing here imports the SDK, so that a search from the command line does not wait for it.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from toolcrib.catalog.arguments import SchemaChecker
from toolcrib.catalog.failures import ServerFailures
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.index import TOOL_TEXTS, TOOLS_SCHEMA, ToolIndex
from toolcrib.catalog.indexing import Indexer
from toolcrib.catalog.learning import Learning
from toolcrib.catalog.offer_search import OfferGate, OfferTexts
from toolcrib.catalog.offers import OfferIndex, OfferIndexer
from toolcrib.catalog.own_words import OwnWords
from toolcrib.catalog.tool_search import Searcher, ToolFinder
from toolcrib.catalog.views import CatalogViews
from toolcrib.config.settings import STATE, TOOL_CACHE, Settings
from toolcrib.events.kinds import IndexRebuilt, StateReplaced
from toolcrib.events.log import EventFile, EventLog, open_event_log
from toolcrib.gateway.runtime import Runtime
from toolcrib.gateway.whole_lists import ToolPrices
from toolcrib.policy.confirmations import Confirmations
from toolcrib.policy.rules import policy_of
from toolcrib.policy.state import SessionBounds, State, open_state
from toolcrib.search.capabilities import NO_CAPABILITIES, Capabilities, shipped
from toolcrib.search.engine import SearchSettings
from toolcrib.search.semantic import Semantic, SharedModel, VectorStore, static_model
from toolcrib.storage.store import Store
from toolcrib.storage.vectors import VectorCache

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Offline:
    """The parts of one config that need no running server. ``stores`` are the open database files by name."""

    settings: Settings
    index: ToolIndex
    indexer: Indexer
    failures: ServerFailures
    gate: Gate
    prices: ToolPrices
    finder: ToolFinder
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
    own_words: OwnWords


@contextmanager
def open_offline(
    settings: Settings,
    runtime: Runtime,
    *,
    state: State | None = None,
    events: EventLog | None = None,
    keep_rows: bool = False,
    before: Offline | None = None,
) -> Generator[Offline]:
    """Open everything known of a config's servers, with the last known catalog loaded. Blocks.

    ``state`` and ``events`` are used if they are open already, and so is the model of the config ``before`` if it is
    the same. ``keep_rows``: no server is listed anew, or another
    config is in use meanwhile, so no indexed row is deleted: another process may be finding tools by it.

    Raises:
        StoreError: a database file can neither be read nor replaced.

    """
    section = settings.toolcrib
    with ExitStack() as stack:
        # First of all, since whatever is opened next may have something to report.
        if events is None:
            events = stack.enter_context(
                open_event_log(
                    None if settings.in_memory else EventFile(settings.events_file, section.events.max_bytes),
                    level=section.events.level,
                    mirror=runtime.mirror,
                    clean=settings.redactor.redact,
                    clock=runtime.wall_clock,
                    command=runtime.command,
                )
            )
        if state is None:
            on_replaced = partial(report_replaced_file, events, StateReplaced, STATE)
            state = stack.enter_context(open_decisions(settings, runtime, on_replaced))
        store = stack.enter_context(
            Store(
                settings.stored(settings.tool_cache),
                TOOLS_SCHEMA,
                fts=section.tool_search.fts,
                clock=runtime.lasting_clock,
                on_replaced=partial(report_replaced_file, events, IndexRebuilt, TOOL_CACHE),
            )
        )
        index, offer_index = ToolIndex(store, shipped(settings.capabilities)), OfferIndex(store)
        policy = policy_of(section.policy)
        checker = SchemaChecker(section.limits.schema_check_ms, runtime.clock)
        has_same_model = before is not None and _model_settings(before.settings) == _model_settings(settings)
        model = before.model if before and has_same_model else semantic_model(settings)
        search = search_settings(settings, runtime, model, VectorCache(store, TOOL_TEXTS), index.reading.capabilities)
        embed = search.semantic.fill if search.semantic else None
        indexer = Indexer(settings, policy, index, runtime.lasting_clock, checker.fits, embed)
        offers = OfferIndexer(settings, policy, offer_index, runtime.lasting_clock)
        failures = ServerFailures(settings, store, runtime.wall_clock)
        learning = Learning(settings, policy, state.vocabularies, runtime.lasting_clock)
        own_words = OwnWords(state.requests)
        prices = ToolPrices(settings, index)
        gate = Gate(settings, policy, prices.known)
        views = CatalogViews(index, gate.maskers, own_words.current)
        searcher = Searcher(views, search, section.tool_search.preferred_namespaces)
        # Opening deletes the rows of servers that the config lacks.
        if keep_rows:
            indexer.load()
        else:
            indexer.open()
        offers.load()
        failures.open()
        learning.open()
        own_words.open()
        yield Offline(
            settings=settings,
            index=index,
            indexer=indexer,
            failures=failures,
            gate=gate,
            prices=prices,
            finder=ToolFinder(searcher, gate, views, learning, own_words),
            state=state,
            confirmations=Confirmations(
                state.approvals, section.limits.answer_timeout_s, events, runtime.lasting_clock
            ),
            views=views,
            checker=checker,
            events=events,
            model=model,
            search=search,
            stores={STATE: state.store, TOOL_CACHE: store},
            offers=offers,
            offer_gate=OfferGate(settings.servers, gate, offers, indexer.current),
            offer_texts=OfferTexts(offer_index),
            learning=learning,
            own_words=own_words,
        )


@contextmanager
def open_index(settings: Settings, runtime: Runtime) -> Generator[ToolIndex | None]:
    """Open only the index of tools, for reading; None if there is none yet. Blocks.

    Raises:
        StoreError: it cannot be read.

    """
    # Opening would create it, and a command that reads creates nothing.
    if not settings.tool_cache.exists():
        yield None
        return
    fts = settings.toolcrib.tool_search.fts
    with Store(settings.tool_cache, TOOLS_SCHEMA, fts=fts, clock=runtime.lasting_clock) as store:
        yield ToolIndex(store, shipped(settings.capabilities))


@contextmanager
def open_decisions(
    settings: Settings, runtime: Runtime, on_replaced: Callable[[str], None] | None = None
) -> Generator[State]:
    """Open ``state.db``, with what a person has decided. Blocks.

    ``on_replaced`` gets the reason, on any thread, if another file or memory takes the place of the file.

    Raises:
        StoreError: it can neither be read nor replaced.

    """
    limits = settings.toolcrib.limits
    bounds = SessionBounds(limits.sessions_kept, limits.activations_kept, limits.sessions_kept_s)
    on_replaced = on_replaced or partial(report_replaced_file, None, StateReplaced, STATE)
    file = settings.stored(settings.state_file)
    with open_state(file, bounds, clock=runtime.lasting_clock, on_replaced=on_replaced) as state:
        yield state


def report_replaced_file(
    events: EventLog | None, kind: type[IndexRebuilt] | type[StateReplaced], file: str, reason: str
) -> None:
    """Report that another file or memory takes the place of one of our database files. Safe on any thread."""
    _log.warning("%s: %s", file, reason)
    if events:
        events.emit(kind(file=file, reason=reason))


def semantic_model(settings: Settings) -> SharedModel | None:
    """Return the model for search by meaning, unless the config disables it; it is looked for and loaded on first use.

    By default it is used if it is installed.
    """
    section = settings.toolcrib.tool_search.semantic
    if section.enabled is False:
        return None
    own = None if section.path is None else Path(section.path)
    return static_model(own, settings.downloaded_model_dir, optional=section.enabled == "auto")


def _model_settings(settings: Settings) -> tuple[object, ...]:
    """Return what decides which model is used."""
    section = settings.toolcrib.tool_search.semantic
    return section.enabled, section.path, section.model, settings.place.cache_home


def search_settings(
    settings: Settings,
    runtime: Runtime,
    model: SharedModel | None,
    vectors: VectorStore,
    capabilities: Capabilities = NO_CAPABILITIES,
) -> SearchSettings:
    """Return the settings of one search: tools and skills share the model, each has its own vectors."""
    alpha = settings.toolcrib.tool_search.semantic.alpha
    semantic = None if model is None else Semantic(model, vectors, alpha, capabilities)
    limits = settings.toolcrib.limits
    return SearchSettings(limits.regex_ms, runtime.thread_clock, semantic, ranked_in_memory=limits.ranked_in_memory)
