"""The index of offers on disk, beside the tools: what each server listed, with whole definitions.

Knows rows and how they are kept in step with a server's lists; never knows a connection, a policy or a session.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import cast

from toolcrib.base.model import JsonObject, OfferKind, Refused
from toolcrib.offers.records import OfferList, OfferRecord
from toolcrib.storage.store import Store, damaged_rows, to_json, upsert

_ROW = "key, server, kind, name, address, hash, size, id"


@dataclass(frozen=True, slots=True)
class OfferRow:
    """A row of an offer, without its definition."""

    server: str
    kind: OfferKind
    name: str
    address: str
    hash: str
    size: int
    id: int


@dataclass(frozen=True, slots=True)
class KnownList:
    """The state of one list of a server besides its items."""

    listed_at: float
    refused: tuple[Refused, ...]
    denied: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """The trustworthy index contents of some servers.

    ``lists`` has every list that was read under the current config. ``subscribes`` and ``completes`` are the servers
    that declare resource subscriptions, and completions.
    """

    rows: tuple[OfferRow, ...] = ()
    lists: Mapping[tuple[str, OfferKind], KnownList] = field(default_factory=dict[tuple[str, OfferKind], KnownList])
    subscribes: frozenset[str] = frozenset()
    completes: frozenset[str] = frozenset()


class OfferIndex:
    """The offers of all servers as of their last listing. Safe to use from several threads.

    Every method raises StoreError if the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def data_version(self) -> int:
        """Return a number that changes when another process has written to the file; never waits."""
        return self._store.data_version()

    def replace(
        self, server: str, lists: Sequence[OfferList], flags: tuple[bool, bool], *, config_fingerprint: str, now: float
    ) -> None:
        """Replace the rows of these lists of a server, in one transaction; unchanged rows stay untouched.

        ``flags`` are whether it declares subscriptions and completions. ``now`` is in seconds since the epoch.
        """

        def replace(connection: sqlite3.Connection) -> None:
            for each in lists:
                _replace(connection, server, each)
                _note(connection, server, each, config_fingerprint, now)
            stored = connection.execute(
                "SELECT subscribes, completes FROM offer_servers WHERE server = ?", (server,)
            ).fetchone()
            if stored != flags:
                connection.execute("INSERT OR REPLACE INTO offer_servers VALUES (?, ?, ?)", (server, *flags))

        self._store.change(replace, owed=f"offers of {server}")

    def load(self, servers: Mapping[str, str]) -> Known:
        """Return the index contents of these servers (key -> config fingerprint).

        A list is omitted if it was read under another config, or if its rows are not those that were written.
        """
        with self._store.read() as connection, damaged_rows():
            rows: defaultdict[tuple[str, str], list[tuple[str, OfferRow]]] = defaultdict(list)
            for key, *values in connection.execute(f"SELECT {_ROW} FROM offers ORDER BY key"):  # noqa: S608 - own
                row = OfferRow(*values)
                rows[row.server, row.kind].append((key, row))
            known: dict[tuple[str, OfferKind], KnownList] = {}
            trusted: list[OfferRow] = []
            query = "SELECT server, kind, config_fingerprint, fingerprint, listed_at, refused, denied FROM offer_lists"
            for server, kind, config, fingerprint, listed_at, refused, denied in connection.execute(query):
                found = rows[server, kind]
                if servers.get(server) == config and fingerprint == _fingerprint(
                    [(key, row.hash) for key, row in found]
                ):
                    trusted += [row for _, row in found]
                    reasons = tuple(Refused(**each) for each in json.loads(refused))
                    known[server, cast("OfferKind", kind)] = KnownList(listed_at, reasons, tuple(json.loads(denied)))
            flags = connection.execute("SELECT server, subscribes, completes FROM offer_servers").fetchall()
        return Known(
            rows=tuple(trusted),
            lists=known,
            subscribes=frozenset(server for server, subscribes, _ in flags if subscribes),
            completes=frozenset(server for server, _, completes in flags if completes),
        )

    def definitions(self, ids: Iterable[int]) -> dict[int, JsonObject]:
        """Return whole definitions by row; deleted rows are omitted."""
        query = "SELECT id, definition FROM offers WHERE id IN (SELECT value FROM json_each(?))"
        with self._store.read() as connection, damaged_rows():
            return {row: json.loads(text) for row, text in connection.execute(query, (json.dumps(list(ids)),))}


def _replace(connection: sqlite3.Connection, server: str, wanted: OfferList) -> None:
    of_list = "FROM offers WHERE server = ? AND kind = ?"
    stored: dict[str, str] = dict(connection.execute(f"SELECT key, hash {of_list}", (server, wanted.kind)))
    rows = {_key(server, wanted.kind, each): _columns(server, wanted.kind, each) for each in wanted.records}
    gone = sorted(stored.keys() - rows.keys())
    connection.execute("DELETE FROM offers WHERE key IN (SELECT value FROM json_each(?))", (to_json(gone),))
    upsert(connection, "offers", "key", [row for key, row in rows.items() if stored.get(key) != row["hash"]])


def _note(connection: sqlite3.Connection, server: str, listed: OfferList, config_fingerprint: str, now: float) -> None:
    """Write the row of a list if a column differs: a second start writes nothing."""
    query = "SELECT key, hash FROM offers WHERE server = ? AND kind = ? ORDER BY key"
    facts = (
        config_fingerprint,
        _fingerprint(connection.execute(query, (server, listed.kind)).fetchall()),
        to_json([{"name": each.name, "reason": each.reason} for each in listed.refused]),
        to_json(listed.denied),
    )
    query = "SELECT config_fingerprint, fingerprint, refused, denied FROM offer_lists WHERE server = ? AND kind = ?"
    if connection.execute(query, (server, listed.kind)).fetchone() != facts:
        config, fingerprint, refused, denied = facts
        row = (server, listed.kind, config, fingerprint, now, refused, denied)
        connection.execute("INSERT OR REPLACE INTO offer_lists VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def _columns(server: str, kind: OfferKind, record: OfferRecord) -> dict[str, str | int]:
    definition = to_json(record.definition)
    return {
        "key": _key(server, kind, record),
        "server": server,
        "kind": kind,
        "name": record.name,
        "address": record.address,
        "hash": sha256(definition.encode()).hexdigest(),
        "size": len(definition),
        "definition": definition,
    }


def _key(server: str, kind: OfferKind, record: OfferRecord) -> str:
    return to_json([server, kind, record.address])


def _fingerprint(rows: Sequence[tuple[str, str]]) -> str:
    return sha256(json.dumps(rows).encode()).hexdigest()
