"""An inverted index in a database file: updated after rows have changed, and read in one transaction at a time."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain, repeat
from operator import itemgetter
from threading import RLock
from typing import NamedTuple

from toolcrib.base.errors import StoreError
from toolcrib.storage.store import Store, damaged_rows, insert, to_json

BATCH = 2000
"""Rows per transaction: others may write between two of them. Larger transactions write fewer counts."""

ALL_SERVERS = ""
"""The key for all servers together; no server's key is empty."""

IN_NAME = "="
"""Stems of names are indexed again with this prefix, so that names can be searched alone."""

_OF_COUNTED = "+~^"
"""Stems of fields with their own counts are indexed with the field's prefix.

So they can be searched without a field in which they are ignored.
"""

_OPTIONS = f"""tokenize = "ascii tokenchars '{IN_NAME}{_OF_COUNTED}'", detail = none, columnsize = 0"""
_BY = "PRIMARY KEY (server, term,"
_CHOSEN = "IN (SELECT value FROM json_each(?))"

Document = Sequence[Sequence[str]]
"""For each field its stems, repeated as often as they occur; the name first."""

Stem = Callable[[str], str]


@dataclass(frozen=True)
class StemTables:
    """The stems of the rows of ``table``, whose integer primary key is ``key``.

    ``columns`` have the words of the fields, the name first; ``owner`` is the column that partitions the rows, by
    server. ``counted`` are the indexes of the fields in which ranking may ignore a word: these have their own counts.
    ``trusted`` is a column that is empty if a row was not written by us: such a row has no stems. ``version`` is
    increased when the stem of any word changes. ``meta`` is a key-value table. ``reads`` converts the words of a row,
    by column, to the ranked text, which has ``derived`` fields more; ``reading`` identifies what it returns.
    """

    table: str
    key: str
    owner: str
    trusted: str
    columns: Sequence[str]
    counted: Sequence[int]
    meta: str
    version: int
    reads: Callable[[Sequence[str]], Sequence[str]] = tuple
    derived: int = 0
    reading: str = ""

    def synchronize(self, store: Store) -> None:
        """Rebuild the tables unless they exist exactly as they should, which requires FTS5.

        Raises:
            StoreError: any SQLite error.

        """
        with store.read() as connection:
            row = connection.execute(f"SELECT value FROM {self.meta} WHERE key = 'stems'").fetchone()
        if (row[0] if row else None) != (self._digest if store.fts else None):
            store.change(partial(self._remake, fts=store.fts))

    def _remake(self, connection: sqlite3.Connection, *, fts: bool) -> None:
        """Rebuild the tables, with every row marked as due; without FTS5 only drop the triggers."""
        for name in self._triggers:
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        connection.execute(f"DELETE FROM {self.meta} WHERE key = 'stems'")
        if not fts:
            return
        for suffix in ("", "_due", "_rows", "_counts", "_uses", "_sums", "_words"):
            connection.execute(f"DROP TABLE IF EXISTS {self.table}_stems{suffix}")
        for statement in self._statements:
            connection.execute(statement)
        connection.execute(f"INSERT INTO {self.meta}(key, value) VALUES ('stems', ?)", (self._digest,))

    @cached_property
    def fields(self) -> str:
        """The columns of the table of stems, one per field."""
        return ", ".join(f"f{place}" for place in range(self.width))

    @property
    def width(self) -> int:
        """The number of fields."""
        return len(self.columns) + self.derived

    # -- what a document has -----------------------------------------------------------------------

    @cached_property
    def outside(self) -> int:
        """The mask bit for a stem that occurs in a field without counts of its own."""
        return 1 << len(self.counted)

    @cached_property
    def in_name(self) -> int:
        """The mask bit for a stem that occurs in the name."""
        return self.outside << 1

    @cached_property
    def bits(self) -> tuple[int, ...]:
        """The mask bits of a stem, by field in which it occurs."""
        by_place = {place: 1 << number for number, place in enumerate(self.counted)}
        others = (self.outside | self.in_name, *[self.outside] * (self.width - 1))
        return tuple(by_place.get(place, other) for place, other in enumerate(others))

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """The index prefix of the stems of each field: empty, or the prefix of a field with its own counts."""
        by_place = dict(zip(self.counted, _OF_COUNTED[: len(self.counted)], strict=True))
        return tuple(by_place.get(place, "") for place in range(self.width))

    @cached_property
    def _indexed(self) -> str:
        """The indexed text of a row of stems, as SQL: a text per field, and one for the name alone."""
        pairs = [*((mark, f"f{place}") for place, mark in enumerate(self.marks)), (IN_NAME, "f0")]
        marked = "CASE {1} WHEN '' THEN '' ELSE '{0}' || replace({1}, ' ', ' {0}') END"
        return ", ".join(marked.format(*pair) if pair[0] else pair[1] for pair in pairs)

    def masks(self, document: Document) -> Mapping[str, int]:
        """Return each stem of a document with the mask of the fields in which it occurs."""
        everywhere = chain.from_iterable(stems for place, stems in enumerate(document) if place not in self.counted)
        masks = dict.fromkeys(everywhere, self.outside)
        masks |= dict.fromkeys(document[0], self.bits[0])
        for place in self.counted:
            bit = self.bits[place]
            for stem in document[place]:
                masks[stem] = masks.get(stem, 0) | bit
        return masks

    def tally(self) -> "Tally":
        """Return an empty tally."""
        return Tally(self, lengths=[0] * self.width)

    # -- filling -----------------------------------------------------------------------------------

    def fill(self, connection: sqlite3.Connection, stem: Stem) -> bool:
        """Update up to :data:`BATCH` rows that are due; return whether there may be more."""
        due = f"{self.table}_stems_due"
        ids = [row[0] for row in connection.execute(f"SELECT id FROM {due} ORDER BY id LIMIT {BATCH}")]
        if not ids:
            return False
        tallies: defaultdict[str, Tally] = defaultdict(self.tally)
        given = to_json(ids)
        self._remove_rows(connection, given, tallies)
        self._add_rows(connection, given, tallies, stem)
        self._count(connection, tallies)
        connection.execute(f"DELETE FROM {due} WHERE id {_CHOSEN}", (given,))
        connection.execute(
            f"INSERT INTO {self.meta}(key, value) VALUES ('stems_filled', '1') "
            "ON CONFLICT(key) DO UPDATE SET value = value + 1"
        )
        return len(ids) == BATCH

    def _remove_rows(self, connection: sqlite3.Connection, ids: str, tallies: Mapping[str, "Tally"]) -> None:
        stems = f"{self.table}_stems"
        query = f"SELECT server, {self.fields} FROM {stems}_rows WHERE id {_CHOSEN}"
        before: defaultdict[str, list[Document]] = defaultdict(list)
        for owner, *texts in connection.execute(query, (ids,)).fetchall():
            before[owner].append([text.split() for text in texts])
        for owner, documents in before.items():
            tallies[owner].take(documents)
        # A contentless table requires the old words for a deletion (FTS5, "Contentless Tables").
        columns = f"{stems}, rowid, {self.fields}, named"
        delete = f"SELECT 'delete', id, {self._indexed} FROM {stems}_rows WHERE id {_CHOSEN}"
        connection.execute(f"INSERT INTO {stems}({columns}) {delete}", (ids,))
        connection.execute(f"DELETE FROM {stems}_rows WHERE id {_CHOSEN}", (ids,))

    def _add_rows(self, connection: sqlite3.Connection, ids: str, tallies: Mapping[str, "Tally"], stem: Stem) -> None:
        stems, columns = f"{self.table}_stems", ", ".join(self.columns)
        select = f"SELECT {self.key}, {self.owner}, {columns} FROM {self.table} WHERE {self.key} {_CHOSEN} "
        select += f"AND {self.trusted} != ''"
        rows: list[Sequence[object]] = []
        documents: defaultdict[str, list[Document]] = defaultdict(list)
        for number, owner, *texts in connection.execute(select, (ids,)).fetchall():
            stemmed = [list(map(stem, text.split())) for text in self.reads(texts)]
            documents[owner].append(stemmed)
            rows.append((owner, number, *map(" ".join, stemmed)))
        for owner, each in documents.items():
            tallies[owner].add(each)
        insert(connection, f"{stems}_rows(server, id, {self.fields})", rows)
        indexed = f"SELECT id, {self._indexed} FROM {stems}_rows WHERE id {_CHOSEN}"
        connection.execute(f"INSERT INTO {stems}(rowid, {self.fields}, named) {indexed}", (ids,))

    def _count(self, connection: sqlite3.Connection, tallies: Mapping[str, "Tally"]) -> None:
        """Add counts to those in the tables, for each server and for all of them together."""
        counts, uses = self._counts, self._uses
        every = self.tally()
        for owner, tally in tallies.items():
            self._add_up(connection, owner, tally)
            every.join(tally)
        for owner, tally in (*sorted(tallies.items()), (ALL_SERVERS, every)):
            counts.add(connection, owner, tally.having)
            uses.add(connection, owner, tally.uses)
        words = f"{self.table}_stems_words"
        terms = {term for term, _ in every.having}
        insert(connection, words, sorted((term[::-1],) for term in terms), "ON CONFLICT DO NOTHING")
        fewer = {term for (term, _), number in every.having.items() if number < 0}
        nowhere = f"NOT EXISTS (SELECT 1 FROM {counts.table} WHERE server = '{ALL_SERVERS}' AND term = ?)"
        gone = [(term[::-1], term) for term in sorted(fewer)]
        connection.executemany(f"DELETE FROM {words} WHERE backwards = ? AND {nowhere}", gone)

    def _add_up(self, connection: sqlite3.Connection, owner: str, tally: "Tally") -> None:
        sums = f"{self.table}_stems_sums"
        row = connection.execute(f"SELECT documents, lengths FROM {sums} WHERE server = ?", (owner,)).fetchone()
        documents, lengths = sums_of(row) if row else (0, [0] * self.width)
        lengths = [one + other for one, other in zip(lengths, tally.lengths, strict=True)]
        values = owner, documents + tally.documents, to_json(lengths)
        connection.execute(f"INSERT OR REPLACE INTO {sums} VALUES (?, ?, ?)", values)

    @cached_property
    def _counts(self) -> "_Numbers":
        return _Numbers(f"{self.table}_stems_counts", "mask", "documents")

    @cached_property
    def _uses(self) -> "_Numbers":
        return _Numbers(f"{self.table}_stems_uses", "place", "occurrences")

    # -- SQL ---------------------------------------------------------------------------------------

    @cached_property
    def _triggers(self) -> dict[str, str]:
        table, watched = self.table, (self.owner, *self.columns)
        old, new = (
            ", ".join((f"{row}.{self.trusted} != ''", *(f"{row}.{column}" for column in watched)))
            for row in ("old", "new")
        )
        due = f"{table}_stems_due"
        # Not OR IGNORE: the conflict clause of the outer statement also applies inside a trigger.
        note = f"INSERT INTO {due} SELECT {{0}} WHERE NOT EXISTS (SELECT 1 FROM {due} WHERE id = {{0}});"
        of_new, of_old = (note.format(f"{row}.{self.key}") for row in ("new", "old"))
        forget = f"DELETE FROM {due} WHERE id = old.{self.key} "
        forget += f"AND NOT EXISTS (SELECT 1 FROM {table}_stems_rows WHERE id = old.{self.key});"
        return {
            f"{table}_stems_after_insert": f"AFTER INSERT ON {table} BEGIN {of_new} END",
            f"{table}_stems_after_update": (f"AFTER UPDATE ON {table} WHEN ({old}) IS NOT ({new}) BEGIN {of_new} END"),
            # A row without stems yet has none to be removed.
            f"{table}_stems_after_delete": f"AFTER DELETE ON {table} BEGIN {of_old} {forget} END",
        }

    @cached_property
    def _statements(self) -> tuple[str, ...]:
        stems = f"{self.table}_stems"
        # The table is only asked which documents contain a stem; no stem contains what its tokenizer would split.
        table = f"CREATE VIRTUAL TABLE {stems} USING fts5({self.fields}, named, content = '', {_OPTIONS})"
        counts, uses = (
            f"CREATE TABLE {each.table} (server, term, {each.key}, {each.number}, {_BY} {each.key})) WITHOUT ROWID"
            for each in (self._counts, self._uses)
        )
        return (
            table,
            f"CREATE TABLE {stems}_due (id INTEGER PRIMARY KEY)",
            f"CREATE TABLE {stems}_rows (id INTEGER PRIMARY KEY, server, {self.fields})",
            f"CREATE INDEX {stems}_rows_by_server ON {stems}_rows(server)",
            counts,
            uses,
            f"CREATE INDEX {stems}_often ON {stems}_uses(occurrences) WHERE server = ''",
            f"CREATE TABLE {stems}_sums (server TEXT PRIMARY KEY, documents INTEGER, lengths TEXT) WITHOUT ROWID",
            f"CREATE TABLE {stems}_words (backwards TEXT PRIMARY KEY) WITHOUT ROWID",
            *(f"CREATE TRIGGER {name} {body}" for name, body in self._triggers.items()),
            f"INSERT INTO {stems}_due SELECT {self.key} FROM {self.table}",
        )

    @cached_property
    def _digest(self) -> str:
        # A change of any statement, of the stemmer, of the counted or the derived fields triggers a rebuild.
        version = str((self.version, tuple(self.counted), self.reading))
        return sha256("\n".join((*self._statements, version)).encode()).hexdigest()


