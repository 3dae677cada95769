"""How good a search is: recall, nDCG, reciprocal rank, how far its confidence can be trusted, and its time.

Knows rankings and what was right; never knows how anything is searched.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from measuring import percentile
from retrieval_data import Dataset, Query
from toolcrib.catalog.evaluation import discounted

DEPTHS = (1, 3, 5, 8, 10)
DEPTH = DEPTHS[-1]
LEVELS = {"none": 0, "low": 1, "high": 2}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search gave: ids, best first; how sure it says it is; and how long it took, if it measured that.

    ``evidence`` is a number that is the greater the surer the search is, comparable between queries; ``signals`` are
    what it was made of.
    """

    ids: tuple[str, ...]
    confidence: str | None = None
    evidence: float | None = None
    ms: float | None = None
    signals: Mapping[str, float] | None = None


Search = Callable[[str], "Answer | Sequence[str]"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query with its answer, and how good that is. ``recalls`` are by depth."""

    query: Query
    answer: Answer
    recalls: tuple[float, ...]
    ndcg: float
    reciprocal_rank: float

    @property
    def is_first_right(self) -> bool:
        """Whether the first hit answers the query."""
        return self.recalls[0] > 0


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of one search on one set. ``errors`` are standard errors, by the same names as ``figures``.

    ``auc_labels`` and ``auc_evidence``: how often an answer whose first hit is right is surer than one whose first
    hit is wrong, by the labels and by the number; None where there is none. ``labels`` are shares of all answers.
    """

    system: str
    dataset: str
    count: int
    figures: Mapping[str, float]
    errors: Mapping[str, float]
    empty: float
    auc_labels: float | None
    auc_evidence: float | None
    labels: Mapping[str, float]
    ms: Mapping[str, float]
    index_s: float | None = None
    outcomes: Sequence[Outcome] = field(default=(), repr=False)


def evaluate(search: Search, dataset: Dataset, system: str = "", index_s: float | None = None) -> Metrics:
    """Ask every query that has an answer, and return how good the answers were.

    ``search`` takes a query and returns an :class:`Answer`, or only ids. What does not say how long it took is timed
    from here.
    """
    asked = [query for query in dataset.queries if query.gold]
    outcomes = [judged(query, ask(search, query.text), any_counts=dataset.any_counts) for query in asked]
    return summary(outcomes, dataset.name, system, index_s)


def ask(search: Search, text: str) -> Answer:
    began = time.perf_counter()
    given = search(text)
    ms = (time.perf_counter() - began) * 1000
    if not isinstance(given, Answer):
        return Answer(tuple(given), ms=ms)
    return given if given.ms is not None else replace(given, ms=ms)


def judged(query: Query, answer: Answer, *, any_counts: bool) -> Outcome:
    """Return how good an answer is. Where any gold counts, there is nothing to gain beyond the first that is found."""
    gains = [query.gold.get(one, 0.0) for one in dict.fromkeys(answer.ids)][:DEPTH]
    first = next((rank for rank, gain in enumerate(gains, 1) if gain), None)
    best = sorted(query.gold.values(), reverse=True)
    if any_counts:
        gains, best = [gain if rank == first else 0.0 for rank, gain in enumerate(gains, 1)], best[:1]
    found = [sum(gain > 0 for gain in gains[:depth]) / len(best) for depth in DEPTHS]
    return Outcome(
        query, answer, tuple(found), discounted(gains) / discounted(best[:DEPTH]), 1 / first if first else 0.0
    )


def summary(outcomes: Sequence[Outcome], dataset: str, system: str, index_s: float | None) -> Metrics:
    answers = [outcome.answer for outcome in outcomes]
    columns = {name: series(outcomes, name) for name in FIGURES}
    taken = [answer.ms for answer in answers if answer.ms is not None]
    right = [outcome.is_first_right for outcome in outcomes]
    return Metrics(
        system=system,
        dataset=dataset,
        count=len(outcomes),
        figures={name: mean(values) for name, values in columns.items()},
        errors={name: standard_error(values) for name, values in columns.items()},
        empty=mean([not answer.ids for answer in answers]),
        auc_labels=auc([None if one.confidence is None else LEVELS[one.confidence] for one in answers], right),
        auc_evidence=auc([one.evidence for one in answers], right),
        labels={label: mean([one.confidence == label for one in answers]) for label in reversed(LEVELS)},
        ms={f"p{share * 100:g}": percentile(taken, share) for share in (0.5, 0.95, 0.99) if taken},
        index_s=index_s,
        outcomes=outcomes,
    )


FIGURES = (*(f"R@{depth}" for depth in DEPTHS), "nDCG@10", "MRR")


def series(outcomes: Iterable[Outcome], figure: str) -> list[float]:
    """Return one figure query by query."""
    if figure in FIGURES[: len(DEPTHS)]:
        place = FIGURES.index(figure)
        return [outcome.recalls[place] for outcome in outcomes]
    return [outcome.ndcg if figure == "nDCG@10" else outcome.reciprocal_rank for outcome in outcomes]


def mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def standard_error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def auc(marks: Sequence[float | None], right: Sequence[bool]) -> float | None:
    """Return how likely a right one is marked above a wrong one; a tie counts half. None if that cannot be told."""
    rated = sorted((mark, is_right) for mark, is_right in zip(marks, right, strict=True) if mark is not None)
    rights = sum(is_right for _, is_right in rated)
    if not 0 < rights < len(rated):
        return None
    ranks: dict[float, list[int]] = {}
    for rank, (mark, _) in enumerate(rated, 1):
        ranks.setdefault(mark, []).append(rank)
    total = sum(mean(ranks[mark]) for mark, is_right in rated if is_right)
    return (total - rights * (rights + 1) / 2) / (rights * (len(rated) - rights))


# -- beside each other ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure beside a baseline's on the same queries. ``error`` is the standard error of the paired difference."""

    dataset: str
    baseline: str
    figure: str
    difference: float
    error: float

    @property
    def verdict(self) -> str:
        """Whether ours is ahead or behind by more than one standard error."""
        if abs(self.difference) <= self.error:
            return "level"
        return "ahead" if self.difference > 0 else "behind"


def compared(ours: Metrics, theirs: Metrics, figure: str) -> Comparison:
    pairs = zip(series(ours.outcomes, figure), series(theirs.outcomes, figure), strict=True)
    differences = [our - their for our, their in pairs]
    return Comparison(ours.dataset, theirs.system, figure, mean(differences), standard_error(differences))


# -- what nothing can serve ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TradeOff:
    """What one choice of the point from which an answer is called sure costs and brings.

    ``kept``: the share of answers with the right hit first that stay sure. ``caught``: the share of requests that
    nothing can serve whose answer is not sure. ``wrong_caught``: the same of answers whose first hit is wrong.
    """

    point: float | str
    kept: float
    caught: float
    wrong_caught: float


def trade_offs(outcomes: Sequence[Outcome], unserved: Sequence[Answer], steps: int = 20) -> list[TradeOff]:
    """Return the trade-off of the labels, then those of the evidence from every step of its range."""
    found = [outcome.answer for outcome in outcomes if outcome.is_first_right]
    wrong = [outcome.answer for outcome in outcomes if not outcome.is_first_right]

    def at(point: float | str, is_sure: Callable[[Answer], bool]) -> TradeOff:
        unsure = [mean([not is_sure(answer) for answer in answers]) for answers in (found, unserved, wrong)]
        return TradeOff(point, 1 - unsure[0], unsure[1], unsure[2])

    marks = [answer.evidence for answer in (*found, *unserved) if answer.evidence is not None]
    points = sorted({percentile(marks, step / steps) for step in range(steps)}) if marks else []
    labels = [at("labels", lambda answer: answer.confidence == "high")]
    return labels + [
        at(point, lambda answer, point=point: bool(answer.ids) and (answer.evidence or 0.0) >= point)
        for point in points
    ]
