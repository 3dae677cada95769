"""The index of skills on disk: the content of each root's files, as whole texts and words.

Knows rows and how they are kept in step with files; never knows a folder, a format or a ranking.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from toolcrib.base.model import FileMark, Skill, SkillFile, SkillProblem, SkillText
from toolcrib.search.english import stem
from toolcrib.skills.index.changes import SkillChanges, carry_out, plan
from toolcrib.skills.index.rows import (
    columns_of,
    counted_stems,
    mentions_from,
    mentions_of,
    problems_of,
    short_texts_of,
    skill_of,
    stems_of,
    text_of,
)
from toolcrib.skills.index.tables import SKILLS_FULL_TEXT, STEM_COLUMNS, TEXT_COLUMNS, VISIBLE_COLUMNS
from toolcrib.storage.store import Store, damaged_rows, storable, to_json

_Value = TypeVar("_Value")

_TOUCH_AFTER_S = 3600.0
"""A root's time of last use is only updated if it is older than this, in seconds: a second start writes nothing."""

_ROOT_KEPT_S = 30 * 86400.0
"""How long the rows of an unused root are kept, in seconds."""

# IS instead of =, because a caller without a tenant is NULL, which equals nothing.
_IN_SCOPE = (
    "(scope_mode = 'global' OR (scope_mode = 'tenant' AND tenant_id IS :tenant) "
    "OR (scope_mode = 'project' AND tenant_id IS :tenant AND project_id IS :project))"
)


