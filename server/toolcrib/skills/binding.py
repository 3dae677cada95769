"""Skills and the tools that they name: what is said about these, and which skills become active."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolcrib.base.cache import RecentBy
from toolcrib.base.model import Skill, SkillOrigin, SkillText, ToolNote
from toolcrib.base.text import truncate
from toolcrib.catalog.gate import NamedTools, SkillToolStates, is_glob, is_of_others
from toolcrib.catalog.snapshot import Catalog
from toolcrib.events.kinds import SkillActivated, SkillDeactivated, ToolActivated
from toolcrib.policy.activations import Active, ActiveSkill, Joining, Leaving, changed
from toolcrib.policy.sessions import Session
from toolcrib.skills.formats.fields import required_tools, working_tools
from toolcrib.skills.requests import LoadedSkill, SkillNames, SkillUseCaseParts
from toolcrib.skills.text.rendering import inert_line
from toolcrib.skills.visible import VisibleSkills

_TOLD_MAX = 100
"""Maximum number of tools of one skill that are named."""
_NOTE_MAX, _NAME_MAX = 80, 80
"""Maximum lengths of an author's note about a tool, and of a skill's name."""

Fits = Callable[[str], bool]
"""Returns whether a text fits into the available room."""


@dataclass(frozen=True, slots=True)
class ToldTool:
    """One tool of a skill: public name, state, signature if no list shows it, and its author's note."""

    name: str
    state: str
    signature: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToldSkill:
    """One skill: its tools, how many of those it names are missing, and how many of these it requires."""

    name: str
    tools: tuple[ToldTool, ...]
    missing: int
    lacking: int


@dataclass(frozen=True, slots=True)
class _Detail:
    """The level of detail: how many tools of a skill, how many signatures, with their authors' notes or not."""

    tools: int
    signed: int
    notes: bool


def told_text(skills: Sequence[ToldSkill], call: str, fits: Fits) -> str:
    """Return as much text about the tools of skills as fits: first what a skill lacks, last how to call them."""
    if not skills:
        return ""
    needs = [need for skill in skills if (need := _need(skill))]
    for detail in _details(min(max(len(skill.tools) for skill in skills), _TOLD_MAX)):
        lines = [line for skill in skills for line in _section(skill, detail)]
        text = "\n".join([*needs, *lines, *([call] if detail.tools else [])])
        if fits(text):
            return text
    text = "\n".join(needs)
    return text if fits(text) else ""


def _details(most: int) -> Iterator[_Detail]:
    """Yield levels of decreasing detail."""
    yield _Detail(most, most, notes=True)
    signed = most
    while signed:
        yield _Detail(most, signed, notes=False)
        signed //= 2
    tools = most
    while tools:
        yield _Detail(tools, 0, notes=False)
        tools -= 1 + tools // 8
    yield _Detail(0, 0, notes=False)


def _need(skill: ToldSkill) -> str:
    if not skill.lacking:
        return ""
    what = "a tool that is" if skill.lacking == 1 else f"{skill.lacking} tools that are"
    return f"{_name(skill)} needs {what} not available now: its steps may not work."


def _section(skill: ToldSkill, detail: _Detail) -> Iterator[str]:
    yield f"SKILL TOOLS: {_name(skill)}"
    for number, tool in enumerate(skill.tools[: detail.tools]):
        named = tool.signature if tool.signature and number < detail.signed else tool.name
        note = f": {truncate(inert_line(tool.note), _NOTE_MAX)}" if tool.note and detail.notes else ""
        yield f"- {named} [{tool.state}]{note}"
    if len(skill.tools) > detail.tools:
        yield f"- and {len(skill.tools) - detail.tools} more"
    if skill.missing:
        yield f"{skill.missing} {'tool' if skill.missing == 1 else 'tools'} that it names: not available now."


def _name(skill: ToldSkill) -> str:
    return truncate(inert_line(skill.name), _NAME_MAX)


_CALL = "Call those that your list lacks with toolcrib's tool_call."


