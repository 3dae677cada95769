"""Adds learned words to a ranking: never more than a bounded share of the best hit's relevance.

Knows document numbers and the weights of words for them; never knows who taught them, or how.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from toolcrib.search.relevance import NO_EVIDENCE, Ranked

LIFT_MAX = 0.4
"""Maximum gain from usage, relative to the best text relevance: anything further behind never comes first because of
it.
"""

_ALONE = 1.0
"""The base of gains where no text matches."""

_SHARE_MIN = 0.3
"""Minimum share of the query that a lesson must cover."""

Lessons = Mapping[str, Mapping[int, float]]
"""For each learnable word of a query (a stem): how surely it means each document, between 0 and 1, both exclusive."""

NO_LESSONS: Lessons = MappingProxyType({})


def lifted(ranked: Ranked, lessons: Lessons, rarity: Callable[[str], float]) -> Ranked:
    """Return a ranking in which documents gain for the query words that were taught for them.

    Each gains by the share of the query that it was taught for, words weighted by rarity. Evidence for the best text
    match applies to no other document, so a lesson never raises confidence.
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
