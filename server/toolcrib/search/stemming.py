"""English word stems by Porter's algorithm, in the Snowball project's own implementation.

Knows which words have a stem; never knows where a word comes from.
"""

from functools import lru_cache
from typing import Any

import Stemmer  # pyright: ignore[reportMissingTypeStubs]

_MEMORY_MAX = 50_000
_SHORTEST = 3
"""A shorter word is no inflected one: ``js`` is not several of ``j``. (FTS5's ``porter`` draws the same line)"""


@lru_cache(_MEMORY_MAX)
def stem(word: str) -> str:
    """Return the stem of a lower-case word: ``connections`` and ``connected`` both give ``connect``."""
    if len(word) < _SHORTEST:
        return word
    snowball: Any = Stemmer
    return snowball.Stemmer("porter", 0).stemWord(word)  # a new one each time: threads must not share one
