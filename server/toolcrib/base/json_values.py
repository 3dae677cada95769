"""Reads untyped JSON safely: as an object or array, level by level, by its size, and by where it stands in a text."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Self

from toolcrib.base.model import JsonObject

DEPTH_MAX = 64
"""Levels of objects and lists in one document."""


class DocumentError(ValueError):
    """The text is not a document of its format; says where and why, and quotes none of it."""


class ObjectWithRepeats(dict[str, Any]):
    """An object in which the ``repeated`` keys were given more than once."""

    repeated: tuple[str, ...] = ()


class WrittenFloat(float):
    """A number whose text is the one that a person wrote: ``3.10`` as a number is 3.1, but as a version it is not."""

    __slots__ = ("_written",)

    def __new__(cls, written: str) -> Self:
        """Return the number that ``written`` is."""
        number = super().__new__(cls, written)
        number._written = written
        return number

    def __str__(self) -> str:
        """Return it as it was written."""
        return self._written


def number_of(written: str) -> float:
    """Return the number with a fraction or an exponent that a text is, so that its ``str`` is that text.

    Raises:
        ValueError: it is no number.

    """
    number = float(written)
    return number if repr(number) == written else WrittenFloat(written)


def object_of(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    """Return an object made of ``pairs`` that remembers which keys were given more than once."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    seen: set[str] = set()
    again = ObjectWithRepeats(made)
    again.repeated = tuple(dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key)))
    return again


def with_members(value: JsonObject, members: JsonObject) -> JsonObject:
    """Return a copy of an object with these members that remembers its repeated keys."""
    made = ObjectWithRepeats({**value, **members})
    made.repeated = repeated_in(value)
    return made


def repeated_in(value: JsonObject) -> tuple[str, ...]:
    """Return the keys of an object that were given more than once."""
    return value.repeated if isinstance(value, ObjectWithRepeats) else ()


_Json = dict[str, Any] | list[Any] | str | float | bool | None
_TYPES: tuple[tuple[type, str], ...] = (
    # First, because in Python a bool is an int.
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (list, "array"),
    (dict, "object"),
)


@dataclass(frozen=True, slots=True)
class TextNode:
    """A value in a text: where it begins and ends, and of an object its members in order.

    ``is_flow``: it is written in braces or brackets. ``members`` None: it is no object. ``end`` is behind the last
    character of the value, without the blank lines and comments that follow it.
    """

    start: int
    end: int
    is_flow: bool
    members: "tuple[TextMember, ...] | None"

    def named(self, key: str) -> "TextMember | None":
        """Return the member that counts, as parsers take the last one of a name; None where there is none."""
        return next((member for member in reversed(self.members or ()) if member.key == key), None)

    def deepest(self, path: Sequence[str]) -> "tuple[TextNode, Sequence[str]]":
        """Return the innermost object on the way to ``path``, and the keys that are left from it.

        Raises:
            DocumentError: something on the way is a value that is not an object.

        """
        holder = self
        for number, key in enumerate(path[:-1]):
            member = holder.named(key)
            if member is None or member.value.members is None:
                # Nothing behind a key of YAML is a place for an object.
                if member and member.value.end > member.value.start:
                    raise DocumentError(f"has a value that is not an object under {key}")
                return holder, path[number:]
            holder = member.value
        return holder, path[-1:]


@dataclass(frozen=True, slots=True)
class TextMember:
    """A member of an object: its key, where the key begins, its value, and the end of a comma right behind that."""

    key: str
    start: int
    value: TextNode
    comma: int | None = None


def nested(path: Sequence[str], value: Any) -> Any:
    """Return ``value`` in objects with the keys of ``path``, the outermost first."""
    for key in reversed(path):
        value = {key: value}
    return value


def as_object(value: Any) -> JsonObject:
    """Return ``value`` if it is a JSON object, else an empty one."""
    json_value: _Json = value
    return json_value if isinstance(json_value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return ``value`` if it is a JSON array, else an empty one."""
    json_value: _Json = value
    return json_value if isinstance(json_value, list) else []


def as_text(value: Any) -> Any:
    """Return a finite number, true or false as its text; any other value as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        try:
            return str(value)
        except ValueError:  # Python writes no number of thousands of digits
            return value
    return value


def value_at(value: Any, place: Iterable[str]) -> Any:
    """Return the value at a path of keys; None if there is none."""
    for key in place:
        value = as_object(value).get(key)
    return value


def copied(value: Any) -> Any:
    """Return a copy of a JSON value that shares no object or list with it."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in as_object(value).items()}
    return [copied(each) for each in as_list(value)] if isinstance(value, list) else value


def compact(value: Any) -> str:
    """Return a JSON value as text without unnecessary spaces, for a reader who counts tokens."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_type(value: Any) -> str:
    """Return the JSON Schema name of the type of ``value``."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "null")


def levels(value: Any) -> Iterator[list[Any]]:
    """Yield the objects and arrays of each level of nesting, outermost first. Holds one level at a time."""
    # Without recursion, because a hostile value may exceed Python's recursion limit.
    containers: list[dict[str, Any] | list[Any]] = [value] if isinstance(value, (dict, list)) else []
    while containers:
        yield containers
        members = (each.values() if isinstance(each, dict) else each for each in containers)
        containers = [child for each in members for child in each if isinstance(child, (dict, list))]


def weight(value: Any, limit: int) -> int:
    """Return the approximate size of ``value`` as JSON, in bytes; stops counting soon after ``limit``."""
    total = 0
    left: list[_Json] = [value]
    while left and total <= limit:
        item = left.pop()
        if isinstance(item, str):
            total += 2 + (len(item) if item.isascii() else _bytes_of(item, limit))
        elif isinstance(item, dict):
            total += 4 * len(item)
            left += item.keys()
            left += item.values()
        elif isinstance(item, list):
            total += len(item)
            left += item
        else:
            total += 8
    return total


def memory_of(value: Any, limit: int) -> int:
    """Return approximately how many bytes of memory ``value`` takes; stops counting soon after ``limit``.

    Small values take several times their JSON: an empty object has two characters and 64 bytes.
    """
    # Not one loop with weight(), for which each call waits: a call for each item makes that three times as slow.
    total = 0
    left: list[_Json] = [value]
    while left and total <= limit:
        item = left.pop()
        total += getsizeof(item)
        if isinstance(item, dict):
            left += item.keys()
            left += item.values()
        elif isinstance(item, list):
            left += item
    return total


def _bytes_of(text: str, limit: int) -> int:
    if len(text) > limit:
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; those that are nested too deeply to be compared are not."""
    try:
        return bool(one == other)
    except RecursionError:
        return False
