"""A tool's parameters, and as one short line that reads like a function: ``name(owner: string, limit?: integer)``."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import characters_of, one_line, truncate

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


_CUT = "…"
_PLAIN = re.compile(r"[A-Za-z0-9_$@.-]{1,64}\Z")
_PRIMITIVES = ("string", "integer", "number", "boolean", "null")
_LITERALS = frozenset(("const", "enum"))
_NAME_MAX = 64
_LITERAL_MAX = 24
_ALTERNATIVES_MAX = 64
_INNER_MAX = 8
_PARAMETER_STEPS_MAX = 100
_STEPS_MAX = 600
_DETAILS = ((2, 60), (1, 30), (0, 15))
"""Levels of detail of a type, fullest first: depth of nested objects, maximum length of a union."""

_Speller = Callable[[Parameter], str]
_Fits = Callable[[Sequence[str]], bool]


def signature(
    name: str, schema: JsonObject, limit_tokens: int = 30, declared: Iterable[Parameter] | None = None
) -> str:
    """Return ``name(...)`` with the parameters of an input schema, at most about ``limit_tokens`` long.

    ``declared`` are these parameters, if they are already known. Required parameters come first and are kept as long as
    possible: types are shortened before one is omitted. Optional ones are marked ``?``; ``…`` replaces everything that
    did not fit. Never raises.
    """
    head = identifier(name)

    room = characters_of(limit_tokens) - len(f"{head}({_CUT})")

    def fits(parts: Sequence[str]) -> bool:
        return _length(parts) <= room

    # More cannot fit: with comma and space each takes more than half a token.
    shown = list(islice(parameters(schema, schema) if declared is None else declared, 2 * limit_tokens))
    types = _Types(schema)
    spellers = [partial(types.parameter, depth=depth, width=width) for depth, width in _DETAILS]
    parts = _required_parts([parameter for parameter in shown if parameter.required], spellers, fits)
    left = room - _length(parts)
    for parameter in shown[len(parts) :]:
        spellings = (spell(parameter) for spell in spellers)
        part = next((spelling for spelling in spellings if _length([spelling]) <= left), _CUT)
        parts.append(part)
        if part == _CUT:
            break
        left -= _length([part])
    return f"{head}({', '.join(parts)})"


def _length(parts: Sequence[str]) -> int:
    """Return the length of these parts, including separators."""
    return sum(map(len, parts)) + len(", ") * len(parts)


def _required_parts(required: Sequence[Parameter], spellers: Sequence[_Speller], fits: _Fits) -> list[str]:
    """Return the required parameters, the longest shortened first until all fit; the last are dropped if necessary."""
    first, *shorter = spellers
    parts = [first(parameter) for parameter in required]
    for spell in (*shorter, _untyped):
        for index in sorted(range(len(parts)), key=lambda index: -len(parts[index])):
            if fits(parts):
                return parts
            parts[index] = spell(required[index])
    while parts and not fits(parts):
        parts.pop()
    return parts


def _untyped(parameter: Parameter) -> str:
    return identifier(parameter.name)


def identifier(name: str) -> str:
    """Return ``name`` unchanged if it is an identifier, else cleaned, truncated and quoted."""
    return name if _PLAIN.match(name) else _quoted(name, _NAME_MAX)


def _quoted(text: str, limit: int) -> str:
    return json.dumps(truncate(one_line(text), limit), ensure_ascii=False)


class _Types:
    """Spells types. The number of steps is bounded for each parameter and in total, whatever the schema."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._width = 0
        self._steps_left = _STEPS_MAX
        self._steps_kept = 0

    def parameter(self, parameter: Parameter, depth: int, width: int) -> str:
        """Return ``name: type`` or ``name?: type``: objects down to ``depth``, unions within ``width`` characters."""
        self._width = width
        # One huge type must leave steps for the parameters after it.
        self._steps_kept = max(self._steps_left - _PARAMETER_STEPS_MAX, 0)
        return self._part(parameter, depth)

    def _part(self, parameter: Parameter, depth: int) -> str:
        mark = "" if parameter.required else "?"
        return f"{identifier(parameter.name)}{mark}: {self._type(parameter.schema, depth)}"

    def _type(self, schema: JsonObject, depth: int) -> str:
        """Return the type that ``schema`` describes, ``any`` if it does not say."""
        if self._steps_left <= self._steps_kept:
            return "any"
        self._steps_left -= 1
        kind = schema.get("type")
        if schema.keys().isdisjoint(_LITERALS) and kind in _PRIMITIVES:
            return kind  # true of most parameters
        return self._literals(schema) or self._of_kind(kind, schema, depth)

    def _literals(self, schema: JsonObject) -> str:
        """Return the literal values that ``schema`` allows; empty if it names none."""
        if "const" in schema:
            return _literal(schema["const"])
        if values := as_list(schema.get("enum")):
            return self._union(_literal(value) for value in values if value is not None)
        return ""

    def _of_kind(self, kind: Any, schema: JsonObject, depth: int) -> str:
        if kinds := as_list(kind):
            return self._union(self._kind(each, schema, depth) for each in kinds if each != "null")
        if kind is None:
            return self._undeclared(schema, depth)
        return self._kind(kind, schema, depth)

    def _undeclared(self, schema: JsonObject, depth: int) -> str:
        """Return the type of a schema without ``type``, derived from its other keywords."""
        for keyword in ("anyOf", "oneOf"):
            if branches := as_list(schema.get(keyword)):
                resolved = (resolve(branch, self._root) for branch in branches)
                return self._union(self._type(each, depth) for each in resolved if each.get("type") != "null")
        if "items" in schema:
            return self._kind("array", schema, depth)
        if any(True for _ in parameters(schema, self._root)):
            return self._kind("object", schema, depth)
        if branches := as_list(schema.get("allOf")):
            return self._type(resolve(branches[0], self._root), depth)
        return "any"

    def _kind(self, kind: Any, schema: JsonObject, depth: int) -> str:
        if kind == "array":
            item = self._type(resolve(schema.get("items"), self._root), depth)
            return f"({item})[]" if "|" in item else f"{item}[]"
        if kind == "object":
            return self._object(schema, depth)
        return kind if kind in _PRIMITIVES else "any"

    def _object(self, schema: JsonObject, depth: int) -> str:
        inner = list(islice(parameters(schema, self._root), _INNER_MAX + 1)) if depth else []
        parts = [self._part(parameter, depth - 1) for parameter in inner[:_INNER_MAX]]
        if len(inner) > _INNER_MAX:
            parts.append(_CUT)
        return f"{{{', '.join(parts)}}}" if parts else "object"

    def _union(self, alternatives: Iterable[str]) -> str:
        """Return the distinct alternatives joined by ``|``, truncated to the width."""
        union = ""
        seen: set[str] = set()
        for alternative in islice(alternatives, _ALTERNATIVES_MAX):
            if union and len(union) + len(alternative) >= self._width:
                return f"{union}|{_CUT}"
            if alternative not in seen:
                union = f"{union}|{alternative}" if union else alternative
            seen.add(alternative)
        return union or "null"


def _literal(value: Any) -> str:
    """Return an enum value as JSON, truncated if it is long."""
    if isinstance(value, str):
        return f'"{value}"' if _PLAIN.match(value) and len(value) <= _LITERAL_MAX else _quoted(value, _LITERAL_MAX)
    if isinstance(value, (dict, list)):
        return "object" if isinstance(value, dict) else "any[]"
    return json.dumps(value)
