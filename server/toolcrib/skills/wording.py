"""The texts of skills as one kind of caller may search them: without names of denied tools.

Knows the fields of a skill that are searched, and what is left of them; never knows sessions, or how skills are shown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolcrib.base.text import words
from toolcrib.search.inverted import Worded
from toolcrib.search.stemming import stem
from toolcrib.skills.index.skill_index import SkillIndex
from toolcrib.skills.index.visible import VisibleSkills
from toolcrib.tools.mentions import ToolMentions

Stems = Mapping[str, int]
Candidates = Mapping[str, int]
"""What may be the name of a tool in one field, with how often it stands there."""


@dataclass(frozen=True, slots=True)
class SearchedSkills:
    """Visible skills as callers search them. ``mentions`` knows what is denied to them; None: nothing is.

    Two instances of the same skills for the same callers are equal. Every method raises StoreError if the index cannot
    be read.
    """

    visible: VisibleSkills
    index: SkillIndex
    mentions: ToolMentions | None = None

    @property
    def in_order(self) -> tuple[int, ...]:
        """The row of each skill."""
        return self.visible.in_order

    def versions(self) -> list[None]:
        """Return None for each: the stems of skills are stored already, so no counts are shared with other sets."""
        return [None] * len(self.in_order)

    def words(self, rows: Iterable[int]) -> dict[int, Worded]:
        """Return the stems of each field with their counts, by row."""
        found = self.index.stems(rows)
        for row, candidates in self._naming_denied(found).items():
            found[row] = tuple(map(self._without, found[row], candidates))
        return {row: Worded(stems) for row, stems in found.items()}

    def stored(self, does: object) -> None:
        """Return None: skills are ranked in memory."""

    def texts(self) -> dict[int, tuple[str, ...]]:
        """Return the texts that a pattern is tried on besides names, by row."""
        found = self.index.short_texts(self.in_order)
        return found | {row: tuple(map(self._clean, found[row])) for row in self._naming_denied(found)}

    def meanings(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        """Return what each skill means, where ``stored`` is what it means to callers to whom nothing is denied."""
        return {**stored, **{row: self._clean(stored[row]) for row in self._naming_denied(stored)}}

    def _naming_denied(self, rows: Iterable[int]) -> dict[int, tuple[Candidates, ...]]:
        """Return the candidates, by field, of those of ``rows`` whose texts name a denied tool."""
        if self.mentions is None:
            return {}
        without = self.mentions.without
        found = self.index.mentions(rows)
        return {
            row: fields
            for row, fields in found.items()
            if any(without(name) != name for names in fields for name in names)
        }

    def _without(self, stems: Stems, candidates: Candidates) -> Stems:
        """Return the stems of a field without those that only the names of denied tools have brought."""
        left = Counter(stems)
        for name, count in candidates.items():
            gone = Counter(map(stem, words(name))) - Counter(map(stem, words(self._left(name))))
            left.subtract({each: number * count for each, number in gone.items()})
        return +left

    def _left(self, name: str) -> str:
        return name if self.mentions is None else self.mentions.without(name)

    def _clean(self, text: str) -> str:
        return text if self.mentions is None else self.mentions.clean(text)[0]
