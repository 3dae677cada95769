"""The index of skills on disk: the content of each root's files, as whole texts and words."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

from toolcrib.base.cache import Remembered
from toolcrib.base.errors import StoreError
from toolcrib.base.model import (
    FileMark,
    Skill,
    SkillFile,
    SkillOrigin,
    SkillProblem,
    SkillRecord,
    SkillScope,
    SkillText,
    ToolNote,
)
from toolcrib.base.patterns import SUBJECT_MAX
from toolcrib.base.text import counted_words
from toolcrib.search.english import stem
from toolcrib.storage.full_text import FullText
from toolcrib.storage.opening import Schema, statements
from toolcrib.storage.rows import Codec, RowMapper, objects
from toolcrib.storage.store import DamagedRows, Store, damaged_rows, storable, to_json, upsert
from toolcrib.storage.vectors import Texts, create_vectors

ROW_FORMAT = 10
"""Increased, together with a migration that forgets the files, when the row of an unchanged skill would differ."""

SHORT_FIELDS = 4
"""Name, title, trigger with description, and tags; the body follows."""

_BODY_MAX = 20_000
"""Maximum number of indexed characters of a body."""

_WORD_MAX = 40
"""A longer word in a body is data, not a word."""

_WORDS_KEPT = 50_000
"""How many words have their stems remembered while texts are counted."""

_NOTHING: Mapping[str, int] = {}

NO_STEMS = (_NOTHING,) * (SHORT_FIELDS + 1)
"""The stems of a skill without words."""


def record_hash(record: SkillRecord) -> str:
    """Return the hash of what a row stores of a record, except its source's label, which differs by process."""
    scope = record.scope
    facts = (
        ROW_FORMAT,
        *(record.id, record.text.content_hash, record.folder, record.path, record.origin.value, record.origin_ref),
        *(scope.mode, scope.tenant_id, scope.project_id, record.is_pinned, record.is_conforming),
    )
    return sha256(json.dumps(facts).encode()).hexdigest()


def _decoded_notes(stored: str) -> tuple[ToolNote, ...]:
    return () if stored == "[]" else tuple(ToolNote(*each) for each in json.loads(stored))


def _decoded_names(stored: str) -> tuple[str, ...]:
    return () if stored == "[]" else tuple(name for name, _note in json.loads(stored))


def _encoded_notes(notes: Iterable[ToolNote]) -> str:
    return to_json([(note.tool, note.note) for note in notes])


_NOTES = Codec(_encoded_notes, _decoded_notes)
_PROBLEMS = objects(SkillProblem)

_SKILL = RowMapper(Skill, renamed={"row": "rowid"}, tools=_NOTES._replace(decode=_decoded_names))
"""What memory holds of a skill. Its columns come first in the table: rows are long, and SQLite reads from the left."""

_TEXT = RowMapper(SkillText, tools=_NOTES)
_SCOPE = RowMapper(SkillScope, renamed={"mode": "scope_mode"})
_PLACE = RowMapper(
    SkillRecord, ("id", "source", "folder", "path", "origin", "origin_ref", "is_pinned", "is_conforming")
)


def columns_of(record: SkillRecord, counts: "WordCounts", now: float) -> dict[str, Any]:
    """Return a record as values by column; ``now`` is in seconds since the epoch."""
    columns = {
        **_TEXT.encode(record.text),
        **_SCOPE.encode(record.scope),
        **_PLACE.encode(record),
        "record_hash": record_hash(record),
        "created_at": now,
        "updated_at": now,
        **counts.columns(record.text),
    }
    return {name: storable(value) if isinstance(value, str) else value for name, value in columns.items()}


def _skill_of(row: tuple[Any, ...], sources: Mapping[str, str]) -> Skill:
    """Return a skill from its row; ``sources`` has the label of each root.

    One written by another program without a place gets one from its origin and its id.
    """
    values = _SKILL.values(row)
    values["source"] = sources.get(values["root"], values["source"]) or values["origin"].value
    values["folder"] = values["folder"] or values["id"]
    if values["trigger"] == values["description"]:
        values["trigger"] = values["description"]  # most have both alike: the two share one string in memory
    return Skill(**values)


