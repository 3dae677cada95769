"""The only module that starts servers: a downstream's process, its pipes, and its end, even if toolcrib ends first.

Knows commands, descriptors and signals; never knows MCP, tools or why a server is started.
"""

import logging
import os
import signal
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc
import anyio.to_thread

from toolcrib.config.servers import find_program
from toolcrib.config.settings import StdioTarget
from toolcrib.downstream.descendants import Descendants
from toolcrib.downstream.last_words import LINES_KEPT

_KILL_S = 0.3
"""Time after the kill signal within which a process is gone, whatever it does."""

_POLL_S = 0.01
_SETTLE_S = 0.3
_STDERR_LINE_MAX = 2000
_STDERR_CHUNK = 16 * 1024

_WATCHER_END_S = 1.0
_WATCHER_WORK_S = 5.0
"""Seconds the watcher has where it ends process groups, which takes it two."""

_WATCHER = """
trap '' HUP INT QUIT TERM
held=' '
while read -r order group; do
    case $order in
        hold) held="$held$group " ;;
        free) held="${held%% $group *} ${held#* $group }" ;;
    esac
done
look() {
    parent= began=
    read -r stat < "/proc/$1/stat" || return
    set -- ${stat##*) }
    parent=$2 began=${20}
}
below() {
    for thread in "/proc/$1/task/"*/children; do
        children=
        read -r children < "$thread"
        for child in $children; do
            [ $left -gt 0 ] || return
            look "$child"
            [ "$parent" = "$1" ] || continue
            left=$((left - 1))
            others="$others $child:$began"
            below "$child"
        done
    done
}
end() {
    look "${2%:*}"
    case $began in
        '' | "${2#*:}") kill -s "$1" -- "$3${2%:*}" ;;
    esac
}
[ -n "${held# }" ] || exit 0
sleep 1 &
others= groups=
for group in $held; do
    look "$group"
    groups="$groups $group:$began"
    left=1000
    below "$group"
done
wait
for group in $groups; do end TERM "$group" -; done
sleep 1
for group in $groups; do end KILL "$group" -; done
for other in $others; do end KILL "$other"; done
"""
"""A program for sh: it keeps the numbers of process groups, and ends them when its input ends and they are not freed.

Its input ends with the process that writes to it, however that ends. The servers have a second to end by themselves.
What they have started in other groups is looked for meanwhile, on Linux: once a server has ended nothing tells whose it
is. That starts no program, and ends at a thousand processes of each server, so that it delays no signal. Each number is
noted with the time of its process's start: whoever else has it by the time that it is signalled is left alone.
"""

_log = logging.getLogger(__name__)


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


class Lifeline:
    """Has process groups ended by a small watcher if this process is killed. Make one with :func:`open_lifeline`."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        self._watcher: anyio.abc.Process | None = None
        self._starting = anyio.Lock()
        self._held = set[int]()
        self._is_wanted = True

    async def ready(self) -> None:
        """Have the watcher run. Where there is no shell to run it, nothing watches, and the log says so."""
        async with self._starting:
            if self._watcher is not None or not self._is_wanted:
                return
            os.set_blocking(self._write_fd, False)
            try:
                with anyio.CancelScope(shield=True):
                    self._watcher = await anyio.open_process(
                        ["/bin/sh", "-c", _WATCHER],
                        stdin=self._read_fd,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        cwd="/",
                        env={"PATH": "/usr/bin:/bin"},
                        # What ends our own process group, such as ^C, must not end it too.
                        start_new_session=True,
                    )
                # Held open here, it would take what is written after the watcher has gone.
                _close(self._read_fd)
                self._read_fd = -1
            except OSError as error:
                self._is_wanted = False
                _log.warning("servers may survive if toolcrib is killed, because /bin/sh cannot be run: %s", error)

    def hold(self, group: int) -> None:
        """Have this process group ended if we are killed."""
        self._held.add(group)
        self._tell("hold", group)

    def free(self, group: int) -> None:
        """Forget a process group that has ended: its number may soon be another's."""
        self._held.discard(group)
        self._tell("free", group)

    def _tell(self, order: str, group: int) -> None:
        try:
            os.write(self._write_fd, f"{order} {group}\n".encode())
        except OSError as error:  # somebody has killed or stopped the watcher
            _log.warning("servers may survive if toolcrib is killed: %s", error)

    async def aclose(self) -> None:
        """End the watcher, which mostly has nothing to end by now; else it may do so first."""
        _close(self._write_fd, self._read_fd)
        if self._watcher is None:
            return
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_WATCHER_WORK_S if self._held else _WATCHER_END_S):
                await self._watcher.wait()
            if self._watcher.returncode is None:  # on a busy machine; nobody would ever wait for it again
                self._watcher.kill()
                await self._watcher.wait()


