"""Splits Markdown into blocks that are kept whole or omitted: headings, list items, fences, tables, paragraphs."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from toolcrib.base.text import truncate

LINES_MAX = 8_000
"""Lines that are scanned; what follows them is one paragraph."""
STEPS_MAX = 200
"""Most titles that are called steps."""
TITLE_MAX = 300
"""Characters of a title."""

# CommonMark 0.31: tabs stop at every fourth column (2.2), and a line indented by four spaces begins no block.
_TAB = 4
_BLOCK_INDENT = 3
_STEP_LEVELS = range(2, 5)
"""Levels of headings that may be numbered steps; level 1 is the title of the text."""
_SECTION_LEVELS = range(2, 4)
"""Levels of headings that are taken for steps where nothing is numbered."""
_ENOUGH = 2
"""How many titles make a list of steps."""
_ITEM_BEGINS = "-*+0123456789"

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?\Z")
# At most nine digits, as CommonMark has it (0.31, 5.2).
_ITEM = re.compile(r"[ \t]*(?:(\d{1,9})[.)]|[-*+])(?:[ \t]+(\[[ xX]\](?:[ \t]+|\Z))?(.*))?\Z")
_FENCE = re.compile(r"^[ \t>]*((?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})(.*)$", re.MULTILINE)
"""A line of marks, be it in a quote or on the line of a list item: what may open or close a fence."""
_NUMBERED = re.compile(r"(?:(?:step|phase|stage)\s*\d|\d{1,2}[.):])", re.IGNORECASE)
_CLOSING_MARKS = re.compile(r"(?<!\S)#+\s*\Z")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_STRONG = re.compile(r"\*\*([^*\n]+)\*\*")
_PARTS = re.compile(r"[&/,:;()\u2013\u2014|+]|\band\b|\bor\b")
_NOT_LETTERS = re.compile(r"[\W\d_]+")


class Kind(StrEnum):
    """What a block is. A list item is a step where it has a number and a check where it has a box."""

    HEADING = "heading"
    STEP = "step"
    CHECK = "check"
    BULLET = "bullet"
    FENCE = "fence"
    TABLE = "table"
    RULE = "rule"
    PARAGRAPH = "paragraph"


ITEMS = (Kind.STEP, Kind.CHECK, Kind.BULLET)
"""The kinds of a list item."""


class Block(NamedTuple):
    """One block: ``text`` is its exact source without the newline at its end.

    A list item has all that is nested in it. ``title`` is the plain text of a heading, or of the first paragraph of a
    list item; ``level`` that of a heading, else 0. ``line`` counts from 1. ``is_spaced``: a blank line is before it.
    """

    kind: Kind
    text: str
    title: str = ""
    level: int = 0
    line: int = 1
    is_spaced: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block of code in a text, from the first to the last character of its lines; ``marks`` opened it."""

    start: int
    end: int
    marks: str
    is_closed: bool


@dataclass(frozen=True, slots=True)
class Outline:
    """The blocks of a text, in order."""

    blocks: tuple[Block, ...]

    @property
    def title(self) -> str:
        """The first heading of level 1, or nothing (R97)."""
        return next((block.title for block in self.blocks if block.kind is Kind.HEADING and block.level == 1), "")

    @property
    def steps(self) -> tuple[str, ...]:
        """The titles of what is numbered: list items and headings such as ``Step 2: …`` (R114).

        With fewer than two of these, the first kind that there are two of: boxes to check, headings of level 2 and 3,
        bullets.
        """
        found: list[list[str]] = [
            [block.title for block in self.blocks if block.kind is Kind.STEP or _is_numbered(block)],
            self._titles(Kind.CHECK),
            [block.title for block in self._headings() if block.level in _SECTION_LEVELS],
            self._titles(Kind.BULLET),
        ]
        enough = (titles for least in (_ENOUGH, 1, 0) for titles in found if len(titles) >= least)
        return tuple(title for title in next(enough) if title)[:STEPS_MAX]

    def section(self, names: Collection[str]) -> tuple[Block, ...]:
        """Return the blocks under the first heading that is called one of ``names``; none where there is no such.

        Names are plain and in lower case: ``## 🚨 Pitfalls & Common Errors (2026)`` is called ``pitfalls`` and
        ``common errors``. Deeper headings belong to the section.
        """
        wanted = frozenset(names)
        for number, block in enumerate(self.blocks):
            if block.kind is Kind.HEADING and wanted & heading_names(block.title):
                rest = self.blocks[number + 1 :]
                ends = (at for at, other in enumerate(rest) if 0 < other.level <= block.level)
                return rest[: next(ends, len(rest))]
        return ()

    def _headings(self) -> Iterator[Block]:
        return (block for block in self.blocks if block.kind is Kind.HEADING)

    def _titles(self, kind: Kind) -> list[str]:
        return [block.title for block in self.blocks if block.kind is kind]


