"""``toolcrib init`` and ``import``: imports the servers of other clients into toolcrib's own config.

Both show what they found, and ask, before they write; secrets are shown as variables.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import BadRequest, ConfigError
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import escaped
from toolcrib.cli.extras import offer_programs
from toolcrib.cli.output import (
    ConfigOption,
    ExitCode,
    JsonOption,
    YesOption,
    confirmed,
    counted,
    load_settings,
    print_json,
    print_text,
    problem_json,
    table,
)
from toolcrib.cli.screen import Column

if TYPE_CHECKING:
    from toolcrib.clients.importing import Draft, DraftServer
    from toolcrib.clients.known import Client, UserEnvironment
    from toolcrib.clients.reading import FoundFile
    from toolcrib.config.editing.changes import Change
    from toolcrib.config.settings import Settings
    from toolcrib.config.variables import EnvFile

EnvOption = Annotated[
    bool, typer.Option("--env", help="Move secrets to toolcrib.env beside the config, which names it and reads it.")
]

DirectOption = Annotated[
    bool, typer.Option("--direct", help="Import mcp-remote servers by their URL: toolcrib needs no bridge.")
]

Logins = Mapping[str, JsonObject | None]
"""The public facts of logins, by the key of each server that takes one; None where there is no login."""


def init(
    clients: Annotated[
        list[str] | None, typer.Option("--from", metavar="CLIENT", help="Only this client's servers; may be repeated.")
    ] = None,
    project: Annotated[
        bool, typer.Option("--project", help="Import the working directory's config too; read it first.")
    ] = False,
    env: EnvOption = False,
    direct: DirectOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import the servers of your other MCP clients. Their files are not changed."""
    from toolcrib.clients.reading import find_files, project_files

    user = user_environment()
    chosen = [client_named(name) for name in clients or ()]
    files = list(find_files(user, chosen, project=project))
    unread = [] if project else project_files(user)
    _take_over(files, target_file(config, user), unread, env=env, direct=direct, yes=yes, as_json=as_json)


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of any MCP client that configures servers.")],
    client: Annotated[
        str | None,
        typer.Option("--from", metavar="CLIENT", help="The file's client; by default, detected from path and content."),
    ] = None,
    env: EnvOption = False,
    direct: DirectOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import the servers in one file of any MCP client. The file is not changed."""
    from toolcrib.clients.reading import read_file

    user = user_environment()
    found = read_file(file.absolute(), None if client is None else client_named(client), user)
    if found.problems and not found.servers:
        raise BadRequest(f"{file} cannot be imported: {'; '.join(map(str, found.problems))}")
    _take_over([found], target_file(config, user), [], env=env, direct=direct, yes=yes, as_json=as_json)


def user_environment() -> "UserEnvironment":
    """Return where this person's files are."""
    from toolcrib.clients.known import UserEnvironment

    return UserEnvironment(dict(os.environ), Path.cwd(), sys.platform)


def client_named(name: str) -> "Client":
    """Return the client of this name.

    Raises:
        BadRequest: there is none.

    """
    from toolcrib.clients.known import client_named, client_table
    from toolcrib.config.findings import did_you_mean

    client = client_named(name)
    if client is None:
        raise BadRequest(
            f"There is no client {name!r}: {did_you_mean(name, [each.key for each in client_table().clients])}"
        )
    return client


def target_file(named: Path | None, user: "UserEnvironment") -> Path:
    """Return the config to write: the one named, else the one that ``serve`` finds, else the one that it would find."""
    from toolcrib.config.loading import user_file

    if named is not None:
        return named.absolute()
    return user_file(user.environ, user.cwd)


