"""Reads a call's arguments by the tool's input schema, and validates them: schemas parsed once, off the event loop."""

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from itertools import islice
from typing import Any, Protocol, TypeVar, cast

import anyio.to_thread

from toolcrib.base.cache import Recent
from toolcrib.base.json_values import as_list, as_object, compact, json_type, levels
from toolcrib.base.model import JsonObject, Tool
from toolcrib.base.patterns import SUBJECT_MAX, Pattern, PatternError, compile_pattern
from toolcrib.base.text import one_line, truncate
from toolcrib.catalog.coercion import JSON_TEXT_MAX, VALUES_MAX, coerced, schema_readings
from toolcrib.catalog.definitions import shortest
from toolcrib.catalog.index import Card, ToolIndex
from toolcrib.catalog.parameters import parameters

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


MISFITS_MAX = 10
"""Maximum number of reported errors."""

DEPTH_MAX = 64
"""Maximum nesting depth to be checked."""

CONTAINERS_KEPT = 1000
"""Maximum number of objects and arrays in a cached schema.

The garbage collector traverses all of them at once, while everything else waits: 128 of the largest checkable schemas
took 0.1 s each time. The largest real one has fewer; a larger one is parsed again for each check.
"""

_CACHED_MAX = 128
_SHOWN_MAX = 80
_MESSAGE_MAX = 240
_ALTERNATIVES_SHOWN = 3
_VALUES_SHOWN = 12

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_$-]{1,80}\Z")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_MESSAGES = {
    "required": "is required",
    "const": "must be {}",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "pattern": "must match the pattern {}",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "uniqueItems": "must not have the same item twice",
    "minProperties": "must have at least {} properties",
    "maxProperties": "must have at most {} properties",
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """One validation error of arguments: its place (``arguments.items[0].name``) and what is wrong, in plain words."""

    path: str
    message: str

    def __str__(self) -> str:
        """One line for a model."""
        return f"{self.path} {self.message}"


@dataclass(frozen=True, slots=True)
class Read:
    """Arguments as their schema asks for them, and what is certainly wrong with them, at most ten errors.

    ``misfits`` are empty if all is valid; None if the arguments, which are those given then, could not be checked.
    """

    arguments: JsonObject
    misfits: Sequence[Misfit] | None


class _OutOfTime(Exception):
    pass


class _Uncheckable(Exception):
    pass


_T = TypeVar("_T")
_ErrorsIn = Callable[[JsonObject, int], Sequence[Any]]
"""Returns the first errors of a value, at most so many."""


class SchemaChecker:
    """Validates arguments against schemas, each within ``deadline_ms`` of ``clock`` (in seconds).

    Caches the validators of the last 128 schemas, except very large ones. Safe to use from several threads.
    """

    def __init__(self, deadline_ms: float, clock: Callable[[], float]) -> None:
        self._deadline_ms = deadline_ms
        self._clock = clock
        # Validators are shared by all threads, while each check has its own deadline.
        self._running = threading.local()
        self._cached = Recent[str, Validator | None](_CACHED_MAX)
        self._library: BoundedValidators | None = None

    def check(
        self, key: str, schema: JsonObject, arguments: JsonObject, budget_ms: float | None = None
    ) -> list[Misfit] | None:
        """Return at most ten errors; empty if all is valid; None if it could not be checked in time, or at all.

        ``key`` identifies this exact schema: a fingerprint. ``budget_ms`` below the deadline is for a caller on the
        event loop; loading the library is left to a call with the full deadline.
        """
        budget_ms = self._deadline_ms if budget_ms is None else min(budget_ms, self._deadline_ms)
        if self._library is None and budget_ms < self._deadline_ms:
            return None
        return self._within(budget_ms, key, schema, lambda errors_in: _misfits(errors_in(arguments, MISFITS_MAX)))

    def read(self, key: str, schema: JsonObject, arguments: JsonObject) -> Read:
        """Return arguments read as the schema asks for them, and what is wrong with them then. For a worker thread."""

        def read(errors_in: _ErrorsIn) -> Read:
            made, left = coerced(
                arguments,
                lambda given: errors_in(given, VALUES_MAX),
                partial(schema_readings, tick=self._tick),
            )
            return Read(made, _misfits(left))

        return self._within(self._deadline_ms, key, schema, read) or Read(arguments, None)

    def _within(self, budget_ms: float, key: str, schema: JsonObject, work: Callable[[_ErrorsIn], _T]) -> _T | None:
        """Return what ``work`` does with the errors of values in a schema; None if they cannot be known in time."""
        library = self._library = self._library or BoundedValidators(self._tick)
        self._running.until = self._clock() + budget_ms / 1000
        try:
            validator = self._validator(key, schema, library)
            return work(partial(_first_errors, validator)) if validator else None
        except (_OutOfTime, _Uncheckable, *library.unusable):
            return None

    def fits(self, schema: JsonObject, arguments: JsonObject) -> bool:
        """Return whether arguments are valid; also True if that cannot be determined in time. For a worker thread."""
        key = sha256(compact(schema).encode("utf-8", "surrogatepass")).hexdigest()
        return not self.check(key, schema, arguments)

    def _tick(self) -> None:
        if self._clock() > self._running.until:
            raise _OutOfTime

    def _validator(self, key: str, schema: JsonObject, library: BoundedValidators) -> Validator | None:
        """Return the cached validator of ``schema``; None if it cannot be checked."""
        with suppress(KeyError):
            return self._cached[key]
        try:
            validator = _compiled(schema, library)
        except (_Uncheckable, *library.unusable):
            validator = None
        if validator is None or is_kept(schema):
            self._cached[key] = validator
        return validator


