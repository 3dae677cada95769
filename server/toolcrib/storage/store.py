"""An open database file: one connection writes, as many as needed read, from any thread."""

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from threading import Lock, RLock
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from toolcrib.base.errors import StoreError
from toolcrib.storage.files import forget_check, identity_of, note_check, turn_in
from toolcrib.storage.opening import (
    Opened,
    Schema,
    check_fts,
    connect_read_only,
    fts_tables,
    has_fts5,
    is_damage,
    is_unwritable,
    open_another,
    open_file,
    open_memory,
    transaction,
)

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A known fault: its source, the first version without it, and what toolcrib does about it.

    ``since`` is the first affected version. ``backports`` are the first fixed versions of earlier series, identified by
    their first two numbers.
    """

    name: str
    source: str
    since: Version
    fixed: Version
    remedy: str
    backports: tuple[Version, ...] = ()

    def is_in(self, version: Version) -> bool:
        """Return whether a version is affected."""
        if not self.since <= version < self.fixed:
            return False
        return not any(version[:2] == backport[:2] and version >= backport for backport in self.backports)


FAULTS = (
    Fault(
        name="WAL-reset",
        # 3.7.0 to 3.51.2; fixed in 3.51.3, 3.50.7 and 3.44.6. 3.52.0 was withdrawn, and had the fix.
        source="https://sqlite.org/wal.html#walresetbug",
        since=(3, 7, 0),
        fixed=(3, 51, 3),
        backports=((3, 44, 6), (3, 50, 7)),
        remedy="no checkpoint of ours runs beside a commit",
    ),
    Fault(
        name="FTS5 memory (CVE-2026-11822, CVE-2026-11824)",
        # A crafted file overflows the heap in a MATCH. FTS5 is part of SQLite since 3.9.0.
        source="https://sqlite.org/releaselog/3_53_2.html",
        since=(3, 9, 0),
        fixed=(3, 53, 2),
        remedy="full text is read from files that this user alone can write, checked when they are opened",
    ),
)


def faults_of(version: str) -> list[Fault]:
    """Return the faults that may affect a version of SQLite (``3.40.1``)."""
    numbers = tuple(int(part) for part in version.split("."))
    return [fault for fault in FAULTS if fault.is_in(numbers)]


_COMPACT = json.JSONEncoder(separators=(",", ":"))


def to_json(value: object) -> str:
    """Return compact JSON in ASCII, so that it can contain lone surrogates, which SQLite's text cannot."""
    return _COMPACT.encode(value)


def storable(text: str) -> str:
    """Return ``text`` with ``?`` for each lone surrogate, which no column of SQLite can store."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@contextmanager
def damaged_rows(of: str = "tools") -> Generator[None]:
    """Convert errors caused by a row of an index that has values we never write into our error."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        public = f"The index of {of} is damaged; `toolcrib index clear` rebuilds it."
        raise DamagedRows(public, detail=f"{type(error).__name__}: {error}") from error


class DamagedRows(StoreError):
    """Rows have values that we never write: SQLite checks the structure of a file, not its contents."""


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


_CHECKPOINT_BYTES = 4 * 1024 * 1024
"""About the size at which SQLite's automatic checkpoint runs, 1,000 pages."""
_TRY_FILE_EVERY_S = 60.0
_ATTEMPTS = 4
"""One change can meet damage, damage again, and an unwritable disk; after that only memory is left."""

_IDLE_MAX = 2
"""Idle connections kept for later readers, each with up to 2 MB of pages; more come from bursts only.

To open another takes a third of a millisecond.
"""

_OWED_MAX = 1000
"""Maximum number of changes remembered while the disk is not writable."""

_MEMORY = Path(":memory:")
"""What stands for the file where none is wanted."""

_Answer = TypeVar("_Answer")


class StoreReplaced(StoreError):
    """The write is lost: a new file, or memory, has just replaced the file in use."""


