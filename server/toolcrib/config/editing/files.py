"""Replaces a person's text file atomically, keeping its mode and following its links."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from toolcrib.base.errors import ToolcribError


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
        return Original(path, path.read_bytes())
    except FileNotFoundError:
        return Original(path, None)


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
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            # Before the renaming, or a power failure could leave an empty file under the name.
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)  # there only where something went wrong