def names_in(skill: Skill, text: SkillText) -> SkillNames:
    """Return the spellings of the tools that a skill's text names, and of those that it requires.

    A glob that begins with a wildcard could match the tools of any server, so it is ignored.
    """
    notes = tuple(note for note in working_tools(text) if not is_glob(note.tool[:1]))
    return SkillNames(notes, required_tools(text) if skill.origin is SkillOrigin.PACK else ())


def told_inside(notes: Iterable[ToolNote], names: SkillNames) -> tuple[ToolNote, ...]:
    """Return the tools of a skill's own list that are not described next to it: those of hosts, ours, mere mentions."""
    beside = {note.tool for note in names.notes if not is_of_others(note.tool)}
    return tuple(note for note in notes if note.tool not in beside)


class Told(NamedTuple):
    """Text about the tools of skills, and the public names of all of them."""

    text: str
    names: frozenset[str]


class SkillBinding:
    """Describes the tools that skills name, and activates skills. Describing tools may block."""

    def __init__(self, parts: SkillUseCaseParts) -> None:
        self._parts = parts
        self._gate, self._bindings = parts.gate, parts.gate.bindings
        self._required = RecentBy[VisibleSkills, str, Mapping[int, tuple[str, ...]]](1)

    # -- which skills can be used ----------------------------------------------------------------

    def lacking(self, session: Session, visible: VisibleSkills) -> frozenset[int]:
        """Return the rows of the skills that require a tool which the session's caller does not have."""
        catalog = self._parts.indexer.current()
        allowed = self._gate.allowed(session, catalog)
        by_text = self._required[visible].get("", lambda: self._required_by_texts(visible))
        needed = ((skill, self._needed(skill, by_text.get(skill.row, ()))) for skill in visible.everything)
        return frozenset(skill.row for skill, names in needed if self._bindings.named(catalog, allowed, names).missing)

    def _required_by_texts(self, visible: VisibleSkills) -> dict[int, tuple[str, ...]]:
        of_packs = [skill for skill in visible.everything if skill.origin is SkillOrigin.PACK]
        return {row: required_tools(text) for row, text in self._parts.catalog.texts(of_packs).items()}

    def _needed(self, skill: Skill, by_text: Sequence[str]) -> tuple[str, ...]:
        return (*self._bindings.of(skill).tools, *by_text)

    def named_by(self, session: Session, skill: Skill, text: SkillText) -> NamedTools:
        """Return the tools named by a skill that the session's caller may use."""
        catalog, names = self._parts.indexer.current(), names_in(skill, text)
        spelled = (*self._needed(skill, names.required), *(note.tool for note in names.notes))
        return self._bindings.named(catalog, self._gate.allowed(session, catalog), spelled)

    # -- the tools named in an answer ------------------------------------------------------------

    def told(self, session: Session, skills: Sequence[LoadedSkill], fits: Fits) -> Told:
        """Return text about the tools of some skills in the state after their activation, as much as fits.

        It has public names with their states; denied and nonexistent tools are counted together.
        """
        catalog = self._parts.indexer.current()
        telling = _Telling(self._parts, session, catalog, changed(session.skills.skills, self._joining(skills)))
        told: list[ToldSkill] = []
        for given in skills:
            needed = self._needed(given.skill, given.names.required)
            named = telling.named((*needed, *(note.tool for note in given.names.notes)))
            if named.by_spelling or named.missing:
                told.append(telling.skill(given, named, len(set(needed).intersection(named.missing))))
        names = frozenset(tool.name for skill in told for tool in skill.tools)
        return Told(told_text(told, telling.call, fits), names)

    # -- what is active --------------------------------------------------------------------------

    async def activate(self, session: Session, skills: Sequence[LoadedSkill]) -> None:
        """Activate the skills whose text was delivered, in this order; emit events about the effects."""
        before = session.skills.skills
        joining = self._joining(each for each in skills if each.is_delivered)
        await session.activations.change_skills(session.skills, joining)
        self._parts.around.keep(session)
        catalog, after = self._parts.indexer.current(), {each.id for each in session.skills.skills}
        reason = "exclusive" if any(each.exclusive for each in joining) else "explicit"
        self._tell_gone(session, [each for each in before if each.id not in after], reason)
        self._tell_new(session, catalog)
        opened = self._gate.opened(session, catalog).keys() - self._gate.opened(session, catalog, before).keys()
        for tool in self._gate.allowed(session, catalog).tools if opened else ():
            if tool.row in opened and tool.public_name not in session.activations.names:
                scope = self._gate.scope
                activated = ToolActivated(tool.public_name, activation_scope=scope, source="skill", reason="skill")
                self._parts.events.emit(activated, session=session.label)

    async def let_go(self, session: Session, names: Iterable[str]) -> list[str]:
        """Deactivate skills; return those of ``names`` that match none."""
        unknown: list[str] = []
        for name in names:
            meant = [each for each in session.skills.skills if each.is_called(name)]
            if not meant:
                unknown.append(name)
                continue
            await session.activations.change_skills(session.skills, [Leaving(tuple(each.id for each in meant))])
            self._tell_gone(session, meant, "explicit")
        return unknown

    def _tell_new(self, session: Session, catalog: Catalog) -> None:
        # A session that resumes what another one activated emits events too: these identify sessions by label.
        known, allowed = session.trail.told_active, self._gate.allowed(session, catalog)
        session.trail.told_active = frozenset(each.id for each in session.skills.skills)
        for each in session.skills.skills:
            if each.id not in known:
                named = self._bindings.named(catalog, allowed, (*self._bindings.of(each).tools, *each.tools))
                self._parts.events.emit(SkillActivated(each.label, len(named.tools)), session=session.label)

    def _tell_gone(self, session: Session, gone: Iterable[ActiveSkill], reason: str) -> None:
        for each in gone:
            session.trail.told_active -= {each.id}
            self._parts.events.emit(SkillDeactivated(each.label, reason), session=session.label)

    def _joining(self, skills: Iterable[LoadedSkill]) -> list[Joining]:
        joining: list[Joining] = []
        for given in skills:
            skill = given.skill
            label = skill.name if given.text.name == skill.name else skill.id
            tools = (*given.names.required, *(note.tool for note in given.names.notes))
            active = ActiveSkill(skill.id, skill.name, skill.source, given.uri, label, tools)
            joining.append(Joining(active, exclusive=self._bindings.of(skill).exclusive))
        return joining


