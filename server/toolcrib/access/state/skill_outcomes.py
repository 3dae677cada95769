"""Reported outcomes of skills, by caller and skill: counts that decay over time, on disk (R195, R201).

Knows principals, ids and hashes of skills; never knows what a skill says, or what a count means for a search.
Everything here may block: the event loop calls it through a worker thread.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from toolcrib.storage.store import Store

HALF_LIFE_S = 30 * 86_400.0
"""After so long a report counts half."""

_FORGOTTEN_S = 10 * HALF_LIFE_S
"""Reports that are older weigh less than a thousandth."""
_PER_PRINCIPAL = 1000
"""Skills of one principal that are remembered; beyond them those go that were reported on least recently."""

_COLUMNS = "principal, skill, digest, reports, successes, failures, last_failure, last_report, note"
_KEEP = f"INSERT OR REPLACE INTO skill_outcomes({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - own constant


@dataclass(frozen=True, slots=True)
class Report:
    """One report: whether the skill with this id and content hash did what it was for. ``note`` may say more."""

    skill_id: str
    digest: str
    success: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The reports of one principal about one text of a skill; a text with another ``digest`` starts from zero.

    ``successes`` and ``failures`` are the weights of the reports at ``last_report``: each is 1 when it comes and half
    of that a half-life later. Times are in seconds since the epoch; ``last_failure`` is 0 where there was none.
    ``note`` came with the last report that had one.
    """

    digest: str
    reports: int = 0
    successes: float = 0.0
    failures: float = 0.0
    last_failure: float = 0.0
    last_report: float = 0.0
    note: str = ""

    def joined_by(self, report: Report, now: float) -> "Outcomes":
        """Return them with one more report."""
        before = self if self.digest == report.digest else Outcomes(report.digest)
        fading = faded(now - before.last_report)
        return Outcomes(
            report.digest,
            before.reports + 1,
            before.successes * fading + report.success,
            before.failures * fading + (not report.success),
            before.last_failure if report.success else now,
            now,
            report.note or before.note,
        )


def faded(age_s: float) -> float:
    """Return what is left of a weight of 1 after ``age_s`` seconds."""
    return 0.5 ** (max(age_s, 0.0) / HALF_LIFE_S)


class SkillOutcomes:
    """Outcomes by principal and the id of a skill, whether the skill is there or not. Safe to use from several threads.

    Every method raises StoreError where the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def by(self, principal: str) -> dict[str, Outcomes]:
        """Return what a principal reported, by the id of the skill."""
        query = f"SELECT {_COLUMNS} FROM skill_outcomes WHERE principal = ?"  # noqa: S608 - own constant
        with self._store.read() as connection:
            return {skill: Outcomes(*rest) for _, skill, *rest in connection.execute(query, (principal,))}

    def of(self, skill_id: str) -> Mapping[str, Outcomes]:
        """Return what was reported of a skill, by principal."""
        query = f"SELECT {_COLUMNS} FROM skill_outcomes WHERE skill = ? ORDER BY principal"  # noqa: S608 - own constant
        with self._store.read() as connection:
            return {principal: Outcomes(*rest) for principal, _, *rest in connection.execute(query, (skill_id,))}

    def record(self, principal: str, report: Report, now: float) -> None:
        """Count one report of a principal, who bears it alone. ``now`` is in seconds since the epoch."""

        def record(connection: sqlite3.Connection) -> None:
            query = f"SELECT {_COLUMNS} FROM skill_outcomes WHERE principal = ? AND skill = ?"  # noqa: S608 - own constant
            row = connection.execute(query, (principal, report.skill_id)).fetchone()
            known = Outcomes(*row[2:]) if row else Outcomes(report.digest)
            one = known.joined_by(report, now)
            values = (one.digest, one.reports, one.successes, one.failures, one.last_failure, one.last_report, one.note)
            connection.execute(_KEEP, (principal, report.skill_id, *values))
            connection.execute(
                "DELETE FROM skill_outcomes WHERE principal = ? AND skill NOT IN "
                "(SELECT skill FROM skill_outcomes WHERE principal = ? ORDER BY last_report DESC LIMIT ?)",
                (principal, principal, _PER_PRINCIPAL),
            )

        self._store.change(record, owed=f"outcome {now} {principal} {report.skill_id}")

    def expire(self, now: float) -> None:
        """Forget what was reported too long ago to count."""
        statement, older_than = "DELETE FROM skill_outcomes WHERE last_report < ?", now - _FORGOTTEN_S
        self._store.change(lambda connection: connection.execute(statement, (older_than,)))
