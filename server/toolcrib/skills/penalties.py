"""What reported outcomes cost a skill in searches: failures lower its score, for a while and within a bound."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from toolcrib.base.errors import StoreError
from toolcrib.base.model import JsonObject, Skill
from toolcrib.policy.state import Outcomes, Report, SkillOutcomes, faded

PENALTY_MAX = 0.1
"""The maximum score reduction of a skill that mostly fails."""
_REPORTS_MIN, _FAILURES_MIN = 5, 0.6
"""Minimum number of reports, and the share of failures above which the score is reduced (R195)."""
_LEAST = 0.005
"""A smaller reduction changes no score, which has two decimals."""

Penalties = Mapping[tuple[str, str], float]
"""Score reductions of skills, by id and content hash."""

NO_PENALTIES: Penalties = MappingProxyType({})

_log = logging.getLogger(__name__)


def failure_share(outcomes: Outcomes) -> float:
    """Return the share of failures among all reports, with older ones weighing less."""
    weights = outcomes.successes + outcomes.failures
    return outcomes.failures / weights if weights else 0.0


def penalty(outcomes: Outcomes, now: float) -> float:
    """Return the score reduction: it halves with each half-life since the last failure."""
    if outcomes.reports < _REPORTS_MIN or failure_share(outcomes) <= _FAILURES_MIN:
        return 0.0
    lost = PENALTY_MAX * faded(now - outcomes.last_failure)
    return lost if lost >= _LEAST else 0.0


@dataclass(frozen=True, slots=True)
class PrincipalReports:
    """One principal's reports on the current version of a skill, for a person. ``age_s`` is the last report's age."""

    principal: str
    reports: int
    failure_share: float
    penalty: float
    age_s: float
    note: str

    @property
    def as_json(self) -> JsonObject:
        """Return it as JSON."""
        return {
            "principal": self.principal,
            "reports": self.reports,
            "failure_share": self.failure_share,
            "setback": self.penalty,
            "age_s": round(self.age_s),
            **({"note": self.note} if self.note else {}),
        }


class ReportedOutcomes:
    """The outcomes that callers have reported. Reading and writing may block. ``now``: seconds since the epoch."""

    def __init__(self, outcomes: SkillOutcomes, now: Callable[[], float], *, enabled: bool) -> None:
        self._outcomes, self._now, self.enabled = outcomes, now, enabled

    def penalties(self, principal: str) -> Penalties:
        """Return the score reductions in searches of a principal, caused by their own reports only."""
        if not self.enabled:
            return NO_PENALTIES
        try:
            reported = self._outcomes.by_principal(principal)
        except StoreError as error:
            _log.warning("outcomes of skills cannot be read: %s", error.detail)
            return NO_PENALTIES
        # Each caller is served by their own reports: nobody can lower a skill for others (R195).
        now = self._now()
        lost = {(skill_id, each.digest): penalty(each, now) for skill_id, each in reported.items()}
        return {key: value for key, value in lost.items() if value}

    def record(self, principal: str, report: Report) -> None:
        """Record a report.

        Raises:
            StoreError: it cannot be stored.

        """
        self._outcomes.record(principal, report, self._now())

    def reports(self, skill: Skill) -> list[PrincipalReports]:
        """Return the reports on the current version of a skill, by principal; reports on earlier texts are ignored.

        Raises:
            StoreError: they cannot be read.

        """
        now = self._now()
        return [
            PrincipalReports(
                principal,
                each.reports,
                round(failure_share(each), 2),
                round(penalty(each, now), 2) if self.enabled else 0.0,
                max(now - each.last_report, 0.0),
                each.note,
            )
            for principal, each in self._outcomes.by_skill(skill.id).items()
            if each.digest == skill.content_hash
        ]
