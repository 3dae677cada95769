"""Keys that a config may hold, because blocks from elsewhere have them, and that change nothing here.

Knows each such key and why; never knows what the other keys do.
"""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from toolcrib.config.findings import join
from toolcrib.config.schema import ToolcribSection
from toolcrib.errors import Problem

_NO_FALLBACK = "has no effect: full-text search needs no FTS5, so nothing ever falls back to patterns"

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