@dataclass
class Tally:
    """Counts of some documents: how many contain a stem in which fields, and the total length of each field.

    ``having``: document counts by stem and field mask. ``uses``: occurrences of a stem by stem and field index, for the
    fields with their own counts.
    """

    tables: StemTables
    lengths: list[int]
    documents: int = 0
    having: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    uses: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    def add(self, documents: Sequence[Document]) -> None:
        """Add documents to the counts."""
        self._measure(documents, 1)
        self.having.update(self._having(documents))
        self.uses.update(self._uses(documents))

    def take(self, documents: Sequence[Document]) -> None:
        """Subtract documents from the counts."""
        self._measure(documents, -1)
        self.having.subtract(self._having(documents))
        self.uses.subtract(self._uses(documents))

    def join(self, other: "Tally") -> None:
        """Add the stem counts of another tally; not its documents and lengths."""
        self.having.update(other.having)
        self.uses.update(other.uses)

    def _measure(self, documents: Sequence[Document], sign: int) -> None:
        self.documents += sign * len(documents)
        for place in range(len(self.lengths)):
            self.lengths[place] += sign * sum(len(document[place]) for document in documents)

    def _having(self, documents: Sequence[Document]) -> Iterator[tuple[str, int]]:
        return chain.from_iterable(self.tables.masks(document).items() for document in documents)

    def _uses(self, documents: Sequence[Document]) -> Iterator[tuple[str, int]]:
        places = ((document[place], place) for place in self.tables.counted for document in documents)
        return chain.from_iterable(zip(stems, repeat(place)) for stems, place in places)


