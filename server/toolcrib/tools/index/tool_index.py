"""The index of tools on disk: what each server listed, whole definitions and search text.

Knows rows and how they are kept in step with a server's list; never knows a connection, a policy or a ranking.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from toolcrib.base.model import Ingest, JsonObject, Refused, Tool, ToolRecord
from toolcrib.base.names import name_digest
from toolcrib.base.patterns import SUBJECT_MAX
from toolcrib.base.text import SearchTexts
from toolcrib.search.english import stem
from toolcrib.search.postings import Version
from toolcrib.storage.opening import connect_existing
from toolcrib.storage.stems import Stems
from toolcrib.storage.store import Store, damaged_rows, to_json, upsert
from toolcrib.tools.index.changes import Changes, Redefinition
from toolcrib.tools.index.rows import (
    Card,
    GateRow,
    card_of,
    catalog_fingerprint,
    columns_of,
    definition_of,
    differing_keys,
    tool_of,
)
from toolcrib.tools.index.tables import (
    GATE_COLUMNS,
    OF_SERVERS,
    TEXT_COLUMNS,
    TOOL_STEMS,
    TOOLS_FULL_TEXT,
)

_TOUCH_AFTER_S = 3600.0
"""A time of listing is only updated if it is older than this, in seconds: a second start writes nothing (R45)."""

_FACTS = ("config_fingerprint", "catalog_fingerprint", "refused", "withheld", "denied")
"""The columns written for a server's list besides its tools."""

_GATE = ", ".join(GATE_COLUMNS)
_DEFINITION = "tool, description, args_schema, out_schema, extra"
_CARD = "summary, body, signature, tags, examples"
_WITH_IDS = "FROM tools WHERE id IN (SELECT value FROM json_each(?)) AND hash != ''"
"""A row without a hash was edited by another program (a trigger ensures that), and is never shown."""

Versions = Mapping[int, Version] | None
"""The version that each row must have: rows with any other are omitted like deleted ones. None: any."""


@dataclass(frozen=True, slots=True)
class ServerRow:
    """The state of a server's last listing. ``listed_at`` is in seconds since the epoch."""

    key: str
    config_fingerprint: str
    catalog_fingerprint: str
    listed_at: float
    era: str | None
    tool_count: int
    refused: tuple[Refused, ...]