def is_kept(schema: JsonObject) -> bool:
    """Return whether a schema is small enough to be cached."""
    count = 0
    for level in levels(schema):
        count += len(level)
        if count > CONTAINERS_KEPT:
            return False
    return True


def unwrap_arguments(value: Any, schema: JsonObject) -> JsonObject | None:
    """Return the arguments that ``value`` represents: an object, a JSON string of one, or a wrapped one; None if none.

    ``{"arguments": {...}}`` is unwrapped if ``schema`` has no parameter ``arguments``. Absent arguments are ``{}``.
    """
    outer = _object(value)
    if outer is None or list(outer) != ["arguments"]:
        return outer
    if any(parameter.name == "arguments" for parameter in parameters(schema, schema)):
        return outer
    inner = _object(outer["arguments"])
    return outer if inner is None else inner


def _object(value: Any) -> JsonObject | None:
    if value is None:
        return {}
    if isinstance(value, str) and len(value) <= JSON_TEXT_MAX:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _containers(value: JsonObject) -> list[Any]:
    """Return all objects and arrays in ``value``, itself first."""
    found: list[Any] = []
    values = 0
    for depth, level in enumerate(levels(value), 1):
        values += sum(map(len, level))
        if values > VALUES_MAX or depth > DEPTH_MAX:
            raise _Uncheckable
        found += level
    return found


def _compiled(schema: JsonObject, library: BoundedValidators) -> Validator | None:
    """Return a validator, unless a subschema changes the dialect or refers to another document."""
    objects = [as_object(each) for each in _containers(schema)]
    if any(isinstance(each.get("$schema"), str) for each in objects[1:]):
        return None
    references = (each[keyword] for each in objects for keyword in _REFERENCES if keyword in each)
    if any(isinstance(reference, str) and not reference.startswith("#") for reference in references):
        return None
    has_pattern_properties = any("patternProperties" in each for each in objects)
    return library.validator(schema, has_pattern_properties=has_pattern_properties)


def _first_errors(validator: Validator, value: JsonObject, most: int) -> list[Any]:
    # Rejects what is too large or too deep before the library walks it recursively.
    _containers(value)
    return list(islice(validator.iter_errors(value), most))


def _misfits(errors: Sequence[Any]) -> list[Misfit]:
    return [_misfit(error) for error in errors[:MISFITS_MAX]]


def _misfit(error: Any) -> Misfit:
    return Misfit(_path("arguments", error.absolute_path), truncate(_message(error), _MESSAGE_MAX))


def _path(start: str, steps: Iterable[str | int]) -> str:
    path = start
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if _PLAIN_NAME.match(step) else f"[{_shown(step)}]"
    return path


def _message(error: Any) -> str:
    # Not the library's own message, which quotes the arguments: these may contain a secret.
    keyword, value = error.validator, error.validator_value
    if keyword is None:
        return "holds something that is not allowed"
    if keyword == "type":
        return f"must be {' or '.join(as_list(value) or [value])}, not {json_type(error.instance)}"
    if keyword == "enum":
        return f"must be one of {_enumerated(map(_shown, value))}"
    if keyword in {"anyOf", "oneOf"}:
        return _alternatives_message(error)
    if keyword == "additionalProperties":
        known = _enumerated(as_object(error.schema.get("properties")))
        return f"is not known here; known are {known}" if known else "is not known here"
    return _MESSAGES.get(keyword, f"does not satisfy {keyword}").format(_shown(value))


def _alternatives_message(error: Any) -> str:
    """Return what the first alternatives lack; if none lacks anything, several match and only one may."""
    if not error.context:
        return "fits more than one of its alternatives, and may fit only one"
    first: dict[Any, Any] = {}
    # The first step of a schema path is the index of the alternative; its first error is enough.
    for each in error.context:
        first.setdefault(next(iter(each.relative_schema_path), None), each)
    lacks = dict.fromkeys(_lack(each) for each in islice(first.values(), _ALTERNATIVES_SHOWN))
    return f"fits none of its alternatives: {'; '.join(lacks)}"


