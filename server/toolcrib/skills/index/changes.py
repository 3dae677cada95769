"""Computes the writes that make the rows of the index match the files again.

Knows which rows are new, different or gone; never knows how a row is encoded or when this is asked.
"""

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.base.model import FileMark, SkillFile, SkillOrigin, SkillProblem, SkillRecord
from toolcrib.skills.index.rows import problems_to_json, record_hash
from toolcrib.storage.store import storable, to_json, upsert

LEARNED_KEPT = "learned-skill-kept"
"""The code of the problem that a learned skill has the name of a pack's skill."""

_READ_AGAIN = FileMark(mtime_ns=0, size=-1, digest="")
"""The mark of a file to be read again at the next scan: no file has this size."""

_INT_MAX = 2**63 - 1
"""The range of SQLite's integers (64 bits), while a file system may give a file any time."""

_LISTED = "IN (SELECT value FROM json_each(?))"
_STANDING = f"SELECT id, record_hash FROM skills WHERE root = ? AND path {_LISTED}"  # noqa: S608 - own constant
_WITH_IDS = f"SELECT id, record_hash FROM skills WHERE id {_LISTED}"  # noqa: S608 - own constant
_MARKS = f"SELECT path, mtime_ns, size, digest, problems FROM skill_files WHERE root = ? AND path {_LISTED}"  # noqa: S608
_LEARNED = "SELECT name, scope_mode, tenant_id, project_id FROM skills WHERE origin = 'learned'"

_FileRow = tuple[str, int, int, str, str]


@dataclass(frozen=True, slots=True)
class SkillChanges:
    """How many skills were added, changed or removed. ``kept``: names that learned skills keep from a pack's (R113)."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows to be written and deleted. ``files`` are rows of ``skill_files`` without the root, ``gone`` paths."""

    added: tuple[SkillRecord, ...]
    updated: tuple[SkillRecord, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    files: tuple[_FileRow, ...]
    gone: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to change."""
        return not (self.added or self.updated or self.removed or self.files or self.gone)

    @property
    def changes(self) -> SkillChanges:
        """Return the plan as counts."""
        return SkillChanges(len(self.added), len(self.updated), len(self.removed), self.kept)


def plan(
    connection: sqlite3.Connection, root: str, changed: Sequence[SkillFile], gone: Collection[str], *, update: bool
) -> Plan:
    """Return the changes that make the rows of ``root`` match its files; without ``update``, existing rows stay."""
    records = {record.id: record for file in changed for record in file.records}
    paths = listed([*(file.path for file in changed), *gone])
    standing: dict[str, str] = dict(connection.execute(_STANDING, (root, paths)))
    # A skill that has moved to another file keeps its id, and therefore its row.
    stored = standing | dict(connection.execute(_WITH_IDS, (listed(records),)))
    learned: set[tuple[Any, ...]] = set(connection.execute(_LEARNED))
    kept = {key for key, record in records.items() if record.origin is SkillOrigin.PACK and _name(record) in learned}
    differing = {key for key in records.keys() & stored.keys() - kept if record_hash(records[key]) != stored[key]}
    unsettled = kept if update else kept | differing
    wanted = [_file_row(file, [record for record in file.records if record.id in kept], unsettled) for file in changed]
    marks: dict[str, _FileRow] = {row[0]: row for row in connection.execute(_MARKS, (root, paths))}
    return Plan(
        added=tuple(record for key, record in records.items() if key not in stored and key not in kept),
        updated=tuple(record for key, record in records.items() if key in differing) if update else (),
        removed=tuple(sorted(standing.keys() - records.keys())),
        kept=tuple(sorted(records[key].text.name for key in kept)),
        files=tuple(row for row in wanted if marks.get(row[0]) != row),
        gone=tuple(sorted(marks.keys() & set(map(storable, gone)))),
    )


def carry_out(connection: sqlite3.Connection, root: str, what: Plan, columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Execute a plan. ``columns`` has the values of each record that it adds or updates, by id."""
    connection.execute(f"DELETE FROM skills WHERE id {_LISTED}", (listed(what.removed),))  # noqa: S608 - own constant
    rows = [{**columns[record.id], "root": root} for record in (*what.updated, *what.added)]
    upsert(connection, "skills", "id", rows, kept=("created_at",))
    statement = "INSERT OR REPLACE INTO skill_files(root, path, mtime_ns, size, digest, problems) VALUES (?,?,?,?,?,?)"
    connection.executemany(statement, [(root, *row) for row in what.files])
    connection.executemany("DELETE FROM skill_files WHERE root = ? AND path = ?", [(root, path) for path in what.gone])


def listed(texts: Iterable[str]) -> str:
    """Return ``texts`` as the JSON array for a filter in SQL."""
    return to_json([storable(text) for text in texts])


def _name(record: SkillRecord) -> tuple[str, str, str | None, str | None]:
    return record.text.name, record.scope.mode, record.scope.tenant_id, record.scope.project_id


def _file_row(file: SkillFile, kept: Sequence[SkillRecord], unsettled: Collection[str]) -> _FileRow:
    """Return a file's row; a file with records that are not up to date is read again at the next scan."""
    is_settled = not any(record.id in unsettled for record in file.records)
    mark = file.mark if is_settled else _READ_AGAIN
    problems = (*file.problems, *(_kept_problem(file, record) for record in kept))
    return (
        storable(file.path),
        max(-_INT_MAX, min(mark.mtime_ns, _INT_MAX)),
        mark.size,
        mark.digest,
        problems_to_json(problems),
    )


def _kept_problem(file: SkillFile, record: SkillRecord) -> SkillProblem:
    message = f"A learned skill has the name {record.text.name!r}; it stays, and the pack's is left out. Rename one."
    return SkillProblem(file.path, 0, "warning", LEARNED_KEPT, message)
