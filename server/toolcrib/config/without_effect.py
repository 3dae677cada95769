"""Keys of a config that have no effect: accepted for compatibility, or missing another key they depend on.

Knows each such key and why; never knows what the other keys do.
"""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from toolcrib.base.errors import Problem
from toolcrib.config.findings import join
from toolcrib.config.schema import ToolcribSection
from toolcrib.config.scoping import has_scoped_tools

_NO_FALLBACK = "has no effect: full-text search needs no FTS5, so nothing ever falls back to patterns"

_NOTHING_SCOPED = "has no effect: this entry has no tools"
_NAME_TOOLS = "name them in 'tools': what the skill's own text names is scoped by server or pattern only"
_NEVER_OPEN = "is false, but some tools are scoped to skills: nobody can ever use them"
_SWITCH_ON = "enable skills, or remove the loading mode 'skill' and 'scoped'"

REASONS: Mapping[tuple[str, str], str] = {
    ("tool_search", "fts_fallback_to_regex"): _NO_FALLBACK,
    ("skills", "fts_fallback_to_regex"): _NO_FALLBACK,
    ("skills", "summarize"): "has no effect: skills are shortened by their structure, without a model",
}
"""By section and key, what to tell a person who sets it."""


def keys_without_effect(section: ToolcribSection) -> Iterator[Problem]:
    """Yield a note on each key that the config sets and that changes nothing, whatever its value."""
    for (part, key), reason in REASONS.items():
        inner: BaseModel = getattr(section, part)
        if key in inner.model_fields_set:
            yield Problem(join("toolcrib", part, key), reason)
    for skill, entry in section.skill_tools.items():
        if entry.scoped and not entry.tools:
            yield Problem(join("toolcrib", "skill_tools", skill, "scoped"), _NOTHING_SCOPED, _NAME_TOOLS)
    if has_scoped_tools(section) and not section.skills.enabled:
        yield Problem(join("toolcrib", "skills", "enabled"), _NEVER_OPEN, _SWITCH_ON)
