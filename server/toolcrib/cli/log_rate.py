"""Limits how often a library may log the same message, because a remote party that causes it must not fill the disk.

Knows records and times; never knows what one is about. Our own records pass: each has its own cause and is logged once.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.base.cache import Recent

_MOST, _WINDOW_S = 5, 10.0
_KEY_MAX = 40
"""Characters by which two messages are the same; what varies stands further on."""

_KINDS_MAX = 200
_OURS = "toolcrib"


@dataclass(slots=True)
class _Window:
    began: float
    seen: int = 0


class LogRate(logging.Filter):
    """Lets five records of a kind through in ten seconds; the next one says how many it left out. ``now``: seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._windows = Recent[tuple[str, str], _Window](_KINDS_MAX)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be written."""
        if record.name.partition(".")[0] == _OURS:
            return True
        window = self._windows.get((record.name, str(record.msg)[:_KEY_MAX]), lambda: _Window(self._now()))
        if self._now() >= window.began + _WINDOW_S:
            left_out = window.seen - _MOST
            window.began, window.seen = self._now(), 0
            if left_out > 0:
                record.msg, record.args = f"{record.getMessage()} ({left_out} more like it were left out)", None
        window.seen += 1
        return window.seen <= _MOST
