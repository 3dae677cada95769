"""Reads recorded events: each line of the file and of its predecessor, also while they grow.

Knows the files and that a line may be cut off or another program's; never knows what an event is about.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO

from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject

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
