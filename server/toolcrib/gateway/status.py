"""The overall status: servers, tools, skills, search by meaning and index files, as one value for one caller."""

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from toolcrib import __version__
from toolcrib.auth.logins import login_facts
from toolcrib.base.model import JsonObject, OfferKind, Refused
from toolcrib.base.names import public_name
from toolcrib.catalog.failures import KnownFailure
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.index import ServerRow, rows_fingerprint
from toolcrib.catalog.offer_search import OfferGate
from toolcrib.catalog.offers import KINDS
from toolcrib.catalog.snapshot import Catalog
from toolcrib.config.settings import SKILL_CACHE, ServerSettings, Settings
from toolcrib.events.kinds import IndexRebuilt
from toolcrib.events.log import EventLog
from toolcrib.gateway.offline import Clocks, Known, gate_of, model_of, open_known, search_settings, teller
from toolcrib.policy.client_profiles import ClientProfile
from toolcrib.policy.rules import Permissions, policy_of
from toolcrib.policy.sessions import Session
from toolcrib.search.semantic import SemanticState, SharedModel, state_of
from toolcrib.skills.answers import SkillsStatus
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.index import SKILL_TEXTS, SKILLS_SCHEMA, SkillIndex
from toolcrib.skills.overviews import Overviews
from toolcrib.skills.penalties import ReportedOutcomes
from toolcrib.skills.search import SkillSearcher
from toolcrib.skills.use_cases import SkillDependencies, SkillRuntime, SkillUseCases
from toolcrib.storage.store import Store
from toolcrib.storage.vectors import VectorCache

if TYPE_CHECKING:
    from toolcrib.downstream.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Running:
    """What a server is doing in this process, and since when, in seconds since the epoch; ``reason`` is for people."""

    state: str
    reason: str
    since: float


