"""Which tools a config scopes to skills: by server, by pattern, or with the skill that names them.

Knows the keys that say so; never knows a tool, or which skills there are.
"""

from toolcrib.base.model import LoadingMode
from toolcrib.config.schema import ToolcribSection


def scoped_globs(section: ToolcribSection) -> tuple[str, ...]:
    """Return the names and globs of tools that are there by skills alone, whatever server they are of."""
    by_skills = (glob for entry in section.skill_tools.values() if entry.scoped for glob in entry.tools)
    return tuple(dict.fromkeys((*section.tool_search.skill_scoped_patterns, *by_skills)))


def needs_scopes(section: ToolcribSection) -> bool:
    """Return whether earlier returned skills matter: for tools, or for outcomes of skills."""
    return section.skills.enabled and (section.skills.outcomes or has_scoped_tools(section))


def has_scoped_tools(section: ToolcribSection) -> bool:
    """Return whether any tool is there by skills alone, as far as the config tells."""
    modes = (section.tool_search, section.server_defaults, *section.servers.values())
    return bool(scoped_globs(section)) or any(each.default_loading_mode is LoadingMode.SKILL for each in modes)
