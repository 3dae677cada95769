"""Files of variables, one ``NAME=value`` a line, as shells and the clients' own ``.env`` files have them."""

import re
import shlex
from collections.abc import Mapping

ENV_FILE_MAX_BYTES = 256 * 1024
"""Most that is read of a file of variables."""

_ASSIGNMENT = re.compile(
    r"""^[^\S\n]*(?:export[^\S\n]+)?(?P<name>[A-Za-z_][\w.]*)[^\S\n]*=[^\S\n]*
    (?:(?P<quoted>(?:'[^']*'|"(?:\\.|[^"\\])*")+)[^\S\n]*(?:\#[^\n]*)?$|(?P<plain>[^\n]*)$)""",
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "\n": "", **{each: each for each in '\\"$`'}}


def parse_variables(text: str) -> dict[str, str]:
    """Return the variables of such a file; of a repeated name the last one counts, as in a shell.

    A quoted value may have several lines. Nothing is expanded in it, and lines of another form are passed over.
    """
    found: dict[str, str] = {}
    for match in _ASSIGNMENT.finditer(text):
        quoted = match["quoted"]
        if quoted is None:
            found[match["name"]] = match["plain"].partition(" #")[0].rstrip()
        else:
            found[match["name"]] = "".join(_unquoted(piece) for piece in _PIECE.findall(quoted))
    return found


def format_variables(variables: Mapping[str, str]) -> str:
    """Return lines that :func:`parse_variables` and a shell read as these variables."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def _unquoted(piece: str) -> str:
    if piece.startswith("'"):
        return piece[1:-1]
    # Before any other character a backslash stands for itself, as in a shell.
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[0]), piece[1:-1])
