"""English word stems by Porter's algorithm, in the Snowball project's own implementation, but for a few words.

Knows which words have a stem and who does what a verb says; never knows where a word comes from.
"""

from functools import lru_cache
from typing import Any

import Stemmer  # pyright: ignore[reportMissingTypeStubs]

VERSION = 1
"""Raised when a word gets another stem: what a file has of stems is made anew."""

_MEMORY_MAX = 50_000
_SHORTEST = 3
"""A shorter word is no inflected one: ``js`` is not several of ``j``. (FTS5's ``porter`` draws the same line)"""

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
"""Words that Porter's rules reduce to the stem of another: ``news`` to that of ``new``, ``general`` to ``generate``."""

_VERB_MIN = 4
_ENDING = "er"
_NOT_AGENTS = frozenset(
    "answer border center corner cover custom customer deliver dinner discover enter folder former header later layer "
    "letter manner master matter member never number offer order paper poster power remember river server tower under "
    "water winter".split()
)
"""Words that end like somebody who does something and are none, or of another thing: a server does not serve dinner."""


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
    """Return the stems that may be who does what this one says, or what this one does: ``watch`` and ``watcher``."""
    if stem in _NOT_AGENTS or len(stem) < _VERB_MIN:
        return []
    if stem.endswith(_ENDING) and len(stem) >= _VERB_MIN + len(_ENDING):
        verb = stem.removesuffix(_ENDING)
        return [verb, f"{verb}e", *([verb[:-1]] if verb[-1] == verb[-2] else [])]
    agents = (f"{stem}r" if stem.endswith("e") else f"{stem}{_ENDING}", f"{stem}{stem[-1]}{_ENDING}")
    return [agent for agent in agents if agent not in _NOT_AGENTS]