class ToolIndex:
    """The tools of all servers as of their last listing. Safe to use from several threads.

    Every method raises StoreError if the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._search_texts = store, SearchTexts()
        store.prepare(TOOLS_FULL_TEXT.keep_in_step)
        self.stems = Stems(store, TOOL_STEMS, stem)

    def data_version(self) -> int:
        """Return a number that changes when another process has written to the file; never waits."""
        return self._store.data_version()

    @property
    def generation(self) -> int:
        """Return a number that increases when the file is replaced by another, possibly empty one."""
        return self._store.generation

    def replace(self, ingest: Ingest, *, config_fingerprint: str, now: float, era: str | None) -> Changes:
        """Replace the rows of one server by those of ``ingest``, in one transaction; unchanged rows stay untouched.

        ``now`` is in seconds since the epoch. ``era`` None keeps the stored one.
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
            removed = stored.keys() - wanted.keys()
            redefined = _redefined(connection, ingest.server, stored, wanted)
            gone = "DELETE FROM tools WHERE name IN (SELECT value FROM json_each(?))"
            connection.execute(gone, (to_json(sorted(removed)),))
            rows = [columns_of(record, now, self._search_texts) for record in (*updated, *added)]
            upsert(connection, "tools", "name", rows, kept=("created_at",))
            facts = (
                config_fingerprint,
                catalog_fingerprint(_gate_rows(connection, ingest.server)),
                _refused_json(ingest),
                to_json(ingest.withheld),
                to_json(ingest.denied),
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
        query = (
            "SELECT key, config_fingerprint, catalog_fingerprint, listed_at, era, "
            "(SELECT count(*) FROM tools WHERE namespace = key), refused FROM servers ORDER BY key"
        )
        with self._store.read() as connection, damaged_rows():
            return {
                row[0]: ServerRow(*row[:6], refused=tuple(Refused(**each) for each in json.loads(row[6])))
                for row in connection.execute(query)
            }

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
                "UNION SELECT server FROM offer_lists UNION SELECT server FROM offers"
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
        note = "INSERT INTO tool_index_meta VALUES ('reload', ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value"
        value = to_json({"at": at, "failure": failure})
        self._store.change(lambda connection: connection.execute(note, (value,)))

    def last_reload(self) -> tuple[float, str] | None:
        """Return what :meth:`note_reload` recorded; None if there was no reload."""
        with self._store.read() as connection, damaged_rows("tools"):
            row = connection.execute("SELECT value FROM tool_index_meta WHERE key = 'reload'").fetchone()
            if row is None:
                return None
            kept = json.loads(row[0])
            return float(kept["at"]), str(kept["failure"])

    def check(self) -> list[str]:
        """Return the defects of the file, the full-text table included; empty if there are none (R43)."""
        return self._store.check()

    def definitions(self, ids: Iterable[int], versions: Versions = None) -> dict[int, JsonObject]:
        """Return whole definitions by row, equal to the ingested ones; deleted rows are omitted."""
        query = f"SELECT id, hash, {_DEFINITION} {_WITH_IDS}"
        with self._store.read() as connection, damaged_rows():
            rows = connection.execute(query, (_id_list(ids),))
            return {row[0]: definition_of(*row[2:]) for row in _of_versions(rows, versions)}

    def cards(self, ids: Iterable[int], versions: Versions = None) -> dict[int, Card]:
        """Return what search results show, by row; deleted rows are omitted."""
        query = f"SELECT id, hash, {_CARD} {_WITH_IDS}"
        with self._store.read() as connection, damaged_rows():
            rows = connection.execute(query, (_id_list(ids),))
            return {row[0]: card_of(*row[2:]) for row in _of_versions(rows, versions)}

    def shown(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[JsonObject, Card]]:
        """Return by row the whole definition and what search results show, in one read."""
        query = f"SELECT id, hash, {_DEFINITION}, {_CARD} {_WITH_IDS}"
        with self._store.read() as connection, damaged_rows():
            rows = connection.execute(query, (_id_list(ids),))
            return {row[0]: (definition_of(*row[2:7]), card_of(*row[7:])) for row in _of_versions(rows, versions)}

    def texts(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[str, ...]]:
        """Return texts that a pattern is tried on besides names, by row: the description's start, and tags (R237)."""
        query = f"SELECT id, hash, substr(trim(summary || ' ' || body), 1, {SUBJECT_MAX}), tags {_WITH_IDS}"
        with self._store.read() as connection, damaged_rows():
            rows = connection.execute(query, (_id_list(ids),))
            return {row[0]: (row[2], *json.loads(row[3])) for row in _of_versions(rows, versions)}

    def words(self, ids: Iterable[int], versions: Versions = None) -> dict[int, tuple[Version, tuple[str, ...]]]:
        """Return the searchable words by row, one text per full-text column, preceded by their version."""
        query = f"SELECT id, hash, {', '.join(TEXT_COLUMNS)} {_WITH_IDS}"
        with self._store.read() as connection:
            rows = connection.execute(query, (_id_list(ids),))
            return {row[0]: (row[1], row[2:]) for row in _of_versions(rows, versions)}

    def versions(self, ids: Iterable[int]) -> dict[int, tuple[Version, str]]:
        """Return the version of each row, and the possible tool names in its texts: by text column, as JSON.

        Those in texts that are read but not searched have the key of the empty string.
        """
        with self._store.read() as connection:
            rows = connection.execute(f"SELECT id, hash, mentions {_WITH_IDS}", (_id_list(ids),))
            return {row: (version, told) for row, version, told in rows}

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
    keys = {name: differing_keys(definition_of(*columns), wanted[name]) for name, *columns in rows}
    changed = (Redefinition(name, keys[name], stored[name], wanted[name].fingerprint) for name in keys if keys[name])
    new = (Redefinition(name, (), None, wanted[name].fingerprint) for name in wanted if name not in stored)
    gone = (Redefinition(name, (), stored[name], None) for name in stored if name not in wanted)
    return (*changed, *new, *gone)


def _gate_rows(connection: sqlite3.Connection, server: str) -> list[GateRow]:
    query = f"SELECT {_GATE}, id FROM tools WHERE namespace = ? ORDER BY name"  # noqa: S608 - own column names
    return connection.execute(query, (server,)).fetchall()


def _sound_tools(connection: sqlite3.Connection, servers: Mapping[str, str]) -> tuple[list[Tool], list[str]]:
    """Return the tools whose rows are as written under the given config, and the servers with other rows."""
    rows: dict[str, list[GateRow]] = {}
    chosen = "IN (SELECT value FROM json_each(?))"
    select = f"SELECT {_GATE}, id FROM tools WHERE namespace {chosen} ORDER BY name"  # noqa: S608 - own column names
    for row in connection.execute(select, (_id_list(servers),)):
        rows.setdefault(row[1], []).append(row)
    query = f"SELECT key, config_fingerprint, catalog_fingerprint FROM servers WHERE key {chosen}"  # noqa: S608 - constant
    known = {key: (config, catalog) for key, config, catalog in connection.execute(query, (_id_list(servers),))}
    tools: list[Tool] = []
    damaged: list[str] = []
    for key, config_fingerprint in servers.items():
        config, catalog = known.get(key, (None, catalog_fingerprint([])))
        listed = rows.get(key, [])
        if catalog != catalog_fingerprint(listed):
            damaged.append(key)
        elif config == config_fingerprint:
            tools += map(tool_of, listed)
    return tools, damaged


def _note_listing(
    connection: sqlite3.Connection, server: str, facts: tuple[str, ...], *, now: float, era: str | None
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


def _of_versions(rows: Iterable[Any], versions: Versions) -> Iterable[Any]:
    """Return those of ``rows``, which begin with id and hash, that have their version."""
    return rows if versions is None else (row for row in rows if versions.get(row[0]) == row[1])


def _id_list(ids: Iterable[int | str]) -> str:
    return json.dumps(list(ids))


def _refused_json(ingest: Ingest) -> str:
    return to_json([{"name": each.name, "reason": each.reason} for each in ingest.refused])
