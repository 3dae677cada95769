"""Renders several skills as one text for a model, within a shared budget."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import takewhile
from typing import Literal, NamedTuple, TypeVar

from toolcrib.base.markdown import Block, Kind, Outline, outline
from toolcrib.base.model import SkillText
from toolcrib.base.text import one_line, sanitize
from toolcrib.skills.formats.fields import facts, stated_lines
from toolcrib.skills.formats.pack import skill_body
from toolcrib.skills.text.compression import About, Size, beginning, closed, compress, cut, sealed

_T = TypeVar("_T")

_CUT = '[the rest is cut off here; skill_get with file="SKILL.md" gives all of it]'
QUARTERS = 4
"""Tokens are counted in this fraction (1/n): one character or byte."""
_LEAST_TEXT = 15
"""Number of tokens of text below which a wrapper is not worth its size: the skill is listed instead."""
_ABOUT_MAX = 1_600
"""Maximum length of a skill's purpose, and of its trigger."""
_TOOLS_WIDTHS = (300, 200, 120, 80, 40)
"""Maximum length of the line that names tools, tried in this order until it fits its share of the room."""
_FILES = (20, 12, 8, 5, 3, 1)
"""Number of named files, tried in this order."""
_TOOLS_MAX = 10
_SAID_MAX = 60
"""Number of letters of an item by which it is recognized in a body, whatever else the body says about it."""

_NOT_TO_READ = re.compile(r"(?:SKILL\.md|LICEN[CS]E[^/]*|NOTICE[^/]*|COPYING[^/]*)\Z", re.IGNORECASE)
"""Files of a skill that need not be read to use it."""
_ASCII_MARKS = bytes(code for code in range(128) if not chr(code).isalnum())
_NO_LETTERS = re.compile(r"[\W_]+")
# A tag with spaces inside counts too, because a model reads it as one; <skills> and <skill-set> are other words.
_TAG = re.compile(r"<(?=[^\S\n]*(?:/[^\S\n]*(?:skill|$)|skill(?![\w-])|$))", re.IGNORECASE | re.MULTILINE)


class Estimate:
    """Estimates the tokens of a text: a quarter of its size, rounded up (R144).

    ``size`` returns the characters or bytes of a text, plain or as JSON; it is additive.
    """

    def __init__(self, size: Size) -> None:
        self.size = size

    def __call__(self, text: str) -> int:
        """Return the estimated tokens of ``text``."""
        return tokens_of(self.size(text))


