"""The pieces of a skill's text: what each needs to be understood, what it signals, and which of them are steps."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import NamedTuple

from toolcrib.base.markdown import ITEMS, Block, Kind

_GATES = (
    *("must", "never", "do not", "don't", "always", "critical", "important", "required", "warning", "caution"),
    "**not**",
)
"""Strong if capitalized: Important announces a gate, while "important" in running text seldom does."""
_STRONG = ("must not", "must never", "mandatory", "forbidden")
_WEAK = (
    *("only after", "only if", "only when", "unless ", "cannot ", "avoid", "before you", "before any", "before every"),
    *("first ", "ask ", "confirm", "approv", "authoriz", "permission", "instead of", "read-only", "in order", "refuse"),
    "not for",
)
_SIGNS = ("⚠", "🚨", "❌", "🔴", "⛔", "禁止", "必须", "必須", "不要")
_PREFERRED = ("recommended", "prefer", "(default", "primary ")
_FALLBACK = (
    *("fallback", "fall back", "alternative", "otherwise", "deprecated", "legacy ", "optional", "(advanced", "manual"),
)
_FILES = (".md", ".py", ".sh", ".yaml", ".yml", ".json", ".js", ".mjs", ".ts", ".txt", ".html", ".toml", ".csv", ".ps1")
_FOLDERS = frozenset(
    (
        *("references", "reference", "scripts", "script", "assets", "templates", "template", "resources", "examples"),
        *("rules", "docs", "tools", "checklists", "workflows", "prompts", "agents", "guides", "concepts", "schemas"),
        *("patterns", "playbooks", "commands", "modules", "lib", "data", "fixtures", "snippets", "troubleshooting"),
    )
)
"""Usual names of the folders of a skill."""
_STRENGTH = 2
_PATH_MAX = 200


@dataclass(slots=True)
class Signals:
    """For pieces with such signals: the strength of gates (1 or 2) and their position, preferences, files."""

    gates: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """By piece: the strength, and the position of the first such word in it."""
    preferred: dict[int, int] = field(default_factory=dict[int, int])
    """By piece: 1 for what is recommended over something else, -1 for that alternative."""
    routes: dict[int, int] = field(default_factory=dict[int, int])
    """By piece: the position of the first path of a file of the skill; each file only at its first mention."""


def read_signals(texts: Sequence[str], files: frozenset[str]) -> Signals:
    """Return the signals in these texts; ``files`` are the paths of the skill's known files."""
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    # Found by plain search in one joined text, many times faster than a pattern on each piece, and faster again if each
    # character is one byte.
    text = "\n".join(texts)
    whole = text.encode("latin-1", "replace").decode("latin-1")
    lowered = whole.lower()
    signals = Signals()

    def add(at: int, strength: int) -> None:
        index = bisect_right(starts, at) - 1
        known, place = signals.gates.get(index, (0, at))
        signals.gates[index] = (strength, at - starts[index]) if strength > known else (known, place)

    for at in _spots(lowered, _GATES):
        add(at, 1 if whole[at].islower() else _STRENGTH)
    for at in (*_spots(lowered, _STRONG), *_spots(text, () if text.isascii() else _SIGNS)):
        add(at, _STRENGTH)
    for at in _spots(lowered, _WEAK):
        add(at, 1)
    for sign, words in ((1, _PREFERRED), (-1, _FALLBACK)):
        for at in _spots(lowered, words):
            signals.preferred.setdefault(bisect_right(starts, at) - 1, sign)
    seen: set[str] = set()
    for at, path in sorted(_paths(whole)):
        index = bisect_right(starts, at) - 1
        if path not in seen and _is_own(path, whole[at - 2 : at], files):
            seen.add(path)
            signals.routes.setdefault(index, at - starts[index])
    return signals


