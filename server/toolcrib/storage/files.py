"""Makes a database file and its companions private, moves them aside and removes them, one process at a time."""

import errno
import logging
import os
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolcrib.base.errors import StoreError

_ALWAYS_CHECKED_BYTES = 1 << 20
"""A smaller file is checked within a millisecond, and needs no record."""

_CHECK_EVERY_S = 86400.0


def last_check(path: Path, now: float) -> float | None:
    """Return when the file passed an integrity check, if less than a day ago and it has not changed since.

    Unchanged means written only by stores that were closed properly. Both times are in seconds since the epoch.
    """
    try:
        checked_at, noted = _note_of(path).read_text(encoding="ascii").split("\n", 1)
        is_recent = 0 <= now - float(checked_at) < _CHECK_EVERY_S
        return float(checked_at) if is_recent and noted == _state(path) else None
    except (OSError, ValueError):
        return None


def note_check(path: Path, checked_at: float) -> None:
    """Record that the file in its current state derives from one that was sound at ``checked_at``; skip small files."""
    with suppress(OSError, ValueError):  # then the next start checks it
        if path.stat().st_size < _ALWAYS_CHECKED_BYTES:
            return
        note, text = _note_of(path), f"{checked_at!r}\n{_state(path)}"
        # A start without changes writes nothing, not even this record.
        if not note.exists() or note.read_text(encoding="ascii") != text:
            note.touch(mode=0o600)
            note.write_text(text, encoding="ascii")


def forget_check(path: Path) -> None:
    """Make the next start check the file, whatever was recorded."""
    with suppress(OSError):
        _note_of(path).unlink(missing_ok=True)


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-checked")


def _state(path: Path) -> str:
    status = path.stat()
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


_PARTS = ("-wal", "-shm", "-checked", "")
"""Suffixes of the files that make up a database. A leftover log could be taken for that of a new file.

The database file itself is removed last: only then does another process create a new one.
"""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)

_log = logging.getLogger(__name__)


def private_directory(path: Path) -> None:
    """Create ``path`` with mode 0700 and a ``.gitignore`` that covers it (R35); an existing one stays as it is.

    Unless it is world-writable: then group and others lose write permission, which is logged. A folder with the sticky
    bit, such as the system's for temporary files, stays as it is, because nobody can replace another user's files
    there.

    Raises:
        OSError: it cannot be created, or is world-writable and its mode cannot be changed.

    """
    if path.is_dir():
        _close_to_others(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
        (path / ".gitignore").write_text("*\n", encoding="utf-8")


def _close_to_others(folder: Path) -> None:
    mode = folder.stat().st_mode
    if sys.platform == "win32" or not mode & stat.S_IWOTH or mode & stat.S_ISVTX:
        return
    closed = stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW)
        try:
            os.fchmod(descriptor, closed)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(errno.EPERM, "this folder is world-writable", str(folder)) from error
    _log.warning("%s was world-writable; its mode is now %o", folder, closed)


def linked_part(path: Path) -> str | None:
    """Return the name of a database file or companion that is a symbolic link; None if none is."""
    names = (path.name + suffix for suffix in _PARTS)
    return next((name for name in names if path.with_name(name).is_symlink()), None)


def make_private(path: Path, *, follow: bool) -> tuple[int, int] | None:
    """Create the file if there is none, readable by its owner only, and return its identity.

    ``follow``: it may be a symbolic link.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | (0 if follow else _NO_FOLLOW), 0o600)
    try:
        # By descriptor: another process may be moving the file aside at this moment.
        os.chmod(descriptor if os.chmod in os.supports_fd else path, 0o600)  # noqa: PTH101 - a descriptor
    finally:
        os.close(descriptor)
    return identity_of(path)


def move_aside(path: Path, identity: tuple[int, int] | None, now: float) -> Path:
    """Rename the file and its companions, unless another process has already replaced it.

    Under a lock: otherwise the file could be replaced between the check and the renaming, and the new one be moved.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    with turn_in(path.parent):
        if identity_of(path) == identity:
            for suffix in _PARTS:
                with suppress(FileNotFoundError):
                    path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    return aside


def set_aside(path: Path) -> list[Path]:
    """Return the existing files that were moved aside from ``path``, oldest first."""
    return sorted(path.parent.glob(f"{path.name}.corrupt-*Z"))


def discard(path: Path) -> None:
    """Remove a file and its companions, whatever they contain; processes that have it open keep using it.

    Raises:
        StoreError: it cannot be removed.

    """
    try:
        with turn_in(path.parent):
            for suffix in _PARTS:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be removed: {error.strerror}") from error


@contextmanager
def turn_in(folder: Path) -> Generator[None]:
    """Hold a lock on the folder itself (``flock``); Windows has no such lock, and none is taken there."""
    if sys.platform == "win32":
        yield
        return
    import fcntl  # noqa: PLC0415 - there is none on Windows

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Closing the descriptor releases the lock, even if the process is killed.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock_file(descriptor: int, *, exclusive: bool) -> bool:
    """Lock a file until it is closed; return False if another process holds a conflicting lock. Readers share it.

    The lock belongs to the open file: it ends with the process, however that ends.
    """
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - there is none elsewhere

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - there is none on Windows

            fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at this path, which changes when it is replaced."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
