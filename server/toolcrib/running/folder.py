"""The files of running toolcribs: one a process, private, there for exactly as long as the process runs.

Knows places, modes and locks; never knows what a file says. See ADR 35.
"""

import os
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from toolcrib.config.paths import user_running_dir
from toolcrib.store.files import identity_of, lock_file, private_directory

_APP = "toolcrib"
_LOCK, _FILE, _NEW = ".lock", ".json", ".new"
_TRIES = 5
_FILES_MAX, _BYTES_MAX = 200, 4 * 1024 * 1024
"""Files that are read of one folder, and bytes of one file."""


class OwnFile:
    """The file of this process. Each content takes the place of the one before as a whole."""

    def __init__(self, lock: Path) -> None:
        self._file, self._new = lock.with_suffix(_FILE), lock.with_suffix(_NEW)

    def write(self, text: str) -> None:
        """Have the file say ``text``. Blocks.

        Raises:
            OSError: it cannot be written; it says what it said before.

        """
        self._new.touch(mode=0o600)
        self._new.write_text(text, encoding="utf-8")
        self._new.replace(self._file)

    def remove(self) -> None:
        """Take the file away."""
        for path in (self._new, self._file):
            with suppress(OSError):
                path.unlink(missing_ok=True)


@contextmanager
def own_file(environ: Mapping[str, str], pid: int) -> Generator[OwnFile | None]:
    """Give the file of this process, and take it away in the end; None where no folder can be used. Blocks.

    Beside it is a file that this process keeps locked: when it ends, however it ends, the lock is gone, and whoever
    meets the file then removes it.
    """
    with ExitStack() as stack:
        lock = next((found for folder in running_folders(environ) if (found := _locked_file(stack, folder, pid))), None)
        if lock is None:
            yield None
            return
        stack.callback(_unlink, lock)  # on Windows not while it is open, so it goes with the next sweep there
        own = OwnFile(lock)
        stack.callback(own.remove)
        yield own


def living_texts(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what the files of running processes say; those of processes that are gone are removed. Blocks."""
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
    """Return where files may lie, the best place first.

    A client may start toolcrib with next to no environment, and whoever asks has all of it: so the folder that systems
    with systemd have for each user counts without its variable too.
    """
    runtime = environ.get("XDG_RUNTIME_DIR") or (f"/run/user/{os.getuid()}" if sys.platform == "linux" else "")
    usual = [Path(runtime, _APP)] if Path(runtime).is_absolute() and Path(runtime).is_dir() else []
    return [*usual, user_running_dir(environ)]


def _locked_file(stack: ExitStack, folder: Path, pid: int) -> Path | None:
    """Make a file in ``folder`` that is locked until the stack is left, and return it; None where that fails."""
    with suppress(OSError):
        private_directory(folder)
        if not _is_private(folder):
            return None
        for _ in range(_TRIES):
            descriptor, name = tempfile.mkstemp(_LOCK, f"{pid}-", folder)
            lock = Path(name)
            # Before it was locked, somebody may have taken it for one of a process that is gone.
            if lock_file(descriptor, exclusive=True) and identity_of(lock) == _identity(descriptor):
                stack.callback(os.close, descriptor)
                return lock
            os.close(descriptor)
            _unlink(lock)
    return None


def _is_private(folder: Path) -> bool:
    """Return whether a folder is ours and nobody else can look into it or put something there."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    if sys.platform == "win32":
        return folder.is_dir()
    return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _is_abandoned(lock: Path) -> bool:
    """Return whether the process that keeps a file locked is gone."""
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
