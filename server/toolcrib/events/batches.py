"""Queues lines and writes them in batches on a thread of their own.

Knows order, and how many lines may wait for how long; never knows what a line says or where it goes.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

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
        self.flush()

    def add(self, line: Line) -> None:
        """Schedule a line to be written. From any thread."""
        self._lines.append(line)
        if len(self._lines) > WAITING_MAX:
            self.flush()
        elif not self._is_wanted.is_set():
            self._is_wanted.set()
            self._start()

    def flush(self) -> None:
        """Write everything added so far."""
        with self._writing:
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
            self._is_closing.wait(BATCH_S)
            self._is_wanted.clear()
            self.flush()
