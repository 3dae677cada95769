"""Sessions: who asks, what the session has activated, done and been given, and the scopes of skills that outlive it."""

import json
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from toolcrib.base.cache import Recent, RecentOfEach
from toolcrib.base.errors import BadRequest, StoreError
from toolcrib.base.handles import NewHandle, new_handle
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import Caller, JsonObject, Skill
from toolcrib.config.settings import Settings
from toolcrib.policy.client_profiles import NO_CLIENT, ClientProfile
from toolcrib.policy.rules import Permissions, Policy

if TYPE_CHECKING:
    from toolcrib.policy.state import Approval, StoredSessions  # which store what is defined here

_log = logging.getLogger(__name__)

# -- what a session has activated ------------------------------------------------------------------

ACTIVE_MAX = 64
"""Maximum number of active skills per scope; beyond that the one active for longest is deactivated."""


@dataclass(frozen=True, slots=True)
class ActiveSkill:
    """One active skill. ``tools`` are the tools that its text names, spelled as its author did.

    ``label`` is what it may be called in an answer: its name, unless that may not be told.
    """

    id: str
    name: str
    source: str
    uri: str
    label: str
    tools: tuple[str, ...] = ()

    def is_called(self, name: str) -> bool:
        """Return whether ``name`` refers to this skill: its id, its name, its name with its source, or its URI."""
        plain = name.strip().removeprefix("$")
        return plain in (self.id, self.label, self.name, f"{self.source}/{self.name}", self.uri)


Active = tuple[ActiveSkill, ...]
"""The active skills of a scope, in order of activation."""


def skills_to_json(active: Active) -> str:
    """Serialize active skills for :func:`skills_from_json`."""
    return json.dumps([asdict(skill) for skill in active], ensure_ascii=False)


def skills_from_json(text: str) -> Active:
    """Return the active skills in a serialized text; empty for text of another program."""
    try:
        every = as_list(json.loads(text))
    except ValueError:
        return ()
    found: list[ActiveSkill] = []
    for raw in map(as_object, every):
        own = {name: raw.get(name) for name in ("id", "name", "source", "uri", "label")}
        if all(isinstance(value, str) for value in own.values()):
            tools = tuple(map(str, as_list(raw.get("tools"))))
            found.append(ActiveSkill(**{name: str(value) for name, value in own.items()}, tools=tools))
    # The bound holds for rows that another program has written, too.
    return tuple(found[-ACTIVE_MAX:])


@dataclass(frozen=True, slots=True)
class Activate:
    """A skill becomes active. ``exclusive``: it replaces all others (C20)."""

    skill: ActiveSkill
    exclusive: bool = False

    def apply(self, active: Active) -> Active:
        """Return the active skills with this one; it keeps its place if it was already active."""
        if self.exclusive:
            return (self.skill,)
        if any(each.id == self.skill.id for each in active):
            return tuple(self.skill if each.id == self.skill.id else each for each in active)
        return (*active, self.skill)[-ACTIVE_MAX:]


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Deactivated skills, by their ids."""

    ids: tuple[str, ...]

    def apply(self, active: Active) -> Active:
        """Return the active skills without them."""
        return tuple(each for each in active if each.id not in self.ids)


Change = Activate | Deactivate
"""What happens to the skills of a scope. It says nothing of other skills, so two who share one lose nothing."""


def changed(active: Active, changes: Iterable[Change]) -> Active:
    """Return the active skills after some changes, in this order."""
    for change in changes:
        active = change.apply(active)
    return active


class ActiveSkills:
    """The active skills of one scope: ``skills`` is a value, replaced as a whole.

    ``handle`` is what names the scope where no session does; empty where one does.
    """

    def __init__(self, handle: str = "", skills: Active = ()) -> None:
        self.skills = skills
        self.handle = handle

    def change(self, changes: Iterable[Change]) -> None:
        """Apply a change to the skills."""
        self.skills = changed(self.skills, changes)


_KEPT_READY = 1000
"""Session ids kept in memory although no connection uses them; others are read from disk again."""

_READ_EVERY_S = 3600.0

_UNKEPT_MAX = 1000
"""Maximum number of changes that wait for a file that cannot be written."""


class RunActivations:
    """Activations of one MCP session, which end with it (R72)."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def add(self, name: str) -> bool:
        """Record an activation; return whether it is new."""
        new = name not in self.names
        self.names.add(name)
        return new

    async def change_skills(self, active: ActiveSkills, changes: Sequence[Change]) -> None:
        """Change them in the session only."""
        active.change(changes)


