"""The summary of a skill before a task: its name, purpose and first section (R197).

Knows which lines a summary has, and how it stays within its tokens; never knows which skills fit a task.
"""

from html import escape
from itertools import takewhile

from toolcrib.base.markdown import Block, Kind, Outline
from toolcrib.base.text import one_line
from toolcrib.skills.text.compression import compress
from toolcrib.skills.text.rendering import QUARTERS, Estimate, Page, Sheet, inert, inert_line
from toolcrib.skills.text.selection import cut

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
            cut(f"[Skill: {inert_line(sheet.name)}", width) + "]",
            _line("Domain", ", ".join(sheet.domain), width),
            _line("Tools", ", ".join(note.tool for note in sheet.tools), width),
            _line("Triggers", sheet.trigger or sheet.description, width),
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
