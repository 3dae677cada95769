"""The stems of rows in a file: filled when rows have changed, and read in one transaction at a time.

Knows the SQL of reading them; never knows who may see a row, what a document is worth or how words are weighed.
"""

import json
import sqlite3
from collections.abc import Collection, Container, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import RLock

from toolcrib.base.errors import StoreError
from toolcrib.store.stem_tables import EVERYBODY, Stem, StemTables, sums_of
from toolcrib.store.store import Store
from toolcrib.store.values import to_json

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
        store.prepare(tables.keep_in_step)

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
            return self._connection.execute(query, (EVERYBODY, term)).fetchall()
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
        chosen = to_json([EVERYBODY] if servers is None else list(servers))
        return int(self._connection.execute(query, (chosen, term, place)).fetchone()[0])

    def often(self, more_than: float) -> list[tuple[str, int]]:
        """Return (stem, counted field) where the stem occurs more than ``more_than`` times in all rows together."""
        query = f"SELECT term, place FROM {self._stems}_uses WHERE server = '{EVERYBODY}' AND occurrences > ?"
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
            f"WHERE server = '{EVERYBODY}' AND term BETWEEN ? AND ? AND length(term) BETWEEN ? AND ?"
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