class NoActivations:
    """The scope of a request without a session: nothing is stored, nothing is new."""

    names: frozenset[str] = frozenset()

    async def add(self, _name: str) -> bool:
        """Store nothing."""
        return False

    async def change_skills(self, active: ActiveSkills, changes: Sequence[Change]) -> None:
        """Change them for the request, or for as long as their handle is valid."""
        active.change(changes)


class StoredActivations:
    """Activations of one (principal, session id), kept across reconnects (R73); changes are serialised (R74).

    ``skills`` are active in it, in all sessions of this id alike. Another process may serve the same id: each change is
    made to what is kept, and what is kept then is active here.
    What cannot be read or kept is logged; the session goes on with what it has activated in this process.
    """

    def __init__(self, store: "StoredSessions", key: tuple[str, str], now: Callable[[], float]) -> None:
        self._store, self._key, self._now = store, key, now
        self._changing = anyio.Lock()
        self._read_at = -math.inf
        self._unkept: tuple[Change, ...] = ()
        self.names: set[str] = set()
        self.skills = ActiveSkills()

    async def ready(self) -> None:
        """Read what was activated under this id before; now and then again, so that the store knows it in use."""
        if self._is_read():
            return
        async with self._changing:
            # Another connection of the session may have read it while this one waited.
            if self._is_read():
                return
            # Set before the attempt, so that a store that cannot be read is not asked with every request.
            self._read_at = self._now()
            try:
                self.names |= await anyio.to_thread.run_sync(self._store.activated, *self._key, self._read_at)
                kept_skills = await anyio.to_thread.run_sync(self._store.active_skills, *self._key)
                if kept_skills is not None:  # else others took its place in the file
                    self.skills.skills = changed(kept_skills, self._unkept)
            except StoreError as error:
                _log.warning("the activations of a session cannot be read: %s", error.detail)

    async def change_skills(self, active: ActiveSkills, changes: Sequence[Change]) -> None:
        """Change which skills are active, on disk too; but only there where ``active`` is the scope of a handle."""
        if active is not self.skills:
            active.change(changes)
            return
        async with self._changing:
            known = active.skills
            # Seen at once: whoever goes on meanwhile finds the skill active.
            active.change(changes)
            # Kept with the next change if this one is cancelled or fails.
            self._unkept = (*self._unkept, *changes)[-_UNKEPT_MAX:]
            try:
                active.skills = await anyio.to_thread.run_sync(
                    self._store.change_skills, *self._key, self._unkept, self._now(), known
                )
                self._unkept = ()
            except StoreError as error:
                _log.warning("which skills are active cannot be kept: %s", error.detail)

    def _is_read(self) -> bool:
        return 0 <= self._now() - self._read_at < _READ_EVERY_S

    async def add(self, name: str) -> bool:
        """Record an activation, also on disk; return whether it is new."""
        async with self._changing:
            if name in self.names:
                return False
            # Before it is stored: a list requested meanwhile already shows it.
            self.names.add(name)
            try:
                await anyio.to_thread.run_sync(self._store.record, *self._key, name, self._now())
            except StoreError as error:
                _log.warning("an activation cannot be kept: %s", error.detail)
            return True


Activations = RunActivations | NoActivations | StoredActivations
"""The activations of one scope."""


