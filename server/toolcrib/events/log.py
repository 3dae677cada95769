"""The event log: one JSON object a line, in a file and wherever the lines are mirrored to.

Every text is redacted before it is written.
"""

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from pydantic_core import PydanticSerializationError, to_json

from toolcrib.base.redaction import redact_text
from toolcrib.base.text import truncate
from toolcrib.events.kinds import Event, Level
from toolcrib.storage.files import private_directory

BATCH_S = 0.05
"""How long a line waits for others, in seconds."""

WAITING_MAX = 1000
"""Maximum number of waiting lines; whoever adds one more writes them all, so that none is lost even if the disk is
slow.
"""

Line = Callable[[], str]
"""Formats a line; called when it is written, not when it is added."""


class Batches:
    """Adds lines without waiting, and writes them soon, in order; on exit all added lines are written."""

    def __init__(self, write: Callable[[Sequence[bytes]], None]) -> None:
        self._write = write
        self._lines = deque[Line]()
        self._writing = threading.Lock()
        self._is_wanted, self._is_closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_closing.set()
        self._is_wanted.set()
        if self._thread:
            self._thread.join()
        # Lines that were added after the thread's last look.
        self.flush()

    def add(self, line: Line) -> None:
        """Schedule a line to be written. From any thread."""
        self._lines.append(line)
        if len(self._lines) > WAITING_MAX:
            self.flush()
        # Asked first, as setting an event takes its lock, and most lines follow another one.
        elif not self._is_wanted.is_set():
            self._is_wanted.set()
            self._start()

    def flush(self) -> None:
        """Write everything added so far."""
        with self._writing:
            # Formatted under the lock too: lines are written in the order in which they were added.
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                self._write([f"{line()}\n".encode() for line in lines])

    def _start(self) -> None:
        """Start the thread, once there is something to write. A daemon: it must not keep a crashed process alive."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._is_wanted.wait()
            # Waits for more lines, but not past the closing of the log.
            self._is_closing.wait(BATCH_S)
            # Cleared before the flush: a line that is added during it wakes the thread again.
            self._is_wanted.clear()
            self.flush()


TEXT_MAX = 2000
"""Maximum length of one text in an event."""

_KNOWN_TEXTS, _KNOWN_TEXT_MAX = 256, 100
"""Number of cached redacted texts, and their maximum length: names of tools and sessions recur."""

_SECONDS = 4
"""Number of cached seconds as text: most events of a second come together."""

_RANKS: Mapping[Level, int] = {"debug": 0, "info": 1, "warning": 2, "off": 3}
# O_APPEND: lines of several processes do not overwrite each other. O_NONBLOCK: opening a FIFO without a reader fails
# instead of blocking. O_NOFOLLOW: otherwise a planted link could redirect our writes to any of our files.
_OPEN_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)

_log = logging.getLogger(__name__)


class EventFile:
    """The file that events are appended to: mode 0600, and rotated to ``.1`` before it exceeds ``max_bytes``.

    Nothing is opened before :meth:`open` or the first line. Writing never raises; the first failure is logged, and
    every later line tries again. Safe to use from several threads: a failure is logged by the thread in which it
    occurs.
    """

    def __init__(self, path: Path, max_bytes: int = 10 * 1024 * 1024) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._fd: int | None = None
        self._size = 0
        self._is_reported = False
        self._lock = threading.Lock()

    def open(self) -> None:
        """Open the file, creating it and its directory (0700) if they do not exist."""
        try:
            self._open()
        except (OSError, ValueError) as error:
            self._fail(error)

    def write(self, lines: Sequence[bytes]) -> None:
        """Append ``lines``, as many with one system call as the file has room for."""
        with self._lock:
            try:
                self._append(lines)
            except (OSError, ValueError) as error:
                self._fail(error)

    def _append(self, lines: Sequence[bytes]) -> None:
        fd = self._fd if self._fd is not None else self._open()
        batch = bytearray()
        for line in lines:
            # A line longer than the limit gets a file of its own, whole.
            if self._size + len(batch) and self._size + len(batch) + len(line) > self._max_bytes:
                self._size += os.write(fd, batch)
                batch.clear()
                self._rotate(fd)
                fd = self._open()
            batch += line
        self._size += os.write(fd, batch)

    def close(self) -> None:
        """Close the file; writing opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        private_directory(self._path.parent)
        self._fd = os.open(self._path, _OPEN_FLAGS, 0o600)
        self._size = os.fstat(self._fd).st_size
        return self._fd

    def _rotate(self, fd: int) -> None:
        """Rotate the file, unless another process has already done so, or it was deleted."""
        ours = os.fstat(fd)
        self.close()
        with suppress(FileNotFoundError):
            if os.path.samestat(ours, self._path.stat()):
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))

    def _fail(self, error: Exception) -> None:
        if not self._is_reported:
            self._is_reported = True
            reason = getattr(error, "strerror", None) or str(error)
            _log.warning("Events cannot be written to %s: %s", self._path, reason)
        self.close()


