"""The skill scope of a request without a connection of its own: found by caller and id, or by a handle.

Knows callers, handles and their expiry; never knows a transport, or which skills are active or were sent.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.access.active_skills import ActiveSkills
from toolcrib.access.sessions import SentSkills, Session
from toolcrib.base.cache import RecentOfEach
from toolcrib.base.errors import BadRequest
from toolcrib.base.model import Caller

HANDLE_BYTES = 16
"""Random bytes of a handle; the caller is compared besides."""

_NAMED_MAX, _HANDLES_MAX = 1000, 100
"""Scopes of one principal that are kept by id and by handle; the one unused for longest goes."""

_UNKNOWN = "This handle is not yours or has expired: skill_get returns a new one with the skill."


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
        self._named = RecentOfEach[str, tuple[Caller, str | None], ActiveSkills](_NAMED_MAX)
        self._kept = RecentOfEach[str, str, _Kept](_HANDLES_MAX)

    def named(self, caller: Caller, name: str | None) -> ActiveSkills:
        """Return what is active for a caller under an id of theirs; None: in this process, which has no other."""
        return self._named[caller.principal].get((caller, name), ActiveSkills)

    def unnamed(self) -> ActiveSkills:
        """Return a scope that ends with the request, unless it is kept."""
        return ActiveSkills(secrets.token_urlsafe(HANDLE_BYTES))

    def take_up(self, session: Session, handle: str) -> None:
        """Have a session go on in the scope of a handle.

        Raises:
            BadRequest: no such handle of this caller, now.

        """
        own = self._kept[session.caller.principal]
        if handle not in own or (kept := own[handle]).caller != session.caller or kept.expires <= self._now():
            raise BadRequest(_UNKNOWN)
        kept.expires = self._now() + self.lasts_s
        session.skills, session.sent_skills = kept.active, kept.sent
        session.trail.scope = kept.active

    def keep(self, session: Session) -> None:
        """Keep the scope of a session by its handle, with what it was sent, where it has one and has skills active."""
        active = session.skills
        if active.handle and active.skills:
            expires = self._now() + self.lasts_s
            kept = _Kept(session.caller, active, session.sent_skills, expires)
            self._kept[session.caller.principal][active.handle] = kept
