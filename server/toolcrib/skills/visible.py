"""The skills that one kind of caller may see, at one moment: an immutable snapshot, searched by name."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from toolcrib.base.model import Skill, SkillOrigin
from toolcrib.base.names import Spellings
from toolcrib.base.text import spelling_key
from toolcrib.search.postings import is_one_edit
from toolcrib.skills.identity import parse_uri
from toolcrib.skills.sources.files import SKILL_FILE

_NEAR_MAX = 3
"""Maximum number of suggestions for an unknown name."""
_SLIP_MIN = 3
"""Minimum length of a name for which names one typo away are suggested: a shorter one is close to too many."""
_NAME_MAX = 256
"""Maximum length of a name that is compared with others."""
_PARTS = re.compile(r"[:/]")

Clean = Callable[[Skill, str], str]
"""Redacts a text about a skill for the caller."""


def as_it_is(_skill: Skill, text: str) -> str:
    """Return a text about a skill unchanged."""
    return text


@dataclass(frozen=True, slots=True)
class Resolved:
    """The skills that the names of a request refer to.

    ``ambiguous``: for a name of several skills, unambiguous names of each. ``near``: for an unknown name, suggestions,
    if there are any.
    """

    skills: tuple[Skill, ...] = ()
    not_found: tuple[str, ...] = ()
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    near: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class VisibleSkills:
    """Skills in the order of their sources, as given; ``generation`` distinguishes snapshots.

    ``everything`` is all of them. ``skills`` omits copies, which have the same name and text as an earlier one (R170);
    ``in_order`` has the rows of ``skills``. Safe to use from several threads.
    """

    def __init__(self, skills: Sequence[Skill], generation: int = 0) -> None:
        self.generation = generation
        self.everything = tuple(skills)
        numbers: dict[tuple[str, str], int] = {}
        firsts: list[Skill] = []
        self._number_by_row: dict[int, int] = {}
        for skill in self.everything:
            key = skill.name, skill.content_hash
            if key not in numbers:
                numbers[key] = len(firsts)
                firsts.append(skill)
            self._number_by_row[skill.row] = numbers[key]
        self.skills = tuple(firsts)
        self.in_order = tuple(skill.row for skill in firsts)
        self.source_ranks = {source: rank for rank, source in enumerate(dict.fromkeys(each.source for each in skills))}

    def number(self, skill: Skill) -> int:
        """Return the index in ``skills`` of this skill, or of the one that it is a copy of."""
        return self._number_by_row[skill.row]

    @cached_property
    def of_servers(self) -> tuple[Skill, ...]:
        """The skills that come from servers, copies included."""
        return tuple(skill for skill in self.everything if skill.is_of_server)

    @cached_property
    def by_number(self) -> dict[int, Skill]:
        """Return ``skills`` by their number."""
        return dict(enumerate(self.skills))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the distinct names, sorted."""
        return tuple(sorted(self._by_name))

    def resolve(self, names: Iterable[str], clean: Clean = as_it_is) -> Resolved:
        """Return the skills that ``names`` refer to; each skill once, however often it is named (R170, R179).

        ``clean`` redacts suggested names for the caller.
        """
        skills: dict[int, Skill] = {}
        not_found: list[str] = []
        ambiguous: dict[str, tuple[str, ...]] = {}
        for name in dict.fromkeys(names):
            found = self.find(name)
            if len(found) == 1:
                skills[found[0].row] = found[0]
            elif found:
                ambiguous[name] = tuple(self.name_for(skill, clean) for skill in found)
            else:
                not_found.append(name)
        near = {name: meant for name in not_found if (meant := self.near(name, clean))}
        return Resolved(tuple(skills.values()), tuple(not_found), ambiguous, near)

    def find(self, name: str) -> Sequence[Skill]:
        """Return the skills that ``name`` may mean: a name, ``source/name``, an id or a ``skill://`` URI."""
        name = name.strip()
        if "://" not in name:
            return self.named(name)
        segments = parse_uri(name)
        skill = self.at(segments[:-1] if segments[-1].lower() == "skill.md" else segments) if segments else None
        return (skill,) if skill else ()

    def named(self, spelling: str) -> tuple[Skill, ...]:
        """Return the skills that ``spelling`` names: none, one, or several if it is ambiguous (R170, R179).

        Tried in order: the id; ``source/folder``; ``source/name``; the name; the name in any case and with any
        separator. A leading ``$`` is left out (R242).
        """
        return self.addressed(spelling) or self.called(spelling)

    def addressed(self, spelling: str) -> tuple[Skill, ...]:
        """Return the skills with this id, ``source/folder`` or ``source/name``."""
        spelling = _bare(spelling)
        for spellings in (self._by_id, self._by_place, self._by_qualified_name):
            if spelling in spellings:
                return spellings[spelling]
        return ()

    def called(self, spelling: str) -> tuple[Skill, ...]:
        """Return the skills with this name, or else with this name in any case and with any separator.

        As a last resort, those in a folder of this name: a pack's skill is also known without the pack's name.
        """
        spelling = _bare(spelling)
        # A server must not take a name from the person's skills, however it spells its own: those are looked for first.
        for skills in self._spelled(spelling) if self.of_servers else ():
            if own := _without_servers(skills):
                return own
        return next((skills for skills in self._spelled(spelling) if skills), ())

    def _spelled(self, spelling: str) -> Iterator[tuple[Skill, ...]]:
        yield self._by_name.get(spelling, ())
        yield tuple(self._by_joined_name.get(spelling_key(spelling), ()))
        yield self._by_folder_name.get(spelling, ())

    def near(self, name: str, clean: Clean = as_it_is) -> tuple[str, ...]:
        """Return up to three existing names of skills that may be meant by the unknown ``name`` (C23).

        Hosts call the skill of a plugin ``plugin:skill``, so names also match by their last part; after these come
        names one typo away. Names that ``clean`` would change are not suggested.
        """
        whole = _within_uri(_bare(name)[:_NAME_MAX])
        asked = dict.fromkeys((spelling_key(whole), spelling_key(_last_part(whole))))
        same = [skill for spelling in asked for skill in self._by_part.get(spelling, ())]
        slips = [
            skill
            for spelling in asked
            if len(spelling) >= _SLIP_MIN
            for known, skills in self._by_part.items()
            if is_one_edit(spelling, known)
            for skill in skills
        ]
        named = {self.spelling(skill): skill for skill in dict.fromkeys([*same, *slips])}
        return tuple(name for name, skill in named.items() if clean(skill, name) == name)[:_NEAR_MAX]

    def at(self, segments: Sequence[str]) -> Skill | None:
        """Return the skill at a location: the segments of ``skill://SOURCE/FOLDER``, decoded."""
        # A decoded segment may contain a slash (%2F), which must not turn it into two.
        found = () if any("/" in segment for segment in segments) else self._by_place.get("/".join(segments), ())
        return found[0] if found else None

    def beginning(self, start: str) -> Iterator[Skill]:
        """Yield the skills whose name begins with ``start``, ignoring case and separators."""
        return self._by_joined_name.beginning(_bare(start))

    def spelling(self, skill: Skill) -> str:
        """Return the shortest unambiguous spelling of this skill: its name, ``source/name``, ``source/folder``."""
        for spelling in (skill.name, f"{skill.source}/{skill.name}", _place(skill)):
            if self.named(spelling) == (skill,):
                return spelling
        return skill.id

    def brief(self, skill: Skill) -> str:
        """Return the shortest spelling by which this skill is found: of a pack's, mostly its folder."""
        folder, spelling = skill.folder.rpartition("/")[2], self.spelling(skill)
        is_shorter = skill.origin is SkillOrigin.PACK and len(folder) < len(spelling)
        return folder if is_shorter and self.named(folder) == (skill,) else spelling

    def name_for(self, skill: Skill, clean: Clean) -> str:
        """Return the shortest unambiguous spelling of this skill that may be shown; if none may, its id."""
        spelling = self.spelling(skill)
        return spelling if clean(skill, spelling) == spelling else skill.id

    @cached_property
    def _by_id(self) -> dict[str, tuple[Skill, ...]]:
        return _grouped(self.everything, lambda skill: skill.id)

    @cached_property
    def _by_place(self) -> dict[str, tuple[Skill, ...]]:
        return _grouped(self.everything, _place)

    @cached_property
    def _by_qualified_name(self) -> dict[str, tuple[Skill, ...]]:
        return _grouped(self.everything, lambda skill: f"{skill.source}/{skill.name}")

    @cached_property
    def _by_name(self) -> dict[str, tuple[Skill, ...]]:
        return _grouped(self.skills, lambda skill: skill.name)

    @cached_property
    def _by_joined_name(self) -> Spellings[Skill]:
        return Spellings((spelling_key(skill.name), skill) for skill in self.skills)

    @cached_property
    def _by_part(self) -> Spellings[Skill]:
        """Return the skills by their names, the last parts of these, and their own folders."""
        return Spellings(
            (spelling_key(part), skill)
            for skill in self.skills
            for part in dict.fromkeys((skill.name, _last_part(skill.name), _last_part(skill.folder)))
        )

    @cached_property
    def _by_folder_name(self) -> dict[str, tuple[Skill, ...]]:
        return _grouped(self.skills, lambda skill: skill.folder.rpartition("/")[2])


def _without_servers(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    return tuple(skill for skill in skills if not skill.is_of_server)


def _place(skill: Skill) -> str:
    return f"{skill.source}/{skill.folder}" if skill.folder else skill.source


def _bare(spelling: str) -> str:
    return spelling.strip().removeprefix("$")


def _last_part(name: str) -> str:
    return _PARTS.split(name)[-1]


def _within_uri(name: str) -> str:
    """Return the skill part of a ``skill://`` URI; any other name unchanged."""
    return "/".join(parse_uri(name) or (name,)).removesuffix(f"/{SKILL_FILE}")


def _grouped(skills: Iterable[Skill], key: Callable[[Skill], str]) -> dict[str, tuple[Skill, ...]]:
    groups: defaultdict[str, list[Skill]] = defaultdict(list)
    for skill in skills:
        groups[key(skill)].append(skill)
    return {name: tuple(group) for name, group in groups.items() if name}
