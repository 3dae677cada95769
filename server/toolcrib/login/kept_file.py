"""A small private file that several processes share: replaced as a whole, by one of them at a time.

Knows bytes, modes and locks; never knows what the bytes mean. See ADR 41.
"""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from toolcrib.storage.files import lock_file, private_directory

BYTES_MAX = 256 * 1024
"""Maximum size of one file: many times what any provider issues."""

_ROOM = 64 * 1024
"""Number of bytes reserved on the disk before a request that cannot be repeated."""
_NO_FOLLOW, _NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)

Stamp = tuple[int, int, int]
"""Identifies the content of a file: inode, time and size."""


class KeptFile:
    """A file with a lock and a draft of its next content beside it. All of it blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._draft, self._lock = path.with_suffix(".new"), path.with_suffix(".lock")

    def stamp(self) -> Stamp | None:
        """Return the stamp of the current content; None if there is no file."""
        try:
            status = self.path.lstat()
        except OSError:
            return None
        return _stamp(status)

    def read(self) -> tuple[bytes, Stamp] | None:
        """Return the content and its stamp; None if there is no file. A file readable by others is made private first.

        Raises:
            OSError: it cannot be read, is not a file of this person, or is too large.

        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _is_ours(status):
                raise OSError(None, "you do not own it")
            if sys.platform != "win32" and status.st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
            data = file.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise OSError(None, "it is too large")
        return data, _stamp(status)

    def write(self, data: bytes) -> Stamp:
        """Replace the content by ``data``. It is durable when this returns; until then the old content remains.

        The caller must hold the lock, because there is a single draft.

        Raises:
            OSError: it cannot be written.

        """
        if len(data) > BYTES_MAX:
            raise OSError(None, "it is too large to store")
        descriptor = self._open_draft()
        try:
            _write_all(descriptor, data)
            os.ftruncate(descriptor, len(data))  # after writing, so that the reserved blocks are used
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._draft.replace(self.path)
        _sync_folder(self.path.parent)
        stamp = self.stamp()
        assert stamp is not None
        return stamp

    def take_room(self) -> None:
        """Reserve disk space for the next content, so that a full disk is detected in time.

        Raises:
            OSError: there is no room, or nothing can be written here.

        """
        descriptor = self._open_draft()
        try:
            _write_all(descriptor, bytes(_ROOM))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self) -> bool:
        """Delete the file, and return whether there was one. The lock stays: another process may wait for it.

        Raises:
            OSError: it cannot be deleted.

        """
        was_there = self.stamp() is not None
        for path in (self._draft, self.path):
            path.unlink(missing_ok=True)
        if was_there:
            _sync_folder(self.path.parent)
        return was_there

    def discard_draft(self) -> None:
        """Release the reserved space."""
        with suppress(OSError):
            self._draft.unlink(missing_ok=True)

    def lock(self) -> int | None:
        """Return a descriptor that holds the lock until it is closed; None if another process holds it.

        Raises:
            OSError: locking is not possible here.

        """
        self._make_folder()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
        if lock_file(descriptor, exclusive=True):
            return descriptor
        os.close(descriptor)
        return None

    def _make_folder(self) -> None:
        folder = self.path.parent
        private_directory(folder.parent)
        private_directory(folder)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or not _is_ours(status):
            raise OSError(None, f"{folder} is not owned by you")
        if sys.platform != "win32" and status.st_mode & 0o077:
            folder.chmod(0o700)

    def _open_draft(self) -> int:
        return os.open(self._draft, os.O_WRONLY | os.O_CREAT | _NO_FOLLOW, 0o600)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _is_ours(status: os.stat_result) -> bool:
    return sys.platform == "win32" or status.st_uid == os.geteuid()


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _sync_folder(folder: Path) -> None:
    """Sync the folder to disk; systems without this sync on renaming."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
