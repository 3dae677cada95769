"""Assembles the commands for people into one command line; ``serve`` does not load it."""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from toolcrib import __version__
from toolcrib.base.errors import ToolcribError
from toolcrib.cli.output import ExitCode, print_error, print_error_json

_COMMANDS = {
    "init": "importing.init",
    "import": "importing.import_file",
    "connect": "connecting.connect",
    "disconnect": "connecting.disconnect",
    "uninstall": "uninstall.uninstall",
    "add": "servers.add",
    "remove": "servers.remove",
    "get": "servers.get",
    "logs": "servers.logs",
    "login": "login.login",
    "logout": "login.logout",
    "enable": "servers.enable",
    "disable": "servers.disable",
    "doctor": "doctor.doctor",
    "status": "index.status",
    "top": "top.top",
    "events": "events.events",
    "search": "tools.search",
    "call": "tools.call",
    "allow": "allow.allow",
    "lint": "lint.lint",
    "eval": "evaluation.evaluate",
    "tokens": "tokens.tokens",
}
_GROUPS = {"tools": "tools", "skills": "skills", "index": "index", "config": "config", "secret": "secret"}
"""Commands and groups of them by name, each with the module beside this one that has it, in the order of the help."""

_RAW_ARGUMENTS: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""For commands that read their own arguments."""


def build(wanted: str = "") -> typer.Typer:
    """Return the command line with the command or group ``wanted``; with all of them if there is none of that name.

    The modules of the others are not loaded, as a person waits for the one.
    """
    app = typer.Typer(
        name="toolcrib",
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,  # rich takes longer to import than a command may take
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )
    app.callback()(_toolcrib)
    app.command(context_settings=_RAW_ARGUMENTS)(serve)
    app.command(context_settings=_RAW_ARGUMENTS)(demo)
    # An unknown name gets all of them, so that Typer can suggest one.
    is_one = wanted in _COMMANDS or wanted in _GROUPS
    for name, place in _COMMANDS.items():
        if name == wanted or not is_one:
            module, _, function = place.partition(".")
            app.command(name)(getattr(import_module(f"toolcrib.cli.{module}"), function))
    for name, module in _GROUPS.items():
        if name == wanted or not is_one:
            app.add_typer(import_module(f"toolcrib.cli.{module}").commands, name=name)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong config or arguments, 3 refused to start."""
    # Looked up before parsing: errors of the arguments themselves are to be JSON too.
    as_json = "--json" in arguments
    code: object = ExitCode.OK
    try:
        # Typer prints errors of the arguments itself, but as text only.
        app = build(arguments[0] if arguments else "")
        code = app(args=list(arguments), prog_name="toolcrib", standalone_mode=not as_json)
    except ToolcribError as error:
        code = print_error(error, as_json=as_json)
    except TyperException as error:
        code = ExitCode.CONFIG
        print_error_json("usage", error.format_message(), code)
    except SystemExit as done:
        code = done.code
    # sys.exit() without a code means success.
    if code is None:
        return ExitCode.OK
    return code if isinstance(code, int) else ExitCode.FAILED


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"toolcrib {__version__}")
        raise typer.Exit


def _toolcrib(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """One MCP server in front of all your MCP servers: agents search, get the tool they need, and use it."""


def serve(context: typer.Context) -> None:
    """Serve over stdio or HTTP; this is what a client starts."""
    from toolcrib.cli.serve import main

    raise typer.Exit(main(context.args))


def demo(context: typer.Context) -> None:
    """Show the way from a search to a result, with real servers."""
    from toolcrib.cli.demo import main

    raise typer.Exit(main(context.args))
