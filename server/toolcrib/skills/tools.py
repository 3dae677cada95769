"""The tools that skills name: what an answer says of them, and which skills, and so which tools, are active."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from toolcrib.base.cache import RecentBy
from toolcrib.base.model import Skill, SkillOrigin, SkillText
from toolcrib.base.names import SEPARATOR, host_spellings, may_belong_to
from toolcrib.base.text import truncate
from toolcrib.catalog.gate import ResolvedTools, SkillToolStates, is_glob
from toolcrib.catalog.snapshot import Catalog
from toolcrib.events.kinds import SkillActivated, SkillDeactivated, ToolActivated
from toolcrib.policy.rules import Permissions
from toolcrib.policy.sessions import Activate, ActiveSkill, Deactivate, Session, changed
from toolcrib.skills.answers import LoadedSkill, ToolSpellings
from toolcrib.skills.formats.fields import required_tools, working_tools
from toolcrib.skills.text.rendering import inert_line
from toolcrib.skills.visible import VisibleSkills

if TYPE_CHECKING:
    from toolcrib.skills.use_cases import SkillDependencies

_TOOLS_MAX = 100
"""Maximum number of tools of one skill that are named."""
_NOTE_MAX, _NAME_MAX = 80, 80
"""Maximum lengths of an author's note about a tool, and of a skill's name."""
_CALL = "Call those that your list lacks with toolcrib's tool_call."
_CALL_WITH_HANDLE = 'Call them with toolcrib\'s tool_call and "handle": "{}", which tool_search takes too.'


class ToolsText(NamedTuple):
    """Text about the tools of skills, and the public names of all of them."""

    text: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Tool:
    """One tool of a skill: public name, state, signature if no list shows it, and its author's note."""

    name: str
    state: str
    signature: str
    note: str


@dataclass(frozen=True, slots=True)
class _Section:
    """One skill: its tools, how many of those it names are missing, and how many of these it requires.

    ``unlisted`` are missing too, but servers may have them that were never listed.
    """

    skill: str
    tools: tuple[_Tool, ...]
    missing: int
    unlisted: int
    lacking: int


def spellings_in(skill: Skill, text: SkillText) -> ToolSpellings:
    """Return the spellings of the tools that a skill's text names, and of those that it requires.

    A glob that begins with a wildcard could match the tools of any server, so it is ignored.
    """
    notes = tuple(note for note in working_tools(text) if not is_glob(note.tool[:1]))
    return ToolSpellings(notes, required_tools(text) if skill.origin is SkillOrigin.PACK else ())