def _take_over(
    files: "Sequence[FoundFile]",
    target: Path,
    unread: Sequence[Path],
    *,
    env: bool,
    direct: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what was found, ask, and write it to the config ``target``."""
    from toolcrib.auth.keyring import SystemKeyring
    from toolcrib.clients.importing import (
        EntryCheck,
        bridged,
        changes_of,
        draft,
        existing_document,
        variables_of,
        without_bridges,
    )
    from toolcrib.config.loading import env_references

    document, environ, keyring = existing_document(target), dict(os.environ), SystemKeyring().get
    references, variables_file = env_references(document, target, environ, keyring), None
    if env:
        references, variables_file = variables_of(document, target, environ, keyring)
    servers = [server for file in files for server in file.servers]
    if (names := dict.fromkeys(server.name for server in bridged(servers))) and not direct:
        question = f"{', '.join(names)}: reached by mcp-remote. Connect directly instead?"
        # --yes means the plain import: leaving out a bridge needs a login of the person.
        direct = not yes and confirmed(question, yes=False, as_json=as_json)
    check = EntryCheck(environ, references)
    drafted = draft(without_bridges(servers) if direct else servers, document, check, with_variables=env)
    changes = changes_of(drafted, document)
    logins = _logins(target, drafted)
    if not as_json:
        _show(files, drafted, logins, unread, variables_file)
    question = f"Write {counted(len(drafted.added), 'server')} to {target}?"
    is_wanted = bool(changes) and confirmed(question, yes=yes, as_json=as_json)
    written = _write(target, drafted, changes, variables_file) if is_wanted else []
    if as_json:
        print_json({"written": [str(path) for path in written], **_draft_json(files, drafted, logins, unread)})
    elif written:
        _say_written(drafted, logins, written, target, may_ask=not yes)
    elif drafted.servers and not changes:
        print_text(f"{target} already has all of them.")
    else:
        reason = "Nothing was written. Add --yes to write without asking."
        print_text(reason if drafted.servers else "Found no server to import.", error=True)
        raise typer.Exit(ExitCode.FAILED)


def _logins(target: Path, drafted: "Draft") -> Logins:
    """Return the public facts of the login to each drafted server that takes one, by its key."""
    from toolcrib.auth.logins import login_facts
    from toolcrib.config.settings import HttpTarget

    settings: Settings | None = None
    if target.exists():
        with suppress(ConfigError):  # `config check` reports what is wrong with it
            settings = load_settings(target)
    stored: Logins = login_facts(settings.tokens_dir, settings.servers.values()) if settings else {}
    logins: dict[str, JsonObject | None] = {}
    for server in drafted.servers:
        known = settings.servers.get(server.key) if settings and server.known else None
        url, headers = server.entry.get("url"), as_object(server.entry.get("headers"))
        is_open = bool(url) and not HttpTarget(str(url), headers).has_own_token and not server.is_disabled
        if known.may_log_in if known else is_open:
            logins[server.key] = stored.get(server.key) if known else None
    return logins


def _write(target: Path, drafted: "Draft", changes: "Sequence[Change]", variables_file: "EnvFile | None") -> list[Path]:
    from toolcrib.clients.importing import write_config, write_variables

    has_moved = variables_file is not None and bool(drafted.variables)
    if has_moved and variables_file is not None:
        # First, so that the config never refers to what is not there.
        write_variables(variables_file, drafted.variables)
    has_secrets = any(server.secrets and not server.moved_to for server in drafted.added)
    write_config(target, changes, is_private=has_secrets)
    return [target, variables_file.path] if has_moved and variables_file is not None else [target]


def _show(
    files: "Sequence[FoundFile]",
    drafted: "Draft",
    logins: Logins,
    unread: Sequence[Path],
    variables_file: "EnvFile | None",
) -> None:
    from toolcrib.clients.importing import origins

    # With what hides in it: this is what is written, and run.
    rows = [(server.key, ", ".join(origins(server)), escaped(_target_text(server))) for server in drafted.servers]
    if rows:
        print_text(table(("name", "from", Column("what it is", words=True)), rows))
    for server in drafted.servers:
        for note in (*_notes(server, variables_file), *_login_notes(server.key, logins)):
            print_text(f"{server.key}: {note}")
    for lost in drafted.lost:
        print_text(f"left out: {lost.name} ({lost.origin}): it {lost.read.lost}")
    for file in files:
        for problem in file.problems:
            print_text(f"{file.file}: {problem}", error=True)
    for path in unread:
        print_text(f"not read: {path}, because it is in the working directory; --project imports it too")


def _target_text(server: "DraftServer") -> str:
    """Return how a server is reached, with variables in the place of secrets."""
    from toolcrib.config.private_values import moved
    from toolcrib.config.variables import DOLLAR

    entry = moved(server.entry, () if server.moved_to else server.secrets, {})
    if "url" in entry:
        text = f"{entry['url']}{' (sse)' if entry.get('type') == 'sse' else ''}"
    else:
        text = shlex.join([entry["command"], *entry.get("args", [])])
    return text.replace(DOLLAR, "$")


def _notes(server: "DraftServer", variables_file: "EnvFile | None") -> "Iterator[str]":
    from toolcrib.clients.importing import rules_shown
    from toolcrib.config.foreign import find_bridge
    from toolcrib.config.settings import HttpTarget

    if server.known:
        yield "already in the config, where it is disabled" if server.is_disabled else "already in the config"
    if server.obstacle:
        yield f"disabled, because it {server.obstacle}"
    yield from server.notices
    if not server.known and (bridge := find_bridge(server.entry)):
        url = HttpTarget(bridge.url, {}).public_url
        yield f"it runs mcp-remote, a bridge to {url}, which toolcrib can connect to itself: use --direct"
    if rules := rules_shown(server.denials):
        yield f"its tools: {rules}"
    others = [each for each in server.found[1:] if each.name != server.found[0].name]
    yield from (f"the same as {each.name} of {each.origin}" for each in others)
    if server.secrets and not server.known:
        places = ", ".join(dict.fromkeys(secret.shown for secret in server.secrets))
        yield (
            f"contains secrets in {places}"
            if variables_file is None
            else (f"its secrets in {places} move to {variables_file.path}, as {', '.join(server.moved_to)}")
        )


def _login_notes(key: str, logins: Logins) -> "Iterator[str]":
    from toolcrib.auth.records import login_text

    if key in logins:
        login = logins[key]
        yield (
            f"logged in{login_text(login)}" if login else f"nobody is logged in; if it wants that: toolcrib login {key}"
        )


def _say_written(drafted: "Draft", logins: Logins, written: Sequence[Path], target: Path, *, may_ask: bool) -> None:
    print_text(f"Written: {', '.join(map(str, written))}")
    if drafted.variables:
        print_text(f"toolcrib reads {written[-1]} wherever it is started: the config names it. Only you can read it.")
    elif any(server.secrets for server in drafted.added):
        print_text("It contains secrets, so only you can read it; --env moves them to a file of their own instead.")
    if keys := [server.key for server in drafted.added if server.key in logins]:
        command = f"toolcrib login {keys[0]}" if len(keys) == 1 else "toolcrib login --all"
        print_text(f"If {', '.join(keys)} {'wants' if len(keys) == 1 else 'want'} a login: `{command}`.")
    if may_ask:
        from toolcrib.cli.few_tools import offer_whole_list

        offer_whole_list(target)
    offer_programs(target, may_ask=False)
    print_text("Next: `toolcrib config check`, `toolcrib index refresh`, `toolcrib connect CLIENT`.")
    print_text("`toolcrib tokens` says what your tools cost a model, and whether to list all of them at once.")


def _draft_json(files: "Sequence[FoundFile]", drafted: "Draft", logins: Logins, unread: Sequence[Path]) -> JsonObject:
    return {
        "servers": [_server_json(server, logins) for server in drafted.servers],
        "left_out": [
            {"name": lost.name, "client": lost.client.key, "file": str(lost.file), "reason": lost.read.lost}
            for lost in drafted.lost
        ],
        "variables": list(drafted.variables),
        "problems": [{"file": str(file.file), **problem_json(problem)} for file in files for problem in file.problems],
        "not_looked_into": [str(path) for path in unread],
    }


def _server_json(server: "DraftServer", logins: Logins) -> JsonObject:
    denials = server.denials
    return {
        "key": server.key,
        "known": server.known,
        "target": _target_text(server),
        "disabled": server.is_disabled,
        "obstacle": server.obstacle,
        "may_log_in": server.key in logins,
        "login": logins.get(server.key),
        "found": [
            {"name": each.name, "client": each.client.key, "file": str(each.file), "place": list(each.place)}
            for each in server.found
        ],
        "secrets": [secret.shown for secret in server.secrets],
        "allowed": None if denials.allowed is None else list(denials.allowed),
        "denied": list(denials.denied),
        "notices": list(server.notices),
    }
