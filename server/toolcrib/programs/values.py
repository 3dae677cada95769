"""The value of a program as a text: JSON where it can be, and no more of it than is asked for."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

_PIECES_MAX: Final = 500_000
_COUNTED_MAX: Final = 32 * 1024 * 1024
"""Pieces and characters that are counted of a value: what holds itself many times has more than any machine counts."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A value as text, of which ``text`` is the beginning.

    ``size`` is the whole size in characters; it has at least so many where it is not ``is_counted``.
    """

    text: str
    size: int
    is_counted: bool = True


def rendered(value: Any, most: int) -> Rendered:
    """Return a value with at most ``most`` characters of its text, which a text is itself.

    What JSON has no form for is its ``str``; sets are lists, exceptions ``{"error": ...}``, objects their attributes.

    Raises:
        RecursionError: it is nested too deeply.

    """
    if isinstance(value, str):
        return Rendered(value[:most], len(value))
    text = _Text(most)
    try:
        text.add(value)
    except _EnoughError:
        return Rendered("".join(text.kept), text.size, is_counted=False)
    return Rendered("".join(text.kept), text.size)


class _EnoughError(Exception):
    """So much of a value was counted as is counted at most."""


class _Text:
    """The text of a value while it is written: the beginning is kept, the rest counted."""

    def __init__(self, most: int) -> None:
        self._room, self._pieces = most, 0
        self.kept: list[str] = []
        self.size = 0

    def add(self, value: Any) -> None:
        """Write a value; raises :class:`_EnoughError` and RecursionError."""
        match value:
            case None | bool() | float():
                self._write(json.dumps(value))
            case int():
                digits = _digits(value)
                self._write(digits if digits[-1:].isdigit() else json.dumps(digits))
            case str():
                self._write(json.dumps(value, ensure_ascii=False))
            case dict():
                self._add_members(cast("dict[Any, Any]", value))
            case list() | tuple() | set() | frozenset():
                self._add_items(cast("Iterable[Any]", value))
            case BaseException():
                self._add_members({"error": str(value)})
            case _:
                attributes: Any = getattr(value, "attributes", None)
                self.add(attributes if isinstance(attributes, dict) else _named(value))

    def _add_members(self, value: dict[Any, Any]) -> None:
        self._write("{")
        for number, (key, each) in enumerate(value.items()):
            self._write(("," if number else "") + json.dumps(_key(key), ensure_ascii=False) + ":")
            self.add(each)
        self._write("}")

    def _add_items(self, values: Iterable[Any]) -> None:
        self._write("[")
        for number, each in enumerate(values):
            if number:
                self._write(",")
            self.add(each)
        self._write("]")

    def _write(self, piece: str) -> None:
        if self._room > 0:
            self.kept.append(piece[: self._room])
            self._room -= len(piece)
        self.size += len(piece)
        self._pieces += 1
        if self._pieces > _PIECES_MAX or self.size > _COUNTED_MAX:
            raise _EnoughError


def _digits(value: int) -> str:
    """Return an integer as text, or how large it is: more digits than Python writes take very long."""
    try:
        return str(value)
    except ValueError:
        return f"an integer of {value.bit_length()} bits"


def _named(value: Any) -> str:
    """Return an object as text: a function and a type of the interpreter's own by their name."""
    name = getattr(value, "name", None)
    return name if isinstance(name, str) and hasattr(value, "kind") else str(value)


def _key(key: Any) -> str:
    match key:
        case str():
            return key
        case None | bool() | float():
            return json.dumps(key)
        case int():
            return _digits(key)
        case _:
            return str(key)
