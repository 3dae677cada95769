"""The descendants of a process, found in ``/proc`` while their parents still exist.

Knows processes and their parents, on Linux; never knows what one is, or why it is to end.
"""

import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

_MOST = 1000
"""Processes that are looked for: what starts more than that is not to be outrun."""

_PROC = Path("/proc")


class _Process(NamedTuple):
    """A process, told from a later one with its number by the time of its start, in ticks since the system's."""

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
    def of(cls, pid: int) -> Self:
        """Find those of a running process that we have started. None where the system does not tell. Blocks."""
        root, parent = _look(pid)
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
        child, its_parent = _look(pid)
        if child and its_parent == parent.pid:
            children.add(child)
    # Only now is it known whose children they are: its number may have become another's before they were read.
    return children if _look(parent.pid)[0] == parent else set()


def _listed(pid: int) -> set[int]:
    """Return the numbers of a process's children, which may be others' by now."""
    listed: set[int] = set()
    with suppress(OSError):  # it has ended; or this is not Linux
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):  # a thread that has ended
                listed.update(map(int, (thread / "children").read_text(encoding="ascii").split()))
    return listed


def _look(pid: int) -> tuple[_Process | None, int]:
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
        if _look(process.pid)[0] != process:
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