class _Telling:
    """Describes tools to a session under the assumption that certain skills are active."""

    def __init__(self, parts: SkillUseCaseParts, session: Session, catalog: Catalog, active: Active) -> None:
        self._wordings, self._session = parts.wordings, session
        self._states = SkillToolStates(parts.gate, parts.around.has_failed)
        self._bindings = parts.gate.bindings
        self._catalog, self._allowed = catalog, parts.gate.allowed(session, catalog)
        self._opened = parts.gate.opened(session, catalog, active)
        self._is_listed = parts.gate.shows_opened(session)

    def named(self, spellings: Iterable[str]) -> NamedTools:
        """Return the tools that spellings mean to the session's caller."""
        return self._bindings.named(self._catalog, self._allowed, spellings)

    def skill(self, given: LoadedSkill, named: NamedTools, lacking: int) -> ToldSkill:
        """Return the information about the tools of one skill."""
        spelled = {note.tool: note.note for note in given.text.tools}
        notes = {tool.row: spelled.get(name, "") for name, tools in named.by_spelling.items() for tool in tools}
        signed = () if self._is_listed else [tool.row for tool in named.tools if tool.row in self._opened]
        cards = self._wordings.of(self._catalog, self._allowed).cards(signed) if signed else {}
        tools = tuple(
            ToldTool(
                tool.public_name,
                self._states.state(self._session, tool, self._opened.keys()),
                cards[tool.row].signature if tool.row in cards else "",
                notes[tool.row],
            )
            for tool in named.tools
        )
        return ToldSkill(given.text.name, tools, len(named.missing), lacking)

    @property
    def call(self) -> str:
        """How to call the tools."""
        handle = self._session.skills.handle
        if not handle or not any(tool.row in self._opened for tool in self._allowed.scoped):
            return _CALL
        return f'Call them with toolcrib\'s tool_call and "handle": "{handle}", which tool_search takes too.'
