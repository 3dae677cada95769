"""An open database file: written by one connection, read by as many as needed, from any thread.

Knows transactions, connections and locks; never knows which tables a schema makes or what stands in them.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Literal, Self

from toolcrib.errors import StoreError
from toolcrib.store.opening import (
    Schema,
    check_fts,
    connect_read_only,
    fts_tables,
    has_fts5,
    identity_of,
    is_damage,
    open_file,
)
from toolcrib.store.soundness import forget_check, note_check

_CHECKPOINT_BYTES = 4 * 1024 * 1024


class Store:
    """An open database file, safe to use from several threads; other processes may use the file too.

    A file that is damaged or not ours is moved aside (``NAME.corrupt-TIME``) and made anew; one of a newer
    version is left alone and ``NAME.vN.db`` beside it is used; where no file can be used, the store lives in
    memory (``path`` is then None). ``rebuilt`` says in each of these cases why. ``fts`` tells whether FTS5
    is there and wanted (R32).

    Raises:
        StoreError: not even a database in memory can be made.

    """

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        fts: Literal["auto", "off"] = "auto",
        clock: Callable[[], float] = time.time,
    ) -> None:
        with _store_errors(path.name):
            self.fts = fts == "auto" and has_fts5()
            opened = open_file(path, schema, clock(), fts=self.fts)
        self.path = opened.path
        self.rebuilt = opened.reason
        self._writer = opened.connection
        self._checked_at = opened.checked_at
        self._name = path.name
        self._identity = identity_of(opened.path) if opened.path else None
        self._lock = RLock()
        self._idle: list[sqlite3.Connection] = []
        self._data_version = 0
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def write(self) -> Generator[sqlite3.Connection]:
        """Open a write transaction: committed at the end, rolled back by an exception.

        Writers wait for each other, up to 5 seconds for those of other processes.

        Raises:
            StoreError: anything SQLite complains about.

        """
        with self._errors(), self._lock:
            connection = self._writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            self._checkpoint()

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """Open a read transaction: all queries inside see one state. Not to be opened inside :meth:`write`.

        Raises:
            StoreError: anything SQLite complains about.

        """
        with self._errors(), self._reader() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def data_version(self) -> int:
        """Return a number that changes once another process, or another store, has written to the file.

        Never waits: while this store is writing it is the number of before.
        """
        with self._errors():
            if self._lock.acquire(blocking=False):
                try:
                    self._data_version = int(self._writer.execute("PRAGMA data_version").fetchone()[0])
                finally:
                    self._lock.release()
        return self._data_version

    def check(self) -> list[str]:
        """Return what SQLite finds wrong with the file and its full-text tables; empty if all is well (R43)."""
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

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        with self._lock:
            was_closed, self._closed = self._closed, True
            readers, self._idle = self._idle, []
            for connection in (*readers, self._writer):
                connection.close()
        if self.path is not None and not was_closed and identity_of(self.path) == self._identity:
            note_check(self.path, self._checked_at)

    @contextmanager
    def _errors(self) -> Generator[None]:
        with _store_errors(self._name):
            try:
                yield
            except sqlite3.Error as error:
                if is_damage(error):
                    self._distrust_file()
                raise

    def _distrust_file(self) -> None:
        """Have the next start check the file, however short ago it was whole."""
        self._checked_at = 0.0
        if self.path is not None:
            forget_check(self.path)

    @contextmanager
    def _reader(self) -> Generator[sqlite3.Connection]:
        """Lend a connection for reading: an idle one, a new one, or the writer where no file can be opened."""
        connection = self._borrow()
        if connection is None:
            with self._lock:
                yield self._writer
            return
        try:
            yield connection
        finally:
            self._give_back(connection)

    def _borrow(self) -> sqlite3.Connection | None:
        with self._lock:
            if self._closed or self.path is None:
                return None
            if self._idle:
                return self._idle.pop()
        # A file deleted or replaced under us has other rows; the writer still holds the one that we opened.
        return connect_read_only(self.path) if identity_of(self.path) == self._identity else None

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _checkpoint(self) -> None:
        """Move a grown write-ahead log into the file.

        SQLite before 3.51.3 can corrupt a file when an automatic checkpoint meets a commit of another
        connection (sqlite.org/wal.html#walresetbug). This kind holds the write lock, so they cannot meet.
        """
        if self.path is None:
            return
        with suppress(OSError, sqlite3.Error):  # the commit stands; the next one tries again
            if os.stat(f"{self.path}-wal").st_size > _CHECKPOINT_BYTES:  # noqa: PTH116 - not a Path
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def _store_errors(name: str) -> Generator[None]:
    """Turn SQLite's errors, and those about text that it cannot hold or give back, into ours."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        public = f"The index {name} cannot be used just now; if this stays, restart toolcrib."
        raise StoreError(public, detail=f"{type(error).__name__}: {error}") from error
