"""The texts inside a tool's definition: which of its strings are prose for a reader, and which are data.

Knows definitions and JSON Schema; never knows what is done to a text, or for whom.
"""

from collections.abc import Sequence
from typing import Any, cast

from toolcrib.base.model import JsonObject
from toolcrib.base.text import sanitize, split_summary

TEXT_MAX = 4000
"""Maximum length of each search text of a tool."""

Path = tuple[str | int, ...]
"""The keys and indexes of a value's place."""

_NO_TEXTS = frozenset(("name", "icons", "execution"))
"""Fields of a definition that contain identifiers, URLs and settings instead of words."""
_SCHEMAS = frozenset(("inputSchema", "outputSchema"))
_NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_VALUES = frozenset(("examples", "example"))
_DATA = frozenset((
    "enum", "const", "default", "pattern", "type", "required", "format", "discriminator", "dependentRequired",
    "contentEncoding", "contentMediaType", "$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor",
    "$recursiveRef", "$vocabulary",
))  # fmt: skip
"""Keywords of a schema whose values are interpreted by programs, and must not be changed."""


def texts_in(definition: JsonObject) -> list[tuple[Path, str]]:
    """Return every text of a definition with its path: titles, descriptions, examples and all others."""
    found: list[tuple[Path, str]] = []
    for key, value in definition.items():
        if key in _SCHEMAS:
            _in_schema(value, (key,), found)
        elif key not in _NO_TEXTS:
            _in_value(value, (key,), found)
    return found


def texts_in_value(value: Any) -> list[tuple[Path, str]]:
    """Return every string of a JSON value that is not a schema, with its path; member names are not included."""
    found: list[tuple[Path, str]] = []
    _in_value(value, (), found)
    return found


def _in_value(value: Any, path: Path, found: list[tuple[Path, str]]) -> None:
    if isinstance(value, str):
        found.append((path, value))
    elif isinstance(value, dict):
        for key, member in cast("JsonObject", value).items():
            _in_value(member, (*path, key), found)
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            _in_value(item, (*path, number), found)


def _in_schema(value: Any, path: Path, found: list[tuple[Path, str]]) -> None:
    if isinstance(value, str):
        found.append((path, value))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            _in_schema(item, (*path, number), found)
    elif isinstance(value, dict):
        for key, member in cast("JsonObject", value).items():
            if key not in _DATA:
                _in_member(key, member, (*path, key), found)


def _in_member(key: str, member: Any, path: Path, found: list[tuple[Path, str]]) -> None:
    if isinstance(member, str):  # true of most
        found.append((path, member))
    elif key in _NAMED_SCHEMAS and isinstance(member, dict):
        for name, schema in cast("JsonObject", member).items():
            _in_schema(schema, (*path, name), found)
    elif key in _VALUES:
        _in_value(member, path, found)
    else:
        _in_schema(member, path, found)


def prose_of(definition: JsonObject) -> tuple[str, str]:
    """Return the key under which a definition describes its tool, and the description."""
    key = "description" if definition.get("description") else "title"
    return key, definition.get(key) or ""


def said(definition: JsonObject) -> tuple[str, str]:
    """Return the first sentence of a definition's description, and the rest, 4,000 characters in all."""
    _, prose = prose_of(definition)
    return split_summary(prose[:TEXT_MAX])


def with_text(value: Any, path: Path, text: str) -> Any:
    """Return ``value`` with ``text`` at an existing path; unaffected parts are shared.

    Raises:
        LookupError, TypeError: there is no such path.

    """
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = with_text(value[path[0]], path[1:], text)
    return copy


def sanitized(definition: JsonObject, texts: Sequence[tuple[Path, str]]) -> JsonObject:
    """Return a definition with these ``texts`` freed of hidden and terminal control characters."""
    every = "".join([text for _, text in texts])
    if sanitize(every) == every:  # true of nearly all definitions, whose texts then need not be checked one by one
        return definition
    for path, text in texts:
        if (clean := sanitize(text)) != text:
            definition = with_text(definition, path, clean)
    return definition
