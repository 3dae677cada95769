"""Makes a downstream's tool definition fit to be listed: repaired if that is safe, refused otherwise.

Knows the shape that both protocol eras accept; never knows config, policy or other tools.
"""

import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, cast

from toolcrib.base.json_values import as_list, as_object, json_type, levels
from toolcrib.base.model import JsonObject

NAME_MAX = 256
"""Maximum length of a downstream's tool name in characters."""

DEPTH_MAX = 64
"""Maximum nesting depth of a definition; real ones have 16 at most."""

# The specification reserves keys with this prefix.
_RESERVED_META = "io.modelcontextprotocol/"
_UTF8_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
_SURROGATE = "\\ud"
"""The prefix of an escaped surrogate in ASCII JSON, alone or in a pair."""
_HINTS: Mapping[str, type] = {
    "title": str,
    "readOnlyHint": bool,
    "destructiveHint": bool,
    "idempotentHint": bool,
    "openWorldHint": bool,
}
_TOO_DEEP = f"is nested deeper than {DEPTH_MAX} levels"
_THEMES = ("light", "dark")
_TASK_SUPPORT = ("forbidden", "optional", "required")


class DefinitionError(ValueError):
    """The tool cannot be offered; the text says why."""


def tool_name(item: Any) -> str:
    """Return the name of one item of a ``tools/list``.

    Raises:
        DefinitionError: not an object, or without a usable name.

    """
    if not isinstance(item, dict):
        raise DefinitionError(f"is of type {json_type(item)}, not object")
    name = cast("JsonObject", item).get("name")
    if not isinstance(name, str) or not name:
        raise DefinitionError("has no name")
    if len(name) > NAME_MAX:
        raise DefinitionError(f"has a name of {len(name)} characters; at most {NAME_MAX} are allowed")
    if name.encode("utf-8", "replace").decode() != name:
        raise DefinitionError("has a name that is not valid Unicode")
    return name


def canonical_json(value: JsonObject) -> str:
    """Return the hashed form: ASCII JSON without spaces and with sorted keys.

    Raises:
        ValueError: it contains a number that JSON cannot represent.

    """
    return _CANONICAL_JSON.encode(value)


def listable(raw: JsonObject, max_bytes: int) -> tuple[JsonObject, str]:
    """Return ``raw`` in a form that both protocol eras can list: valid parts unchanged, others repaired or dropped.

    Unknown keys are kept. ``max_bytes`` bounds the whole as JSON. The second value is its canonical JSON.

    Raises:
        DefinitionError: the input schema is not one of an object, or the whole is too deep, too large or not JSON.

    """
    # The protocol requires an input schema, so one is added if the downstream has none; setdefault below keeps it.
    definition: JsonObject = {"inputSchema": _input_schema(raw.get("inputSchema"))}
    for key, value in raw.items():
        kept = _REPAIRS[key](value) if key in _REPAIRS else value
        if kept is not None or key not in _REPAIRS:
            definition.setdefault(key, kept)
    return encodable(definition, max_bytes)


def encodable(definition: JsonObject, max_bytes: int) -> tuple[JsonObject, str]:
    """Return ``definition`` with lone surrogates replaced, so that it can be sent as UTF-8, and its canonical JSON.

    Raises:
        DefinitionError: it is not JSON, too deep, or has more than ``max_bytes`` in UTF-8.

    """
    try:
        canonical = canonical_json(definition)
    except ValueError:
        raise DefinitionError("holds a number that JSON cannot carry") from None
    except RecursionError:
        raise DefinitionError(_TOO_DEEP) from None
    # Most have so few objects and lists that they cannot be too deep.
    if canonical.count("{") + canonical.count("[") > DEPTH_MAX and any(islice(levels(definition), DEPTH_MAX, None)):
        raise DefinitionError(_TOO_DEEP)
    # No character is shorter in ASCII than in UTF-8.
    if len(canonical) <= max_bytes and _SURROGATE not in canonical:
        return definition, canonical
    text = _UTF8_JSON.encode(definition)
    data = text.encode("utf-8", "replace")
    if len(data) > max_bytes:
        raise DefinitionError(f"has {len(data)} bytes; limits.definition_max_bytes is {max_bytes}")
    if data.decode() == text:
        return definition, canonical
    # Only a definition with a lone surrogate differs and has to be decoded again.
    definition = json.loads(data)
    return definition, canonical_json(definition)


def _input_schema(value: Any) -> JsonObject:
    """Return an input schema with ``type: object``. An absent one, like ``true``, allows any arguments."""
    if value is None or value is True:
        return {"type": "object"}
    if not isinstance(value, dict):
        raise DefinitionError(f"has an inputSchema of type {json_type(value)}, not object")
    kind = cast("JsonObject", value).get("type", "object")
    if kind is not None and kind != "object" and "object" not in as_list(kind):
        raise DefinitionError('has an inputSchema whose type is not "object"')
    # The protocol allows no other type here, not even a list that contains it.
    return _schema({**value, "type": "object"})


def _schema(schema: JsonObject) -> JsonObject:
    """Return ``schema`` with the keywords that the wire models inspect made valid."""
    if not isinstance(schema.get("$schema", ""), str):
        schema = _without(schema, "$schema")
    if "properties" in schema:
        declared = as_object(schema["properties"])
        schema = {**schema, "properties": {name: _subschema(value) for name, value in declared.items()}}
    if "required" in schema:
        required = [name for name in as_list(schema["required"]) if isinstance(name, str)]
        schema = {**schema, "required": required}
    return schema


def _subschema(value: Any) -> Any:
    return value if isinstance(value, bool) else as_object(value)


def _output_schema(value: Any) -> JsonObject | None:
    return _schema(cast("JsonObject", value)) if isinstance(value, dict) else None


def valid_text(value: Any) -> str | None:
    """Return ``value`` if it is a text."""
    return value if isinstance(value, str) else None


def _annotations(value: Any) -> JsonObject | None:
    if not isinstance(value, dict):
        return None
    return {key: hint for key, hint in as_object(value).items() if isinstance(hint, _HINTS.get(key, object))}


def valid_icons(value: Any) -> list[JsonObject] | None:
    """Return the icons of a list of icons, if there are any."""
    return [icon for icon in map(as_object, as_list(value)) if _is_icon(icon)] or None


def _is_icon(icon: JsonObject) -> bool:
    sizes = icon.get("sizes", [])
    return (
        isinstance(icon.get("src"), str)
        and isinstance(icon.get("mimeType", ""), str)
        and isinstance(sizes, list)
        and all(isinstance(size, str) for size in as_list(sizes))
        and icon.get("theme", "light") in _THEMES
    )


def _execution(value: Any) -> JsonObject | None:
    return as_object(value) if as_object(value).get("taskSupport") in _TASK_SUPPORT else None


def valid_meta(value: Any) -> JsonObject | None:
    """Return ``_meta`` without the keys that the specification reserves."""
    if not isinstance(value, dict):
        return None
    return {key: held for key, held in as_object(value).items() if not key.startswith(_RESERVED_META)}


def _without(value: JsonObject, key: str) -> JsonObject:
    return {other: held for other, held in value.items() if other != key}


_REPAIRS: Mapping[str, Callable[[Any], Any]] = {
    "inputSchema": _input_schema,
    "outputSchema": _output_schema,
    "title": valid_text,
    "description": valid_text,
    "annotations": _annotations,
    "icons": valid_icons,
    "execution": _execution,
    "_meta": valid_meta,
}
"""Functions that make each known field valid; None drops it."""
