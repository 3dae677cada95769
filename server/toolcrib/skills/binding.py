"""The tools of skills, told to whoever is given one: which there are, in which state, and how many are missing.

Knows what skills name and what a session may use; never knows how a skill is shortened, or how a tool is called.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from toolcrib.access.sessions import Session
from toolcrib.base.recent import RecentBy
from toolcrib.base.text import one_line, truncate
from toolcrib.config.settings import Settings
from toolcrib.model import LoadingMode, Skill, SkillOrigin, SkillText, Tool, ToolNote
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.formats.fields import required_tools, working_tools
from toolcrib.skills.index.visible import VisibleSkills
from toolcrib.skills.requests import LoadedSkill, SkillNames
from toolcrib.skills.text.rendering import inert_line
from toolcrib.tools.bindings import Bindings, NamedTools, is_glob, is_of_others, named_tools
from toolcrib.tools.gate import Gate
from toolcrib.tools.index.catalog import Catalog
from toolcrib.tools.indexing import Indexer

_NOTE_MAX = 80
"""Characters of what an author notes of a tool."""
_NAME_MAX = 80
_CALL = "Call those that your list lacks with toolcrib's tool_call."

Fits = Callable[[str], bool]
"""Tells whether a text fits into the room that there is for it."""


def names_in(skill: Skill, text: SkillText) -> SkillNames:
    """Return how the text of a skill spells the tools that it works with, and those without which it is of no use.

    A glob that begins with a wildcard could mean the tools of any server, so no text means anything by it.
    """
    notes = tuple(note for note in working_tools(text) if not is_glob(note.tool[:1]))
    return SkillNames(notes, required_tools(text) if skill.origin is SkillOrigin.PACK else ())


def told_inside(notes: Iterable[ToolNote], names: SkillNames) -> tuple[ToolNote, ...]:
    """Return the tools of a skill's own list that are not told of beside it: those of hosts, ours, mere mentions."""
    beside = {note.tool for note in names.notes if not is_of_others(note.tool)}
    return tuple(note for note in notes if note.tool not in beside)


class Told(NamedTuple):
    """What is said of the tools of skills, and the public names of all of them."""

    text: str
    names: frozenset[str]


class SkillBinding:
    """Tells of the tools that skills name. ``has_failed`` says of a server whether it has failed. May block."""

    def __init__(
        self,
        settings: Settings,
        skills: SkillCatalog,
        gate: Gate,
        indexer: Indexer,
        has_failed: Callable[[str], bool],
    ) -> None:
        self._skills, self._gate, self._indexer, self._has_failed = skills, gate, indexer, has_failed
        self._bindings = Bindings(settings.toolcrib)
        self._required = RecentBy[VisibleSkills, str, Mapping[int, tuple[str, ...]]](1)

    def lacking(self, session: Session, visible: VisibleSkills) -> frozenset[int]:
        """Return the rows of the skills that need a tool which the session's caller does not have."""
        catalog = self._indexer.current()
        permitted = self._gate.permitted(session, catalog)
        by_text = self._required[visible].get("", lambda: self._required_by_texts(visible))
        needed = ((skill, self._needed(skill, by_text.get(skill.row, ()))) for skill in visible.everything)
        return frozenset(skill.row for skill, names in needed if named_tools(catalog, permitted, names).missing)

    def _required_by_texts(self, visible: VisibleSkills) -> dict[int, tuple[str, ...]]:
        of_packs = [skill for skill in visible.everything if skill.origin is SkillOrigin.PACK]
        return {row: names for row, text in self._skills.texts(of_packs).items() if (names := required_tools(text))}

    def _needed(self, skill: Skill, by_text: Sequence[str]) -> tuple[str, ...]:
        return (*self._bindings.of(skill).tools, *by_text)

    def told(self, session: Session, skills: Sequence[LoadedSkill], fits: Fits) -> Told:
        """Return what is said of the tools of some skills, as much of it as fits; what is missing comes first.

        Public names with their states; what is denied and what does not exist are one number.
        """
        catalog = self._indexer.current()
        state_of = _States(self._has_failed, session)
        sections = [
            _Section(given, named, self._lacking_of(given, named), state_of)
            for given, named in ((given, self._named(session, given, catalog)) for given in skills)
            if named.by_spelling or named.missing
        ]
        names = {tool.public_name for section in sections for tool in section.tools}
        return Told(_fitting(sections, fits), frozenset(names))

    def _named(self, session: Session, given: LoadedSkill, catalog: Catalog) -> NamedTools:
        needed = self._needed(given.skill, given.names.required)
        spellings = (*needed, *(note.tool for note in given.names.notes))
        return named_tools(catalog, self._gate.permitted(session, catalog), spellings)

    def _lacking_of(self, given: LoadedSkill, named: NamedTools) -> int:
        return len(set(self._needed(given.skill, given.names.required)).intersection(named.missing))


class _States:
    """Says in which state the tools of a session are."""

    def __init__(self, has_failed: Callable[[str], bool], session: Session) -> None:
        self._has_failed, self._activated = has_failed, session.activations.names

    def __call__(self, tool: Tool) -> str:
        if self._has_failed(tool.server):
            return "its server failed"
        is_ready = tool.loading_mode is LoadingMode.ALWAYS or tool.public_name in self._activated
        return "ready" if is_ready else "deferred"


class _Section:
    """What is said of the tools of one skill."""

    def __init__(self, given: LoadedSkill, named: NamedTools, lacking: int, state_of: Callable[[Tool], str]) -> None:
        self._name = truncate(inert_line(given.text.name), _NAME_MAX)
        self._named, self._lacking, self._state_of = named, lacking, state_of
        spelled = {note.tool: note.note for note in given.text.tools if note.note}
        named_with = ((tool, spelled.get(name, "")) for name, tools in named.by_spelling.items() for tool in tools)
        self._notes = {tool.row: note for tool, note in named_with if note}

    @property
    def need(self) -> str:
        """What is said first where the skill lacks what it needs."""
        if not self._lacking:
            return ""
        what = "a tool that is" if self._lacking == 1 else f"{self._lacking} tools that are"
        return f"{self._name} needs {what} not available now: its steps may not work."

    def lines(self, *, notes: bool, most: int) -> list[str]:
        """Return the section, with at most so many tools, and what their author notes of them or not."""
        tools = self.tools
        lines = [f"SKILL TOOLS: {self._name}"]
        for tool in tools[:most]:
            note = self._notes.get(tool.row, "") if notes else ""
            said = f": {truncate(inert_line(note), _NOTE_MAX)}" if note else ""
            lines.append(f"- {tool.public_name} [{self._state_of(tool)}]{said}")
        if len(tools) > most:
            lines.append(f"- and {len(tools) - most} more")
        missing = len(self._named.missing)
        if missing:
            lines.append(f"{missing} {'tool' if missing == 1 else 'tools'} that it names: not available now.")
        return lines

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that there are to tell of."""
        return self._named.tools


def _fitting(sections: Sequence[_Section], fits: Fits) -> str:
    """Return what is said of these skills: whole, without notes, with fewer tools, at the least what is needed."""
    if not sections:
        return ""
    needs = [section.need for section in sections if section.need]
    most = max(len(section.tools) for section in sections)
    call = [_CALL] if most else []
    for notes, count in ((True, most), *((False, count) for count in range(most, -1, -1))):
        lines = [line for section in sections for line in section.lines(notes=notes, most=count)]
        text = "\n".join([*needs, *lines, *call])
        if fits(text):
            return text
    text = one_line(" ".join(needs))
    return text if fits(text) else ""
