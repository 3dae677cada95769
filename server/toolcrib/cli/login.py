"""``toolcrib login`` and ``toolcrib logout``: shows a person the URL of a login, and takes the answer (R272).

The only module that opens the person's browser: with http and https URLs only, without a shell.
"""

import sys
import threading
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.base.errors import BadRequest, LoginFailed, ToolcribError
from toolcrib.cli.output import ConfigOption, JsonOption, counted, fail_if, load_settings, print_json, print_text
from toolcrib.cli.servers import list_once

if TYPE_CHECKING:
    from toolcrib.auth.flow import LoginPrompt
    from toolcrib.auth.records import Record
    from toolcrib.base.model import JsonObject
    from toolcrib.config.settings import ServerSettings, Settings
    from toolcrib.jsonrpc.sdk_oauth import AuthorizationCodeResult

NameArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="The server, as the config names it.")]

_PASTES_MAX = 5
_TYPED_POLL_S = 0.05


def login(
    name: NameArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Log in to every server that requires it.")] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the URL; you paste the answer.")] = False,
    scope: Annotated[str, typer.Option("--scope", help="Request these scopes too, separated by spaces.")] = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Log in to a server that requires it, in the browser, and list its tools: toolcrib login github."""
    settings = load_settings(config)
    servers = _chosen_servers(settings, name, every=every)
    shown: list[JsonObject] = []
    # One reader for all logins: a line typed too early belongs to the next one.
    typed = _Typed() if no_browser else None
    for server in servers:
        shown.append(_log_in_and_list(settings, server, _prompt(server.key, scope, typed), every=every))
        if not as_json:
            _print_outcome(shown[-1])
    if as_json:
        print_json(shown if every else shown[0])
    elif not servers:
        print_text("No server requires a login.")
    fail_if(any(each["failed"] for each in shown))


def logout(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The server, as the config names it.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Log out of a server: revoke its tokens if the provider supports it, and delete them."""
    import anyio

    settings = load_settings(config)
    [server] = _chosen_servers(settings, name, every=False)
    was_there, is_revoked, why = anyio.run(_end, settings, server)
    if as_json:
        why_not = None if is_revoked or not was_there else why
        print_json({"server": name, "was_logged_in": was_there, "revoked": is_revoked, "why_not": why_not})
    elif not was_there:
        print_text(f"There is no login to {name}.")
    else:
        print_text(f"Logged out of {name}; its tokens are {'revoked and ' if is_revoked else ''}deleted.")
        if not is_revoked:
            print_text(f"They were not revoked: {why}.", error=True)


def _chosen_servers(settings: "Settings", name: str | None, *, every: bool) -> "list[ServerSettings]":
    """Return the servers that a command is about."""
    from toolcrib.config.findings import did_you_mean

    if every == (name is not None):
        raise BadRequest("Name one server, or use --all.")
    if name is None:
        return [server for server in settings.servers.values() if server.may_log_in]
    server = settings.servers.get(name)
    if server is None:
        left_out = settings.why_left_out(name)
        hint = f"it {left_out}" if left_out else did_you_mean(name, settings.servers)
        raise BadRequest(f"There is no server {name!r} to log in to: {hint}")
    if not server.may_log_in:
        raise BadRequest(
            f"{name} does not use a login: it is a command, its headers have Authorization, or its auth is none."
        )
    return [server]


def _log_in_and_list(
    settings: "Settings", server: "ServerSettings", prompt: "LoginPrompt", *, every: bool
) -> "JsonObject":
    """Log in to one server, and list it; with ``every`` only where it wants that."""
    import anyio

    from toolcrib.auth.records import login_json

    nothing: JsonObject = {"server": server.key, "login": None, "tools": None}
    try:
        record = anyio.run(_log_in, settings, server, prompt, every)
    except ToolcribError as error:
        return {**nothing, "failed": str(error)}
    if every and not record.has_tokens:  # it answers without a login
        return {**nothing, "failed": ""}
    tools, why = list_once(settings.config_path, server.key, quiet=True, command="login")
    return {"server": server.key, "login": login_json(record), "tools": [each["name"] for each in tools], "failed": why}


def _print_outcome(shown: "JsonObject") -> None:
    from toolcrib.auth.records import login_text

    name, found = shown["server"], shown["login"]
    if found:
        print_text(f"Logged in to {name}{login_text(found)}.")
    if shown["failed"]:
        what = "still fails" if found else "is not logged in"
        print_text(f"{name} {what}: {shown['failed']}", error=True)
        sys.stdout.flush()
    elif shown["tools"] is None:
        print_text(f"{name} requires no login.")
    else:
        print_text(f"It has {counted(len(shown['tools']), 'tool')}; `toolcrib tools list --server {name}` shows them.")


