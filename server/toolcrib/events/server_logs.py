"""The stderr output of servers on disk: a file per server, the oldest lines dropped first.

Every line is redacted before it is written.
"""

import re
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from toolcrib.base.names import name_digest
from toolcrib.events.log import Batches, EventFile, timestamp

LINES_PER_SECOND = 200
"""Maximum number of stored lines of one server per second; the number of dropped ones is recorded."""

FOLDER = "logs"
"""The folder of the logs, in the cache directory."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_NAME_MAX = 60
_MARK = "\0"
"""The separator of server and line while a line waits to be written."""


@dataclass(slots=True)
class _Second:
    """The second of a server's last line: how many of its lines are stored, and how many dropped."""

    at: int = 0
    stored: int = 0
    left_out: int = 0


class ServerLogs:
    """Receives lines of servers without waiting; a thread writes them. ``clock`` returns seconds since the epoch."""

    def __init__(self, add: Callable[[Callable[[], str]], None], clock: Callable[[], float]) -> None:
        self._add, self._clock = add, clock
        self._seconds: dict[str, _Second] = {}

    def note(self, server: str, line: str) -> None:
        """Store a line written by a server, unless it has written too many in this second."""
        now = self._clock()
        second = self._seconds.setdefault(server, _Second())
        if second.at != int(now):
            left_out, second.at, second.stored, second.left_out = second.left_out, int(now), 0, 0
            if left_out:
                self._add(partial(_written, server, now, f"({left_out} more lines in a second were not kept)"))
        second.stored += 1
        if second.stored > LINES_PER_SECOND:
            second.left_out += 1
        else:
            self._add(partial(_written, server, now, line))


@contextmanager
def open_server_logs(
    cache_dir: Path, max_bytes: int, redact: Callable[[str], str], clock: Callable[[], float]
) -> Generator[ServerLogs]:
    """Store at most ``max_bytes`` of each server's output; everything is written on exit.

    Never raises: a file that cannot be written is logged once, and serving continues without it.
    """
    files: dict[str, EventFile] = {}

    def write(lines: Sequence[bytes]) -> None:
        grouped: dict[str, list[bytes]] = {}
        for raw in lines:
            server, _, line = raw.decode("utf-8", "replace").partition(_MARK)
            grouped.setdefault(server, []).append(redact(line).encode("utf-8", "replace"))
        for server, group in grouped.items():
            if server not in files:
                # Half for the file, half for its predecessor.
                files[server] = EventFile(_path(cache_dir, server), max_bytes // 2)
            files[server].write(group)

    with Batches(write) as batches:
        yield ServerLogs(batches.add, clock)
    for file in files.values():
        file.close()


def last_lines(cache_dir: Path, server: str, count: int) -> list[str]:
    """Return the last stored lines of a server, oldest first; none if there are none.

    Raises:
        OSError: the file exists and cannot be read.

    """
    path = _path(cache_dir, server)
    last = deque[str](maxlen=count)
    for file in (path.with_name(f"{path.name}.1"), path):
        if file.is_file():
            last.extend(file.read_text(encoding="utf-8", errors="replace").splitlines())
    return list(last)


def _written(server: str, now: float, line: str) -> str:
    # A server must not write a line in the name of another one.
    return f"{server}{_MARK}{timestamp(now)} {line.replace(_MARK, '')}"


def _path(cache_dir: Path, server: str) -> Path:
    """Return the file of a server; a name that is not a plain file name gets a part of its digest."""
    plain = _NOT_PLAIN.sub("-", server)[:_NAME_MAX]
    return cache_dir / FOLDER / (f"{plain}.log" if plain == server else f"{plain}-{name_digest(server)}.log")
