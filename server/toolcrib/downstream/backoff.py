"""The pause before a server that failed is started again: longer each time, until it works.

Knows a clock, randomness and the number of consecutive failures; never knows a server, nor why it failed.
"""

import math
from collections.abc import Callable

_FIRST_S = 0.5


class Backoff:
    """When the next start is due. ``now`` is a clock in seconds that never jumps."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failures = 0
        self._due = -math.inf

    @property
    def pause_s(self) -> float:
        """Seconds until the next start is due; not more than 0 where it is due now."""
        return self._due - self._now()

    def note_failure(self, most_s: float, jitter: float) -> None:
        """Have the next start wait up to ``most_s`` seconds; ``jitter``, in [0, 1), spreads the last half of it."""
        self._failures += 1
        longest = min(_FIRST_S * 2.0 ** min(self._failures - 1, 16), most_s)
        self._due = self._now() + longest * (0.5 + jitter / 2)

    def note_success(self) -> None:
        """Have the next failure count as the first one."""
        self._failures = 0