def stems_of(stems: str, body_stems: str) -> tuple[Mapping[str, int], ...]:
    """Return the counted stems of each field, the body last, from the values of ``STEM_COLUMNS``.

    Empty if they were not counted, because another program has written the row.
    """
    short = json.loads(stems)
    return (*short, *NO_STEMS[len(short) : SHORT_FIELDS], json.loads(body_stems)) if short else ()


def short_texts_of(trigger: str, description: str, tags: str) -> tuple[str, ...]:
    """Return the texts that a pattern is tried on, deduplicated, from the columns with these names."""
    return tuple(text[:SUBJECT_MAX] for text in dict.fromkeys((trigger, description, *json.loads(tags))))


def mentions_from(column: str) -> tuple[Mapping[str, int], ...]:
    """Return the possible names of tools as stored in a row; empty if another program has written the row."""
    return tuple(json.loads(column))


_Texts = tuple[tuple[str, ...], ...]
"""The texts of each field of a skill; the body last."""


class WordCounts:
    """Counts stems and possible tool names in texts of skills. Safe to use from several threads.

    A text is counted once, however many copies of it there are: the same skills are often installed for several hosts.
    """

    def __init__(self, stem: Callable[[str], str]) -> None:
        from toolcrib.catalog.name_detection import counted_candidates  # noqa: PLC0415 - no start waits for its patterns

        self._candidates = counted_candidates
        self._stem_of = Remembered(stem, _WORDS_KEPT, _WORD_MAX)
        self._columns: dict[_Texts, Mapping[str, str]] = {}

    def columns(self, text: SkillText) -> Mapping[str, str]:
        """Return the counts of a text as values by column."""
        fields = _fields(text)
        known = self._columns.get(fields)
        if known is None:
            *stems, body_stems = self.stems(text)
            known = {"stems": to_json(stems), "body_stems": to_json(body_stems)}
            known = self._columns[fields] = {**known, "mentions": to_json(self.mentions(text))}
        return known

    def stems(self, text: SkillText) -> tuple[Mapping[str, int], ...]:
        """Return the stems of each field with their counts, the body last."""
        return tuple(self._counted("\n".join(texts)) for texts in _fields(text))

    def mentions(self, text: SkillText) -> tuple[Mapping[str, int], ...]:
        """Return the possible tool names in each field with their counts; the body last."""
        fields = tuple(Counter[str]() for _ in _fields(text))
        for field, texts in zip(fields, _fields(text), strict=True):
            # Each text on its own, as it is cleaned: a backtick in one must not begin or end code in the next.
            for each in texts:
                field.update(self._candidates(each))
        return fields

    def _counted(self, text: str) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for word, count in counted_words(text).items():
            if len(word) <= _WORD_MAX:
                stem = self._stem_of[word]
                counts[stem] = counts.get(stem, 0) + count
        return counts


def _fields(text: SkillText) -> _Texts:
    # Without a trigger of its own a skill has its description in both fields, which must count only once.
    said = (text.trigger,) if text.trigger == text.description else (text.trigger, text.description)
    return (text.name,), (text.title,), said, text.tags, (text.body[:_BODY_MAX],)


APPLICATION_ID = int.from_bytes(b"tcSK")
"""Marks the file as an index of skills (``PRAGMA application_id``)."""

STEM_COLUMNS = ("stems", "body_stems")
"""The counted stems of a skill's words, ready for ranking: of its short fields, and of its body."""

