"""``toolcrib connect`` and ``disconnect``: adds toolcrib to a client, and removes it again."""

import json
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import ToolcribError
from toolcrib.base.text import one_line
from toolcrib.cli.importing import client_named, target_file, user_environment
from toolcrib.cli.output import ConfigOption, ExitCode, JsonOption, YesOption, confirmed, print_json, print_text

if TYPE_CHECKING:
    from toolcrib.clients.connecting import ConnectionPlan, Record
    from toolcrib.clients.known import Client, UserEnvironment
    from toolcrib.config.editing.files import Original

_DEADLINE_S = 60
_SAID_MAX = 300
_GRACE_S = 5


def fill_template(template: Sequence[str], name: str, entry: str, command: Sequence[str]) -> list[str]:
    """Return the words of a client's command with the name of our entry, the entry and its command filled in."""
    words: list[str] = []
    for word in template:
        words += command if word == "{command}" else [word.replace("{name}", name).replace("{json}", entry)]
    return words


def run_client(words: Sequence[str], environ: Mapping[str, str]) -> None:
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


ClientArgument = Annotated[
    str, typer.Argument(metavar="CLIENT", help="claude-code, cursor, vscode …; `toolcrib init` lists those it finds.")
]


@dataclass(frozen=True, slots=True)
class _Reply:
    """How a person is asked and answered: ``yes`` asks nothing, ``quiet`` prints nothing."""

    yes: bool
    as_json: bool
    quiet: bool = False