def fences(text: str) -> Iterator[Fence]:
    """Yield the fenced blocks of a text; one that is left open reaches to the end of it."""
    start, marks = 0, ""
    for line in _fence_lines(text):
        if not marks:
            start, marks = line.start(), _opened(line)
        elif _closes(line, marks):
            yield Fence(start, line.end(), marks, is_closed=True)
            marks = ""
    if marks:
        yield Fence(start, len(text), marks, is_closed=False)


def _fence_lines(text: str) -> Iterator[re.Match[str]]:
    """Yield the lines of marks; they are few, so looking for marks is faster than trying each line."""
    ticks, waves = text.find("```"), text.find("~~~")
    while ticks >= 0 or waves >= 0:
        first = min(place for place in (ticks, waves) if place >= 0)
        if line := _FENCE.match(text, text.rfind("\n", 0, first) + 1):
            yield line
        end = text.find("\n", first)
        if end < 0:
            return
        # Each kind is looked for again only once its last place is passed, so a text is gone through once.
        ticks = text.find("```", end) if 0 <= ticks < end else ticks
        waves = text.find("~~~", end) if 0 <= waves < end else waves


def _opened(line: re.Match[str]) -> str:
    """Return the marks that a line opens a fence with; nothing where it opens none (CommonMark 0.31, 4.5)."""
    return "" if line[2].startswith("`") and "`" in line[3] else line[2]


def _closes(line: re.Match[str], marks: str) -> bool:
    # A closing line has no list mark before its marks and nothing behind them (CommonMark 0.31, 4.5).
    return line[1] is None and line[2].startswith(marks) and not line[3].strip()


def outline(body: str) -> Outline:
    """Return the blocks of a Markdown text, in time that grows with its length only."""
    return Outline(tuple(_Scanner(body).blocks()))


def heading_names(title: str) -> frozenset[str]:
    """Return what a heading is called: its plain words in lower case, as a whole and between ``&``, ``/``, ``and``."""
    lowered = title.lower()
    plain = (_NOT_LETTERS.sub(" ", part.replace("'", "")).strip() for part in (lowered, *_PARTS.split(lowered)))
    return frozenset(filter(None, plain))


def plain_title(source: str) -> str:
    """Return a heading's or an item's source as one line without the marks of links and bold type."""
    # Cut first, so that a huge line costs little; four times the length, since addresses of links go.
    short = " ".join(source[: TITLE_MAX * 4].split())
    if "[" in short or "**" in short:
        short = _STRONG.sub(r"\1", _LINK.sub(r"\1", short))
    return truncate(short, TITLE_MAX)


def _is_numbered(block: Block) -> bool:
    return block.level in _STEP_LEVELS and _NUMBERED.match(block.title) is not None


