"""``toolcrib connect`` and ``disconnect``: adds toolcrib to a client, and removes it again."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import ToolcribError
from toolcrib.cli.importing import client_named, target_file, user_environment
from toolcrib.cli.output import ConfigOption, ExitCode, JsonOption, YesOption, confirmed, print_answer, print_text

if TYPE_CHECKING:
    from toolcrib.clients.connecting import ConnectionPlan
    from toolcrib.clients.known import Client, UserEnvironment

ClientArgument = Annotated[
    str, typer.Argument(metavar="CLIENT", help="claude-code, cursor, vscode …; `toolcrib init` lists those it finds.")
]


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
    from toolcrib.clients import connecting
    from toolcrib.clients.importing import existing_document

    known, user = client_named(client), user_environment()
    if undo:
        _disconnect(known, user, yes=yes, as_json=as_json)
        return
    target = target_file(config, user)
    command = [toolcrib_program(), "serve", *_config_words(config, target)]
    # Planned before anything is asked, so that a file that cannot be edited fails first.
    plan = connecting.plan_connection(known, command, user, existing_document(target), replace=replace)
    file = plan.original.path
    if not target.exists():
        print_text(f"There is no config yet, so it will serve no server; `toolcrib init` makes {target}.", error=True)
    if plan.is_there and not plan.removed:
        _report(file, f"{known.title} is already connected.", written=False, as_json=as_json)
        return
    if not as_json:
        _show(plan)
    _require_consent(file, yes=yes, as_json=as_json)
    record = connecting.connect(plan, user)
    copy = f" The previous file is kept as {record.backup}." if record.backup else ""
    text = f"{known.title} starts toolcrib from now on; restart the client.{copy}"
    _report(file, text, written=True, as_json=as_json)


def disconnect(client: ClientArgument, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Remove toolcrib from a client, and restore the servers it replaced."""
    _disconnect(client_named(client), user_environment(), yes=yes, as_json=as_json)


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
    # A client starts toolcrib without this shell's variables.
    by_itself = config is None and not any(os.environ.get(name) for name in ("TOOLCRIB_CONFIG", "XDG_CONFIG_HOME"))
    return [] if by_itself else ["--config", str(target)]


def _show(plan: "ConnectionPlan") -> None:
    file = plan.original.path
    for words in plan.commands:
        print_text(f"run   {shlex.join(words)}")
    if plan.commands:
        print_text(f"which changes {file}:")
    else:
        print_text(f"{file}{'' if plan.original.content is not None else ' (new)'}:")
    for each in plan.removed:
        print_text(f"  -  {'.'.join(each.place)}")
    print_text(f"  +  {'.'.join(plan.place)} = {json.dumps(plan.entry, ensure_ascii=False)}")


def _disconnect(client: "Client", user: "UserEnvironment", *, yes: bool, as_json: bool) -> None:
    from toolcrib.clients import connecting

    plan = connecting.plan_disconnection(client, user)
    file = plan.original.path
    if not plan.is_needed:
        _report(file, f"{client.title} is not connected.", written=False, as_json=as_json)
        return
    if not as_json:
        print_text(f"{file} will be {plan.how}.")
        for each in plan.record.removed if plan.record else ():
            print_text(f"  +  {'.'.join(each.place)}")
        if plan.record and plan.record.backup and not plan.is_restored:
            print_text(f"How it was before is kept as {plan.record.backup}.")
    _require_consent(file, yes=yes, as_json=as_json)
    how = connecting.disconnect(plan, user)
    text = f"{client.title} no longer starts toolcrib; restart the client. {file} is {how}."
    _report(file, text, written=True, as_json=as_json)


def _require_consent(file: Path, *, yes: bool, as_json: bool) -> None:
    if not confirmed(f"Change {file}?", yes=yes, as_json=as_json):
        print_text("Nothing was changed. Add --yes to change it without asking.", error=True)
        raise typer.Exit(ExitCode.FAILED)


def _report(file: Path, text: str, *, written: bool, as_json: bool) -> None:
    print_answer({"file": str(file), "written": written, "message": text}, text, as_json=as_json)