def _spots(text: str, words: Sequence[str]) -> Iterator[int]:
    """Yield the positions of ``words``, except inside other words."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            if not (word[0].isascii() and text[at - 1 : at].isalnum()):
                yield at
            at = text.find(word, at + len(word))


def _paths(text: str) -> Iterator[tuple[int, str]]:
    """Yield the positions and texts of file paths, recognized by file name suffixes."""
    for end in _FILES:
        at = text.find(end)
        while at >= 0:
            stop = at + len(end)
            if not (text[stop : stop + 1].isalnum() or text[stop : stop + 1] in ("_", "-")):
                start = at
                while start > 0 and at - start < _PATH_MAX and (text[start - 1].isalnum() or text[start - 1] in "_-./"):
                    start -= 1
                path = text[start:stop]
                while path.startswith("./"):
                    start, path = start + 2, path[2:]
                if start < at:
                    yield start, path
            at = text.find(end, stop)


def _is_own(path: str, before: str, files: frozenset[str]) -> bool:
    """Return whether ``path`` is a file of the skill: a known one, or one written like such a file."""
    if path in files:
        return True
    if path.startswith(("/", "../", "~")) or ".." in path or "//" in path:
        return False
    folder, _, name = path.rpartition("/")
    if folder:
        return folder.split("/", 1)[0] in _FOLDERS
    # A bare name is a route if it is the target of a link, or in capitals, like README.
    stem = name.rpartition(".")[0]
    return before.endswith("(") or (name.endswith(".md") and stem.isupper() and stem not in ("SKILL", "README"))


# -- pieces and what they need ---------------------------------------------------------------------

LEVEL_MAX = 6
"""The level of the deepest heading."""

_WHOLE_MAX = 140
"""Maximum length of a paragraph or item that is not split into sentences."""
_LEAD_MAX = 160
"""Maximum length of a line that introduces what follows; a longer one is a paragraph."""
_TITLE_MAX = 50
"""Maximum length of a line other than a heading that may state the topic of a section."""
_PIECES_MAX = 1_500
"""Maximum number of pieces of a text; the rest stays in whole blocks."""

_ONE_LINE = 2
"""Line ends in a fence of one line."""

# Bold lines rank below every heading, lines that end with a colon below these, and what both introduce below all.
_BOLD_DEPTH, _COLON_DEPTH, _ITEM_DEPTH, _TEXT_DEPTH = 10, 11, 12, 13

_LOOSE = ((Kind.PARAGRAPH,), (Kind.PARAGRAPH, Kind.TABLE))
"""Kinds of blocks whose later parts do not need the first; in dense mode, table rows do not either."""

BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
"""Bold words within a line."""
# A sentence ends before a capital, a digit or a mark, not after "e.g." and "i.e."; the mark is tried first, because it
# rules out most positions.
_SENTENCE = re.compile(r"[.!?](?<!e\.g\.)(?<!i\.e\.)(?<!\bvs\.)(?<!\d\.)[*_`\"')\]]{0,4}(\s+)(?=[^\sa-z])")
_WIDE_SENTENCE = re.compile(r"[\u3002\uff01\uff1f](\s*)(?=\S)")
"""The end of a Chinese or Japanese sentence, which is not followed by a space."""
_LINK = re.compile(r"\[([^\[\]]+)\]\(https?://[^()\s]{24,}\)")
_OWN_WORDS = 24
"""Number of characters besides links from which a piece does not need their long addresses."""
_NESTED = re.compile(r"\s*(?:[-*+]\s|\d{1,9}[.)]\s|`{3}|~{3}|\||>)")
_DELIMITER = re.compile(r"[\s|:-]+\Z")


class Topic(IntEnum):
    """The topic of a section, according to its heading."""

    NONE = 0
    WARNINGS = 1
    NEEDS = 2
    EXAMPLES = 3
    BACKGROUND = 4


# In order of precedence: "Common installation mistakes" is about warnings, not about needs. Searched as plain text,
# which takes a fraction of the time of patterns.
_TOPICS = (
    (
        Topic.WARNINGS,
        *("pitfall", "gotcha", "troubleshoot", "mistake", "common error", "common issue", "common problem", "safety"),
        *("common failure", "antipattern", "anti-pattern", "caveat", "limitation", "never", "don't", "don\u2019t"),
        *("avoid", "red flag", "guardrail", "critical", "important", "hard rule", "constraint", "failure mode"),
        *("known issue", "must do", "must not do"),
    ),
    (
        Topic.NEEDS,
        *("prerequisite", "precondition", "requirements", "required", "before you", "before start", "before begin"),
        *("setup", "set up", "install", "dependencies", "authenticat"),
    ),
    (Topic.EXAMPLES, "example", "sample", "demo", "case stud"),
    (
        Topic.BACKGROUND,
        *("when to use", "when to apply", "when to activate", "when not to", "overview", "history", "introduction"),
        *("background", "purpose", "why", "rationale", "philosophy", "changelog", "license", "licence", "credits"),
        *("related skills", "further reading", "metadata", "audience", "scope"),
    ),
)
_EDGES = ("template", "templates")
"""Words that mark a section of examples if its title begins or ends with one: others merely mention templates."""


class Piece(NamedTuple):
    """One piece: its source, its separator from the previous one, and the number of its block.

    ``is_part``: it continues the block's first piece, and is not shown without that one in an item.
    """

    kind: Kind
    text: str
    separator: str
    block: int
    is_part: bool = False


class Layout:
    """The pieces of a text, each with the piece that it needs, its heading and its topic.

    A needed piece precedes; -1 if there is none. It is the heading, the line that introduces a list, the item that
    contains a nested block, or the head of a table.
    """

    def __init__(self, blocks: Sequence[Block], *, is_dense: bool = False) -> None:
        self.blocks = [block for block in blocks if not _is_decoration(block)]
        self.is_dense = is_dense
        self.gap = "…" if is_dense else "[…]"
        self.pieces: list[Piece] = []
        self.needs: list[int] = []
        self.sections: list[int] = []
        self.topics: list[Topic] = []
        self.first_of: list[int] = []
        """The first piece of each block."""
        path: list[tuple[int, int]] = []
        section = -1
        for number, block in enumerate(self.blocks):
            first = len(self.pieces)
            self.first_of.append(first)
            made = _cut(block, number) if first < _PIECES_MAX else [_whole(block, number)]
            if "](http" in block.text and block.kind is not Kind.FENCE:
                made = list(map(_without_addresses, made))
            self.pieces.extend(map(_dense, made) if is_dense else made)
            depth, introduces = _depth(block, self.pieces[-1])
            while path and path[-1][0] >= depth:
                path.pop()
            needed = path[-1][1] if path else -1
            if block.kind is Kind.HEADING:
                section = first
            topic = self.topics[needed] if path else Topic.NONE
            if introduces:
                topic = _topic(block) or topic
            for index in range(first, len(self.pieces)):
                is_nested = self.pieces[index].is_part and block.kind not in _LOOSE[is_dense]
                # In dense mode, a heading is shown without those above it.
                self.needs.append(
                    first if is_nested else -1 if is_dense and introduces and depth <= LEVEL_MAX else needed
                )
                self.sections.append(section)
                self.topics.append(topic)
            # A heading of level 1 is the title of the whole text: pieces can be shown without it.
            if introduces and depth > 1:
                path.append((depth, len(self.pieces) - 1 if block.kind is Kind.PARAGRAPH else first))

    def is_head(self, index: int) -> bool:
        """Return whether a piece is the first of several of its block."""
        pieces = self.pieces
        return not pieces[index].is_part and index + 1 < len(pieces) and pieces[index + 1].is_part


def _is_decoration(block: Block) -> bool:
    """Return whether a block has no content: a rule, or a paragraph that begins with a picture."""
    return block.kind is Kind.RULE or (block.kind is Kind.PARAGRAPH and block.text.startswith(("![", "[![")))


def _whole(block: Block, number: int) -> Piece:
    return Piece(block.kind, block.text, "\n\n" if block.is_spaced else "\n", number)


def _cut(block: Block, number: int) -> list[Piece]:
    """Return the pieces of a block, whose concatenation is its source."""
    if block.kind is Kind.TABLE:
        parts = _rows(block.text)
    elif block.kind is Kind.PARAGRAPH and len(block.text) > _WHOLE_MAX:
        parts = _sentences(block.text)
    elif block.kind in ITEMS and (len(block.text) > _WHOLE_MAX or "\n" in block.text):
        parts = _parts_of_item(block.text)
    else:
        return [_whole(block, number)]
    pieces: list[Piece] = []
    separator, is_part = "\n\n" if block.is_spaced else "\n", False
    for text, after in parts:
        pieces.append(Piece(block.kind, text, separator, number, is_part))
        separator, is_part = after, True
    return pieces


def _without_addresses(piece: Piece) -> Piece:
    """Return a piece with links reduced to their text, unless that is all it contains."""
    if len(_LINK.sub("", piece.text)) < _OWN_WORDS:
        return piece
    return piece._replace(text=_LINK.sub(r"\1", piece.text))


def _dense(piece: Piece) -> Piece:
    """Return a piece without surrounding blank lines, row padding, or the fence of a single line of code."""
    text = piece.text
    if piece.kind is Kind.TABLE and piece.is_part:
        text = " | ".join(" ".join(cell.split()) for cell in text.strip(" |").split("|"))
    elif (
        piece.kind is Kind.FENCE and text.count("\n") == _ONE_LINE and "`" not in (line := text.split("\n")[1].strip())
    ):
        text = f"`{line}`"
    return piece._replace(text=text, separator="\n" if piece.separator == "\n\n" else piece.separator)


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yield each sentence with the white space after it."""
    start = 0
    for end in (_WIDE_SENTENCE if "\u3002" in text else _SENTENCE).finditer(text):
        yield text[start : end.start(1)], end[1]
        start = end.end()
    yield text[start:], ""


