"""How reported outcomes affect a skill's rank, and why (ADR 37).

Knows when a skill is penalized, by how much, and for whom; never knows how it was found or delivered.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from toolcrib.base.errors import StoreError
from toolcrib.base.model import JsonObject, Skill
from toolcrib.policy.state import Outcomes, Report, SkillOutcomes, faded

SETBACK = 0.1
"""The maximum score reduction of a skill that mostly fails."""
_REPORTS_MIN, _FAILURES_MIN = 5, 0.6
"""Minimum number of reports, and the share of failures above which the score is reduced (R195)."""
_LEAST = 0.005
"""A smaller reduction changes no score, which has two decimals."""

Setbacks = Mapping[tuple[str, str], float]
"""Score reductions of skills, by id and content hash."""

NO_SETBACKS: Setbacks = MappingProxyType({})

_log = logging.getLogger(__name__)


def failure_share(outcomes: Outcomes) -> float:
    """Return the share of failures among all reports, with older ones weighing less."""
    weights = outcomes.successes + outcomes.failures
    return outcomes.failures / weights if weights else 0.0


def setback(outcomes: Outcomes, now: float) -> float:
    """Return the score reduction: it halves with each half-life since the last failure."""
    if outcomes.reports < _REPORTS_MIN or failure_share(outcomes) <= _FAILURES_MIN:
        return 0.0
    lost = SETBACK * faded(now - outcomes.last_failure)
    return lost if lost >= _LEAST else 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """One principal's reports on the current version of a skill, for a person. ``age_s`` is the last report's age."""

    principal: str
    reports: int
    failure_share: float
    setback: float
    age_s: float
    note: str

    @property
    def as_json(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "principal": self.principal,
            "reports": self.reports,
            "failure_share": self.failure_share,
            "setback": self.setback,
            "age_s": round(self.age_s),
            **({"note": self.note} if self.note else {}),
        }


class Standing:
    """Who has reported what about which skill. Reading and writing may block. ``now``: seconds since the epoch."""

    def __init__(self, outcomes: SkillOutcomes, now: Callable[[], float], *, enabled: bool) -> None:
        self._outcomes, self._now, self._enabled = outcomes, now, enabled

    def setbacks(self, principal: str) -> Setbacks:
        """Return the score reductions in searches of a principal, caused by their own reports only."""
        if not self._enabled:
            return NO_SETBACKS
        try:
            reported = self._outcomes.by(principal)
        except StoreError as error:
            _log.warning("outcomes of skills cannot be read: %s", error.detail)
            return NO_SETBACKS
        now = self._now()
        lost = {(skill_id, each.digest): setback(each, now) for skill_id, each in reported.items()}
        return {key: value for key, value in lost.items() if value}

    def record(self, principal: str, report: Report) -> None:
        """Record a report.

        Raises:
            StoreError: it cannot be stored.

        """
        self._outcomes.record(principal, report, self._now())

    def told(self, skill: Skill) -> list[Told]:
        """Return the reports on the current version of a skill, by principal; reports on earlier texts are ignored.

        Raises:
            StoreError: they cannot be read.

        """
        now = self._now()
        return [
            Told(
                principal,
                each.reports,
                round(failure_share(each), 2),
                round(setback(each, now), 2) if self._enabled else 0.0,
                max(now - each.last_report, 0.0),
                each.note,
            )
            for principal, each in self._outcomes.of(skill.id).items()
            if each.digest == skill.content_hash
        ]
