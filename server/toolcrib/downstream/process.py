"""The only module that starts programs: a downstream's process, its pipes, and its end.

Knows commands, descriptors and signals; never knows MCP, tools or why a server is started.
"""

import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc

from toolcrib.config.programs import find_program
from toolcrib.config.settings import StdioTarget
from toolcrib.downstream.last_words import LINES_KEPT

_KILL_S = 0.3
"""Time after the kill signal within which a process is gone, whatever it does."""

_POLL_S = 0.01
_SETTLE_S = 0.3
_STDERR_LINE_MAX = 2000
_STDERR_CHUNK = 16 * 1024


@dataclass(slots=True)
class Child:
    """A running server: the descriptors to read from and write to, and the last lines it wrote to stderr."""

    process: anyio.abc.Process
    read_fd: int
    write_fd: int
    stderr: deque[str] = field(default_factory=lambda: deque[str](maxlen=LINES_KEPT))

    @property
    def exit_status(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.process.returncode

    async def settle(self) -> None:
        """Wait a moment for a process that closed its output to exit, and for the end of its stderr to arrive."""
        with anyio.move_on_after(_SETTLE_S):
            while self.exit_status is None:
                await anyio.sleep(_POLL_S)
            await anyio.sleep(_POLL_S)


@asynccontextmanager
async def running(target: StdioTarget, close_timeout_s: float) -> AsyncGenerator[Child]:
    """Start ``target`` in a process group of its own; when left, no process of that group is alive.

    It may take ``close_timeout_s`` seconds to stop: half of them after the end of its input, half of them after the
    termination signal (2025-11-25 lifecycle). Then it is killed.

    Raises:
        OSError: the program cannot be started (no such file, not executable, no such folder).

    """
    # Pipes of our own instead of the streams that anyio makes, because the dispatcher works on descriptors.
    (child_in, write_fd), (read_fd, child_out), (stderr_fd, child_err) = os.pipe(), os.pipe(), os.pipe()
    try:
        try:
            process = await _spawn(target, child_in, child_out, child_err)
        finally:
            # While we hold the child's ends open, the end of its output would never be seen.
            _close(child_in, child_out, child_err)
        child = Child(process, read_fd, write_fd)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read_stderr, stderr_fd, child.stderr)
            try:
                yield child
            finally:
                _close(write_fd)
                # Closed already: by the time of the last close another file may have the number.
                write_fd = -1
                with anyio.CancelScope(shield=True):
                    # Also when the owner is cancelled: no process may be left behind.
                    await _end(process, close_timeout_s / 2)
                tasks.cancel_scope.cancel()
    finally:
        _close(read_fd, write_fd, stderr_fd)


async def _spawn(target: StdioTarget, stdin: int, stdout: int, stderr: int) -> anyio.abc.Process:
    """Start the program. Not to be cancelled half-way: what has begun to run has to be ended properly."""
    process: anyio.abc.Process | None = None
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            [find_program(target) or target.command, *target.args],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=target.cwd,
            env=dict(target.env),
            # A group of its own can be signalled as a whole, and ^C at a terminal reaches us alone.
            start_new_session=True,
        )
    assert process is not None
    return process


async def _end(process: anyio.abc.Process, grace_s: float) -> None:
    """End the process and its whole group, within twice the grace period and a moment."""

    def has_exited() -> bool:
        return process.returncode is not None

    def is_gone() -> bool:
        # Signal 0 is delivered to nobody; sending it tells whether the group has members.
        return has_exited() and not _signal_group(process.pid, 0)

    await _wait_until(has_exited, grace_s)
    if _signal_group(process.pid, signal.SIGTERM):
        await _wait_until(is_gone, grace_s)
    _signal_group(process.pid, signal.SIGKILL)
    await _wait_until(is_gone, _KILL_S)


async def _wait_until(done: Callable[[], bool], within_s: float) -> None:
    with anyio.move_on_after(within_s):
        while not done():
            await anyio.sleep(_POLL_S)


def _signal_group(pid: int, number: int) -> bool:
    """Send a signal to the process group that ``pid`` leads; return whether the group still had a member."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


async def _read_stderr(fd: int, last_lines: deque[str]) -> None:
    partial = ""
    while True:
        await anyio.wait_readable(fd)
        if not (chunk := os.read(fd, _STDERR_CHUNK)):
            return
        *lines, partial = (partial + chunk.decode("utf-8", "replace")).split("\n")
        partial = partial[-_STDERR_LINE_MAX:]
        for line in lines:
            if text := line.strip()[:_STDERR_LINE_MAX]:
                last_lines.append(text)
