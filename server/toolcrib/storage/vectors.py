"""Stores the vectors of texts on disk, so that no text is encoded twice."""

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from toolcrib.storage.store import Store, to_json

TEXT_MAX = 2000
"""Characters of a row's text that are encoded: models ignore text after a few hundred words."""


_SMALL, _SURPLUS = 1000, 1.5
"""Number of rows up to which no outdated vector is kept, and number of vectors per row up to which a larger table may
have some.
"""


@dataclass(frozen=True, slots=True)
class Texts:
    """The source of rows' texts: ``text`` is an SQL expression over ``table``, whose primary key is ``key``.

    ``owner`` is the column that says whose row it is: what is stored together has the same owner.
    """

    table: str
    key: str
    owner: str
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

    def missing(self, model_id: str, owner: str) -> list[str]:
        """Return the texts of an owner's rows without a stored vector of a model."""
        with self._store.read() as connection:
            rows = connection.execute(f"{self._texts.select} WHERE {self._texts.owner} = ?", (owner,))
            texts = list(dict.fromkeys(text for _, text in rows))
        known = self.vectors(model_id, texts)
        return [text for text in texts if text not in known]

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors by text, and delete those of other models and of texts that no row has any more.

        Of a large table outdated vectors are only deleted once they are many.
        """
        rows = [(model_id, _hash(text), vector) for text, vector in vectors.items()]
        with self._store.write() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            connection.execute("DELETE FROM vectors WHERE model <> ?", (model_id,))
            (stored,), (wanted,) = (
                connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - constants
                for table in ("vectors", self._texts.table)
            )
            # Each text is read and hashed, so a large table would delay every list that is stored.
            if wanted <= _SMALL or stored > _SURPLUS * wanted:
                current = to_json([_hash(text) for _, text in connection.execute(self._texts.select)])
                query = "DELETE FROM vectors WHERE text_hash NOT IN (SELECT value FROM json_each(?))"
                connection.execute(query, (current,))


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
