"""Lines over two file descriptors: bounded, on the event loop itself, without a thread or a task for each line.

POSIX pipes, sockets and terminals only (see
:func:`supports`).
"""

import asyncio
import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio

_CHUNK = 64 * 1024
"""The capacity of a pipe (pipe(7)). A larger buffer would be allocated from and returned to the system with each read.
"""
_BURST = 32
"""Lines delivered before yielding to other tasks."""


def supports(read_fd: int) -> bool:
    """Return whether the event loop can wait for this descriptor to be readable: a POSIX pipe, socket or terminal.

    Any writable descriptor will do for the other direction: one that cannot be waited for, such as a file, never
    blocks.
    """
    if sys.platform == "win32":
        return False
    mode = os.fstat(read_fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(read_fd)


class LineReader:
    """Delivers the lines that arrive on a descriptor, in order, driven by the event loop.

    The receiver of a line may :meth:`hold` the reader: then nothing more is read, and the peer has to wait, until it is
    released as often as it was held. ``fault`` says why it ended, if not by the end of the input. ``limit`` is the
    config key of the bound on a line.
    """

    def __init__(self, fd: int, line_max_bytes: int, limit: str = "") -> None:
        self._fd, self._line_max_bytes, self._limit = fd, line_max_bytes, limit
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytearray] = deque()
        self._partial = bytearray()
        self._take: Callable[[bytearray], None] = _drop
        self._on_end: Callable[[], None] = _nothing
        self._holds = 0
        self._is_listening = self._is_at_end = self._has_ended = False
        self._turn: asyncio.Handle | None = None
        self.fault = ""

    def start(self, take: Callable[[bytearray], None], on_end: Callable[[], None]) -> None:
        """Start: ``take`` receives each line without its terminator; ``on_end`` is called once after the last."""
        self._take, self._on_end = take, on_end
        self._go_on_later()

    def begin_with(self, data: bytes) -> None:
        """Treat ``data``, read from the descriptor earlier, as its first input; call before :meth:`start`."""
        self._split(data)

    def hold(self) -> None:
        """Deliver and read no further lines until :meth:`release`."""
        self._holds += 1

    def release(self) -> None:
        """Undo one :meth:`hold`."""
        self._holds -= 1
        if not self._holds:
            self._go_on_later()

    def end(self, fault: str = "") -> None:
        """Stop delivering lines; idempotent. The descriptor stays open; it belongs to the caller."""
        if self._has_ended:
            return
        self._has_ended = True
        self.fault = self.fault or fault
        self._lines.clear()
        self._partial.clear()
        self._listen(wanted=False)
        if self._turn:
            self._turn.cancel()
        self._on_end()

    def _go_on_later(self) -> None:
        if not self._has_ended and self._turn is None:
            self._turn = self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._turn = None
        self._hand_on()

    def _hand_on(self) -> None:
        """Deliver a burst of lines; then wait for input, the next iteration or a release, or end."""
        for _ in range(_BURST):
            if self._holds or not self._lines:
                break
            self._take(self._lines.popleft())
        if self._has_ended:
            return
        if self._is_at_end and not self._lines and not self._holds:
            self.end()
            return
        self._listen(wanted=not self._lines and not self._holds)
        if self._lines and not self._holds:
            self._go_on_later()

    def _listen(self, *, wanted: bool) -> None:
        if wanted == self._is_listening:
            return
        self._is_listening = wanted
        if wanted:
            self._loop.add_reader(self._fd, self._read)
        else:
            self._loop.remove_reader(self._fd)

    def _read(self) -> None:
        """Read what is available into lines, and deliver them."""
        try:
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._split(chunk)
        else:
            self._is_at_end = True  # a terminal reports the end of its input only once
        self._hand_on()

    def _split(self, chunk: bytes) -> None:
        """Append the lines that end in ``chunk``, up to one that is too long, and keep the incomplete last one."""
        self._partial += chunk
        # Split only if the chunk ends a line: splitting a long line again with each of its chunks would take time
        # quadratic in its length.
        *whole, rest = self._partial.split(b"\n") if b"\n" in chunk else [self._partial]
        self._partial = rest
        for line in whole:
            if self._is_too_long(line):
                return
            self._lines.append(line)
        # A line without an end would otherwise grow without bound.
        self._is_too_long(rest)

    def _is_too_long(self, line: bytearray) -> bool:
        if len(line) <= self._line_max_bytes:
            return False
        self.fault = f"sent a line of more than {self._line_max_bytes} bytes{self._limit and f' ({self._limit})'}"
        self._partial.clear()
        self._is_at_end = True
        return True


