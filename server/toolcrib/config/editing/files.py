"""Replaces a person's text file atomically, keeping its mode and following its links."""

import errno
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from toolcrib.base.errors import ToolcribError
from toolcrib.config.documents import FOREIGN_MAX_BYTES, open_file


class EditRefused(ToolcribError):
    """The text cannot be changed without a guess; the text of the error follows the name of the file."""


PRIVATE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Original:
    """A file as it was read: its bytes, None where there was none."""

    path: Path
    content: bytes | None

    @property
    def text(self) -> str:
        """Its text, a byte order mark included; empty where there was no file.

        Raises:
            UnicodeDecodeError: it is not UTF-8.

        """
        return (self.content or b"").decode("utf-8")


def read_original(path: Path) -> Original:
    """Read a file.

    Raises:
        OSError: it is there, and cannot be read.

    """
    try:
        with open_file(path) as file:
            content = file.read(FOREIGN_MAX_BYTES + 1)
    except FileNotFoundError:
        return Original(path, None)
    if len(content) > FOREIGN_MAX_BYTES:
        raise OSError(errno.EFBIG, f"It has more than {FOREIGN_MAX_BYTES:,} bytes")
    return Original(path, content)


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write ``content`` into the file that ``path`` leads to, all at once; folders that are missing are made.

    ``mode`` is that of the file from now on; None: as it was, and private where it was not there.

    Raises:
        OSError: it cannot be written.

    """
    target = Path(os.path.realpath(path))  # a link, as people have for their settings, stays one
    target.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:
        mode = target.stat().st_mode & 0o777 if target.exists() else PRIVATE_MODE
    # In the same folder: a renaming across file systems is not atomic.
    _remove_leftovers(target)
    name = target.with_name(f".{target.name}.toolcrib-{os.getpid()}")
    descriptor = _unnamed_file(target.parent)
    is_named = descriptor is None
    if descriptor is None:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            # Before the renaming, or a power failure could leave an empty file under the name.
            os.fsync(file.fileno())
            if not is_named:
                _give_name(file.fileno(), name)
        name.replace(target)
    finally:
        name.unlink(missing_ok=True)  # there only where something went wrong


def _unnamed_file(folder: Path) -> int | None:
    """Open a file for writing that is gone with its process, however that ends; None where there is no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return os.open(folder, os.O_WRONLY | os.O_TMPFILE, PRIVATE_MODE)
    except OSError:  # a file system without them, such as that of a share
        return None


def _give_name(descriptor: int, name: Path) -> None:
    """Give an unnamed file a name (open(2), O_TMPFILE)."""
    folder = os.open(name.parent, os.O_RDONLY)
    try:
        os.link(f"/proc/self/fd/{descriptor}", name.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _remove_leftovers(target: Path) -> None:
    """Remove what processes that were killed in the moment between naming and renaming have left: a whole config."""
    start = f".{target.name}.toolcrib-"
    with suppress(OSError):
        for left in target.parent.glob(f"{escape(start)}*"):
            number = left.name.removeprefix(start)
            if number.isdecimal() and not _is_running(int(number)):
                left.unlink()


def _is_running(process: int) -> bool:
    if sys.platform == "win32":  # where signal 0 is an interrupt
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return process != os.getpid()  # its number was given again: nobody else is writing under it
