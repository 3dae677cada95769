"""Stores the vectors of texts on disk, so that no text is encoded twice."""

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from toolcrib.storage.store import Store, to_json

TEXT_MAX = 2000
"""Characters of a row's text that are encoded: models ignore text after a few hundred words."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The source of rows' texts: ``text`` is an SQL expression over ``table``, whose primary key is ``key``."""

    table: str
    key: str
    text: str

    @property
    def select(self) -> str:
        """The SQL query for the key and the text of each row."""
        return f"SELECT {self.key}, substr({self.text}, 1, {TEXT_MAX}) FROM {self.table}"  # noqa: S608 - constants


def create_vectors(connection: sqlite3.Connection) -> None:
    """Create the table of vectors: a migration of a file that has texts to encode."""
    connection.execute(
        "CREATE TABLE vectors "
        "(model TEXT NOT NULL, text_hash TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, text_hash))"
    )


class VectorCache:
    """Vectors as blobs, by model and text. Every method raises StoreError where the file cannot be used."""

    def __init__(self, store: Store, texts: Texts) -> None:
        self._store, self._texts = store, texts

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Return the text of each of these rows; deleted rows are omitted."""
        query = f"{self._texts.select} WHERE {self._texts.key} IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
        with self._store.read() as connection:
            return dict(connection.execute(query, (to_json(list(rows)),)).fetchall())

    def vectors(self, model_id: str, texts: Collection[str]) -> dict[str, bytes]:
        """Return the stored vectors of a model, by text."""
        hashes = {_hash(text): text for text in texts}
        query = (
            # The type is checked because another program may have written anything into the column.
            "SELECT text_hash, vector FROM vectors "
            "WHERE model = ? AND text_hash IN (SELECT value FROM json_each(?)) AND typeof(vector) = 'blob'"
        )
        with self._store.read() as connection:
            found = connection.execute(query, (model_id, to_json(list(hashes)))).fetchall()
        return {hashes[each]: vector for each, vector in found}

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors by text, and delete those of other models and of texts that no row has any more."""
        rows = [(model_id, _hash(text), vector) for text, vector in vectors.items()]
        with self._store.write() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            current = to_json([_hash(text) for _, text in connection.execute(self._texts.select)])
            query = "DELETE FROM vectors WHERE model <> ? OR text_hash NOT IN (SELECT value FROM json_each(?))"
            connection.execute(query, (model_id, current))


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
