"""The words of some documents, found again by a misspelling of them.

Knows words and how spellings differ; never knows what the words mean or where they stand.
"""

from collections.abc import Container, Iterable, Iterator
from threading import Lock

LENGTH_MIN = 4
"""A shorter word is too close to too many others."""

_LENGTH_MAX = 40
_OTHER_FIRST_MIN = 6
"""A word with another first letter is usually a different word, unless it is long."""


class Lexicon:
    """Words indexed by every spelling with one letter removed: a deletion index.

    Several sets of documents may share one that has the words of all of them. Safe to use from several threads.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._by_shortened: dict[str, str] = {}  # words joined by spaces: nothing for the garbage collector to traverse
        self._words = set[str]()
        self._learning = Lock()
        self.learn(words)

    def learn(self, words: Iterable[str]) -> None:
        """Add those of ``words`` that are new."""
        with self._learning:
            for word in words:
                if word not in self._words and _is_correctable(word):
                    for shortened in _shortened(word):
                        others = self._by_shortened.get(shortened)
                        self._by_shortened[shortened] = f"{others} {word}" if others else word
                    self._words.add(word)

    def near(self, word: str, among: Container[str] | None = None) -> list[str]:
        """Return the known words, ``among`` some (None: all), that are one edit away, sorted.

        These are the ones with the same first letter, or else the others. An edit is an inserted, missing or wrong
        letter, or a transposition of two neighbours.
        """
        if not _is_correctable(word):
            return []
        # One edit leaves both words one deletion away from a common form, where they meet; words further apart may meet
        # too, so distances are checked at the end.
        met = {near for shortened in _shortened(word) for near in self._by_shortened.get(shortened, "").split()}
        return nearest(word, met if among is None else [each for each in met if each in among])


def around(word: str) -> tuple[str, str, tuple[int, int]] | None:
    """Return the prefix or suffix that every word one edit away has, and its minimum and maximum length.

    None if the word is too short to be looked up.
    """
    if not _is_correctable(word):
        return None
    # One edit changes one letter or two neighbours, so one half stays intact, apart from the middle letter.
    half = (len(word) - 1) // 2
    return word[:half], word[len(word) - half :], (max(len(word) - 1, LENGTH_MIN), min(len(word) + 1, _LENGTH_MAX))


def nearest(word: str, words: Iterable[str]) -> list[str]:
    """Return those of ``words`` one edit away, sorted: those with the same first letter, or else the others."""
    near = sorted(each for each in words if _is_correctable(each) and is_one_edit(word, each))
    alike = [each for each in near if each[0] == word[0]]
    return alike or (near if len(word) >= _OTHER_FIRST_MIN else [])


def _is_correctable(word: str) -> bool:
    return LENGTH_MIN <= len(word) <= _LENGTH_MAX and not word.isdigit()


def _shortened(word: str) -> Iterator[str]:
    yield word
    for place in range(len(word)):
        if place == 0 or word[place] != word[place - 1]:  # in a run of one letter each deletion gives the same
            yield word[:place] + word[place + 1 :]


def is_one_edit(one: str, other: str) -> bool:
    """Return whether the words are at most one edit apart (optimal string alignment distance)."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    return (
        one[1:] == other[1:]
        or one == other[1:]
        or one[1:] == other
        or (one[:2] == other[1::-1] and one[2:] == other[2:])
    )
