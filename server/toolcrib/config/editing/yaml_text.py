"""Adds and removes members of objects in YAML text; all else stays byte-identical."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from toolcrib.base.json_values import TextMember, TextNode, nested
from toolcrib.base.yaml import nodes_of
from toolcrib.config.editing.files import EditRefused

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*\Z")
"""Texts that every reader of YAML takes for text without quotes, but for the words below."""
_WORDS = frozenset("true false null yes no on off y n nan inf".split())
_UNFIT = re.compile("[\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
_UNIT = "  "


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return ``text`` with ``value`` as the member at ``path``; objects that are missing on the way are made.

    Raises:
        EditRefused: something on the way is not an object, or the text is not understood.

    """
    newline = "\r\n" if "\r\n" in text else "\n"
    root = _root(text)
    if root is None:
        gap = "" if not text.strip() or text.endswith("\n") else newline
        return text + gap + "".join(line + newline for line in _lines(nested(path, value), ""))
    holder, rest = root.deepest(path)
    known = holder.named(rest[0])
    if known is not None and len(rest) == 1:
        return _replaced(text, known, value, newline)
    if known is not None:  # there, and empty
        return _replaced(text, known, nested(rest[1:], value), newline)
    member = nested(rest, value)
    if holder.is_flow:
        return _into_braces(text, holder, member)
    start = holder.members[0].start if holder.members else 0
    indent = " " * (start - (text.rfind("\n", 0, start) + 1))
    end = _line_end(text, holder.end)
    gap = "" if end and text[end - 1] == "\n" else newline
    return text[:end] + gap + "".join(line + newline for line in _lines(member, indent)) + text[end:]


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return ``text`` without the member at ``path``; unchanged if there is none.

    Raises:
        EditRefused: the text is not understood.

    """
    root = _root(text)
    if root is None:
        return text
    holder, rest = root.deepest(path)
    member = holder.named(rest[0]) if len(rest) == 1 else None
    if member is None or holder.members is None:
        return text
    if holder.is_flow:
        return _out_of_braces(text, holder, member)
    if len(holder.members) == 1:
        # An object without members has to be written as one.
        start = holder.members[0].start
        return text[:start] + "{}" + text[member.value.end :]
    start = text.rfind("\n", 0, member.start) + 1
    end = _line_end(text, member.value.end)
    if text[start : member.start].strip():
        raise EditRefused("is written in a way that is not understood")
    return text[:start] + text[end:]


def _root(text: str) -> TextNode | None:
    root = nodes_of(text)
    if root is not None and root.members is None and text[root.start : root.end].strip():
        raise EditRefused("is not an object")
    return None if root is None or root.members is None else root


def _replaced(text: str, member: TextMember, value: Any, newline: str) -> str:
    """Return the text with another value behind a key: in its line where it fits, else in lines of its own."""
    before, after = text[: member.value.start], text[member.value.end :]
    if not isinstance(value, dict) or not value or _is_inside_braces(text, member):
        gap = "" if before.endswith((" ", "\n")) else " "
        return before + gap + _flow(value) + after
    column = member.start - (text.rfind("\n", 0, member.start) + 1)
    key_end = text.index(":", member.start + 1) + 1
    lines = "".join(newline + line for line in _lines(value, " " * column + _UNIT))
    return text[:key_end] + lines + after


def _is_inside_braces(text: str, member: TextMember) -> bool:
    line = text[text.rfind("\n", 0, member.start) + 1 : member.start]
    return bool(line.strip())


def _into_braces(text: str, holder: TextNode, member: Any) -> str:
    [(key, value)] = cast("dict[str, Any]", member).items()
    new = f"{_scalar(key)}: {_flow(value)}"
    if not holder.members:
        return text[: holder.start + 1] + new + text[holder.end - 1 :]
    end = holder.members[-1].value.end
    return text[:end] + ", " + new + text[end:]


def _out_of_braces(text: str, holder: TextNode, member: TextMember) -> str:
    members = holder.members or ()
    place = members.index(member)
    if place + 1 < len(members):
        return text[: member.start] + text[members[place + 1].start :]
    start = members[place - 1].value.end if place else member.start
    return text[:start] + text[member.value.end :]


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end + 1


def _lines(value: Any, indent: str) -> Iterator[str]:
    """Yield an object as lines, one a member; lists and empty objects stand in one line."""
    for key, member in cast("dict[str, Any]", value).items():
        if isinstance(member, dict) and member:
            yield f"{indent}{_scalar(key)}:"
            yield from _lines(member, indent + _UNIT)
        else:
            yield f"{indent}{_scalar(key)}: {_flow(member)}"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{_scalar(key)}: {_flow(member)}" for key, member in cast("dict[str, Any]", value).items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, cast('list[Any]', value)))}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    # A JSON string is a YAML string, but for characters that YAML does not allow unescaped.
    return _UNFIT.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
