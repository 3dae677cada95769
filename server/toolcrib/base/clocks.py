"""A clock for what outlives a process: seconds since the epoch that pass evenly, whatever the wall clock is set to."""

import time
from collections.abc import Callable

Clock = Callable[[], float]


def since_boot() -> float:
    """Return monotonic seconds, including the time that the machine slept if the system counts it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def steady_clock(wall: Clock = time.time, elapsed: Clock = since_boot) -> Clock:
    """Return a clock that starts at ``wall`` and advances with ``elapsed``.

    Stored times then expire neither early nor late if the wall clock is set meanwhile; they can be compared with those
    of other processes as far as the wall clock was right when each of them started.
    """
    began, since = wall(), elapsed()
    return lambda: began + (elapsed() - since)
