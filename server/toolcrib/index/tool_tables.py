"""The tables of ``tool_cache.db``: their columns, their migrations and the full-text table beside them.

Knows names and SQL of tables only; never knows what a tool means or how one is ranked.
"""

import sqlite3
from hashlib import sha256

from toolcrib.index.opening import Schema

APPLICATION_ID = int.from_bytes(b"tcTL")
"""Marks the file as an index of tools (``PRAGMA application_id``)."""

GATE_COLUMNS = ("name", "namespace", "tool", "loading_mode", "side_effects", "read_only", "hash")
"""What the catalog in memory knows of a tool. First in the table: rows are long, and SQLite reads from the left."""

_FTS_COLUMNS = {
    "name": "name_text",
    "summary": "summary_text",
    "description": "body_text",
    "params": "params_text",
    "pdesc": "params_description_text",
    "server": "server_text",
    "tags": "tags_text",
}
"""Column of the full-text table -> column of ``tools`` with its words."""

TEXT_COLUMNS = tuple(_FTS_COLUMNS.values())
"""The searchable words of a tool, in the order of the full-text columns."""

BM25 = "bm25(tools_fts, 6, 2, 1, 2, 0.4, 1, 1)"
"""The rank of a row, with the measured weight of each full-text column; the more negative, the better."""

_MERGED_PAGES = 64

_TOOLS = """
CREATE TABLE tools (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT UNIQUE NOT NULL,
    namespace TEXT NOT NULL DEFAULT '',
    tool TEXT NOT NULL DEFAULT '',
    loading_mode TEXT NOT NULL DEFAULT 'always',
    side_effects TEXT,
    read_only INTEGER NOT NULL DEFAULT 0,
    hash TEXT NOT NULL DEFAULT '',
    created_at REAL NOT NULL DEFAULT 0,
    updated_at REAL NOT NULL DEFAULT 0,
    signature TEXT NOT NULL DEFAULT '',
    tags TEXT NOT NULL DEFAULT '[]',
    summary TEXT NOT NULL DEFAULT '',
    body TEXT NOT NULL DEFAULT '',
    examples TEXT NOT NULL DEFAULT '[]',
    name_text TEXT NOT NULL DEFAULT '',
    summary_text TEXT NOT NULL DEFAULT '',
    body_text TEXT NOT NULL DEFAULT '',
    params_text TEXT NOT NULL DEFAULT '',
    params_description_text TEXT NOT NULL DEFAULT '',
    server_text TEXT NOT NULL DEFAULT '',
    tags_text TEXT NOT NULL DEFAULT '',
    description TEXT NOT NULL,
    args_schema TEXT,
    out_schema TEXT,
    extra TEXT NOT NULL DEFAULT '{}'
)"""

_SERVERS = """
CREATE TABLE servers (
    key TEXT PRIMARY KEY,
    config_fingerprint TEXT NOT NULL,
    catalog_fingerprint TEXT NOT NULL,
    listed_at REAL NOT NULL,
    era TEXT,
    refused TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID"""

_ACTIVATIONS = """
CREATE TABLE activations (
    principal TEXT NOT NULL,
    session_id TEXT NOT NULL,
    name TEXT NOT NULL,
    last_used REAL NOT NULL,
    PRIMARY KEY (principal, session_id, name)
) WITHOUT ROWID"""

_META = "CREATE TABLE tool_index_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


def _first_tables(connection: sqlite3.Connection) -> None:
    for statement in (_TOOLS, _SERVERS, _ACTIVATIONS, _META):
        connection.execute(statement)
    for column in ("namespace", "loading_mode", "side_effects"):
        connection.execute(f"CREATE INDEX tools_by_{column} ON tools({column})")


TOOLS_SCHEMA = Schema(APPLICATION_ID, (_first_tables,))
"""What ``tool_cache.db`` is (R31, R36, R39). Append migrations, never change one."""

_NAMES = ", ".join(_FTS_COLUMNS)
_OLD = ", ".join(f"old.{column}" for column in TEXT_COLUMNS)
_NEW = ", ".join(f"new.{column}" for column in TEXT_COLUMNS)
_ADD_NEW = f"INSERT INTO tools_fts(rowid, {_NAMES}) VALUES (new.id, {_NEW});"  # noqa: S608 - own column names
_DROP_OLD = f"INSERT INTO tools_fts(tools_fts, rowid, {_NAMES}) VALUES ('delete', old.id, {_OLD});"  # noqa: S608 - own

_TRIGGERS = {
    "tools_after_insert": f"AFTER INSERT ON tools BEGIN {_ADD_NEW} END",
    "tools_after_update": f"AFTER UPDATE ON tools BEGIN {_DROP_OLD} {_ADD_NEW} END",
    "tools_after_delete": f"AFTER DELETE ON tools BEGIN {_DROP_OLD} END",
}

_VIEW = (
    "CREATE VIEW IF NOT EXISTS tools_words AS SELECT id, "  # noqa: S608 - own column names
    + ", ".join(f"{column} AS {name}" for name, column in _FTS_COLUMNS.items())
    + " FROM tools"
)
_TABLE = (
    f"CREATE VIRTUAL TABLE IF NOT EXISTS tools_fts USING fts5({_NAMES}, "
    "content = 'tools_words', content_rowid = 'id', tokenize = 'porter unicode61', detail = full)"
)
_CREATE = (
    _VIEW,
    _TABLE,
    *(f"CREATE TRIGGER IF NOT EXISTS {name} {body}" for name, body in _TRIGGERS.items()),
    "INSERT INTO tools_fts(tools_fts, rank) VALUES ('usermerge', 2)",
    "INSERT INTO tools_fts(tools_fts) VALUES ('rebuild')",
)
_DIGEST = sha256("\n".join(_CREATE).encode()).hexdigest()


def full_text_in_step(connection: sqlite3.Connection, *, fts: bool) -> bool:
    """Return whether the full-text table and its triggers are there exactly if they should be (R37, R38)."""
    row = connection.execute("SELECT value FROM tool_index_meta WHERE key = 'full_text'").fetchone()
    return (row[0] if row else None) == (_DIGEST if fts else None)


def remake_full_text(connection: sqlite3.Connection, *, fts: bool) -> None:
    """Make the full-text table and its triggers anew from ``tools``; without FTS5 only take the triggers away.

    A SQLite without FTS5 cannot even drop the table, but it can write ``tools`` once the triggers are gone.
    """
    for name in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    connection.execute("DELETE FROM tool_index_meta WHERE key = 'full_text'")
    if not fts:
        return
    connection.execute("DROP TABLE IF EXISTS tools_fts")
    connection.execute("DROP VIEW IF EXISTS tools_words")
    for statement in _CREATE:
        connection.execute(statement)
    connection.execute("INSERT INTO tool_index_meta(key, value) VALUES ('full_text', ?)", (_DIGEST,))


def merge_full_text(connection: sqlite3.Connection) -> None:
    """Join small parts of the full-text table, which a write leaves behind and a search pays for.

    Takes a few milliseconds, and does nothing in the transaction that made the parts.
    """
    connection.execute("INSERT INTO tools_fts(tools_fts, rank) VALUES ('merge', ?)", (_MERGED_PAGES,))