class _Typed:
    """The lines that a person types, for a whole command, read by a thread that may outlive it.

    A read of a terminal cannot be cancelled, and would take the line that is meant for the next one.
    """

    def __init__(self) -> None:
        self._lines = SimpleQueue[str]()
        self._reading = threading.Thread(target=self._read, name="typed lines", daemon=True)

    async def line(self) -> str:
        """Return the next line with its end; nothing at the end of input."""
        import anyio

        if self._reading.ident is None:
            self._reading.start()
        while True:
            has_ended = not self._reading.is_alive()
            if not self._lines.empty():
                return self._lines.get_nowait()
            if has_ended:
                return ""
            await anyio.sleep(_TYPED_POLL_S)

    def _read(self) -> None:
        # By a file of its own, whose lock no other thread asks for at the end. There may be no input, or none that is
        # a file.
        with (
            suppress(OSError, ValueError),
            open(
                sys.stdin.fileno() if sys.stdin else -1, encoding="utf-8", errors="replace", closefd=False
            ) as terminal,
        ):
            for line in iter(terminal.readline, ""):
                self._lines.put(line)


def _prompt(name: str, scope: str, typed: _Typed | None) -> "LoginPrompt":
    from toolcrib.auth.flow import LoginPrompt

    if typed:
        return LoginPrompt(partial(_show_only, name), partial(_pasted, typed), scope)
    return LoginPrompt(partial(_show_and_open, name), scope=scope)


async def _show_only(name: str, address: str, redirect_uri: str) -> None:
    print_text(f"To log in to {name}, open this URL in a browser on any machine:\n\n  {address}\n", error=True)
    print_text(
        f"The browser then goes to {redirect_uri}…, where there may be no page: paste that whole URL here.", error=True
    )


async def _show_and_open(name: str, address: str, redirect_uri: str) -> None:
    import webbrowser

    import anyio.to_thread

    print_text(f"To log in to {name}, continue in the browser, which opens this URL:\n\n  {address}\n", error=True)
    # A browser in the terminal ends with the login, or never.
    has_one = await anyio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)
    if not has_one:
        print_text("There is no browser here; use --no-browser and paste the answer.", error=True)
    print_text(f"Waiting for the answer at {redirect_uri}; Ctrl-C cancels.", error=True)


async def _pasted(typed: _Typed, address: str) -> "AuthorizationCodeResult":
    """Return the answer that the person pastes: the address that the browser was led to, or its query."""
    from toolcrib.auth.flow import answer_in, state_of

    state, pastes = state_of(address), 0
    while pastes < _PASTES_MAX and (line := await typed.line()):
        # Some browsers append a fragment.
        pasted = line.strip().partition("#")[0]
        if not pasted:
            continue
        if answer := answer_in(pasted.partition("?")[2] or pasted, state):
            return answer
        pastes += 1
        print_text("That is not the answer to this login; paste the whole URL, with code and state.", error=True)
    raise LoginFailed("no answer was given")


async def _log_in(
    settings: "Settings", server: "ServerSettings", prompt: "LoginPrompt", only_where_wanted: bool
) -> "Record":
    from toolcrib.auth.bearers import Bearer
    from toolcrib.auth.flow import log_in, request_challenge
    from toolcrib.auth.logins import stored_login

    entry = stored_login(settings.tokens_dir, server)
    bearer = Bearer(server, entry)
    # A machine's login needs no person: its token is fetched as while serving.
    if only_where_wanted or bearer.is_machine:
        await bearer.load()
        _challenge, is_wanted = await request_challenge(server, bearer)
        if not is_wanted:
            return (await entry.read()).record
    challenge, _is_wanted = await request_challenge(server)
    await log_in(server, entry, challenge, prompt)
    return (await entry.read()).record


async def _end(settings: "Settings", server: "ServerSettings") -> tuple[bool, bool, str]:
    """Return whether there was a login, whether it was revoked, and why not."""
    from toolcrib.auth.fetching import is_in_private_network, open_fetcher
    from toolcrib.auth.flow import request_challenge
    from toolcrib.auth.logins import stored_login
    from toolcrib.auth.oauth import revoked, server_address

    entry = stored_login(settings.tokens_dir, server)
    is_revoked, why = False, "the authorization server does not support revocation"
    try:
        challenge, _is_wanted = await request_challenge(server)
        is_private = await is_in_private_network(server_address(server), challenge.peer)
        async with open_fetcher(allows_private=is_private) as fetch:
            is_revoked = await revoked(server, entry, fetch)
    except ToolcribError as error:
        why = str(error)
    return await entry.forget(), is_revoked, why
