"""What use has taught, counted in a ranking: never more than a bounded share of what the best by words has.

Knows numbers of documents and how surely words mean them; never knows who has taught that, or how.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from toolcrib.search.relevance import NO_EVIDENCE, Ranked

LIFT_MAX = 0.4
"""What use adds at most, of the relevance of the best by words: whatever is further behind never comes first by it."""

_ALONE = 1.0
"""The relevance of which it is a share where words find nothing."""

_SHARE_MIN = 0.3
"""Less of the query than this says nothing about it."""

Lessons = Mapping[str, Mapping[int, float]]
"""For each word of a query that can be learnt (a stem): how surely it means documents, above 0 and below 1."""

NO_LESSONS: Lessons = MappingProxyType({})


def lifted(ranked: Ranked, lessons: Lessons, rarity: Callable[[str], float]) -> Ranked:
    """Return a ranking in which documents have gained that words of the query were taught for.

    Each gains by the share of the query that it was taught for, words counted by what they tell. What speaks
    for the best by words speaks for no other, so a lesson makes no answer surer.
    """
    shares = _shares(lessons, rarity)
    if not shares:
        return ranked
    relevances = dict(ranked.matches)
    best = ranked.matches[0][1] if ranked.matches else _ALONE
    for number, share in shares.items():
        relevances[number] = relevances.get(number, 0.0) + LIFT_MAX * share * best
    matches = tuple(sorted(relevances.items(), key=lambda pair: (-pair[1], pair[0])))
    if not ranked.matches or matches[0][0] != ranked.matches[0][0]:
        return replace(ranked, matches=matches, evidence=replace(NO_EVIDENCE, words=ranked.evidence.words))
    return replace(ranked, matches=matches)


def _shares(lessons: Lessons, rarity: Callable[[str], float]) -> Mapping[int, float]:
    told = {word: rarity(word) for word in lessons}
    total = sum(told.values())
    shares: dict[int, float] = {}
    for word, sureness in lessons.items():
        for number, sure in sureness.items():
            shares[number] = shares.get(number, 0.0) + sure * told[word] / total
    return {number: share for number, share in shares.items() if share >= _SHARE_MIN}
