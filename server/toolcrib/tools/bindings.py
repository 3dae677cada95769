"""The tools that skills name: which tools of servers their spellings mean, and which of them active skills open.

Knows the config's `skill_tools`, and how authors and hosts spell tools; never knows sessions, texts of skills or lists.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from toolcrib.access.active_skills import Active
from toolcrib.base.names import SEPARATOR, host_spellings, tool_matcher
from toolcrib.base.recent import RecentBy
from toolcrib.config.schema import ToolcribSection
from toolcrib.config.skills_schema import SkillToolsConfig
from toolcrib.model import BUILTIN_NAMES, LoadingMode, Tool
from toolcrib.tools.index.catalog import Catalog, Permitted

_GLOB = re.compile(r"[*?\[]")
_OF_A_HOST = re.compile(r"[A-Z][A-Za-z]*\Z")
"""How hosts spell their own tools: ``Read``, ``WebFetch``."""
_GLOB_MAX = 100
"""Tools that one glob may mean."""
_OPENED_MAX, _MEANT_MAX = 256, 10_000
"""Sets of active skills, and spellings, of which it is remembered what they mean."""
_NOTHING = SkillToolsConfig()


class NamesSkill(Protocol):
    """What a skill is called, in the config too."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """Its name, which others may have too."""
        ...

    @property
    def source(self) -> str:
        """The label of the root that it is of."""
        ...


@dataclass(frozen=True, slots=True)
class NamedTools:
    """What a list of spellings means to a caller: ``by_spelling`` has the tools of each that means some.

    ``missing`` are those that mean none: whether such a tool is denied or nobody has it is not told apart.
    """

    by_spelling: Mapping[str, tuple[Tool, ...]]
    missing: tuple[str, ...]

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, each once."""
        return tuple({tool.row: tool for tools in self.by_spelling.values() for tool in tools}.values())


class Bindings:
    """What the config says of the tools of skills, and which tools active skills open by that."""

    def __init__(self, section: ToolcribSection) -> None:
        self._entries = section.skill_tools
        self._meant = RecentBy[Catalog, tuple[tuple[int, ...], str], tuple[Tool, ...]](_MEANT_MAX)
        self._opened = RecentBy[Catalog, tuple[tuple[int, ...], Active], Mapping[int, str]](_OPENED_MAX)
        deferred = {LoadingMode.DEFERRED} if section.skills.tool_activation == "auto" else set[LoadingMode]()
        self._opens = frozenset({LoadingMode.SKILL, *deferred})

    def of(self, skill: NamesSkill) -> SkillToolsConfig:
        """Return what the config says of one skill, by the spelling that is most its own."""
        spellings = (skill.id, f"{skill.source}/{skill.name}", skill.name)
        return next((self._entries[each] for each in spellings if each in self._entries), _NOTHING)

    def named(self, catalog: Catalog, permitted: Permitted, spellings: Iterable[str]) -> NamedTools:
        """Return the tools among those ``permitted`` that spellings of skills mean.

        A public name, ``S.T`` and the like, ``mcp__S__T``, a bare name that one tool alone has, or a glob of these. Our
        own tools and those of hosts are none of a server: they are neither found nor missing.
        """
        found: dict[str, tuple[Tool, ...]] = {}
        missing: list[str] = []
        known, key = self._meant[catalog], permitted.permissions.key
        for spelling in dict.fromkeys(spellings):
            tools = known.get((key, spelling), partial(_meant, catalog, permitted, spelling))
            if tools:
                found[spelling] = tools
            elif not is_of_others(spelling):
                missing.append(spelling)
        return NamedTools(found, tuple(missing))

    def opened(self, catalog: Catalog, permitted: Permitted, active: Active) -> Mapping[int, str]:
        """Return the rows of the tools that active skills open to a caller, each with the first skill that names it.

        ``permitted`` is what the caller's policy permits, scoped to skills or not.
        """
        if not active:
            return {}
        key = permitted.permissions.key, active
        return self._opened[catalog].get(key, lambda: self._worked_out(catalog, permitted, active))

    def _worked_out(self, catalog: Catalog, permitted: Permitted, active: Active) -> dict[int, str]:
        found: dict[int, str] = {}
        for skill in active:
            for tool in self.named(catalog, permitted, (*self.of(skill).tools, *skill.tools)).tools:
                if tool.loading_mode in self._opens:
                    found.setdefault(tool.row, skill.label)
        return found


def is_of_others(spelling: str) -> bool:
    """Return whether a spelling means no tool of a server, but one of ours or of a host."""
    # A host's Bash(git:*) is read as the tool Bash with a note, but may also stand there whole.
    own = SEPARATOR.split(spelling)[-1]
    return own in BUILTIN_NAMES or bool(_OF_A_HOST.match(spelling.partition("(")[0]))


def is_glob(spelling: str) -> bool:
    """Return whether a spelling has wildcards."""
    return _GLOB.search(spelling) is not None


def _meant(catalog: Catalog, permitted: Permitted, spelling: str) -> tuple[Tool, ...]:
    if not is_glob(spelling):
        tools = (catalog.find(each, permitted) for each in host_spellings(spelling))
        return tuple(next(([tool] for tool in tools if tool), ()))
    matches = tool_matcher([spelling])
    meant = (tool for tool in permitted.tools if matches(tool.server, tool.name, tool.public_name))
    return tuple(tool for tool, _ in zip(meant, range(_GLOB_MAX), strict=False))
