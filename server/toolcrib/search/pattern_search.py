"""A caller's pattern tried on names, descriptions and tags, within a time limit.

Knows what a match is worth; never knows how matches are ordered or who may see them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from toolcrib.base.patterns import PATTERN_MAX, Pattern, PatternError, compile_pattern
from toolcrib.errors import BadRequest

FULL_NAME, PREFIX, PART_OF_NAME, OTHER_TEXT = 0.95, 0.90, 0.85, 0.75
"""The score of a match (R51), by where the pattern matched."""

_TRIED_UNWATCHED = 8
"""How many documents are tried between two looks at the clock: the clock of a thread is slower than most patterns."""

_OF_WHOLE_TEXTS = ("(?", r"\A", r"\z")
"""Flags and marks that would mean something else over several lines."""


class PatternSearch:
    """Tries patterns on documents with names. Safe to use from several threads; may take tens of milliseconds.

    ``limit_ms`` bounds one search, by ``clock``.
    """

    def __init__(self, limit_ms: float, clock: Callable[[], float]) -> None:
        self._limit_ms = limit_ms
        self._clock = clock

    def search(
        self,
        expression: str,
        numbers: Iterable[int],
        spellings: Callable[[int], Sequence[str]],
        texts: Callable[[], Mapping[int, Sequence[str]]],
        *,
        enough: int,
    ) -> list[tuple[int, float]]:
        """Return the documents that match, with their scores. ``spellings`` gives every form of a document's name.

        ``texts``, the others by document, are asked for only where fewer than ``enough`` names match: they score lower.

        Raises:
            BadRequest: the pattern is invalid or too large, or took too long.

        """
        deadline = self._clock() + self._limit_ms / 1000
        try:
            pattern = compile_pattern(expression, ignore_case=True)
        except PatternError as error:
            raise BadRequest(f"Not a usable RE2 pattern: {error}.") from None
        first_look = _over_lines(expression)
        matches: list[tuple[int, float]] = []
        others: list[int] = []
        for place, number in enumerate(numbers):
            self._check(deadline, place)
            names = spellings(number)
            may_match = first_look is None or first_look.search("\n".join(names)) is not None
            score = _name_score(pattern, names) if may_match else 0
            if score:
                matches.append((number, score))
            else:
                others.append(number)
        if len(matches) < enough:
            before = self._clock()
            by_number = texts()
            deadline += self._clock() - before  # reading them is not the pattern's fault
            for place, number in enumerate(others):
                self._check(deadline, place)
                if any(map(pattern.search, by_number.get(number, ()))):
                    matches.append((number, OTHER_TEXT))
        return matches

    def _check(self, deadline: float, place: int) -> None:
        if place % _TRIED_UNWATCHED == 0 and self._clock() > deadline:
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
        # With (?m) the marks ^ and $ hold for each line, as they do for each name alone.
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
