"""What the results of a tool are in a program: a text, or the structure that the tool declares (ADR 93)."""

import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from toolcrib.base.json_values import as_list, as_object, json_type
from toolcrib.base.model import JsonObject
from toolcrib.base.text import characters_of
from toolcrib.catalog.parameters import identifier, parameters, resolve

_WRAPPERS: Final = frozenset(("result", "content"))
_ADDING: Final = frozenset(("allOf", "anyOf", "oneOf", "patternProperties"))
"""Keywords that may give an object members besides its ``properties``."""
SHOWN_TOKENS: Final = 25
"""Estimated tokens of what a signature says of a result."""
_ALTERNATIVES_MAX: Final = 8
_DETAILS: Final = ((2, 24), (1, 24), (1, 12), (1, 8), (1, 4), (1, 2), (0, 0))
"""Levels of detail of a shape, fullest first: how deep the members of objects are named, and how many of each."""
_NESTED_MAX: Final = 8
_STEPS_MAX: Final = 300
"""Bounds for one form of a hostile schema: how deep lists and objects are followed, and how many types in all."""

_NAMES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict",
    "array": "list",
}
_ANY, _CUT = "Any", "…"
_INNERMOST = re.compile(r"\{[^{}]*\}|\[[^\[\]{}]*\]")

_VARIES_SHOWN = "varies"

VARIES, MORE = "x-toolcrib-varies", "x-toolcrib-more"
"""Keywords of schemas that were learnt: what is there changes its kind; an object has members without names here."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the results of one tool are in a program.

    ``kinds`` are the JSON types that the value may have; empty: any. ``is_text``: it is the text of the result, which
    nobody takes apart. ``member`` is the only member of the structured content, which is the value then; empty: the
    value is all of that. ``shown`` is what a signature says of it.
    """

    shown: str
    kinds: tuple[str, ...]
    is_text: bool = False
    member: str = ""

    def value(self, structured: Any) -> Any:
        """Return the value of structured content.

        Raises:
            ValueError: it is not what was declared.

        """
        value: Any = structured
        if self.member:
            fields = as_object(structured)
            if self.member not in fields:
                raise ValueError(self.member)
            value = fields[self.member]
        elif value is None and "null" not in self.kinds:
            raise ValueError(self.shown)  # also where anything is allowed: some servers write null for nothing
        kind = json_type(value)
        if not self.kinds or kind in self.kinds or (kind == "integer" and "number" in self.kinds):
            return value
        if "integer" in self.kinds and isinstance(value, float) and value.is_integer():
            return int(value)
        raise ValueError(self.shown)


TEXT: Final = Output("str", ("string",), is_text=True)
"""That of tools without an output schema: the text of their results, whatever it looks like."""


def output_of(schema: JsonObject | None) -> Output:
    """Return what the results of a tool are that has this output schema, or none. Never raises.

    An object with one required member ``result`` or ``content``, and no other, only wraps it: SDKs add these, because
    structured content had to be an object (specification 2025-11-25, Tools, Output Schema).
    """
    if schema is None:
        return TEXT
    root = resolve(schema, schema)
    member = _wrapped(root)
    value = resolve(as_object(root.get("properties")).get(member), schema) if member else root
    kinds = dict.fromkeys(kind for kind, _ in _forms(value, schema))
    return Output(_Shapes(schema).shown(value, characters_of(SHOWN_TOKENS)), tuple(kinds), member=member)


def spelled(schema: JsonObject, most: int) -> str:
    """Return what a schema that was learnt says, as types of Python, in at most ``most`` characters."""
    return _Shapes(schema, is_learnt=True).shown(schema, most)


def _wrapped(schema: JsonObject) -> str:
    names = as_object(schema.get("properties")).keys()
    is_open = schema.get("additionalProperties", False) is not False or not schema.keys().isdisjoint(_ADDING)
    if len(names) != 1 or is_open or schema.get("required") != list(names):
        return ""
    [name] = names
    return name if name in _WRAPPERS else ""


