"""A caller's pattern tried on names, descriptions and tags, within a time limit.

Knows what a match is worth; never knows how matches are ordered or who may see them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from toolcrib.base.errors import BadRequest
from toolcrib.base.patterns import PATTERN_MAX, Pattern, PatternError, compile_pattern

FULL_NAME, PREFIX, PART_OF_NAME, OTHER_TEXT = 0.95, 0.90, 0.85, 0.75
"""The score of a match (R51), by where the pattern matched."""

_TRIED_UNWATCHED = 8
"""Documents tried between two checks of the clock: reading a thread's CPU clock costs more than most patterns."""

_OF_WHOLE_TEXTS = ("(?", r"\A", r"\z")
"""Flags and anchors whose meaning would change over several lines."""


class PatternSearch:
    """Matches patterns against documents with names. Safe to use from several threads; may take tens of milliseconds.

    ``limit_ms`` bounds one search, measured by ``clock``.
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
        """Return the documents that match, with their scores. ``spellings`` returns every form of a document's name.

        ``texts`` returns the other texts by document; it is called only if fewer than ``enough`` names match, because
        texts score lower.

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
            deadline += self._clock() - before  # reading them is not part of matching
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
    """Return a caller's pattern if it is not too long.

    Raises:
        BadRequest: it has too many characters.

    """
    if len(pattern) > PATTERN_MAX:
        raise BadRequest(f"The pattern has {len(pattern)} characters; at most {PATTERN_MAX} are allowed.")
    return pattern


def _over_lines(expression: str) -> Pattern | None:
    """Return a pattern that matches joined lines wherever ``expression`` matches one of them.

    It may match more. A single match over all names rules out most items without trying each name. None if the
    expression's own anchors and flags could mean something else over several lines.
    """
    if any(mark in expression for mark in _OF_WHOLE_TEXTS):
        return None
    try:
        # With (?m) the anchors ^ and $ apply to each line, as they do to each name alone.
        return compile_pattern(f"(?m){expression}", ignore_case=True)
    except PatternError:
        return None


def _name_score(pattern: Pattern, names: Iterable[str]) -> float:
    """Return the best score of an item's names, 0 if none matches."""
    best = 0.0
    for name in names:
        if pattern.search(name) is None:
            continue
        if pattern.fullmatch(name):
            return FULL_NAME
        best = max(best, PREFIX if pattern.match(name) else PART_OF_NAME)
    return best
