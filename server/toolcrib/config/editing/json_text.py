"""Adds and removes members of objects in JSON text, with or without comments; all else stays byte-identical."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.base.json_values import DEPTH_MAX, TextMember, TextNode, nested
from toolcrib.config.editing.files import EditRefused

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\ufeff|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
      | (?P<text>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')
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


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return ``text`` with ``value`` as the member at ``path``; objects that are missing on the way are made.

    Raises:
        EditRefused: something on the way is not an object, or the text is not understood.

    """
    if not text.strip("\ufeff \t\r\n"):
        text = f"{text.rstrip()}{{}}\n"
    holder, rest = _root(text).deepest(path)
    value, newline = nested(rest[1:], value), "\r\n" if "\r\n" in text else "\n"
    known = holder.named(rest[0])
    if known is None:
        return _inserted(text, holder, rest[0], value, newline)
    new = _dumped(value, _indent_at(text, known.start), text, newline)
    return text[: known.value.start] + new + text[known.value.end :]


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return ``text`` without the member at ``path``; unchanged if there is none.

    Raises:
        EditRefused: the text is not understood.

    """
    holder, rest = _root(text).deepest(path)
    member = holder.named(rest[0]) if len(rest) == 1 else None
    if member is None or holder.members is None:
        return text
    place = holder.members.index(member)
    start, end = member.start, member.value.end if member.comma is None else member.comma
    if member.comma is None and place:
        # The last one goes with the comma in front of it, and what stands between them stays.
        before = holder.members[place - 1]
        gap = before.value.end
        text = text[:gap] + text[before.comma or gap :]
        moved = (before.comma or gap) - gap
        start, end = start - moved, end - moved
        if not text[gap:start].strip(" \t"):
            start = gap
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


def _root(text: str) -> TextNode:
    tokens = [token for token in _tokens(text) if token.kind != "skip"]
    if not tokens or tokens[0].text != "{":
        raise EditRefused("is not an object")
    return _node(tokens, 0, 0)[0]


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise EditRefused(f"has something that is not understood in line {text.count(chr(10), 0, at) + 1}")
        yield _Token(match.lastgroup or "", match[0], at, match.end())
        at = match.end()


def _node(tokens: Sequence[_Token], at: int, depth: int) -> tuple[TextNode, int]:
    """Return the value that begins with the token ``at``, and the place of the token behind it."""
    first = tokens[at]
    if first.text != "{":
        last = _end_of_value(tokens, at)
        return TextNode(first.start, tokens[last].end, is_flow=True, members=None), last + 1
    if depth > DEPTH_MAX:
        raise EditRefused("is nested too deeply")
    members: list[TextMember] = []
    at += 1
    while at + 2 < len(tokens) and tokens[at].text != "}" and tokens[at + 1].text == ":":
        key = tokens[at]
        value, at = _node(tokens, at + 2, depth + 1)
        has_comma = at < len(tokens) and tokens[at].text == ","
        members.append(TextMember(_key_of(key), key.start, value, tokens[at].end if has_comma else None))
        at += has_comma
    if at >= len(tokens) or tokens[at].text != "}":
        raise EditRefused("is not closed, or not JSON")
    return TextNode(first.start, tokens[at].end, is_flow=True, members=tuple(members)), at + 1


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


def _inserted(text: str, holder: TextNode, key: str, value: Any, newline: str) -> str:
    name = json.dumps(key, ensure_ascii=False)
    outer, brace = _indent_at(text, holder.start), holder.end - 1
    if not holder.members:
        inner = outer + _unit(text)
        new = f"{newline}{inner}{name}: {_dumped(value, inner, text, newline)}"
        # A comment stays in front.
        between = text[holder.start + 1 : brace].rstrip()
        return text[: holder.start + 1] + between + new + newline + outer + text[brace:]
    last = holder.members[-1]
    end, comma = last.value.end, last.comma
    # An object written in one line stays in one line.
    if "\n" not in text[holder.start : brace]:
        flat = f"{name}: {json.dumps(value, ensure_ascii=False)}"
        return text[:end] + ", " + flat + text[end:] if comma is None else text[:comma] + " " + flat + text[comma:]
    inner = _indent_at(text, last.start)
    new = f"{newline}{inner}{name}: {_dumped(value, inner, text, newline)}"
    if comma is not None:
        at = _line_end(text, comma, brace)
        return text[:at] + new + "," + text[at:]
    at = _line_end(text, end, brace)
    return text[:end] + "," + text[end:at] + new + text[at:]


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
