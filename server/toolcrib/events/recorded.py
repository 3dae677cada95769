"""Events read back: each line of the file, and of the one before it, as it was written.

Knows the files and that a line may be cut off or another program's; never knows what an event is about.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from toolcrib.base.json_values import as_object
from toolcrib.model import JsonObject


def recorded(file: Path) -> Iterator[JsonObject]:
    """Yield the events that are kept, the oldest first; what is no event is left out, and nothing where no file is.

    Raises:
        OSError: a file is there and cannot be read.

    """
    for each in (file.with_name(f"{file.name}.1"), file):
        if not each.is_file():
            continue
        with each.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                event = _event(line)
                if event:
                    yield event


def _event(line: str) -> JsonObject:
    try:
        event = as_object(json.loads(line))
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event.get("event"), str) and isinstance(event.get("ts"), str) else {}
