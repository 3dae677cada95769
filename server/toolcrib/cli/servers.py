"""``toolcrib add``, ``remove``, ``get``, ``logs``, ``enable`` and ``disable``: one server of the config."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.base.errors import BadRequest, ConfigError, ToolcribError
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.cli.completion import server_names
from toolcrib.cli.importing import target_file, user_environment
from toolcrib.cli.in_process import status_now, with_tools
from toolcrib.cli.output import (
    ConfigOption,
    ExitCode,
    JsonOption,
    load_settings,
    print_answer,
    print_json,
    print_text,
    print_verbatim,
)
from toolcrib.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolcrib.config.editing.changes import Change
    from toolcrib.gateway.tools import ToolUseCases
    from toolcrib.policy.sessions import Session

_NAMED_MAX = 12
_DESCRIPTION = 100

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The server's key in mcpServers.", autocompletion=server_names)
]


def add(  # noqa: PLR0913, PLR0917 - one parameter an option
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new server's name.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[--] COMMAND ARG…", help="The command that starts it; or use --url.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="The URL of an HTTP server.")] = None,
    transport: Annotated[
        str | None,
        typer.Option("--transport", "-t", help="http or sse; by default sse if the URL ends in /sse, else http."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="A header sent with every request."),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable added to its environment.")
    ] = None,
    no_try: Annotated[
        bool, typer.Option("--no-try", help="Only write the entry, without starting the server.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a server to the config, start it once and list its tools: toolcrib add git -- uvx mcp-server-git."""
    from toolcrib.config.private_values import secrets_in

    words = command or []
    # A lone URL is no program: people paste it where the command goes.
    if url is None and len(words) == 1 and words[0].startswith(("http://", "https://")):
        url, words = words[0], []
    entry = _entry(words, url, transport, _pairs(header, ":", "--header"), _pairs(env, "=", "--env"))
    target = target_file(config, user_environment())
    secrets = secrets_in(entry, name)
    _write_new(target, name, entry, is_private=bool(secrets))
    if not as_json:
        print_text(f"Added {name} to {target}.")
        for each in secrets:
            print_text(f"{each.shown} is stored in plain text; use ${{{each.name}}} to take it from the environment.")
    if not no_try:
        _print_listing(target, name, *list_once(target, name, quiet=as_json, command="add"), as_json=as_json)
    elif as_json:
        print_json({"config": str(target), "server": name, "tools": None, "failed": None})