def connect(
    client: ClientArgument,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the servers behind toolcrib from the client's own list.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="The same as `toolcrib disconnect`.")] = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add toolcrib to a client. Shows the change, asks, and backs up the file."""
    from toolcrib.clients.connecting import plan_connection
    from toolcrib.clients.importing import existing_document

    known, user, answer = client_named(client), user_environment(), _Reply(yes, as_json)
    if undo:
        _disconnect(known, user, answer)
        return
    target = target_file(config, user)
    command = [toolcrib_program(), "serve", *_config_words(config, target)]
    # Planned before anything is asked, so that a file that cannot be edited fails first.
    planned = plan_connection(known, command, user, existing_document(target), replace=replace)
    if not target.exists():
        print_text(f"There is no config yet, so it will serve no server; `toolcrib init` makes {target}.", error=True)
    if planned.is_there and not planned.removed:
        _tell(answer, planned.original.path, f"{known.title} is already connected.", written=False)
        return
    own = _own_words(planned, user, command)
    if not as_json:
        _show(planned, own)
    if not _agreed(answer, planned.original.path):
        raise typer.Exit(ExitCode.FAILED)
    record = _write(planned, own, user)
    copy = f" The previous file is kept as {record.backup}." if record.backup else ""
    text = f"{known.title} starts toolcrib from now on; restart the client.{copy}"
    _tell(answer, planned.original.path, text, written=True)


def disconnect(client: ClientArgument, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Remove toolcrib from a client, and restore the servers it replaced."""
    _disconnect(client_named(client), user_environment(), _Reply(yes, as_json))


def remove_from_client(client: "Client", user: "UserEnvironment", *, quiet: bool) -> None:
    """Remove toolcrib from a client as ``disconnect`` does, without asking.

    Raises:
        ToolcribError: the client's file cannot be changed.

    """
    _disconnect(client, user, _Reply(yes=True, as_json=False, quiet=quiet))


def toolcrib_program() -> str:
    """Return the path of the command ``toolcrib`` that a client can start: the one of this installation."""
    beside = shutil.which("toolcrib", path=str(Path(sys.executable).parent))
    found = shutil.which("toolcrib")
    # What the person's search path has outlives an upgrade, as a link of pipx does, where it is this installation.
    if found and beside and Path(found).resolve() == Path(beside).resolve():
        return str(Path(found).absolute())
    program = beside or found
    if program is None:
        raise ToolcribError("The command toolcrib was not found: install it with pipx or uv, and try again.")
    return str(Path(program).absolute())


def _config_words(config: Path | None, target: Path) -> list[str]:
    """Return the option that names the config, where ``serve`` would not find it by itself."""
    import os

    # A client starts toolcrib without this shell's variables.
    by_itself = config is None and not os.environ.get("TOOLCRIB_CONFIG")
    return [] if by_itself else ["--config", str(target)]


def _own_words(planned: "ConnectionPlan", user: "UserEnvironment", command: Sequence[str]) -> list[list[str]]:
    """Return the client's own commands that make the change; none where it has none, is not there, or more goes."""
    from toolcrib.clients.connecting import ENTRY

    own = planned.client.own
    if own is None or planned.removed or not shutil.which(own.add[0], path=user.environ.get("PATH", "")):
        return []
    words = [fill_template(own.add, ENTRY, json.dumps(planned.entry, ensure_ascii=False), command)]
    if planned.previous is not None:
        # Clients refuse to add a name that they have.
        words.insert(0, fill_template(own.remove, ENTRY, "", []))
    return words


def _show(planned: "ConnectionPlan", own: Sequence[Sequence[str]]) -> None:
    if own:
        for words in own:
            print_text(f"run   {shlex.join(words)}")
        print_text(f"which changes {planned.original.path}:")
    else:
        print_text(f"{planned.original.path}{'' if planned.original.content is not None else ' (new)'}:")
    for each in planned.removed:
        print_text(f"  -  {'.'.join(each.place)}")
    print_text(f"  +  {'.'.join(planned.place)} = {json.dumps(planned.entry, ensure_ascii=False)}")


def _agreed(answer: _Reply, file: Path) -> bool:
    if confirmed(f"Change {file}?", yes=answer.yes, as_json=answer.as_json):
        return True
    print_text("Nothing was changed. Add --yes to change it without asking.", error=True)
    return False


def _write(planned: "ConnectionPlan", own: Sequence[Sequence[str]], user: "UserEnvironment") -> "Record":
    from toolcrib.base.json_values import value_at
    from toolcrib.clients.connecting import Record, Records, digest, parse_document
    from toolcrib.config.editing.files import read_original, replace_file

    file, name = planned.original.path, planned.client.key
    changed = None if own else planned.content
    try:
        records = Records(user.environ)
        before = records.load(name)
        # Connected twice: what is given back is what there was before the first time.
        if before is not None and digest(planned.original.content or b"") != before.after:
            before = None
        # The copy is made, and the record saved, around the change: a crash between them leaves the person a copy.
        backup = before.backup if before else records.back_up(name, file, time.time())
        for words in own:
            run_client(words, user.environ)
        if changed is not None:
            replace_file(file, changed)
        after = read_original(file)
        record = Record(
            client=name,
            file=str(file),
            place=planned.place,
            after=digest(after.content or b""),
            backup=backup,
            previous=before.previous if before else planned.previous,
            removed=(*(before.removed if before else ()), *planned.removed),
        )
        records.save(record)
    except OSError as error:
        raise ToolcribError(f"{file} could not be changed: {error.strerror}") from error
    if own and value_at(parse_document(after), planned.place) is None:
        raise ToolcribError(f"{planned.client.title} reported that it added toolcrib, but {file} does not contain it.")
    return record


def _disconnect(client: "Client", user: "UserEnvironment", answer: _Reply) -> None:
    from toolcrib.clients.connecting import Records, config_path, digest
    from toolcrib.config.editing.files import read_original, replace_file

    records = Records(user.environ)
    record = records.load(client.key)
    file = Path(record.file) if record is not None else config_path(client, user)
    try:
        original = read_original(file)
        is_ours = record is not None and digest(original.content or b"") == record.after
        before = read_original(Path(record.backup)).content if record is not None and record.backup else None
        # Byte for byte only where nobody has written since: other changes of the person stay.
        can_restore = is_ours and record is not None and (record.backup is None or before is not None)
        content = before if can_restore else _without(client, original, record)
        how = "restored byte for byte" if can_restore else "edited to remove toolcrib, because it has changed since"
        if content == original.content:
            _tell(answer, file, f"{client.title} is not connected.", written=False)
            return
        if not answer.as_json and not answer.quiet:
            print_text(f"{file} will be {how}.")
            for line in _returned(record, restored=can_restore):
                print_text(line)
        if not _agreed(answer, file):
            raise typer.Exit(ExitCode.FAILED)
        if not can_restore and _removed_by_itself(client, record, user):
            how = f"changed by {client.title} itself"
        elif content is None:
            file.unlink(missing_ok=True)
        else:
            replace_file(file, content)
    except OSError as error:
        raise ToolcribError(f"{file} could not be changed: {error.strerror}") from error
    if record is not None:
        records.forget(record)
    _tell(answer, file, f"{client.title} no longer starts toolcrib; restart the client. {file} is {how}.", written=True)


def _removed_by_itself(client: "Client", record: "Record | None", user: "UserEnvironment") -> bool:
    """Have the client take our entry out, where it has a command for that and nothing is to be given back."""
    from toolcrib.clients.connecting import ENTRY

    if client.own is None or not shutil.which(client.own.remove[0], path=user.environ.get("PATH", "")):
        return False
    if record is not None and (record.removed or record.previous is not None):
        return False
    run_client(fill_template(client.own.remove, ENTRY, "", []), user.environ)
    return True


def _without(client: "Client", original: "Original", record: "Record | None") -> bytes | None:
    """Return a file that was changed since: without our entry, and with what that took the place of."""
    from toolcrib.base.json_values import value_at
    from toolcrib.clients.connecting import ENTRY, apply_edits, parse_document
    from toolcrib.config.editing.changes import RemoveMember, SetMember

    if original.content is None:
        return None
    document = parse_document(original)
    place = record.place if record is not None else (*client.places[0], ENTRY)
    if value_at(document, place) is None:
        return original.content
    previous = None if record is None else record.previous
    changes: list[RemoveMember | SetMember] = [RemoveMember(place) if previous is None else SetMember(place, previous)]
    removed = () if record is None else record.removed
    changes += [SetMember(each.place, each.value) for each in removed if value_at(document, each.place) is None]
    return apply_edits(original, changes)


def _returned(record: "Record | None", *, restored: bool) -> "Iterator[str]":
    if record is None:
        return
    for each in record.removed:
        yield f"  +  {'.'.join(each.place)}"
    if not restored and record.backup:
        yield f"How it was before is kept as {record.backup}."


def _tell(answer: _Reply, file: Path, text: str, *, written: bool) -> None:
    if answer.as_json:
        print_json({"file": str(file), "written": written, "message": text})
    elif not answer.quiet:
        print_text(text)
