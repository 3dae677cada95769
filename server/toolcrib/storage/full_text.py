"""Creates and optimizes a full-text table (FTS5) that triggers keep in sync with a table of rows."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256

from toolcrib.storage.store import Store

_MERGING = "('automerge', 0)", "('crisismerge', 256)"
"""Merge index segments, one of which each transaction creates, only when there are very many.

Our searches do not read them, so merging them early would be wasted work. (FTS5, "The 'automerge' Configuration
Option")
"""


@dataclass(frozen=True)
class FullText:
    """The table ``TABLE_fts`` over the words of ``table``, whose integer primary key is ``key``.

    ``columns`` maps its columns to the columns of ``table`` that have their words. ``content`` is what FTS5 reads them
    back from: the table itself, or a view, created by ``view``, that renames its columns. ``meta`` is a key-value table
    that records the statements used.
    """

    table: str
    key: str
    columns: Mapping[str, str]
    meta: str
    content: str
    view: str = ""

    def synchronize(self, store: Store) -> None:
        """Rebuild the full-text table unless it and its triggers exist exactly as they should (R37, R38).

        Raises:
            StoreError: any SQLite error.

        """
        with store.read() as connection:
            row = connection.execute(f"SELECT value FROM {self.meta} WHERE key = 'full_text'").fetchone()  # noqa: S608 - own name
        if (row[0] if row else None) != (self._digest if store.fts else None):
            store.change(partial(self._remake, fts=store.fts))

    def _remake(self, connection: sqlite3.Connection, *, fts: bool) -> None:
        """Rebuild the full-text table and its triggers from the rows; without FTS5 only drop the triggers.

        A SQLite without FTS5 cannot even drop the table, but it can write the rows once the triggers are gone.
        """
        for name in self._triggers:
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        connection.execute(f"DELETE FROM {self.meta} WHERE key = 'full_text'")  # noqa: S608 - own name
        if not fts:
            return
        connection.execute(f"DROP TABLE IF EXISTS {self.table}_fts")
        if self.view:
            connection.execute(f"DROP VIEW IF EXISTS {self.content}")
        for statement in self._statements:
            connection.execute(statement)
        insert = f"INSERT INTO {self.meta}(key, value) VALUES ('full_text', ?)"  # noqa: S608 - own name
        connection.execute(insert, (self._digest,))

    @cached_property
    def _triggers(self) -> dict[str, str]:
        table, names = self.table, ", ".join(self.columns)
        old, new = (", ".join(f"{row}.{column}" for column in self.columns.values()) for row in ("old", "new"))
        add_new = f"INSERT INTO {table}_fts(rowid, {names}) VALUES (new.{self.key}, {new});"  # noqa: S608 - own names
        # External content requires the old words for a deletion (FTS5, "External Content Tables").
        drop_old = (
            f"INSERT INTO {table}_fts({table}_fts, rowid, {names}) "  # noqa: S608 - own names
            f"VALUES ('delete', old.{self.key}, {old});"
        )
        # A change of other columns does not touch the index. IS NOT instead of <>, because a value may be NULL.
        changed = f"WHEN ({old}) IS NOT ({new})"
        return {
            f"{table}_after_insert": f"AFTER INSERT ON {table} BEGIN {add_new} END",
            f"{table}_after_update": f"AFTER UPDATE ON {table} {changed} BEGIN {drop_old} {add_new} END",
            f"{table}_after_delete": f"AFTER DELETE ON {table} BEGIN {drop_old} END",
        }

    @cached_property
    def _statements(self) -> tuple[str, ...]:
        table = self.table
        # With everything that a search by other programs may need, such as detail = full (ADR 11).
        create = (
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {table}_fts USING fts5({', '.join(self.columns)}, "
            f"content = '{self.content}', content_rowid = '{self.key}', tokenize = 'porter unicode61', detail = full)"
        )
        return (
            *filter(None, [self.view]),
            create,
            *(f"CREATE TRIGGER IF NOT EXISTS {name} {body}" for name, body in self._triggers.items()),
            *(f"INSERT INTO {table}_fts({table}_fts, rank) VALUES {setting}" for setting in _MERGING),  # noqa: S608 - own names
            f"INSERT INTO {table}_fts({table}_fts) VALUES ('rebuild')",  # noqa: S608 - own name
        )

    @cached_property
    def _digest(self) -> str:
        # A change of any statement triggers a rebuild of the table.
        return sha256("\n".join(self._statements).encode()).hexdigest()