def estimator(kind: Literal["chars", "bytes"]) -> Estimate:
    """Return an estimator that counts the characters of a text, or its UTF-8 bytes."""
    return Estimate(len if kind == "chars" else _byte_count)


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def tokens_of(size: int) -> int:
    """Return the estimated tokens of a text of this size, rounded up."""
    return -(-size // QUARTERS)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One skill to render: its text, already redacted and without names of denied tools, and what is shown with it.

    ``base``: the folder that its scripts run from, where that may be told. ``files_cut`` says which limit leaves how
    many of its files out of ``files``. ``domain`` is what its author says that it is about; ``facts`` are lines that
    skills of other programs have in place of triggers and steps.
    """

    text: SkillText
    uri: str
    digest: str
    files: tuple[str, ...] = ()
    base: str = ""
    files_cut: str = ""
    domain: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    @classmethod
    def from_text(
        cls,
        text: SkillText,
        *,
        uri: str,
        digest: str,
        files: tuple[str, ...] = (),
        base: str = "",
        files_cut: str = "",
    ) -> "Sheet":
        """Return the sheet of a skill with this text."""
        domain = stated_lines(text.frontmatter, "domain")
        return cls(text, uri, digest, files, base, files_cut, domain, facts(text.frontmatter))


def inert(text: str) -> str:
    """Return ``text`` without hidden characters and without anything that could be the tag of a wrapper.

    A ``<`` at the end of a line is removed too, so that no two lines can form a tag.
    """
    return _TAG.sub("&lt;", sanitize(text))


def inert_line(text: str) -> str:
    """Return ``text`` on one line, inert."""
    return inert(one_line(text))


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))


class Page:
    """One skill to be rendered: its whole text, and that text compressed (R142). Immutable, so it can be cached.

    The last shortened form is cached too: most callers request the same budget repeatedly.
    """

    def __init__(self, sheet: Sheet, estimate: Estimate) -> None:
        self.sheet = sheet
        self._size = estimate.size
        self._about = _about(sheet)
        body, self._outline = _written(sheet)
        self._files_named = _files_by_mention(sheet.files, sheet.text.body)
        self._text = closed(self._whole(closed(body)))
        self._opening = _opening(sheet)
        size = self._size(self._text)
        self.raw_tokens = tokens_of(size)
        # The longest wrapper: the shown part of a skill has at most as many tokens, and so digits, as the whole.
        self._frame = self._size(self._wrapped("", self.raw_tokens))
        self.cost = self._frame + size
        self.least = self._frame + _LEAST_TEXT * QUARTERS
        self._last: tuple[int, str] = (0, "")

    def whole(self) -> str:
        """Return the whole skill in its wrapper, at a cost of ``cost``."""
        return self._wrapped(self._text, self.raw_tokens)

    def _wrapped(self, text: str, tokens: int) -> str:
        return f'{self._opening} tokens="{tokens}/{self.raw_tokens}">\n{text}\n</skill>'

    def line(self) -> str:
        """Return the skill as a line of a list."""
        return f"- {inert_line(self.sheet.text.name)} — {inert_line(self.sheet.uri)}"

    def shortened(self, room: int) -> str:
        """Return the skill in its wrapper, within ``room``, which is at least ``least``."""
        known_room, shown = self._last
        if room != known_room:
            # Parts that are complete on their own may open a fence between them, if one ends in the line of the next.
            text = sealed(self._short_text(room - self._frame), room - self._frame, self._size)
            shown = self._wrapped(text, tokens_of(self._size(text)))
            self._last = room, shown
        return shown

    def _whole(self, body: str) -> str:
        return _joined(*self._about, self._tools(_TOOLS_WIDTHS[0]), body, self._place(_FILES[0]))

    def _short_text(self, room: int) -> str:
        # Small shares for tools and files: most of the room is for purpose and procedure.
        tools = self._within(self._tools, _TOOLS_WIDTHS, room // 16)
        files = self._within(self._place, (*_FILES, 0), room // 8) or self._within(self._place, (0,), room // 3)
        room -= sum(self._size(f"{part}\n\n") for part in (tools, files) if part)
        about = tuple(Block(Kind.PARAGRAPH, text, is_spaced=True) for text in self._about)
        blocks = self._outline.blocks
        if about and blocks:
            blocks = (blocks[0]._replace(is_spaced=True), *blocks[1:])
        source = Outline((*about, *blocks))
        text = compress(source, room, self._size, About(len(about), frozenset(self.sheet.files)))
        return _joined(tools, text, files)

    def _within(self, make: Callable[[_T], str], limits: Iterable[_T], room: int) -> str:
        """Return the first rendered text that is within ``room``; empty if none is."""
        return next((text for text in map(make, limits) if self._size(text) <= room), "")

    def _tools(self, width: int) -> str:
        tools = [
            f"{note.tool} ({note.note})" if note.note else note.tool for note in self.sheet.text.tools[:_TOOLS_MAX]
        ]
        return f"Tools: {cut(inert_line(', '.join(tools)), width)}" if tools else ""

    def _place(self, count: int) -> str:
        """Return the folder of the skill's files, if it may be shown, and their names."""
        base = f"Base directory: {inert_line(self.sheet.base)}" if self.sheet.base else ""
        return "\n".join(filter(None, [base, self._files(count)]))

    def _files(self, count: int) -> str:
        files = self._files_named
        if not files or not count:
            return ""
        more = f"+{len(files) - count} more" if count < len(files) else ""
        left_out = "; ".join(filter(None, [more, self.sheet.files_cut]))
        named = ", ".join(map(inert_line, files[:count]))
        return f"Files (skill_get with file=PATH): {named}" + (f" ({left_out})" if left_out else "")


class RawPage(Page):
    """One skill as its author wrote it, its fields first, truncated after a block (R175)."""

    def _whole(self, body: str) -> str:
        return _joined(self._fields(), body, self._place(_FILES[0]))

    def _short_text(self, room: int) -> str:
        room -= self._size(f"{_CUT}\n\n")
        if room < 0:
            return ""
        fields = self._fields()
        if fields and self._size(f"{fields}\n\n") > room // 2:
            fields = ""
        room -= self._size(f"{fields}\n\n") if fields else 0
        return _joined(fields, beginning(self._outline, room, self._size), _CUT)

    def _fields(self) -> str:
        lists = (("Tags", self.sheet.text.tags), ("Requires", self.sheet.text.requires))
        named = [f"{name}: {inert_line(', '.join(items))}" for name, items in lists if items]
        return "\n".join(filter(None, [*self._about, *named, self._tools(_ABOUT_MAX)]))


def _opening(sheet: Sheet) -> str:
    """Return the beginning of a skill's wrapper, without its token count.

    The URI has the skill's source and name; the name is repeated only if it differs.
    """
    facts = {"name": sheet.text.name, "uri": sheet.uri, "digest": sheet.digest}
    if f"/{sheet.text.name}/" in sheet.uri:
        del facts["name"]
    attributes = " ".join(f'{name}="{escape(one_line(value))}"' for name, value in facts.items())
    return f'<skill {attributes} trust="untrusted-content"'


def _about(sheet: Sheet) -> tuple[str, ...]:
    """Return the purpose of the skill, its trigger if that is different, and facts about it."""
    about, trigger = inert_line(sheet.text.description), inert_line(sheet.text.trigger)
    parts = [about] if trigger in about or about not in trigger else []
    parts += [f"When: {trigger}"] if trigger and trigger not in about else []
    parts += ["\n".join(map(inert_line, sheet.facts))]
    return tuple(cut(part, _ABOUT_MAX) for part in parts if part)


def _files_by_mention(files: Sequence[str], body: str) -> list[str]:
    """Return the files that a reader may need, those mentioned in the text first, in its order."""
    wanted = [path for path in files if not _NOT_TO_READ.match(path)]
    places = {path: body.find(path) for path in wanted}
    return sorted(wanted, key=lambda path: (places[path] < 0, places[path]))


def _written(sheet: Sheet) -> tuple[str, Outline]:
    """Return the whole content of a skill as one Markdown text, and its blocks: the body, and what the body lacks."""
    text = sheet.text
    body = closed(inert(text.body).strip())
    said = outline(body)
    unsaid = _Unsaid(body)
    parts = replace(
        text,
        title="" if said.title else inert_line(text.title),
        body=body,
        steps=() if text.steps == said.steps else unsaid.missing(text.steps),
        preconditions=unsaid.missing(text.preconditions),
        failure_modes=unsaid.missing(text.failure_modes),
    )
    if body and not (parts.title or parts.steps or parts.preconditions or parts.failure_modes):
        return body, said
    whole = skill_body(parts)
    # The body is already parsed; only what was added around it still has to be.
    before, _, after = whole.partition(body) if body else ("", "", whole)
    return whole, Outline((*outline(before).blocks, *said.blocks, *outline(after).blocks))


class _Unsaid:
    """Determines which items a body does not contain, regardless of Markdown marks."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._letters, self._ascii_letters = "", b""

    def missing(self, items: tuple[str, ...]) -> tuple[str, ...]:
        """Return all of these items, or none if the body has half of them."""
        inert_items = tuple(map(inert, items))
        # Half of the items are enough: a body that has the list may word some of them differently.
        return () if sum(map(self._has, inert_items)) * 2 >= len(items) else inert_items

    def _has(self, item: str) -> bool:
        if item[:_SAID_MAX] in self._body:
            return True
        # Computed lazily: extracting the letters of a body is slow, unless it is ASCII.
        if item.isascii():
            self._ascii_letters = self._ascii_letters or _ascii_letters(self._body)
            return _ascii_letters(item)[:_SAID_MAX] in self._ascii_letters
        self._letters = self._letters or _letters(self._body)
        return _letters(item)[:_SAID_MAX] in self._letters


def _letters(text: str) -> str:
    """Return the letters and digits of ``text``, so that Markdown marks make no difference."""
    return _NO_LETTERS.sub("", text)


def _ascii_letters(text: str) -> bytes:
    return text.encode("ascii", "ignore").translate(None, _ASCII_MARKS)


BRIEF_TOKENS = 130
"""Maximum number of tokens of the block of one skill, including its wrapper."""

_RULE = "---"
_WIDTHS = (240, 160, 100, 60, 30)
"""Maximum length of each line above the rule, tried in this order until enough is left for the section."""
_HEAD_SHARE = 0.7
"""Maximum share of the room for the wrapper and lines."""
_SECTION_LEVEL = 2


class Brief(Page):
    """A short version of one skill. Its whole text is still counted, so that the savings can be reported."""

    def __init__(self, sheet: Sheet, estimate: Estimate) -> None:
        super().__init__(sheet, estimate)
        self._opening = f'<skill uri="{escape(one_line(sheet.uri))}" trust="untrusted-content">'
        facts = Block(Kind.PARAGRAPH, inert("\n".join(sheet.facts)))
        self._section = Outline(_first_section(self._outline.blocks) or (facts,))
        self._block = self.shortened(BRIEF_TOKENS * QUARTERS)
        self.cost = self._size(self._block)
        self.least = self._size(self._framed(self._head(_WIDTHS[-1])))

    def whole(self) -> str:
        """Return the block with as much of the section as fits."""
        return self._block

    def shortened(self, room: int) -> str:
        """Return the block within ``room``, which is at least ``least``."""
        frame = self._size(self._framed(""))
        head = self._within(self._head, _WIDTHS, int(room * _HEAD_SHARE) - frame) or self._head(_WIDTHS[-1])
        left = room - frame - self._size(f"{head}\n{_RULE}\n")
        text = compress(self._section, left, self._size) if left > 0 else ""
        return self._framed(f"{head}\n{_RULE}\n{text}" if text else head)

    def _framed(self, text: str) -> str:
        return f"{self._opening}\n{text}\n</skill>"

    def _head(self, width: int) -> str:
        """Return the lines above the rule, each within ``width`` characters."""
        sheet = self.sheet
        lines = [
            cut(f"[Skill: {inert_line(sheet.text.name)}", width) + "]",
            _line("Domain", ", ".join(sheet.domain), width),
            _line("Tools", ", ".join(note.tool for note in sheet.text.tools), width),
            _line("Triggers", sheet.text.trigger or sheet.text.description, width),
            # A truncated path is useless; the URI is always included.
            _line("Base directory", sheet.base, len(sheet.base)) if len(sheet.base) <= width else "",
        ]
        return "\n".join(filter(None, lines))


def _line(label: str, text: str, width: int) -> str:
    return f"{label}: {cut(inert_line(text), width)}" if text else ""


def _first_section(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the first level 2 section with its heading; without one, the text before any heading except a title."""
    start = next((at for at, block in enumerate(blocks) if block.level == _SECTION_LEVEL), None)
    if start is not None:
        return blocks[start : start + 1] + tuple(
            takewhile(lambda block: not 0 < block.level <= _SECTION_LEVEL, blocks[start + 1 :])
        )
    rest = blocks[1:] if blocks and blocks[0].level == 1 else blocks
    return tuple(takewhile(lambda block: block.kind is not Kind.HEADING, rest))


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
