"""The skill scope of a request without a connection of its own: found by caller and id, or by a handle."""

import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolcrib.base.cache import Recent, RecentOfEach
from toolcrib.base.errors import BadRequest
from toolcrib.base.model import Caller, JsonObject, Skill
from toolcrib.config.settings import Settings
from toolcrib.policy.activations import Activations, ActiveSkills, NoActivations, RunActivations, StoredActivations
from toolcrib.policy.client_profiles import NO_CLIENT, ClientProfile
from toolcrib.policy.rules import Permissions, Policy
from toolcrib.policy.state import Approval

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
class Asked:
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

    ``calls`` are those of tools of servers, ``failed`` those of them that failed or did not run. ``scope`` is the scope
    of skills of its last request, for reports only. ``reported_active`` are the ids of skills that events say are
    active in it. ``asked`` are its last searches, the newest last, until a call has settled what they teach; none if
    learning is disabled.
    """

    began: float = 0.0
    active: float = 0.0
    searches: int = 0
    calls: int = 0
    failed: int = 0
    scope: ActiveSkills = field(default_factory=ActiveSkills)
    skills: Recent[str, None] = field(default_factory=lambda: Recent(_SKILLS_MAX))
    reported_active: frozenset[str] = frozenset()
    asked: tuple[Asked, ...] = ()
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

    def given(self, skills: Iterable[str]) -> None:
        """Record the names of skills that the session was given."""
        for name in skills:
            self.skills[name] = None


SentKey = tuple[str, str, str]
"""The id of a skill, the hash of its text, and the format that it was given in."""

_SENT_MAX = _CONFIRMED_MAX = 1000


class SentSkills(Recent[SentKey, tuple[int, int]]):
    """What a session was given of skills: the largest budget in tokens, and the largest share that it had of one.

    ``unreported`` are the skills, by id and as they were given last, of which no outcome was reported since.
    """

    def __init__(self) -> None:
        super().__init__(_SENT_MAX)
        self.unreported = Recent[str, Skill](_SENT_MAX)


def no_confirmations() -> Recent[Approval, None]:
    """Return room for what a person has allowed in a session, with nothing in it."""
    return Recent(_CONFIRMED_MAX)


@dataclass(slots=True, eq=False)
class Session:
    """Who is asking, and through which activation scope.

    ``label`` names it in events. ``growing`` says whether its list shows what it activated: the dynamic gate.
    ``client`` is the name that its client gives itself, ``client_profile`` how such a client is served.
    ``lasting``: the next request of its client is of the same session; it is not in the sessionless era.
    ``capabilities`` are what its client says it can do, ``log_level`` the least important log messages it asked for.
    ``reads_more``: its list shows ``read_more``, because the rest of a result was kept for it.
    ``permissions`` are worked out when they are first asked for, and kept with the policy that they are of.
    ``pass_through`` is settled when it lists for the first time. ``sent_skills`` is what it was given of skills.
    ``history`` is what it has done so far. ``confirmed`` is what its person has allowed as long as it
    lasts; None where nothing tells which the next request of the same session is. ``skills`` are active in its scope.
    """

    label: str
    caller: Caller
    activations: Activations
    growing: bool
    client: str = ""
    client_profile: ClientProfile = NO_CLIENT
    lasting: bool = False
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    log_level: str | None = None
    reads_more: bool = False
    permissions: tuple[Policy, Permissions] | None = None
    pass_through: bool | None = field(default=None)
    sent_skills: SentSkills = field(default_factory=SentSkills)
    history: SessionHistory = field(default_factory=SessionHistory)
    confirmed: Recent[Approval, None] | None = None
    skills: ActiveSkills = field(default_factory=ActiveSkills)

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


HANDLE_BYTES = 16
"""Random bytes of a handle; the caller is compared besides."""

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

    def __init__(self, now: Callable[[], float], lasts_s: float) -> None:
        self._now, self.lasts_s = now, lasts_s
        self._named = RecentOfEach[str, tuple[Caller, str | None], ActiveSkills](_NAMED_MAX)
        self._stored = RecentOfEach[str, str, _StoredScope](_HANDLES_MAX)

    def named(self, caller: Caller, name: str | None) -> ActiveSkills:
        """Return what is active for a caller under an id of theirs; None: in this process, which has no other."""
        return self._named[caller.principal].get((caller, name), ActiveSkills)

    def temporary(self) -> ActiveSkills:
        """Return a scope that ends with the request, unless it is kept."""
        return ActiveSkills(secrets.token_urlsafe(HANDLE_BYTES))

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
