"""Lines put aside by whoever has them, and written a batch at a time by a thread of their own.

Knows order, how many may wait and for how long; never knows what a line says or where it goes.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

BATCH_S = 0.05
"""Seconds that a line waits for others."""

WAITING_MAX = 1000
"""Lines that may wait; whoever adds one more writes them all, so that none is lost however slow the disk is."""

Line = Callable[[], str]
"""Makes a line, where it is written: not where it is added."""


class Batches:
    """Adds lines without waiting, and writes them soon, in order; all that were added are written when it is left."""

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
        """Have a line written soon. From any thread."""
        self._lines.append(line)
        if len(self._lines) > WAITING_MAX:
            self.flush()
        elif not self._is_wanted.is_set():
            self._is_wanted.set()
            self._start()

    def flush(self) -> None:
        """Write all that was added until now."""
        with self._writing:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                self._write([f"{line()}\n".encode() for line in lines])

    def _start(self) -> None:
        """Start the thread, once there is something to write. A daemon: it must not keep a process that crashed."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._is_wanted.wait()
            self._is_closing.wait(BATCH_S)
            self._is_wanted.clear()
            self.flush()