def remove(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Remove a server and its settings from the config."""
    from toolcrib.config.editing.changes import removal

    target, document = _existing(config, name)
    text = f"Removed {name} from {target}."
    _change(target, removal(document, name), name, text, as_json=as_json)


def enable(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Enable a server that was disabled."""
    from toolcrib.config.editing.changes import denies_all, enabling

    target, document = _existing(config, name)
    changes = enabling(document, name)
    _write_changes(target, changes)
    text = f"{name} is {'now' if changes else 'already'} enabled."
    if why := _why_left_out(target, name):
        text += f" It is not served all the same: {why}."
    if denies_all(document, name):
        text += f" toolcrib.policy.deny still has {name}.*: nobody may use its tools."
    _print_change(target, name, text, as_json=as_json)


def disable(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Disable a server, and leave it in the config."""
    from toolcrib.config.editing.changes import SetMember

    target, _document = _existing(config, name)
    changes = [SetMember(("toolcrib", "servers", name, "enabled"), value=False)]
    text = f"{name} is now disabled; `toolcrib enable {name}` enables it."
    _change(target, changes, name, text, as_json=as_json)


def get(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show how a server is reached, and its state; starts nothing."""
    from toolcrib.cli.config import server_json

    target, _document = _existing(config, name)
    settings = load_settings(target)
    server = settings.servers.get(name)
    if server is None:
        shown: JsonObject = {"server": name, "left_out": settings.why_left_out(name) or "is not used"}
    else:
        known = next(each for each in status_now(settings).servers if each.key == name)
        shown = {**known.as_json, **server_json(server), "options": server.options.model_dump(exclude_unset=True)}
        shown = settings.redactor.cleaned(shown)
    lines = (f"{key}: {_shown(value)}" for key, value in shown.items() if value not in (None, [], {}, ""))
    print_answer(shown, lines, as_json=as_json)


def logs(
    name: NameArgument,
    lines: Annotated[int, typer.Option("--limit", "--lines", "-n", min=1, max=10_000, help="At most this many.")] = 50,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a server's last stderr output, from all its clients."""
    from toolcrib.events.server_logs import last_lines

    settings = load_settings(config)
    # A server that is left out has logs as well; only an unknown one is an error.
    if name not in settings.servers:
        _existing(config, name)
    found = last_lines(settings.cache_dir, name, lines)
    if as_json:
        print_json({"server": name, "lines": found})
    for line in () if as_json else found:
        print_verbatim(line)
    if not found and not as_json:
        print_text(f"{name} has written nothing to stderr, or has not been started yet.", error=True)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, as_list(value)))
    return ", ".join(f"{key} {member}" for key, member in as_object(value).items()) or str(value)


def _pairs(given: list[str] | None, mark: str, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given or []:
        name, found, value = text.partition(mark)
        if not found or not name.strip():
            raise typer.BadParameter(f"{one_line(name)} has no {mark!r}", param_hint=option)
        # Spaces around a header's value mean nothing (RFC 9110, section 5.5); in a variable they may.
        pairs[name.strip()] = value.strip() if mark == ":" else value
    return pairs


def _entry(
    words: "Sequence[str]", url: str | None, transport: str | None, headers: dict[str, str], env: dict[str, str]
) -> JsonObject:
    """Return the entry of ``mcpServers`` that the arguments describe."""
    from toolcrib.config.foreign import looks_like_sse

    if bool(words) == (url is not None):
        raise BadRequest("Give either `-- COMMAND ARG…` or `--url URL`.")
    if url is None:
        if headers or transport not in (None, "stdio"):
            raise BadRequest("--header and --transport are for a server with a --url.")
        entry: JsonObject = {"command": words[0], "args": list(words[1:])}
        return {**entry, "env": env} if env else entry
    if env or transport not in (None, "http", "sse"):
        raise BadRequest("With --url, there is no --env, and --transport is http or sse.")
    entry = {"type": transport or ("sse" if looks_like_sse(url) else "http"), "url": url}
    return {**entry, "headers": headers} if headers else entry


def _write_new(target: Path, name: str, entry: JsonObject, *, is_private: bool) -> None:
    from toolcrib.auth.keyring import SystemKeyring
    from toolcrib.clients.importing import EntryCheck, existing_document, plain_key, write_config
    from toolcrib.config.editing.changes import addition
    from toolcrib.config.loading import env_references

    # It becomes part of the names of tools, which clients allow few characters.
    if name != plain_key(name):
        raise BadRequest(f"{name!r} is not a name for a server: use letters, digits, - and _, as in {plain_key(name)}.")
    document, environ = existing_document(target), dict(os.environ)
    if name in as_object(document.get("mcpServers")):
        raise BadRequest(
            f"{target} already has a server {name}: `toolcrib remove {name}` first, or choose another name."
        )
    # Checked before it is written: what is added is to be used.
    check = EntryCheck(environ, env_references(document, target, environ, SystemKeyring().get))
    if wrong := check.unfit(name, entry):
        raise BadRequest(f"{name} was not added: {wrong}")
    write_config(target, addition(document, name, entry), is_private=is_private)


def _existing(config: Path | None, name: str) -> tuple[Path, JsonObject]:
    """Return the config file that has the server, and its content."""
    from toolcrib.clients.importing import existing_document
    from toolcrib.config.findings import did_you_mean

    target = target_file(config, user_environment())
    document = existing_document(target)
    servers = as_object(document.get("mcpServers"))
    if name not in servers:
        raise BadRequest(f"{target} has no server {name!r}: {did_you_mean(name, servers) or 'it has none'}")
    return target, document


def _change(target: Path, changes: "Sequence[Change]", name: str, text: str, *, as_json: bool) -> None:
    """Change the config, and print the text about it."""
    _write_changes(target, changes)
    _print_change(target, name, text, as_json=as_json)


def _write_changes(target: Path, changes: "Sequence[Change]") -> None:
    from toolcrib.clients.importing import write_config

    if changes:
        write_config(target, changes, is_private=False)


def _print_change(target: Path, name: str, text: str, *, as_json: bool) -> None:
    print_answer({"config": str(target), "server": name, "message": text}, text, as_json=as_json)


def _why_left_out(target: Path, name: str) -> str:
    try:
        return load_settings(target).why_left_out(name)
    except ConfigError as error:
        return f"{error.source} cannot be used: {error.problems[0]}"


def list_once(target: Path | None, name: str, *, quiet: bool, command: str) -> "tuple[list[JsonObject], str]":
    """Start a server once; return its tools, and why it failed, empty if it did not."""
    try:
        return with_tools(target, partial(_list_one, name), WaitingLine(quiet=quiet), name, command=command)
    except ToolcribError as error:
        return [], str(error)


async def _list_one(name: str, tool_use_cases: "ToolUseCases", session: "Session") -> "tuple[list[JsonObject], str]":
    from toolcrib.downstream.fleet import failed

    fleet = tool_use_cases.fleet
    await fleet.first_listing([name])
    session.pass_through = True  # list the deferred tools too
    definitions = {each["name"]: each for each in await tool_use_cases.list_tools(session)}
    tools = tool_use_cases.gate.allowed(session, tool_use_cases.indexer.current()).tools
    found = [definitions[tool.public_name] for tool in tools if tool.server == name and tool.public_name in definitions]
    return found, failed(fleet.statuses()).get(name, "")


def _print_listing(target: Path, name: str, tools: "list[JsonObject]", why: str, *, as_json: bool) -> None:
    if as_json:
        names = [tool["name"] for tool in tools]
        print_json({"config": str(target), "server": name, "tools": names, "failed": why or None})
    elif not why:
        print_text(f"It works, and has {len(tools)} tool{'' if len(tools) == 1 else 's'}:")
        for tool in tools[:_NAMED_MAX]:
            summary, _rest = split_summary(tool.get("description", ""))
            # Its end may be blank: a tool without a description is a name alone.
            print_text(f"  {tool['name']}  {truncate(one_line(summary), _DESCRIPTION)}".rstrip())
        if len(tools) > _NAMED_MAX:
            print_text(f"  and {len(tools) - _NAMED_MAX} more: toolcrib tools list --server {name}")
    if why:
        if not as_json:
            print_text(f"The server failed: {why}", error=True)
            print_text(f"Its entry stays in the config; `toolcrib remove {name}` removes it.", error=True)
        sys.stdout.flush()
        raise typer.Exit(ExitCode.FAILED)
