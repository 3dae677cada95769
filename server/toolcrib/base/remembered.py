"""Memoized results of a pure function over short texts.

Knows texts and the bound of the cache; never knows what a result is.
"""

from collections.abc import Callable
from typing import TypeVar

_Made = TypeVar("_Made")

WORD_MAX = 40
"""Maximum length of a word that is worth caching: longer ones are mostly data, and rarely recur."""

SENTENCE_MAX = 300
"""The same for a text. Descriptions of parameters are shorter; those of tools occur once."""


class Remembered(dict[str, _Made]):
    """A cache of the results of ``make`` by text, used like a dictionary. Safe to use from several threads.

    At most ``most`` texts of at most ``longest`` characters are cached; then all are removed, and common ones soon
    return. Keeping an order of use, as :func:`functools.lru_cache` does, would cost more than it gains.
    """

    def __init__(self, make: Callable[[str], _Made], most: int, longest: int) -> None:
        super().__init__()
        self._make, self._most, self._longest = make, most, longest

    def __missing__(self, text: str) -> _Made:
        made = self._make(text)
        if len(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = made
        return made
