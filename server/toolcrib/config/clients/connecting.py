"""Adds toolcrib to a client's config file, and removes it again.

Knows how our entry is written there and what it replaces; never knows a terminal, and starts nothing.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.base.errors import ToolcribError
from toolcrib.base.json_values import as_list, as_object, value_at
from toolcrib.base.model import JsonObject
from toolcrib.config.clients.descriptions import Client, EntryShape, Surroundings
from toolcrib.config.clients.drafting import all_inlined, identity
from toolcrib.config.clients.entries import IS_TOOLCRIB
from toolcrib.config.clients.reading import FoundFile, FoundServer, find_files, servers_in
from toolcrib.config.documents import parse_any
from toolcrib.config.editing.changes import Change, Drop, Put, changed
from toolcrib.config.editing.files import EditRefused, Original, read_original

ENTRY = "toolcrib"
"""The name of our entry in a client's file."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A server that is taken out of a client's file: where it stood, and what it was."""

    place: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Connection:
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
        return [*(Drop(each.place) for each in self.removed), Put(self.place, self.entry)]

    @property
    def content(self) -> bytes:
        """The file with them.

        Raises:
            ToolcribError: it cannot be changed; the text says what to write by hand.

        """
        return edited(self.original, self.changes)


def connection(
    client: Client, command: Sequence[str], here: Surroundings, behind: JsonObject, *, replace: bool
) -> Connection:
    """Return what has to be changed for ``client`` to start toolcrib with ``command``.

    ``behind`` is toolcrib's own config. With ``replace``, the client's servers that it has too are taken out.

    Raises:
        ToolcribError: the file of the client cannot be read.

    """
    original = read_original(file_of(client, here))
    document = document_of(original)
    place = _place(client, document)
    removed: list[Removed] = []
    if replace:
        found = servers_in(document, FoundFile(client, original.path), here, in_project=False)
        removed = [Removed(each.place, value_at(document, each.place)) for each in _behind(found, behind)]
    return Connection(
        client, original, place, entry_of(client, command), value_at(document, place), removed=tuple(removed)
    )


@dataclass(frozen=True, slots=True)
class Connected:
    """An entry of a client's file that starts toolcrib: the words of its command, and the variables that it sets."""

    client: Client
    file: Path
    command: tuple[str, ...]
    env: Mapping[str, str]


def connected(here: Surroundings) -> Iterator[Connected]:
    """Yield the entries in files of clients for this person that start toolcrib."""
    for found in find_files(here):
        for server in found.servers:
            if server.read.lost == IS_TOOLCRIB:
                entry = server.read.entry
                command = (entry["command"], *as_list(entry.get("args")))
                env = {name: str(value) for name, value in as_object(entry.get("env")).items()}
                yield Connected(found.client, found.file, command, env)


def file_of(client: Client, here: Surroundings) -> Path:
    """Return the file that an entry for this person is written to: the first that is there, else the first."""
    files = [here.place(file) for file in client.files if not file.is_project and not file.is_old]
    return next((file for file in files if file.exists()), files[0])


def entry_of(client: Client, command: Sequence[str]) -> JsonObject:
    """Return our entry as the client writes the entries of its servers."""
    program, *arguments = command
    if client.shape is EntryShape.COMMAND_LIST:
        return {**client.entry, "command": [program, *arguments]}
    if client.shape is EntryShape.GOOSE:
        return {"name": ENTRY, **client.entry, "cmd": program, "args": arguments}
    return {**client.entry, "command": program, "args": arguments}


def document_of(original: Original) -> JsonObject:
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


def edited(original: Original, changes: Sequence[Change]) -> bytes:
    """Return a file with changes made in its text.

    Raises:
        ToolcribError: it cannot be changed without a guess.

    """
    try:
        return changed(original.text, original.path, changes).encode()
    except (EditRefused, UnicodeDecodeError) as error:
        raise ToolcribError(f"{original.path} was not changed, because it {error}. Edit it manually.") from None


def digest(content: bytes) -> str:
    """Return what tells whether a file is still as it was written."""
    return hashlib.sha256(content).hexdigest()


def _place(client: Client, document: JsonObject) -> tuple[str, ...]:
    """Return where our entry goes: below the first of the client's places, or a deeper one that the file uses."""
    deeper = [place for place in client.places[1:] if place[:-1] == client.places[0] and "*" not in place]
    place = next((each for each in deeper if isinstance(value_at(document, each), dict)), client.places[0])
    return (*place, ENTRY)


def _behind(found: Sequence[FoundServer], behind: JsonObject) -> Iterator[FoundServer]:
    """Yield those of a client's servers that toolcrib's config has too."""
    inlined = all_inlined(found)
    own = [identity(as_object(entry), inlined) for entry in as_object(behind.get("mcpServers")).values()]
    for server in found:
        same = identity(server.read.entry, inlined)
        if not server.read.lost and server.name != ENTRY and any(each.fits(same) for each in own):
            yield server
