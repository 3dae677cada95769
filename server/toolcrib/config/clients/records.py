"""Records of the changes to clients' files, with backups, so that they can be undone.

Knows one folder of records and copies; never knows how a client's file is written. All of it is private.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.clients.connecting import Removed
from toolcrib.config.editing.files import PRIVATE_MODE, read_original, replace_file
from toolcrib.config.paths import user_connections_dir


@dataclass(frozen=True, slots=True)
class Record:
    """One client that was connected: its file, where our entry stands and what it took the place of.

    ``after`` is the digest of the file as we left it. ``backup`` is a copy of the file as it was before, None where
    there was none; ``previous`` what stood at ``place`` before.
    """

    client: str
    file: str
    place: tuple[str, ...]
    after: str
    backup: str | None
    previous: Any = None
    removed: tuple[Removed, ...] = ()


class Records:
    """The records of one person."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = user_connections_dir(environ)

    def of(self, client: str) -> Record | None:
        """Return the record of a client; None where it was not connected, or nothing can be made of what was kept."""
        try:
            kept = as_object(json.loads(self._path(client).read_text(encoding="utf-8")))
            return _record(kept)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, record: Record) -> None:
        """Keep a record, in the place of the one that the client has.

        Raises:
            OSError: it cannot be written.

        """
        text = json.dumps(asdict(record), indent=2, default=str)
        replace_file(self._path(record.client), text.encode(), mode=PRIVATE_MODE)

    def forget(self, record: Record) -> None:
        """Remove a record; the copy of the file stays."""
        self._path(record.client).unlink(missing_ok=True)

    def back_up(self, client: str, file: Path, now: float) -> str | None:
        """Copy a file as it is, under a name with the time, and return the name; None where there is no file.

        Raises:
            OSError: it cannot be read or written.

        """
        content = read_original(file).content
        if content is None:
            return None
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        copy = self._folder / f"{client}-{stamp}-{file.name}"
        replace_file(copy, content, mode=PRIVATE_MODE)
        return str(copy)

    def _path(self, client: str) -> Path:
        return self._folder / f"{client}.json"


def _record(kept: JsonObject) -> Record:
    removed = (as_object(each) for each in as_list(kept.get("removed")))
    return Record(
        client=str(kept["client"]),
        file=str(kept["file"]),
        place=tuple(cast("list[str]", kept["place"])),
        after=str(kept["after"]),
        backup=None if kept["backup"] is None else str(kept["backup"]),
        previous=kept.get("previous"),
        removed=tuple(Removed(tuple(cast("list[str]", each["place"])), each["value"]) for each in removed),
    )