class _Numbers(NamedTuple):
    """A table of numbers by server, stem and a ``key``; the ``number`` is the last column."""

    table: str
    key: str
    number: str

    def add(self, connection: sqlite3.Connection, owner: str, numbers: Mapping[tuple[str, int], int]) -> None:
        """Add numbers, by stem and key, to the stored ones; a row that reaches 0 is deleted."""
        rows = [(owner, stem, key, number) for (stem, key), number in numbers.items() if number]
        rows.sort(key=itemgetter(1))  # in primary key order, for locality
        into, number = f"{self.table}(server, term, {self.key}, {self.number})", self.number
        insert(connection, into, rows, f"ON CONFLICT DO UPDATE SET {number} = {number} + excluded.{number}")
        gone = f"DELETE FROM {self.table} WHERE server = ? AND term = ? AND {self.key} = ? AND {number} = 0"
        connection.executemany(gone, [row[:3] for row in rows if row[3] < 0])


def sums_of(row: tuple[int, str]) -> tuple[int, list[int]]:
    """Return how many documents a server has, and how many words each of their fields has in total."""
    with damaged_rows():
        return row[0], json.loads(row[1])


Word = tuple[str, tuple[str, ...]]
"""A stem, and the prefixes of the fields to search (:attr:`StemTables.marks`, :data:`IN_NAME`)."""

