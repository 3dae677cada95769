"""What a person or model calls a skill, and the skills that this means among those a caller may see.

Knows spellings; never knows who may see what, or what a skill says.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from toolcrib.model import Skill
from toolcrib.skills.identity import parse_uri
from toolcrib.skills.index.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the names of a request stand for."""

    skills: tuple[Skill, ...] = ()
    not_found: tuple[str, ...] = ()
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def resolve(shelf: Shelf, names: Iterable[str], clean: Callable[[str], str] = str) -> Wanted:
    """Return the skills that ``names`` stand for; each skill once, however often it is named (R170, R179)."""
    skills: dict[int, Skill] = {}
    not_found: list[str] = []
    ambiguous: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(names):
        found = find(shelf, name)
        if len(found) == 1:
            skills[found[0].row] = found[0]
        elif found:
            ambiguous[name] = tuple(name_for(shelf, skill, clean) for skill in found)
        else:
            not_found.append(name)
    return Wanted(tuple(skills.values()), tuple(not_found), ambiguous)


def name_for(shelf: Shelf, skill: Skill, clean: Callable[[str], str]) -> str:
    """Return the shortest spelling that names only this skill and may be told; where none may, its id."""
    spelling = shelf.spelling(skill)
    return spelling if clean(spelling) == spelling else skill.id


def find(shelf: Shelf, name: str) -> Sequence[Skill]:
    """Return the visible skills that ``name`` may mean: a name, ``source/name``, an id or a ``skill://`` URI."""
    name = name.strip()
    if "://" not in name:
        return shelf.named(name)
    segments = parse_uri(name)
    skill = shelf.at(segments[:-1] if segments[-1].lower() == "skill.md" else segments) if segments else None
    return [skill] if skill else []