class EventLog:
    """Receives events from all parts of the program and writes those of sufficient level.

    ``clean`` is applied to every text: it redacts secrets and personal data. ``clock`` returns seconds since the epoch.
    ``command`` is noted in each event, if this is the log of a command of a person.
    """

    def __init__(
        self,
        write: Callable[[Line], None],
        *,
        level: Level = "info",
        clean: Callable[[str], str] = redact_text,
        clock: Callable[[], float] = time.time,
        command: str = "",
    ) -> None:
        self._write, self._clean, self._clock = write, clean, clock
        self._command = {"command": command} if command else {}
        self._clean_known = lru_cache(_KNOWN_TEXTS)(clean)
        self._floor = _RANKS[level]
        self._encode = json.JSONEncoder(separators=(",", ":"), default=str).encode

    def emit(self, event: Event, *, session: str | None = None, duration_ms: float | None = None) -> None:
        """Write an event: its fields, and ``ts`` (ISO 8601, UTC), ``event``, ``session``, ``duration_ms``."""
        if self._floor <= _RANKS[event.level]:
            self._write(partial(self._line, self._clock(), event, session, duration_ms))

    def _line(self, now: float, event: Event, session: str | None, duration_ms: float | None) -> str:
        record = {
            "ts": timestamp(now),
            "event": event.name,
            # The client names itself in it.
            "session": self._cleaned(session),
            **self._command,
            "duration_ms": None if duration_ms is None else round(duration_ms, 3),
            **{name: self._cleaned(getattr(event, name)) for name in _fields_of(type(event))},
        }
        try:
            return to_json(record, ensure_ascii=True, fallback=str).decode()
        except (PydanticSerializationError, UnicodeEncodeError):  # of a lone surrogate
            return self._encode(record)

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            if len(value) <= _KNOWN_TEXT_MAX:
                return self._clean_known(value)
            # Truncated before redaction too, which bounds the work; with a margin, because redaction shortens.
            return truncate(self._clean(value[: 4 * TEXT_MAX]), TEXT_MAX)
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            return {name: self._cleaned(member) for name, member in members.items()}
        if isinstance(value, Sequence | set | frozenset):
            return [self._cleaned(item) for item in cast("Sequence[Any]", value)]
        return value


@cache
def _fields_of(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def timestamp(now: float) -> str:
    """Return a time as ISO 8601, in UTC, with milliseconds."""
    second, part = divmod(now, 1)
    # Rounding could give 1000 milliseconds.
    return f"{_second(second)}.{min(round(part * 1_000_000) // 1000, 999):03}Z"


@lru_cache(_SECONDS)
def _second(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def elapsed_ms(began: float) -> float:
    """Return the milliseconds since ``began``, on the clock of :func:`time.perf_counter`."""
    return round((time.perf_counter() - began) * 1000, 2)


@contextmanager
def open_event_log(
    file: EventFile | None,
    *,
    level: Level = "info",
    mirror: Callable[[str], None] | None = None,
    clean: Callable[[str], str] = redact_text,
    clock: Callable[[], float] = time.time,
    command: str = "",
) -> Generator[EventLog]:
    """Open the event log in ``file``, if any; ``mirror`` is called with every line too, without its line end.

    The file is written in batches, within :data:`toolcrib.events.log.BATCH_S`, and completely on exit; the mirror
    is called at once. Never raises because of either: a file that cannot be written is logged once, and serving
    continues without it.
    """
    if level == "off":
        file = None
    with ExitStack() as stack:
        add: Callable[[Line], None] | None = None
        if file:
            stack.callback(file.close)
            file.open()
            add = stack.enter_context(Batches(file.write)).add

        def write(line: Line) -> None:
            if mirror:
                text = line()
                with suppress(OSError, ValueError):
                    mirror(text)
                line = partial(str, text)
            if add:
                add(line)

        yield EventLog(write, level=level, clean=clean, clock=clock, command=command)