class _Scanner:
    """Cuts lines into blocks, each line looked at once or twice."""

    def __init__(self, body: str) -> None:
        lines = body.split("\n")
        self._lines, self._rest = lines[:LINES_MAX], lines[LINES_MAX:]
        self._kinds: dict[str, Kind] = {}

    def _kind(self, line: str) -> Kind:
        """Return what kind of block a line would begin; most lines are asked about more than once."""
        kind = self._kinds.get(line)
        if kind is None:
            kind = self._kinds[line] = _kind(line)
        return kind

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in order."""
        at, is_spaced = 0, False
        while at < len(self._lines):
            if not self._lines[at].strip():
                at, is_spaced = at + 1, True
                continue
            kind, end, title, level = self._block(at)
            yield Block(kind, "\n".join(self._lines[at:end]), title, level, at + 1, is_spaced)
            at, is_spaced = end, False
        if rest := "\n".join(self._rest).strip("\n"):
            yield Block(Kind.PARAGRAPH, rest, line=LINES_MAX + 1, is_spaced=True)

    def _block(self, at: int) -> tuple[Kind, int, str, int]:
        """Return the kind of the block that begins at this line, the line after it, its title and its level."""
        line = self._lines[at]
        kind = self._kind(line)
        if kind is Kind.HEADING and (heading := _HEADING.match(line)):
            return kind, at + 1, plain_title(_CLOSING_MARKS.sub("", heading[2] or "")), len(heading[1])
        if kind in ITEMS:
            content = _content(line)
            mark = _fence_mark(content)
            end = self._item_end(at, mark)
            return kind, end, self._item_title(at, end, None if mark else content), 0
        if kind is Kind.FENCE:
            return kind, self._fence_end(at, _fence_mark(line)), "", 0
        if kind is Kind.RULE:
            return kind, at + 1, "", 0
        end = at + 1
        while end < len(self._lines) and self._goes_on(kind, end):
            end += 1
        return kind, end, "", 0

    def _goes_on(self, kind: Kind, at: int) -> bool:
        line = self._lines[at]
        if not line.strip():
            return False
        own = self._kind(line)
        return own is kind or (kind is Kind.PARAGRAPH and not _interrupts(line, own))

    def _fence_end(self, at: int, mark: str) -> int:
        """Return the line after a fence's closing one, which has as many marks or more; the end where there is none."""
        for number in range(at + 1, len(self._lines)):
            if mark in self._lines[number]:
                line = _FENCE.match(self._lines[number])
                if line and _closes(line, mark):
                    return number + 1
        return len(self._lines)

    def _item_end(self, at: int, mark: str) -> int:
        """Return the line after a list item: it has what is indented deeper, and lines that begin no block.

        ``mark`` opens a fence on its first line.
        """
        own, is_spaced = _indent(self._lines[at]), False
        end = number = self._fence_end(at, mark) if mark else at + 1
        while number < len(self._lines):
            line = self._lines[number]
            if not line.strip():
                number, is_spaced = number + 1, True
                continue
            if _indent(line) > own:
                mark = _fence_mark(line)
                number = self._fence_end(number, mark) if mark else number + 1
            # A line that begins no block continues the item, but not after a blank line (CommonMark 0.31, 5.2).
            elif is_spaced or self._kind(line) is not Kind.PARAGRAPH:
                break
            else:
                number += 1
            end, is_spaced = number, False
        return end

    def _item_title(self, at: int, end: int, content: str | None) -> str:
        """Return the first paragraph of a list item as one line, which ``content`` begins; None: it is all code.

        Of code it is the first line.
        """
        if content is None:
            return plain_title(self._lines[at + 1]) if at + 1 < end else ""
        words = [content]
        for line in self._lines[at + 1 : end]:
            stripped = line.strip()
            if not stripped or self._kind(stripped) is not Kind.PARAGRAPH:
                break
            words.append(stripped)
        return plain_title(" ".join(words))


def _kind(line: str) -> Kind:
    """Return what kind of block a line that is not blank would begin."""
    stripped = line.lstrip(" \t")
    first = stripped[0]
    # No mark of a block is a letter, and most lines begin with one.
    if first.isalpha():
        return Kind.PARAGRAPH
    if first in "`~" and _fence_mark(line):
        return Kind.FENCE
    return Kind.PARAGRAPH if _indent(line) > _BLOCK_INDENT else _marked_kind(line, stripped)


def _marked_kind(line: str, stripped: str) -> Kind:
    first = stripped[0]
    if first == "|":
        return Kind.TABLE
    if first == "#" and _HEADING.match(line):
        return Kind.HEADING
    if first in "-*_" and _is_rule(stripped):
        return Kind.RULE
    item = _ITEM.match(line) if first in _ITEM_BEGINS else None
    if item is None:
        return Kind.PARAGRAPH
    return Kind.STEP if item[1] else Kind.CHECK if item[2] else Kind.BULLET


def _content(line: str) -> str:
    """Return what stands behind the mark of a list item on its own line."""
    item = _ITEM.match(line)
    return (item[3] or "") if item else ""


def _interrupts(line: str, kind: Kind) -> bool:
    """Return whether a line that would begin a block of this kind ends the paragraph before it.

    A number does so only where it is the first of a list: a year may stand at the start of a line too.
    """
    return kind is not Kind.PARAGRAPH and (kind is not Kind.STEP or line.lstrip().startswith(("0", "1.", "1)")))


def _is_rule(stripped: str) -> bool:
    marks = stripped.replace(" ", "").replace("\t", "").rstrip()
    # Three or more of one mark, with spaces between them or not (CommonMark 0.31, 4.1).
    return len(marks) > 2 and not marks.strip(marks[0])


def _fence_mark(line: str) -> str:
    # Most lines have no marks, and this test is much cheaper than the pattern.
    fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
    return _opened(fence) if fence else ""


def _indent(line: str) -> int:
    margin = line[: len(line) - len(line.lstrip(" \t"))]
    return len(margin.expandtabs(_TAB)) if "\t" in margin else len(margin)
