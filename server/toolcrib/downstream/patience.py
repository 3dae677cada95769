"""How long a call is still waited for: progress begins the time anew, and while a person is asked it does not run.

Knows one deadline; never knows what is waited for.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager

import anyio


class Patience:
    """``seconds`` from when the call is sent, from the last sign of life, or from the last answer of its caller."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope: anyio.CancelScope | None = None
        self._ends_at = math.inf
        self._pauses = 0
        self._paused_until = -math.inf

    def bind(self, scope: anyio.CancelScope, ends_at: float) -> None:
        """Let this be the scope that ends when the time is over, at ``ends_at`` in any case."""
        self._scope, self._ends_at = scope, ends_at
        self.restart()

    def restart(self) -> None:
        """Begin anew, once the time runs."""
        if self._scope is None:
            return
        begins = self._paused_until if self._pauses else anyio.current_time()
        self._scope.deadline = min(begins + self._seconds, self._ends_at)

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
