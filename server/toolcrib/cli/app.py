"""Assembles the commands for people into one command line; ``serve`` does not load it."""

import os
import re
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from toolcrib import __version__
from toolcrib.base.errors import ToolcribError
from toolcrib.cli.examples import EXAMPLES
from toolcrib.cli.output import ExitCode, print_error, print_error_json, print_text, print_verbatim
from toolcrib.cli.screen import Role

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

_RAW = ("serve", "demo")
_RAW_ARGUMENTS: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""For commands that read their own arguments."""


_COLORS, _FORMATS = ("auto", "always", "never"), ("text", "json")
_COMMON = re.compile(r"(?:-o|--output|--color)(?:=(?P<value>.*))?")
"""An option that every command has, with its value or before it."""

_PLAINER = {
    "Input should be a valid integer, unable to parse string as an integer": "must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "must be a number",
    "Input should be": "must be",
    "Value error, ": "",
}
"""What pydantic says about a value of an option, and what a person is told."""


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
    for raw in (serve, demo):
        app.command(context_settings=_RAW_ARGUMENTS)(raw)
    # An unknown name gets all of them, so that Typer can suggest one.
    is_one = wanted in _COMMANDS or wanted in _GROUPS
    for name, place in _COMMANDS.items():
        if name == wanted or not is_one:
            module, _, function = place.partition(".")
            app.command(name, epilog=_epilog(name))(getattr(import_module(f"toolcrib.cli.{module}"), function))
    for name, module in _GROUPS.items():
        if name == wanted or not is_one:
            group: typer.Typer = import_module(f"toolcrib.cli.{module}").commands
            for command in group.registered_commands:
                own = command.name or getattr(command.callback, "__name__", "")
                command.epilog = _epilog(f"{name} {own}")
            app.add_typer(group, name=name)
    return app


def _epilog(command: str) -> str:
    return f"Example: toolcrib {command} {EXAMPLES[command]}".rstrip()


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong config or arguments, 3 refused to start."""
    code: object = ExitCode.OK
    as_json = False
    color = ExitStack()
    try:
        # Before parsing: errors of the arguments themselves are to be JSON too.
        words, as_json, choice = common_options(arguments)
        color.enter_context(colored(choice))
        code = build(words[0] if words else "")(args=words, prog_name="toolcrib", standalone_mode=False)
    except ToolcribError as error:
        code = print_error(error, as_json=as_json)
    except TyperException as error:
        code = _print_usage_error(error, as_json=as_json)
    except typer.Abort:  # ^C, or the end of input, at a question
        print_text("Stopped; nothing was changed.", error=True)
        code = ExitCode.FAILED
    except SystemExit as done:
        code = done.code
    finally:
        color.close()
    # sys.exit() without a code means success.
    if code is None:
        return ExitCode.OK
    return code if isinstance(code, int) else ExitCode.FAILED


def common_options(arguments: Sequence[str]) -> tuple[list[str], bool, str]:
    """Return the arguments without the options that every command has, whether JSON is wanted, and when colour is.

    ``-o json`` is ``--json``; ``--color`` is ``auto``, ``always`` or ``never``.

    Raises:
        typer.BadParameter: an option has no value, or not one of these.

    """
    if arguments[:1] and arguments[0] in _RAW:
        return list(arguments), False, _COLORS[0]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rest = iter(arguments[:end])
    words: list[str] = []
    chosen = {"output": "text", "color": _COLORS[0]}
    for word in rest:
        if found := _COMMON.fullmatch(word):
            value = next(rest, "") if found["value"] is None else found["value"]
            option = "color" if word.startswith("--color") else "output"
            known = _COLORS if option == "color" else _FORMATS
            if value not in known:
                raise typer.BadParameter(f"{value!r} is none of {', '.join(known)}", param_hint=f"--{option}")
            chosen[option] = value
        else:
            words.append(word)
    as_json = chosen["output"] == "json"
    if as_json and "--json" not in words:
        words.append("--json")
    return [*words, *arguments[end:]], "--json" in words, chosen["color"]


@contextmanager
def colored(choice: str) -> Generator[None]:
    """Have the choice hold for this process, and what it starts for the person, in the way that all programs read."""
    names = ("NO_COLOR", "FORCE_COLOR")
    before = {name: os.environ.pop(name) for name in names if choice != "auto" and name in os.environ}
    if choice != "auto":
        os.environ["FORCE_COLOR" if choice == "always" else "NO_COLOR"] = "1"
    try:
        yield
    finally:
        if choice != "auto":
            for name in names:
                os.environ.pop(name, None)
            os.environ.update(before)


def _print_usage_error(error: TyperException, *, as_json: bool) -> ExitCode:
    """Print what is wrong with the arguments, and how they are written."""
    message = error.format_message()
    for theirs, ours in _PLAINER.items():
        message = message.replace(theirs, ours)
    if as_json:
        print_error_json("usage", message, ExitCode.CONFIG)
        return ExitCode.CONFIG
    # A group without a command: its help.
    if message.startswith("Usage:"):
        print_verbatim(message, error=True)
        return ExitCode.CONFIG
    path = getattr(getattr(error, "ctx", None), "command_path", "toolcrib")
    print_text(f" {message}", error=True, lead="Error:", role=Role.BAD)
    example = EXAMPLES.get(path.removeprefix("toolcrib").strip())
    if example is not None:
        print_text(f"  For example: {path} {example}".rstrip(), error=True)
    print_text(f"  `{path} --help` explains it.", error=True)
    return ExitCode.CONFIG


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
