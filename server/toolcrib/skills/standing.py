"""What reported outcomes do to a skill in a search, and why (ADR 37).

Knows when a skill is set back, by how much, and for whom; never knows how it was found or delivered.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from toolcrib.access.state.skill_outcomes import Outcomes, Report, SkillOutcomes, faded
from toolcrib.errors import StoreError
from toolcrib.model import JsonObject, Skill

SETBACK = 0.1
"""What a skill that mostly fails loses of its score, at most."""
_REPORTS_MIN, _FAILURES_MIN = 5, 0.6
"""From how many reports on, and above which share of failures, it loses it (R195)."""
_LEAST = 0.005
"""A smaller setback changes no score, which has two decimals."""

Setbacks = Mapping[tuple[str, str], float]
"""What skills lose of their score, by id and content hash."""

NO_SETBACKS: Setbacks = MappingProxyType({})

_log = logging.getLogger(__name__)


def failure_share(outcomes: Outcomes) -> float:
    """Return the share of failures among all reports, in which older ones weigh less."""
    weights = outcomes.successes + outcomes.failures
    return outcomes.failures / weights if weights else 0.0


def setback(outcomes: Outcomes, now: float) -> float:
    """Return what the skill loses of its score: half as much with each half-life since the last failure."""
    if outcomes.reports < _REPORTS_MIN or failure_share(outcomes) <= _FAILURES_MIN:
        return 0.0
    lost = SETBACK * faded(now - outcomes.last_failure)
    return lost if lost >= _LEAST else 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """What one principal has reported of a skill as it is now, for a person. ``age_s`` is that of the last report."""

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
    """Who has reported what of which skill. What it reads and writes may block. ``now``: seconds since the epoch."""

    def __init__(self, outcomes: SkillOutcomes, now: Callable[[], float], *, enabled: bool) -> None:
        self._outcomes, self._now, self._enabled = outcomes, now, enabled

    def setbacks(self, principal: str) -> Setbacks:
        """Return what skills lose in searches of a principal, who alone has caused it."""
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
        """Count a report.

        Raises:
            StoreError: it cannot be kept.

        """
        self._outcomes.record(principal, report, self._now())

    def told(self, skill: Skill) -> list[Told]:
        """Return what was reported of a skill as it is now, by whom; what was said of an earlier text is left out.

        Raises:
            StoreError: it cannot be read.

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