@dataclass(frozen=True, slots=True)
class Listed:
    """The last listing of a server: when, in seconds since the epoch, in which era, and which tools were refused."""

    at: float
    protocol: str | None
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server. ``tools`` and ``offers``, by kind, are those that the caller may use.

    ``running`` is None where this process runs no servers, ``listed`` where nothing is known under this config,
    ``failure`` where it was listed since it failed the last time, by any process. ``withheld`` is what the caller's
    client can be asked and the server is not told: nobody could tell whom it means (``servers.NAME.isolation``).
    ``is_closed``: the policy leaves nobody anything of it, so it is not started. ``login`` is what may be told of the
    login to it, where there is one and the caller is the person whose it is.
    """

    key: str
    tools: int
    offers: Mapping[OfferKind, int]
    running: Running | None
    listed: Listed | None
    failure: KnownFailure | None
    withheld: tuple[str, ...] = ()
    is_closed: bool = False
    login: JsonObject | None = None

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        running, listed = self.running, self.listed
        doing = {"state": running.state, "reason": running.reason, "since": _time(running.since)} if running else {}
        return {
            "server": self.key,
            **doing,
            "failure": _failure_json(self.failure),
            "login": self.login,
            "withheld": list(self.withheld),
            "tools": self.tools,
            **_offers_json(self.offers),
            "listed_at": _time(listed.at) if listed else None,
            "protocol": listed.protocol if listed else None,
            "refused": [{"name": each.name, "reason": each.reason} for each in listed.refused] if listed else [],
        }


@dataclass(frozen=True, slots=True)
class Loaded:
    """When the config in use was read, in seconds since the epoch, and how the last try to read it again went.

    ``failure`` says why that one could not be used; empty where it is in use. ``fixed`` are keys that differed then and
    take a restart.
    """

    at: float
    failure: str = ""
    fixed: tuple[str, ...] = ()

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {"at": _time(self.at), "failure": self.failure, "needs_restart": list(self.fixed)}


@dataclass(frozen=True, slots=True)
class Status:
    """The whole status, for one session.

    ``client`` is the name that the session's client gives itself, ``served`` how such a client is served. ``allowed``
    and ``deferred`` count tools that the caller may use, ``activated`` are those of them that the session has used.
    ``loaded`` is None where nothing was loaded again, by a process that is not asked. ``skills`` is None where they
    are switched off. ``rebuilt`` tells of index files that could not be used as they
    were, by name, why.
    """

    session: str
    client: str
    served: ClientProfile
    allowed: int
    deferred: int
    activated: tuple[str, ...]
    servers: tuple[ServerStatus, ...]
    skills: SkillsStatus | None
    semantic: SemanticState
    rebuilt: Mapping[str, str]
    loaded: Loaded | None = None
    version: str = __version__

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "version": self.version,
            "session": self.session,
            "client": self.client,
            **self.served.as_json,
            "tools": {"allowed": self.allowed, "deferred": self.deferred, "activated": list(self.activated)},
            **_offers_json({kind: sum(each.offers[kind] for each in self.servers) for kind in KINDS}),
            "servers": [server.as_json for server in self.servers],
            "skills": self.skills and self.skills.as_json,
            "semantic": self.semantic.json(),
            "rebuilt": dict(self.rebuilt),
            "loaded": self.loaded and self.loaded.as_json,
        }


@dataclass(frozen=True, slots=True)
class StatusParts:
    """The sources of the status. ``catalog`` never blocks, ``rows`` and ``failures`` may.

    ``offers`` and ``refused_offers`` are about what servers have besides tools; None where nothing is known of that.
    ``now`` gives seconds since the epoch, ``loaded`` when the config was read. ``fleet`` is None in a process that runs
    no servers, ``skill_use_cases`` where there are no skills. ``is_owners``: it is for the person whose config it is,
    who is told of every server, whatever a policy keeps from callers.
    """

    settings: Settings
    gate: Gate
    catalog: Callable[[], Catalog]
    rows: Callable[[], Mapping[str, ServerRow]]
    failures: Callable[[], Mapping[str, KnownFailure]]
    stores: Mapping[str, Store]
    fleet: "Fleet | None"
    skill_use_cases: SkillUseCases | None
    offers: OfferGate | None
    refused_offers: Callable[[str], tuple[Refused, ...]]
    model: SharedModel | None
    now: Callable[[], float]
    is_owners: bool = False
    loaded: Callable[[], Loaded | None] = lambda: None


@contextmanager
def open_known_skills(
    settings: Settings, known: Known, clocks: Clocks, runtime: SkillRuntime
) -> Generator[SkillUseCases]:
    """Open the skills as they were last scanned. Blocks."""
    section = settings.toolcrib
    told = teller(known.events, IndexRebuilt, SKILL_CACHE)
    with Store(
        settings.skill_cache, SKILLS_SCHEMA, fts=section.tool_search.fts, clock=clocks.lasting_clock, told=told
    ) as store:
        known.stores[SKILL_CACHE] = store
        index = SkillIndex(store)
        search = search_settings(settings, clocks, known.model, VectorCache(store, SKILL_TEXTS))
        dependencies = SkillDependencies(
            settings=settings,
            catalog=SkillCatalog(settings, index, known.state.skills, clocks.lasting_clock),
            searcher=SkillSearcher(index, search),
            outcomes=ReportedOutcomes(known.state.outcomes, clocks.lasting_clock, enabled=section.skills.outcomes),
            gate=known.gate,
            indexer=known.indexer,
            views=known.views,
            events=known.events,
            confirmations=known.confirmations,
            runtime=runtime,
        )
        yield SkillUseCases(dependencies)


@contextmanager
def open_status(settings: Settings, clocks: Clocks) -> Generator[StatusParts]:
    """Open what is known, without a server or a scan, for whoever the config belongs to. What is not there is not made.

    Raises:
        StoreError: an index cannot be read.

    """
    with ExitStack() as stack:
        known = skill_use_cases = None
        if settings.tool_cache.exists():
            known = stack.enter_context(open_known(settings, clocks, EventLog(_to_nobody)))
            known.indexer.load()
            known.offers.load()
            if settings.toolcrib.skills.enabled and settings.skill_cache.exists():
                skill_use_cases = stack.enter_context(
                    open_known_skills(settings, known, clocks, SkillRuntime(-math.inf))
                )
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
            now=clocks.wall_clock,
            is_owners=True,
            loaded=partial(_last_reload, known),
        )


async def status_of(parts: StatusParts, session: Session) -> Status:
    """Return the status as the session's caller may know it (R187, R204)."""
    catalog = parts.catalog()
    permitted = parts.gate.allowed(session, catalog)
    usable = {tool.public_name for tool in permitted.tools}
    known = await anyio.to_thread.run_sync(lambda: (parts.rows(), parts.failures()))
    loaded = await anyio.to_thread.run_sync(parts.loaded)
    logins: Mapping[str, JsonObject] = {}
    if parts.is_owners or session.caller.principal == "local":
        told = partial(login_facts, parts.settings.tokens_dir, parts.settings.servers.values())
        logins = await anyio.to_thread.run_sync(told)
    semantic = await anyio.to_thread.run_sync(state_of, parts.model)
    return Status(
        session=session.label,
        client=session.client,
        served=session.client_profile,
        allowed=len(permitted.tools),
        deferred=permitted.deferred_count,
        activated=tuple(sorted(usable.intersection(parts.gate.activated(session, catalog)))),
        servers=tuple(replace(each, login=logins.get(each.key)) for each in _servers(parts, session, catalog, *known)),
        skills=await Overviews(parts.skill_use_cases).status(session) if parts.skill_use_cases else None,
        semantic=semantic,
        rebuilt={name: store.rebuilt for name, store in parts.stores.items() if store.rebuilt},
        loaded=loaded,
    )


