"""How well a search finds the tools that a person names as right for their own queries.

Knows queries with their right tools, and rankings; never knows how anything is searched or where a report is shown.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

from toolcrib.errors import BadRequest

DEPTHS = (1, 3, 5, 10)
"""The numbers of first hits at which recall is told."""
DEPTH = DEPTHS[-1]
"""How many hits are looked at."""
CASES_MAX = 10_000
_KEYS = frozenset(("query", "tools"))
_PROBLEMS_MAX = 10
"""Lines of a file that are complained of at once."""


@dataclass(frozen=True, slots=True)
class Case:
    """A query of one ``line`` of a file, with the public names of all tools that are right for it.

    None are right: it is a request that no tool of this catalog serves.
    """

    line: int
    query: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a search answers: public names, best first, and how sure it says it is (high, low or none)."""

    names: tuple[str, ...]
    confidence: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with its answer. ``rank`` of the first right hit counts from 1; None where no hit is right."""

    case: Case
    ranking: Ranking

    @property
    def rank(self) -> int | None:
        """The rank of the first right hit."""
        right = set(self.case.tools)
        return next((rank for rank, name in enumerate(self.ranking.names[:DEPTH], 1) if name in right), None)

    def recall(self, depth: int) -> float:
        """Return the share of the right tools that are among the first ``depth`` hits."""
        return len({*self.case.tools}.intersection(self.ranking.names[:depth])) / len(self.case.tools)

    @property
    def ndcg(self) -> float:
        """Normalised discounted cumulative gain over the first ten hits; every right tool is worth the same."""
        right = set(self.case.tools)
        gains = [float(name in right) for name in self.ranking.names[:DEPTH]]
        return discounted(gains) / discounted([1.0] * min(len(right), DEPTH))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All cases, judged: those that have right tools, and those that nothing serves. Shares are from 0 to 1."""

    answerable: tuple[Judged, ...]
    unanswerable: tuple[Judged, ...]

    def recall(self, depth: int) -> float | None:
        """Return the mean recall among the first ``depth`` hits; None where no case has a right tool."""
        return _mean(each.recall(depth) for each in self.answerable)

    @property
    def ndcg(self) -> float | None:
        """Mean nDCG@10; None where no case has a right tool."""
        return _mean(each.ndcg for each in self.answerable)

    @property
    def first_right_if_high(self) -> float | None:
        """Of the answers that say ``high``, those whose first hit is right; None where no answer says so."""
        sure = [each for each in (*self.answerable, *self.unanswerable) if each.ranking.confidence == "high"]
        return _mean(each.rank == 1 for each in sure)

    @property
    def high_if_answerable(self) -> float | None:
        """Of the cases that have a right tool, those answered with ``high``."""
        return _mean(each.ranking.confidence == "high" for each in self.answerable)

    @property
    def high_if_unanswerable(self) -> float | None:
        """Of the cases that nothing serves, those that are answered with ``high`` all the same."""
        return _mean(each.ranking.confidence == "high" for each in self.unanswerable)


def discounted(gains: Sequence[float]) -> float:
    """Return the discounted cumulative gain of hits with these gains (Järvelin and Kekäläinen 2002, log 2)."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def evaluated(cases: Iterable[Case], search: Callable[[str], Ranking]) -> Evaluation:
    """Return every case judged by what ``search`` answers."""
    judged = [Judged(case, search(case.query)) for case in cases]
    return Evaluation(
        tuple(each for each in judged if each.case.tools), tuple(each for each in judged if not each.case.tools)
    )


def read_cases(text: str, public_name: Callable[[str], str | None]) -> tuple[Case, ...]:
    """Return the cases of a file: a JSON object a line with ``query`` and ``tools``; blank lines are left out.

    ``public_name`` gives the public name of the one tool that a spelling names, None where there is no such tool.

    Raises:
        BadRequest: a line says something else, names a tool that is not there, or there are no cases or too many.

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
        BadRequest: it is no case; the text says why.

    """
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or cast("dict[str, Any]", value).keys() != _KEYS:
        raise BadRequest('it is no JSON object with the keys "query" and "tools"')
    query, tools = cast("dict[str, Any]", value)["query"], cast("dict[str, Any]", value)["tools"]
    if not isinstance(query, str) or not query.strip():
        raise BadRequest('"query" is no text, or a blank one')
    if not isinstance(tools, list) or not all(isinstance(name, str) for name in cast("list[Any]", tools)):
        raise BadRequest('"tools" is not a list of names')
    return Case(number, query, _public_names(cast("list[str]", tools), public_name))


def _public_names(spellings: Collection[str], public_name: Callable[[str], str | None]) -> tuple[str, ...]:
    named = {spelling: public_name(spelling) for spelling in spellings}
    missing = [spelling for spelling, name in named.items() if name is None]
    if missing:
        raise BadRequest(f"there is no tool {missing[0]!r}, or several are called so; toolcrib tools list shows all")
    return tuple(dict.fromkeys(name for name in named.values() if name is not None))


def _mean(values: Iterable[float]) -> float | None:
    every = list(values)
    return fmean(every) if every else None
