"""The vectors of tools' texts on disk, so that no text is encoded twice.

Knows texts, their hashes and blobs; never knows a model or what the numbers mean.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping

from toolcrib.search.semantic import text_hash
from toolcrib.store.store import Store

_TEXT_MAX = 2000
_TEXT = (
    f"substr(server_text || ' ' || name_text || ' ' || params_text || ' ' || summary || ' ' || body, 1, {_TEXT_MAX})"
)
"""What a tool means, the most telling first: models stop reading after a few hundred words."""


class VectorCache:
    """Vectors as blobs, by model and text. Every method raises StoreError where the file cannot be used."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Return the text of each of these tools, by row; rows that are gone are left out."""
        query = f"SELECT id, {_TEXT} FROM tools WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
        with self._store.read() as connection:
            return dict(connection.execute(query, (json.dumps(list(rows)),)).fetchall())

    def vectors(self, model_id: str, hashes: Iterable[str]) -> dict[str, bytes]:
        """Return the vectors of a model that are known, by :func:`text_hash`."""
        query = (
            "SELECT text_hash, vector FROM vectors "
            "WHERE model = ? AND text_hash IN (SELECT value FROM json_each(?)) AND typeof(vector) = 'blob'"
        )
        with self._store.read() as connection:
            return dict(connection.execute(query, (model_id, json.dumps(list(hashes)))).fetchall())

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors, and drop those of other models and of texts that no tool has any more."""
        with self._store.write() as connection:
            rows = [(model_id, each, vector) for each, vector in vectors.items()]
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            query = "DELETE FROM vectors WHERE model <> ? OR text_hash NOT IN (SELECT value FROM json_each(?))"
            connection.execute(query, (model_id, json.dumps(_current(connection))))


def _current(connection: sqlite3.Connection) -> list[str]:
    return [text_hash(text) for (text,) in connection.execute(f"SELECT {_TEXT} FROM tools")]  # noqa: S608 - constants
