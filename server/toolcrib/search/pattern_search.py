"""A caller's pattern tried on names, descriptions and tags, within a time limit.

Knows what a match is worth; never knows how matches are ordered or who may see them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from toolcrib.base.patterns import PATTERN_MAX, Pattern, PatternError, compile_pattern
from toolcrib.errors import BadRequest

FULL_NAME, PREFIX, PART_OF_NAME, OTHER_TEXT = 0.95, 0.90, 0.85, 0.75
"""The score of a match (R51), by where the pattern matched."""

_OF_WHOLE_TEXTS = ("(?", r"\A", r"\z")


class _Indexed(Protocol):
    @property
    def row(self) -> int: ...


_Item = TypeVar("_Item", bound=_Indexed)


class PatternSearch(Generic[_Item]):
    """Tries patterns on items with names. Safe to use from several threads; may take tens of milliseconds.

    ``names_of`` gives every spelling of an item's name. ``limit_ms`` bounds one search, by ``clock``.
    """

    def __init__(self, names_of: Callable[[_Item], Sequence[str]], limit_ms: float, clock: Callable[[], float]) -> None:
        self._names_of = names_of
        self._limit_ms = limit_ms
        self._clock = clock

    def search(
        self,
        expression: str,
        items: Iterable[_Item],
        texts_by_row: Callable[[], Mapping[int, Sequence[str]]],
        *,
        enough: int,
    ) -> list[tuple[_Item, float]]:
        """Return the items that match, with their scores, in the order of ``items`` within names and within texts.

        Other texts are asked for, and looked at, only where fewer than ``enough`` names match: they score lower.

        Raises:
            BadRequest: the pattern is invalid or too large, or took too long.

        """
        deadline = self._clock() + self._limit_ms / 1000
        try:
            pattern = compile_pattern(expression, ignore_case=True)
        except PatternError as error:
            raise BadRequest(f"Not a usable RE2 pattern: {error}.") from None
        first_look = _over_lines(expression)
        matches: list[tuple[_Item, float]] = []
        others: list[_Item] = []
        for item in items:
            self._check(deadline)
            names = self._names_of(item)
            may_match = first_look is None or first_look.search("\n".join(names)) is not None
            score = _name_score(pattern, names) if may_match else 0
            if score:
                matches.append((item, score))
            else:
                others.append(item)
        if len(matches) < enough:
            before = self._clock()
            texts = texts_by_row()
            deadline += self._clock() - before  # reading them is not the pattern's fault
            for item in others:
                self._check(deadline)
                if any(map(pattern.search, texts.get(item.row, ()))):
                    matches.append((item, OTHER_TEXT))
        return matches

    def _check(self, deadline: float) -> None:
        if self._clock() > deadline:
            raise BadRequest(
                f"The pattern took longer than {self._limit_ms:g} ms; make it simpler, or search by words."
            )


def short_enough(pattern: str) -> str:
    """Return a caller's pattern.

    Raises:
        BadRequest: it has too many characters.

    """
    if len(pattern) > PATTERN_MAX:
        raise BadRequest(f"The pattern has {len(pattern)} characters; at most {PATTERN_MAX} are allowed.")
    return pattern


def _over_lines(expression: str) -> Pattern | None:
    """Return a pattern that finds something in joined lines wherever ``expression`` does in one of them.

    It may find more. One look at all names of an item tells that most items need no look at each name. None where
    the expression's own marks and flags could mean something else over lines.
    """
    if any(mark in expression for mark in _OF_WHOLE_TEXTS):
        return None
    try:
        return compile_pattern(f"(?m){expression}", ignore_case=True)
    except PatternError:
        return None


def _name_score(pattern: Pattern, names: Iterable[str]) -> float:
    """Return the best score of an item's names, 0 where none matches."""
    best = 0.0
    for name in names:
        if pattern.search(name) is None:
            continue
        if pattern.fullmatch(name):
            return FULL_NAME
        best = max(best, PREFIX if pattern.match(name) else PART_OF_NAME)
    return best
