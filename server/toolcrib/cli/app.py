"""The commands of people, put together.

Knows which commands there are; never knows what they do. Loaded only when one of them is asked for.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from toolcrib import __version__
from toolcrib.cli import (
    allow,
    config,
    connecting,
    doctor,
    evaluation,
    events,
    importing,
    index,
    lint,
    login,
    running,
    secret,
    servers,
    skills,
    tokens,
    tools,
    uninstall,
)
from toolcrib.cli.output import ExitCode, complain, print_error_json
from toolcrib.errors import ToolcribError

_AS_IT_IS: dict[str, Any] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""For commands that read their own arguments."""


def build() -> typer.Typer:
    """Return the command line with all its commands."""
    app = typer.Typer(
        name="toolcrib",
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,  # rich takes longer to import than a command may take
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )
    app.callback()(_toolcrib)
    app.command(context_settings=_AS_IT_IS)(serve)
    app.command(context_settings=_AS_IT_IS)(demo)
    app.command()(importing.init)
    app.command("import")(importing.import_file)
    app.command()(connecting.connect)
    app.command()(connecting.disconnect)
    app.command()(uninstall.uninstall)
    app.command()(servers.add)
    app.command()(servers.remove)
    app.command()(servers.get)
    app.command()(servers.logs)
    app.command()(login.login)
    app.command()(login.logout)
    app.command()(servers.enable)
    app.command()(servers.disable)
    app.command()(doctor.doctor)
    app.command()(index.status)
    app.command()(running.top)
    app.command()(events.events)
    app.command()(tools.search)
    app.command()(tools.call)
    app.command()(allow.allow)
    app.command()(lint.lint)
    app.command("eval")(evaluation.evaluate)
    app.command()(tokens.tokens)
    app.add_typer(tools.commands, name="tools")
    app.add_typer(skills.commands, name="skills")
    app.add_typer(index.commands, name="index")
    app.add_typer(config.commands, name="config")
    app.add_typer(secret.commands, name="secret")
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong config or arguments, 3 refused to start."""
    as_json = "--json" in arguments
    code: object = ExitCode.OK
    try:
        # Typer prints what is wrong with the arguments itself, but as text only.
        code = build()(args=list(arguments), prog_name="toolcrib", standalone_mode=not as_json)
    except ToolcribError as error:
        code = complain(error, as_json=as_json)
    except TyperException as error:
        code = ExitCode.CONFIG
        print_error_json("usage", error.format_message(), code)
    except SystemExit as done:
        code = done.code
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
