"""The only module that imports the JSON Schema library: its validators, made interruptible and free of ``re``.

Knows how the library is extended; never knows what is checked, or how an error is worded.
Keywords whose checks in the library cannot be bounded are replaced by ones that can.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.patterns import SUBJECT_MAX, Pattern, PatternError, compile_pattern

_PATTERNS_CACHED = 256
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
# Up to draft 7 the siblings of a $ref are ignored (draft-07 core, 8.3).
_REF_STANDS_ALONE = ("Draft3Validator", "Draft4Validator", "Draft6Validator", "Draft7Validator")

Keyword = Callable[[Any, Any, Any, Any], Iterable[Any]]
"""Checks a keyword: (validator, the keyword's value, the instance, the schema) to errors."""


class Validator(Protocol):
    """A schema prepared for validation."""

    def iter_errors(self, instance: Any) -> Iterator[Any]:
        """Yield the library's ``ValidationError`` objects, one at a time."""
        ...


class BoundedValidators:
    """Creates validators that call ``tick`` at every step; an exception raised by it ends the check.

    Patterns are matched by RE2. Patterns that RE2 cannot compile, and texts of over 1,000 characters, count as
    matching. References are resolved within the schema only. ``format`` is not asserted.
    """

    unusable: tuple[type[Exception], ...]
    """The exceptions that the library raises for a malformed schema or an unresolvable reference."""

    def __init__(self, tick: Callable[[], None]) -> None:
        import jsonschema  # noqa: PLC0415 - 24 ms that a start should not take
        import referencing  # noqa: PLC0415

        library: Any = jsonschema
        references: Any = referencing
        self._create: Callable[..., Callable[..., Validator]] = library.validators.create
        self._dialect_of: Callable[..., Any] = library.validators.validator_for
        self._default_dialect: Any = library.Draft202012Validator
        self._error: Callable[..., Exception] = library.ValidationError
        # An empty registry: a reference to another document is an error, and nothing is ever fetched.
        self._registry: Any = references.Registry()
        # The library does not validate a schema before using it, so a malformed one raises arbitrary exceptions.
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

        ``has_pattern_properties`` says whether the keyword occurs anywhere in it: the library would then use ``re`` for
        the ``unevaluated`` keywords, so these are not checked. No subschema may have a ``$schema``.

        Raises:
            Exception: one of ``unusable``, here or during the check.

        """
        dialect = self._dialect_of(schema, default=self._default_dialect)
        kind = (dialect, has_pattern_properties)
        if kind not in self._classes:
            self._classes[kind] = self._extended(dialect, has_pattern_properties=has_pattern_properties)
        # For each $schema in a subschema the library would switch to a class of its own, without our keywords.
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
        """Return whether ``pattern`` matches in ``text``; None if that cannot be determined."""
        self._tick()
        compiled = self._compiled(pattern) if len(text) <= SUBJECT_MAX else None
        if compiled is None:
            return None
        try:
            return compiled.search(text) is not None
        # A lone surrogate, which RE2 does not accept.
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
            # A pattern that cannot be tried counts as matching: if in doubt, arguments are valid.
            if name in declared or any(self._matches(pattern, name) is not False for pattern in patterns):
                continue
            if value is False:
                # An error per property, at its path; the library has one for all of them.
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
            # Compared by their text, in linear time: the library may compare all pairs.
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