def _forms(schema: JsonObject, root: JsonObject) -> list[tuple[str, JsonObject]]:
    """Return the JSON types that a schema allows, each with what it is described by; none where it does not say."""
    forms = [
        (kind, form)
        for form in _alternatives(schema, root) or [schema]
        for kind in as_list(form.get("type")) or [form.get("type")]
    ]
    return forms if all(isinstance(kind, str) and kind in _NAMES for kind, _ in forms) else []


def _alternatives(schema: JsonObject, root: JsonObject) -> list[JsonObject]:
    """Return what a schema without a type is one of, unless these are too many."""
    if "type" in schema:
        return []
    branches = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
    return [resolve(each, root) for each in branches] if len(branches) <= _ALTERNATIVES_MAX else []


class _Shapes:
    """Spells types as Python names them, with the names of members where there is room. ``root`` is the document."""

    def __init__(self, root: JsonObject, *, is_learnt: bool = False) -> None:
        self._root, self._is_learnt, self._left = root, is_learnt, 0

    def shown(self, schema: JsonObject, most_characters: int) -> str:
        """Return the fullest form that is short enough."""
        for depth, most in _DETAILS:
            self._left = _STEPS_MAX
            text = self._spelled(schema, depth, most, 0)
            if self._left >= 0 and len(text) <= most_characters:
                return text
        return _ANY

    def _spelled(self, schema: JsonObject, depth: int, most: int, nested: int) -> str:
        self._left -= 1
        if self._is_learnt and VARIES in schema:
            return _VARIES_SHOWN
        forms = _forms(schema, self._root)
        if not forms or nested > _NESTED_MAX or self._left < 0:
            return _ANY
        spelled = [self._of_kind(kind, form, depth, most, nested) for kind, form in forms]
        return " | ".join(dict.fromkeys(sorted(spelled, key=_NAMES["null"].__eq__)))

    def _of_kind(self, kind: str, schema: JsonObject, depth: int, most: int, nested: int) -> str:
        if kind == "array" and depth:
            item = self._spelled(resolve(schema.get("items"), self._root), depth, most, nested + 1)
            return "list" if item == _ANY else f"({item})[]" if _is_union(item) else f"{item}[]"
        if kind == "object" and depth:
            return self._members(schema, depth, most, nested)
        return _NAMES[kind]

    def _members(self, schema: JsonObject, depth: int, most: int, nested: int) -> str:
        members = list(islice(parameters(schema, self._root), most + 1))
        parts: list[str] = []
        for each in members[:most]:
            inner = self._spelled(each.schema, depth - 1, most, nested + 1)
            name = identifier(each.name) + ("" if each.required else "?")
            parts.append(f"{name}: {inner}" if _is_inside(inner) else name)
        if len(members) > most or (self._is_learnt and parts and MORE in schema):
            parts.append(_CUT)
        return f"{{{', '.join(parts)}}}" if parts else self._map(schema, depth, most, nested)

    def _map(self, schema: JsonObject, depth: int, most: int, nested: int) -> str:
        """Return what an object without named members is: with keys that are data, all values may be described."""
        values = as_object(schema.get("additionalProperties"))
        inner = self._spelled(resolve(values, self._root), depth, most, nested + 1) if values else _ANY
        return _NAMES["object"] if inner == _ANY else f"dict[str, {inner}]"


def _is_inside(shown: str) -> bool:
    """Return whether a type says what is inside of a value, or that this varies."""
    return shown.removesuffix(f" | {_NAMES['null']}").endswith(("}", "]", _VARIES_SHOWN))


def _is_union(shown: str) -> bool:
    """Return whether a type is one of several, and not only something inside it."""
    while (inner := _INNERMOST.sub("", shown)) != shown:
        shown = inner
    return "|" in shown
