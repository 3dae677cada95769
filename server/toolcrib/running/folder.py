"""The state files of running toolcribs: one per process, private, existing exactly as long as the process runs.

Knows places, modes and locks; never knows what a file says. See ADR 35.
"""

import os
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from toolcrib.config.paths import user_running_dir
from toolcrib.storage.files import identity_of, lock_file, private_directory

_APP = "toolcrib"
_LOCK, _FILE, _NEW = ".lock", ".json", ".new"
_TRIES = 5
_FILES_MAX, _BYTES_MAX = 200, 4 * 1024 * 1024
"""Maximum number of files read from one folder, and bytes of one file."""


class OwnFile:
    """The file of this process. Each write replaces the content atomically."""

    def __init__(self, lock: Path) -> None:
        self._file, self._new = lock.with_suffix(_FILE), lock.with_suffix(_NEW)

    def write(self, text: str) -> None:
        """Replace the file's content with ``text``. Blocks.

        Raises:
            OSError: it cannot be written; its content is unchanged.

        """
        self._new.touch(mode=0o600)
        self._new.write_text(text, encoding="utf-8")
        self._new.replace(self._file)

    def remove(self) -> None:
        """Delete the file."""
        for path in (self._new, self._file):
            with suppress(OSError):
                path.unlink(missing_ok=True)


@contextmanager
def own_file(environ: Mapping[str, str], pid: int) -> Generator[OwnFile | None]:
    """Yield the file of this process, and delete it in the end; None if no folder can be used. Blocks.

    Next to it is a file that this process keeps locked: however it ends, the lock is released, and any process that
    finds the file then deletes it.
    """
    with ExitStack() as stack:
        lock = next((found for folder in running_folders(environ) if (found := _locked_file(stack, folder, pid))), None)
        if lock is None:
            yield None
            return
        stack.callback(_unlink, lock)  # on Windows not while it is open, so the next sweep removes it there
        own = OwnFile(lock)
        stack.callback(own.remove)
        yield own


def living_texts(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the files' contents of running processes; those of ended processes are deleted. Blocks."""
    for folder in running_folders(environ):
        if not _is_private(folder):
            continue
        for lock in sorted(folder.glob(f"*{_LOCK}"))[:_FILES_MAX]:
            if _is_abandoned(lock):
                OwnFile(lock).remove()
                _unlink(lock)
                continue
            with suppress(OSError, UnicodeDecodeError), lock.with_suffix(_FILE).open(encoding="utf-8") as file:
                yield file.read(_BYTES_MAX)


def running_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders that may have files, the preferred one first.

    A client may start toolcrib with an almost empty environment, while a person's shell has a complete one: so
    systemd's folder for each user is included even if its variable is not set.
    """
    runtime = environ.get("XDG_RUNTIME_DIR") or (f"/run/user/{os.getuid()}" if sys.platform == "linux" else "")
    usual = [Path(runtime, _APP)] if Path(runtime).is_absolute() and Path(runtime).is_dir() else []
    return [*usual, user_running_dir(environ)]


def _locked_file(stack: ExitStack, folder: Path, pid: int) -> Path | None:
    """Create a file in ``folder`` that is locked until the stack is closed, and return it; None on failure."""
    with suppress(OSError):
        private_directory(folder)
        if not _is_private(folder):
            return None
        for _ in range(_TRIES):
            descriptor, name = tempfile.mkstemp(_LOCK, f"{pid}-", folder)
            lock = Path(name)
            # Before it was locked, another process may have deleted it as abandoned.
            if lock_file(descriptor, exclusive=True) and identity_of(lock) == _identity(descriptor):
                stack.callback(os.close, descriptor)
                return lock
            os.close(descriptor)
            _unlink(lock)
    return None


def _is_private(folder: Path) -> bool:
    """Return whether a folder is ours and inaccessible to others."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    if sys.platform == "win32":
        return folder.is_dir()
    return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _is_abandoned(lock: Path) -> bool:
    """Return whether the process that locked a file has ended."""
    try:
        descriptor = os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return lock_file(descriptor, exclusive=False)
    finally:
        os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
