"""The tables of ``skills.db``: their columns, their migrations and the full-text table beside them.

Knows names and SQL of tables only; never knows what a skill means or how one is ranked.
"""

import sqlite3

from toolcrib.policy.state import EarlierTable, drop_when_empty
from toolcrib.storage.full_text import FullText
from toolcrib.storage.opening import Schema
from toolcrib.storage.vectors import Texts, create_vectors

APPLICATION_ID = int.from_bytes(b"tcSK")
"""Marks the file as an index of skills (``PRAGMA application_id``)."""

VISIBLE_COLUMNS = (
    "rowid",
    "id",
    "name",
    "source",
    "root",
    "folder",
    "path",
    "title",
    "description",
    "trigger",
    "task_type",
    "tags",
    "requires",
    "tools",
    "origin",
    "origin_ref",
    "scope_mode",
    "content_hash",
    "is_pinned",
    "is_hidden",
    "is_conforming",
)
"""The columns held in memory. First in the table: rows are long, and SQLite reads from the left."""

TEXT_COLUMNS = (
    "name",
    "title",
    "description",
    "trigger",
    "task_type",
    "tags",
    "steps",
    "preconditions",
    "failure_modes",
    "tools",
    "requires",
    "body",
    "frontmatter",
    "extra",
    "is_hidden",
    "content_hash",
)
"""The fields of a skill's whole text, in this order, each in the column of its name."""

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

_MEMORY = """
CREATE TABLE skill_memory (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL DEFAULT 'enabled',
    use_count INTEGER NOT NULL DEFAULT 0,
    last_used REAL
) WITHOUT ROWID"""

_REMEMBER = """
CREATE TRIGGER skills_remembered BEFORE DELETE ON skills WHEN old.use_count > 0 OR old.status <> 'enabled' BEGIN
    INSERT OR REPLACE INTO skill_memory VALUES (old.id, old.status, old.use_count, old.last_used);
END"""

_RECALL = """
CREATE TRIGGER skills_recalled AFTER INSERT ON skills WHEN EXISTS (SELECT 1 FROM skill_memory WHERE id = new.id) BEGIN
    UPDATE skills SET (status, use_count, last_used) =
        (SELECT status, use_count, last_used FROM skill_memory WHERE id = new.id) WHERE rowid = new.rowid;
    DELETE FROM skill_memory WHERE id = new.id;
END"""

_META = "CREATE TABLE skill_index_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


def _first_tables(connection: sqlite3.Connection) -> None:
    for statement in (_SKILLS, _FILES, _ROOTS, _MEMORY, _REMEMBER, _RECALL, _META):
        connection.execute(statement)
    connection.execute("CREATE INDEX skills_by_place ON skills(root, path)")
    connection.execute("CREATE INDEX skills_by_scope ON skills(scope_mode, tenant_id, project_id)")
    for column in ("task_type", "origin"):
        connection.execute(f"CREATE INDEX skills_by_{column} ON skills({column})")


def _files_read_anew(connection: sqlite3.Connection) -> None:
    """Read every file again, because its words or their stems have changed."""
    connection.execute("DELETE FROM skill_files")


_DECIDED = (
    "SELECT id, status <> 'enabled', use_count, last_used FROM skill_memory "
    "UNION ALL SELECT id, status <> 'enabled', use_count, last_used FROM skills "
    "WHERE use_count > 0 OR status <> 'enabled'"
)
_NOT_REMEMBERED = tuple(f"DROP TRIGGER IF EXISTS {name}" for name in ("skills_remembered", "skills_recalled"))

EARLIER_DECISIONS = EarlierTable(
    application_id=APPLICATION_ID,
    table="skill_memory",
    rows=_DECIDED,
    leave=(*_NOT_REMEMBERED, "DROP TABLE skill_memory"),
)
"""Where switches and usage were before there was ``state.db``: in the rows of skills, and here for deleted ones."""


def _decisions_elsewhere(connection: sqlite3.Connection) -> None:
    """Move decisions from the rows to a table, until they are taken over."""
    for statement in _NOT_REMEMBERED:
        connection.execute(statement)
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'skill_memory'").fetchone():
        connection.execute(
            "INSERT OR REPLACE INTO skill_memory SELECT id, status, use_count, last_used FROM skills "
            "WHERE use_count > 0 OR status <> 'enabled'"
        )
        drop_when_empty(connection, "skill_memory")


def _names_in_texts(connection: sqlite3.Connection) -> None:
    """Add the column for possible tool names, and read every file again to fill it."""
    connection.execute("ALTER TABLE skills ADD COLUMN mentions TEXT NOT NULL DEFAULT '[]'")
    connection.execute("DELETE FROM skill_files")


SKILLS_SCHEMA = Schema(
    APPLICATION_ID,
    (
        _first_tables,
        _files_read_anew,
        create_vectors,
        _decisions_elsewhere,
        _names_in_texts,
        *(_files_read_anew, _files_read_anew, _files_read_anew, _files_read_anew),
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
    "name || ' ' || title || ' ' || trigger || ' ' || "
    "CASE description WHEN trigger THEN '' ELSE description || ' ' END || body",
)
"""The text of a skill that is embedded, the most significant part first."""
