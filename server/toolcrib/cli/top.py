"""``toolcrib top``, and the running toolcribs as ``toolcrib status`` shows them."""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from toolcrib.base.text import enumerated, one_line, sanitize
from toolcrib.cli.output import JsonOption, counted, print_json, print_lines

if TYPE_CHECKING:
    from toolcrib.gateway.instances import RunningInstance, RunningServer, RunningSession

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""A screen of its own without a cursor; and the one before, as it was."""
_HOME, _REST_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_LEAVING_KEYS = b"qQ\x03\x04"


class Terminal:
    """A terminal that was taken over. ``is_left``: the person has asked to leave it."""

    def __init__(self) -> None:
        self.is_left = False

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines, in place of those before."""
        sys.stdout.write(_HOME + "\r\n".join(line + _REST_OF_LINE for line in lines) + _BELOW)
        sys.stdout.flush()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a key is pressed."""
        if select.select([sys.stdin], [], [], seconds)[0]:
            # Not through sys.stdin, whose buffer select() does not see.
            keys = os.read(sys.stdin.fileno(), 64)
            self.is_left = not keys or any(key in _LEAVING_KEYS for key in keys)


@contextmanager
def whole_terminal() -> Generator[Terminal | None]:
    """Take over the terminal, and restore it however the block is left; None if there is no terminal to take over.

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
    # A terminal that is left in this mode shows nothing of what is typed.
    handlers = {each: signal.signal(each, _leave) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        sys.stdout.write(_ENTER)
        # Not raw: ^C still sends its signal.
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


_LOOK_S = 1.0
_NAMES_ROOM = 160
"""Characters of names in one line."""


def top(as_json: JsonOption = False) -> None:
    """Show your running toolcribs, refreshed every second; q or ^C ends it. Without a terminal, prints once."""
    if as_json:
        print_json([instance.as_json for instance in running_now()])
        return
    with whole_terminal() as terminal:
        if terminal is None:
            print_lines(running_lines(running_now(), time.time()))
            return
        while not terminal.is_left:
            now = time.time()
            columns, rows = shutil.get_terminal_size()
            clock = time.strftime("%H:%M:%S", time.localtime(now))
            lines = [f"toolcrib top   {clock}   q ends it", "", *running_lines(running_now(), now)]
            if len(lines) > rows:
                # A line more than the terminal has would scroll the first one away.
                lines = [*lines[: rows - 1], f"and {len(lines) - rows + 1} more lines: `toolcrib status`"]
            terminal.show([sanitize(line)[:columns] for line in lines])
            terminal.wait(_LOOK_S)


def running_now() -> "list[RunningInstance]":
    """Return the running toolcribs of this person, the one that began first in front."""
    import json

    from toolcrib.gateway.instances import parse_instance, read_instance_files

    found: list[RunningInstance] = []
    for text in read_instance_files(os.environ):
        try:
            instance = parse_instance(json.loads(text))
        # Written by another process, perhaps of another version.
        except (ValueError, RecursionError):
            continue
        if instance:
            found.append(instance)
    return sorted(found, key=lambda instance: (instance.began, instance.pid))


def running_lines(instances: "Sequence[RunningInstance]", now: float) -> Iterator[str]:
    """Yield what a person is shown of running toolcribs."""
    yield f"running  {counted(len(instances), 'toolcrib')}"
    for instance in instances:
        memory = "" if instance.memory_bytes is None else f", {instance.memory_bytes / 2**20:.0f} MiB"
        place = f"{instance.transport} {instance.address}".strip()
        yield f"  {instance.pid}: {place}, for {_span(now - instance.began)}{memory}, {instance.config}"
        if instance.reload_failure:
            yield f"    its config could not be reloaded: {one_line(instance.reload_failure)}"
        for session in instance.sessions:
            yield from _session_lines(session, now)
        if instance.session_count > len(instance.sessions):
            yield f"    and {instance.session_count - len(instance.sessions)} more sessions"
        yield from _server_lines(instance.servers, now)


def _session_lines(session: "RunningSession", now: float) -> Iterator[str]:
    from toolcrib.events.reading import saved_text

    done = [counted(session.searches, "search", "searches"), counted(session.calls, "call")]
    failed = f", {session.failed} of them failed" if session.failed else ""
    if session.programs:
        failed += f", {counted(session.programs, 'program')}: {saved_text(session.tokens_saved)}"
    asked = f"asked {_span(now - session.active)} ago" if session.active else "no requests yet"
    yield f"    {session.label}: {', '.join(done)}{failed}; {asked}; {session.listing} list"
    for what, names in (("activated", session.activated), ("skills", session.skills)):
        if names:
            yield f"      {what}: {enumerated(names, _NAMES_ROOM)}"
    for skill in session.active_skills:
        tools = enumerated([f"{name} ({state})" for name, state in skill.tools.items()], _NAMES_ROOM)
        yield f"      active: {skill.name}" + (f", with {tools}" if tools else "")


def _server_lines(servers: "Iterable[RunningServer]", now: float) -> Iterator[str]:
    """Yield the servers by state; one whose state has a reason gets a line of its own."""
    by_state: dict[str, list[str]] = {}
    for server in servers:
        if server.reason:
            yield f"    {server.key} {server.state} for {_span(now - server.since)}: {one_line(server.reason)}"
        else:
            protocol = f" ({server.protocol})" if server.protocol else ""
            by_state.setdefault(server.state, []).append(f"{server.key}{protocol}")
    for state, keys in sorted(by_state.items()):
        yield f"    {state}: {enumerated(keys, _NAMES_ROOM)}"


def _span(seconds: float) -> str:
    """Return a duration in a single unit."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