class SharedActivations:
    """The activations of all session ids in use: one object per id, shared by its connections."""

    def __init__(self, store: "StoredSessions", now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        # One object per id: two connections of a session must not overwrite what the other activates.
        self._known: WeakValueDictionary[tuple[str, str], StoredActivations] = WeakValueDictionary()
        # Keeps the last ones alive; the dictionary alone lets go of what no connection uses.
        self._recent: deque[StoredActivations] = deque(maxlen=_KEPT_READY)

    async def resolve(self, principal: str, session_id: str) -> StoredActivations:
        """Return the activations of one session id, read from disk if no connection uses them yet."""
        key = (principal, session_id)
        stored = self._known.get(key)
        if stored is None:
            stored = self._known[key] = StoredActivations(self._store, key, self._now)
            self._recent.append(stored)
        await stored.ready()
        return stored


# -- what a session has done -----------------------------------------------------------------------

_FOUND_MAX, _SKILLS_MAX = 100, 100
"""Maximum numbers of names of hits, and of skills, that are remembered: the latest ones."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The latest search that found a tool: its number in the session, and the rank of the hit, both from 1.

    None: no search has found it, or too long ago.
    """

    search: int | None = None
    rank: int | None = None


_NO_SEARCH = Origin()


@dataclass(frozen=True, slots=True)
class PastSearch:
    """A search that a later call may say something about.

    ``told`` is its query without what the caller may not know; ``found`` are the public names of its hits, in order;
    ``at`` is when, in seconds since the epoch.
    """

    query: str
    told: str
    found: tuple[str, ...]
    at: float


@dataclass(slots=True, eq=False)
class SessionHistory:
    """What a session has done. ``began`` and ``active``, when it last asked for something, are seconds since the epoch.

    ``calls`` are those of tools of servers, ``failed`` those of them that failed or did not run. ``programs`` are those
    that ran, and ``tokens_saved`` is an estimate of what they saved. ``scope`` is the scope of skills of its last
    request, for reports only. ``reported_active`` are the ids of skills that events say are active in it. ``asked`` are
    its last searches, the newest last, until a call has settled what they teach; none if learning is disabled.
    """

    began: float = 0.0
    active: float = 0.0
    searches: int = 0
    calls: int = 0
    failed: int = 0
    programs: int = 0
    tokens_saved: int = 0
    scope: ActiveSkills = field(default_factory=ActiveSkills)
    skills: Recent[str, None] = field(default_factory=lambda: Recent(_SKILLS_MAX))
    reported_active: frozenset[str] = frozenset()
    asked: tuple[PastSearch, ...] = ()
    _latest: tuple[str, int] = ("", 0)
    _found: Recent[str, Origin] = field(default_factory=lambda: Recent(_FOUND_MAX))

    def searched(self, names: Iterable[str]) -> int:
        """Record a search with the public names of its hits, in order; return its number, from 1."""
        self.searches += 1
        for rank, name in enumerate(names, 1):
            self._found[name] = Origin(self.searches, rank)
        return self.searches

    def origin(self, name: str) -> Origin:
        """Return the latest search that found a tool."""
        if self.searches:
            with suppress(KeyError):
                return self._found[name]
        return _NO_SEARCH

    def called(self, *, ok: bool) -> None:
        """Record a call."""
        self.calls += 1
        self.failed += not ok

    def ran_program(self, tokens_saved: int) -> None:
        """Record a program that has ended."""
        self.programs += 1
        self.tokens_saved += tokens_saved

    def in_a_row(self, name: str) -> int:
        """Record that a tool was called by its name; return how many times it was in a row."""
        latest, count = self._latest
        self._latest = (name, count + 1 if name == latest else 1)
        return self._latest[1]

    def given(self, skills: Iterable[str]) -> None:
        """Record the names of skills that the session was given."""
        for name in skills:
            self.skills[name] = None


SentKey = tuple[str, str, str]
"""The id of a skill, the hash of its text, and the format that it was given in."""

_SENT_MAX = _CONFIRMED_MAX = 1000
_REFUSED_MAX = 100
_SHAPES_MAX = 1000


class SentSkills(Recent[SentKey, tuple[int, int]]):
    """What a session was given of skills: the largest budget in tokens, and the largest share that it had of one.

    ``unreported`` are the skills, by id and as they were given last, of which no outcome was reported since.
    """

    def __init__(self) -> None:
        super().__init__(_SENT_MAX)
        self.unreported = Recent[str, Skill](_SENT_MAX)


def no_confirmations() -> "Recent[Approval, None]":
    """Return room for what a person has allowed in a session, with nothing in it."""
    return Recent(_CONFIRMED_MAX)


def no_refusals() -> Recent[bytes, None]:
    """Return room for the digests of calls that were refused in a session, with nothing in it."""
    return Recent(_REFUSED_MAX)


INTRODUCTIONS_MAX = 400
"""Maximum tokens that instructions of servers take in one session."""


@dataclass(frozen=True, slots=True)
class WholeList:
    """All tools of a session are listed, because they are few; those for finding and calling them are not (ADR 72).

    ``names`` are the public names of the tools that were permitted when this was decided. ``shows_skills``: there are
    skills besides the core pack, so the tools for skills are listed too.
    """

    names: frozenset[str]
    shows_skills: bool


@dataclass(slots=True, eq=False)
class Session:
    """Who is asking, and through which activation scope.

    ``label`` names it in events. ``growing`` says whether its list shows what it activated: the dynamic gate.
    ``client`` is the name that its client gives itself, ``client_profile`` how such a client is served.
    ``lasting``: the next request of its client is of the same session. ``is_modern``: its client speaks the sessionless
    era.
    ``capabilities`` are what its client says it can do, ``log_level`` the least important log messages it asked for.
    ``reads_more``: its list shows ``read_more``, because the rest of a result was kept for it.
    ``permissions`` are worked out when they are first asked for, and kept with the policy that they are of.
    ``pass_through`` is settled when it lists for the first time, ``whole_list`` before its first answer; it is None
    where tools are found by search. ``sent_skills`` is what it was given of skills.
    ``introduced`` are the servers whose instructions it was shown, with the tokens that these took; ``shapes`` is what
    it was told that texts of tools hold.
    ``history`` is what it has done so far. ``confirmed`` is what its person has allowed as long as it
    lasts, ``refused`` are the digests of calls whose arguments did not fit; None where nothing tells which the next
    request of the same session is. ``skills`` are active in its scope.
    """

    label: str
    caller: Caller
    activations: Activations
    growing: bool
    client: str = ""
    client_profile: ClientProfile = NO_CLIENT
    lasting: bool = False
    is_modern: bool = False
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    log_level: str | None = None
    reads_more: bool = False
    permissions: tuple[Policy, Permissions] | None = None
    pass_through: bool | None = field(default=None)
    whole_list: WholeList | None = None
    is_list_settled: bool = False
    sent_skills: SentSkills = field(default_factory=SentSkills)
    introduced: dict[str, int] = field(default_factory=dict[str, int])
    shapes: Recent[tuple[str, ...], str] = field(default_factory=lambda: Recent(_SHAPES_MAX))
    history: SessionHistory = field(default_factory=SessionHistory)
    confirmed: "Recent[Approval, None] | None" = None
    refused: Recent[bytes, None] | None = None
    skills: ActiveSkills = field(default_factory=ActiveSkills)

    def introduce(self, server: str, tokens: int) -> bool:
        """Return whether the instructions of a server are shown now: once, and within the share of all servers."""
        fits = sum(self.introduced.values()) + tokens <= INTRODUCTIONS_MAX
        if server in self.introduced or not fits:
            return False
        self.introduced[server] = tokens
        return True

    @property
    def shows_output_schemas(self) -> bool:
        """Whether its list has the schemas of structured content, whose absence then is an error to its client.

        A host that shows its model text alone would only insist on them. Without sessions the list is the same for all.
        """
        return self.is_modern or self.client_profile.shows_structured

    def restarted(self) -> "Session | None":
        """Return the session as if nothing had been done in it; None where it goes on with what was kept of another."""
        if isinstance(self.activations, StoredActivations):
            return None
        activations = RunActivations() if self.lasting else NoActivations()
        anew = Session(
            self.label, self.caller, activations, self.growing, self.client, self.client_profile, self.lasting
        )
        anew.capabilities = self.capabilities
        return anew


def local_caller(settings: Settings) -> Caller:
    """Return the person at this machine, who needs no token."""
    context = settings.toolcrib.context
    return Caller("local", context.tenant_id, context.project_id, context.profile)


_NAMED_MAX, _HANDLES_MAX = 1000, 100
"""Scopes of one principal that are kept by id and by handle; the one unused for longest goes."""

_UNKNOWN = "This handle is not yours or has expired: skill_get returns a new one with the skill."


@dataclass(slots=True)
class _StoredScope:
    caller: Caller
    active: ActiveSkills
    sent: SentSkills
    expires: float


class SkillScopes:
    """The scopes that outlive a request. ``lasts_s``: how long a handle is good for after it was last used.

    ``now`` is a clock that never jumps, in seconds. For use on the event loop.
    """

    def __init__(self, now: Callable[[], float], lasts_s: float, new_handle: NewHandle = new_handle) -> None:
        self._now, self.lasts_s, self._new_handle = now, lasts_s, new_handle
        self._named = RecentOfEach[str, tuple[Caller, str | None], ActiveSkills](_NAMED_MAX)
        self._stored = RecentOfEach[str, str, _StoredScope](_HANDLES_MAX)

    def named(self, caller: Caller, name: str | None) -> ActiveSkills:
        """Return what is active for a caller under an id of theirs; None: in this process, which has no other."""
        return self._named[caller.principal].get((caller, name), ActiveSkills)

    def temporary(self) -> ActiveSkills:
        """Return a scope that ends with the request, unless it is kept."""
        return ActiveSkills(self._new_handle())

    def resume(self, session: Session, handle: str) -> None:
        """Have a session go on in the scope of a handle.

        Raises:
            BadRequest: no such handle of this caller, now.

        """
        own = self._stored[session.caller.principal]
        if handle not in own or (kept := own[handle]).caller != session.caller or kept.expires <= self._now():
            raise BadRequest(_UNKNOWN)
        kept.expires = self._now() + self.lasts_s
        session.skills, session.sent_skills = kept.active, kept.sent
        session.history.scope = kept.active

    def store(self, session: Session) -> None:
        """Keep the scope of a session by its handle, with what it was sent, where it has one and has skills active."""
        active = session.skills
        if active.handle and active.skills:
            expires = self._now() + self.lasts_s
            kept = _StoredScope(session.caller, active, session.sent_skills, expires)
            self._stored[session.caller.principal][active.handle] = kept
