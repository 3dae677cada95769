"""The only module that imports the JSON Schema library: its validators, made interruptible and free of ``re``.

Knows how the library is extended; never knows what is checked, or what a misfit is called.
Keywords that the library checks in ways that cannot be bounded are replaced here by ones that can.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.patterns import SUBJECT_MAX, Pattern, PatternError, compile_pattern
from toolcrib.model import JsonObject

_PATTERNS_CACHED = 256
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
# Up to draft 7 what stands beside a $ref is ignored (draft-07 core, 8.3).
_REF_STANDS_ALONE = ("Draft3Validator", "Draft4Validator", "Draft6Validator", "Draft7Validator")

Keyword = Callable[[Any, Any, Any, Any], Iterable[Any]]
"""How a keyword is checked: (validator, the keyword's value, the instance, the schema) to errors."""


class Validator(Protocol):
    """A schema, ready to be checked against."""

    def iter_errors(self, instance: Any) -> Iterator[Any]:
        """Yield the library's ``ValidationError`` objects, one at a time."""
        ...


class BoundedValidators:
    """Makes validators that call ``tick`` at every step; an exception that it raises ends the check.

    Patterns are RE2's. What RE2 cannot compile, and text of over 1,000 characters, counts as matching.
    References lead into the same schema only. ``format`` is not asserted.
    """

    unusable: tuple[type[Exception], ...]
    """What the library raises when a schema is malformed or refers to what is not there."""

    def __init__(self, tick: Callable[[], None]) -> None:
        import jsonschema  # noqa: PLC0415 - 24 ms that a start does not pay
        import referencing  # noqa: PLC0415

        library: Any = jsonschema
        references: Any = referencing
        self._create: Callable[..., Callable[..., Validator]] = library.validators.create
        self._dialect_of: Callable[..., Any] = library.validators.validator_for
        self._default_dialect: Any = library.Draft202012Validator
        self._error: Callable[..., Exception] = library.ValidationError
        # An empty registry: a reference to another document is an error, and nothing is ever fetched.
        self._registry: Any = references.Registry()
        # The library does not check a schema before it uses it, so a malformed one raises whatever its code runs into.
        self.unusable = (
            library.exceptions.UnknownType,
            references.exceptions.Unresolvable,
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        )
        self._tick = tick
        self._classes: dict[tuple[Any, bool], Callable[..., Validator]] = {}
        self._compiled = lru_cache(_PATTERNS_CACHED)(_compiled_or_none)

    def validator(self, schema: JsonObject, *, has_pattern_properties: bool) -> Validator:
        """Return a validator of ``schema``, in the dialect of its ``$schema``, else JSON Schema 2020-12.

        ``has_pattern_properties`` says whether the keyword stands anywhere in it: the library would then use
        ``re`` for the ``unevaluated`` keywords, so they are not checked. No schema inside may have a ``$schema``.

        Raises:
            Exception: one of ``unusable``, here or during the check.

        """
        dialect = self._dialect_of(schema, default=self._default_dialect)
        kind = (dialect, has_pattern_properties)
        if kind not in self._classes:
            self._classes[kind] = self._extended(dialect, has_pattern_properties=has_pattern_properties)
        # On its way down the library picks a class of its own for each $schema that it meets, without our keywords.
        without_dialect = {key: value for key, value in schema.items() if key != "$schema"}
        return self._classes[kind](without_dialect, registry=self._registry)

    def _extended(self, dialect: Any, *, has_pattern_properties: bool) -> Callable[..., Validator]:
        keywords: dict[str, Keyword] = dict(dialect.VALIDATORS)
        if has_pattern_properties:
            keywords = {name: keyword for name, keyword in keywords.items() if name not in _UNEVALUATED}
        replaced: dict[str, Keyword] = {
            "additionalProperties": self._additional_properties,
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "required": self._required,
            "uniqueItems": self._unique_items,
        }
        keywords |= {name: keyword for name, keyword in replaced.items() if name in keywords}
        ref_stands_alone = dialect.__name__ in _REF_STANDS_ALONE

        def applicable(schema: Any) -> Iterable[tuple[str, Any]]:
            self._tick()
            return [("$ref", schema["$ref"])] if ref_stands_alone and "$ref" in schema else schema.items()

        return self._create(
            meta_schema=dialect.META_SCHEMA,
            validators={name: self._ticking(keyword) for name, keyword in keywords.items()},
            type_checker=dialect.TYPE_CHECKER,
            id_of=dialect.ID_OF,
            applicable_validators=applicable,
        )

    def _ticking(self, keyword: Keyword) -> Keyword:
        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._tick()
            for error in keyword(validator, value, instance, schema) or ():
                self._tick()
                yield error

        return check

    def _matches(self, pattern: str, text: str) -> bool | None:
        """Return whether ``pattern`` matches in ``text``; None where that cannot be told."""
        self._tick()
        compiled = self._compiled(pattern) if len(text) <= SUBJECT_MAX else None
        if compiled is None:
            return None
        try:
            return compiled.search(text) is not None
        # A lone surrogate, which RE2 cannot be given.
        except UnicodeEncodeError:
            return None

    def _pattern(self, _validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(instance, str) and self._matches(pattern, instance) is False:
            yield self._error("does not match")

    def _pattern_properties(self, validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        for pattern, subschema in value.items():
            for name, member in as_object(instance).items():
                if self._matches(pattern, name):
                    yield from validator.descend(member, subschema, path=name, schema_path=pattern)

    def _additional_properties(self, validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        declared, patterns = as_object(schema.get("properties")), as_object(schema.get("patternProperties"))
        for name, member in as_object(instance).items():
            # A pattern that cannot be tried counts as matching: in doubt arguments fit.
            if name in declared or any(self._matches(pattern, name) is not False for pattern in patterns):
                continue
            if value is False:
                # An error for each property, at its path; the library has one for all of them.
                yield self._error("is not allowed", path=[name])
            else:
                yield from validator.descend(member, value, path=name)

    def _required(self, _validator: Any, names: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        for name in names if isinstance(instance, dict) else ():
            if name not in instance:
                yield self._error("is required", path=[name])

    def _unique_items(self, _validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        seen: set[str] = set()
        for item in as_list(instance) if wanted else ():
            self._tick()
            # Compared by their text, in linear time: the library may compare each item with each other.
            text = json.dumps(item, sort_keys=True)
            if text in seen:
                yield self._error("is repeated")
                return
            seen.add(text)


def _compiled_or_none(pattern: str) -> Pattern | None:
    try:
        return compile_pattern(pattern)
    except PatternError:
        return None
