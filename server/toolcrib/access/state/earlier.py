"""Decisions that an earlier version kept in the disposable indexes: moved into ``state.db`` once.

Knows an order in which nothing is lost or migrated twice; never knows what the rows mean.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from toolcrib.storage.opening import connect_existing, is_damage
from toolcrib.storage.store import Store

_MARK = "taken_over"
_COPIED, _DONE = "copied", "done"

Keep = Callable[[sqlite3.Connection, Sequence[tuple[Any, ...]]], object]
"""Writes rows into ``state.db``, on a connection inside a transaction, but not over what is there."""

_Answer = TypeVar("_Answer")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EarlierTable:
    """Where an index of an earlier version kept decisions.

    ``table`` is there as long as nobody has taken them over; ``rows`` reads them, ``leave`` removes it and all that
    needs it.
    """

    application_id: int
    table: str
    rows: str
    leave: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EarlierFile:
    """One file with such a table, and what writes its rows into ``state.db``."""

    path: Path
    kept_in: EarlierTable
    keep: Keep


class _NotNowError(Exception):
    """An earlier file cannot be read or written for the moment."""


def take_over(store: Store, files: Sequence[EarlierFile]) -> bool:
    """Move decisions from earlier files into ``store``; at any later start this does nothing.

    Return whether the old files hold nothing more that is not safe.

    They are copied in one transaction that leaves a mark, so that of several processes one does it. Only when they
    are safe on disk do they leave the old files; until then no migration of these drops them. A file that cannot be
    used for the moment puts it off to the next start.

    Raises:
        StoreError: the store cannot be read or written.

    """
    with store.read() as connection:
        if _mark(connection) == _DONE:
            return True
    try:
        count = store.change(lambda connection: _copy(connection, files))
        if count:
            _log.info("took over %d rows of decisions and use from the cache directory", count)
        if store.path is None:
            # In memory nothing is safe, so the old files keep what they have.
            return not count
        for file in files:
            _asked(file, partial(_leave, file.kept_in), "BEGIN IMMEDIATE")
        store.change(lambda connection: _set_mark(connection, _DONE))
    except _NotNowError as reason:
        _log.warning("What was decided before is not all taken over; the next start goes on: %s", reason)
        return False
    return True


def drop_when_empty(connection: sqlite3.Connection, table: str) -> None:
    """Drop an earlier table that is there, unless it still holds something to take over: for a migration."""
    is_there = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    if is_there and not connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():  # noqa: S608 - own name
        connection.execute(f"DROP TABLE {table}")


def _mark(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT value FROM state_meta WHERE key = ?", (_MARK,)).fetchone()
    return row and row[0]


def _set_mark(connection: sqlite3.Connection, mark: str) -> None:
    connection.execute("INSERT OR REPLACE INTO state_meta VALUES (?, ?)", (_MARK, mark))


def _copy(connection: sqlite3.Connection, files: Iterable[EarlierFile]) -> int:
    if _mark(connection) is not None:
        return 0
    count = 0
    for file in files:
        rows = _asked(file, partial(_rows, file.kept_in), "BEGIN") or []
        file.keep(connection, rows)
        count += len(rows)
    _set_mark(connection, _COPIED)
    return count


def _rows(table: EarlierTable, earlier: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return earlier.execute(table.rows).fetchall()


def _leave(table: EarlierTable, earlier: sqlite3.Connection) -> None:
    for statement in table.leave:
        earlier.execute(statement)


def _asked(file: EarlierFile, ask: Callable[[sqlite3.Connection], _Answer], begin: str) -> _Answer | None:
    """Return what an earlier file answers; None where it is not there, is not ours, or has nothing to take over.

    In one transaction, begun by ``begin``: another process may be leaving it at this moment.
    Its errors are told from those of the store. Of a damaged one there is nothing to wait for.
    """
    if not file.path.is_file():
        return None
    try:
        with closing(connect_existing(file.path)) as earlier:
            earlier.execute(begin)
            is_ours = earlier.execute("PRAGMA application_id").fetchone() == (file.kept_in.application_id,)
            query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
            is_kept_there = is_ours and earlier.execute(query, (file.kept_in.table,)).fetchone()
            answer = ask(earlier) if is_kept_there else None
            earlier.execute("COMMIT")
            return answer
    except sqlite3.Error as error:
        if not is_damage(error):
            raise _NotNowError(f"{file.path}: {error}") from error
        _log.warning("%s is damaged; what was decided there and not taken over yet is lost: %s", file.path, error)
        return None
