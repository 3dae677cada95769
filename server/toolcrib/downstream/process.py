"""The only module that starts servers: a downstream's process, its pipes, and its end, even if toolcrib ends first."""

import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import anyio
import anyio.abc
import anyio.to_thread

from toolcrib.config.launching import find_program
from toolcrib.config.settings import StdioTarget

LINES_KEPT = 200
"""Lines of stderr to look at: a stack trace and what npm says after it must fit."""

_MOST = 1000
"""Processes that are looked for: what starts more than that is not to be outrun."""

_PROC = Path("/proc")


class _Process(NamedTuple):
    """A process; the time of its start, in ticks since the system's, distinguishes it from a later one with its pid."""

    pid: int
    began: int


@dataclass(frozen=True, slots=True)
class Descendants:
    """Processes, whatever group or session they are in.

    A number may be another process's by the time that it is signalled: that one is left alone. No descriptors are held
    meanwhile, of which there may be fewer than processes. What has detached itself from those who started it (a daemon,
    whose parent has ended) is not among them.
    """

    found: tuple[_Process, ...] = ()

    @classmethod
    def find(cls, pid: int) -> Self:
        """Find the descendants of a running child of ours: none on a system without /proc. Blocks."""
        root, parent = _identify(pid)
        # If it has ended, its number may be that of a process that is not ours.
        left = [root] if root and parent == os.getpid() else []
        found: set[_Process] = set()
        while left and len(found) < _MOST:
            children = _children_of(left.pop(), _MOST - len(found))
            left += children - found
            found |= children
        return cls(tuple(found))

    def kill(self) -> None:
        """Kill those that are left. Blocks."""
        for process in self.found:
            with suppress(OSError):  # it has ended; or is another user's
                _kill(process)


def _children_of(parent: _Process, most: int) -> set[_Process]:
    """Return processes that this one has started and that are still its own; none if it has ended meanwhile."""
    children: set[_Process] = set()
    for pid in islice(_listed(parent.pid), most):
        child, its_parent = _identify(pid)
        if child and its_parent == parent.pid:
            children.add(child)
    # Only now is it known whose children they are: its number may have become another's before they were read.
    return children if _identify(parent.pid)[0] == parent else set()


def _listed(pid: int) -> set[int]:
    """Return the numbers of a process's children, which may be others' by now."""
    listed: set[int] = set()
    with suppress(OSError):  # it has ended; or this is not Linux
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):  # a thread that has ended
                listed.update(map(int, (thread / "children").read_text(encoding="ascii").split()))
    return listed


def _identify(pid: int) -> tuple[_Process | None, int]:
    """Return which process has a number, and the number of its parent; none if there is no such process."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, 0
    # The program's name comes before these, in brackets, and may hold spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    return _Process(pid, int(fields[19])), int(fields[1])


def _kill(process: _Process) -> None:
    if sys.platform != "linux":
        return
    fd = _opened(process.pid)
    try:
        if _identify(process.pid)[0] != process:
            return
        if fd is None:
            os.kill(process.pid, signal.SIGKILL)
        else:  # this one and no other, even if it ends just now
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    finally:
        if fd is not None:
            os.close(fd)


def _opened(pid: int) -> int | None:
    """Return a descriptor of the process that has a number; None where the kernel or Python cannot give one.

    Some builds of Python, such as uv's, have no such function.
    """
    with suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return None


_KILL_S = 0.3
"""Time after the kill signal within which a process is gone, whatever it does."""

_POLL_S = 0.01
_EXIT_S = 0.3
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

    async def wait_for_exit(self) -> None:
        """Wait a moment for a process that closed its output to exit, and for the end of its stderr to arrive."""
        with anyio.move_on_after(_EXIT_S):
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
        self._order("hold", group)

    def free(self, group: int) -> None:
        """Forget a process group that has ended: its number may soon be another's."""
        self._held.discard(group)
        self._order("free", group)

    def _order(self, order: str, group: int) -> None:
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
            if self._watcher.returncode is None:  # on a busy machine; nothing would wait for it later
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
        # Signal 0 is not delivered; sending it only shows whether the group has members.
        return has_exited() and not _signal_group(process, 0)

    await _wait_until(has_exited, grace_s)
    others = Descendants()
    # The threads that all share may be taken for minutes, and nothing cancels an end that waits for one.
    alone = anyio.CapacityLimiter(1)
    try:
        if not has_exited():
            others = await anyio.to_thread.run_sync(Descendants.find, process.pid, limiter=alone)
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
