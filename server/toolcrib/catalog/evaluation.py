"""Measures how well a search finds the tools that a person expects for their own queries."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

from toolcrib.base.errors import BadRequest

DEPTHS = (1, 3, 5, 10)
"""The cutoffs at which recall is reported."""
DEPTH = DEPTHS[-1]
"""The number of evaluated hits."""
CASES_MAX = 10_000
_KEYS = frozenset(("query", "tools"))
_PROBLEMS_MAX = 10
"""Maximum number of reported invalid lines of a file."""


@dataclass(frozen=True, slots=True)
class Case:
    """A query on one ``line`` of a file, with the public names of all relevant tools.

    Without any, the request is one that no tool of this catalog serves.
    """

    line: int
    query: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answer of a search: public names, best first, and its confidence (high, low or none)."""

    names: tuple[str, ...]
    confidence: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with its answer. ``rank`` of the first relevant hit counts from 1; None if no hit is relevant."""

    case: Case
    ranking: Ranking

    @property
    def rank(self) -> int | None:
        """The rank of the first relevant hit."""
        right = set(self.case.tools)
        return next((rank for rank, name in enumerate(self.ranking.names[:DEPTH], 1) if name in right), None)

    def recall(self, depth: int) -> float:
        """Return the share of the relevant tools that are among the first ``depth`` hits."""
        return len({*self.case.tools}.intersection(self.ranking.names[:depth])) / len(self.case.tools)

    @property
    def ndcg(self) -> float:
        """Normalised discounted cumulative gain over the first ten hits; every relevant tool has the same gain."""
        right = set(self.case.tools)
        gains = [float(name in right) for name in self.ranking.names[:DEPTH]]
        # The ideal answer has all relevant tools first, as far as they fit.
        return discounted(gains) / discounted([1.0] * min(len(right), DEPTH))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All judged cases: those with relevant tools, and unanswerable ones. Shares are from 0 to 1."""

    answerable: tuple[Judged, ...]
    unanswerable: tuple[Judged, ...]

    def recall(self, depth: int) -> float | None:
        """Return the mean recall among the first ``depth`` hits; None if no case has a relevant tool."""
        return _mean(each.recall(depth) for each in self.answerable)

    @property
    def ndcg(self) -> float | None:
        """Mean nDCG@10; None if no case has a relevant tool."""
        return _mean(each.ndcg for each in self.answerable)

    @property
    def first_right_if_high(self) -> float | None:
        """The share of ``high`` answers whose first hit is relevant; None if there are none."""
        sure = [each for each in (*self.answerable, *self.unanswerable) if each.ranking.confidence == "high"]
        return _mean(each.rank == 1 for each in sure)

    @property
    def high_if_answerable(self) -> float | None:
        """The share of cases with a relevant tool that are answered with ``high``."""
        return _mean(each.ranking.confidence == "high" for each in self.answerable)

    @property
    def high_if_unanswerable(self) -> float | None:
        """The share of unanswerable cases that are answered with ``high`` nevertheless."""
        return _mean(each.ranking.confidence == "high" for each in self.unanswerable)


def discounted(gains: Sequence[float]) -> float:
    """Return the discounted cumulative gain of hits with these gains (Järvelin and Kekäläinen 2002, log 2)."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def evaluated(cases: Iterable[Case], search: Callable[[str], Ranking]) -> Evaluation:
    """Return every case judged by the answer of ``search``."""
    judged = [Judged(case, search(case.query)) for case in cases]
    return Evaluation(
        tuple(each for each in judged if each.case.tools), tuple(each for each in judged if not each.case.tools)
    )


def read_cases(text: str, public_name: Callable[[str], str | None]) -> tuple[Case, ...]:
    """Return the cases of a file: one JSON object per line with ``query`` and ``tools``; blank lines are skipped.

    ``public_name`` returns the public name of the one tool that a spelling names, None if there is no such tool.

    Raises:
        BadRequest: a line is invalid, names an unknown tool, or there are no cases or too many.

    """
    cases: list[Case] = []
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            cases.append(_case(number, line, public_name))
        except BadRequest as error:
            problems.append(f"line {number}: {error}")
    if problems:
        more = f"\n  and {len(problems) - _PROBLEMS_MAX} more" if len(problems) > _PROBLEMS_MAX else ""
        raise BadRequest("\n  ".join(("it cannot be used:", *problems[:_PROBLEMS_MAX])) + more)
    if not 0 < len(cases) <= CASES_MAX:
        raise BadRequest(f"it has {len(cases) or 'no'} queries; 1 to {CASES_MAX:,} can be tried")
    return tuple(cases)


def _case(number: int, line: str, public_name: Callable[[str], str | None]) -> Case:
    """Read one line.

    Raises:
        BadRequest: it is invalid; the text says why.

    """
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or cast("dict[str, Any]", value).keys() != _KEYS:
        raise BadRequest('it is not a JSON object with the keys "query" and "tools"')
    query, tools = cast("dict[str, Any]", value)["query"], cast("dict[str, Any]", value)["tools"]
    if not isinstance(query, str) or not query.strip():
        raise BadRequest('"query" is not text, or is blank')
    if not isinstance(tools, list) or not all(isinstance(name, str) for name in cast("list[Any]", tools)):
        raise BadRequest('"tools" is not a list of names')
    return Case(number, query, _public_names(cast("list[str]", tools), public_name))


def _public_names(spellings: Collection[str], public_name: Callable[[str], str | None]) -> tuple[str, ...]:
    named = {spelling: public_name(spelling) for spelling in spellings}
    missing = [spelling for spelling, name in named.items() if name is None]
    if missing:
        raise BadRequest(f"there is no tool {missing[0]!r}, or several have this name; toolcrib tools list shows all")
    return tuple(dict.fromkeys(name for name in named.values() if name is not None))


def _mean(values: Iterable[float]) -> float | None:
    every = list(values)
    return fmean(every) if every else None
