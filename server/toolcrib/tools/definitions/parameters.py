"""The parameters of a tool, as its input schema declares them: by name, through ``$ref`` and composition.

Knows how JSON Schema names properties; never knows how they are shown, indexed or checked.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject

# Bounds for walking through a hostile schema.
_REF_HOPS_MAX = 8
_BRANCHES_MAX = 32
_PROPERTIES_MAX = 512
_COMPOSING = frozenset(("allOf", "anyOf", "oneOf"))
_DECLARING = _COMPOSING | {"properties"}
# Few digits: parsing a number with thousands of digits takes quadratic time.
_INDEX = re.compile(r"[0-9]{1,6}\Z")


class Parameter(NamedTuple):
    """One property of an object schema. ``$ref`` in ``schema`` is already resolved."""

    name: str
    schema: JsonObject
    required: bool


def parameters(schema: JsonObject, root: JsonObject) -> Iterator[Parameter]:
    """Yield the properties of ``schema``: required ones in the order of ``required``, then the others.

    Properties of ``allOf``, ``anyOf`` and ``oneOf`` branches count too; what only some alternatives require is
    optional. ``root`` is the whole document, in which references are looked up. At most the first 512 properties count.
    Never raises.
    """
    if not declares(schema):
        return
    together, alternatives = [schema], list[JsonObject]()
    if not schema.keys().isdisjoint(_COMPOSING):
        together += _branches(schema, root, "allOf")
        alternatives = [*_branches(schema, root, "anyOf"), *_branches(schema, root, "oneOf")]
    declared = _properties([*together, *alternatives])
    required = chain.from_iterable([as_list(part.get("required")) for part in together])
    first = dict.fromkeys(
        [name for name in islice(required, _PROPERTIES_MAX) if isinstance(name, str) and name in declared]
    )
    for name in first:
        yield Parameter(name, resolve(declared[name], root), required=True)
    for name, subschema in declared.items():
        if name not in first:
            yield Parameter(name, resolve(subschema, root), required=False)


def declares(schema: JsonObject) -> bool:
    """Return whether a schema may declare properties; most subschemas do not."""
    return not schema.keys().isdisjoint(_DECLARING)


def _properties(parts: Sequence[JsonObject]) -> JsonObject:
    """Return the properties that these parts of a schema declare, earlier parts taking precedence."""
    if len(parts) == 1 and len(only := as_object(parts[0].get("properties"))) <= _PROPERTIES_MAX:
        return only
    declared: JsonObject = {}
    every = chain.from_iterable(as_object(part.get("properties")).items() for part in parts)
    for name, subschema in islice(every, _PROPERTIES_MAX):
        declared.setdefault(name, subschema)
    return declared


def _branches(schema: JsonObject, root: JsonObject, keyword: str) -> list[JsonObject]:
    return [resolve(branch, root) for branch in as_list(schema.get(keyword))[:_BRANCHES_MAX]]


def resolve(schema: Any, root: JsonObject) -> JsonObject:
    """Return ``schema`` with its ``$ref`` resolved inside ``root``, its own keywords overriding the target's.

    ``{}`` if it is not an object schema; an unresolvable, external or circular reference adds nothing.
    """
    found = as_object(schema)
    for _ in range(_REF_HOPS_MAX):
        if "$ref" not in found:
            return found
        own = {key: value for key, value in found.items() if key != "$ref"}
        target = _target(found["$ref"], root)
        found = {**target, **own} if own else target
    return {}


def _target(reference: Any, root: JsonObject) -> JsonObject:
    """Return the target of a reference like ``#/$defs/Name`` (RFC 6901); ``{}`` for any other."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return {}
    place: Any = root
    for step in unquote(reference).split("/")[1:]:
        # In this order, because ~01 means ~1 and not a slash (RFC 6901, 4).
        place = _member(place, step.replace("~1", "/").replace("~0", "~"))
    return as_object(place)


def _member(place: Any, key: str) -> Any:
    if isinstance(place, list):
        items = as_list(place)
        return items[int(key)] if _INDEX.match(key) and int(key) < len(items) else None
    return as_object(place).get(key)