def _lack(error: Any) -> str:
    if error.context:
        return "fits none of more alternatives"
    return f"{_path('', error.relative_path)} {_message(error)}".lstrip(". ")


def _enumerated(names: Iterable[str]) -> str:
    """Return the first of ``names``, each truncated and on one line."""
    shown = [truncate(one_line(name), _SHOWN_MAX) for name in islice(names, _VALUES_SHOWN + 1)]
    return ", ".join([*shown[:_VALUES_SHOWN], *("…" for _ in shown[_VALUES_SHOWN:])])


def _shown(value: Any) -> str:
    """Return a value of the schema as truncated JSON; only its type if it is an object or an array."""
    if isinstance(value, (dict, list)):
        return f"the {json_type(value)} that the schema gives"
    if isinstance(value, str):
        return json.dumps(truncate(one_line(value[:_MESSAGE_MAX]), _SHOWN_MAX), ensure_ascii=False)
    return json.dumps(value)


_INLINE_CHECK_MS = 3.0
"""How long a check may block the event loop, in milliseconds; nearly all are done by then and need no worker thread."""
_SCHEMAS_KEPT = 128


class ArgumentChecks:
    """Input schemas, and arguments read by them."""

    def __init__(self, index: ToolIndex, checker: SchemaChecker) -> None:
        self._index, self._checker = index, checker
        # The fingerprint is part of the key, because the definition in a row may change.
        self._schemas = Recent[tuple[int, str], JsonObject](_SCHEMAS_KEPT)

    def schema(self, tool: Tool) -> JsonObject:
        """Return the indexed input schema of a tool; that of anything if its row is not the one in the catalog."""
        schema = self._known(tool)
        return {"type": "object"} if schema is None else schema

    async def read(self, tool: Tool, arguments: JsonObject, reduced: JsonObject | None = None) -> Read:
        """Return arguments as the schema asks for them, and what is certainly wrong with them.

        ``reduced`` is the schema as the caller reads it, where that is another one. That nothing has to be read
        otherwise is tried for a few milliseconds on the event loop; the rest is work of a worker thread.
        """
        schema, key = self._known(tool), tool.fingerprint
        if schema is None:
            return Read(arguments, [] if reduced is None else None)
        if reduced is not None:
            # By its content: callers with other permissions may read it in another way.
            schema, key = reduced, f"{key} {sha256(compact(reduced).encode('utf-8', 'surrogatepass')).hexdigest()}"
        if self._checker.check(key, schema, arguments, _INLINE_CHECK_MS) == []:
            return Read(arguments, [])
        return await anyio.to_thread.run_sync(self._checker.read, key, schema, arguments)

    def _known(self, tool: Tool) -> JsonObject | None:
        key = tool.row, tool.fingerprint
        with suppress(KeyError):
            return self._schemas[key]
        schema = self._read_schema(tool)
        if schema is not None and is_kept(schema):
            self._schemas[key] = schema
        return schema

    def _read_schema(self, tool: Tool) -> JsonObject | None:
        # A row of another version may even be another tool's, which the caller may not know: the file may be a new one.
        definition = self._index.definitions([tool.row], {tool.row: tool.fingerprint}).get(tool.row)
        return None if definition is None else definition["inputSchema"]


_INSIST = "If they are meant like this, make exactly the same call again: the server then gets them as they are."


def misfit_text(tool: Tool, misfits: Sequence[Misfit], shape: str, *, may_insist: bool = False) -> str:
    """Return a text for a model: each error with its path, and the expected shape of the arguments.

    ``may_insist``: the same call is not refused again.
    """
    problems = [f"- {misfit.path}: {misfit.message}" for misfit in misfits]
    head = f"The arguments do not fit {tool.public_name}, so it was not called:"
    return "\n".join((head, *problems, *([_INSIST] if may_insist else []), shape))


def call_digest(tool: Tool, arguments: JsonObject) -> bytes:
    """Return what equal calls of the same version of a tool have in common; the order of keys makes no difference."""
    named = [tool.public_name, tool.fingerprint, arguments]
    return sha256(json.dumps(named, sort_keys=True).encode()).digest()


def shape_text(definition: JsonObject, card: Card) -> str:
    """Return the expected shape of a tool's arguments: its input schema, and its shortest example, if any."""
    example = shortest(card.examples)
    shown = f"Input schema: {compact(definition['inputSchema'])}"
    return f"{shown}\nExample: {compact(example.args)}" if example else shown
