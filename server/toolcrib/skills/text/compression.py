"""Shortens a Markdown text to what matters most: breadth before depth, prohibitions and gates before all detail.

Pieces stay in the order of the text; a step, a gate or a route may be shown shortened, and ``[…]`` marks every place
where something is missing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from toolcrib.base.markdown import ITEMS, Block, Kind, Outline, fences
from toolcrib.skills.text.pieces import BOLD, LEVEL_MAX, Layout, Piece, Topic, procedure, read_signals

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

    @property
    def last(self) -> int:
        """The last piece that is shown; -1 if none is."""
        return next((index for index in range(len(self._shown) - 1, -1, -1) if self._shown[index] is not None), -1)

    @property
    def has_note(self) -> bool:
        """Whether a line is appended."""
        return bool(self._note)

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


# Longer titles get a smaller share: gates, routes and leads need room too.
_TITLES = ((200, 0.35), (120, 0.4), (80, 0.45), (50, 0.6), (36, 1.0))
"""Maximum length of a step's title, and the share of the room for all titles; the first option in which all fit is
used.
"""
_FIRST_WIDTH = 120
"""Below this width a step is represented by its leading bold words, if any."""
_DENSE = 1_800
"""Room, in characters, below which the text's own layout would take too much of it."""
_SHORT_MAX = 700
"""Maximum length of short code, in characters."""
_SHELLS = ("bash", "sh", "shell", "zsh", "console", "powershell", "ps1", "cmd", "bat")
_BARE_MAX = 200
"""Maximum length of a fence without a language that may still be a command rather than a diagram or text."""


class About(NamedTuple):
    """Context of a text: how many blocks at its start state its purpose, and which files are in its folder."""

    blocks: int = 0
    files: frozenset[str] = frozenset()


_NOTHING_KNOWN = About()


