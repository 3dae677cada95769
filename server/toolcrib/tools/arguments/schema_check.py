"""Whether arguments fit a tool's input schema, decided within a deadline; and lenient parsing of arguments.

Knows how to word an error for a model; never knows the tool, and never shows a value that was sent.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any, cast

from toolcrib.base.cache import Recent
from toolcrib.base.json_values import as_list, as_object, compact, json_type, levels
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.tools.arguments.bounded_validator import BoundedValidators, Validator
from toolcrib.tools.definitions.parameters import parameters

MISFITS_MAX = 10
"""Maximum number of reported errors."""

VALUES_MAX = 10_000
"""Maximum number of values in a schema, or in arguments, to be checked; the largest real schema has 2,900."""

DEPTH_MAX = 64
"""Maximum nesting depth to be checked."""

ARGUMENTS_TEXT_MAX = 1024 * 1024
"""Maximum length of arguments given as a JSON string, in characters."""

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


class _OutOfTime(Exception):
    pass


class _TooLarge(Exception):
    pass


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
        if self._library is None:
            if budget_ms < self._deadline_ms:
                return None
            self._library = BoundedValidators(self._tick)
        self._running.until = self._clock() + budget_ms / 1000
        try:
            # Rejects what is too large or too deep before the library walks it recursively.
            _containers(arguments)
            validator = self._validator(key, schema, self._library)
            errors = validator.iter_errors(arguments) if validator else None
            return None if errors is None else [_misfit(error) for error in islice(errors, MISFITS_MAX)]
        except (_OutOfTime, _TooLarge, *self._library.unusable):
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
        except (_TooLarge, *library.unusable):
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
    if isinstance(value, str) and len(value) <= ARGUMENTS_TEXT_MAX:
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
            raise _TooLarge
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
