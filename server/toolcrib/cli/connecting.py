"""``toolcrib connect`` and ``disconnect``: adds toolcrib to a client, and removes it again."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import ConfigError, ToolcribError
from toolcrib.base.model import JsonObject
from toolcrib.cli.extras import offer_programs
from toolcrib.cli.importing import client_named, target_file, user_environment
from toolcrib.cli.output import ConfigOption, ExitCode, JsonOption, YesOption, confirmed, print_answer, print_text
from toolcrib.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolcrib.cli.in_process import Tried
    from toolcrib.clients.connecting import Behind, ConnectionPlan
    from toolcrib.clients.known import Client, UserEnvironment

WITHIN_S = 10.0
"""How long a server may take before it is said not to be served."""

ClientArgument = Annotated[
    str, typer.Argument(metavar="CLIENT", help="claude-code, cursor, vscode …; `toolcrib init` lists those it finds.")
]


def connect(
    client: ClientArgument,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the servers that toolcrib serves from the client's own list.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="The same as `toolcrib disconnect`.")] = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add toolcrib to a client. Shows the change, asks, and backs up the file."""
    from toolcrib.clients import connecting

    known, user = client_named(client), user_environment()
    if undo:
        _disconnect(known, user, yes=yes, as_json=as_json)
        return
    target = target_file(config, user)
    command = [toolcrib_program(), "serve", *_config_words(config, target)]
    # Planned before anything is asked, so that a file that cannot be edited fails first.
    plan = connecting.plan_connection(known, command, user, _behind(target, user, quiet=as_json) if replace else None)
    file = plan.original.path
    if not target.exists():
        print_text(f"There is no config yet, so it will serve no server; `toolcrib init` makes {target}.", error=True)
    about: JsonObject = {
        "removed": [".".join(each.place) for each in plan.removed],
        "staying": [{"server": ".".join(each.place), "reason": each.reason} for each in plan.staying],
    }
    if not as_json:
        _show(plan)
    if plan.is_there and not plan.removed:
        _report(file, f"{known.title} is already connected.", written=False, as_json=as_json, **about)
        _offer_programs(target, yes=yes, as_json=as_json)
        return
    _require_consent(file, yes=yes, as_json=as_json)
    record = connecting.connect(plan, user)
    copy = f" The previous file is kept as {record.backup}." if record.backup else ""
    text = f"{known.title} starts toolcrib from now on; restart the client.{copy}"
    _report(file, text, written=True, as_json=as_json, **about)
    _offer_programs(target, yes=yes, as_json=as_json)


def disconnect(client: ClientArgument, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Remove toolcrib from a client, and restore the servers it replaced."""
    _disconnect(client_named(client), user_environment(), yes=yes, as_json=as_json)


def _offer_programs(target: Path, *, yes: bool, as_json: bool) -> None:
    if not as_json:
        # --yes is about the client's file: nothing is downloaded for it.
        offer_programs(target, may_ask=not yes)


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


def _behind(target: Path, user: "UserEnvironment", *, quiet: bool) -> "Behind":
    """Return the servers of toolcrib's config, and what tells which of them it serves when the client starts it."""
    from toolcrib.auth.keyring import SystemKeyring
    from toolcrib.clients.connecting import Behind
    from toolcrib.clients.importing import EntryCheck, existing_document
    from toolcrib.config.launching import passed_on
    from toolcrib.config.loading import env_references

    # A client passes little of its environment on, and one with a window has nothing of this shell's.
    document, keyring = existing_document(target), SystemKeyring().get
    references = env_references(document, target, user.environ, keyring)
    return Behind(
        document,
        EntryCheck(user.environ, references),
        lambda keys, variables: _unserved(keys, {**passed_on(user.environ), **variables}, target, quiet=quiet),
    )


def _unserved(keys: "Sequence[str]", environ: "Mapping[str, str]", target: Path, *, quiet: bool) -> dict[str, str]:
    """Start servers as toolcrib does in this environment, and return why it would not serve some of them."""
    from toolcrib.auth.keyring import SystemKeyring
    from toolcrib.cli.in_process import try_servers
    from toolcrib.config.loading import load

    if not keys:
        return {}
    try:
        settings = load(target, environ, Path.cwd(), SystemKeyring().get)
    except ConfigError as error:
        return dict.fromkeys(keys, f"toolcrib's config cannot be used: {error.problems[0]}")
    why: dict[str, str] = {}
    for key in keys:
        if reason := settings.why_left_out(key):
            why[key] = f"toolcrib leaves it out when a client starts it: {reason}"
    served = [key for key in keys if key in settings.servers]
    tried = try_servers(settings, WITHIN_S, WaitingLine(quiet=quiet), served, command="connect") if served else {}
    return why | {key: reason for key, result in tried.items() if (reason := _failure(key, result))}


def _failure(key: str, tried: "Tried") -> str:
    """Return why a server that was started once is not served; empty where it is."""
    if tried.needs_login:
        return f"toolcrib is not logged in to it: run `toolcrib login {key}`"
    if tried.failed:
        return f"toolcrib cannot start it: {tried.failed}"
    if tried.seconds is None:
        return f"it has not answered toolcrib within {WITHIN_S:.0f} s"
    return "toolcrib.policy denies all its tools" if tried.denied else ""


def _show(plan: "ConnectionPlan") -> None:
    for each in plan.staying:
        print_text(f"{'.'.join(each.place)} stays: {each.reason}")
    if plan.is_there and not plan.removed:
        return
    file = plan.original.path
    for words in plan.commands:
        print_text(f"run   {shlex.join(words)}")
    if plan.commands:
        print_text(f"which changes {file}:")
    else:
        print_text(f"{file}{'' if plan.original.content is not None else ' (new)'}:")
    for each in plan.removed:
        print_text(f"  -  {'.'.join(each.place)}")
    if plan.previous is not None and not plan.is_there:
        print_text(f"  -  {'.'.join(plan.place)}, as it is now")
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


def _report(file: Path, text: str, *, written: bool, as_json: bool, **about: object) -> None:
    print_answer({"file": str(file), "written": written, "message": text, **about}, text, as_json=as_json)
