"""The ordered set of active skills of a scope, and the tools that each of them names.

Knows how a skill is activated and deactivated; never knows tools, texts, or whose scope it is.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from toolcrib.base.json_values import as_list, as_object

ACTIVE_MAX = 64
"""Maximum number of active skills per scope; beyond that the one active for longest is deactivated."""


@dataclass(frozen=True, slots=True)
class ActiveSkill:
    """One active skill. ``tools`` are the tools that its text names, spelled as its author did.

    ``label`` is what it may be called in an answer: its name, unless that may not be told.
    """

    id: str
    name: str
    source: str
    uri: str
    label: str
    tools: tuple[str, ...] = ()

    def is_called(self, name: str) -> bool:
        """Return whether ``name`` refers to this skill: its id, its name, its name with its source, or its URI."""
        plain = name.strip().removeprefix("$")
        return plain in (self.id, self.label, self.name, f"{self.source}/{self.name}", self.uri)


Active = tuple[ActiveSkill, ...]
"""The active skills of a scope, in order of activation."""


def json_of(active: Active) -> str:
    """Serialize active skills for :func:`active_of`."""
    return json.dumps([asdict(skill) for skill in active], ensure_ascii=False)


def active_of(text: str) -> Active:
    """Return the active skills in a serialized text; empty for text of another program."""
    try:
        every = as_list(json.loads(text))
    except ValueError:
        return ()
    found: list[ActiveSkill] = []
    for raw in map(as_object, every):
        own = {name: raw.get(name) for name in ("id", "name", "source", "uri", "label")}
        if all(isinstance(value, str) for value in own.values()):
            tools = tuple(map(str, as_list(raw.get("tools"))))
            found.append(ActiveSkill(**{name: str(value) for name, value in own.items()}, tools=tools))
    return tuple(found[-ACTIVE_MAX:])


@dataclass(frozen=True, slots=True)
class Joining:
    """A skill becomes active. ``exclusive``: it replaces all others (C20)."""

    skill: ActiveSkill
    exclusive: bool = False

    def of(self, active: Active) -> Active:
        """Return the active skills with this one; it keeps its place if it was already active."""
        if self.exclusive:
            return (self.skill,)
        if any(each.id == self.skill.id for each in active):
            return tuple(self.skill if each.id == self.skill.id else each for each in active)
        return (*active, self.skill)[-ACTIVE_MAX:]


@dataclass(frozen=True, slots=True)
class Leaving:
    """Deactivated skills, by their ids."""

    ids: tuple[str, ...]

    def of(self, active: Active) -> Active:
        """Return the active skills without them."""
        return tuple(each for each in active if each.id not in self.ids)


Change = Joining | Leaving
"""What happens to the skills of a scope. It says nothing of other skills, so two who share one lose nothing."""


def changed(active: Active, changes: Iterable[Change]) -> Active:
    """Return the active skills after some changes, in this order."""
    for change in changes:
        active = change.of(active)
    return active


class ActiveSkills:
    """The active skills of one scope: ``skills`` is a value, replaced as a whole.

    ``handle`` is what names the scope where no session does; empty where one does.
    """

    def __init__(self, handle: str = "", skills: Active = ()) -> None:
        self.skills = skills
        self.handle = handle

    def change(self, changes: Iterable[Change]) -> None:
        """Apply a change to the skills."""
        self.skills = changed(self.skills, changes)