class SkillTools:
    """Describes the tools that skills name, and activates skills. Describing tools may block."""

    def __init__(self, dependencies: "SkillDependencies") -> None:
        self._catalog, self._indexer = dependencies.catalog, dependencies.indexer
        self._gate, self._bindings = dependencies.gate, dependencies.gate.bindings
        self._events, self._views = dependencies.events, dependencies.views
        self._keep = dependencies.runtime.keep
        self._states = SkillToolStates(dependencies.gate, dependencies.runtime.has_failed)
        self._required = RecentBy[VisibleSkills, str, Mapping[int, tuple[str, ...]]](1)

    # -- which skills can be used ----------------------------------------------------------------

    def lacking(self, session: Session, visible: VisibleSkills) -> frozenset[int]:
        """Return the rows of the skills that require a tool which the session's caller does not have."""
        catalog = self._indexer.current()
        allowed = self._gate.allowed(session, catalog)
        by_text = self._required[visible].get("", lambda: self._required_by_texts(visible))
        needed = ((skill, self._needed(skill, by_text.get(skill.row, ()))) for skill in visible.everything)
        resolve = self._bindings.resolve
        return frozenset(skill.row for skill, names in needed if resolve(catalog, allowed, names).missing)

    def _required_by_texts(self, visible: VisibleSkills) -> dict[int, tuple[str, ...]]:
        of_packs = [skill for skill in visible.everything if skill.origin is SkillOrigin.PACK]
        return {row: required_tools(text) for row, text in self._catalog.texts(of_packs).items()}

    def _needed(self, skill: Skill, required: Sequence[str]) -> tuple[str, ...]:
        """Return the tools that a skill needs by the config, followed by those that its text requires."""
        return (*self._bindings.settings_of(skill).tools, *required)

    def named_by(self, session: Session, skill: Skill, text: SkillText) -> ResolvedTools:
        """Return the tools named by a skill that the session's caller may use."""
        catalog, spellings = self._indexer.current(), spellings_in(skill, text)
        every = self._needed(skill, spellings.every)
        return self._bindings.resolve(catalog, self._gate.allowed(session, catalog), every)

    def unlisted(self, permissions: Permissions, names: Iterable[str]) -> frozenset[str]:
        """Return those of ``names``, which the caller has no tool of, that a server may have which was never listed.

        What counts is the server that a name belongs to, not whether the tool is denied, which would show otherwise.
        """
        wanted = frozenset(names)
        servers = [key for key in self._indexer.unlisted() if permissions.permits_some_of(key)] if wanted else ()
        return frozenset(name for name in wanted if _may_be_of(name, servers))

    # -- the tools named in an answer ------------------------------------------------------------

    def describe(
        self, session: Session, skills: Sequence[LoadedSkill], estimate: Callable[[str], int], max_tokens: int
    ) -> ToolsText:
        """Return text about the tools of some skills in the state after their activation, within ``max_tokens``.

        It has public names with their states; denied and nonexistent tools are counted together, so that a count does
        not reveal what is denied.
        """
        named_by = [(given, self._needed(given.skill, given.spellings.every)) for given in skills]
        if not any(names for _, names in named_by):  # most skills name no tools
            return ToolsText("", frozenset())
        catalog = self._indexer.current()
        allowed = self._gate.allowed(session, catalog)
        opened = self._gate.opened(session, catalog, changed(session.skills.skills, self._joining(skills)))
        is_listed = self._gate.shows_opened(session)

        def tools(given: LoadedSkill, named: ResolvedTools) -> Iterator[_Tool]:
            written = {note.tool: note.note for note in given.text.tools}
            notes = {tool.row: written.get(name, "") for name, tools in named.by_spelling.items() for tool in tools}
            # A list that shows these tools has their signatures already.
            signed = () if is_listed else [tool.row for tool in named.tools if tool.row in opened]
            cards = self._views.view(catalog, allowed).cards(signed) if signed else {}
            for tool in named.tools:
                signature = cards[tool.row].signature if tool.row in cards else ""
                state = self._states.state(session, tool, opened.keys())
                yield _Tool(tool.public_name, state, signature, notes[tool.row])

        sections: list[_Section] = []
        for given, names in named_by:
            named = self._bindings.resolve(catalog, allowed, names)
            if named.by_spelling or named.missing:
                needed = self._needed(given.skill, given.spellings.required)
                lacking = len(set(needed).intersection(named.missing))
                unlisted = len(self.unlisted(allowed.permissions, named.missing))
                missing = len(named.missing) - unlisted
                sections.append(_Section(given.text.name, tuple(tools(given, named)), missing, unlisted, lacking))
        handle = session.skills.handle
        has_scoped = handle and any(tool.row in opened for tool in allowed.scoped)
        call = _CALL_WITH_HANDLE.format(handle) if has_scoped else _CALL
        text = _fitting(sections, call, lambda text: estimate(text) <= max_tokens)
        return ToolsText(text, frozenset(tool.name for section in sections for tool in section.tools))

    # -- which skills are active -----------------------------------------------------------------

    async def activate(self, session: Session, skills: Sequence[LoadedSkill]) -> None:
        """Activate the skills whose text was delivered, in this order; emit events about the effects."""
        before = session.skills.skills
        joining = self._joining(each for each in skills if each.is_delivered)
        await session.activations.change_skills(session.skills, joining)
        self._keep(session)
        catalog, after = self._indexer.current(), {each.id for each in session.skills.skills}
        reason = "exclusive" if any(each.exclusive for each in joining) else "explicit"
        self._emit_deactivated(session, [each for each in before if each.id not in after], reason)
        self._emit_activated(session, catalog)
        if session.skills.skills == before:
            return
        opened = self._gate.opened(session, catalog).keys() - self._gate.opened(session, catalog, before).keys()
        for tool in self._gate.allowed(session, catalog).tools if opened else ():
            if tool.row in opened and tool.public_name not in session.activations.names:
                scope = self._gate.scope
                activated = ToolActivated(tool.public_name, activation_scope=scope, source="skill", reason="skill")
                self._events.emit(activated, session=session.label)

    async def deactivate(self, session: Session, names: Iterable[str]) -> list[str]:
        """Deactivate skills; return those of ``names`` that match none."""
        unknown: list[str] = []
        for name in names:
            meant = [each for each in session.skills.skills if each.is_called(name)]
            if not meant:
                unknown.append(name)
                continue
            await session.activations.change_skills(session.skills, [Deactivate(tuple(each.id for each in meant))])
            self._emit_deactivated(session, meant, "explicit")
        return unknown

    def _emit_activated(self, session: Session, catalog: Catalog) -> None:
        # A session that resumes what another one activated emits events too: these identify sessions by label.
        known = session.history.reported_active
        session.history.reported_active = frozenset(each.id for each in session.skills.skills)
        for each in session.skills.skills:
            if each.id not in known:
                spellings = (*self._bindings.settings_of(each).tools, *each.tools)
                named = self._bindings.resolve(catalog, self._gate.allowed(session, catalog), spellings)
                self._events.emit(SkillActivated(each.label, len(named.tools)), session=session.label)

    def _emit_deactivated(self, session: Session, gone: Iterable[ActiveSkill], reason: str) -> None:
        for each in gone:
            session.history.reported_active -= {each.id}
            self._events.emit(SkillDeactivated(each.label, reason), session=session.label)

    def _joining(self, skills: Iterable[LoadedSkill]) -> list[Activate]:
        joining: list[Activate] = []
        for given in skills:
            skill = given.skill
            # Where the name itself is redacted, events and lists of active skills have the id instead.
            label = skill.name if given.text.name == skill.name else skill.id
            active = ActiveSkill(skill.id, skill.name, skill.source, given.uri, label, given.spellings.every)
            joining.append(Activate(active, exclusive=self._bindings.settings_of(skill).exclusive))
        return joining


