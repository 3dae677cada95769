"""Progress on stderr while a command waits for servers: which, how many, for how long."""

import logging
import math
import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from toolcrib.base.text import one_line, sanitize
from toolcrib.cli.screen import folded

if TYPE_CHECKING:
    from toolcrib.downstream.fleet import Fleet
    from toolcrib.downstream.states import Status

_FIRST_S = 1.0
"""A shorter wait is not shown."""

_TICK_S = 0.2
_LINE_S = 10.0
"""How often a line is written where it cannot change in place, as in a file."""

_NAMED_MAX = 3


class WaitingLine:
    """One line that changes at a terminal; elsewhere a new line now and then, or nothing if ``quiet``.

    ``what`` names the work after all servers have answered, such as "calling git__log".
    """

    def __init__(self, what: str = "", *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._what, self._stream = what, sys.stderr if stream is None else stream
        self._changes = self._stream.isatty()
        self._is_silent = quiet and not self._changes
        self._shown = ""

    async def follow(self, fleet: "Fleet") -> None:
        """Show what the command waits for, until cancelled."""
        import anyio

        began, every = anyio.current_time(), set[str]()
        pause_s = _FIRST_S if self._changes else _LINE_S
        while not self._is_silent:
            await anyio.sleep(pause_s)
            now = anyio.current_time()
            under_way = fleet.listing
            # All that were seen, since a server leaves the set once it is listed.
            every |= under_way
            text = (
                listing_text(fleet.statuses(), under_way, len(every), now)
                or starting_text(fleet.statuses(), now)
                or (self._what and f"{self._what}, {_seconds(now - began)} so far")
            )
            self._show(text)
            pause_s = _TICK_S if self._changes else _LINE_S

    @contextmanager
    def below_the_log(self) -> Generator[None]:
        """Clear the line before each log record, and at the end; if it is silent, so is the log."""
        handler = logging.NullHandler() if self._is_silent else _Above(self, self._stream)
        logger = logging.getLogger("toolcrib")
        logger.addHandler(handler)
        try:
            yield
        finally:
            self.clear()
            logger.removeHandler(handler)

    def note(self, text: str) -> None:
        """Print a line that stays, unless it is silent."""
        if not self._is_silent:
            self.clear()
            print(folded(one_line(sanitize(text)), self._stream), file=self._stream, flush=True)

    def clear(self) -> None:
        """Clear the line, before something else is printed."""
        if self._shown:
            self._stream.write(f"\r{' ' * len(self._shown)}\r")
            self._stream.flush()
            self._shown = ""

    def _show(self, text: str) -> None:
        text = one_line(sanitize(text))
        if not self._changes:
            if text:
                print(text, file=self._stream, flush=True)
            return
        # A line that wraps could not be cleared by a carriage return.
        text = text[: shutil.get_terminal_size().columns - 1]
        if text != self._shown:
            self.clear()
            self._stream.write(text)
            self._stream.flush()
            self._shown = text


class _Above(logging.StreamHandler[TextIO]):
    """Writes log records in place of the line."""

    def __init__(self, line: WaitingLine, stream: TextIO) -> None:
        super().__init__(stream)
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._line.clear()
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record as they fit the terminal."""
        return folded(super().format(record), self.stream)


def listing_text(statuses: "Mapping[str, Status]", under_way: set[str], total: int, now: float) -> str:
    """Return which of so many servers are being listed, those that take the longest first; empty where none is."""
    if not under_way:
        return ""
    named = _longest({key: statuses[key] for key in under_way}, now) or "waiting for a turn"
    return f"listing {total - len(under_way) + 1} of {total}: {named}"


def starting_text(statuses: "Mapping[str, Status]", now: float) -> str:
    """Return which servers are being started, and for how long; empty where none is."""
    named = _longest(statuses, now)
    return f"starting {named}" if named else ""


def _longest(statuses: "Mapping[str, Status]", now: float) -> str:
    """Return the servers that are starting and for how long, the longest first."""
    starting = sorted((status.since, key) for key, status in statuses.items() if status.state.value == "starting")
    named = [f"{key}, {_seconds(now - since)} so far" for since, key in starting[:_NAMED_MAX]]
    more = [f"and {len(starting) - _NAMED_MAX} more"] if len(starting) > _NAMED_MAX else []
    return "; ".join([*named, *more])


def _seconds(seconds: float) -> str:
    return f"{math.floor(seconds)} s"
