"""Values that a column of SQLite can store: encodes JSON and text, and detects rows that we never wrote.

Knows the limits of columns; never knows what a column means.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager

from toolcrib.base.errors import StoreError

_COMPACT = json.JSONEncoder(separators=(",", ":"))


def to_json(value: object) -> str:
    """Return compact JSON in ASCII, so that it can contain lone surrogates, which SQLite's text cannot."""
    return _COMPACT.encode(value)


def storable(text: str) -> str:
    """Return ``text`` with ``?`` for each lone surrogate, which no column of SQLite can store."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@contextmanager
def damaged_rows(of: str = "tools") -> Generator[None]:
    """Convert errors caused by a row of an index that has values we never write into our error."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        public = f"The index of {of} is damaged; `toolcrib index clear` rebuilds it."
        raise StoreError(public, detail=f"{type(error).__name__}: {error}") from error
