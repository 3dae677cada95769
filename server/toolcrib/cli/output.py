"""What commands share: exit codes, what they print for a person or a program, and common options."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.base.errors import ConfigError, Problem, StartRefused, ToolcribError
from toolcrib.base.model import JsonObject, SearchType
from toolcrib.base.text import escaped, one_line, sanitize
from toolcrib.cli.screen import Column, Role, Table, folded, painted

if TYPE_CHECKING:
    from toolcrib.config.settings import Settings


_HEADINGS = {"wrong": Role.BAD, "skipped": Role.WARNING, "notice": Role.WARNING}


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0
    FAILED = 1
    CONFIG = 2
    REFUSED = 3
    INTERRUPTED = 130


def print_text(text: str | Table, *, error: bool = False, lead: str = "", role: Role = Role.HEADING) -> None:
    """Print for a person, on stderr if it is an ``error``; nothing in ``text`` can steer the terminal.

    Lines are broken between words where the terminal ends. ``lead`` goes before the text, in the look of ``role``.
    """
    stream = sys.stderr if error else sys.stdout
    if isinstance(text, Table):
        for line in text.lines(stream):
            print(line, file=stream)
        return
    # Names, descriptions and errors come from servers, and could contain escape sequences.
    shown = folded(sanitize(f"{lead}{text}"), stream)
    # A terminal that is narrower than the lead shows it without its look.
    if lead and shown.startswith(lead):
        shown = f"{painted(lead, role, stream)}{shown.removeprefix(lead)}"
    print(shown, file=stream)


def print_verbatim(text: str, *, error: bool = False) -> None:
    """Print a text whose lines are as long as they are, such as a result, a file or JSON; it steers no terminal."""
    print(sanitize(text), file=sys.stderr if error else sys.stdout)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun; ``plural`` is that of a noun that takes more than an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def table(heading: Sequence[str | Column], rows: Sequence[Sequence[str]], plain: Sequence[str] | None = None) -> Table:
    """Return a table; the first column has the names. ``plain`` are the lines for a pipe, if not the same columns."""
    columns = [each if isinstance(each, Column) else Column(each) for each in heading]
    return Table([replace(columns[0], role=Role.NAME), *columns[1:]], rows, plain)


def print_json(value: Any) -> None:
    """Print one JSON value for a program."""
    print(json.dumps(value, indent=2, default=str))


def print_lines(lines: Iterable[str | Table], *, error: bool = False) -> None:
    """Print for a person, on stderr if it is an ``error``."""
    for line in lines:
        print_text(line, error=error)


def print_answer(value: Any, lines: str | Table | Iterable[str | Table], *, as_json: bool) -> None:
    """Print an answer: ``value`` for a program, else ``lines`` for a person."""
    if as_json:
        print_json(value)
    else:
        print_lines((lines,) if isinstance(lines, str | Table) else lines)


def fail_if(failed: object) -> None:
    """End the command with exit code 1 where anything has ``failed``."""
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def print_error(error: ToolcribError, *, as_json: bool = False) -> ExitCode:
    """Print an error to stderr, for a program ``as_json``, and return the exit code that goes with it."""
    code, kind = ExitCode.FAILED, "failed"
    if isinstance(error, ConfigError):
        code, kind = ExitCode.CONFIG, "config"
    elif isinstance(error, StartRefused):
        code, kind = ExitCode.REFUSED, "refused"
    if as_json:
        about = {"source": error.source} if isinstance(error, ConfigError) else {}
        print_error_json(kind, str(error), code, **about, problems=error_problems(error))
    else:
        print_text(f" {error}", error=True, lead="Error:", role=Role.BAD)
    return code


def print_error_json(kind: str, message: str, code: ExitCode, **about: Any) -> None:
    """Print why there is no answer to stderr, as one JSON object; what is empty in ``about`` is left out."""
    found = {key: value for key, value in about.items() if value}
    error = {"kind": kind, "message": message, "exit_code": int(code), **found}
    print(json.dumps({"error": error}, indent=2), file=sys.stderr)


def error_problems(error: ToolcribError) -> list[JsonObject]:
    """Return each thing that is wrong with a config, as JSON objects; none for any other error."""
    return [problem_json(problem) for problem in error.problems] if isinstance(error, ConfigError) else []


def warn(problems: Iterable[Problem], heading: str) -> None:
    """Print problems to stderr, one a line, each after ``heading``."""
    for problem in problems:
        print_text(
            f" {one_line(str(problem))}", error=True, lead=f"{heading}:", role=_HEADINGS.get(heading, Role.FAINT)
        )


def problem_json(problem: Problem) -> JsonObject:
    """Return a problem as a JSON object."""
    return {"path": problem.path, "reason": problem.reason, "hint": problem.hint}


ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The config file; see `toolcrib config path` for the default."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs; -o json is the same.")]
SearchTypeOption = Annotated[SearchType, typer.Option("--type", help="How the query is read.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Most results.")]
RowsOption = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most this many, the first ones.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]


_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}


def confirmed(question: str, *, yes: bool, as_json: bool, default: bool = True) -> bool:
    """Return whether something is to be done: the person has said so, or says so now; a program is not asked."""
    # A pipe is never asked: what it contains is not meant as an answer.
    return yes or (not as_json and sys.stdin.isatty() and _answered_yes(question, default=default))


def _answered_yes(question: str, *, default: bool) -> bool:
    shown = "\n".join(map(escaped, question.split("\n")))
    while True:
        answer = input(f"{shown} [{'Y/n' if default else 'y/N'}] ").strip()
        if not answer:
            return default
        if answer.lower() in _ANSWERS:
            return _ANSWERS[answer.lower()]
        print_text(
            f"{answer!r} is no answer to that: type y or n, Enter for {'yes' if default else 'no'}, or ^C to stop.",
            error=True,
        )


def load_settings(path: Path | None) -> "Settings":
    """Return the settings of the config file at ``path``, or of the one that is found.

    Raises:
        ConfigError: the file cannot be used.

    """
    from toolcrib.auth.keyring import SystemKeyring
    from toolcrib.config.loading import load

    return load(path, dict(os.environ), Path.cwd(), SystemKeyring().get)
