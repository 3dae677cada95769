"""Stores what each server listed in ``tool_cache.db``: gate facts, whole definitions and search texts."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from toolcrib.base.model import Example, Ingest, JsonObject, Refused, Tool, ToolRecord
from toolcrib.base.names import name_digest
from toolcrib.base.patterns import SUBJECT_MAX
from toolcrib.base.text import SearchTexts
from toolcrib.catalog.outputs import output_of
from toolcrib.search.capabilities import NO_CAPABILITIES, Capabilities
from toolcrib.search.english import VERSION, stem
from toolcrib.search.postings import Version
from toolcrib.storage.full_text import FullText
from toolcrib.storage.opening import Schema, connect_existing, statements
from toolcrib.storage.rows import TEXTS, RowMapper, objects
from toolcrib.storage.stems import Stems, StemTables
from toolcrib.storage.store import Store, damaged_rows, to_json, upsert
from toolcrib.storage.vectors import TEXT_MAX as EMBEDDED_MAX
from toolcrib.storage.vectors import Texts, create_vectors

_Value = TypeVar("_Value")

ROW_FORMAT = 8
"""Increased when the row of an unchanged tool would differ."""

_CALLERS_MAX = 1000
"""Number of callers of which it is recorded that they are listed all tools at once."""

GateRow = tuple[str, str, str, str, str | None, int, str, int]
"""A row of the columns of ``_TOOL``."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a search result shows of a tool; ``returns`` is what its results are in a program."""

    description: str
    signature: str
    returns: str
    tags: tuple[str, ...]
    examples: tuple[Example, ...]


def rows_fingerprint(server_fingerprint: str) -> str:
    """Return the fingerprint under which a server's rows are stored: the relevant config, and the row format."""
    return f"{ROW_FORMAT}.{server_fingerprint}"


def catalog_fingerprint(rows: list[GateRow]) -> str:
    """Return the catalog fingerprint of a server: the hash of names, hashes and gate facts (R30)."""
    return sha256(json.dumps([row[:-1] for row in rows]).encode()).hexdigest()


_RENAMED = {"public_name": "name", "server": "namespace", "name": "tool", "fingerprint": "hash", "row": "id"}
_GATE_FIELDS = ("public_name", "server", "name", "loading_mode", "side_effects", "read_only", "fingerprint")
_TOOL = RowMapper(Tool, (*_GATE_FIELDS, "row"), _RENAMED)
"""What memory holds of a tool. These columns come first in the table: rows are long, and SQLite reads from the left."""

_TEXT_FIELDS = (
    "signature",
    "tags",
    "summary",
    "body",
    "examples",
    "name_text",
    "params_text",
    "params_description_text",
)
_RECORD = RowMapper(ToolRecord, (*_GATE_FIELDS, *_TEXT_FIELDS, "mentions"), _RENAMED)


def _columns_of(record: ToolRecord, now: float, search_texts: SearchTexts) -> dict[str, Any]:
    """Return a record as the values of its row, by column: all except ``id``, which SQLite assigns."""
    definition = dict(record.definition)
    if definition.get("name") == record.name:
        del definition["name"]
    description = _storable(definition.get("description"))
    if description:
        del definition["description"]
    return {
        **_RECORD.encode(record),
        **dict(zip(TEXT_COLUMNS, words_of(record, search_texts), strict=True)),
        "created_at": now,
        "updated_at": now,
        "description": description,
        "args_schema": _pop_json(definition, "inputSchema"),
        "out_schema": _pop_json(definition, "outputSchema"),
        "extra": to_json(definition),
    }


def words_of(record: ToolRecord, search_texts: SearchTexts) -> tuple[str, ...]:
    """Return the searchable words of a record, one text per full-text column."""
    search_text = search_texts.compute
    return (
        record.name_text,
        search_text(record.summary),
        search_text(record.body),
        record.params_text,
        record.params_description_text,
        search_text(record.server),
        search_text(" ".join(record.tags)),
    )