_LAST = "\U0010ffff"
"""Sorts after every word."""


class Stems:
    """The stems of the rows of one table. Safe to use from several threads.

    Every method raises StoreError where the file cannot be read or written.
    """

    def __init__(self, store: Store, tables: StemTables, stem: Stem) -> None:
        self._store, self.tables, self.stem = store, tables, stem
        self._filling = RLock()
        store.prepare(tables.synchronize)

    @property
    def available(self) -> bool:
        """Whether there is FTS5, without which no stems are stored."""
        return self._store.fts

    @property
    def generation(self) -> int:
        """Return a number that increases when the file is replaced by another, whose stamps begin anew."""
        return self._store.generation

    def fill(self) -> None:
        """Update all rows that are due, in separate transactions between which others can write."""
        with self._filling:
            while self._store.change(partial(self.tables.fill, stem=self.stem)):
                pass

    def settled(self, rows: Container[int] | None, patience_s: float) -> int:
        """Update these rows (None: all) as far as they are due and that is possible; return the stamp after that.

        If another thread of this process is already doing so, wait for it, at most ``patience_s`` seconds.
        """
        if self._is_due(rows) and self._filling.acquire(timeout=patience_s):
            try:
                with suppress(StoreError):  # another process may be writing for long: stored rows can be read
                    self.fill()
            finally:
                self._filling.release()
        with self.reading() as reader:
            return reader.stamp

    @contextmanager
    def reading(self) -> Generator["StemReader"]:
        """Open a transaction in which all reads see one state."""
        with self._store.read() as connection:
            yield StemReader(connection, self.tables)

    def _is_due(self, rows: Container[int] | None) -> bool:
        with self._store.read() as connection:
            due = StemReader(connection, self.tables).due()
        return any(rows is None or row in rows for row in due)


