"""A full-text table beside a table of rows: how it is made, kept in step by triggers, and tidied.

Knows the SQL of FTS5; never knows what the rows are about or how a match is ranked.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256

from toolcrib.store.store import Store

_MERGING = "('automerge', 0)", "('crisismerge', 256)"
"""Join the parts of the index, one of which every transaction makes, only when there are very many.

No search of ours reads them, so joining them early would be work for nothing. (FTS5, "The 'automerge' Configuration
Option")
"""


@dataclass(frozen=True)
class FullText:
    """The table ``TABLE_fts`` over the words of ``table``, whose integer primary key is ``key``.

    ``columns`` are its own columns, each with the column of ``table`` that has its words. ``content`` is where FTS5
    reads them back: the table itself, or a view that gives them their names, made by ``view``. ``meta`` is a table
    of keys and values, in which stands what was made last.
    """

    table: str
    key: str
    columns: Mapping[str, str]
    meta: str
    content: str
    view: str = ""

    def keep_in_step(self, store: Store) -> None:
        """Make the full-text table anew, unless it and its triggers are there exactly if they should be (R37, R38).

        Raises:
            StoreError: anything SQLite complains about.

        """
        with store.read() as connection:
            row = connection.execute(f"SELECT value FROM {self.meta} WHERE key = 'full_text'").fetchone()  # noqa: S608 - own name
        if (row[0] if row else None) != (self._digest if store.fts else None):
            store.change(partial(self._remake, fts=store.fts))

    def _remake(self, connection: sqlite3.Connection, *, fts: bool) -> None:
        """Make the full-text table and its triggers anew from the rows; without FTS5 only take the triggers away.

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
        # A table with external content needs the old words to take them out (FTS5, "External Content Tables").
        drop_old = (
            f"INSERT INTO {table}_fts({table}_fts, rowid, {names}) "  # noqa: S608 - own names
            f"VALUES ('delete', old.{self.key}, {old});"
        )
        # A change of other columns leaves the full text alone. IS NOT instead of <>, because a value may be NULL.
        changed = f"WHEN ({old}) IS NOT ({new})"
        return {
            f"{table}_after_insert": f"AFTER INSERT ON {table} BEGIN {add_new} END",
            f"{table}_after_update": f"AFTER UPDATE ON {table} {changed} BEGIN {drop_old} {add_new} END",
            f"{table}_after_delete": f"AFTER DELETE ON {table} BEGIN {drop_old} END",
        }

    @cached_property
    def _statements(self) -> tuple[str, ...]:
        table = self.table
        # Everything that a search of other programs may need stays, such as detail = full (ADR 11).
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
        # A change of any statement has the table made anew.
        return sha256("\n".join(self._statements).encode()).hexdigest()
