"""The deadline of a call: progress restarts it, and it is paused while a person is asked.

Knows one deadline; never knows what is waited for.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager

import anyio


class Patience:
    """``seconds`` from when the call is sent, from the last sign of life, or from the last answer of its caller.

    At most ``most_s`` seconds from when it is sent.
    """

    def __init__(self, seconds: float, most_s: float) -> None:
        self._seconds, self._most_s = seconds, most_s
        self._scope: anyio.CancelScope | None = None
        self._ends_at = math.inf
        self._pauses = 0
        self._paused_until = -math.inf

    def begin(self) -> anyio.CancelScope:
        """Let the time run from now on, and return the scope that ends when it is over."""
        now = anyio.current_time()
        self._ends_at = now + self._most_s
        self._scope = anyio.CancelScope(deadline=self._deadline(now))
        return self._scope

    def restart(self) -> None:
        """Restart the deadline, unless it is paused."""
        if self._scope is not None:
            self._scope.deadline = self._deadline(anyio.current_time())

    @property
    def waited_s(self) -> float:
        """How long was waited in vain, once the time is over."""
        return self._seconds if anyio.current_time() < self._ends_at else self._most_s

    def _deadline(self, now: float) -> float:
        return min((self._paused_until if self._pauses else now) + self._seconds, self._ends_at)

    @contextmanager
    def paused(self, seconds: float) -> Generator[None]:
        """Let the time begin after the block, which takes at most so long."""
        self._pauses += 1
        self._paused_until = anyio.current_time() + seconds
        self.restart()
        try:
            yield
        finally:
            self._pauses -= 1
            self.restart()