# AUTOINCREMENT: the number of a deleted row must never be reused, because processes keep numbers in memory.
_SKILLS = """
CREATE TABLE skills (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL DEFAULT '',
    root TEXT NOT NULL DEFAULT '',
    folder TEXT NOT NULL DEFAULT '',
    path TEXT NOT NULL DEFAULT '',
    title TEXT NOT NULL DEFAULT '',
    trigger TEXT NOT NULL,
    task_type TEXT NOT NULL DEFAULT 'unknown',
    tags TEXT NOT NULL DEFAULT '[]',
    requires TEXT NOT NULL DEFAULT '[]',
    origin TEXT NOT NULL DEFAULT 'dir',
    origin_ref TEXT NOT NULL DEFAULT '',
    scope_mode TEXT NOT NULL DEFAULT 'project',
    tenant_id TEXT,
    project_id TEXT,
    content_hash TEXT NOT NULL DEFAULT '',
    record_hash TEXT NOT NULL DEFAULT '',
    is_pinned INTEGER NOT NULL DEFAULT 0,
    is_hidden INTEGER NOT NULL DEFAULT 0,
    is_conforming INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'enabled',
    use_count INTEGER NOT NULL DEFAULT 0,
    last_used REAL,
    created_at REAL NOT NULL DEFAULT 0,
    updated_at REAL NOT NULL DEFAULT 0,
    description TEXT NOT NULL DEFAULT '',
    steps TEXT NOT NULL DEFAULT '[]',
    preconditions TEXT NOT NULL DEFAULT '[]',
    failure_modes TEXT NOT NULL DEFAULT '[]',
    tools TEXT NOT NULL DEFAULT '[]',
    extra TEXT NOT NULL DEFAULT '{}',
    frontmatter TEXT NOT NULL DEFAULT '{}',
    stems TEXT NOT NULL DEFAULT '[]',
    body_stems TEXT NOT NULL DEFAULT '{}',
    body TEXT NOT NULL DEFAULT ''
)"""

_FILES = """
CREATE TABLE skill_files (
    root TEXT NOT NULL,
    path TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    size INTEGER NOT NULL,
    digest TEXT NOT NULL,
    problems TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (root, path)
) WITHOUT ROWID"""

_ROOTS = "CREATE TABLE skill_roots (root TEXT PRIMARY KEY, used_at REAL NOT NULL) WITHOUT ROWID"

_META = "CREATE TABLE skill_index_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


_INDEXES = (
    "CREATE INDEX skills_by_place ON skills(root, path)",
    "CREATE INDEX skills_by_scope ON skills(scope_mode, tenant_id, project_id)",
    *(f"CREATE INDEX skills_by_{column} ON skills({column})" for column in ("task_type", "origin")),
)
_READ_AGAIN = "DELETE FROM skill_files"
"""For a change of what a file's row has: every file is read again, and its words or their stems with it."""

SKILLS_SCHEMA = Schema(
    APPLICATION_ID,
    (
        statements(_SKILLS, _FILES, _ROOTS, _META, *_INDEXES),
        statements(_READ_AGAIN),
        create_vectors,
        # Switches and usage are in state.db (ADR 14).
        statements(
            *(f"DROP TRIGGER IF EXISTS {name}" for name in ("skills_remembered", "skills_recalled")),
            "DROP TABLE IF EXISTS skill_memory",
        ),
        statements("ALTER TABLE skills ADD COLUMN mentions TEXT NOT NULL DEFAULT '[]'", _READ_AGAIN),
        *[statements(_READ_AGAIN)] * 7,
    ),
)
"""The schema of ``skills.db`` (R101, R103, R105). Append migrations, never change one.

``record_hash`` identifies the content of a row. ``status``, ``use_count`` and ``last_used`` exist because R103 names
them: nothing reads them; their values are in ``state.db`` (R139, R243).
"""

SKILLS_FULL_TEXT = FullText(
    table="skills",
    key="rowid",
    columns={name: name for name in ("name", "title", "trigger", "description", "tags")},
    meta="skill_index_meta",
    content="skills",
)
"""``skills_fts`` and its triggers (R102)."""

