"""Maps frozen dataclasses to the rows of a table and back: a column for each field, encoded by the field's type."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from operator import attrgetter
from types import MappingProxyType, UnionType
from typing import Any, Generic, NamedTuple, TypeVar, cast, get_args, get_origin

from toolcrib.storage.store import to_json

_Value = TypeVar("_Value")


class Codec(NamedTuple):
    """How a column stores a value: ``encode`` returns what SQLite stores, ``decode`` returns the value again."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class RowMapper(Generic[_Value]):
    """Maps values of one frozen dataclass to columns.

    ``names`` are its fields that have a column, in the order in which rows are read; by default all. ``renamed`` are
    the columns that have another name than their field. Flags are stored as 0 and 1, enums by their values, tuples and
    objects as JSON, all else unchanged. ``codecs`` are other encodings of some fields.
    """

    def __init__(
        self,
        kind: type[_Value],
        names: Sequence[str] = (),
        renamed: Mapping[str, str] = MappingProxyType({}),
        **codecs: Codec,
    ) -> None:
        hints = {field.name: field.type for field in fields(cast("Any", kind))}
        self._kind, self._names = kind, names or tuple(hints)
        self.columns = tuple(renamed.get(name, name) for name in self._names)
        found = {name: codecs.get(name) or _codec_of(hints[name]) for name in self._names}
        # Most columns need no codec, and a start reads thousands of rows.
        self._codecs = {name: codec for name, codec in found.items() if codec}

    def encode(self, value: _Value) -> dict[str, Any]:
        """Return a value as its row, by column."""
        values = {name: getattr(value, name) for name in self._names}
        for name, codec in self._codecs.items():
            values[name] = codec.encode(values[name])
        return dict(zip(self.columns, values.values(), strict=True))

    def values(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return the fields that a row, with the values of ``columns``, has."""
        values = dict(zip(self._names, row, strict=True))
        for name, codec in self._codecs.items():
            values[name] = codec.decode(values[name])
        return values

    def decode(self, row: Sequence[Any]) -> _Value:
        """Return the value of a row, with the values of ``columns``.

        Raises:
            ValueError, TypeError, KeyError: another program has written the row.

        """
        return self._kind(**self.values(row))


def _codec_of(hint: Any) -> Codec | None:
    """Return the codec of a field with this annotation; None if SQLite stores it unchanged."""
    if hint is bool:
        return Codec(int, bool)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Codec(attrgetter("value"), hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return _optional(_codec_of(inner[0]))
    if origin is tuple:
        return TEXTS if inner[0] is str else objects(inner[0])
    return Codec(to_json, json.loads) if isinstance(origin, type) and issubclass(origin, Mapping) else None


def _optional(codec: Codec | None) -> Codec | None:
    if codec is None:
        return None

    def apply(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value is None else convert(value)

    return Codec(apply(codec.encode), apply(codec.decode))


def _texts(stored: str) -> tuple[str, ...]:
    return () if stored == "[]" else tuple(json.loads(stored))  # true of most, and parsing takes ten times as long


TEXTS = Codec(to_json, _texts)
"""A tuple of texts, as a JSON array."""


def objects(kind: type[Any]) -> Codec:
    """Return the codec of a tuple of dataclasses: a JSON array with an object for each."""
    names = [field.name for field in fields(kind)]

    def encode(values: Iterable[Any]) -> str:
        return to_json([{name: getattr(value, name) for name in names} for value in values])

    def decode(stored: str) -> tuple[Any, ...]:
        if stored == "[]":
            return ()
        return tuple(kind(**{name: _frozen(item) for name, item in each.items()}) for each in json.loads(stored))

    return Codec(encode, decode)


def _frozen(item: Any) -> Any:
    # JSON has no tuples, and a field of a frozen value must not be a list.
    return tuple(cast("list[Any]", item)) if isinstance(item, list) else item
