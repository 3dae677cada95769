"""Says where and why a text is no JSON, comments allowed, in the words of whoever wrote it."""

import json
import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?)|(?P<text>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|"""
    r"""(?P<bracket>[\[\]{}])|(?P<rest>[^\s\[\]{}"'/]+|/)""",
    re.DOTALL,
)
_PAIRS = {"{": "}", "[": "]"}
_PLACE = re.compile(r"<string>:(\d+) Unexpected (.*) at column (\d+)\Z", re.DOTALL)
"""An error of the parser of JSON with comments."""

_EXPECTED = {
    "Expecting property name enclosed in double quotes": 'a key in "quotes"',
    "Expecting ':' delimiter": "a colon",
    "Expecting value": "a value",
}
"""The standard parser's errors, but for a missing comma: which bracket could stand there instead depends."""

_MISSING_COMMA = "Expecting ',' delimiter"


def json_fault(text: str, error: ValueError) -> str:
    """Return what is wrong with a text that the parser of JSON with comments refused: the place, and what it expected.

    Nothing of the text is quoted but its brackets, commas and colons, because it may hold secrets.
    ``error`` is the parser's, shown where nothing better is known.
    """
    if not text.strip():
        return "is empty: write at least {}"
    opened: list[re.Match[str]] = []
    for token in _tokens(text):
        if token["bracket"] in _PAIRS:
            opened.append(token)
        elif token["bracket"]:
            if not opened:
                return f"{_place(text, token.start())}: {token[0]} closes nothing"
            wanted = _PAIRS[opened[-1][0]]
            if token[0] != wanted:
                return f"{_place(text, token.start())}: expected {wanted}, which closes {_opening(text, opened[-1])}"
            opened.pop()
        elif token["text"] and not _is_closed(token["text"]):
            return f"{_place(text, token.start())}: the text that begins here has no closing {token[0][0]}"
    at = _place_of(error)
    if opened and (at is None or at >= _line_and_column(text, len(text.rstrip()))):
        missing = "".join(_PAIRS[each[0]] for each in reversed(opened))
        line, _ = _line_and_column(text, len(text.rstrip()))
        return f"it is cut off in line {line}: expected {missing} at the end, to close {_opening(text, opened[-1])}"
    return _at_a_token(text, error)


def _at_a_token(text: str, error: ValueError) -> str:
    """Return what the standard parser expected, if it stops at the same place once the comments are gone."""
    at = _place_of(error)
    if at is None:
        return str(error)
    plain = _TOKEN.sub(lambda token: re.sub(r"\S", " ", token[0]) if token["comment"] else token[0], text)
    found = _token_at(text, at)
    try:
        json.loads(plain)
    except json.JSONDecodeError as strict:
        if (strict.lineno, strict.colno) == at:
            bracket = next(reversed([*_open_before(text, strict.pos)]), "{")
            expected = f"a comma or {_PAIRS[bracket]}" if strict.msg == _MISSING_COMMA else _EXPECTED.get(strict.msg)
            if expected:
                return f"line {at[0]}, column {at[1]}: expected {expected}{found and f' before {found}'}"
    return f"line {at[0]}, column {at[1]}: {f'unexpected {found}' if found else 'not valid from here on'}"


def _tokens(text: str) -> Iterator[re.Match[str]]:
    return (token for token in _TOKEN.finditer(text) if not token["comment"])


def _open_before(text: str, end: int) -> list[str]:
    opened: list[str] = []
    for token in _tokens(text):
        if token.start() >= end:
            break
        if token["bracket"] in _PAIRS:
            opened.append(token[0])
        elif token["bracket"] and opened:
            opened.pop()
    return opened


def _is_closed(token: str) -> bool:
    return len(token) > 1 and token[-1] == token[0]


def _opening(text: str, token: re.Match[str]) -> str:
    return f"the {token[0]} in {_place(text, token.start())}"


def _place(text: str, offset: int) -> str:
    line, column = _line_and_column(text, offset)
    return f"line {line}, column {column}"


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _place_of(error: ValueError) -> tuple[int, int] | None:
    found = _PLACE.match(str(error))
    return (int(found[1]), int(found[3])) if found else None


def _token_at(text: str, at: tuple[int, int]) -> str:
    """Return what stands at a place, and of what may be a secret only its kind; empty at the end."""
    line = text.split("\n")[at[0] - 1] if at[0] <= text.count("\n") + 1 else ""
    found = _TOKEN.match(line, at[1] - 1)
    if found is None or found["comment"]:
        return ""
    if found["text"]:
        return "a text"
    return found[0][0] if found["bracket"] or found[0][0] in ",:" else "a word or number"
