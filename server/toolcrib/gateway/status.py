"""The overall status: servers, tools, skills, search by meaning and index files, as one value for one caller."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
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
from toolcrib.catalog.offers import KINDS
from toolcrib.catalog.snapshot import Catalog
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.programs import Freshness, Program
from toolcrib.events.log import EventLog
from toolcrib.gateway.offline import Offline, open_offline, semantic_model
from toolcrib.gateway.runtime import Runtime
from toolcrib.gateway.skills import open_skills
from toolcrib.gateway.whole_lists import caller_digest
from toolcrib.policy.client_profiles import ClientProfile
from toolcrib.policy.rules import Permissions, policy_of
from toolcrib.policy.sessions import Session
from toolcrib.search.semantic import SemanticState, state_of
from toolcrib.skills.answers import SkillsStatus
from toolcrib.skills.overviews import Overviews
from toolcrib.skills.use_cases import SkillRuntime, SkillUseCases

if TYPE_CHECKING:
    from toolcrib.downstream.fleet import Fleet
    from toolcrib.downstream.states import Spoken


@dataclass(frozen=True, slots=True)
class Running:
    """What a server is doing in this process, and since when, in seconds since the epoch; ``reason`` is for people.

    ``spoken`` is what is spoken on the connection that the caller uses, while there is one.
    """

    state: str
    reason: str
    since: float
    spoken: "Spoken | None" = None

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        spoken = self.spoken and {"protocol": self.spoken.protocol, "reason": self.spoken.reason}
        return {"state": self.state, "reason": self.reason, "since": _time(self.since), "connection": spoken}


@dataclass(frozen=True, slots=True)
class Listed:
    """The last listing of a server: when, in seconds since the epoch, in which era, and which tools were refused.

    ``checked_by`` is what tells that the list may be another by now, ``cut`` why it has more tools than are known.
    """

    at: float
    protocol: str | None
    refused: tuple[Refused, ...]
    checked_by: Freshness
    cut: str = ""


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
        listed = self.listed
        refused = [{"name": each.name, "reason": each.reason} for each in listed.refused] if listed else []
        if listed and listed.cut:
            refused.append({"name": "more tools", "reason": listed.cut})
        return {
            "server": self.key,
            **(self.running.as_json if self.running else {}),
            "failure": _failure_json(self.failure),
            "login": self.login,
            "withheld": list(self.withheld),
            "tools": self.tools,
            **_offers_json(self.offers),
            "listed_at": _time(listed.at) if listed else None,
            "list_checked_by": listed.checked_by.value if listed else None,
            "protocol": listed.protocol if listed else None,
            "refused": refused,
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
class TaskCounts:
    """How many tasks a session has that are running, and that have ended and are kept."""

    running: int = 0
    ended: int = 0

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {"running": self.running, "ended": self.ended}


@dataclass(frozen=True, slots=True)
class Status:
    """The whole status, for one session.

    ``client`` is the name that the client gives itself, ``served`` how such a client is served, ``list_grows`` whether
    its list shows what it has used: never in the era without sessions. ``allowed`` and ``deferred`` count tools that
    the caller may use, ``activated`` are those of them that the session has used. ``whole_list``: the caller was last
    listed all of them (``gate.pass_through_tokens``). ``loaded`` is None where nothing was loaded again, by a process
    that is not asked. ``skills`` is None where they are switched off. ``rebuilt`` tells of index files that could not
    be used as they were, by name, why.
    """

    session: str
    client: str
    served: ClientProfile
    list_grows: bool
    allowed: int
    deferred: int
    activated: tuple[str, ...]
    whole_list: bool
    servers: tuple[ServerStatus, ...]
    skills: SkillsStatus | None
    semantic: SemanticState
    rebuilt: Mapping[str, str]
    loaded: Loaded | None = None
    tasks: TaskCounts | None = None
    version: str = __version__

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "version": self.version,
            "session": self.session,
            "client": self.client,
            **self.served.as_json,
            "list_grows": self.list_grows,
            "tools": {"allowed": self.allowed, "deferred": self.deferred, "activated": list(self.activated)},
            "whole_list": self.whole_list,
            **_offers_json({kind: sum(each.offers[kind] for each in self.servers) for kind in KINDS}),
            "servers": [server.as_json for server in self.servers],
            "skills": self.skills and self.skills.as_json,
            "semantic": self.semantic.json(),
            "rebuilt": dict(self.rebuilt),
            "loaded": self.loaded and self.loaded.as_json,
            "tasks": self.tasks and self.tasks.as_json,
        }


class StatusReader:
    """Reads the status of one config.

    ``offline`` is None if nothing was ever indexed under it, ``skills`` if there are none, and ``fleet`` in a process
    that runs no servers. ``now`` returns seconds since the epoch; ``loaded``, which may block, how the config was read.
    ``tasks`` counts the tasks of a session. ``is_owners``: it is for the person whose config it is, who may know of
    every server, whatever a policy denies.
    """

    def __init__(
        self,
        settings: Settings,
        offline: Offline | None,
        *,
        skills: SkillUseCases | None,
        now: Callable[[], float],
        loaded: Callable[[], Loaded | None],
        fleet: "Fleet | None" = None,
        tasks: Callable[[Session], TaskCounts] | None = None,
        is_owners: bool = False,
    ) -> None:
        self._settings, self._offline, self._skills, self._fleet = settings, offline, skills, fleet
        self._now, self._loaded, self._tasks, self._is_owners = now, loaded, tasks, is_owners
        self._gate = offline.gate if offline else Gate(settings, policy_of(settings.toolcrib.policy))
        self._model = offline.model if offline else semantic_model(settings)

    async def read(self, session: Session) -> Status:
        """Return the status as the session's caller may know it (R187, R204)."""
        offline = self._offline
        catalog = offline.indexer.current() if offline else Catalog(())
        permitted = self._gate.allowed(session, catalog)
        usable = {tool.public_name for tool in permitted.tools}
        lists, failures, whole_lists, loaded = await anyio.to_thread.run_sync(self._stored)
        logins: Mapping[str, JsonObject] = {}
        # Logins belong to the person at this machine; callers with tokens are others.
        if self._is_owners or session.caller.principal == "local":
            read = partial(login_facts, self._settings.tokens_dir, self._settings.servers.values())
            logins = await anyio.to_thread.run_sync(read)
        servers = self._servers(session, catalog, lists, failures)
        return Status(
            session=session.label,
            client=session.client,
            served=session.client_profile,
            list_grows=session.growing,
            allowed=len(permitted.tools),
            deferred=permitted.deferred_count,
            activated=tuple(sorted(usable.intersection(self._gate.activated(session, catalog)))),
            whole_list=caller_digest(session.caller) in whole_lists,
            servers=tuple(replace(each, login=logins.get(each.key)) for each in servers),
            skills=await Overviews(self._skills).status(session) if self._skills else None,
            semantic=await anyio.to_thread.run_sync(state_of, self._model),
            rebuilt={name: store.rebuilt for name, store in offline.stores.items() if store.rebuilt} if offline else {},
            loaded=loaded,
            tasks=self._tasks(session) if self._tasks else None,
        )

    def _stored(self) -> tuple[Mapping[str, Listed], Mapping[str, KnownFailure], Collection[str], Loaded | None]:
        offline, loaded = self._offline, self._loaded()
        if offline is None:
            return {}, {}, (), loaded
        rows, servers = offline.index.server_rows(), self._settings.servers
        lists = {key: listed for key, server in servers.items() if (listed := _last_listed(server, rows.get(key)))}
        # What was recorded under an earlier config is not so any more.
        is_limited = self._settings.toolcrib.gate.pass_through_tokens > 0
        whole_lists = offline.index.whole_lists() if is_limited else ()
        return lists, offline.failures.read(), whole_lists, loaded

    def _servers(
        self, session: Session, catalog: Catalog, lists: Mapping[str, Listed], failures: Mapping[str, KnownFailure]
    ) -> Iterable[ServerStatus]:
        """Yield the servers of which the caller may use something, now or once listed."""
        offline, permissions = self._offline, self._gate.permissions(session)
        tools = Counter(tool.server for tool in self._gate.allowed(session, catalog).tools)
        clean = partial(self._gate.without_denied_names, session, catalog=catalog)
        offers: Mapping[tuple[str, OfferKind], int] = {}
        if offline:
            offers = offline.offer_gate.permitted(session).by_server
        for key in self._settings.servers:
            # Left out like a server that does not exist.
            if not (self._is_owners or tools[key] or permissions.permits_some_of(key)):
                continue
            if (listed := lists.get(key)) and offline:
                listed = replace(listed, refused=(*listed.refused, *offline.offers.refused(key)))
            if listed and not self._is_owners:
                # Among the refused tools may be some that the caller is denied.
                listed = replace(listed, refused=tuple(_permitted(key, listed.refused, permissions)))
            yield ServerStatus(
                key=key,
                tools=tools[key],
                offers={kind: offers.get((key, kind), 0) for kind in KINDS},
                running=self._running(key, session, clean),
                listed=listed,
                failure=self._failure(key, failures.get(key), clean),
                withheld=tuple(self._fleet.withheld(key, session) if self._fleet else ()),
                is_closed=self._gate.is_closed(key),
            )

    def _running(self, key: str, session: Session, clean: Callable[[str], str]) -> Running | None:
        if self._fleet is None:
            return None
        status = self._fleet.status(key)
        arriving = self._fleet[key].arriving if key in self._fleet else None
        reason = str(arriving) if arriving and arriving.seconds is not None else clean(status.reason)
        # States are timed on anyio's clock, whose numbers mean nothing outside of this process.
        since = self._now() - (anyio.current_time() - status.since)
        return Running(status.state.value, reason, since, self._fleet.spoken(key, session))

    def _failure(self, key: str, stored: KnownFailure | None, clean: Callable[[str], str]) -> KnownFailure | None:
        """Return why a server fails: as seen by this process, otherwise as stored by any."""
        status = self._fleet.status(key) if self._fleet else None
        # This process may have tried after the one that stored it.
        if status and status.failure and (stored is None or stored.failure != status.failure):
            stored = KnownFailure(status.failure, self._now() - (anyio.current_time() - status.since))
        return stored and replace(stored, failure=replace(stored.failure, reason=clean(stored.failure.reason)))


