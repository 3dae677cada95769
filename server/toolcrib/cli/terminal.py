"""The whole terminal for one command: its screen, pressed keys, and its earlier state.

Knows modes, keys and signals; never knows what is shown.
"""

import os
import select
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""A screen of its own without a cursor; and the one before, as it was."""
_HOME, _REST_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_LEAVING_KEYS = b"qQ\x03\x04"


class Terminal:
    """A terminal that is ours for now. ``is_left``: the person wants it back."""

    def __init__(self) -> None:
        self.is_left = False

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines, in place of those before."""
        sys.stdout.write(_HOME + "\r\n".join(line + _REST_OF_LINE for line in lines) + _BELOW)
        sys.stdout.flush()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a key is pressed."""
        if select.select([sys.stdin], [], [], seconds)[0]:
            keys = os.read(sys.stdin.fileno(), 64)
            self.is_left = not keys or any(key in _LEAVING_KEYS for key in keys)


@contextmanager
def whole_terminal() -> Generator[Terminal | None]:
    """Take the terminal, and give it back as it was, however this is left; None where there is none to be taken.

    ^C and the signals that ask for an end leave it in order.
    """
    try:
        import termios
        import tty
    except ImportError:
        yield None
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        yield None
        return
    before = termios.tcgetattr(sys.stdin)
    handlers = {each: signal.signal(each, _leave) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        sys.stdout.write(_ENTER)
        tty.setcbreak(sys.stdin)
        yield Terminal()
    except KeyboardInterrupt:
        pass
    finally:
        with suppress(OSError, termios.error):  # it may be gone
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        for each, handler in handlers.items():
            signal.signal(each, handler)


def _leave(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt
