"""A caller's pattern tried on names, descriptions and tags of tools, within a time limit.

Knows what a match is worth; never knows how matches are ordered or who may see them.
"""

from collections.abc import Callable, Iterable

from toolcrib.errors import BadRequest
from toolcrib.index.catalog import Pool
from toolcrib.index.tools import PlainText, ToolIndex
from toolcrib.model import Tool
from toolcrib.patterns import Pattern, PatternError, compile_pattern

FULL_NAME, PREFIX, PART_OF_NAME, OTHER_TEXT = 0.95, 0.90, 0.85, 0.75
"""The score of a match (R51), by where the pattern matched."""

_OF_WHOLE_TEXTS = ("(?", r"\A", r"\z")


class PatternSearch:
    """Tries patterns on tools. Safe to use from several threads; may take tens of milliseconds."""

    def __init__(self, index: ToolIndex, limit_ms: float, clock: Callable[[], float]) -> None:
        self._index = index
        self._limit_ms = limit_ms
        self._clock = clock
        self._texts: tuple[int, dict[int, PlainText]] = (-1, {})

    def search(self, expression: str, pool: Pool, *, generation: int, enough: int) -> list[tuple[Tool, float]]:
        """Return the tools that match, with their scores, in public-name order within names and within texts.

        Descriptions and tags are looked at only where fewer than ``enough`` names match: they score lower.

        Raises:
            BadRequest: the pattern is invalid or too large, or took too long.

        """
        deadline = self._clock() + self._limit_ms / 1000
        try:
            pattern = compile_pattern(expression, ignore_case=True)
        except PatternError as error:
            raise BadRequest(f"Not a usable RE2 pattern: {error}.") from None
        first_look = _over_lines(expression)
        matches: list[tuple[Tool, float]] = []
        others: list[Tool] = []
        for tool in pool.tools:
            self._check(deadline)
            names = (tool.public_name, f"{tool.server}.{tool.name}", tool.name)
            may_match = first_look is None or first_look.search("\n".join(names)) is not None
            score = _name_score(pattern, names) if may_match else 0
            if score:
                matches.append((tool, score))
            else:
                others.append(tool)
        if len(matches) < enough:
            before = self._clock()
            texts = self._texts_of(generation)
            deadline += self._clock() - before  # reading them is not the pattern's fault
            for tool in others:
                self._check(deadline)
                text = texts.get(tool.row)
                if text and (pattern.search(text.description) or any(map(pattern.search, text.tags))):
                    matches.append((tool, OTHER_TEXT))
        return matches

    def _check(self, deadline: float) -> None:
        if self._clock() > deadline:
            raise BadRequest(
                f"The pattern took longer than {self._limit_ms:g} ms; make it simpler, or search by words."
            )

    def _texts_of(self, generation: int) -> dict[int, PlainText]:
        known, texts = self._texts
        if known != generation:
            texts = self._index.texts()
            self._texts = generation, texts
        return texts


def _over_lines(expression: str) -> Pattern | None:
    """Return a pattern that finds something in joined lines wherever ``expression`` does in one of them.

    It may find more. One look at all names of a tool tells that most tools need no look at each name. None where
    the expression's own marks and flags could mean something else over lines.
    """
    if any(mark in expression for mark in _OF_WHOLE_TEXTS):
        return None
    try:
        return compile_pattern(f"(?m){expression}", ignore_case=True)
    except PatternError:
        return None


def _name_score(pattern: Pattern, names: Iterable[str]) -> float:
    """Return the best score of a tool's names, 0 where none matches."""
    best = 0.0
    for name in names:
        if pattern.search(name) is None:
            continue
        if pattern.fullmatch(name):
            return FULL_NAME
        best = max(best, PREFIX if pattern.match(name) else PART_OF_NAME)
    return best
