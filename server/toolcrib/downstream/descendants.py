"""The descendants of a process, found in ``/proc`` while their parents still exist.

Knows processes and their parents, on Linux; never knows what one is, or why it is to end.
"""

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_MOST = 1000
"""Processes that are looked for: what starts more than that is not to be outrun."""


@dataclass(frozen=True, slots=True)
class Descendants:
    """Processes, whatever group or session they are in, each held by a descriptor that is of no other one.

    A number may be another process's by the time that it is signalled. What has detached itself from those who started
    it (a daemon, whose parent has ended) is not among them.
    """

    held: tuple[int, ...] = ()

    @classmethod
    def of(cls, pid: int) -> Self:
        """Find those of a process that is running. None where the system is not Linux, or does not tell. Blocks."""
        found: dict[int, int] = {}
        left = [pid]
        while left and len(found) < _MOST:
            opened = _opened(_children(parent := left.pop()))
            # Where one of them has ended before it was opened, its number may have been another's.
            for child in opened.keys() - _children(parent):
                os.close(opened.pop(child))
            found |= opened
            left += opened
        return cls(tuple(found.values()))

    def kill(self) -> None:
        """Kill those that are left."""
        if sys.platform == "linux":
            for each in self.held:
                with suppress(OSError):
                    signal.pidfd_send_signal(each, signal.SIGKILL)

    def close(self) -> None:
        """Let go of them."""
        for each in self.held:
            os.close(each)


def _children(pid: int) -> set[int]:
    """Return the numbers of the processes that a process has started and that are still its own."""
    found: set[int] = set()
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found.update(map(int, each.read_text(encoding="ascii").split()))
    return found


def _opened(pids: Iterable[int]) -> dict[int, int]:
    """Return descriptors of processes, by their numbers."""
    opened: dict[int, int] = {}
    if sys.platform == "linux":
        for pid in pids:
            with suppress(OSError):  # it has ended; or there are no descriptors left, and nothing is to be found then
                opened[pid] = os.pidfd_open(pid)
    return opened
