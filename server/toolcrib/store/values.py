"""What a column of SQLite can hold: JSON and text made storable, and rows that hold what was never written.

Knows the limits of columns; never knows what a column means.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager

from toolcrib.errors import StoreError

_COMPACT = json.JSONEncoder(separators=(",", ":"))


def to_json(value: object) -> str:
    """Return compact JSON in ASCII, which holds what SQLite's text cannot: lone surrogates."""
    return _COMPACT.encode(value)


def storable(text: str) -> str:
    """Return ``text`` with ``?`` for each lone surrogate, which no column of SQLite can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@contextmanager
def damaged_rows(of: str = "tools") -> Generator[None]:
    """Turn what goes wrong when a row of an index holds something we never wrote into our error."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        public = f"The index of {of} is damaged; `toolcrib index clear` makes it anew."
        raise StoreError(public, detail=f"{type(error).__name__}: {error}") from error
