"""Connects clients to toolcrib and disconnects them: by edits of their files, or by their own commands.

Each change is recorded, with a copy of the file, so that it can be undone; both are private.
"""

import hashlib
import json
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import ToolcribError
from toolcrib.base.json_values import as_list, as_object, value_at
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line
from toolcrib.clients.entries import IS_TOOLCRIB
from toolcrib.clients.importing import EntryCheck, all_inlined, identity, missing_rules
from toolcrib.clients.known import Client, EntryShape, OwnCommand, UserEnvironment
from toolcrib.clients.reading import FoundFile, FoundServer, find_files, servers_in
from toolcrib.config.documents import parse_any
from toolcrib.config.editing.changes import Change, RemoveMember, SetMember, apply_changes
from toolcrib.config.editing.files import PRIVATE_MODE, EditRefused, Original, read_original, replace_file
from toolcrib.config.launching import starts_toolcrib
from toolcrib.config.paths import CONNECTIONS, user_data_root
from toolcrib.config.switches import switched_on

ENTRY = "toolcrib"
"""The name of our entry in a client's file."""

_DEADLINE_S = 60
_SAID_MAX = 300
_GRACE_S = 5


@dataclass(frozen=True, slots=True)
class Removed:
    """A server that is taken out of a client's file: where it stood, and what it was."""

    place: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Staying:
    """A server that is left in a client's file, and why: toolcrib would not serve it in the client's stead."""

    place: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Behind:
    """The servers of toolcrib's own config: the ``document`` that has them, and what its variables stand for.

    ``unserved`` says of servers, by key, why toolcrib would not serve them when the client starts it with these
    variables; it says nothing of those that it would. It may start them to find out.
    """

    document: JsonObject
    check: EntryCheck
    unserved: Callable[[Sequence[str], Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    """How connecting a client changes its file: ``original``, our ``entry`` at ``place``, and the servers to remove.

    ``previous`` is the value at ``place`` now, None if there is none. ``staying`` are the servers that are not removed
    though that was wanted. ``commands`` are the client's own that make the change; none where it has none, is not
    installed, or more than our entry changes.
    """

    client: Client
    original: Original
    place: tuple[str, ...]
    entry: JsonObject
    previous: Any
    removed: tuple[Removed, ...]
    staying: tuple[Staying, ...]
    commands: tuple[Sequence[str], ...]

    @property
    def is_there(self) -> bool:
        """Whether the file has exactly this entry already."""
        return self.previous == self.entry


def plan_connection(
    client: Client, command: Sequence[str], user: UserEnvironment, behind: Behind | None = None
) -> ConnectionPlan:
    """Return what has to be changed for ``client`` to start toolcrib with ``command``.

    Those of the client's servers that are ``behind`` toolcrib, and that it serves, are taken out; None: none of them.

    Raises:
        ToolcribError: the file of the client cannot be read.

    """
    with _changing(file := config_path(client, user)):
        original = read_original(file)
    # Parsed before anything is asked: a file that cannot be edited is not offered to be.
    document = parse_document(original)
    place = _place(client, document)
    removed: list[Removed] = []
    staying: list[Staying] = []
    if behind is not None:
        found = servers_in(document, FoundFile(client, original.path), user, in_project=False)
        for server, reason in _replaceable(found, behind):
            if reason:
                staying.append(Staying(server.place, reason))
            else:
                removed.append(Removed(server.place, value_at(document, server.place)))
    previous = value_at(document, place)
    entry = _with_additions(toolcrib_entry(client, command), previous)
    commands: list[Sequence[str]] = []
    own = None if removed else _own_command(client, user)
    if own:
        # Clients refuse to add a name that they have.
        commands += [] if previous is None else [_filled(own.remove)]
        commands.append(_filled(own.add, json.dumps(entry, ensure_ascii=False), command))
    return ConnectionPlan(client, original, place, entry, previous, tuple(removed), tuple(staying), tuple(commands))


def connect(plan: ConnectionPlan, user: UserEnvironment) -> "Record":
    """Make the planned change, and return the record of it, by which it can be undone.

    Raises:
        ToolcribError: the file cannot be changed, or the client's own command has failed.

    """
    file, name, records = plan.original.path, plan.client.key, Records(user.environ)
    changes = [*(RemoveMember(each.place) for each in plan.removed), SetMember(plan.place, plan.entry)]
    changed = None if plan.commands else apply_edits(plan.original, changes)
    with _changing(file):
        # Connected twice: disconnecting restores the state before the first time. Who has taken our entry out by hand
        # begins anew.
        before = records.load(name) if plan.previous is not None else None
        is_as_left = before is None or digest(plan.original.content or b"") == before.after
        # The copy is made, and the record saved, around the change: a crash between them leaves the person a copy.
        backup = before.backup if before and is_as_left else records.back_up(name, file, time.time())
        for words in plan.commands:
            _run_client(words, user.environ)
        if changed is not None:
            replace_file(file, changed)
        after = read_original(file)
        record = Record(
            client=name,
            file=str(file),
            place=plan.place,
            # A file with changes of others is never restored byte for byte: they would be lost.
            after=digest(after.content or b"") if is_as_left else "",
            backup=backup,
            previous=before.previous if before else plan.previous,
            removed=(*(before.removed if before else ()), *plan.removed),
        )
        records.save(record)
    # A command of the client that reports success may still have written elsewhere.
    if plan.commands and value_at(parse_document(after), plan.place) is None:
        raise ToolcribError(f"{plan.client.title} reported that it added toolcrib, but {file} does not contain it.")
    return record


@dataclass(frozen=True, slots=True)
class DisconnectionPlan:
    """How disconnecting a client changes its file: ``original``, and ``content`` after that.

    ``is_restored``: that is the content before it was connected, byte for byte. ``record`` is that of the connection,
    None if there is none.
    """

    client: Client
    original: Original
    record: "Record | None"
    content: bytes | None
    is_restored: bool

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to change."""
        return self.content != self.original.content

    @property
    def how(self) -> str:
        """How the file is changed, for people."""
        if self.is_restored:
            return "restored byte for byte"
        return "edited to remove toolcrib, because it has changed since"


def plan_disconnection(client: Client, user: UserEnvironment) -> DisconnectionPlan:
    """Return what has to be changed for ``client`` to no longer start toolcrib.

    Raises:
        ToolcribError: its file cannot be read, or not be changed without a guess.

    """
    record = Records(user.environ).load(client.key)
    file = Path(record.file) if record is not None else config_path(client, user)
    with _changing(file):
        original = read_original(file)
        before = read_original(Path(record.backup)).content if record is not None and record.backup else None
    # Byte for byte only if the file has not changed since: other changes of the person stay.
    is_ours = record is not None and digest(original.content or b"") == record.after
    is_restored = is_ours and record is not None and (record.backup is None or before is not None)
    content = before if is_restored else _without_toolcrib(client, original, record)
    return DisconnectionPlan(client, original, record, content, is_restored)


def disconnect(plan: DisconnectionPlan, user: UserEnvironment) -> str:
    """Make the planned change, and return how the file was changed, for people.

    Raises:
        ToolcribError: the file cannot be changed, or the client's own command has failed.

    """
    file, record, how = plan.original.path, plan.record, plan.how
    # The client's own command cannot give back what our entry took the place of.
    gives_back = record is not None and (record.removed or record.previous is not None)
    own = None if plan.is_restored or gives_back else _own_command(plan.client, user)
    with _changing(file):
        if own:
            _run_client(_filled(own.remove), user.environ)
            how = f"changed by {plan.client.title} itself"
        elif plan.content is None:
            file.unlink(missing_ok=True)
        else:
            replace_file(file, plan.content)
    if record is not None:
        Records(user.environ).forget(record)
    return how


def _without_toolcrib(client: Client, original: Original, record: "Record | None") -> bytes | None:
    """Return a file that was changed since: without our entry, and with what that took the place of."""
    if original.content is None:
        return None
    document = parse_document(original)
    place = record.place if record is not None else (*client.places[0], ENTRY)
    if value_at(document, place) is None:
        return original.content
    previous = None if record is None else record.previous
    changes: list[Change] = [RemoveMember(place) if previous is None else SetMember(place, previous)]
    removed = () if record is None else record.removed
    changes += [SetMember(each.place, each.value) for each in removed if value_at(document, each.place) is None]
    return apply_edits(original, changes)


@contextmanager
def _changing(file: Path) -> Generator[None]:
    """Name the file in an error of the disk."""
    try:
        yield
    except OSError as error:
        raise ToolcribError(f"{file} could not be changed: {error.strerror}") from error


def _own_command(client: Client, user: UserEnvironment) -> OwnCommand | None:
    """Return the client's own commands; None where it has none, or is not on the person's search path."""
    own = client.own
    return own if own and shutil.which(own.add[0], path=user.environ.get("PATH", "")) else None


def _filled(template: Sequence[str], entry: str = "", command: Sequence[str] = ()) -> list[str]:
    """Return the words of a client's command with the name of our entry, the entry and its command filled in."""
    words: list[str] = []
    for word in template:
        words += command if word == "{command}" else [word.replace("{name}", ENTRY).replace("{json}", entry)]
    return words


def _run_client(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a client's command to its end.

    Raises:
        ToolcribError: it failed, or took too long.

    """
    # On Windows these are .cmd files, which a bare name does not start.
    program = shutil.which(words[0], path=environ.get("PATH", "")) or words[0]
    try:
        done = subprocess.run(  # noqa: S603 - what the person asked for, without a shell
            [program, *words[1:]],
            env=dict(environ),
            # A client that asks something would wait for ever.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolcribError(f"`{words[0]} {words[1]} {words[2]}` failed: {one_line(str(error))[:_SAID_MAX]}") from None
    if done.returncode:
        said = one_line(done.stderr or done.stdout)[:_SAID_MAX]
        raise ToolcribError(f"`{words[0]} {words[1]} {words[2]}` ended with {done.returncode}: {said}")


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


_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "toolcrib-doctor", "version": "1"},
    },
}


def why_not_answered(words: Sequence[str], environ: Mapping[str, str], within_s: float) -> str:
    """Start what a client would start, shake hands, and end it; return why that did not work, empty where it did."""
    try:
        process = subprocess.Popen(  # noqa: S603 - what stands in the person's own file, as its client starts it
            list(words), env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(json.dumps(_HELLO).encode() + b"\n")
        process.stdin.flush()
        # Waited for with a deadline: a read of the pipe alone would hang with a program that says nothing.
        ready, _, _ = select.select([process.stdout], [], [], within_s)
        if not ready:
            return f"no answer within {within_s:.0f} s"
        if b'"result"' in process.stdout.readline():
            return ""
        process.kill()
        # The last line of a traceback or of a shell says what was wrong.
        said = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return one_line(said[-1])[:_SAID_MAX] if said else "it exited without an answer"
    except BrokenPipeError:
        return "it exited immediately"
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()
    try:
        # Its input is closed by now, which ends a server over stdio.
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
        reason = "is nested too deeply" if isinstance(error, RecursionError) else error
        raise ToolcribError(f"{original.path} cannot be read and was not changed: it {reason}") from None
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


def _with_additions(entry: JsonObject, previous: Any) -> JsonObject:
    """Return our entry with what a person has added to the one that is there, such as variables, if it is ours."""
    before = as_object(previous)
    words = [before.get("command") or before.get("cmd"), *as_list(before.get("args"))]
    flat = [str(word) for each in words for word in (as_list(each) or [each])]
    return {**switched_on(before), **entry} if starts_toolcrib(flat[0], flat[1:]) else entry


def _replaceable(found: Sequence[FoundServer], behind: Behind) -> Iterator[tuple[FoundServer, str]]:
    """Yield a client's servers, each with why toolcrib cannot take its place; empty where it can."""
    inlined, check = all_inlined(found), behind.check
    # By identity, not by name: the import may have renamed a server. By what its variables stand for: an entry that
    # fits any account would take away one that toolcrib does not have.
    entries = as_object(behind.document.get("mcpServers"))
    own = {key: identity(check.filled(as_object(entry)), inlined) for key, entry in entries.items()}
    matches: list[tuple[FoundServer, list[str]]] = []
    for server in found:
        if server.read.lost != IS_TOOLCRIB:
            same = identity(check.filled(server.read.entry), inlined)
            keys = [] if server.read.lost else [key for key, each in own.items() if each.fits(same)]
            matches.append((server, keys))
    ours = (as_object(server.read.entry.get("env")) for server in found if server.read.lost == IS_TOOLCRIB)
    variables = {name: str(value) for name, value in (next(ours, None) or {}).items()}
    unserved = behind.unserved(list(dict.fromkeys(key for _, keys in matches for key in keys)), variables)
    for server, keys in matches:
        if server.read.lost:
            yield server, f"it {server.read.lost}"
        elif not keys:
            yield server, "toolcrib's config does not have it; `toolcrib init` adds it"
        elif all(key in unserved for key in keys):
            yield server, unserved[keys[0]]
        else:
            yield server, missing_rules(behind.document, server, check)


@dataclass(frozen=True, slots=True)
class Record:
    """One client that was connected: its file, where our entry stands and what it took the place of.

    ``after`` is the digest of the file as we left it, empty where others had changed it before we did so again.
    ``backup`` is a copy of the file as it was before, None where there was none; ``previous`` what stood at ``place``
    before.
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
        """Return the record of a client; None where it was not connected, or the record is damaged."""
        try:
            # A damaged record counts as none: the entry is then removed by an edit, not by restoring a copy.
            stored = as_object(json.loads(self._path(client).read_text(encoding="utf-8")))
            return _record(stored)
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
        """Copy a file under a name with the time, and return the name; None if there is no file.

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


def _record(stored: JsonObject) -> Record:
    removed = (as_object(each) for each in as_list(stored.get("removed")))
    return Record(
        client=str(stored["client"]),
        file=str(stored["file"]),
        place=tuple(cast("list[str]", stored["place"])),
        after=str(stored["after"]),
        backup=None if stored["backup"] is None else str(stored["backup"]),
        previous=stored.get("previous"),
        removed=tuple(Removed(tuple(cast("list[str]", each["place"])), each["value"]) for each in removed),
    )
