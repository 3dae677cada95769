"""Stores the vectors of texts on disk, so that no text is encoded twice."""

import sqlite3
from collections.abc import Iterable, Mapping
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

    ``version`` is an SQL expression for what identifies the content of a row, the text included; empty for one that is
    not trusted. ``owner`` is the column that says whose row it is: what is stored together has the same owner.
    """

    table: str
    key: str
    version: str
    owner: str
    text: str

    @property
    def columns(self) -> str:
        """The SQL expressions for the version and the text of a row."""
        return f"{self.version}, substr({self.text}, 1, {TEXT_MAX})"


def create_vectors(connection: sqlite3.Connection) -> None:
    """Create the table of vectors: a migration of a file that has texts to encode.

    ``text_hash`` is the version of a row, ``model`` identifies the model and the expression of the texts.
    """
    connection.execute(
        "CREATE TABLE vectors "
        "(model TEXT NOT NULL, text_hash TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, text_hash))"
    )


class VectorCache:
    """Vectors as blobs, by model and version. Every method raises StoreError where the file cannot be used."""

    def __init__(self, store: Store, texts: Texts) -> None:
        self._store, self._texts = store, texts

    def texts(self, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return the version and the text of each of these rows; deleted and untrusted ones are omitted."""
        texts = self._texts
        query = (
            f"SELECT {texts.key}, {texts.columns} FROM {texts.table} "  # noqa: S608 - constants
            f"WHERE {texts.key} IN (SELECT value FROM json_each(?)) AND {texts.version} <> ''"
        )
        with self._store.read() as connection:
            return {row: (key, text) for row, key, text in connection.execute(query, (to_json(list(rows)),))}

    def vectors(self, model_id: str, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the stored vectors of a model, by version."""
        query = (
            # The type is checked because another program may have written anything into the column.
            "SELECT text_hash, vector FROM vectors "
            "WHERE model = ? AND text_hash IN (SELECT value FROM json_each(?)) AND typeof(vector) = 'blob'"
        )
        with self._store.read() as connection:
            return dict(connection.execute(query, (self._model(model_id), to_json(list(keys)))).fetchall())

    def missing(self, model_id: str, owner: str) -> dict[str, str]:
        """Return the texts of an owner's rows without a stored vector of a model, by version."""
        texts = self._texts
        query = (
            f"SELECT {texts.columns} FROM {texts.table} WHERE {texts.owner} = ? AND {texts.version} <> '' "  # noqa: S608 - constants
            f"AND NOT EXISTS (SELECT 1 FROM vectors WHERE model = ? AND text_hash = {texts.version})"
        )
        with self._store.read() as connection:
            return dict(connection.execute(query, (owner, self._model(model_id))).fetchall())

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors by version, and delete those of other models and of versions that no row has any more.

        Of a large table outdated vectors are only deleted once they are many.
        """
        model, texts = self._model(model_id), self._texts
        rows = [(model, key, vector) for key, vector in vectors.items()]
        with self._store.write() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            # Two ranges of the index: an inequality would read all of it.
            connection.execute("DELETE FROM vectors WHERE model < ? OR model > ?", (model, model))
            (stored,), (wanted,) = (
                connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - constants
                for table in ("vectors", texts.table)
            )
            # All versions are looked through, so a large table would delay every list that is stored.
            if wanted <= _SMALL or stored > _SURPLUS * wanted:
                outdated = f"text_hash NOT IN (SELECT {texts.version} FROM {texts.table})"  # noqa: S608 - constants
                connection.execute(f"DELETE FROM vectors WHERE {outdated}")  # noqa: S608 - as above

    def _model(self, model_id: str) -> str:
        """Return what tells apart the vectors of a model for these texts."""
        return sha256(f"{model_id} {TEXT_MAX} {self._texts.text}".encode()).hexdigest()[:32]
