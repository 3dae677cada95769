"""The tools that skills name: resolves their spellings to tools, and which of them active skills make available.

Knows the config's `skill_tools`, and how authors and hosts spell tools; never knows sessions, texts of skills or lists.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from toolcrib.base.cache import RecentBy
from toolcrib.base.model import BUILTIN_NAMES, LoadingMode, Tool
from toolcrib.base.names import SEPARATOR, host_spellings, tool_matcher
from toolcrib.config.schema import SkillToolsConfig, ToolcribSection
from toolcrib.policy.activations import Active
from toolcrib.tools.index.catalog import Catalog, Permitted

_GLOB = re.compile(r"[*?\[]")
_OF_A_HOST = re.compile(r"[A-Z][A-Za-z]*\Z")
"""How hosts spell their own tools: ``Read``, ``WebFetch``."""
_GLOB_MAX = 100
"""Maximum number of tools that one glob may match."""
_OPENED_MAX, _MEANT_MAX = 256, 10_000
"""Maximum number of cached sets of active skills, and of cached spellings."""
_NOTHING = SkillToolsConfig()


class NamesSkill(Protocol):
    """The names of a skill, also in the config."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """Its name, which need not be unique."""
        ...

    @property
    def source(self) -> str:
        """The label of its root."""
        ...


@dataclass(frozen=True, slots=True)
class NamedTools:
    """The tools that a list of spellings refers to for a caller: ``by_spelling`` has those of each that matches.

    ``missing`` are those that match none: denied and nonexistent tools are indistinguishable.
    """

    by_spelling: Mapping[str, tuple[Tool, ...]]
    missing: tuple[str, ...]

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the distinct tools."""
        return tuple({tool.row: tool for tools in self.by_spelling.values() for tool in tools}.values())


class Bindings:
    """The config's settings for the tools of skills, and the tools that active skills make available by them."""

    def __init__(self, section: ToolcribSection) -> None:
        self._entries = section.skill_tools
        self._meant = RecentBy[Catalog, tuple[tuple[int, ...], str], tuple[Tool, ...]](_MEANT_MAX)
        self._opened = RecentBy[Catalog, tuple[tuple[int, ...], Active], Mapping[int, str]](_OPENED_MAX)
        deferred = {LoadingMode.DEFERRED} if section.skills.tool_activation == "auto" else set[LoadingMode]()
        self._opens = frozenset({LoadingMode.SKILL, *deferred})

    def of(self, skill: NamesSkill) -> SkillToolsConfig:
        """Return the config's settings for one skill, by its most specific spelling."""
        spellings = (skill.id, f"{skill.source}/{skill.name}", skill.name)
        return next((self._entries[each] for each in spellings if each in self._entries), _NOTHING)

    def named(self, catalog: Catalog, permitted: Permitted, spellings: Iterable[str]) -> NamedTools:
        """Return the tools among those ``permitted`` that spellings in skills refer to.

        A public name, ``S.T`` and the like, ``mcp__S__T``, an unambiguous bare name, or a glob of these. Our own tools
        and those of hosts belong to no server: they are neither found nor missing.
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
        """Return the rows of the tools that active skills make available, each with the first skill that names it.

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
    """Return whether a spelling refers to one of our tools or a host's, not a server's."""
    # A host's Bash(git:*) is parsed as the tool Bash with a note, but may also occur unparsed.
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