@contextmanager
def open_status(settings: Settings, runtime: Runtime) -> Generator[StatusReader]:
    """Open what is indexed, without a server or a scan, for the owner of the config. Creates no file. Blocks.

    Raises:
        StoreError: an index cannot be read.

    """
    with ExitStack() as stack:
        offline = skills = None
        if settings.tool_cache.exists():
            # To look at the status is no event, and must not create the file of events.
            opening = open_offline(settings, runtime, events=EventLog(_discard), keep_rows=True)
            offline = stack.enter_context(opening)
            if settings.toolcrib.skills.enabled and settings.skill_cache.exists():
                skills = stack.enter_context(open_skills(offline, runtime, SkillRuntime(-math.inf)))
        yield StatusReader(
            settings,
            offline,
            skills=skills,
            now=runtime.wall_clock,
            loaded=partial(_last_reload, offline),
            is_owners=True,
        )


def _last_listed(server: ServerSettings, row: ServerRow | None) -> Listed | None:
    """Return what is known of a server's last listing; of one under another config, nothing. Blocks."""
    if row is None or row.config_fingerprint != rows_fingerprint(server.fingerprint):
        return None
    freshness = Program.find(server.target).freshness
    is_unknown = freshness is Freshness.FILES and row.program is None  # listed without a look at them
    return Listed(row.listed_at, row.era, row.refused, Freshness.AGE if is_unknown else freshness, row.cut)


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


def _last_reload(offline: Offline | None) -> Loaded | None:
    """Return how the last reload went, in whichever process. Blocks."""
    noted = offline.index.last_reload() if offline else None
    return Loaded(*noted) if noted else None


def _discard(_line: Callable[[], str]) -> None:
    """Drop an event: who only asks for the status writes no file."""
