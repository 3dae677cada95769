"""What a session has done so far: its numbers of searches and calls, the hits of its searches, the skills it was given.

Knows counts, times and names, all bounded; never knows how anything is found or called, nor who is told of it.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from toolcrib.access.active_skills import ActiveSkills
from toolcrib.base.cache import Recent

_FOUND_MAX, _SKILLS_MAX = 100, 100
"""Maximum numbers of names of hits, and of skills, that are remembered: the latest ones."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The latest search that found a tool: its number in the session, and the rank of the hit, both from 1."""

    search: int
    rank: int


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
class Trail:
    """What a session has done. ``began`` and ``active``, when it last asked for something, are seconds since the epoch.

    ``calls`` are those of tools of servers, ``failed`` those of them that failed or did not run. ``scope`` is the
    scope of skills that its last request was in: to be told, not to be decided by. ``told_active`` are ids of skills of
    which events say that they are active in it. ``asked`` are its last searches, the newest last, until a call has
    settled what they teach; none where nothing is learnt.
    """

    began: float = 0.0
    active: float = 0.0
    searches: int = 0
    calls: int = 0
    failed: int = 0
    scope: ActiveSkills = field(default_factory=ActiveSkills)
    skills: Recent[str, None] = field(default_factory=lambda: Recent(_SKILLS_MAX))
    told_active: frozenset[str] = frozenset()
    asked: tuple[Asked, ...] = ()
    _found: Recent[str, Origin] = field(default_factory=lambda: Recent(_FOUND_MAX))

    def searched(self, names: Iterable[str]) -> int:
        """Record a search with the public names of its hits, in order; return its number, from 1."""
        self.searches += 1
        for rank, name in enumerate(names, 1):
            self._found[name] = Origin(self.searches, rank)
        return self.searches

    def origin(self, name: str) -> Origin | None:
        """Return the latest search that found a tool; None if none has, or it is too old."""
        with suppress(KeyError):
            return self._found[name]
        return None

    def called(self, *, ok: bool) -> None:
        """Record a call."""
        self.calls += 1
        self.failed += not ok

    def given(self, skills: Iterable[str]) -> None:
        """Record the names of skills that the session was given."""
        for name in skills:
            self.skills[name] = None