class SkillIndex:
    """The skills of all roots as of the last scan. Safe to use from several threads.

    Several toolcribs with different roots may share the file. A root is identified by its key, a row of ``skills`` by a
    number that is never reused. Every method raises StoreError if the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        store.prepare(SKILLS_FULL_TEXT.keep_in_step)

    def data_version(self) -> int:
        """Return a number that changes when another process has written to the file; never waits."""
        return self._store.data_version()

    @property
    def generation(self) -> int:
        """Return a number that increases when the file is replaced by one without any skills."""
        return self._store.generation

    # -- files -----------------------------------------------------------------------------------

    def marks(self, root: str) -> dict[str, FileMark]:
        """Return the marks of the files of a root as of their last reading, by path."""
        query = "SELECT path, mtime_ns, size, digest FROM skill_files WHERE root = ?"
        with self._store.read() as connection:
            return {row[0]: FileMark(*row[1:]) for row in connection.execute(query, (storable(root),))}

    def apply(
        self, root: str, changed: Sequence[SkillFile], gone: Collection[str], *, now: float, update: bool = True
    ) -> SkillChanges:
        """Update the rows of some files of a root, in one transaction.

        Rows that are up to date stay untouched; if all are, nothing is written. ``gone`` are paths of deleted files.
        Without ``update`` an existing skill stays as it is, and its file is read again at the next scan (R112). A
        pack's skill with the name and scope of a learned one is left out, and reported as a problem of its file (R113).
        ``now`` is in seconds since the epoch.
        """
        if not changed and not gone:
            return SkillChanges()
        root = storable(root)
        with self._store.read() as connection:
            first = plan(connection, root, changed, gone, update=update)
        if first.is_empty:
            return first.changes
        # Computing stems is slow, so it is done before other writers have to wait.
        columns = {record.id: columns_of(record, stem, now) for record in (*first.added, *first.updated)}

        def apply(connection: sqlite3.Connection) -> SkillChanges:
            current = plan(connection, root, changed, gone, update=update)  # again: another process may have written
            for record in (*current.added, *current.updated):
                if record.id not in columns:
                    columns[record.id] = columns_of(record, stem, now)
            carry_out(connection, root, current, columns)
            connection.execute("INSERT INTO skill_roots VALUES (?, ?) ON CONFLICT DO NOTHING", (root, now))
            return current.changes

        return self._store.change(apply)

    def problems(self, roots: Iterable[str]) -> list[tuple[str, SkillProblem]]:
        """Return the problems of files, each with its root's key: roots in the order given, then by path."""
        query = "SELECT problems FROM skill_files WHERE root = ? AND problems <> '[]' ORDER BY path"
        with self._store.read() as connection, damaged_rows("skills"):
            return [
                (root, problem)
                for root in roots
                for (problems,) in connection.execute(query, (storable(root),))
                for problem in problems_of(problems)
            ]

    def forget_roots(self, *, used: Iterable[str], now: float) -> int:
        """Record that some roots are in use, to the hour, and delete those unused for 30 days; return their number."""
        with self._store.read() as connection:
            known: dict[str, float] = dict(connection.execute("SELECT root, used_at FROM skill_roots"))
        in_use = known.keys() & set(map(storable, used))
        # A time in the future, from a wrong clock, is corrected too.
        touched = sorted(root for root in in_use if not 0 <= now - known[root] < _TOUCH_AFTER_S)
        stale = sorted(root for root in known.keys() - in_use if known[root] < now - _ROOT_KEPT_S)

        def forget(connection: sqlite3.Connection) -> None:
            connection.executemany("UPDATE skill_roots SET used_at = ? WHERE root = ?", [(now, r) for r in touched])
            # Checked again inside the transaction: another process may have used the root meanwhile.
            unused = "SELECT 1 FROM skill_roots WHERE root = ? AND used_at < ?"
            for root in stale:
                if connection.execute(unused, (root, now - _ROOT_KEPT_S)).fetchone():
                    for table in ("skills", "skill_files", "skill_roots"):
                        connection.execute(f"DELETE FROM {table} WHERE root = ?", (root,))  # noqa: S608 - own name

        if touched or stale:
            self._store.change(forget)
        return len(stale)

    def clear(self) -> None:
        """Delete every skill, file and root."""

        def clear(connection: sqlite3.Connection) -> None:
            for table in ("skills", "skill_files", "skill_roots"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - own name

        self._store.change(clear)

    def check(self) -> list[str]:
        """Return the defects of the file, the full-text table included; empty if there are none."""
        return self._store.check()

    # -- skills ----------------------------------------------------------------------------------

    def load(self, roots: Mapping[str, str], tenant_id: str | None, project_id: str | None) -> list[Skill]:
        """Return the skills of these roots (key -> its label in this process), and learned ones, in a caller's scope.

        Skills of other scopes are not even read (R145). Sorted by the order of the roots, then by folder and name.
        """
        query = (
            f"SELECT {', '.join(VISIBLE_COLUMNS)} FROM skills "  # noqa: S608 - own column names
            f"WHERE (root IN (SELECT value FROM json_each(:roots)) OR origin = 'learned') AND {_IN_SCOPE}"
        )
        sources = {storable(root): source for root, source in roots.items()}
        given = {"roots": to_json(list(sources)), "tenant": tenant_id, "project": project_id}
        with self._store.read() as connection, damaged_rows("skills"):
            skills = [skill_of(row, sources) for row in connection.execute(query, given)]
        order = {root: place for place, root in enumerate(sources)}
        return sorted(
            skills, key=lambda skill: (order.get(skill.root, len(order)), skill.folder, skill.name, skill.row)
        )

    def count(self, root: str) -> int:
        """Return how many skills a root has."""
        with self._store.read() as connection:
            query = "SELECT count(*) FROM skills WHERE root = ?"
            return int(connection.execute(query, (storable(root),)).fetchone()[0])

    def details(self, rows: Iterable[int]) -> dict[int, SkillText]:
        """Return whole texts by row; deleted rows are omitted."""
        return self._of_rows(TEXT_COLUMNS, rows, text_of)

    def stems(self, rows: Iterable[int]) -> dict[int, tuple[Mapping[str, int], ...]]:
        """Return the counted stems of each field by row: name, title, trigger with description, tags, body."""
        found = self._of_rows(STEM_COLUMNS, rows, stems_of)
        uncounted = self.details(row for row, stems in found.items() if not stems)
        return found | {row: counted_stems(text, stem) for row, text in uncounted.items()}

    def mentions(self, rows: Iterable[int]) -> dict[int, tuple[Mapping[str, int], ...]]:
        """Return the possible tool names by row: the candidates of each field with their counts."""
        found = self._of_rows(("mentions",), rows, mentions_from)
        unknown = self.details(row for row, mentions in found.items() if not mentions)
        return found | {row: mentions_of(text) for row, text in unknown.items()}

    def short_texts(self, rows: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Return the texts that a pattern is tried on besides names, by row: trigger, description and tags (R237)."""
        return self._of_rows(("trigger", "description", "tags"), rows, short_texts_of)

    def _of_rows(self, columns: Sequence[str], rows: Iterable[int], make: Callable[..., _Value]) -> dict[int, _Value]:
        """Return the result of ``make`` for the columns of each existing row."""
        query = (
            f"SELECT rowid, {', '.join(columns)} FROM skills "  # noqa: S608 - own column names
            "WHERE rowid IN (SELECT value FROM json_each(?))"
        )
        with self._store.read() as connection, damaged_rows("skills"):
            return {row[0]: make(*row[1:]) for row in connection.execute(query, (to_json(list(rows)),))}