SKILL_TEXTS = Texts(
    "skills",
    "rowid",
    # Copies share a vector; a row that another program has written has no record of ours, and its hash may be anything.
    "CASE record_hash WHEN '' THEN '' ELSE content_hash END",
    "root",
    "name || ' ' || title || ' ' || trigger || ' ' || "
    "CASE description WHEN trigger THEN '' ELSE description || ' ' END || body",
)
"""The text of a skill that is embedded, the most significant part first."""


LEARNED_KEPT = "learned-skill-kept"
"""The code of the problem that a learned skill has the name of a pack's skill."""

_UNREAD = FileMark(mtime_ns=0, size=-1, digest="")
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
    mark = file.mark if is_settled else _UNREAD
    problems = (*file.problems, *(_kept_problem(file, record) for record in kept))
    return (
        storable(file.path),
        max(-_INT_MAX, min(mark.mtime_ns, _INT_MAX)),
        mark.size,
        mark.digest,
        _PROBLEMS.encode(problems),
    )


def _kept_problem(file: SkillFile, record: SkillRecord) -> SkillProblem:
    message = f"A learned skill has the name {record.text.name!r}; it stays, and the pack's is left out. Rename one."
    return SkillProblem(file.path, 0, "warning", LEARNED_KEPT, message)


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
        self.store = store
        store.prepare(SKILLS_FULL_TEXT.synchronize)

    # -- files -----------------------------------------------------------------------------------

    def marks(self, root: str) -> dict[str, FileMark]:
        """Return the marks of the files of a root as of their last reading, by path."""
        query = "SELECT path, mtime_ns, size, digest FROM skill_files WHERE root = ?"
        with self.store.read() as connection:
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
        with self.store.read() as connection:
            first = plan(connection, root, changed, gone, update=update)
        if first.is_empty:
            return first.changes
        # Computing stems is slow, so it is done before other writers have to wait.
        counts = WordCounts(stem)
        columns = {record.id: columns_of(record, counts, now) for record in (*first.added, *first.updated)}

        def apply(connection: sqlite3.Connection) -> SkillChanges:
            current = plan(connection, root, changed, gone, update=update)  # again: another process may have written
            for record in (*current.added, *current.updated):
                if record.id not in columns:
                    columns[record.id] = columns_of(record, counts, now)
            carry_out(connection, root, current, columns)
            connection.execute("INSERT INTO skill_roots VALUES (?, ?) ON CONFLICT DO NOTHING", (root, now))
            return current.changes

        return self.store.change(apply)

    def problems(self, roots: Iterable[str]) -> list[tuple[str, SkillProblem]]:
        """Return the problems of files, each with its root's key: roots in the order given, then by path."""
        query = "SELECT problems FROM skill_files WHERE root = ? AND problems <> '[]' ORDER BY path"
        with self._reading() as connection:
            return [
                (root, problem)
                for root in roots
                for (problems,) in connection.execute(query, (storable(root),))
                for problem in _PROBLEMS.decode(problems)
            ]

    def forget_roots(self, *, used: Iterable[str], now: float) -> int:
        """Record that some roots are in use, to the hour, and delete those unused for 30 days; return their number."""
        with self.store.read() as connection:
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
            self.store.change(forget)
        return len(stale)

    def clear(self) -> None:
        """Delete every skill, file and root."""

        def clear(connection: sqlite3.Connection) -> None:
            for table in ("skills", "skill_files", "skill_roots"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - own name

        self.store.change(clear)

    def check(self) -> list[str]:
        """Return the defects of the file, the full-text table included; empty if there are none."""
        return self.store.check()

    # -- skills ----------------------------------------------------------------------------------

    def load(self, roots: Mapping[str, str], tenant_id: str | None, project_id: str | None) -> list[Skill]:
        """Return the skills of these roots (key -> its label in this process), and learned ones, in a caller's scope.

        Skills of other scopes are not even read (R145). Sorted by the order of the roots, then by folder and name.
        """
        query = (
            f"SELECT {', '.join(_SKILL.columns)} FROM skills "  # noqa: S608 - own column names
            f"WHERE (root IN (SELECT value FROM json_each(:roots)) OR origin = 'learned') AND {_IN_SCOPE}"
        )
        sources = {storable(root): source for root, source in roots.items()}
        given = {"roots": to_json(list(sources)), "tenant": tenant_id, "project": project_id}
        with self._reading() as connection:
            skills = [_skill_of(row, sources) for row in connection.execute(query, given)]
        order = {root: place for place, root in enumerate(sources)}
        return sorted(
            skills, key=lambda skill: (order.get(skill.root, len(order)), skill.folder, skill.name, skill.row)
        )

    def count(self, root: str) -> int:
        """Return how many skills a root has."""
        with self.store.read() as connection:
            query = "SELECT count(*) FROM skills WHERE root = ?"
            return int(connection.execute(query, (storable(root),)).fetchone()[0])

    def details(self, rows: Iterable[int]) -> dict[int, SkillText]:
        """Return whole texts by row; deleted rows are omitted."""
        return self._of_rows(_TEXT.columns, rows, lambda *row: _TEXT.decode(row))

    def stems(self, rows: Iterable[int]) -> dict[int, tuple[Mapping[str, int], ...]]:
        """Return the counted stems of each field by row: name, title, trigger with description, tags, body."""
        found = self._of_rows(STEM_COLUMNS, rows, stems_of)
        uncounted = self.details(row for row, stems in found.items() if not stems)
        counts = WordCounts(stem)
        return found | {row: counts.stems(text) for row, text in uncounted.items()}

    def mentions(self, rows: Iterable[int]) -> dict[int, tuple[Mapping[str, int], ...]]:
        """Return the possible tool names by row: the candidates of each field with their counts."""
        found = self._of_rows(("mentions",), rows, mentions_from)
        unknown = self.details(row for row, mentions in found.items() if not mentions)
        counts = WordCounts(stem)
        return found | {row: counts.mentions(text) for row, text in unknown.items()}

    def short_texts(self, rows: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Return the texts that a pattern is tried on besides names, by row: trigger, description and tags (R237)."""
        return self._of_rows(("trigger", "description", "tags"), rows, short_texts_of)

    def _of_rows(self, columns: Sequence[str], rows: Iterable[int], make: Callable[..., _Value]) -> dict[int, _Value]:
        """Return the result of ``make`` for the columns of each existing row."""
        query = (
            f"SELECT rowid, {', '.join(columns)} FROM skills "  # noqa: S608 - own column names
            "WHERE rowid IN (SELECT value FROM json_each(?))"
        )
        with self._reading() as connection:
            return {row[0]: make(*row[1:]) for row in connection.execute(query, (to_json(list(rows)),))}

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        """Open a read transaction. If rows turn out to be damaged, the file is set aside for a new, empty one.

        Sound rows of learned skills are taken along, because no file has them.

        Raises:
            DamagedRows: the file was set aside; its rows have to be made again from the files of skills.

        """
        generation = self.store.generation
        try:
            with self.store.read() as connection, damaged_rows("skills"):
                yield connection
        except DamagedRows as error:
            learned = self._sound_learned()
            self.store.set_aside(generation, error.detail)
            self.store.change(lambda connection: upsert(connection, "skills", "id", learned))
            raise

    def _sound_learned(self) -> list[dict[str, Any]]:
        """Return the rows of learned skills that can be read, by column."""
        sound: list[dict[str, Any]] = []
        with suppress(StoreError), self.store.read() as connection:
            found = connection.execute("SELECT * FROM skills WHERE origin = 'learned'")
            names = [column[0] for column in found.description]
            for row in found:
                values = dict(zip(names, row, strict=True))
                with suppress(ValueError, TypeError, KeyError):
                    for mapper in (_SKILL, _TEXT):
                        mapper.decode([values[column] for column in mapper.columns])
                    stems_of(values["stems"], values["body_stems"])
                    mentions_from(values["mentions"])
                    sound.append({name: value for name, value in values.items() if name != "rowid"})
        return sound
