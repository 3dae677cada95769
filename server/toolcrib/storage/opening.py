"""Opens a database file: checks it, moves a damaged or foreign one aside, and migrates an older one.

If no file can be written, a copy in memory is used instead.
"""

import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from toolcrib.storage.files import (
    identity_of,
    last_check,
    linked_part,
    make_private,
    move_aside,
    note_check,
    private_directory,
)

Migration = Callable[[sqlite3.Connection], None]
"""One forward migration of a schema, run inside a transaction: it must not commit or use ``executescript``."""


def statements(*every: str) -> Migration:
    """Return the migration that runs these statements in order."""

    def migrate(connection: sqlite3.Connection) -> None:
        for statement in every:
            connection.execute(statement)

    return migrate


_BUSY_TIMEOUT_S = 5.0
_WAL_ATTEMPTS = 100
_OPEN_ATTEMPTS = 3
_UNWRITABLE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)
_FTS_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%'"


@dataclass(frozen=True, slots=True)
class Schema:
    """The format of one of our files: its application id, and the migrations from an empty file to the current tables.

    The number of migrations is the version of the schema (``PRAGMA user_version``, R231). ``application_id`` is a
    positive 32-bit number. ``durable``: writes must survive a power failure, because the data cannot be rebuilt.
    """

    application_id: int
    migrations: tuple[Migration, ...]
    durable: bool = False

    @property
    def version(self) -> int:
        """Return the version that this code writes."""
        return len(self.migrations)


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection for writing, the file behind it (None: memory), and why that is not the original file.

    ``checked_at`` is when the file last passed an integrity check, in seconds since the epoch.
    """

    connection: sqlite3.Connection
    path: Path | None
    reason: str | None
    checked_at: float


class _UnusableFileError(Exception):
    """The file is damaged or not ours."""


class _NewerFileError(Exception):
    """The file was written by a newer version of this program."""


def open_file(path: Path, schema: Schema, now: float, *, fts: bool) -> Opened:
    """Open ``path``, or a replacement if it cannot be used."""
    reason, asked = None, path
    try:
        private_directory(path.parent)
        for attempt in range(1, _OPEN_ATTEMPTS + 1):
            if not schema.durable and (linked := linked_part(path)):
                # The link's target is not ours. The decisions file may be a link: people keep such files elsewhere.
                aside = move_aside(path, identity_of(path), now)
                reason = f"{linked} was a symbolic link; moved to {aside.name}"
            identity = make_private(path, follow=schema.durable)
            checked_at = last_check(path, now)
            try:
                connection = _connect(path, schema, fts=fts, check=checked_at is None)
                if checked_at is None:
                    note_check(path, now)
                return Opened(connection, path, reason, now if checked_at is None else checked_at)
            except _NewerFileError as fault:
                path = path.with_name(f"{path.stem}.v{schema.version}{path.suffix}")
                reason = f"{fault}; {path.name} is used instead"
            except _UnusableFileError as fault:
                aside = move_aside(path, identity, now)
                reason = f"{fault}; moved to {aside.name}"
            except sqlite3.OperationalError as error:
                # A process that still has the moved file open would take the new file's journal for its own.
                if _primary_code(error) != sqlite3.SQLITE_IOERR or attempt == _OPEN_ATTEMPTS:
                    raise
    except (OSError, sqlite3.Error) as error:
        reason = f"{path.name} cannot be used: {error}"
    return open_memory(schema, now, reason or "", asked)


def open_another(damaged: Path, identity: tuple[int, int] | None, schema: Schema, now: float, *, fts: bool) -> Opened:
    """Move aside a file that turned out to be damaged in use, and open a new one in its place.

    If another process has already done so, its file is opened. This process must not have the file open.
    """
    try:
        aside = move_aside(damaged, identity, now)
    except OSError as error:
        return open_memory(schema, now, f"{damaged.name} is damaged and cannot be moved: {error}")
    opened = open_file(damaged, schema, now, fts=fts)
    return replace(opened, reason=opened.reason or f"the file was damaged; moved to {aside.name}")


def open_memory(schema: Schema, now: float, reason: str | None = None, file: Path | None = None) -> Opened:
    """Open a database in memory with the contents of ``file``, as far as these can be read.

    ``reason`` is why there is no file; None: none is wanted.
    """
    with ExitStack() as stack:
        connection = (file and _copy_in_memory(file, schema)) or _plain_connection(":memory:")
        stack.callback(connection.close)
        connection.execute("PRAGMA trusted_schema = ON")
        _migrate(connection, schema)
        stack.pop_all()
    return Opened(connection, None, reason if reason is None else f"{reason}; it is kept in memory for now", now)


def _copy_in_memory(file: Path, schema: Schema) -> sqlite3.Connection | None:
    """Return an in-memory copy of one of our files; None if it cannot be read, is damaged or not ours."""
    for how in ("mode=ro", "mode=ro&immutable=1"):  # the second for where not even the log's index can be created
        copy = _plain_connection(":memory:")
        with suppress(sqlite3.Error, _UnusableFileError, _NewerFileError):
            with closing(_plain_connection(f"{file.absolute().as_uri()}?{how}", uri=True)) as source:
                if _inspect(source, schema):
                    source.backup(copy, progress=_refuse_to_wait)
            _check(copy, fts=False)
            return copy
        copy.close()
    return None


def _refuse_to_wait(status: int, _remaining: int, _total: int) -> None:
    """Abort a copy whose file another process has locked exclusively: it would wait forever."""
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise sqlite3.OperationalError("the file is locked")


def _connect(path: Path, schema: Schema, *, fts: bool, check: bool) -> sqlite3.Connection:
    """Open the file for writing, checked and migrated; without ``check`` only its header is validated."""
    with ExitStack() as stack:
        connection = _plain_connection(str(path))
        stack.callback(connection.close)
        try:
            if _inspect(connection, schema) and check:
                _check(connection, fts=fts)
        except UnicodeDecodeError:  # in SQLite's message, which quotes the file
            raise _UnusableFileError("the file was damaged: its schema is no text") from None
        except sqlite3.DatabaseError as error:
            # A flipped bit in the schema's text is not damage to SQLite, but a table that it cannot parse.
            if not is_damage(error) and _primary_code(error) != sqlite3.SQLITE_ERROR:
                raise
            raise _UnusableFileError(f"the file was damaged: {error}") from None
        # An index can be rebuilt, so losing its last commits in a power failure is cheaper than syncing the disk.
        connection.execute(f"PRAGMA synchronous = {'FULL' if schema.durable else 'NORMAL'}")
        _use_wal(connection)
        # See Store._checkpoint.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        # Older SQLite does not treat FTS5 as safe in triggers. No function or extension that a schema could abuse is
        # ever loaded into this connection.
        connection.execute("PRAGMA trusted_schema = ON")
        _migrate(connection, schema)
        stack.pop_all()
    return connection


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot write; the file must be open for writing already."""
    connection = _plain_connection(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the log is opened only here
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_existing(path: Path) -> sqlite3.Connection:
    """Open a connection to an existing file, without checks or migrations.

    Raises:
        sqlite3.Error: there is no such file, or it cannot be opened.

    """
    return _plain_connection(f"{path.absolute().as_uri()}?mode=rw", uri=True)


def _plain_connection(target: str, *, uri: bool = False) -> sqlite3.Connection:
    # Transactions are controlled by our own statements, not by Python's module; our own locks separate threads.
    connection = sqlite3.connect(
        target, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=uri
    )
    # We write valid UTF-8 only: anything else is damage, and is detected when it is parsed.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    with ExitStack() as stack:
        stack.callback(connection.close)
        # SQLite recommends both settings for files that others may have written (sqlite.org/security.html).
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        stack.pop_all()
    return connection


def _inspect(connection: sqlite3.Connection, schema: Schema) -> bool:
    """Reject a file that is not ours or too new, and return whether it is more than an empty file."""
    connection.execute("BEGIN")  # a consistent state: another process may be creating the tables at this moment
    application_id, version, tables = (
        int(connection.execute(query).fetchone()[0])
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    connection.execute("COMMIT")
    if application_id != schema.application_id:
        if application_id or tables:
            raise _UnusableFileError("the file was not one of toolcrib's")
        return False
    if version > schema.version:
        raise _NewerFileError(f"the file has version {version}, this toolcrib writes {schema.version}")
    return True


def _check(connection: sqlite3.Connection, *, fts: bool) -> None:
    """Reject a damaged file. Takes about a millisecond per megabyte."""
    finding = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    if finding != "ok":
        raise _UnusableFileError(f"the file was damaged: {finding}")
    for table in fts_tables(connection) if fts else ():
        check_fts(connection, table, against_content=False)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; SQLite fails at once if another process is just doing the same."""
    attempts = _WAL_ATTEMPTS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            attempts -= 1
            if _primary_code(error) != sqlite3.SQLITE_BUSY or not attempts:
                raise
            time.sleep(_BUSY_TIMEOUT_S / _WAL_ATTEMPTS)
        else:
            return


def _migrate(connection: sqlite3.Connection, schema: Schema) -> None:
    if _user_version(connection) == schema.version:
        return
    with transaction(connection):
        for migration in schema.migrations[_user_version(connection) :]:  # read again: others migrate too
            migration(connection)
        connection.execute(f"PRAGMA application_id = {schema.application_id:d}")
        connection.execute(f"PRAGMA user_version = {schema.version:d}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Open a write transaction: committed at the end, rolled back by an exception."""
    # IMMEDIATE: a transaction that reads before it writes fails if another process writes in between.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def sqlite_version() -> str:
    """Return the version of SQLite that Python uses."""
    return sqlite3.sqlite_version


def has_fts5() -> bool:
    """Return whether this SQLite has full-text search, by trying it (R32)."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.fts5_probe USING fts5(x)")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


def fts_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the file's full-text tables."""
    return [str(row[0]) for row in connection.execute(_FTS_TABLES)]


def check_fts(connection: sqlite3.Connection, table: str, *, against_content: bool) -> None:
    """Raise sqlite3.DatabaseError if a full-text table is damaged or, if requested, inconsistent with its content."""
    command = f'INSERT INTO "{table}"("{table}", rank) VALUES (\'integrity-check\', ?)'  # noqa: S608 - own names
    connection.execute(command, (int(against_content),))


def is_damage(error: Exception) -> bool:
    """Return whether this error means that the file is damaged."""
    return isinstance(error, sqlite3.Error) and _primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_unwritable(error: Exception) -> bool:
    """Return whether this error means that the disk is full, failing or not writable."""
    return isinstance(error, sqlite3.Error) and _primary_code(error) in _UNWRITABLE


def _primary_code(error: sqlite3.Error) -> int:
    """Return the SQLite result code; errors raised by Python itself (a closed connection) have none: -1."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    # The primary result code is the lowest byte of an extended one.
    return -1 if code is None else code & 0xFF