def _servers(
    parts: StatusParts,
    session: Session,
    catalog: Catalog,
    rows: Mapping[str, ServerRow],
    failures: Mapping[str, KnownFailure],
) -> Iterable[ServerStatus]:
    """Yield the servers of which the caller may use something, now or once listed."""
    permissions = parts.gate.permissions(session)
    tools = [tool.server for tool in parts.gate.allowed(session, catalog).tools]
    told = partial(parts.gate.without_denied_names, session, catalog=catalog)
    offers: Mapping[tuple[str, OfferKind], int] = parts.offers.permitted(session).by_server if parts.offers else {}
    for key, server in parts.settings.servers.items():
        count = tools.count(key)
        if parts.is_owners or count or permissions.permits_some_of(key):
            listed = _last_listed(server, rows.get(key), parts.refused_offers(key))
            if listed and not parts.is_owners:
                listed = replace(listed, refused=tuple(_permitted(key, listed.refused, permissions)))
            running, kept = _running(parts, key, told), _failure(parts, key, failures.get(key), told)
            withheld = tuple(parts.fleet.withheld(key, session) if parts.fleet else ())
            offered: Mapping[OfferKind, int] = {kind: offers.get((key, kind), 0) for kind in KINDS}
            is_closed = parts.gate.is_closed(key)
            yield ServerStatus(key, count, offered, running, listed, kept, withheld, is_closed)


def _running(parts: StatusParts, key: str, told: Callable[[str], str]) -> Running | None:
    if parts.fleet is None:
        return None
    status, arriving = parts.fleet.status(key), parts.fleet[key].arriving if key in parts.fleet else None
    reason = str(arriving) if arriving and arriving.seconds is not None else told(status.reason)
    return Running(status.state.value, reason, parts.now() - (anyio.current_time() - status.since))


def _failure(
    parts: StatusParts, key: str, kept: KnownFailure | None, told: Callable[[str], str]
) -> KnownFailure | None:
    """Return why a server fails: as seen by this process, otherwise as stored."""
    status = parts.fleet.status(key) if parts.fleet else None
    if status and status.failure and (kept is None or kept.failure != status.failure):
        kept = KnownFailure(status.failure, parts.now() - (anyio.current_time() - status.since))
    return kept and replace(kept, failure=replace(kept.failure, reason=told(kept.failure.reason)))


def _last_listed(server: ServerSettings, row: ServerRow | None, more: tuple[Refused, ...]) -> Listed | None:
    """Return what is known of a server's last listing; of one under another config, nothing."""
    if row is None or row.config_fingerprint != rows_fingerprint(server.fingerprint):
        return None
    return Listed(row.listed_at, row.era, (*row.refused, *more))


def _permitted(key: str, refused: Iterable[Refused], permissions: Permissions) -> Iterable[Refused]:
    """Return the refused tools whose names the caller may know."""
    return (each for each in refused if permissions.permits(key, each.name, public_name(key, each.name)))


def _offers_json(counts: Mapping[OfferKind, int]) -> JsonObject:
    return {"resources": counts["resource"], "resource_templates": counts["template"], "prompts": counts["prompt"]}


def _failure_json(kept: KnownFailure | None) -> JsonObject | None:
    if kept is None:
        return None
    return {"reason": kept.failure.reason, "remedy": kept.failure.remedy, "since": _time(kept.since)}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _last_reload(known: Known | None) -> Loaded | None:
    """Return how the last reload went, in whichever process."""
    noted = known.index.last_reload() if known else None
    return Loaded(*noted) if noted else None


def _nothing_refused(_server: str) -> tuple[Refused, ...]:
    """Return nothing: no tools were refused."""
    return ()


def _to_nobody(_line: Callable[[], str]) -> None:
    """Discard an event."""
