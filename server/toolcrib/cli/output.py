"""How commands answer: text for people, JSON for programs, errors on stderr, exit codes.

Knows how things look; never knows what they mean.
"""

import json
import sys
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from toolcrib.base.text import one_line, sanitize
from toolcrib.errors import ConfigError, Problem, StartRefused, ToolcribError
from toolcrib.model import JsonObject


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0
    FAILED = 1
    CONFIG = 2
    REFUSED = 3
    INTERRUPTED = 130


def print_text(text: str, *, error: bool = False) -> None:
    """Print for a person, on stderr if it is an ``error``; nothing in ``text`` can steer the terminal."""
    print(sanitize(text), file=sys.stderr if error else sys.stdout)


def print_json(value: Any) -> None:
    """Print one JSON value for a program."""
    print(json.dumps(value, indent=2, default=str))


def complain(error: ToolcribError) -> ExitCode:
    """Print an error to stderr and return the exit code that goes with it."""
    print(sanitize(f"Error: {error}"), file=sys.stderr)
    if isinstance(error, ConfigError):
        return ExitCode.CONFIG
    return ExitCode.REFUSED if isinstance(error, StartRefused) else ExitCode.FAILED


def warn(problems: Iterable[Problem], heading: str) -> None:
    """Print problems to stderr, one a line, each after ``heading``."""
    for problem in problems:
        print(f"{heading}: {one_line(str(problem))}", file=sys.stderr)


def problem_json(problem: Problem) -> JsonObject:
    """Return a problem as a JSON object."""
    return {"path": problem.path, "reason": problem.reason, "hint": problem.hint}