def _rows(text: str) -> Iterator[tuple[str, str]]:
    """Yield the head of a table with its delimiter row, then each row."""
    rows = text.split("\n")
    if len(rows) > 1 and _DELIMITER.match(rows[1]):
        rows[:2] = ["\n".join(rows[:2])]
    for row in rows:
        yield row, "\n"


def _parts_of_item(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences of an item's first paragraph, then its nested content, each nested item separately."""
    lines = text.split("\n")
    own = next((at for at in range(1, len(lines)) if not lines[at].strip() or _NESTED.match(lines[at])), len(lines))
    nested = list(_nested(lines, own))
    head = list(_sentences("\n".join(lines[:own])))
    if nested:
        head[-1] = head[-1][0], "\n\n" if not lines[own].strip() else "\n"
    yield from head
    for place, (start, end) in enumerate(nested):
        after = "\n\n" if place + 1 < len(nested) and nested[place + 1][0] > end else "\n"
        yield "\n".join(lines[start:end]), after


def _nested(lines: Sequence[str], start: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part nested in an item: an item with its content, code, or a paragraph."""
    at = start
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        end, margin = at + 1, _margin(lines[at])
        if lines[at].lstrip().startswith(("```", "~~~")):
            marks = lines[at].strip()[:3]
            while end < len(lines) and not lines[end].lstrip().startswith(marks):
                end += 1
            end = min(end + 1, len(lines))
        else:
            while (
                end < len(lines)
                and lines[end].strip()
                and (_margin(lines[end]) > margin or not _NESTED.match(lines[end]))
            ):
                end += 1
        yield at, end
        at = end


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _depth(block: Block, last: Piece) -> tuple[int, bool]:
    """Return the depth of a block, and whether it introduces what follows; ``last`` is its last piece.

    Headings have their level, 1 to 6; a bold line is deeper than any heading and introduces other paragraphs.
    """
    if block.kind is Kind.HEADING:
        return block.level, True
    if block.kind in ITEMS:
        return _ITEM_DEPTH, _introduces(last.text)
    if block.kind is not Kind.PARAGRAPH:
        return _TEXT_DEPTH, False
    text = block.text.strip()
    # A bold line that ends like a sentence is a statement of its own and introduces nothing.
    is_line = len(text) <= _LEAD_MAX and "\n" not in text
    if is_line and BOLD.fullmatch(text.rstrip(":")) and not text.endswith((".**", "!**")):
        return _BOLD_DEPTH, True
    return _COLON_DEPTH, _introduces(last.text)


def _introduces(text: str) -> bool:
    # The second mark is the colon of Chinese and Japanese texts.
    return len(text) <= _LEAD_MAX and text.rstrip().rstrip("*").endswith((":", "\uff1a"))


def _topic(block: Block) -> Topic:
    """Return the topic that a heading or short line states; an introductory sentence states none."""
    title = block.title or block.text
    if not block.level and len(title) > _TITLE_MAX:
        return Topic.NONE
    lowered = title.lower()
    for topic, *words in _TOPICS:
        for word in words:  # any() would create a generator for each topic of each heading
            if word in lowered:
                return topic
    edges = lowered.strip(" #*:.")
    return Topic.EXAMPLES if edges.startswith(_EDGES) or edges.endswith(_EDGES) else Topic.NONE


# -- the procedure ---------------------------------------------------------------------------------

_LEAST = 2
"""Minimum number of steps of a procedure."""
_LONG = 9
_PHASED = re.compile(r"(?:step|phase|stage|mode)\s*\d", re.IGNORECASE)
_COUNTED = re.compile(r"\d{1,2}(?:[.):]|\s*[\u2013\u2014-]\s)")
_NAMED = re.compile(
    r"work ?flow|process|procedure|\bsteps?\b|instruction|methodology|how (?:it works|to use|to)|quick ?start"
    r"|getting started|protocol|pipeline|execut|implement|\bloop\b|\border\b|\brun\b|first checks|usage|approach"
    r"|what to do|\btask|phases?\b|the method|playbook|runbook|\bplan\b",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"best practice|\btips?\b|example|\boutput|template|troubleshoot|\bfaq\b|success criteria|principle|\bnotes?\b"
    r"|related|reference|limitation|anti-?pattern|deliver|mistake|pitfall|checklist|guideline|question|dimension"
    r"|metric|criteria|concept|requirement|issue|hierarchy|when to|report|format|structure|sections|gotcha|rules",
    re.IGNORECASE,
)


def procedure(layout: Layout) -> list[int]:
    """Return the blocks that are the steps of the procedure, in order; none if nothing looks like one.

    Numbered headings and runs of numbered items are ranked by the heading above them, by position and by their share of
    the text.
    """
    best: list[int] = []
    weight = 0.0
    for steps in (*_headings(layout.blocks), *_items(layout)):
        own = _weight(layout, steps)
        if own > weight:
            best, weight = steps, own
    return best


def _headings(blocks: Sequence[Block]) -> list[list[int]]:
    """Return series of numbered headings of one level, separated by their parent headings."""
    series: list[list[int]] = []
    current: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        if block.kind is not Kind.HEADING:
            continue
        current = {level: steps for level, steps in current.items() if level <= block.level}
        if block.level > 1 and (_PHASED.match(block.title) or _COUNTED.match(block.title)):
            if block.level not in current:
                current[block.level] = []
                series.append(current[block.level])
            current[block.level].append(number)
        else:
            current.pop(block.level, None)
    return [steps for steps in series if len(steps) >= _LEAST]


def _items(layout: Layout) -> list[list[int]]:
    """Return runs of numbered items that need the same piece, regardless of what is between them."""
    runs: list[list[int]] = []
    current: dict[tuple[int, int], list[int]] = {}
    for number, block in enumerate(layout.blocks):
        if block.kind is not Kind.STEP:
            continue
        first = layout.first_of[number]
        place = layout.sections[first], layout.needs[first]
        # A list that restarts is another one.
        if place not in current or block.text.lstrip().startswith(("1.", "1)")):
            runs.append([])
            current[place] = runs[-1]
        current[place].append(number)
    return [steps for steps in runs if len(steps) >= _LEAST]


def _weight(layout: Layout, steps: Sequence[int]) -> float:
    blocks = layout.blocks
    first = layout.first_of[steps[0]]
    topic = layout.topics[first]
    titles = _titles_over(layout, first)
    weight = 1.5
    if blocks[steps[0]].kind is Kind.HEADING:
        weight += 4 if _PHASED.match(blocks[steps[0]].title) else 0.5
    weight += 3 * bool(_NAMED.search(titles)) - 3 * bool(_OTHER.search(titles))
    weight -= 2 if topic in (Topic.EXAMPLES, Topic.BACKGROUND, Topic.WARNINGS) else 0
    weight -= 1.5 * steps[0] / len(blocks)
    return weight + min(len(steps), _LONG) / 6


def _titles_over(layout: Layout, index: int) -> str:
    """Return the nearest heading above a piece, and the line that introduces it."""
    named = [layout.sections[index], layout.needs[index]]
    if layout.pieces[index].kind is Kind.HEADING:
        named = [layout.needs[index]]
    blocks = {layout.pieces[each].block for each in named if each >= 0}
    return " ".join(layout.blocks[block].title or layout.blocks[block].text for block in blocks)