def compress(source: Outline, room: int, size: Size, about: About = _NOTHING_KNOWN) -> str:
    """Return the most important parts of ``source`` that fit into ``room``, measured by ``size``, in order (R142).

    The purpose, headings in order, the steps of the procedure by title, lines that forbid or gate, routes to files, the
    first sentence of each section and its commands take precedence over details; then all sections are filled equally.
    """
    whole = "".join(_separator(block) + block.text for block in source.blocks).lstrip("\n")
    if size(whole) <= room:
        return closed(whole)
    layout = Layout(source.blocks, is_dense=room < _DENSE * size("x"))
    selection = Selection(layout, room, size)
    _Choice(layout, selection, about).make(room // size("x"))
    return selection.text()


def beginning(source: Outline, room: int, size: Size) -> str:
    """Return as many whole blocks from the start as fit into ``room``."""
    shown: list[str] = []
    for block in source.blocks:
        text = _separator(block) + closed(block.text)
        room -= size(text)
        if room < 0:
            break
        shown.append(text)
    return "".join(shown).lstrip("\n")


def _separator(block: Block) -> str:
    return "\n\n" if block.is_spaced else "\n"


class _Choice:
    """Selects which pieces are shown first, and which share of the room they may take."""

    def __init__(self, layout: Layout, selection: Selection, about: About) -> None:
        self._layout, self._selection = layout, selection
        self._about = [index for index, piece in enumerate(layout.pieces[:100]) if piece.block < about.blocks]
        pieces = layout.pieces
        self._signals = read_signals([piece.text for piece in pieces], about.files)
        introducing = set(layout.needs)
        self._words = [
            index
            for index, piece in enumerate(pieces)
            if piece.kind not in (Kind.HEADING, Kind.FENCE)
            and (index not in introducing or piece.kind in ITEMS or index in self._signals.gates)
            and not (piece.kind is Kind.TABLE and layout.is_head(index))
        ]
        self._depths = self._depths_of_words()
        self._steps = procedure(layout)
        self._code = self._first_code()

    def make(self, room: int) -> None:
        """Select pieces until the room, in characters, is used up."""
        selection, signals = self._selection, self._signals
        # Nothing of a text that is tiny is given up for saying how it ends.
        kept_free = min(selection.size("\n") + selection.size(_MORE.format(_MORE_MOST)), selection.left // 10)
        selection.left -= kept_free
        width = min(300, room // 5)
        about = [(index, around(selection.whole(index), 0, width)) for index in self._about]
        selection.take(about[:1], 1)
        selection.take(about, 0.15)
        if not self._layout.is_dense:
            self._take_headings()
            self._take_steps()
            selection.take(self._gates(strong=True, width=300), 0.3)
            selection.take(self._routes(200), 0.35)
            selection.take(self._leads(300), 0.5)
            selection.take(((index, selection.whole(index)) for index in self._commands()), 0.35)
            selection.take(self._gates(strong=False, width=300), 0.25)
        else:
            selection.take(self._gates(strong=True, width=140), 0.3)
            self._take_steps()
            selection.take(self._routes(100), 0.4)
            selection.take(self._gates(strong=False, width=120), 0.3)
            selection.take(self._leads(140), 0.6)
        firsts = [self._layout.first_of[number] for number in self._steps]
        selection.take(((index, selection.whole(index)) for index in firsts), 0.5)
        selection.fill(self._remaining())
        if signals.routes or not self._layout.is_dense:
            # Headings without any shown content come last: they still indicate what was omitted.
            selection.fill(index for index, piece in enumerate(self._layout.pieces) if piece.kind is Kind.HEADING)
        selection.left += kept_free
        self._finish_list()

    def _depths_of_words(self) -> dict[int, int]:
        """Return the depth of each piece in its section: later pieces can wait, and later sentences too."""
        depths: dict[int, int] = {}
        blocks: dict[int, int] = {}
        last = -1
        for index in self._words:
            section, block = self._layout.sections[index], self._layout.pieces[index].block
            if block != last:
                blocks[section], last = blocks.get(section, -1) + 1, block
            depths[index] = blocks[section] + _SENTENCE_DEPTH * (index - self._layout.first_of[block])
        return depths

    def _depths_of(self, indexes: Iterable[int]) -> dict[int, int]:
        """Return for each piece how many other pieces of its section precede it."""
        counts: dict[int, int] = {}
        depths: dict[int, int] = {}
        for index in indexes:
            section = self._layout.sections[index]
            depths[index] = counts.get(section, 0)
            counts[section] = depths[index] + 1
        return depths

    def _take_headings(self) -> None:
        """Show all headings; if they would take most of the room, only those of the upper levels."""
        headings = [index for index, piece in enumerate(self._layout.pieces) if piece.kind is Kind.HEADING]
        for level in range(LEVEL_MAX, 0, -1):
            upper = [
                index for index in headings if self._layout.blocks[self._layout.pieces[index].block].level <= level
            ]
            if self._selection.fits_all([(index, self._selection.whole(index)) for index in upper], 0.4):
                return

    def _take_steps(self) -> None:
        """Show all steps by title, shortened until all fit; if that is impossible, as many as fit."""
        blocks, firsts = self._layout.blocks, self._layout.first_of
        shown: list[tuple[int, str]] = []
        for width, share in _TITLES:
            shown = [
                (firsts[number], _title(blocks[number], self._selection.whole(firsts[number]), width))
                for number in self._steps
            ]
            if self._selection.fits_all(shown, share):
                return
        self._selection.note(f"[… not all of the {len(shown)} steps: for the others there is no room]")
        self._selection.take(shown, 1)

    def _finish_list(self) -> None:
        """Have the text not end within a list: show what is missing of it by title, or else say how much that is."""
        layout, selection = self._layout, self._selection
        blocks, firsts = layout.blocks, layout.first_of
        last = selection.last
        if last < 0 or selection.has_note or layout.pieces[last].kind not in ITEMS:
            return
        block = layout.pieces[last].block
        missing = [*takewhile(lambda number: blocks[number].kind is blocks[block].kind, range(block + 1, len(blocks)))]
        if not missing:
            return
        for width, _share in _TITLES:
            titles = [(firsts[each], _title(blocks[each], selection.whole(firsts[each]), width)) for each in missing]
            if selection.fits_all(titles, 1):
                return
        selection.note(_MORE.format(len(missing)))

    def _gates(self, *, strong: bool, width: int) -> Iterator[tuple[int, str]]:
        """Yield pieces that forbid or gate, the first of each section before the second of any."""
        layout, gates = self._layout, self._signals.gates
        found = [
            index
            for index in self._words
            if index in gates and (gates[index][0] > 1) == strong and layout.topics[index] is not Topic.EXAMPLES
        ]
        depths = self._depths_of(found)
        for index in sorted(found, key=lambda index: (depths[index], index)):
            yield index, around(self._selection.whole(index), gates[index][1], width)

    def _routes(self, width: int) -> Iterator[tuple[int, str]]:
        """Yield the pieces that first mention a file of the skill."""
        for index, place in sorted(self._signals.routes.items()):
            piece, whole = self._layout.pieces[index], self._selection.whole(index)
            if piece.kind is Kind.FENCE and len(whole) <= _ROUTES_MAX and not _is_command(piece):
                yield index, whole
            elif piece.kind not in (Kind.FENCE, Kind.HEADING):
                yield index, around(whole, place, width)

    def _leads(self, width: int) -> Iterator[tuple[int, str]]:
        """Yield the first words of each section, or its first code if that is short; those of steps first."""
        layout, steps = self._layout, {self._layout.first_of[number] for number in self._steps}
        leads: dict[int, int] = {}
        # A link elsewhere is not a lead, wherever it is.
        for index in sorted([*self._words, *self._code], key=lambda at: (self._signals.preferred.get(at) == -1, at)):
            if len(layout.pieces[index].text) <= _LEAD_CODE or layout.pieces[index].kind is not Kind.FENCE:
                leads.setdefault(layout.sections[index], index)
        for section, index in sorted(leads.items(), key=lambda each: (each[0] not in steps, each[0])):
            whole = self._selection.whole(index)
            if layout.topics[index] not in _NO_LEADS[layout.is_dense] and not (
                layout.is_dense and self._is_intro(section)
            ):
                yield index, whole if layout.pieces[index].kind is Kind.FENCE else around(whole, 0, width)

    def _is_intro(self, section: int) -> bool:
        """Return whether a section precedes all others; it mostly repeats the purpose of the skill."""
        return section < 0 or self._layout.blocks[self._layout.pieces[section].block].level == 1

    def _commands(self) -> list[int]:
        """Return the first code under each heading or line that introduces some, if it is a short command."""
        return [index for index in self._code if _is_command(self._layout.pieces[index])]

    def _first_code(self) -> list[int]:
        """Return the first code under each heading or line that introduces some, if it is short and not an example."""
        found: dict[int, int] = {}
        for index, piece in enumerate(self._layout.pieces):
            is_example = self._layout.topics[index] is Topic.EXAMPLES
            if piece.kind is Kind.FENCE and not is_example and len(piece.text) <= _SHORT_MAX:
                found.setdefault(self._layout.needs[index], index)
        return list(found.values())

    def _remaining(self) -> list[int]:
        """Return everything except headings, in filling order: breadth before depth."""
        layout, preferred = self._layout, self._signals.preferred
        depths = self._depths | dict.fromkeys(self._code, _CODE_DEPTH) | dict.fromkeys(self._commands(), 2)

        def rank(index: int) -> tuple[int, int, int]:
            piece, topic = layout.pieces[index], layout.topics[index]
            if index not in depths or topic is Topic.EXAMPLES:
                return 2, 0, index
            tier = int(topic is Topic.BACKGROUND or (piece.kind is Kind.TABLE and depths[index] > _ROWS))
            return tier, depths[index] - 2 * preferred.get(index, 0), index

        code = [index for index, piece in enumerate(layout.pieces) if piece.kind is Kind.FENCE]
        return sorted([*self._words, *code], key=rank)


_MORE, _MORE_MOST = "[… {} more]", 99
"""What a text ends with that ends within a list, and the number for which there is always room."""

_NO_LEADS = ((Topic.EXAMPLES,), (Topic.EXAMPLES, Topic.BACKGROUND))
"""Topics of sections whose leads can wait; in dense mode, those that repeat the purpose of the skill can too."""
_ROUTES_MAX = 500
"""Maximum length of a fenced text that says which files to read."""
_LEAD_CODE = 250
"""Maximum length of code that may be a section's lead."""
_SENTENCE_DEPTH = 2
"""How many more items of a section precede the next sentence of one."""
_CODE_DEPTH = 5
"""How many pieces of text of a section precede its first code that is not a command."""
_ROWS = 8
"""Rows of a section's tables that count as text rather than reference."""


def _title(block: Block, whole: str, width: int) -> str:
    """Return a short form of a step, if it is shorter: its number or box, and its first sentence or bold words."""
    marker = MARKER.match(block.text)
    if block.kind is Kind.HEADING or marker is None or len(whole) <= width:
        return whole
    bold = BOLD.match(block.text, marker.end()) if width < _FIRST_WIDTH else None
    title = bold[0] if bold and len(bold[0]) <= width else cut(whole[marker.end() :].replace("\n", " "), width)
    short = closed(f"{marker[0].strip()} {title}{'' if title.endswith('…') else f' {GAP}'}")
    return short if len(short) < len(whole) else whole


def _is_command(fence: Piece) -> bool:
    language = fence.text.partition("\n")[0].strip().strip("`~").strip().partition(" ")[0].lower()
    return language in _SHELLS or (not language and len(fence.text) <= _BARE_MAX)