def text_to_embed(record: ToolRecord, search_texts: SearchTexts) -> str:
    """Return the text of a record that is embedded, as :data:`TOOL_TEXTS` reads it from a row."""
    server, rest = search_texts.compute(record.server), (record.name_text, record.params_text)
    return " ".join((server, *rest, record.summary, record.body))[:EMBEDDED_MAX]


def _storable(value: object) -> str:
    """Return ``value`` if a text column preserves it, else the empty string."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() or value.encode("utf-8", "ignore").decode() == value else ""


def _pop_json(definition: JsonObject, key: str) -> str | None:
    """Remove one key from a definition, and return its value as JSON."""
    return to_json(definition.pop(key)) if key in definition else None


def _definition_of(
    name: str, description: str, args_schema: str | None, out_schema: str | None, extra: str
) -> JsonObject:
    """Reassemble a definition; ``extra`` has what no column could store."""
    definition: JsonObject = {"name": name}
    if description:
        definition["description"] = description
    if args_schema is not None:
        definition["inputSchema"] = json.loads(args_schema)
    if out_schema is not None:
        definition["outputSchema"] = json.loads(out_schema)
    return definition | json.loads(extra)


def differing_keys(stored: JsonObject, record: ToolRecord) -> tuple[str, ...]:
    """Return the keys in which a stored definition and a record's differ."""
    definition = json.loads(to_json(dict(record.definition)))
    return tuple(sorted(key for key in stored.keys() | definition.keys() if stored.get(key) != definition.get(key)))


def description_of(summary: str, body: str) -> str:
    """Return the description in a search result: the first sentence and the rest, as indexed."""
    return f"{summary} {body}".strip()


