"""``state.db`` opened for tests of one of its parts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from toolcrib.policy.state import STATE_SCHEMA
from toolcrib.storage.store import Store

_Part = TypeVar("_Part")


@contextmanager
def opened(path: Path, part: Callable[[Store], _Part]) -> Iterator[_Part]:
    """Open the file, for as long as a process would, and give the part of it that is looked at."""
    with Store(path, STATE_SCHEMA, fts="off") as store:
        yield part(store)
