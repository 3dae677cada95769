"""Whose scope of skills a request is of, where no connection says so: by caller and id, or by a handle.

Knows callers, handles and their time; never knows a transport, or which skills are active or were sent.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolcrib.access.active_skills import Active, ActiveSkill, ActiveSkills
from toolcrib.access.sessions import SentSkills, Session
from toolcrib.base.recent import Recent
from toolcrib.errors import BadRequest
from toolcrib.model import Caller

HANDLE_BYTES = 16
"""Random bytes of a handle; the caller is compared besides."""

_NAMED_MAX, _HANDLES_MAX, _HANDLES_OF_PRINCIPAL = 1000, 1000, 100
"""Scopes that are kept by id and by handle, in all and of one principal; the one unused for longest goes."""

_UNKNOWN = "This handle is not one of yours, or its time is over: skill_get gives a new one with the skill."


@dataclass(slots=True)
class _Kept:
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
        self._named = Recent[tuple[Caller, str | None], ActiveSkills](_NAMED_MAX)
        self._kept: dict[str, _Kept] = {}

    def named(self, caller: Caller, name: str | None) -> ActiveSkills:
        """Return what is active for a caller under an id of theirs; None: in this process, which has no other."""
        return self._named.get((caller, name), ActiveSkills)

    def unnamed(self) -> ActiveSkills:
        """Return a scope that ends with the request, unless it is kept."""
        return ActiveSkills(secrets.token_urlsafe(HANDLE_BYTES))

    def by_caller(self) -> Mapping[Caller, Active]:
        """Return what is active for each caller in any of these scopes: to be told, not to be decided by."""
        self._forget_expired()
        found: defaultdict[Caller, dict[str, ActiveSkill]] = defaultdict(dict)
        scopes = [(caller, self._named[caller, name]) for caller, name in self._named]
        for caller, active in (*scopes, *((each.caller, each.active) for each in self._kept.values())):
            found[caller].update((skill.id, skill) for skill in active.skills)
        return {caller: tuple(skills.values()) for caller, skills in found.items()}

    def take_up(self, session: Session, handle: str) -> None:
        """Have a session go on in the scope of a handle.

        Raises:
            BadRequest: no such handle of this caller, now.

        """
        self._forget_expired()
        kept = self._kept.get(handle)
        if kept is None or kept.caller != session.caller:
            raise BadRequest(_UNKNOWN)
        self._keep(handle, kept)
        session.skills, session.sent_skills = kept.active, kept.sent

    def keep(self, session: Session) -> None:
        """Keep the scope of a session by its handle, with what it was sent, where it has one and has skills active."""
        active = session.skills
        if active.handle and active.skills:
            self._forget_expired()
            self._keep(active.handle, _Kept(session.caller, active, session.sent_skills, 0))
            principal = session.caller.principal
            own = [handle for handle, kept in self._kept.items() if kept.caller.principal == principal]
            for handle in own[:-_HANDLES_OF_PRINCIPAL] or list(self._kept)[:-_HANDLES_MAX]:
                del self._kept[handle]

    def _keep(self, handle: str, kept: _Kept) -> None:
        kept.expires = self._now() + self.lasts_s
        # The last one in the order is the one used last.
        self._kept.pop(handle, None)
        self._kept[handle] = kept

    def _forget_expired(self) -> None:
        now = self._now()
        for handle in [handle for handle, kept in self._kept.items() if kept.expires <= now]:
            del self._kept[handle]
