"""How a tool is listed to a client: its own definition under its public name, with its examples and its source.

Knows definitions; never knows sessions, scores or protocol eras.
"""

from toolcrib.base.model import JsonObject, Tool
from toolcrib.config.schema import ToolExamplesSection
from toolcrib.tools.definitions.examples import describe, render
from toolcrib.tools.index.rows import Card

SOURCE_META = "toolcrib/source"
"""The ``_meta`` key that tells a client where a listed tool comes from (R203)."""


def source_of(tool: Tool, skill: str | None = None) -> JsonObject:
    """Return the origin of a tool: its server, or the skill that makes it available (R203)."""
    if skill is None:
        return {"kind": "server", "owner": tool.server, "tool": tool.name}
    return {"kind": "skill", "owner": skill, "server": tool.server, "tool": tool.name}


def listed_definition(
    tool: Tool, definition: JsonObject, card: Card, section: ToolExamplesSection, skill: str | None = None
) -> JsonObject:
    """Return the downstream's definition, unchanged except for its name, the examples block and the source."""
    block = render(card.examples, include_descriptions=section.include_descriptions)
    shown = {
        **definition,
        "name": tool.public_name,
        "_meta": {
            **definition.get("_meta", {}),
            SOURCE_META: source_of(tool, skill),
        },
    }
    if block:
        shown["description"] = describe(definition.get("description", ""), block)
    return shown
