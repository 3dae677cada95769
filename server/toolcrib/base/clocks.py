"""A clock for what outlives a process: seconds since the epoch that pass evenly, whatever the wall clock is set to.

Knows two clocks and their difference at one moment; never knows what a time is for.
"""

import time
from collections.abc import Callable

Clock = Callable[[], float]


def since_boot() -> float:
    """Return seconds that only ever grow, those in which the machine slept included where the system counts them."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def steady(wall: Clock = time.time, elapsed: Clock = since_boot) -> Clock:
    """Return a clock that begins at ``wall`` and goes on by ``elapsed``.

    What is kept on disk with such a time expires neither early nor late when somebody sets the wall clock meanwhile; it
    can be compared with times of other processes, as far as the wall was right when each of them began.
    """
    began, since = wall(), elapsed()
    return lambda: began + (elapsed() - since)
