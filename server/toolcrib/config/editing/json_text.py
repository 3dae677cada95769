"""Adds and removes members of objects in JSON text, with or without comments; all else stays byte-identical."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.config.editing.files import EditRefused

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\ufeff|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<mark>[{}\[\],:])
      | (?P<word>[^\s{}\[\],:"'/]+)""",
    re.DOTALL | re.VERBOSE,
)
_LINE_START = re.compile(r"[ \t]*")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Member:
    """``end`` is the end of the value; ``comma`` that of the comma behind it, if there is one."""

    key: str
    start: int
    value: int
    end: int
    comma: int | None


@dataclass(slots=True)
class _Object:
    start: int
    end: int = 0
    members: list[_Member] = field(default_factory=list[_Member])

    def named(self, key: str) -> _Member | None:
        """Return the member that counts: the last one of this name."""
        return next((member for member in reversed(self.members) if member.key == key), None)


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return ``text`` with ``value`` as the member at ``path``; objects that are missing on the way are made.

    Raises:
        EditRefused: something on the way is not an object, or the text is not understood.

    """
    if not text.strip("\ufeff \t\r\n"):
        text = f"{text.rstrip()}{{}}\n"
    holder, rest = _deepest(text, path)
    for key in reversed(rest[1:]):
        value = {key: value}
    key, newline = rest[0], "\r\n" if "\r\n" in text else "\n"
    # Parsers take the last of repeated keys, so that one is changed.
    known = holder.named(key)
    if known is not None:
        return text[: known.value] + _dumped(value, _indent_at(text, known.start), text, newline) + text[known.end :]
    return _inserted(text, holder, key, value, newline)


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return ``text`` without the member at ``path``; as it is where there is none.

    Raises:
        EditRefused: the text is not understood.

    """
    holder, rest = _deepest(text, path)
    member = holder.named(rest[0]) if len(rest) == 1 else None
    if member is None:
        return text
    place = holder.members.index(member)
    start, end = member.start, member.end if member.comma is None else member.comma
    if member.comma is None and place:
        # The last one goes with the comma in front of it, and what stands between them stays.
        before = holder.members[place - 1]
        text = text[: before.end] + text[before.comma or before.end :]
        moved = (before.comma or before.end) - before.end
        start, end = start - moved, end - moved
        if not text[before.end : start].strip(" \t"):
            start = before.end
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end + 1
    behind = text[end:line_end].strip()
    # A comment behind it in its line is about it.
    is_whole = not text[line_start:start].strip() and (not behind or behind.startswith("//"))
    if is_whole:
        start, end = line_start, line_end
    elif end < len(text) and text[end] == " ":
        end += 1
    return text[:start] + text[end:]


def _deepest(text: str, path: Sequence[str]) -> tuple[_Object, Sequence[str]]:
    """Return the innermost object on the way to ``path`` that is there, and the keys that are left from it."""
    tokens = [token for token in _tokens(text) if token.kind != "skip"]
    if not tokens or tokens[0].text != "{":
        raise EditRefused("is not an object")
    holder = _object_at(tokens, 0)
    for number, key in enumerate(path[:-1]):
        member = holder.named(key)
        if member is None:
            return holder, path[number:]
        at = next(place for place, token in enumerate(tokens) if token.start == member.value)
        if tokens[at].text != "{":
            raise EditRefused(f"has a value that is not an object under {key}")
        holder = _object_at(tokens, at)
    return holder, path[-1:]


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise EditRefused(f"has something that is not understood in line {text.count(chr(10), 0, at) + 1}")
        yield _Token(match.lastgroup or "", match[0], at, match.end())
        at = match.end()


def _object_at(tokens: Sequence[_Token], at: int) -> _Object:
    """Return the object that begins with the token ``at``, without a look into its values."""
    found, at = _Object(tokens[at].start), at + 1
    while at < len(tokens) and tokens[at].text != "}":
        if at + 2 >= len(tokens) or tokens[at + 1].text != ":":
            break
        key, first = tokens[at], tokens[at + 2]
        last = _end_of_value(tokens, at + 2)
        at = last + 1
        has_comma = at < len(tokens) and tokens[at].text == ","
        comma = tokens[at].end if has_comma else None
        found.members.append(_Member(_key_of(key), key.start, first.start, tokens[last].end, comma))
        at += has_comma
    if at >= len(tokens) or tokens[at].text != "}":
        raise EditRefused("is not closed, or not JSON")
    found.end = tokens[at].start
    return found


def _end_of_value(tokens: Sequence[_Token], at: int) -> int:
    depth = 0
    for place in range(at, len(tokens)):
        token = tokens[place]
        if token.kind == "mark":
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token.text, 0)
        if depth == 0:
            return place
    raise EditRefused("is not closed, or not JSON")


def _key_of(token: _Token) -> str:
    if token.kind == "text" and token.text.startswith('"'):
        try:
            return json.loads(token.text)
        except ValueError:
            raise EditRefused("has a key that is not understood") from None
    return token.text.strip("'")


def _inserted(text: str, holder: _Object, key: str, value: Any, newline: str) -> str:
    name = json.dumps(key, ensure_ascii=False)
    outer = _indent_at(text, holder.start)
    if not holder.members:
        inner = outer + _unit(text)
        new = f"{newline}{inner}{name}: {_dumped(value, inner, text, newline)}"
        between = text[holder.start + 1 : holder.end]
        if between.strip():  # a comment stays in front
            return text[: holder.start + 1] + between.rstrip() + new + newline + outer + text[holder.end :]
        return text[: holder.start + 1] + new + newline + outer + text[holder.end :]
    last = holder.members[-1]
    # An object written in one line stays in one line.
    if "\n" not in text[holder.start : holder.end]:
        flat = f"{name}: {json.dumps(value, ensure_ascii=False)}"
        at = last.end if last.comma is None else last.comma
        return text[:at] + (", " if last.comma is None else " ") + flat + text[at:]
    inner = _indent_at(text, last.start)
    new = f"{newline}{inner}{name}: {_dumped(value, inner, text, newline)}"
    if last.comma is not None:
        at = _line_end(text, last.comma, holder.end)
        return text[:at] + new + "," + text[at:]
    at = _line_end(text, last.end, holder.end)
    return text[: last.end] + "," + text[last.end : at] + new + text[at:]


def _line_end(text: str, start: int, limit: int) -> int:
    """Return where the line ends, after a comment behind a value; ``start`` where the object ends in the line."""
    end = text.find("\n", start)
    if end < 0 or end > limit:
        return start
    return end - 1 if text[end - 1] == "\r" and end - 1 >= start else end


def _indent_at(text: str, at: int) -> str:
    match = _LINE_START.match(text, text.rfind("\n", 0, at) + 1)
    return match[0] if match else ""


def _unit(text: str) -> str:
    """Return what one level is indented by: as the first indented line is, else two spaces."""
    for line in text.splitlines():
        indent = _indent_at(line, 0)
        if indent and line.strip().startswith(('"', "'")):
            return "\t" if indent[0] == "\t" else indent
    return "  "


def _dumped(value: Any, indent: str, text: str, newline: str) -> str:
    unit = _unit(text)
    dumped = json.dumps(value, ensure_ascii=False, indent="\t" if unit == "\t" else len(unit))
    return dumped.replace("\n", newline + indent)
