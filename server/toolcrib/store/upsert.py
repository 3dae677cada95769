"""Inserts rows or replaces existing ones, many with one statement.

Knows the SQL of it; never knows what a column means.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence

_BATCH_MAX = 128
"""Rows of one statement; with more there is little to gain."""

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
    values = f"({', '.join('?' * len(columns))})"
    # SQLite bounds the variables of a statement; older builds allow 999.
    most = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(columns)
    for batch in _batches(rows, min(most, _BATCH_MAX)):
        statement = (
            f"INSERT INTO {table}({', '.join(columns)}) VALUES {', '.join([values] * len(batch))} "  # noqa: S608 - own
            f"ON CONFLICT({key}) DO UPDATE SET {replaced}"
        )
        connection.execute(statement, [row[column] for row in batch for column in columns])


def _batches(rows: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    """Yield the rows in parts whose sizes are powers of two, so that SQLite has few statements to prepare."""
    start = 0
    while start < len(rows):
        size = 1 << min(len(rows) - start, most).bit_length() - 1
        yield rows[start : start + size]
        start += size
