"""A Markdown text shortened to what matters most: steps, warnings, prerequisites, commands, then all else in order.

Knows blocks, their weight and the room there is; never knows a skill's name, its wrapper or tokens.
Blocks stay in the order of the text and are whole or absent; only a step may be shown by its title alone, and
``[…]`` marks every place where something is missing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum

from toolcrib.base.text import split_summary
from toolcrib.formats.markdown import Block, Kind, Outline, fences

GAP = "[…]"
Size = Callable[[str], int]
"""Measures a text; the size of two texts together is the sum of theirs."""

_FIRST_WIDTH = 120
"""Below this width a step is shown by its bold words, where it begins with some."""
# Longer titles may take a smaller share: warnings, prerequisites and commands need room beside them.
_TITLES = ((200, 0.6), (120, 0.7), (80, 0.8), (50, 1.0))
"""Characters of a step's title, and the share of the room for all titles; the first with which all fit is taken."""
_SHORT_MAX = 700
"""Characters of a block that counts as a warning, a prerequisite or a command, and not as a long read."""
_FIRST_MAX = 400
"""Characters of the first block under a heading that is shown before other text."""
_LEAD_MAX = 160
"""Characters of a line that introduces what follows; a longer one is a paragraph of its own."""
_BARE_MAX = 200
"""Characters of a fence without a language that may still be a command, and not a picture or a text."""
_SHELLS = ("bash", "sh", "shell", "zsh", "console", "powershell", "ps1", "cmd", "bat")

# The box of a task list belongs to the mark, so that a step shown by its title keeps it.
_MARKER = re.compile(r"\s*(?:\d{1,9}[.)]|[-*+])[ \t]+(?:\[[ xX]\][ \t]+)?")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
# Case counts: REQUIRED and Important announce a warning, while "required" in running text seldom does.
_WARNING = re.compile(
    r"\b(?:MUST|NEVER|ALWAYS|DO NOT|DON['\u2019]T|IMPORTANT|CRITICAL|WARNING|CAUTION|REQUIRED|MANDATORY|FORBIDDEN"
    r"|Never|Always|Do not|Do NOT|do NOT|do not|Don['\u2019]t|must not|must never|Important|Warning|Caution|Critical)\b"
    r"|⚠|🚨|❌|🔴|禁止|必须|必須|不要"
)


class _Topic(IntEnum):
    """What a section is about, as its heading tells."""

    NONE = 0
    WARNINGS = 1
    NEEDS = 2
    EXAMPLES = 3
    BACKGROUND = 4


# In order of precedence: "Common installation mistakes" is about warnings, not about needs.
_TOPICS = (
    (
        re.compile(
            r"pitfall|gotcha|troubleshoot|mistake|common (?:error|issue|problem|failure)|anti-?pattern|caveat"
            r"|limitation|\bnever\b|\bdon['\u2019]ts?\b|\bavoid|red flag|guardrail|safety|\bcritical\b|\bimportant\b"
            r"|hard rule|constraint|failure mode|known issue",
            re.IGNORECASE,
        ),
        _Topic.WARNINGS,
    ),
    (
        re.compile(
            r"prerequisite|precondition|requirements\b|\brequired\b|before (?:you )?(?:start|begin)|\bset ?up\b"
            r"|\binstall|\bdependencies\b|\bauthenticat",
            re.IGNORECASE,
        ),
        _Topic.NEEDS,
    ),
    (re.compile(r"\bexamples?\b|\bsamples?\b|\bdemos?\b|\btemplates?\b|\bcase stud", re.IGNORECASE), _Topic.EXAMPLES),
    (
        re.compile(
            r"\bwhen (?:not )?to (?:use|apply)|\boverview\b|\bhistory\b|\bintroduction\b|\bbackground\b|\bpurpose\b"
            r"|\bwhy\b|\brationale\b|philosophy|\bchangelog\b|\blicen[cs]e\b|\bcredits\b|related skills"
            r"|further reading",
            re.IGNORECASE,
        ),
        _Topic.BACKGROUND,
    ),
)


