"""English word stems by Porter's algorithm, in the Snowball project's own implementation, but for a few words.

Knows which words have a stem and which nouns name the doer of a verb; never knows where a word comes from.
"""

from functools import lru_cache
from typing import Any

import Stemmer  # pyright: ignore[reportMissingTypeStubs]

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

_VERB_MIN = 4
_ENDING = "er"
_NOT_AGENTS = frozenset(
    "answer border center corner cover custom customer deliver dinner discover enter folder former header later layer "
    "letter manner master matter member never number offer order paper poster power remember river server tower under "
    "water winter".split()
)
"""Words that look like agent nouns and are not, or are of another verb: a server does not serve dinner."""


@lru_cache(_MEMORY_MAX)
def stem(word: str) -> str:
    """Return the stem of a lower-case word: ``connections`` and ``connected`` both give ``connect``."""
    if len(word) < _SHORTEST:
        return word
    if word in _OWN_STEMS:
        return _OWN_STEMS[word]
    snowball: Any = Stemmer
    return snowball.Stemmer("porter", 0).stemWord(word)  # a new one each time: threads must not share one


def kindred_stems(stem: str) -> list[str]:
    """Return the stems of the agent noun of a verb, or of the verb of an agent noun: ``watch`` and ``watcher``."""
    if stem in _NOT_AGENTS or len(stem) < _VERB_MIN:
        return []
    if stem.endswith(_ENDING) and len(stem) >= _VERB_MIN + len(_ENDING):
        verb = stem.removesuffix(_ENDING)
        return [verb, f"{verb}e", *([verb[:-1]] if verb[-1] == verb[-2] else [])]
    agents = (f"{stem}r" if stem.endswith("e") else f"{stem}{_ENDING}", f"{stem}{stem[-1]}{_ENDING}")
    return [agent for agent in agents if agent not in _NOT_AGENTS]
