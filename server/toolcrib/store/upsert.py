"""Inserts rows or replaces existing ones, many with one statement.

Knows the SQL of it; never knows what a column means.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

_VALUES_MAX = 4096
"""Values per statement; larger ones gain little."""

Row = Mapping[str, object]


def upsert(
    connection: sqlite3.Connection, table: str, key: str, rows: Sequence[Row], kept: Collection[str] = ()
) -> None:
    """Insert or replace ``rows``: values by column, the same columns in each.

    A row with the same value in the column ``key``, which is unique, is replaced except for its columns ``kept``. Where
    triggers feed a full-text table, a statement per row would cost much more: FTS5 ends a segment of its index with
    every statement.
    """
    if not rows:
        return
    columns = tuple(rows[0])
    replaced = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in (key, *kept))
    into, otherwise = f"{table}({', '.join(columns)})", f"ON CONFLICT({key}) DO UPDATE SET {replaced}"
    insert(connection, into, [[row[column] for column in columns] for row in rows], otherwise)


def insert(connection: sqlite3.Connection, into: str, rows: Sequence[Sequence[object]], otherwise: str = "") -> None:
    """Insert ``rows``, each with the values of the columns that ``into`` names: ``table(a, b)``.

    ``otherwise`` is the conflict clause. Each statement releases the GIL when it begins, and has to acquire it again
    when it ends: with a statement per row, writing takes many times as long beside compute-bound threads.
    """
    if not rows:
        return
    values = f"({', '.join('?' * len(rows[0]))})"
    # SQLite limits the variables of a statement; older builds allow 999.
    most = min(connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER), _VALUES_MAX) // len(rows[0])
    for batch in _batches(rows, most):
        statement = f"INSERT INTO {into} VALUES {', '.join([values] * len(batch))} {otherwise}"  # noqa: S608 - own names
        connection.execute(statement, list(chain.from_iterable(batch)))


def _batches(rows: Sequence[Sequence[object]], most: int) -> Iterator[Sequence[Sequence[object]]]:
    """Yield the rows in batches whose sizes are powers of two, so that SQLite prepares few distinct statements."""
    start = 0
    while start < len(rows):
        size = 1 << min(len(rows) - start, most).bit_length() - 1
        yield rows[start : start + size]
        start += size
