"""Porter stems of English words, and the table of synonyms in everyday software work."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import Stemmer

VERSION = 1
"""Increased when the stem of any word changes: stored stems are then rebuilt."""

_MEMORY_MAX = 50_000
_SHORTEST = 3
"""A shorter word is not inflected: ``js`` is not the plural of ``j``. (FTS5's ``porter`` has the same limit.)"""

_OWN_STEMS = {
    "news": "news",
    "general": "general",
    "generally": "general",
    "generic": "generic",
    "ios": "ios",
    "organic": "organic",
    "police": "police",
    "policies": "policy",
    "policy": "policy",
    "pos": "pos",
    "international": "international",
    "universal": "universal",
}
"""Words that Porter's rules conflate with an unrelated one: ``news`` with ``new``, ``general`` with ``generate``."""


APART = "‡"
"""Begins a stem that is no word: no text that is split into words gives one."""


@lru_cache(_MEMORY_MAX)
def stem(word: str) -> str:
    """Return the stem of a lower-case word: ``connections`` and ``connected`` both give ``connect``."""
    if word.startswith(APART):
        return word
    if len(word) < _SHORTEST:
        return word
    if word in _OWN_STEMS:
        return _OWN_STEMS[word]
    snowball: Any = Stemmer
    return snowball.Stemmer("porter", 0).stemWord(word)  # a new one each time: threads must not share one


_PACKAGE, _FILE = "toolcrib.search", "synonyms.txt"
_NO_GROUP = ("#", "[")
"""The prefixes of comments and headings; a heading names the domain of the groups below it for human readers."""

Synonyms = Mapping[str, Sequence[str]]
"""The stems of synonyms, by stem."""


@cache
def read_synonyms(stem: Callable[[str], str]) -> Synonyms:
    """Return the synonym table shipped with the package, as stems. Reads a file, the first time in a process."""
    text = files(_PACKAGE).joinpath(_FILE).read_text(encoding="utf-8")
    return synonyms((line for line in text.splitlines() if not line.startswith(_NO_GROUP)), stem)


def synonyms(groups: Iterable[str], stem: Callable[[str], str]) -> Synonyms:
    """Return a table of stems from groups of synonyms, one text per group."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for group in groups:
        stems = [stem(word) for word in group.split()]
        for each in stems:
            found[each] |= dict.fromkeys(other for other in stems if other != each)
    return {each: tuple(others) for each, others in found.items()}