def compress(source: Outline, room: int, size: Size) -> str:
    """Return what fits of ``source`` into ``room``, measured by ``size``: the most important, in its order (R142).

    Steps come first, each at least by its title, then warnings, prerequisites, commands and the headings of what is
    left; then the steps in full, the remaining sections in order, and examples, tables and long code last.
    """
    layout = _Layout([block for block in source.blocks if not _is_decoration(block)])
    steps = _steps(layout.blocks, source.steps)
    selection = _Selection(layout, room, size)
    _take_titles(layout, selection, steps)
    for indexes, share in _passes(layout, steps):
        selection.take(indexes, share)
    selection.fill(_remaining(layout))
    # Headings under which nothing is shown come last: they still say what was left out.
    selection.fill(index for index, block in enumerate(layout.blocks) if block.kind is Kind.HEADING)
    return selection.text()


def beginning(source: Outline, room: int, size: Size) -> str:
    """Return as many whole blocks as fit into ``room``, from the start."""
    shown: list[str] = []
    for block in source.blocks:
        text = _separator(block) + closed(block.text)
        room -= size(text)
        if room < 0:
            break
        shown.append(text)
    return "".join(shown).lstrip("\n")


def cut(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` characters, cut between words and ending in an ellipsis.

    Only what has no space for long, such as Chinese, is cut anywhere.
    """
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return (head[:space] if space > limit // 4 else head).rstrip(" ,.;:(") + "…"


def closed(text: str) -> str:
    """Return ``text`` with a fence that it leaves open closed at its end."""
    # Most texts have no fence, and this test is much cheaper than looking for one.
    if "```" not in text and "~~~" not in text:
        return text
    left_open = next((fence.marks for fence in fences(text) if not fence.is_closed), "")
    return f"{text}\n{left_open}" if left_open else text


class _Layout:
    """The blocks; of each the block it needs (its heading, or the line that introduces it) and its topic."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self.needs: list[int] = []
        self.topics: list[_Topic] = []
        path: list[tuple[int, int]] = []
        for index, block in enumerate(blocks):
            depth, introduces = _depth(block)
            while path and path[-1][0] >= depth:
                path.pop()
            needed = path[-1][1] if path else -1
            topic = self.topics[needed] if path else _Topic.NONE
            self.needs.append(needed)
            self.topics.append((_topic(block) or topic) if introduces else topic)
            # A heading of level 1 is the title of the whole text: a block can be shown without it.
            if introduces and depth > 1:
                path.append((depth, index))

    def texts(self) -> list[int]:
        """Return the blocks that introduce no others; headings and such lines come with what they introduce."""
        introducing = set(self.needs)
        return [
            index
            for index, block in enumerate(self.blocks)
            if block.kind is not Kind.HEADING and (index not in introducing or _WARNING.search(block.text))
        ]


def _depth(block: Block) -> tuple[int, bool]:
    """Return how deep in the text a block lies, and whether it introduces what follows.

    Headings have their level, 1 to 6; a line in bold is deeper than any heading and introduces other paragraphs.
    """
    if block.kind is Kind.HEADING:
        return block.level, True
    if block.kind is not Kind.PARAGRAPH:
        return 12, False
    text = block.text.strip()
    if len(text) > _LEAD_MAX or "\n" in text:
        return 11, False
    # A line in bold that ends like a sentence is a statement of its own and introduces nothing.
    if _BOLD.fullmatch(text.rstrip(":")) and not text.endswith((".**", "!**")):
        return 10, True
    # The second mark is the colon of Chinese and Japanese texts.
    return 11, text.rstrip("*").endswith((":", "\uff1a"))


def _topic(block: Block) -> _Topic:
    title = block.title or block.text
    return next((topic for pattern, topic in _TOPICS if pattern.search(title)), _Topic.NONE)


def _is_decoration(block: Block) -> bool:
    """Return whether a block has no content: a rule, or a paragraph that begins with a picture."""
    return block.kind is Kind.RULE or (block.kind is Kind.PARAGRAPH and block.text.startswith(("![", "[![")))


def _separator(block: Block) -> str:
    return "\n\n" if block.is_spaced else "\n"


class _Selection:
    """What is shown of each block, and the room left, in which the marks for gaps are counted."""

    def __init__(self, layout: _Layout, room: int, size: Size) -> None:
        self.blocks, self._needs, self._size = layout.blocks, layout.needs, size
        self._gap = size(f"\n{GAP}")
        # While nothing is shown the whole text is one gap.
        self._room = room - self._gap
        self._note = ""
        self.clear()

    def clear(self) -> None:
        """Show nothing."""
        self._shown: list[str | None] = [None] * len(self.blocks)
        self.left = self._room - self._size(self._note)

    def take(self, indexes: Iterable[int], share: float, width: int = 0) -> None:
        """Show blocks in this order, each that fits, in this share of the room left; with a width, by their titles."""
        limit = self.left * share
        for index in indexes:
            # A block that is shown may split a gap in two, so less room than a mark takes holds nothing.
            if limit <= self._gap:
                return
            block = self.blocks[index]
            limit -= self._add(index, _title(block, width) if width else closed(block.text), limit)

    def fill(self, indexes: Iterable[int]) -> None:
        """Show blocks in this order, of each section as many as fit from its start, and none after a missing one."""
        full: set[int] = set()
        for index in indexes:
            if self.left <= self._gap:
                return
            parent = self._needs[index]
            if self._shown[index] is None and parent not in full:
                self._add(index, closed(self.blocks[index].text), self.left)
                if self._shown[index] is None:
                    full.add(parent)

    def _add(self, index: int, text: str, limit: float) -> int:
        """Show ``text`` for a block, and what it needs, unless that costs more than the limit; return the cost."""
        old = self._shown[index]
        if old is not None:
            cost = self._size(text) - self._size(old) if text != old else 0
            if cost > limit:
                return 0
            self._shown[index] = text
            self.left -= cost
            return cost
        added: list[int] = []
        cost = 0
        # The headings and lines that a block needs are shown with it, so their size counts in the same step.
        while index >= 0 and self._shown[index] is None:
            block = self.blocks[index]
            shown = closed(block.text) if added else text
            cost += self._size(_separator(block) + shown) + self._gap * self._more_gaps(index)
            self._shown[index] = shown
            added.append(index)
            index = self._needs[index]
        if cost > limit:
            # The cost of gaps depends on what is shown, so the blocks were shown first and are hidden again.
            for each in added:
                self._shown[each] = None
            return 0
        self.left -= cost
        return cost

    def _more_gaps(self, index: int) -> int:
        """Return by how many the gaps grow when this block is shown: by one, by none, or by one less."""
        before = index > 0 and self._shown[index - 1] is None
        after = index + 1 < len(self._shown) and self._shown[index + 1] is None
        return before + after - 1

    def missing(self, indexes: Iterable[int]) -> int:
        """Return how many of these blocks are not shown."""
        return sum(self._shown[index] is None for index in indexes)

    def note(self, text: str) -> None:
        """Have the text end with this line."""
        self._note = f"\n{text}"

    def text(self) -> str:
        """Return the text as selected."""
        parts: list[str] = []
        after_heading = in_gap = False
        for block, shown in zip(self.blocks, self._shown, strict=True):
            if shown is not None:
                parts.append(_separator(block) + shown)
                after_heading = block.kind is Kind.HEADING
            elif not in_gap:
                parts.append(f" {GAP}" if after_heading else f"\n{GAP}")
            in_gap = shown is None
        return ("".join(parts) + self._note).lstrip("\n")


def _steps(blocks: Sequence[Block], titles: Sequence[str]) -> list[int]:
    """Return which blocks are the steps with these titles."""
    found: list[int] = []
    for index, block in enumerate(blocks):
        if len(found) < len(titles) and block.title == titles[len(found)]:
            found.append(index)
    return found


def _take_titles(layout: _Layout, selection: _Selection, steps: Sequence[int]) -> None:
    """Show all steps by their titles, shortened until there is room for all; if there is none, as many as fit."""
    # Where not all fit, steps of examples and of deeper headings are the ones to do without.
    ordered = sorted(steps, key=lambda index: (layout.topics[index] is _Topic.EXAMPLES, layout.blocks[index].level))
    for width, share in _TITLES:
        selection.take(ordered, share, width)
        if not selection.missing(ordered):
            return
        selection.clear()
    selection.note(f"[… not all of the {len(ordered)} steps: for the others there is no room]")
    selection.clear()
    selection.take(ordered, 1, _TITLES[-1][0])


def _title(block: Block, width: int) -> str:
    """Return a step in short if that is less: its number or box, and its first sentence or its bold words."""
    marker = _MARKER.match(block.text)
    whole = closed(block.text)
    if block.kind is Kind.HEADING or marker is None:
        return whole
    bold = _BOLD.match(block.text, marker.end()) if width < _FIRST_WIDTH else None
    title = cut(bold[1] if bold else split_summary(block.title)[0], width)
    short = f"{marker[0].strip()} {title}{'' if title.endswith('…') else f' {GAP}'}"
    return short if len(short) < len(whole) else whole


def _passes(layout: _Layout, steps: Sequence[int]) -> Iterator[tuple[Sequence[int], float]]:
    """Yield which blocks to show first, and which share of the room left they may take."""
    blocks, topics = layout.blocks, layout.topics
    headings = [index for index, block in enumerate(blocks) if block.kind is Kind.HEADING]
    short = [index for index in layout.texts() if len(blocks[index].text) <= _SHORT_MAX]
    # Tables are mostly for reference, except under a heading about warnings or prerequisites.
    words = [
        index
        for index in short
        if blocks[index].kind is not Kind.FENCE
        and (blocks[index].kind is not Kind.TABLE or topics[index] in (_Topic.WARNINGS, _Topic.NEEDS))
    ]
    if steps and blocks[steps[0]].kind is Kind.HEADING:
        # A heading alone says little of what to do, so the first lines under each come before other text.
        firsts = {index + 1 for index in headings}
        yield [index for index in words if index in firsts and _is_first(blocks[index], topics[index])], 0.35
    yield [index for index in words if topics[index] is _Topic.WARNINGS or _WARNING.search(blocks[index].text)], 0.35
    yield [index for index in words if topics[index] is _Topic.NEEDS], 0.25
    yield [index for index in _first_code(layout) if _is_command(blocks[index])], 0.35
    yield [index for index in headings if blocks[index].level <= 2], 0.4
    yield steps, 0.8


def _remaining(layout: _Layout) -> list[int]:
    """Return all that is no heading, in the order in which to fill what room is left."""
    code = set(_first_code(layout))

    def rank(index: int) -> int:
        block, topic = layout.blocks[index], layout.topics[index]
        is_long = block.kind is Kind.TABLE and len(block.text) > _SHORT_MAX
        if topic is _Topic.EXAMPLES or is_long or (block.kind is Kind.FENCE and index not in code):
            return 2
        return int(topic is _Topic.BACKGROUND)

    return sorted(layout.texts(), key=rank)


def _is_first(block: Block, topic: _Topic) -> bool:
    return len(block.text) <= _FIRST_MAX and topic is not _Topic.BACKGROUND


def _first_code(layout: _Layout) -> list[int]:
    """Return the first fence under each heading or line that introduces one, if it is short and no example."""
    found: dict[int, int] = {}
    for index, block in enumerate(layout.blocks):
        if block.kind is Kind.FENCE and layout.topics[index] is not _Topic.EXAMPLES and len(block.text) <= _SHORT_MAX:
            found.setdefault(layout.needs[index], index)
    return list(found.values())


def _is_command(fence: Block) -> bool:
    language = fence.text.partition("\n")[0].strip().strip("`~").strip().partition(" ")[0].lower()
    return language in _SHELLS or (not language and len(fence.text) <= _BARE_MAX)