# -- the text about tools --------------------------------------------------------------------------


class _Detail(NamedTuple):
    """A level of detail: how many tools of a skill, how many signatures, with their authors' notes or not."""

    tools: int
    signed: int
    notes: bool


def _fitting(sections: Sequence[_Section], call: str, fits: Callable[[str], bool]) -> str:
    """Return as much text about the tools of skills as fits: first what a skill lacks, last how to call them."""
    if not sections:
        return ""
    needs = [_need(section) for section in sections if section.lacking]
    for detail in _details(min(max(len(section.tools) for section in sections), _TOOLS_MAX)):
        lines = [line for section in sections for line in _lines(section, detail)]
        text = "\n".join([*needs, *lines, *([call] if detail.tools else [])])
        if fits(text):
            return text
    text = "\n".join(needs)
    return text if fits(text) else ""


def _details(most: int) -> Iterator[_Detail]:
    """Yield levels of decreasing detail: notes go first, then signatures, then tools."""
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


def _need(section: _Section) -> str:
    what = "a tool that is" if section.lacking == 1 else f"{section.lacking} tools that are"
    return f"{_name(section)} needs {what} not available now: its steps may not work."


def _lines(section: _Section, detail: _Detail) -> Iterator[str]:
    yield f"SKILL TOOLS: {_name(section)}"
    for number, tool in enumerate(section.tools[: detail.tools]):
        named = tool.signature if tool.signature and number < detail.signed else tool.name
        note = f": {truncate(inert_line(tool.note), _NOTE_MAX)}" if tool.note and detail.notes else ""
        yield f"- {named} [{tool.state}]{note}"
    if len(section.tools) > detail.tools:
        yield f"- and {len(section.tools) - detail.tools} more"
    if section.missing:
        yield f"{_counted(section.missing)} that it names: not available now."
    if section.unlisted:
        yield f"{_counted(section.unlisted)} that it names: of servers that are not listed yet."


def _counted(tools: int) -> str:
    return "1 tool" if tools == 1 else f"{tools} tools"


def _may_be_of(name: str, servers: Iterable[str]) -> bool:
    """Return whether a spelling may be that of a tool of one of these servers; a bare name may be any server's."""
    spelled = host_spellings(name)
    return any(not SEPARATOR.search(spelled[-1]) or may_belong_to(each, key) for each in spelled for key in servers)


def _name(section: _Section) -> str:
    return truncate(inert_line(section.skill), _NAME_MAX)
