"""Reads recorded events: each line of the file and of its predecessor, also while they grow."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any, BinaryIO

from toolcrib.base.cache import Recent
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import enumerated, one_line

_SEARCHES = 1000
"""Number of remembered searches, so that a call can be shown with the words that found its tool."""
_HITS_ROOM = 200


class EventFormatter:
    """Formats events one after the other. A call is shown with the search that found its tool."""

    def __init__(self) -> None:
        self._searches = Recent[tuple[str, int], str](_SEARCHES)

    def line(self, event: JsonObject) -> str:
        """Return an event as shown to a person, without purely internal details."""
        session, search = event.get("session"), event.get("search")
        origin = ""
        if isinstance(search, int):
            if event.get("event") == "tool_search_query":
                self._searches[str(session), search] = _quoted(event)
            origin = f" (hit {event.get('rank')} of {self._words(str(session), search)})"
        summarize = _SUMMARIES.get(str(event.get("event")))
        text = one_line(summarize(event, origin)) if summarize else ""
        if not text:
            return ""
        whose = f"toolcrib {command}" if (command := command_of(event)) else session
        return f"{_local_time(event)}  {f'{one_line(whose)}  ' if isinstance(whose, str) else ''}{text}"

    def _words(self, session: str, search: int) -> str:
        """Return the query of a search, if its event was seen."""
        with suppress(KeyError):
            return self._searches[session, search]
        return f"search {search}"


def time_of(event: JsonObject) -> datetime | None:
    """Return when an event happened; None if it does not say."""
    try:
        return datetime.fromisoformat(str(event.get("ts")))
    except ValueError:
        return None


def command_of(event: JsonObject) -> str:
    """Return the command of a person that made an event; empty for what was done for a client."""
    command = event.get("command")
    return command if isinstance(command, str) else ""


def has_failed(event: JsonObject) -> bool:
    """Return whether an event reports a failure or refusal."""
    name = event.get("event")
    if name in ("tool_call_not_run", "tool_activation_denied", "server_request_denied"):
        return True
    return event.get("state") in ("failed", "needs_login") if name == "downstream_state" else event.get("ok") is False


def _search(event: JsonObject, _origin: str) -> str:
    hits = [str(name) for name in as_list(event.get("hits"))]
    found = f"{event.get('confidence')}: {enumerated(hits, _HITS_ROOM)}" if hits else "nothing found"
    return f"searched {_quoted(event)} → {found}"


def _call(event: JsonObject, origin: str) -> str:
    how = f"ok, {event.get('bytes')} bytes" if event.get("ok") else "FAILED"
    return f"→ called {event.get('tool_name')}: {how}, {_duration(event)}{origin}"


def _program(event: JsonObject, _origin: str) -> str:
    failed = f" ({event.get('failed')} failed)" if event.get("failed") else ""
    calls = f"{event.get('calls')} {'call' if event.get('calls') == 1 else 'calls'}{failed}"
    how = "ok" if event.get("ok") else "FAILED"
    read = f"{event.get('characters_read')} characters read, {event.get('characters_returned')} returned"
    parts = [how, calls, read, saved_text(event.get("tokens_saved")), _duration(event)]
    return f"→ ran a program: {', '.join(filter(None, parts))}"


def saved_text(tokens: Any) -> str:
    """Return what programs have saved, in tokens: less than nothing where they failed, or read little."""
    if not isinstance(tokens, int):
        return ""
    return f"about {abs(tokens):,} tokens {'saved' if tokens >= 0 else 'lost'}"


def _not_run(event: JsonObject, origin: str) -> str:
    why = {
        "arguments": "its arguments do not fit",
        "not_read_only": "tool_call_read runs only what is read-only",
        "unavailable": "its server is down",
    }
    return f"→ NOT RUN {event.get('tool_name')}: {why.get(str(event.get('reason')))}{origin}"


def _refused(event: JsonObject, _origin: str) -> str:
    why = {"policy": "the policy denies it", "visibility": "hidden from this caller", "unknown": "no such tool"}
    return f"→ REFUSED {event.get('tool_name')}: {why.get(str(event.get('reason')))}"


def _server_request(event: JsonObject, _origin: str) -> str:
    how = f"ok, {event.get('bytes')} bytes" if event.get("ok") else "FAILED"
    return f"asked {event.get('server')} {event.get('method')} {event.get('target')}: {how}, {_duration(event)}"


def _denied_request(event: JsonObject, _origin: str) -> str:
    return f"REFUSED {event.get('method')} {event.get('target')}"


def _skill_search(event: JsonObject, _origin: str) -> str:
    return f"searched skills for {_quoted(event)} → {event.get('results_count')} found"


def _skills_read(event: JsonObject, _origin: str) -> str:
    names = [str(name) for name in as_list(event.get("names"))]
    return f"read skills: {enumerated(names, _HITS_ROOM)}" if names else "asked for unknown skills"


def _server(event: JsonObject, _origin: str) -> str:
    return f"server {event.get('server')} FAILED: {event.get('reason')}" if has_failed(event) else ""


def _redefined(event: JsonObject, _origin: str) -> str:
    keys = ", ".join(str(key) for key in as_list(event.get("keys")))
    return f"server {event.get('server')} {event.get('change')} {event.get('tool_name')}" + (
        f": {keys}" if keys else ""
    )


def _reloaded(event: JsonObject, _origin: str) -> str:
    return "the config was reloaded" if event.get("ok") else f"the config was rejected: {event.get('reason')}"


def _replaced(event: JsonObject, _origin: str) -> str:
    return f"{event.get('file')} was rebuilt: {event.get('reason')}"


_SUMMARIES: Mapping[str, Callable[[JsonObject, str], str]] = {
    "tool_search_query": _search,
    "tool_call": _call,
    "program_run": _program,
    "tool_call_not_run": _not_run,
    "tool_activation_denied": _refused,
    "server_request": _server_request,
    "server_request_denied": _denied_request,
    "skill_search_query": _skill_search,
    "skill_get": _skills_read,
    "downstream_state": _server,
    "definition_changed": _redefined,
    "config_reloaded": _reloaded,
    "index_rebuilt": _replaced,
    "state_replaced": _replaced,
}


def _quoted(event: JsonObject) -> str:
    return f'"{one_line(str(event.get("query")))}"'


def _duration(event: JsonObject) -> str:
    spent: Any = event.get("duration_ms")
    if not isinstance(spent, int | float):
        return ""
    return f"{spent:.0f} ms" if spent < 1000 else f"{spent / 1000:.1f} s"


def _local_time(event: JsonObject) -> str:
    at = time_of(event)
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else "?"


_LOOK_S = 0.2
_CHUNK = 1 << 20


def recorded(file: Path) -> Iterator[JsonObject]:
    """Yield the stored events, oldest first; lines that are not events are skipped, and there are none without a file.

    Raises:
        OSError: the file exists and cannot be read.

    """
    for each in (_before(file), file):
        if not each.is_file():
            continue
        # A process that was killed may have left half a character.
        with each.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                event = _event(line)
                if event:
                    yield event


def followed(file: Path, pause: Callable[[float], None]) -> Iterator[JsonObject]:
    """Yield the stored events and then, endlessly, new ones; ``pause`` waits for a number of seconds.

    Raises:
        OSError: the file exists and cannot be read.

    """
    for each in chain([_before(file)], repeat(file)):
        try:
            lines = each.open("rb")
        except FileNotFoundError:
            if each == file:
                pause(_LOOK_S)
            continue
        with lines:
            yield from _until_replaced(file, lines, pause)


def _until_replaced(file: Path, lines: BinaryIO, pause: Callable[[float], None]) -> Iterator[JsonObject]:
    """Yield the lines of an open file, including new ones until ``file`` is replaced."""
    rest = b""
    while True:
        is_last_look = not _is_at(file, lines)  # checked first: nothing is appended after that
        while chunk := lines.read(_CHUNK):
            # The last line may still be in the middle of being written.
            *whole, rest = (rest + chunk).split(b"\n")
            yield from filter(None, (_event(line.decode("utf-8", "replace")) for line in whole))
        if is_last_look:
            return
        pause(_LOOK_S)


def _is_at(file: Path, lines: BinaryIO) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(file.stat(), os.fstat(lines.fileno()))
    return False


def _before(file: Path) -> Path:
    return file.with_name(f"{file.name}.1")


def _event(line: str) -> JsonObject:
    try:
        event = as_object(json.loads(line))
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event.get("event"), str) and isinstance(event.get("ts"), str) else {}