class LineWriter:
    """Writes lines to a descriptor, each whole or not at all, in the order given."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_broken = False

    @property
    def is_free(self) -> bool:
        """Whether a line can be sent without waiting for the peer to read."""
        return not self._unsent and not self._waiting

    async def send(self, line: bytes) -> None:
        """Write a line; wait first while the peer does not read. If cancelled during that wait, nothing is sent.

        Raises:
            anyio.BrokenResourceError: the peer is gone, or this end was closed.

        """
        if not self.is_free:
            await self._turn()
        try:
            self.post(line)
        finally:
            self._wake_next()

    def post(self, line: bytes) -> None:
        """Write as much of a line as the descriptor accepts now, and the rest later. Never waits.

        Raises:
            anyio.BrokenResourceError: the peer is gone, or this end was closed.

        """
        if self._is_broken:
            raise anyio.BrokenResourceError
        if self._unsent:
            self._unsent += line
            return
        try:
            sent = os.write(self._fd, line)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            raise anyio.BrokenResourceError from None
        if sent < len(line):
            self._unsent += line[sent:]
            self._loop.add_writer(self._fd, self._write_on)

    async def flush(self, within_s: float) -> None:
        """Wait until everything is written, at most ``within_s`` seconds."""
        if not self.is_free:
            with anyio.move_on_after(within_s, shield=True):
                await self._turn()

    def close(self) -> None:
        """Reject further lines and wake waiting writers. The descriptor stays open; it belongs to the caller."""
        if self._unsent:
            self._loop.remove_writer(self._fd)
        self._is_broken = True
        self._unsent.clear()
        self._wake_next()

    def _write_on(self) -> None:
        """Continue writing what a full pipe left over."""
        try:
            sent = os.write(self._fd, self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._fd)
            self._wake_next()

    async def _turn(self) -> None:
        """Wait until everything submitted earlier is written."""
        turn = self._loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except anyio.get_cancelled_exc_class():
            self._waiting.remove(turn)
            self._wake_next()
            raise
        self._waiting.remove(turn)

    def _wake_next(self) -> None:
        """Wake the longest-waiting writer, if it is its turn.

        Writers leave the queue themselves when they run, so that nobody overtakes them before.
        """
        if self._waiting and not self._unsent and not self._waiting[0].done():
            self._waiting[0].set_result(None)


@contextmanager
def open_pipe(
    read_fd: int, write_fd: int, line_max_bytes: int, limit: str = ""
) -> Generator[tuple[LineReader, LineWriter]]:
    """Open both directions over two descriptors, which the caller still has to close; see :class:`LineReader`.

    Both are made non-blocking while this is open and restored afterwards.
    """
    # A dictionary, because one socket may serve both directions.
    blocking = {fd: os.get_blocking(fd) for fd in (read_fd, write_fd)}
    for fd in blocking:
        os.set_blocking(fd, False)
    reader, writer = LineReader(read_fd, line_max_bytes, limit), LineWriter(write_fd)
    try:
        yield reader, writer
    finally:
        reader.end()
        writer.close()
        for fd, was_blocking in blocking.items():
            os.set_blocking(fd, was_blocking)


def _drop(_line: bytearray) -> None:
    """Ignore a line: a reader that has not been started receives none."""


def _nothing() -> None:
    """Do nothing at the end of a reader that has not been started."""
