"""JSON objects parsed from untrusted text, with the keys that were given more than once.

Knows what a parsed document can be; never knows a file format or what a key means.
"""

from collections.abc import Sequence
from typing import Any

from toolcrib.model import JsonObject

DEPTH_MAX = 64
"""Levels of objects and lists in one document."""


class DocumentError(ValueError):
    """The text is not a document of its format; says where and why, and quotes none of it."""


class ObjectWithRepeats(dict[str, Any]):
    """An object in which the ``repeated`` keys were given more than once."""

    repeated: tuple[str, ...] = ()


def object_of(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    """Return an object made of ``pairs`` that remembers which keys were given more than once."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    seen: set[str] = set()
    again = ObjectWithRepeats(made)
    again.repeated = tuple(dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key)))
    return again
