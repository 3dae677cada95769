"""Pages of a sorted list, with opaque cursors.

A cursor has the key of the last item instead of a count, so that changes of the list do not shift pages.
"""

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from toolcrib.base.errors import BadRequest

_Item = TypeVar("_Item")
_CURSOR_MAX = 4096


def page_of(
    items: Sequence[_Item], key: Callable[[_Item], tuple[str, ...]], cursor: str | None, size: int
) -> tuple[list[_Item], str | None]:
    """Return the next ``size`` of ``items``, which are sorted by ``key``, and the cursor of the next page (C26).

    Raises:
        BadRequest: ``cursor`` is invalid.

    """
    place = None if cursor is None else place_of(cursor, len(key(items[0])) if items else None)
    start = 0 if place is None else bisect_right(items, place, key=key)
    page = list(items[start : start + size])
    return page, cursor_of(key(page[-1])) if start + size < len(items) else None


def cursor_of(place: tuple[str, ...]) -> str:
    """Return the cursor for what follows ``place``."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def place_of(cursor: str, parts: int | None = None) -> tuple[str, ...]:
    """Return the place encoded in a cursor, which must have ``parts`` parts, if given.

    Raises:
        BadRequest: ``cursor`` is invalid.

    """
    try:
        raw = base64.b64decode(cursor[:_CURSOR_MAX] + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        # Decoded here: json.loads() would import further modules to detect the encoding of bytes.
        place: Any = json.loads(raw.decode())
    except (ValueError, binascii.Error, RecursionError):
        place = None
    found = cast("list[Any]", place) if isinstance(place, list) else []
    if not found or parts not in (None, len(found)) or not all(isinstance(part, str) for part in found):
        raise BadRequest("'cursor' is not one that was given here. Leave it out to begin with the first page.")
    return tuple(cast("list[str]", found))
