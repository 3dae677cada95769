"""The tables of ``tool_cache.db``: their columns, their migrations and the full-text table beside them.

Knows names and SQL of tables only; never knows what a tool means or how one is ranked.
"""

import sqlite3

from toolcrib.policy.state import EarlierTable, drop_when_empty
from toolcrib.search.english import VERSION
from toolcrib.storage.full_text import FullText
from toolcrib.storage.opening import Schema
from toolcrib.storage.stems import StemTables
from toolcrib.storage.vectors import Texts, create_vectors
from toolcrib.tools.index.rows import described

APPLICATION_ID = int.from_bytes(b"tcTL")
"""Marks the file as an index of tools (``PRAGMA application_id``)."""

GATE_COLUMNS = ("name", "namespace", "tool", "loading_mode", "side_effects", "read_only", "hash")
"""The columns of a tool held in memory. First in the table: rows are long, and SQLite reads from the left."""

_FTS_COLUMNS = {
    "name": "name_text",
    "summary": "summary_text",
    "description": "body_text",
    "params": "params_text",
    "pdesc": "params_description_text",
    "server": "server_text",
    "tags": "tags_text",
}
"""The column of ``tools`` with the words of each column of the full-text table."""

TEXT_COLUMNS = tuple(_FTS_COLUMNS.values())
"""The searchable words of a tool, in the order of the full-text columns."""

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


def _activations_elsewhere(connection: sqlite3.Connection) -> None:
    drop_when_empty(connection, EARLIER_ACTIVATIONS.table)


EARLIER_ACTIVATIONS = EarlierTable(
    application_id=APPLICATION_ID,
    table="activations",
    rows="SELECT principal, session_id, name, last_used FROM activations ORDER BY last_used, name",
    leave=("DROP TABLE activations",),
)
"""Where the activations of session ids were before there was ``state.db``."""


def _names_in_texts(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE tools ADD COLUMN mentions TEXT NOT NULL DEFAULT '{}'")
    connection.execute("ALTER TABLE servers ADD COLUMN withheld TEXT NOT NULL DEFAULT '[]'")


def _denied_names(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE servers ADD COLUMN denied TEXT")  # null: listed before they were recorded


_FAILURES = """
CREATE TABLE failures (
    server TEXT PRIMARY KEY,
    config_fingerprint TEXT NOT NULL,
    reason TEXT NOT NULL,
    remedy TEXT NOT NULL,
    is_silent INTEGER NOT NULL,
    since REAL NOT NULL
) WITHOUT ROWID"""


def _failures(connection: sqlite3.Connection) -> None:
    connection.execute(_FAILURES)


_OFFERS = """
CREATE TABLE offers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT UNIQUE NOT NULL,
    server TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    address TEXT NOT NULL,
    hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    definition TEXT NOT NULL
)"""

_OFFER_LISTS = """
CREATE TABLE offer_lists (
    server TEXT NOT NULL,
    kind TEXT NOT NULL,
    config_fingerprint TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    listed_at REAL NOT NULL,
    refused TEXT NOT NULL,
    denied TEXT NOT NULL,
    PRIMARY KEY (server, kind)
) WITHOUT ROWID"""

_OFFER_SERVERS = """
CREATE TABLE offer_servers (
    server TEXT PRIMARY KEY,
    subscribes INTEGER NOT NULL,
    completes INTEGER NOT NULL
) WITHOUT ROWID"""


def _offers(connection: sqlite3.Connection) -> None:
    for statement in (_OFFERS, _OFFER_LISTS, _OFFER_SERVERS):
        connection.execute(statement)
    connection.execute("CREATE INDEX offers_by_server ON offers(server, kind)")


_TOLD_COLUMNS = (
    "description",
    "args_schema",
    "out_schema",
    "extra",
    "signature",
    "tags",
    "summary",
    "body",
    "examples",
)
"""The columns shown to a model. They only change together with the hash, unless somebody edits the file by hand."""


def _edited_rows(connection: sqlite3.Connection) -> None:
    changed = " OR ".join(f"NEW.{column} IS NOT OLD.{column}" for column in _TOLD_COLUMNS)
    connection.execute(
        f"CREATE TRIGGER tools_edited AFTER UPDATE OF {', '.join(_TOLD_COLUMNS)} ON tools "  # noqa: S608 - own columns
        f"WHEN NEW.hash = OLD.hash AND ({changed}) "
        "BEGIN UPDATE tools SET hash = '' WHERE id = NEW.id; END"
    )


OF_SERVERS = ("failures", "offers", "offer_lists", "offer_servers")
"""The tables with a column ``server``, from which the rows of a forgotten server are deleted."""

TOOLS_SCHEMA = Schema(
    APPLICATION_ID,
    (
        _first_tables,
        create_vectors,
        _activations_elsewhere,
        _names_in_texts,
        _denied_names,
        _failures,
        _offers,
        _edited_rows,
    ),
)
"""The schema of ``tool_cache.db`` (R31, R36, R39). Append migrations, never change one."""

_VIEW = (
    "CREATE VIEW IF NOT EXISTS tools_words AS SELECT id, "  # noqa: S608 - own column names
    + ", ".join(f"{column} AS {name}" for name, column in _FTS_COLUMNS.items())
    + " FROM tools"
)

TOOLS_FULL_TEXT = FullText(
    table="tools", key="id", columns=_FTS_COLUMNS, meta="tool_index_meta", content="tools_words", view=_VIEW
)
"""``tools_fts`` and its triggers (R37, R38)."""

TOOL_STEMS = StemTables(
    table="tools",
    key="id",
    owner="namespace",
    trusted="hash",
    columns=TEXT_COLUMNS,
    counted=(3, 4),  # names and descriptions of parameters: many tools of a catalog share them
    meta="tool_index_meta",
    version=VERSION,
    reads=described,
)
"""The stems of tools, for catalogs too large to be ranked in memory."""

TOOL_TEXTS = Texts(
    "tools", "id", "server_text || ' ' || name_text || ' ' || params_text || ' ' || summary || ' ' || body"
)
"""The text of a tool that is embedded, the most significant part first."""
