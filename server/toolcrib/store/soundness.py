"""A note beside a large database file that says when it last passed a check, so that not every start repeats it.

Knows sizes and times of files; never knows SQLite or what a file holds.
"""

from contextlib import suppress
from pathlib import Path

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
