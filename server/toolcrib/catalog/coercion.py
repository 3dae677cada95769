"""Reads arguments as what their places ask for, where only one reading is possible: ``"3"`` as 3, ``"[1]"`` as [1].

As servers of the SDKs do: pydantic's conversions of text, and JSON in text where an object or a list is asked for.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import chain, pairwise
from typing import Any, Protocol, TypeVar

from toolcrib.base.json_decoding import ValueCount, is_finite, without_lone_surrogates
from toolcrib.base.json_values import as_list, compact, json_type, object_of, repeated_in
from toolcrib.base.model import JsonObject
from toolcrib.catalog.definitions import Path

JSON_TEXT_MAX = 1024 * 1024
"""Maximum length of a text that is read as JSON, in characters."""

VALUES_MAX = 10_000
"""Maximum number of values in a schema, or in arguments, to be checked; the largest real schema has 2,900."""

_ROUNDS_MAX = 8
"""How deep objects and lists are read that stand as text in one that stood as text."""

_NUMBER = re.compile(r"[+-]?(?=\.?[0-9])[0-9]{0,400}(?P<more>(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,3})?)\Z")
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
"""pydantic's words, in any case."""

Reading = tuple[Any, ...]
"""The one value that another one can only mean; empty: it means the same as to leave it out."""

Readings = Mapping[Path, Reading]
"""Readings of values, by the keys and indexes from the arguments to each."""

_Error_contra = TypeVar("_Error_contra", contravariant=True)
_ErrorT = TypeVar("_ErrorT")


class ReadingsOf(Protocol[_Error_contra]):
    """Returns what errors can be mended by; ``drops_nulls``: null may be left out."""

    def __call__(self, errors: Sequence[_Error_contra], /, *, drops_nulls: bool) -> Readings:
        """Return the readings."""
        ...


def reading(value: Any, types: Collection[str]) -> Reading | None:
    """Return ``value``, which is of none of these JSON types, as one of them; None if that is not certain."""
    return _only(_possible(value, types))


def _possible(value: Any, types: Collection[str]) -> list[Reading]:
    """Return all that a value can mean."""
    if isinstance(value, str):
        return _of_text(value.strip(), types)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "integer" in types and isinstance(value, float) and value.is_integer():
            return [(int(value),)]
        if "boolean" in types and value in (0, 1):
            return [(bool(value),)]
    return []


def _of_text(text: str, types: Collection[str]) -> list[Reading]:
    if text.startswith(("{", "[")):
        is_asked_for = "object" in types or "array" in types
        return _of_json(text, lambda found: json_type(found) in types) if is_asked_for else []
    if "null" in types and text == "null":
        return [(None,)]
    number = _number(text, is_whole="number" not in types) if {"integer", "number"}.intersection(types) else None
    truth = _BOOLEANS.get(text.lower()) if "boolean" in types else None
    return [(each,) for each in (number, truth) if each is not None]


def _of_json(text: str, is_wanted: Callable[[Any], bool]) -> list[Reading]:
    # Before it is decoded, which stops all threads: of more values nothing could be checked.
    if len(text) > JSON_TEXT_MAX or ValueCount().add(text.encode("utf-8", "replace")) > VALUES_MAX:
        return []
    try:
        found = without_lone_surrogates(json.loads(text, object_pairs_hook=_object))
    except (ValueError, RecursionError):
        return []
    return [(found,)] if is_wanted(found) and is_finite(found) else []


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    made = object_of(pairs)
    if repeated_in(made):
        raise ValueError("a key that is given twice may mean either value")
    return made


def _number(text: str, *, is_whole: bool) -> float | None:
    """Return the number that a text is: a whole one exactly, another one as the nearest double, like JSON's."""
    form = _NUMBER.match(text)
    if form is None or not math.isfinite(nearest := float(text)):
        return None
    if not form["more"]:
        return int(text)
    if not is_whole:
        return nearest
    whole = int(Decimal(text))
    return whole if whole == Decimal(text) else None


def coerced(
    arguments: JsonObject,
    errors_in: Callable[[JsonObject], Sequence[_ErrorT]],
    readings_of: ReadingsOf[_ErrorT],
) -> tuple[JsonObject, Sequence[_ErrorT]]:
    """Return arguments with all readings of values that ``errors_in`` is about, and the errors that are left.

    Null is left out only if nothing is wrong then.
    """
    read, left = _settled(arguments, errors_in(arguments), errors_in, partial(readings_of, drops_nulls=False))
    if left:
        fewer, wrong = _settled(read, left, errors_in, partial(readings_of, drops_nulls=True))
        if not wrong:
            return fewer, wrong
    return read, left


def _settled(
    read: JsonObject,
    left: Sequence[_ErrorT],
    errors_in: Callable[[JsonObject], Sequence[_ErrorT]],
    readings_of: Callable[[Sequence[_ErrorT]], Readings],
) -> tuple[JsonObject, Sequence[_ErrorT]]:
    for _ in range(_ROUNDS_MAX):
        if not left or not (found := readings_of(left)):
            break
        read = _with_readings(read, found)
        left = errors_in(read)
    return read, left


def _with_readings(value: Any, readings: Readings) -> Any:
    """Return a copy of an object or a list with these readings; what they do not concern is shared."""
    inner: defaultdict[str | int, dict[Path, Reading]] = defaultdict(dict)
    for (step, *rest), read in readings.items():
        inner[step][tuple(rest)] = read
    made = value.copy()
    for step, below in inner.items():
        if () not in below:
            made[step] = _with_readings(made[step], below)
        elif below[()]:
            [made[step]] = below[()]
        else:
            del made[step]
    return made


