"""One raw list of a server made into records for the index; a bad item does not affect the others.

Knows the shape that both eras accept, and what the policy leaves; never knows a connection, a database or a caller.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, cast

from toolcrib.base.json_values import as_list, as_object, json_type, levels
from toolcrib.base.model import JsonObject, OfferKind, Refused
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.config.schema import LimitsSection
from toolcrib.offers.records import OfferList, OfferRecord, names_of, offer_of, uri_digest
from toolcrib.policy.rules import Permissions
from toolcrib.tools.definitions.listable import (
    DEPTH_MAX,
    NAME_MAX,
    DefinitionError,
    encodable,
    valid_icons,
    valid_meta,
    valid_text,
)
from toolcrib.tools.definitions.texts import Path, texts_in_value, with_text

ADDRESS_MAX = 8192
"""Maximum length of a URI or a URI template."""

_SHOWN_NAME_MAX = 80
_ROLES = ("user", "assistant")
ADDRESSES: Mapping[OfferKind, str] = {"resource": "uri", "template": "uriTemplate", "prompt": "name"}
_DATA = frozenset(("uri", "uriTemplate", "mimeType", "icons", "annotations"))
"""Fields that are interpreted by programs, and must not be changed."""


def ingest(server: str, kind: OfferKind, items: Iterable[Any], anyone: Permissions, limits: LimitsSection) -> OfferList:
    """Return the records of a list, and the items that cannot be offered. Never raises, whatever JSON the items are.

    What the policy ``anyone`` denies to everyone is in neither.
    """
    records: dict[str, OfferRecord] = {}
    refused: list[Refused] = []
    denied: dict[str, None] = {}
    for position, item in enumerate(items, 1):
        try:
            record = _record(kind, item, limits.definition_max_bytes)
        except DefinitionError as error:
            refused.append(Refused(_shown_name(item, position), str(error)))
            continue
        if not anyone.permits_by(server, names_of(offer_of(server, kind, record, limits.name_max))):
            denied[record.address if kind == "template" else uri_digest(record.address)] = None
        elif record.address in records:
            refused.append(Refused(_shown_name(item, position), "is listed more than once"))
        else:
            records[record.address] = record
    return OfferList(kind, tuple(records.values()), tuple(refused), tuple(denied))


def _record(kind: OfferKind, item: Any, max_bytes: int) -> OfferRecord:
    if not isinstance(item, dict):
        raise DefinitionError(f"is of type {json_type(item)}, not object")
    raw = cast("JsonObject", item)
    if any(islice(levels(raw), DEPTH_MAX, None)):
        raise DefinitionError(f"is nested deeper than {DEPTH_MAX} levels")
    key = ADDRESSES[kind]
    address = _address(raw.get(key), key, NAME_MAX if kind == "prompt" else ADDRESS_MAX)
    name = raw.get("name")
    definition: JsonObject = {key: address, "name": name if isinstance(name, str) and name else address}
    for field, value in raw.items():
        if field not in definition:
            kept = _REPAIRS[field](value) if field in _REPAIRS else value
            if kept is not None:
                definition[field] = kept
    definition, _ = encodable(definition, max_bytes)
    return OfferRecord(definition["name"], address, _cleaned(kind, definition))


def _address(value: Any, key: str, most: int) -> str:
    if not isinstance(value, str) or not value:
        raise DefinitionError(f"has no {key}")
    if len(value) > most:
        raise DefinitionError(f"has a {key} of {len(value)} characters; at most {most} are allowed")
    if value.encode("utf-8", "replace").decode() != value:
        raise DefinitionError(f"has a {key} that is not valid Unicode")
    if key != "name" and one_line(value) != value:
        raise DefinitionError(f"has a {key} with characters that a reader would not see")
    return value


def _cleaned(kind: OfferKind, definition: JsonObject) -> JsonObject:
    """Return a definition whose texts have no hidden or terminal control characters."""
    for path, text in texts_of(kind, definition):
        if (clean := sanitize(text)) != text:
            definition = with_text(definition, path, clean)
    return definition


def texts_of(kind: OfferKind, definition: JsonObject) -> list[tuple[Path, str]]:
    """Return every human-readable text of a definition, with its path."""
    return [(path, text) for path, text in texts_in_value(definition) if not _is_data(kind, path)]


def _is_data(kind: OfferKind, path: Path) -> bool:
    names_something = path[-1] == "name" and (path == ("name",) or path[0] == "arguments")
    return path[0] in _DATA or (kind == "prompt" and names_something)


def _shown_name(item: Any, position: int) -> str:
    name = as_object(item).get("name")
    return truncate(one_line(name[: 2 * _SHOWN_NAME_MAX]), _SHOWN_NAME_MAX) if isinstance(name, str) else f"#{position}"


def _arguments(value: Any) -> list[JsonObject] | None:
    named = [each for each in map(as_object, as_list(value)) if isinstance(each.get("name"), str)]
    return [_repaired(each, _OF_AN_ARGUMENT) for each in named] if isinstance(value, list) else None


def _annotations(value: Any) -> JsonObject | None:
    return _repaired(as_object(value), _OF_ANNOTATIONS) or None


def _repaired(value: JsonObject, repairs: Mapping[str, Callable[[Any], Any]]) -> JsonObject:
    kept = ((key, repairs[key](held) if key in repairs else held) for key, held in value.items())
    return {key: held for key, held in kept if held is not None}


def _audience(value: Any) -> list[Any] | None:
    return [role for role in as_list(value) if role in _ROLES] or None


def _priority(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= 1 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_OF_AN_ARGUMENT: Mapping[str, Callable[[Any], Any]] = {
    "title": valid_text,
    "description": valid_text,
    "required": _flag,
}
_OF_ANNOTATIONS: Mapping[str, Callable[[Any], Any]] = {
    "audience": _audience,
    "priority": _priority,
    "lastModified": valid_text,
}
_REPAIRS: Mapping[str, Callable[[Any], Any]] = {
    "title": valid_text,
    "description": valid_text,
    "mimeType": valid_text,
    "size": _size,
    "arguments": _arguments,
    "annotations": _annotations,
    "icons": valid_icons,
    "_meta": valid_meta,
}
"""Functions that make each known field valid; None drops it."""