class Store:
    """An open database file, safe to use from several threads; other processes may use the file too.

    A file that is damaged or not ours is moved aside (``NAME.corrupt-TIME``) and created again; one of a newer version
    is left alone and ``NAME.vN.db`` beside it is used; if no file can be used, the store is in memory (``path`` is then
    None) with what could be read of the file. ``fts`` tells whether FTS5 is available and wanted (R32).

    Some damage, and an unwritable disk, shows only on a write: then the same is done in use. If a file is damaged a
    second time, memory replaces it permanently. After an unwritable disk, a later write returns to the file.
    ``generation`` increases with each replacement; ``rebuilt`` says why the store in use is not the original file.
    ``on_replaced`` is called with that reason too, from the thread in which it happens; for a disk only once.

    Without a ``path`` the store is in memory from the beginning, and reads wait for a writer.

    Raises:
        StoreError: not even a database in memory can be created.

    """

    def __init__(
        self,
        path: Path | None,
        schema: Schema,
        *,
        fts: Literal["auto", "off"] = "auto",
        clock: Callable[[], float] = time.time,
        on_replaced: Callable[[str], None] | None = None,
    ) -> None:
        self._preferred, self._schema, self._clock, self._on_replaced = path or _MEMORY, schema, clock, on_replaced
        # Reentrant, because a step that runs while a file is replaced writes under the same lock.
        self._lock, self._pool, self._asking = RLock(), Lock(), Lock()
        self._idle: list[sqlite3.Connection] = []
        self._steps: list[Callable[[Store], None]] = []
        self._owed: dict[str, Callable[[sqlite3.Connection], object]] = {}
        # A store that was to be in memory goes back to no file, as one whose file was damaged twice.
        self._has_reported_memory, self._was_damaged, self._closed = False, path is None, False
        self._data_version = 0
        self.generation = -1
        with _store_errors(self._preferred.name):
            self.fts = fts == "auto" and has_fts5()
            now = clock()
            self._switch_to(open_file(path, schema, now, fts=self.fts) if path else open_memory(schema, now, file=None))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def prepare(self, step: "Callable[[Store], None]") -> None:
        """Run ``step`` now, and again with every replacement of the file in use."""
        self._steps.append(step)
        with suppress(StoreReplaced):  # then the step has been run
            step(self)

    def change(self, work: Callable[[sqlite3.Connection], _Answer], *, owed: str | None = None) -> _Answer:
        """Return the result of ``work``, run in a write transaction; it is run again if the file is replaced meanwhile.

        ``owed`` names a change that must not be lost: while the disk is not writable, the last change of each name is
        remembered, and applied to the file once that can be written again.

        Raises:
            StoreError: any SQLite error except damage and an unwritable disk.

        """
        with self._lock:
            answer = self._changed(work)
            if owed is not None and self._in_memory_since is not None:
                # Moved to the end, since changes are applied in the order in which they were made.
                self._owed.pop(owed, None)
                if len(self._owed) < _OWED_MAX:
                    self._owed[owed] = work
            return answer

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any], *, owed: str | None = None) -> int:
        """Run one statement as :meth:`change` does; return how many rows it has changed.

        Raises:
            StoreError: see :meth:`change`.

        """
        return self.change(lambda connection: connection.execute(statement, values).rowcount, owed=owed)

    def _changed(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        for _ in range(_ATTEMPTS - 1):
            with suppress(StoreReplaced), self.write() as connection:
                return work(connection)
        with self.write() as connection:
            return work(connection)

    @contextmanager
    def write(self) -> Generator[sqlite3.Connection]:
        """Open a write transaction: committed at the end, rolled back by an exception.

        Writers wait for each other, up to 5 seconds for those of other processes.

        Raises:
            StoreReplaced: the file is damaged or not writable; the write has to be repeated.
            StoreError: any other SQLite error.

        """
        with _store_errors(self._preferred.name), self._lock:
            if self._in_memory_since is not None and not 0 <= self._clock() - self._in_memory_since < _TRY_FILE_EVERY_S:
                self._return_to_file()
            connection = self._writer
            try:
                with transaction(connection):
                    yield connection
            except sqlite3.Error as error:
                if self._is_replaced(error):
                    raise _store_error(StoreReplaced, self._preferred.name, error) from error
                raise
            self._checkpoint()

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """Open a read transaction: all queries inside see one state. Must not be nested inside :meth:`write`.

        Never waits for a writer, unless the store is in memory.

        Raises:
            StoreError: any SQLite error.

        """
        with self._distrusting(), self._reader() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def data_version(self) -> int:
        """Return a number that changes when another process or store has written, or the file was replaced.

        Waits for no writer: while this store is writing, the previous number is returned.
        """
        # One after the other: a second one that asks at once would take the first for a writer, and miss a change.
        with self._distrusting(), self._asking:
            if self._lock.acquire(blocking=False):
                try:
                    self._data_version = int(self._writer.execute("PRAGMA data_version").fetchone()[0])
                finally:
                    self._lock.release()
        # The counter of a new file restarts, so the generation is part of the number.
        return (self.generation << 32) + self._data_version

    def check(self) -> list[str]:
        """Return the defects that SQLite finds in the file and its full-text tables; empty if there are none (R43)."""
        with self.write() as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            problems = [text for text in found if text != "ok"]
            for table in fts_tables(connection) if self.fts else ():
                try:
                    check_fts(connection, table, against_content=True)
                except sqlite3.DatabaseError as error:
                    problems.append(f"{table}: {error}")
        if problems:
            self._distrust_file()
        return problems

    def set_aside(self, generation: int, why: str) -> None:
        """Move the file of this ``generation`` aside, because of damaged rows, and go on with a new one.

        Does nothing if another thread has done so already.
        """
        with _store_errors(self._preferred.name), self._lock:
            if generation == self.generation and not self._closed:
                self._close_connections()
                self._replace(self._another(why))

    def close(self) -> None:
        """Close all connections; idempotent."""
        with self._lock:
            was_closed, self._closed = self._closed, True
            self._close_connections()
        if self.path is not None and not was_closed and identity_of(self.path) == self._identity:
            note_check(self.path, self._checked_at)

    # -- what takes the file's place -------------------------------------------------------------

    def _switch_to(self, opened: Opened) -> None:
        """Switch to what was opened."""
        with self._pool:
            # A connection in use belongs to the previous file: on its return it is recognized by its generation.
            self.generation += 1
            self._writer, self.path, self.rebuilt = opened.connection, opened.path, opened.reason
            self._checked_at = opened.checked_at
            self._identity = identity_of(opened.path) if opened.path else None
        is_for_good = opened.path is not None or self._was_damaged
        self._in_memory_since = None if is_for_good else self._clock()
        if opened.reason and self._on_replaced and not (opened.path is None and self._has_reported_memory):
            self._has_reported_memory = self._has_reported_memory or opened.path is None
            self._on_replaced(opened.reason)

    def _replace(self, opened: Opened) -> None:
        """Switch from the current file to what was opened. The lock must be held."""
        self._switch_to(opened)
        with suppress(StoreReplaced):  # then the steps have been run with its own replacement
            for step in self._steps:
                step(self)

    def _is_replaced(self, error: sqlite3.Error) -> bool:
        """Return whether the file became unusable and has been replaced. The lock must be held."""
        if self.path is None or self._closed:
            return False
        path, now = self.path, self._clock()
        if is_damage(error):
            self._close_connections()
            opened = self._another("")
        elif is_unwritable(error):
            self._close_connections()
            opened = open_memory(self._schema, now, f"{path.name} cannot be written: {error}", path)
        else:
            return False
        self._replace(opened)
        return True

    def _another(self, why: str) -> Opened:
        """Open what takes the place of a damaged file: a new one, the second time memory. The lock must be held."""
        path, now, was_damaged = self.path, self._clock(), self._was_damaged
        self._was_damaged = True
        if path is None or was_damaged:
            return open_memory(self._schema, now, f"{self._preferred.name} was damaged once more")
        opened = open_another(path, self._identity, self._schema, now, fts=self.fts)
        return replace(opened, reason=f"{opened.reason} ({why})") if why and opened.reason else opened

    def _return_to_file(self) -> None:
        """Return to the file, if it is writable again, and apply all changes it is owed. The lock must be held."""
        opened = open_file(self._preferred, self._schema, self._clock(), fts=self.fts)
        if opened.path is not None and _all_succeed(opened.connection, self._owed.values()):
            self._owed.clear()
            self._close_connections()
            self._replace(opened)
        else:
            opened.connection.close()
            self._in_memory_since = self._clock()

    @contextmanager
    def _distrusting(self) -> Generator[None]:
        """Make the next start check the file if it turns out to be damaged."""
        with _store_errors(self._preferred.name):
            try:
                yield
            except sqlite3.Error as error:
                if is_damage(error):
                    self._distrust_file()
                raise

    def _distrust_file(self) -> None:
        """Make the next start check the file, however recently it passed a check."""
        self._checked_at = 0.0
        if self.path is not None:
            forget_check(self.path)

    # -- connections -----------------------------------------------------------------------------

    @contextmanager
    def _reader(self) -> Generator[sqlite3.Connection]:
        """Lend a connection for reading: an idle one, a new one, or the writer if no file can be opened."""
        connection, generation = self._borrow()
        if connection is None:
            with self._lock:
                yield self._writer
            return
        try:
            yield connection
        finally:
            self._give_back(connection, generation)

    def _borrow(self) -> tuple[sqlite3.Connection | None, int]:
        with self._pool:
            path, identity, generation = self.path, self._identity, self.generation
            if self._closed or path is None:
                return None, generation
            if self._idle:
                return self._idle.pop(), generation
        # A file deleted or replaced under us has other rows; the writer still holds the one that we opened.
        if identity_of(path) != identity:
            return None, generation
        connection = connect_read_only(path)
        if identity_of(path) == identity:  # still the same after opening
            return connection, generation
        connection.close()
        return None, generation

    def _give_back(self, connection: sqlite3.Connection, generation: int) -> None:
        with self._pool:
            if not self._closed and generation == self.generation and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _close_connections(self) -> None:
        with self._pool:
            readers, self._idle = self._idle, []
        for connection in (*readers, self._writer):
            connection.close()

    def _checkpoint(self) -> None:
        """Move a grown write-ahead log into the file.

        SQLite up to 3.51.2 can corrupt a file if a checkpoint begins right after another one was completed, and
        coincides with a commit of a third connection that restarts the log (sqlite.org/wal.html#walresetbug;
        :mod:`toolcrib.storage.store` has the versions). This kind of checkpoint takes the write lock, so that no commit
        can coincide with it. It proceeds without the lock only if another process keeps that for five seconds;
        therefore checkpoints are also serialized, and the second one finds an empty log and leaves it.
        """
        if self.path is None:
            return
        with suppress(OSError, sqlite3.Error):  # the commit stands; the next one tries again
            log = self.path.with_name(f"{self.path.name}-wal")
            if log.stat().st_size > _CHECKPOINT_BYTES:
                with turn_in(self.path.parent):
                    if log.stat().st_size > _CHECKPOINT_BYTES:
                        self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _all_succeed(connection: sqlite3.Connection, works: Iterable[Callable[[sqlite3.Connection], object]]) -> bool:
    """Return whether all of these functions succeeded, in one transaction."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for work in works:
            work(connection)
        connection.execute("COMMIT")
    except (sqlite3.Error, StoreError):
        return False
    return True


@contextmanager
def _store_errors(name: str) -> Generator[None]:
    """Convert SQLite's errors, and those about text that it cannot store or return, into ours."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        raise _store_error(StoreError, name, error) from error


def _store_error(kind: type[StoreError], name: str, error: Exception) -> StoreError:
    public = f"The file {name} cannot be used at the moment; if this persists, restart toolcrib."
    return kind(public, detail=f"{type(error).__name__}: {error}")
