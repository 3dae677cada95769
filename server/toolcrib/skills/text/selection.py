"""Selects which pieces of a text fit into the room, whole or shortened, with a mark at every cut.

Knows sizes, what a piece needs beside it, and how a text is cut between words; never knows which piece matters more.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from toolcrib.base.markdown import fences
from toolcrib.skills.text.pieces import Layout

GAP = "[…]"
Size = Callable[[str], int]
"""Measures a text; additive over concatenation."""

_BOTH_ENDS = 2
"""Fence marks in a text that is one block of code."""
_NEAR = 2 / 3
"""Maximum relative position of the place of interest within an excerpt."""
# The box of a task list belongs to the mark, so that a step shown by its title keeps it.
MARKER = re.compile(r"\s*(?:\d{1,9}[.)]|[-*+])[ \t]+(?:\[[ xX]\][ \t]+)?")


class Selection:
    """The shown text of each piece, and the remaining room, in which gap marks are counted."""

    def __init__(self, layout: Layout, room: int, size: Size) -> None:
        self._layout, self.size = layout, size
        self._texts = [closed(piece.text) for piece in layout.pieces]
        self._separators = {piece.separator: size(piece.separator) for piece in layout.pieces}
        self._gap = size(f"\n{layout.gap}")
        self._shown: list[str | None] = [None] * len(layout.pieces)
        self._note = ""
        # While nothing is shown the whole text is one gap.
        self.left = room - self._gap

    @property
    def is_full(self) -> bool:
        """Whether no room is left: a piece that is shown may split a gap in two."""
        return self.left <= self._gap

    def take(self, wanted: Iterable[tuple[int, str]], share: float) -> None:
        """Show pieces as these texts, in this order, each that fits into this share of the remaining room."""
        limit = self.left * share
        for index, text in wanted:
            if limit <= self._gap:
                return
            limit -= self._add(index, text, limit)

    def fits_all(self, wanted: Sequence[tuple[int, str]], share: float) -> bool:
        """Show pieces as these texts if all of them fit into this share of the remaining room."""
        limit, before, shown = self.left * share, self.left, self._shown.copy()
        for index, text in wanted:
            cost = self._add(index, text, limit)
            if self._shown[index] is None:
                self.left, self._shown = before, shown
                return False
            limit -= cost
        return True

    def fill(self, indexes: Iterable[int]) -> None:
        """Show whole pieces in this order, of each list as many as fit from its start, and none after a missing one."""
        full: set[int] = set()
        needs = self._layout.needs
        for index in indexes:
            if self.is_full:
                return
            text = self._texts[index]
            if self._shown[index] != text and needs[index] not in full:
                self._add(index, text, self.left)
                if self._shown[index] is None:
                    full.add(needs[index])

    def note(self, text: str) -> None:
        """Append this line to the text, if there is room for it."""
        line = f"\n{text}"
        if self.size(line) < self.left:
            self._note = line
            self.left -= self.size(line)

    def whole(self, index: int) -> str:
        """Return the whole text of a piece."""
        return self._texts[index]

    def is_shown(self, index: int) -> bool:
        """Return whether any part of a piece is shown."""
        return self._shown[index] is not None

    def _add(self, index: int, text: str, limit: float) -> int:
        """Show ``text`` for a piece, and the pieces it needs, unless the cost exceeds the limit; return the cost."""
        old = self._shown[index]
        if old is not None:
            cost = self.size(text) - self.size(old) if len(text) > len(old) else 0
            if not cost or cost > limit:
                return 0
            self._shown[index] = text
            self.left -= cost
            return cost
        added: list[int] = []
        cost = 0
        # The headings and lines that a piece needs are shown with it, so their size is part of the cost.
        while index >= 0 and self._shown[index] is None:
            shown = self._texts[index] if added else text
            separator = self._separators[self._layout.pieces[index].separator]
            cost += separator + self.size(shown) + self._gap * self._more_gaps(index)
            self._shown[index] = shown
            added.append(index)
            index = self._layout.needs[index]
        if cost > limit:
            # The cost of gaps depends on what is shown, so the pieces were shown first and are hidden again.
            for each in added:
                self._shown[each] = None
            return 0
        self.left -= cost
        return cost

    def _more_gaps(self, index: int) -> int:
        """Return the change in the number of gaps when this piece is shown: 1, 0 or -1."""
        before = index > 0 and self._shown[index - 1] is None
        after = index + 1 < len(self._shown) and self._shown[index + 1] is None
        return before + after - 1

    def text(self) -> str:
        """Return the selected text."""
        parts: list[str] = []
        gap, last, in_gap = self._layout.gap, "", False
        for piece, shown in zip(self._layout.pieces, self._shown, strict=True):
            if shown is not None:
                parts.append(piece.separator + shown)
                last = shown
            elif not in_gap and not last.endswith((GAP, "…")):
                # Nothing may follow the marks of a fence on the same line.
                parts.append(f"\n{gap}" if not last or last.endswith(("`", "~", "|")) else f" {gap}")
            in_gap = shown is None
        return ("".join(parts) + self._note).lstrip("\n")


def cut(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` characters, cut between words and ending in an ellipsis.

    Only text without spaces, such as Chinese, is cut anywhere.
    """
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return (head[:space] if space > limit // 4 else head).rstrip(" ,.;:(") + "…"


def around(text: str, place: int, width: int) -> str:
    """Return at most ``width`` characters of ``text``: from its start, or around ``place`` if that is far off.

    A fence left open is closed, which takes another line.
    """
    if len(text) <= width:
        return text
    if place <= width * _NEAR:
        return closed(cut(text, width))
    marker = MARKER.match(text)
    head = marker[0] if marker else ""
    start = max(text.rfind(each, 0, place) + len(each) for each in ("; ", ", ", ". ", ": ", " — ", "| ", "\n"))
    if place - start > width * _NEAR:
        start = text.rfind(" ", 0, max(place - width // 2, 0)) + 1
    return closed(f"{head}… {cut(text[start:], width - len(head) - 2)}")


def sealed(text: str, room: int, size: Size) -> str:
    """Return ``text``, which is within ``room``, without an open fence: closed if that fits too, else removed."""
    whole = closed(text)
    if whole is text or size(whole) <= room:
        return whole
    left_open = next(fence for fence in fences(text) if not fence.is_closed)
    return text[: left_open.start].rstrip("\n")


def closed(text: str) -> str:
    """Return ``text`` with any open fence closed at its end."""
    # Most texts have no fence, and this test is much cheaper than searching for one.
    if "```" not in text and "~~~" not in text:
        return text
    # A block of code is usually one fence.
    if (
        text.startswith("```")
        and not text.startswith("````")
        and text.endswith("\n```")
        and text.count("```") == _BOTH_ENDS
    ):
        return text
    left_open = next((fence.marks for fence in fences(text) if not fence.is_closed), "")
    return f"{text}\n{left_open}" if left_open else text
