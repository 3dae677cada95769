"""Renders several skills as one text for a model, within a shared budget.

Knows how room is shared and what is said about skills that get none; never knows a skill's parts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from toolcrib.skills.text.rendering import QUARTERS, Estimate, Page, tokens_of

Included = Literal["full", "compressed", "listed", "left_out"]

LEAST_TOKENS = 60
"""With less room than this per skill, skills are only listed."""

_REST = '[…] is cut here: max_tokens or file="SKILL.md" gives more'
_LISTED = "Skills without room here; skill_get gives them one by one:"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one skill: the tokens of its whole text, and of its rendered text with the wrapper."""

    included: Included
    raw_tokens: int
    tokens: int


class Rendered(NamedTuple):
    """The text, and the result for each skill, in the given order."""

    text: str
    outcomes: tuple[Outcome, ...]


def rendered(pages: Sequence[Page], max_tokens: int, estimate: Estimate) -> Rendered:
    """Return skills as one text of at most ``max_tokens`` (R136); their pages were made with the same ``estimate``.

    A skill that does not fit is shortened by its page; the room is shared equally, and unused room goes to the next.
    Skills with too little room for any text are listed by name, as many as fit. The text is marked as untrusted (R229),
    and nothing in a skill can open or close a wrapper.
    """
    return _Sharing(pages, estimate).rendered(max_tokens)


class _Shown(NamedTuple):
    """The shown text of one skill, and the room that it takes."""

    included: Included
    text: str
    size: int


_NOT_SHOWN = _Shown("left_out", "", 0)


class _Sharing:
    """Shares one budget among skills: one that needs less than an equal share leaves the rest to the others."""

    def __init__(self, pages: Sequence[Page], estimate: Estimate) -> None:
        self._pages = pages
        self._size = estimate.size
        self._newline = self._size("\n")
        self._room = 0
        self._shown: dict[int, _Shown] = {}

    def rendered(self, max_tokens: int) -> Rendered:
        """Return all skills within ``max_tokens``; empty if not even the frame around them fits."""
        pages = list(range(len(self._pages)))
        self._room = max_tokens * QUARTERS
        tail: list[str] = []
        if sum(map(self._cost, pages)) <= self._room:
            self._show_whole(pages)
        else:
            self._room -= self._size(_REST) + self._newline
            lines = self._share(pages) if self._room >= 0 else []
            tail = [*lines, _REST] if lines or self._shown else []
        blocks = [shown.text for _, shown in sorted(self._shown.items()) if shown.included != "listed"]
        text = "\n".join([*blocks, *tail]) if blocks or tail else ""
        return Rendered(text, tuple(map(self._outcome, pages)))

    def _cost(self, index: int) -> int:
        return self._pages[index].cost + self._newline

    def _show_whole(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            self._shown[index] = _Shown("full", self._pages[index].whole(), self._pages[index].cost)
            self._room -= self._cost(index)

    def _share(self, pending: list[int]) -> list[str]:
        """Show as much of these skills as fits, since not all fit whole; return the lines that list the rest."""
        # A skill that needs less than an equal share increases the share of the others, so they are tried again.
        while fitting := [index for index in pending if self._cost(index) <= self._room // len(pending)]:
            self._show_whole(fitting)
            pending = [index for index in pending if index not in self._shown]
            if not pending:
                return []
        share = self._room // len(pending)
        is_short = share < LEAST_TOKENS * QUARTERS
        listed = [index for index in pending if is_short or self._pages[index].least + self._newline > share]
        # Lists come first: the room that they do not use goes to the skills that are shown.
        lines = self._list(listed, share * len(listed))
        rest = [index for index in pending if index not in listed]
        for number, index in enumerate(rest):
            share = self._room // (len(rest) - number)
            if self._cost(index) <= share:
                self._show_whole([index])
            else:
                text = self._pages[index].shortened(share - self._newline)
                self._shown[index] = _Shown("compressed", text, self._size(text))
                self._room -= self._shown[index].size + self._newline
        return lines

    def _list(self, indexes: Sequence[int], room: int) -> list[str]:
        """Return the lines that list these skills within ``room``, and how many are omitted for lack of it."""
        lines = [_LISTED]
        last = "- and {} more, left out"
        left = room - self._size(_LISTED + last.format(len(indexes))) - 2 * self._newline
        for index in indexes:
            line = self._pages[index].line()
            cost = self._size(line) + self._newline
            if cost <= left:
                left -= cost
                lines.append(line)
                self._shown[index] = _Shown("listed", line, cost - self._newline)
        if more := len(indexes) - len(lines) + 1:
            lines.append(last.format(more))
        if left < 0 or not indexes:
            return []
        self._room -= room - left
        return lines

    def _outcome(self, index: int) -> Outcome:
        shown = self._shown.get(index, _NOT_SHOWN)
        return Outcome(shown.included, self._pages[index].raw_tokens, tokens_of(shown.size))