# -- the errors of JSON Schema ---------------------------------------------------------------------

_OF_TEXT = {"maxLength", "minLength", "pattern"}
_LEADING_ON = {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "then", "else"}


def schema_readings(errors: Sequence[Any], /, *, drops_nulls: bool, tick: Callable[[], None]) -> Readings:
    """Return what the ``ValidationError`` objects of jsonschema can be mended by, as far as they can.

    A value that has to fit one of several schemas has a reading if all that are possible are the same. Null may be left
    out where it is the value of a declared property. ``tick`` is called before each reading.
    """
    return _united(filter(None, map(_SchemaReadings(tick, drops_nulls=drops_nulls).of_error, errors)))


class _SchemaReadings:
    """Reads what errors are about; see :func:`schema_readings`."""

    def __init__(self, tick: Callable[[], None], *, drops_nulls: bool) -> None:
        self._tick, self._drops_nulls = tick, drops_nulls

    def of_error(self, error: Any) -> Readings | None:
        """Return what one error can be mended by; None: nothing certain."""
        self._tick()
        if error.validator in {"anyOf", "oneOf"} and error.context:
            return self._of_alternatives(error)
        return self._at(error, [error]) if _is_about_type(error) else None

    def _at(self, error: Any, asked: Sequence[Any]) -> Readings | None:
        """Return the reading of the value of ``error`` as what errors about its type ask for, if there is one."""
        place, value = tuple(error.absolute_path), error.instance
        if not place or _is_about_name(error):
            return None
        if value is None:
            return {place: ()} if self._drops_nulls and _is_declared(error) else None
        types = frozenset[str]().union(*map(_types, asked))
        members = [member for each in asked for member in _members(each)]
        read = _only([*_possible(value, types), *_member(value, members)])
        return None if read is None else {place: read}

    def _of_alternatives(self, error: Any) -> Readings | None:
        # A text that is too long for one of them, or of another form, may be meant as a text all the same.
        if any(each.validator in _OF_TEXT and not each.relative_path for each in error.context):
            return None
        alternatives: defaultdict[Any, list[Any]] = defaultdict(list)
        for each in error.context:
            alternatives[next(iter(each.relative_schema_path), None)].append(each)
        # What asks for another type of the whole value is asked together: "1" is no number where it may be true.
        asked, possible = list[Any](), list[Readings]()
        for errors in alternatives.values():
            if all(_is_about_type(each) and not each.relative_path for each in errors):
                asked += errors
            elif mended := self._of_all(errors):
                possible.append(mended)
        whole = self._at(error, asked) if asked else None
        return _only([*possible, *([whole] if whole else ())])

    def _of_all(self, errors: Sequence[Any]) -> dict[Path, Reading] | None:
        """Return what mends every one of some errors; None if that is not certain."""
        parts = [part for part in map(self.of_error, errors) if part]
        found = _united(parts)
        return found if len(parts) == len(errors) and len(found) == len({*chain.from_iterable(parts)}) else None


def _united(parts: Iterable[Readings]) -> dict[Path, Reading]:
    """Return all readings, without those of places for which there are different ones."""
    found: dict[Path, list[Reading]] = defaultdict(list)
    for part in parts:
        for place, read in part.items():
            found[place].append(read)
    return {place: reads[0] for place, reads in found.items() if _only(reads) is not None}


_SomeReading = TypeVar("_SomeReading", Reading, Readings)


def _only(readings: Iterable[_SomeReading]) -> _SomeReading | None:
    """Return what all of these are; None if there are none, or different ones."""
    # Compared as JSON, because in Python True is 1.
    distinct = {_canonical(each): each for each in readings}
    return distinct.popitem()[1] if len(distinct) == 1 else None


def _canonical(read: Reading | Readings) -> str:
    if isinstance(read, tuple):
        return compact(read)
    return compact(sorted((compact(place), compact(each)) for place, each in read.items()))


def _is_about_type(error: Any) -> bool:
    return error.validator in {"type", "enum", "const"}


def _types(error: Any) -> frozenset[str]:
    """Return the types that an error asks for by name."""
    if error.validator != "type":
        return frozenset()
    wanted = as_list(error.validator_value) or [error.validator_value]
    # Draft 3 has schemas among the types, which may take anything.
    return frozenset(wanted) if all(isinstance(each, str) for each in wanted) else frozenset()


def _members(error: Any) -> list[Any]:
    """Return the values of which an error asks for one."""
    if error.validator == "const":
        return [error.validator_value]
    return as_list(error.validator_value) if error.validator == "enum" else []


def _member(value: Any, members: Sequence[Any]) -> list[Reading]:
    """Return the member, other than a text, that a text is the JSON of; nothing like it is one: ON is not true."""
    others = {compact(member) for member in members if not isinstance(member, str)}
    if not isinstance(value, str) or not others:
        return []
    return _of_json(value.strip(), lambda found: compact(found) in others)


def _is_declared(error: Any) -> bool:
    """Return whether the value of an error is that of a property which the schema names, not of any other key."""
    path, declared = list(error.absolute_schema_path)[:-1], ["properties", error.absolute_path[-1]]
    while path and path[-2:] != declared and (path[-1] in _LEADING_ON or isinstance(path[-1], int)):
        path.pop()
    return path[-2:] == declared


def _is_about_name(error: Any) -> bool:
    """Return whether an error is about the name of a property, which has no place of its own."""
    steps = pairwise(["", *error.absolute_schema_path])
    return any(step == "propertyNames" and before != "properties" for before, step in steps)
