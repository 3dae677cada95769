"""Records of the changes to clients' files, with backups, so that they can be undone.

All of it is private.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import ToolcribError
from toolcrib.base.json_values import as_list, as_object, value_at
from toolcrib.base.model import JsonObject
from toolcrib.clients.entries import IS_TOOLCRIB
from toolcrib.clients.importing import all_inlined, identity
from toolcrib.clients.known import Client, EntryShape, UserEnvironment
from toolcrib.clients.reading import FoundFile, FoundServer, find_files, servers_in
from toolcrib.config.documents import parse_any
from toolcrib.config.editing.changes import Change, RemoveMember, SetMember, apply_changes
from toolcrib.config.editing.files import PRIVATE_MODE, EditRefused, Original, read_original, replace_file
from toolcrib.config.paths import CONNECTIONS, user_data_root

ENTRY = "toolcrib"
"""The name of our entry in a client's file."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A server that is taken out of a client's file: where it stood, and what it was."""

    place: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    """What connecting a client changes: its file as it is, our entry at ``place``, and the servers that go.

    ``previous`` is what stands at ``place`` now, None where nothing does.
    """

    client: Client
    original: Original
    place: tuple[str, ...]
    entry: JsonObject
    previous: Any = None
    removed: tuple[Removed, ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether the file has exactly this entry already."""
        return self.previous == self.entry

    @property
    def changes(self) -> list[Change]:
        """The changes of the file."""
        return [*(RemoveMember(each.place) for each in self.removed), SetMember(self.place, self.entry)]

    @property
    def content(self) -> bytes:
        """The file with them.

        Raises:
            ToolcribError: it cannot be changed; the text says what to write by hand.

        """
        return apply_edits(self.original, self.changes)


def plan_connection(
    client: Client, command: Sequence[str], user: UserEnvironment, behind: JsonObject, *, replace: bool
) -> ConnectionPlan:
    """Return what has to be changed for ``client`` to start toolcrib with ``command``.

    ``behind`` is toolcrib's own config. With ``replace``, the client's servers that it has too are taken out.

    Raises:
        ToolcribError: the file of the client cannot be read.

    """
    original = read_original(config_path(client, user))
    # Parsed before anything is asked: a file that cannot be edited is not offered to be.
    document = parse_document(original)
    place = _place(client, document)
    removed: list[Removed] = []
    if replace:
        found = servers_in(document, FoundFile(client, original.path), user, in_project=False)
        removed = [Removed(each.place, value_at(document, each.place)) for each in _behind(found, behind)]
    return ConnectionPlan(
        client, original, place, toolcrib_entry(client, command), value_at(document, place), removed=tuple(removed)
    )


@dataclass(frozen=True, slots=True)
class ConnectedEntry:
    """An entry of a client's file that starts toolcrib: the words of its command, and the variables that it sets."""

    client: Client
    file: Path
    command: tuple[str, ...]
    env: Mapping[str, str]


def connected_entries(user: UserEnvironment) -> Iterator[ConnectedEntry]:
    """Yield the entries in files of clients for this person that start toolcrib."""
    for found in find_files(user):
        for server in found.servers:
            if server.read.lost == IS_TOOLCRIB:
                entry = server.read.entry
                command = (entry["command"], *as_list(entry.get("args")))
                env = {name: str(value) for name, value in as_object(entry.get("env")).items()}
                yield ConnectedEntry(found.client, found.file, command, env)


def config_path(client: Client, user: UserEnvironment) -> Path:
    """Return the file that an entry for this person is written to: the first that is there, else the first."""
    files = [user.locate(file) for file in client.files if not file.is_project and not file.is_old]
    return next((file for file in files if file.exists()), files[0])


def toolcrib_entry(client: Client, command: Sequence[str]) -> JsonObject:
    """Return our entry as the client writes the entries of its servers."""
    program, *arguments = command
    if client.shape is EntryShape.COMMAND_LIST:
        return {**client.entry, "command": [program, *arguments]}
    if client.shape is EntryShape.GOOSE:
        return {"name": ENTRY, **client.entry, "cmd": program, "args": arguments}
    return {**client.entry, "command": program, "args": arguments}


def parse_document(original: Original) -> JsonObject:
    """Return what a file holds; nothing where it is not there or empty.

    Raises:
        ToolcribError: it cannot be read.

    """
    document: Any = {}
    try:
        text = original.text.removeprefix("\ufeff")
        if text.strip():
            document = parse_any(text, original.path)
    except (ValueError, RecursionError) as error:
        raise ToolcribError(f"{original.path} cannot be read and was not changed: it {error}") from None
    if not isinstance(document, dict):
        raise ToolcribError(f"{original.path} is not an object and was not changed.")
    return as_object(document)


def apply_edits(original: Original, changes: Sequence[Change]) -> bytes:
    """Return a file with changes made in its text.

    Raises:
        ToolcribError: it cannot be changed without a guess.

    """
    try:
        return apply_changes(original.text, original.path, changes).encode()
    except (EditRefused, UnicodeDecodeError) as error:
        raise ToolcribError(f"{original.path} was not changed, because it {error}. Edit it manually.") from None


def digest(content: bytes) -> str:
    """Return what tells whether a file is still as it was written."""
    return hashlib.sha256(content).hexdigest()


def _place(client: Client, document: JsonObject) -> tuple[str, ...]:
    """Return where our entry goes: below the first of the client's places, or a deeper one that the file uses."""
    # opencode's second version has its servers one level further down.
    deeper = [place for place in client.places[1:] if place[:-1] == client.places[0] and "*" not in place]
    place = next((each for each in deeper if isinstance(value_at(document, each), dict)), client.places[0])
    return (*place, ENTRY)


def _behind(found: Sequence[FoundServer], behind: JsonObject) -> Iterator[FoundServer]:
    """Yield those of a client's servers that toolcrib's config has too."""
    inlined = all_inlined(found)
    # By identity, not by name: the import may have renamed a server.
    own = [identity(as_object(entry), inlined) for entry in as_object(behind.get("mcpServers")).values()]
    for server in found:
        same = identity(server.read.entry, inlined)
        if not server.read.lost and server.name != ENTRY and any(each.fits(same) for each in own):
            yield server


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
        self._folder = user_data_root(environ) / CONNECTIONS

    def load(self, client: str) -> Record | None:
        """Return the record of a client; None where it was not connected, or nothing can be made of what was kept."""
        try:
            # A damaged record counts as none: the entry is then removed by an edit, not by restoring a copy.
            kept = as_object(json.loads(self._path(client).read_text(encoding="utf-8")))
            return _record(kept)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, record: Record) -> None:
        """Keep a record, in the place of the one that the client has.

        Raises:
            OSError: it cannot be written.

        """
        # YAML values such as dates have no form in JSON.
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
