"""Adds and removes tables in TOML text; all else stays byte-identical."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from toolcrib.config.editing.files import EditRefused

_HEADER = re.compile(r"""[ \t]*\[\[?(?P<name>(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\[\]"'\#])+)\]\]?[ \t]*(?:\#.*)?\r?\n?\Z""")
_KEY = re.compile(r"""\s*(?:(?P<bare>[A-Za-z0-9_-]+)|"(?P<quoted>(?:[^"\\]|\\.)*)"|'(?P<plain>[^']*)')\s*(?:\.|\Z)""")
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return ``text`` with the object ``value`` as the table at ``path``, at the end; what was there is replaced.

    Raises:
        EditRefused: ``value`` is not an object.

    """
    if not isinstance(value, dict):
        raise EditRefused("can only be given whole tables")
    newline = "\r\n" if "\r\n" in text else "\n"
    rest = remove_member(text, path)
    gap = "" if not rest.strip() else newline if rest.endswith("\n") else newline * 2
    return rest + gap + "".join(line + newline for line in _table(path, cast("dict[str, Any]", value)))


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return ``text`` without the table at ``path`` and those below it; unchanged if there is none."""
    rest: list[str] = []
    inside: list[str] | None = None
    for line in text.splitlines(keepends=True):
        names = _names_in(line)
        if names is not None:
            rest += _comments_after(inside or [])
            inside = [] if names[: len(path)] == list(path) else None
        (rest if inside is None else inside).append(line)
    if inside is not None:
        # The blank line in front of the last table goes with it.
        rest = rest[:-1] if len(rest) > 1 and not rest[-1].strip() else rest
        rest += _comments_after(inside)
    return "".join(rest)


def _comments_after(lines: Sequence[str]) -> Sequence[str]:
    """Return the comments and blank lines at the end of a table's lines, which are about what comes next."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    after = lines[end:]
    return after if any(line.strip() for line in after) else ()


def _names_in(line: str) -> list[str] | None:
    """Return the names of the keys in the header of a table; None where the line is none."""
    match = _HEADER.match(line)
    if match is None:
        return None
    names: list[str] = []
    at, name = 0, match["name"]
    while at < len(name):
        key = _KEY.match(name, at)
        if key is None:
            return None
        quoted = key["quoted"]
        names.append(json.loads(f'"{quoted}"') if quoted is not None else key["bare"] or key["plain"] or "")
        at = key.end()
    return names


def _table(path: Sequence[str], value: dict[str, Any]) -> Iterator[str]:
    yield f"[{'.'.join(map(_key, path))}]"
    for name, member in value.items():
        yield f"{_key(name)} = {_written(member)}"


def _key(name: str) -> str:
    return name if _BARE.match(name) else _quoted(name)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{_key(name)} = {_written(member)}" for name, member in cast("dict[str, Any]", value).items())
        return f"{{ {', '.join(members)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, cast('list[Any]', value)))}]"
    if isinstance(value, str):
        return _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    # JSON and TOML escape alike, but for DEL, which TOML forbids in strings.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")