@asynccontextmanager
async def open_lifeline() -> AsyncGenerator[Lifeline]:
    """Hold a lifeline, whose watcher is started with the first server; leave it after the last has ended."""
    lifeline = Lifeline()
    try:
        yield lifeline
    finally:
        await lifeline.aclose()


@asynccontextmanager
async def running(
    target: StdioTarget,
    close_timeout_s: float,
    lifeline: Lifeline | None = None,
    on_line: Callable[[str], None] | None = None,
) -> AsyncGenerator[Child]:
    """Start ``target`` in a process group of its own; when left, no process of that group is alive.

    With a ``lifeline``, none is a few seconds after this process is killed either. ``on_line`` gets each line that it
    writes to stderr.

    It may take ``close_timeout_s`` seconds to stop: half of them after the end of its input, half of them after the
    termination signal (2025-11-25 lifecycle). Then it is killed.

    Raises:
        OSError: the program cannot be started (no such file, not executable, no such folder).

    """
    # Pipes of our own instead of the streams that anyio makes, because the dispatcher works on descriptors.
    (child_in, write_fd), (read_fd, child_out), (stderr_fd, child_err) = os.pipe(), os.pipe(), os.pipe()
    try:
        try:
            if lifeline:
                await lifeline.ready()
            process = await _spawn(target, child_in, child_out, child_err)
            if lifeline:
                lifeline.hold(process.pid)
        finally:
            # While we hold the child's ends open, the end of its output would never be seen.
            _close(child_in, child_out, child_err)
        child = Child(process, read_fd, write_fd)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read_stderr, stderr_fd, child.stderr, on_line)
            try:
                yield child
            finally:
                _close(write_fd)
                # Closed already: by the time of the last close another file may have the number.
                write_fd = -1
                try:
                    with anyio.CancelScope(shield=True):
                        # Also when the owner is cancelled: no process may be left behind.
                        await _end(process, close_timeout_s / 2)
                finally:
                    if lifeline:
                        lifeline.free(process.pid)
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
    """End the process and its whole group, within twice the grace period and a moment.

    Where it does not end by itself, what it has started in other groups is ended too.
    """

    def has_exited() -> bool:
        return process.returncode is not None

    def is_gone() -> bool:
        # Signal 0 is delivered to nobody; sending it tells whether the group has members.
        return has_exited() and not _signal_group(process, 0)

    await _wait_until(has_exited, grace_s)
    others = Descendants()
    # The threads that all share may be taken for minutes, and nothing cancels an end that waits for one.
    alone = anyio.CapacityLimiter(1)
    try:
        if not has_exited():
            others = await anyio.to_thread.run_sync(Descendants.of, process.pid, limiter=alone)
    finally:  # The server ends, whatever comes of the search for others.
        if _signal_group(process, signal.SIGTERM):
            await _wait_until(is_gone, grace_s)
        _signal_group(process, signal.SIGKILL)
        if others.found:
            await anyio.to_thread.run_sync(others.kill, limiter=alone)
        await _wait_until(is_gone, _KILL_S)


async def _wait_until(done: Callable[[], bool], within_s: float) -> None:
    with anyio.move_on_after(within_s):
        while not done():
            await anyio.sleep(_POLL_S)


def _signal_group(leader: anyio.abc.Process, number: int) -> bool:
    """Send a signal to the process group that a process leads; return whether the group still had a member.

    No process gets the number of a group that has members: who has it once the leader has ended is a stranger.
    """
    if leader.returncode is not None and _exists(leader.pid):
        return False
    try:
        os.killpg(leader.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        pass
    return True


def _close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


async def _read_stderr(fd: int, last_lines: deque[str], on_line: Callable[[str], None] | None) -> None:
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
                if on_line:
                    on_line(text)
