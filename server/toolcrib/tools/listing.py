"""How a tool is shown to a client: its own definition under its public name, and a search hit's few lines.

Knows definitions and texts; never knows sessions, scores or protocol eras.
"""

from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.config.schema import ToolExamplesSection
from toolcrib.model import JsonObject, LoadingMode, SideEffects, Tool
from toolcrib.tools.definitions.examples import describe, render
from toolcrib.tools.index.rows import Card

SOURCE_META = "toolcrib/source"
"""The ``_meta`` key that tells a client where a listed tool comes from (R203)."""

_SIGNATURE_DESCRIPTION = 100
_SCHEMA_DESCRIPTION = 600


def listed_definition(tool: Tool, definition: JsonObject, card: Card, section: ToolExamplesSection) -> JsonObject:
    """Return the downstream's definition, unchanged but for its name, the examples block and the source."""
    block = render(card.examples, include_descriptions=section.include_descriptions)
    shown = {
        **definition,
        "name": tool.public_name,
        "_meta": {
            **definition.get("_meta", {}),
            SOURCE_META: {"kind": "server", "owner": tool.server, "tool": tool.name},
        },
    }
    if block:
        shown["description"] = describe(definition.get("description", ""), block)
    return shown


def short_description(card: Card) -> str:
    """Return the first sentence or so, at most 120 characters, without hidden characters."""
    summary, _rest = split_summary(card.description)
    return truncate(one_line(summary), _SIGNATURE_DESCRIPTION)


def long_description(card: Card) -> str:
    """Return the description, at most 600 characters, without hidden characters."""
    return truncate(one_line(card.description), _SCHEMA_DESCRIPTION)


def side_effects_text(effects: SideEffects | None) -> str | None:
    """Return the side effects as the wire has them; None where nobody said."""
    return None if effects is None else effects.value


def is_deferred(tool: Tool) -> bool:
    """Return whether a tool is listed only once activated."""
    return tool.loading_mode is LoadingMode.DEFERRED
