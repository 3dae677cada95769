"""The skills that one kind of caller may see, at one moment: an immutable snapshot, and the ways to name one of them.

Knows names, sources and places; never knows why a skill is or is not in it, a database or a ranking.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from toolcrib.base.spellings import Spellings
from toolcrib.base.text import joined
from toolcrib.model import Skill
from toolcrib.skills.identity import parse_uri


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the names of a request stand for. ``ambiguous``: for a name of several skills, names of one each."""

    skills: tuple[Skill, ...] = ()
    not_found: tuple[str, ...] = ()
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class VisibleSkills:
    """Skills in the order of their sources, as given; ``generation`` tells snapshots apart.

    ``everything`` is all of them. ``skills`` leaves out copies: skills with the name and the very text of an earlier
    one (R170); ``in_order`` has the rows of those. Safe to use from several threads.
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
        """Return the place in ``skills`` of this skill, or of the one that it is a copy of."""
        return self._number_by_row[skill.row]

    @cached_property
    def by_number(self) -> dict[int, Skill]:
        """Return ``skills`` by their number."""
        return dict(enumerate(self.skills))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the distinct names, sorted."""
        return tuple(sorted(self._by_name))

    def resolve(self, names: Iterable[str], clean: Callable[[str], str] = str) -> Wanted:
        """Return the skills that ``names`` stand for; each skill once, however often it is named (R170, R179).

        ``clean`` makes the names that are offered for an ambiguous one fit for the caller.
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
        return Wanted(tuple(skills.values()), tuple(not_found), ambiguous)

    def find(self, name: str) -> Sequence[Skill]:
        """Return the skills that ``name`` may mean: a name, ``source/name``, an id or a ``skill://`` URI."""
        name = name.strip()
        if "://" not in name:
            return self.named(name)
        segments = parse_uri(name)
        skill = self.at(segments[:-1] if segments[-1].lower() == "skill.md" else segments) if segments else None
        return (skill,) if skill else ()

    def named(self, spelling: str) -> tuple[Skill, ...]:
        """Return the skills that ``spelling`` names: none, one, or several where it is ambiguous (R170, R179).

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

        Last of all, those in a folder of this name: a pack's skill is also known by what follows the pack's name.
        """
        spelling = _bare(spelling)
        return (
            self._by_name.get(spelling)
            or self._by_joined_name.get(joined(spelling))
            or self._by_folder_name.get(spelling, ())
        )

    def at(self, segments: Sequence[str]) -> Skill | None:
        """Return the skill at this place: the segments of ``skill://SOURCE/FOLDER``, decoded."""
        # A decoded segment may hold a slash (%2F), which must not turn it into two.
        found = () if any("/" in segment for segment in segments) else self._by_place.get("/".join(segments), ())
        return found[0] if found else None

    def beginning(self, start: str) -> Iterator[Skill]:
        """Yield the skills whose name begins with ``start``, in any case and with any separator."""
        return self._by_joined_name.beginning(_bare(start))

    def spelling(self, skill: Skill) -> str:
        """Return the shortest spelling that names only this skill: its name, ``source/name``, ``source/folder``."""
        for spelling in (skill.name, f"{skill.source}/{skill.name}", _place(skill)):
            if self.named(spelling) == (skill,):
                return spelling
        return skill.id

    def name_for(self, skill: Skill, clean: Callable[[str], str]) -> str:
        """Return the shortest spelling that names only this skill and may be told; where none may, its id."""
        spelling = self.spelling(skill)
        return spelling if clean(spelling) == spelling else skill.id

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
        return Spellings((joined(skill.name), skill) for skill in self.skills)

    @cached_property
    def _by_folder_name(self) -> dict[str, tuple[Skill, ...]]:
        return _grouped(self.skills, lambda skill: skill.folder.rpartition("/")[2])


def _place(skill: Skill) -> str:
    return f"{skill.source}/{skill.folder}" if skill.folder else skill.source


def _bare(spelling: str) -> str:
    return spelling.strip().removeprefix("$")


def _grouped(skills: Iterable[Skill], key: Callable[[Skill], str]) -> dict[str, tuple[Skill, ...]]:
    groups: defaultdict[str, list[Skill]] = defaultdict(list)
    for skill in skills:
        groups[key(skill)].append(skill)
    return {name: tuple(group) for name, group in groups.items() if name}
