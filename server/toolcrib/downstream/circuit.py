"""A circuit breaker: a server that keeps failing is not called for a while, then probed with one call.

Knows the outcomes of recent calls; never knows what was called or how a server is reached.
"""

import math
from collections.abc import Callable
from types import TracebackType

from toolcrib.base.errors import CallTimeout, CircuitOpen, ConnectionLost, DownstreamError
from toolcrib.config.schema import LimitsSection


class Circuit:
    """Open after ``limits.circuit_failures`` failures in a row: for ``limits.circuit_pause_s``, then twice as long.

    A failure is a call without an answer. An error that the server answers with is none: it works. ``now`` is a clock
    in seconds that never jumps.
    """

    def __init__(self, server: str, limits: LimitsSection, now: Callable[[], float]) -> None:
        self._server, self._limits, self._now = server, limits, now
        self._failures = self._openings = 0
        self._reason = ""
        self._opens_at = -math.inf
        self._is_tried = False

    def check(self) -> None:
        """Do nothing where a call would be let through.

        Raises:
            CircuitOpen: the server is not to be called now.

        """
        if not self._is_open:
            return
        pause_s = self._opens_at - self._now()
        if pause_s <= 0 and not self._is_tried:
            return
        again = f"it is tried again in {math.ceil(pause_s)} s" if pause_s > 0 else "it is being tried right now"
        raise CircuitOpen(
            self._server,
            f"The server {self._server!r} is not called, because its last {self._failures} calls got no answer: "
            f"{again}. Nothing ran. The last one: {self._reason}",
        )

    @property
    def _is_open(self) -> bool:
        return self._failures >= self._limits.circuit_failures

    def guarding(self) -> "Guard":
        """Let one call through, which is made in the block, and note how it ends.

        Raises:
            CircuitOpen: the server is not to be called now; nothing ran.

        """
        self.check()
        is_try = self._is_open
        self._is_tried = self._is_tried or is_try
        return Guard(self, is_try=is_try)

    def note_end(self, error: BaseException | None, *, is_try: bool) -> None:
        """Note how a call has ended that was let through: with ``error``, unless that is None."""
        if error is None or isinstance(error, DownstreamError):
            self._failures = self._openings = 0
        elif isinstance(error, CallTimeout | ConnectionLost):
            self._note_failure(str(error), is_try=is_try)
        self._is_tried = self._is_tried and not is_try

    def _note_failure(self, reason: str, *, is_try: bool) -> None:
        self._failures += 1
        self._reason = reason
        # Calls that were under way when it opened fail too; they say nothing new.
        if is_try or self._failures == self._limits.circuit_failures:
            pause_s = min(self._limits.circuit_pause_s * 2.0 ** min(self._openings, 16), self._limits.backoff_max_s)
            self._openings += 1
            self._opens_at = self._now() + pause_s


class Guard:
    """One call that was let through. A class and not a generator, because every call passes here."""

    __slots__ = ("_circuit", "_is_try")

    def __init__(self, circuit: Circuit, *, is_try: bool) -> None:
        self._circuit, self._is_try = circuit, is_try

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._circuit.note_end(error, is_try=self._is_try)