EXAMPLES = " | "
"""What stands between the words of descriptions of parameters and those of the examples in them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the stored words of a tool are read as the fields that are ranked: with the ways of asking for what it does.

    Examples in descriptions of parameters are a field of their own. The ways of asking are derived whenever words are
    indexed, from the words that one caller may read, and stored nowhere.
    """

    capabilities: Capabilities = NO_CAPABILITIES

    def fields(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the text of each field, given the text of each column."""
        name, summary, body, params, described_params, server, tags = texts
        others = (body, params, described_params, tags)
        told, _, examples = described_params.partition(EXAMPLES)
        read = described((name, summary, body, params, told, server, tags))
        return (*read, self.capabilities.ways(name, summary, server, others), examples)

    def version(self, fingerprint: Version) -> Version:
        """Return what identifies the fields of a tool with this fingerprint."""
        return f"{fingerprint}{self.capabilities.digest}"


def described(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a tool; one without a description is described by its server, name and parameters."""
    name, summary, description, params, _, server, _ = texts
    if summary or description:
        return tuple(texts)
    return (name, " ".join(filter(None, (server, name, params))), *texts[2:])


_CARD = RowMapper(Card, ("signature", "tags", "examples"))


def _card_of(summary: str, body: str, out_schema: str | None, *shown: str) -> Card:
    output = output_of(None if out_schema is None else json.loads(out_schema))
    return Card(description_of(summary, body), returns=output.shown, **_CARD.values(shown))


APPLICATION_ID = int.from_bytes(b"tcTL")
"""Marks the file as an index of tools (``PRAGMA application_id``)."""

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

_META = "CREATE TABLE tool_index_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


_NOTE = "INSERT INTO tool_index_meta VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value"

_FAILURES = """
CREATE TABLE failures (
    server TEXT PRIMARY KEY,
    config_fingerprint TEXT NOT NULL,
    reason TEXT NOT NULL,
    remedy TEXT NOT NULL,
    is_silent INTEGER NOT NULL,
    since REAL NOT NULL
) WITHOUT ROWID"""


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

_SHAPES = """
CREATE TABLE shapes (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    whose TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    since REAL NOT NULL,
    seen TEXT NOT NULL,
    PRIMARY KEY (server, tool, whose)
) WITHOUT ROWID"""


_SHOWN_COLUMNS = (
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


_CHANGED = " OR ".join(f"NEW.{column} IS NOT OLD.{column}" for column in _SHOWN_COLUMNS)
_EDITED = (
    f"CREATE TRIGGER tools_edited AFTER UPDATE OF {', '.join(_SHOWN_COLUMNS)} ON tools "  # noqa: S608 - own columns
    f"WHEN NEW.hash = OLD.hash AND ({_CHANGED}) "
    "BEGIN UPDATE tools SET hash = '' WHERE id = NEW.id; END"
)

OF_SERVERS = ("failures", "offers", "offer_lists", "offer_servers", "shapes")
"""The tables with a column ``server``, from which the rows of a forgotten server are deleted."""

_FIRST_INDEXES = tuple(
    f"CREATE INDEX tools_by_{column} ON tools({column})" for column in ("namespace", "loading_mode", "side_effects")
)

TOOLS_SCHEMA = Schema(
    APPLICATION_ID,
    (
        statements(_TOOLS, _SERVERS, _META, *_FIRST_INDEXES),
        create_vectors,
        statements("DROP TABLE IF EXISTS activations"),  # they are in state.db (ADR 14)
        statements(
            "ALTER TABLE tools ADD COLUMN mentions TEXT NOT NULL DEFAULT '{}'",
            "ALTER TABLE servers ADD COLUMN withheld TEXT NOT NULL DEFAULT '[]'",
        ),
        statements("ALTER TABLE servers ADD COLUMN denied TEXT"),  # null: listed before they were recorded
        statements(_FAILURES),
        statements(*(_OFFERS, _OFFER_LISTS, _OFFER_SERVERS), "CREATE INDEX offers_by_server ON offers(server, kind)"),
        statements(_EDITED),
        statements("ALTER TABLE servers ADD COLUMN instructions TEXT NOT NULL DEFAULT ''"),
        statements("ALTER TABLE servers ADD COLUMN program TEXT"),  # null: nothing is known of it
        statements("ALTER TABLE servers ADD COLUMN extensions TEXT NOT NULL DEFAULT '{}'"),
        statements("ALTER TABLE servers ADD COLUMN cut TEXT NOT NULL DEFAULT ''"),
        statements(_SHAPES),
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
    reads=Reading().fields,
    derived=2,
)
"""The stems of tools, for catalogs too large to be ranked in memory."""

TOOL_TEXTS = Texts(
    "tools",
    "id",
    "hash",
    "namespace",
    "server_text || ' ' || name_text || ' ' || params_text || ' ' || summary || ' ' || body",
)
"""The text of a tool that is embedded, the most significant part first."""


@dataclass(frozen=True, slots=True)
class Redefinition:
    """An indexed tool whose server has since changed, added or removed it.

    ``keys`` of its definition differ; empty if the tool was added or removed: then ``before`` or ``after``, which are
    fingerprints of the record, is None.
    """

    public_name: str
    keys: tuple[str, ...]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """How many tools of a server's list were added, changed or removed since the last listing.

    ``redefined`` are those changed by the server, if it was listed before; changes made by the config alone are not
    included.
    """

    added: int
    updated: int
    removed: int
    redefined: tuple[Redefinition, ...] = field(default=(), compare=False)

    def after(self, earlier: "Changes") -> "Changes":
        """Return both changes of one server's list, in order."""
        return Changes(
            earlier.added + self.added,
            earlier.updated + self.updated,
            earlier.removed + self.removed,
            (*earlier.redefined, *self.redefined),
        )


_TOUCH_AFTER_S = 3600.0
"""A time of listing is only updated if it is older than this, in seconds: a second start writes nothing (R45)."""

_FACTS = (
    *("config_fingerprint", "catalog_fingerprint", "refused", "withheld", "denied", "instructions", "program"),
    *("extensions", "cut"),
)
"""The columns written for a server's list besides its tools."""

_GATE = f"SELECT {', '.join(_TOOL.columns)} FROM tools WHERE namespace"  # noqa: S608 - own column names
_DEFINITION = "tool, description, args_schema, out_schema, extra"
_CARD_COLUMNS = f"summary, body, out_schema, {', '.join(_CARD.columns)}"
_LISTED = "IN (SELECT value FROM json_each(?))"

Versions = Mapping[int, Version] | None
"""The version that each row must have: rows with any other are omitted like deleted ones. None: any."""


@dataclass(frozen=True, slots=True)
class ServerRow:
    """The state of a server's last listing. ``listed_at`` is in seconds since the epoch.

    ``program`` is the mark of the program that was listed; None where nothing was known of it. ``cut`` says why it has
    more tools than are known.
    """

    key: str
    config_fingerprint: str
    catalog_fingerprint: str
    listed_at: float
    era: str | None
    tool_count: int
    refused: tuple[Refused, ...]
    program: str | None
    cut: str


_REFUSED = objects(Refused)
_SERVER = RowMapper(ServerRow, renamed={"tool_count": "(SELECT count(*) FROM tools WHERE namespace = key)"})


class ToolTexts(Protocol):
    """The texts of tools by row, of which deleted ones are omitted. Every method may raise StoreError."""

    @property
    def reading(self) -> Reading:
        """How stored words are read."""
        ...

    @property
    def stems(self) -> Stems | None:
        """The stems of large catalogs; None if they are not stored."""
        ...

    def definitions(self, ids: Iterable[int], versions: Versions = None, /) -> dict[int, JsonObject]:
        """Return whole definitions."""
        ...

    def cards(self, ids: Iterable[int], versions: Versions = None, /) -> dict[int, Card]:
        """Return what search results show."""
        ...

    def shown(self, ids: Iterable[int], versions: Versions = None, /) -> dict[int, tuple[JsonObject, Card]]:
        """Return both."""
        ...

    def texts(self, ids: Iterable[int], versions: Versions = None, /) -> dict[int, tuple[str, ...]]:
        """Return texts that a pattern is tried on besides names."""
        ...

    def words(self, ids: Iterable[int], versions: Versions = None, /) -> dict[int, tuple[Version, tuple[str, ...]]]:
        """Return the searchable words, one text per full-text column, preceded by their version."""
        ...

    def versions(self, ids: Iterable[int], /) -> dict[int, tuple[Version, str]]:
        """Return the version of each row, and the possible tool names in its texts."""
        ...


class ToolIndex:
    """The tools of all servers as of their last listing. Safe to use from several threads.

    ``capabilities`` are the dictionary from which tools get the ways of asking for what they do.

    Every method raises StoreError if the file cannot be read or written.
    """

    def __init__(self, store: Store, capabilities: Capabilities = NO_CAPABILITIES) -> None:
        self._store, self._search_texts = store, SearchTexts()
        store.prepare(TOOLS_FULL_TEXT.synchronize)
        self.reading = Reading(capabilities)
        stems = replace(TOOL_STEMS, reads=self.reading.fields, reading=capabilities.digest)
        self.stems = Stems(store, stems, stem)

    def data_version(self) -> int:
        """Return a number that changes when another process has written to the file; never waits."""
        return self._store.data_version()

    @property
    def generation(self) -> int:
        """Return a number that increases when the file is replaced by another, possibly empty one."""
        return self._store.generation

    def replace(
        self,
        ingest: Ingest,
        *,
        config_fingerprint: str,
        now: float,
        era: str | None,
        program: str | None = None,
        extensions: JsonObject | None = None,
        keeps_others: bool = False,
    ) -> Changes:
        """Replace the rows of one server by those of ``ingest``, in one transaction; unchanged rows stay untouched.

        ``keeps_others``: tools that it lacks stay, with what is known of denied ones, if listed under this config.

        ``now`` is in seconds since the epoch. ``era`` None keeps the stored one. ``program`` is the program's mark,
        ``extensions`` what the server declares of those that clients are told of.
        """
        wanted = {record.public_name: record for record in ingest.records}

        def replace(connection: sqlite3.Connection) -> Changes:
            stored: dict[str, str] = dict(
                connection.execute("SELECT name, hash FROM tools WHERE namespace = ?", (ingest.server,))
            )
            added = [record for name, record in wanted.items() if name not in stored]
            updated = [
                record for name, record in wanted.items() if stored.get(name, record.fingerprint) != record.fingerprint
            ]
            known = _known_denials(connection, ingest.server, config_fingerprint) if keeps_others else None
            withheld, denied = known or ((), ())
            removed = set[str]() if known else stored.keys() - wanted.keys()
            redefined = _redefined(connection, ingest.server, stored, wanted)
            gone = "DELETE FROM tools WHERE name IN (SELECT value FROM json_each(?))"
            connection.execute(gone, (to_json(sorted(removed)),))
            # Changed rows keep their ids, which processes hold in memory.
            rows = [_columns_of(record, now, self._search_texts) for record in (*updated, *added)]
            upsert(connection, "tools", "name", rows, kept=("created_at",))
            facts = (
                config_fingerprint,
                catalog_fingerprint(_gate_rows(connection, ingest.server)),
                _REFUSED.encode(ingest.refused),
                to_json(list(dict.fromkeys((*ingest.withheld, *withheld)))),
                to_json(list(dict.fromkeys((*ingest.denied, *denied)))),
                ingest.instructions,
                program,
                to_json(extensions or {}),
                ingest.cut,
            )
            _note_listing(connection, ingest.server, facts, now=now, era=era)
            return Changes(len(added), len(updated), len(removed), redefined)

        return self._store.change(replace, owed=f"list {ingest.server}")

    def fill_stems(self, ranked_in_memory: int) -> None:
        """Update the stems if there are more tools than are ranked in memory; slow."""
        if self.stems.available and self._count() > ranked_in_memory:
            self.stems.fill()

    def _count(self) -> int:
        with self._store.read() as connection:
            return int(connection.execute("SELECT count(*) FROM tools").fetchone()[0])

    def server_rows(self) -> dict[str, ServerRow]:
        """Return the stored state of every server that was ever listed."""
        query = f"SELECT {', '.join(_SERVER.columns)} FROM servers ORDER BY key"  # noqa: S608 - own column names
        with self._store.read() as connection, damaged_rows():
            return {row[0]: _SERVER.decode(row) for row in connection.execute(query)}

    def load(self, servers: Mapping[str, str]) -> list[Tool]:
        """Return the trustworthy tools of exactly these servers (key -> config fingerprint).

        A server is omitted if it was listed under another config, or if its rows are not those that were written (R1):
        these are deleted, and :meth:`server_rows` no longer has the server.
        """
        with self._store.read() as connection, damaged_rows():
            tools, damaged = _sound_tools(connection, servers)

        def forget(connection: sqlite3.Connection) -> list[Tool]:
            with damaged_rows():
                tools, damaged = _sound_tools(connection, servers)  # again: another process may have listed it
            for key in damaged:
                _forget(connection, key)
            return tools

        return self._store.change(forget) if damaged else tools

    def retain(self, keys: Collection[str]) -> None:
        """Delete everything about servers other than ``keys``."""

        def retain(connection: sqlite3.Connection) -> None:
            query = (
                "SELECT key FROM servers UNION SELECT namespace FROM tools UNION SELECT server FROM failures "
                "UNION SELECT server FROM offer_lists UNION SELECT server FROM offers UNION SELECT server FROM shapes"
            )
            for key in sorted({row[0] for row in connection.execute(query)} - set(keys)):
                _forget(connection, key)

        self._store.change(retain)

    def clear(self) -> None:
        """Delete every tool and server."""

        def clear(connection: sqlite3.Connection) -> None:
            for table in ("tools", "servers", *OF_SERVERS):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - own table names

        self._store.change(clear)

    def note_reload(self, at: float, failure: str) -> None:
        """Record when the config was last reloaded, and why it could not be used, for other processes to report."""
        self._store.execute(_NOTE, ("reload", to_json({"at": at, "failure": failure})))

    def last_reload(self) -> tuple[float, str] | None:
        """Return what :meth:`note_reload` recorded; None if there was no reload."""
        with self._store.read() as connection, damaged_rows("tools"):
            row = connection.execute("SELECT value FROM tool_index_meta WHERE key = 'reload'").fetchone()
            if row is None:
                return None
            kept = json.loads(row[0])
            return float(kept["at"]), str(kept["failure"])

    def whole_lists(self) -> frozenset[str]:
        """Return the callers, as digests, who were last listed all tools at once."""
        with self._store.read() as connection, damaged_rows("tools"):
            row = connection.execute("SELECT value FROM tool_index_meta WHERE key = 'whole lists'").fetchone()
            return frozenset(json.loads(row[0])) if row else frozenset()

    def note_whole_list(self, caller: str, *, is_whole: bool) -> None:
        """Record whether a caller is listed all tools at once, for the next start."""
        callers = {*self.whole_lists(), caller} if is_whole else self.whole_lists() - {caller}
        self._store.execute(_NOTE, ("whole lists", to_json(sorted(callers)[:_CALLERS_MAX])))

    def check(self) -> list[str]:
        """Return the defects of the file, the full-text table included; empty if there are none (R43)."""
        return self._store.check()

    def definitions(self, ids: Iterable[int], versions: Versions = None) -> dict[int, JsonObject]:
        """Return whole definitions by row, equal to the ingested ones; deleted rows are omitted."""
        return self._of_rows(_DEFINITION, ids, versions, lambda row: _definition_of(*row))

    def cards(self, ids: Iterable[int], versions: Versions = None) -> dict[int, Card]:
        """Return what search results show, by row; deleted rows are omitted."""
        return self._of_rows(_CARD_COLUMNS, ids, versions, lambda row: _card_of(*row))

    def shown(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[JsonObject, Card]]:
        """Return by row the whole definition and what search results show, in one read."""
        columns = f"{_DEFINITION}, {_CARD_COLUMNS}"
        return self._of_rows(columns, ids, versions, lambda row: (_definition_of(*row[:5]), _card_of(*row[5:])))

    def texts(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[str, ...]]:
        """Return texts that a pattern is tried on besides names, by row: the description's start, and tags (R237)."""
        columns = f"substr(trim(summary || ' ' || body), 1, {SUBJECT_MAX}), tags"
        return self._of_rows(columns, ids, versions, lambda row: (row[0], *json.loads(row[1])))

    def words(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[Version, tuple[str, ...]]]:
        """Return the searchable words by row, one text per full-text column, preceded by their version."""
        return self._of_rows(f"hash, {', '.join(TEXT_COLUMNS)}", ids, versions, lambda row: (row[0], row[1:]))

    def versions(self, ids: Iterable[int]) -> dict[int, tuple[Version, str]]:
        """Return the version of each row, and the possible tool names in its texts: by text column, as JSON.

        Those in texts that are read but not searched have the key of the empty string.
        """
        return self._of_rows("hash, mentions", ids, None, lambda row: (row[0], row[1]))

    def _of_rows(
        self, columns: str, ids: Iterable[int], versions: Versions, make: Callable[[tuple[Any, ...]], _Value]
    ) -> dict[int, _Value]:
        """Return by row what ``make`` returns for the values of these columns."""
        # Another program has edited a row without a hash, as a trigger ensures: it must never be shown.
        query = f"SELECT id, hash, {columns} FROM tools WHERE id {_LISTED} AND hash != ''"  # noqa: S608 - own names
        with self._store.read() as connection, damaged_rows():
            rows: Iterable[Any] = connection.execute(query, (_id_list(ids),))
            return {row[0]: make(row[2:]) for row in rows if versions is None or versions.get(row[0]) == row[1]}

    def withheld(self, servers: Mapping[str, str], closed: Collection[str] = ()) -> frozenset[str]:
        """Return digests of the names of tools that these servers (key -> config fingerprint) list and nobody may use.

        For ``closed`` servers, which are not listed any more: of all tools that they ever listed.
        """
        with self._store.read() as connection, damaged_rows():
            rows = connection.execute("SELECT key, config_fingerprint, withheld, denied FROM servers").fetchall()
            listed = [names for key, fingerprint, names, _ in rows if servers.get(key) == fingerprint]
            earlier = [names for key, _, *both in rows if key in closed for names in both if names]
            query = "SELECT tool, name FROM tools WHERE namespace IN (SELECT value FROM json_each(?))"
            kept = connection.execute(query, (to_json(sorted(closed)),))
            digests = map(name_digest, chain.from_iterable(kept))
            return frozenset((*chain.from_iterable(map(json.loads, (*listed, *earlier))), *digests))

    def instructions(self, servers: Mapping[str, str]) -> dict[str, str]:
        """Return what these servers (key -> config fingerprint) tell a model of themselves, if they tell anything."""
        return self._stated("instructions", "", servers)

    def extensions(self, servers: Mapping[str, str]) -> dict[str, JsonObject]:
        """Return the extensions that these servers (key -> config fingerprint) declare, if they declare any."""
        with damaged_rows():
            return {key: json.loads(text) for key, text in self._stated("extensions", "{}", servers).items()}

    def incomplete(self, servers: Mapping[str, str]) -> dict[str, str]:
        """Return why more tools of these servers (key -> config fingerprint) are not known, where there are more."""
        return self._stated("cut", "", servers)

    def _stated(
        self, column: Literal["instructions", "extensions", "cut"], nothing: str, servers: Mapping[str, str]
    ) -> dict[str, str]:
        """Return what the rows of these servers (key -> config fingerprint) have in a column, but for ``nothing``."""
        query = f"SELECT key, config_fingerprint, {column} FROM servers WHERE {column} != ?"  # noqa: S608 - own names
        with self._store.read() as connection, damaged_rows():
            rows = connection.execute(query, (nothing,)).fetchall()
        return {key: text for key, fingerprint, text in rows if servers.get(key) == fingerprint}

    def denied(self, keys: Iterable[str]) -> frozenset[str] | None:
        """Return digests of the bare names that these servers listed last and that nobody could use then.

        None if that was not recorded for all of them.
        """
        with self._store.read() as connection, damaged_rows():
            noted = dict(connection.execute("SELECT key, denied FROM servers").fetchall())
            names: list[str | None] = [noted.get(key) for key in keys]
            known = [each for each in names if each is not None]
            return frozenset(chain.from_iterable(map(json.loads, known))) if len(known) == len(names) else None

    def besides_tools(self) -> tuple[list[tuple[str, str, str]], bool]:
        """Return server, name and URI of listed items other than tools, and whether there are some nobody may use."""
        with self._store.read() as connection:
            names = connection.execute("SELECT server, name, address FROM offers").fetchall()
            hidden = connection.execute("SELECT count(*) FROM offer_lists WHERE denied != '[]'").fetchone()[0]
            return names, bool(hidden)


def known_tools(file: Path) -> int:
    """Return how many tools a file has, without creating, checking or migrating it; 0 if it cannot be read."""
    with suppress(sqlite3.Error), closing(connect_existing(file)) as connection:
        return int(connection.execute("SELECT count(*) FROM tools").fetchone()[0])
    return 0


def _redefined(
    connection: sqlite3.Connection, server: str, stored: Mapping[str, str], wanted: Mapping[str, ToolRecord]
) -> tuple[Redefinition, ...]:
    """Return a server's changes of its tools, before they are written: changed, then added, then removed ones."""
    if connection.execute("SELECT 1 FROM servers WHERE key = ?", (server,)).fetchone() is None:
        return ()
    differing = [name for name, before in stored.items() if name in wanted and wanted[name].fingerprint != before]
    query = f"SELECT name, {_DEFINITION} FROM tools WHERE name IN (SELECT value FROM json_each(?))"  # noqa: S608 - own
    rows = connection.execute(query, (to_json(differing),))
    keys = {name: differing_keys(_definition_of(*columns), wanted[name]) for name, *columns in rows}
    changed = (Redefinition(name, keys[name], stored[name], wanted[name].fingerprint) for name in keys if keys[name])
    new = (Redefinition(name, (), None, wanted[name].fingerprint) for name in wanted if name not in stored)
    gone = (Redefinition(name, (), stored[name], None) for name in stored if name not in wanted)
    return (*changed, *new, *gone)


def _gate_rows(connection: sqlite3.Connection, server: str) -> list[GateRow]:
    return connection.execute(f"{_GATE} = ? ORDER BY name", (server,)).fetchall()


def _sound_tools(connection: sqlite3.Connection, servers: Mapping[str, str]) -> tuple[list[Tool], list[str]]:
    """Return the tools whose rows are as written under the given config, and the servers with other rows."""
    rows: dict[str, list[GateRow]] = {}
    for row in connection.execute(f"{_GATE} {_LISTED} ORDER BY name", (_id_list(servers),)):
        rows.setdefault(row[1], []).append(row)
    query = f"SELECT key, config_fingerprint, catalog_fingerprint FROM servers WHERE key {_LISTED}"  # noqa: S608 - own constant
    known = {key: (config, catalog) for key, config, catalog in connection.execute(query, (_id_list(servers),))}
    tools: list[Tool] = []
    damaged: list[str] = []
    for key, config_fingerprint in servers.items():
        config, catalog = known.get(key, (None, catalog_fingerprint([])))
        listed = rows.get(key, [])
        if catalog != catalog_fingerprint(listed):
            damaged.append(key)
        elif config == config_fingerprint:
            tools += map(_TOOL.decode, listed)
    return tools, damaged


def _known_denials(
    connection: sqlite3.Connection, server: str, config_fingerprint: str
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the digests of withheld and of denied names that are stored; None if it was not listed so."""
    query = "SELECT withheld, denied FROM servers WHERE key = ? AND config_fingerprint = ?"
    row = connection.execute(query, (server, config_fingerprint)).fetchone()
    return row and (TEXTS.decode(row[0]), TEXTS.decode(row[1] or "[]"))


def _note_listing(
    connection: sqlite3.Connection, server: str, facts: tuple[str | None, ...], *, now: float, era: str | None
) -> None:
    """Write the server's row if a column differs, or its time is too old or in the future."""
    columns = ", ".join(_FACTS)
    query = f"SELECT era, listed_at, {columns} FROM servers WHERE key = ?"  # noqa: S608 - own column names
    stored = connection.execute(query, (server,)).fetchone()
    if stored and stored[2:] == facts and era in (None, stored[0]) and 0 <= now - stored[1] < _TOUCH_AFTER_S:
        return
    taken = ", ".join(f"{column} = excluded.{column}" for column in _FACTS)
    statement = (
        f"INSERT INTO servers(key, {columns}, era, listed_at) "  # noqa: S608 - own column names
        f"VALUES (?{', ?' * len(_FACTS)}, ?, ?) ON CONFLICT(key) DO UPDATE SET {taken}, "
        "era = coalesce(excluded.era, era), listed_at = excluded.listed_at"
    )
    connection.execute(statement, (server, *facts, era, now))


def _forget(connection: sqlite3.Connection, key: str) -> None:
    connection.execute("DELETE FROM tools WHERE namespace = ?", (key,))
    connection.execute("DELETE FROM servers WHERE key = ?", (key,))
    for table in OF_SERVERS:
        connection.execute(f"DELETE FROM {table} WHERE server = ?", (key,))  # noqa: S608 - own table names


def _id_list(ids: Iterable[int | str]) -> str:
    return json.dumps(list(ids))
