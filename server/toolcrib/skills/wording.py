"""The texts of skills as one kind of caller may search them: without names of denied tools."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolcrib.base.text import words
from toolcrib.catalog.denied_names import ToolMentions
from toolcrib.search.english import stem
from toolcrib.search.postings import Worded
from toolcrib.skills.index import SkillIndex
from toolcrib.skills.visible import VisibleSkills

Stems = Mapping[str, int]
Candidates = Mapping[str, int]
"""Possible tool names in one field, with their counts."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the texts of one skill without names that are denied, or ``lost`` from its lists of tools."""

    mentions: ToolMentions
    lost: frozenset[str]
    candidates: tuple[Candidates, ...]

    @property
    def changes_something(self) -> bool:
        """Whether any text of the skill contains such a name."""
        return any(self._left(name) != name for names in self.candidates for name in names)

    def text(self, text: str) -> str:
        """Return one redacted text."""
        return self.mentions.without_names(self.mentions.clean(text)[0], self.lost)

    def stems(self, fields: Iterable[Stems]) -> tuple[Stems, ...]:
        """Return the stems of its fields without those that come only from such names."""
        return tuple(map(self._without, fields, self.candidates))

    def _without(self, stems: Stems, candidates: Candidates) -> Stems:
        left = Counter(stems)
        for name, count in candidates.items():
            gone = Counter(map(stem, words(name))) - Counter(map(stem, words(self._left(name))))
            left.subtract({each: number * count for each, number in gone.items()})
        return +left

    def _left(self, name: str) -> str:
        return self.mentions.without(name, self.lost)


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
        found |= {row: reader.stems(found[row]) for row, reader in self._naming_denied(found).items()}
        return {row: Worded(stems) for row, stems in found.items()}

    def stored(self, does: object) -> None:
        """Return None: skills are ranked in memory."""

    def texts(self) -> dict[int, tuple[str, ...]]:
        """Return the texts that a pattern is tried on besides names, by row."""
        found = self.index.short_texts(self.in_order)
        return found | {row: tuple(map(reader.text, found[row])) for row, reader in self._naming_denied(found).items()}

    def meanings(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        """Return the text to embed for each skill, given ``stored``, the text for callers to whom nothing is denied."""
        return {**stored, **{row: reader.text(stored[row]) for row, reader in self._naming_denied(stored).items()}}

    def _naming_denied(self, rows: Iterable[int]) -> dict[int, _Reader]:
        """Return readers for those of ``rows`` whose texts contain a name that the caller may not see."""
        if self.mentions is None:
            return {}
        lost = {skill.row: self.mentions.lost(skill.tools) for skill in self.visible.skills}
        readers = {
            row: _Reader(self.mentions, lost.get(row, frozenset()), candidates)
            for row, candidates in self.index.mentions(rows).items()
        }
        return {row: reader for row, reader in readers.items() if reader.changes_something}