class StemReader:
    """Reads the tables of stems, in one transaction."""

    def __init__(self, connection: sqlite3.Connection, tables: StemTables) -> None:
        self._connection, self.tables = connection, tables
        self._stems = f"{tables.table}_stems"

    @property
    def stamp(self) -> int:
        """A number that changes whenever the tables change."""
        query = f"SELECT value FROM {self.tables.meta} WHERE key = 'stems_filled'"
        row = self._connection.execute(query).fetchone()
        return int(row[0]) if row else 0

    def due(self) -> list[int]:
        """Return the rows that have changed since their stems were made."""
        return json.loads(self._connection.execute(f"SELECT json_group_array(id) FROM {self._stems}_due").fetchone()[0])

    def owned(self) -> Iterator[tuple[str, list[int]]]:
        """Yield each server with its rows, in ascending order."""
        query = f"SELECT server, json_group_array(id) FROM {self._stems}_rows GROUP BY server"
        return ((server, json.loads(rows)) for server, rows in self._connection.execute(query))

    def texts(self, rows: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Return the stems of each of these rows, a text per field; deleted rows are omitted."""
        query = f"SELECT id, {self.tables.fields} FROM {self._stems}_rows WHERE id IN (SELECT value FROM json_each(?))"
        return {row[0]: row[1:] for row in self._connection.execute(query, (to_json(list(rows)),))}

    def words(self, rows: Iterable[int]) -> dict[int, Sequence[str]]:
        """Return the words of each of these rows, a text per field.

        Deleted and due rows are omitted: their stems do not correspond to their words.
        """
        table, key = self.tables.table, self.tables.key
        columns = ", ".join(self.tables.columns)
        query = f"SELECT {key}, {columns} FROM {table} WHERE {key} IN (SELECT value FROM json_each(?)) "
        query += f"AND {key} NOT IN (SELECT id FROM {self._stems}_due)"
        found = self._connection.execute(query, (to_json(list(rows)),))
        return {row[0]: self.tables.reads(row[1:]) for row in found}

    def postings(self, *words: Word, also: Word | None = None) -> list[int]:
        """Return the rows that contain one of these words and, if given, ``also``, in ascending order."""
        # One aggregated list instead of a result row each: most of the time went into creating these.
        query = f"SELECT json_group_array(rowid) FROM {self._stems} WHERE {self._stems} MATCH ?"
        match = " OR ".join(map(_quoted, words))
        match = f"({match}) AND ({_quoted(also)})" if also else match
        return json.loads(self._connection.execute(query, (match,)).fetchone()[0])

    def counts(self, term: str, servers: Collection[str] | None) -> list[tuple[int, int]]:
        """Return how many rows of these servers (None: all) contain a stem, by mask."""
        query = f"SELECT mask, documents FROM {self._stems}_counts WHERE server = ? AND term = ?"
        if servers is None:
            return self._connection.execute(query, (ALL_SERVERS, term)).fetchall()
        query = (
            f"SELECT mask, sum(documents) FROM {self._stems}_counts "
            "WHERE server IN (SELECT value FROM json_each(?)) AND term = ? GROUP BY mask"
        )
        return self._connection.execute(query, (to_json(list(servers)), term)).fetchall()

    def uses(self, term: str, place: int, servers: Collection[str] | None) -> int:
        """Return the number of occurrences of a stem in a counted field of the rows of these servers (None: all)."""
        query = (
            f"SELECT coalesce(sum(occurrences), 0) FROM {self._stems}_uses "
            "WHERE server IN (SELECT value FROM json_each(?)) AND term = ? AND place = ?"
        )
        chosen = to_json([ALL_SERVERS] if servers is None else list(servers))
        return int(self._connection.execute(query, (chosen, term, place)).fetchone()[0])

    def often(self, more_than: float) -> list[tuple[str, int]]:
        """Return (stem, counted field) where the stem occurs more than ``more_than`` times in all rows together."""
        query = f"SELECT term, place FROM {self._stems}_uses WHERE server = '{ALL_SERVERS}' AND occurrences > ?"
        return self._connection.execute(query, (more_than,)).fetchall()

    def sums(self, servers: Collection[str] | None) -> Iterator[tuple[int, list[int]]]:
        """Yield, for each of these servers (None: all), its number of documents and the total length of each field."""
        query = f"SELECT documents, lengths FROM {self._stems}_sums"
        if servers is None:
            return map(sums_of, self._connection.execute(query))
        query += " WHERE server IN (SELECT value FROM json_each(?))"
        return map(sums_of, self._connection.execute(query, (to_json(list(servers)),)))

    def alike(self, beginning: str, end: str, lengths: tuple[int, int]) -> set[str]:
        """Return the stems of any rows with this prefix or suffix whose length is within ``lengths``, inclusive."""
        counts = (
            f"SELECT DISTINCT term FROM {self._stems}_counts "
            f"WHERE server = '{ALL_SERVERS}' AND term BETWEEN ? AND ? AND length(term) BETWEEN ? AND ?"
        )
        words = (
            f"SELECT backwards FROM {self._stems}_words "
            "WHERE backwards BETWEEN ? AND ? AND length(backwards) BETWEEN ? AND ?"
        )
        back = end[::-1]
        begun = self._connection.execute(counts, (beginning, beginning + _LAST, *lengths))
        ended = self._connection.execute(words, (back, back + _LAST, *lengths))
        return {term for (term,) in begun} | {term[::-1] for (term,) in ended}


def _quoted(word: Word) -> str:
    stem, marks = word
    return " OR ".join(f'"{mark}{stem}"' for mark in marks)
