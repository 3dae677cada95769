"""Search among the skills that are visible to a caller, in texts without the names of tools denied to them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcrib.base.model import Skill, TaskType
from toolcrib.base.text import words
from toolcrib.catalog.denied_names import NameMasker
from toolcrib.search.documents import NO_LOSSES, Found, Kind, Match, Reason, Request
from toolcrib.search.engine import Engine, SearchSettings
from toolcrib.search.english import stem
from toolcrib.search.postings import Worded
from toolcrib.search.ranking import NO_LESSONS, Field, Lessons
from toolcrib.skills.index import SkillIndex
from toolcrib.skills.penalties import NO_PENALTIES, Penalties
from toolcrib.skills.visible import VisibleSkills

FIELDS = (
    Field(2, 0.3),  # name
    Field(1, 0.3),  # title
    Field(2, 0.5),  # trigger and description
    Field(0.5, 0.2),  # tags
    Field(0.4, 0.8),  # body
)
"""Measured: the body finds what no description mentions, and a larger weight would outweigh descriptions. Words of a
long body count less than in other fields: many of them are not what it is about.
"""


@dataclass(frozen=True, slots=True)
class SkillQuery(Request):
    """A search for skills. ``source``: only of this source; ``tags``: with one of these, in lower case.

    ``usable``: only those whose required tools the caller has; it is resolved to ``without``, a set of rows, by code
    that knows the tools.
    """

    task_type: TaskType | None = None
    source: str | None = None
    tags: frozenset[str] = frozenset()
    usable: bool = False
    without: frozenset[int] = frozenset()


_Counts = Mapping[str, int]
"""Stems in one field of a text, or possible names of tools, with their counts."""


class SkillSearcher:
    """Finds skills among those visible to a caller. Safe to use from several threads."""

    def __init__(self, index: SkillIndex, settings: SearchSettings) -> None:
        self._index = index
        self._engine = Engine[Skill](Kind("skill", FIELDS, plain_beginnings=True), settings)

    def search(
        self,
        query: SkillQuery,
        visible: VisibleSkills,
        masker: NameMasker | None = None,
        penalties: Penalties = NO_PENALTIES,
    ) -> Found[Skill]:
        """Return the best matches among the skills of ``visible``; ``masker`` tells which names are not searched.

        ``penalties`` are reductions of scores, within their bounds and except for skills that the query names.

        Raises:
            BadRequest: a pattern cannot be used.
            StoreError: the index cannot be read.

        """
        hidden = None if masker is None or masker.hides_nothing else masker
        return self._engine.search(query, _Scope(query, _SearchedSkills(visible, self._index, hidden), penalties))


class _Scope:
    """The skills that one search may find; a copy that may not be found is represented by its original."""

    context = None

    def __init__(self, query: SkillQuery, documents: "_SearchedSkills", penalties: Penalties) -> None:
        self.documents, self._visible = documents, documents.visible
        self._skills = _wanted(query, self._visible)
        self.losses = _losses(self._visible, penalties) if penalties else NO_LOSSES
        self.numbers = None if self._skills is self._visible.by_number else frozenset(self._skills)

    @property
    def emptiness(self) -> str:
        if not self._visible.skills:
            return "No skills are known."
        return "" if self._skills else "There is no skill of this kind."

    def lessons(self, query: str) -> Lessons:  # noqa: ARG002 - nothing is learnt of these
        return NO_LESSONS

    def document(self, number: int) -> Skill:
        return self._skills[number]

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:  # noqa: ARG002 - called() does it always
        """Return the skills that the whole query names, locations before names (C16)."""
        called: dict[int, Reason] = dict.fromkeys(self._inside(self._visible.called(query)), "exact_name")
        addressed: dict[int, Reason] = dict.fromkeys(self._inside(self._visible.addressed(query)), "exact_path")
        return called | addressed

    def begun(self, query: str) -> Iterable[int]:
        return self._inside(self._visible.beginning(query))

    def spellings(self, number: int) -> Sequence[str]:
        skill = self._skills[number]
        return skill.name, f"{skill.source}/{skill.name}"

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        """Return the order of equal matches: the share of the name that the query covers, source, name (R171)."""
        skill = self._skills[match.document]
        rest = len(skill.name) if match.reason == "prefix" else 0
        return rest, self._visible.source_ranks[skill.source], skill.name, skill.folder

    def _inside(self, skills: Iterable[Skill]) -> list[int]:
        """Return the numbers of those of ``skills`` that may be found."""
        numbers = dict.fromkeys(map(self._visible.number, skills))
        return [number for number in numbers if number in self._skills]


def has_tag(skill: Skill, tags: frozenset[str]) -> bool:
    """Return whether a skill has one of these tags, given in lower case."""
    return not tags.isdisjoint(tag.casefold() for tag in skill.tags)


def _losses(visible: VisibleSkills, penalties: Penalties) -> Mapping[int, float]:
    """Return the score reduction of each skill, by number; reports about a copy count for the one that is found."""
    losses: dict[int, float] = {}
    for skill in visible.everything:
        lost = penalties.get((skill.id, skill.content_hash))
        if lost:
            losses[visible.number(skill)] = max(lost, losses.get(visible.number(skill), 0.0))
    return losses


def _wanted(query: SkillQuery, visible: VisibleSkills) -> Mapping[int, Skill]:
    """Return the skills that may be found, by number among the visible ones; of copies the first that qualifies."""
    if query.task_type is None and query.source is None and not query.tags and not query.without:
        return visible.by_number
    skills: dict[int, Skill] = {}
    for skill in visible.everything:
        is_wanted = (not query.tags or has_tag(skill, query.tags)) and skill.row not in query.without
        if is_wanted and query.task_type in (None, skill.task_type) and query.source in (None, skill.source):
            skills.setdefault(visible.number(skill), skill)
    return skills


# -- what is searched ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SearchedSkills:
    """Visible skills as callers search them. ``masker`` knows what is denied to them; None: nothing is.

    Two instances of the same skills for the same callers are equal. Every method raises StoreError if the index cannot
    be read.
    """

    visible: VisibleSkills
    index: SkillIndex
    masker: NameMasker | None = None

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
        found |= {row: each.stems(found[row]) for row, each in self._naming_denied(found).items()}
        return {row: Worded(stems) for row, stems in found.items()}

    def stored(self, does: object) -> None:
        """Return None: skills are ranked in memory."""

    def texts(self) -> dict[int, tuple[str, ...]]:
        """Return the texts that a pattern is tried on besides names, by row."""
        found = self.index.short_texts(self.in_order)
        return found | {row: tuple(map(each.text, found[row])) for row, each in self._naming_denied(found).items()}

    def embedded_versions(self) -> list[None]:
        """Return None for each: the texts of skills are read."""
        return [None] * len(self.in_order)

    def texts_to_embed(self, stored: Mapping[int, str]) -> Mapping[int, str]:
        """Return the text to embed for each skill, given ``stored``, the text for callers to whom nothing is denied."""
        return {**stored, **{row: each.text(stored[row]) for row, each in self._naming_denied(stored).items()}}

    def _naming_denied(self, rows: Iterable[int]) -> "dict[int, _Redactor]":
        """Return redactors for those of ``rows`` whose texts contain a name that the caller may not see."""
        if self.masker is None:
            return {}
        lost = {skill.row: self.masker.lost(skill.tools) for skill in self.visible.skills}
        redactors = {
            row: _Redactor(self.masker, lost.get(row, frozenset()), candidates)
            for row, candidates in self.index.mentions(rows).items()
        }
        return {row: redactor for row, redactor in redactors.items() if redactor.changes_something}


@dataclass(frozen=True, slots=True)
class _Redactor:
    """Reads the texts of one skill without names that are denied, or ``lost`` from its lists of tools."""

    masker: NameMasker
    lost: frozenset[str]
    candidates: tuple[_Counts, ...]

    @property
    def changes_something(self) -> bool:
        """Whether any text of the skill contains such a name."""
        return any(self._left(name) != name for names in self.candidates for name in names)

    def text(self, text: str) -> str:
        """Return one redacted text."""
        return self.masker.without_names(self.masker.clean(text)[0], self.lost)

    def stems(self, fields: Iterable[_Counts]) -> tuple[_Counts, ...]:
        """Return the stems of its fields without those that come only from such names."""
        return tuple(map(self._without, fields, self.candidates))

    def _without(self, stems: _Counts, candidates: _Counts) -> _Counts:
        left = Counter(stems)
        for name, count in candidates.items():
            gone = Counter(map(stem, words(name))) - Counter(map(stem, words(self._left(name))))
            left.subtract({each: number * count for each, number in gone.items()})
        return +left

    def _left(self, name: str) -> str:
        return self.masker.without(name, self.lost)
