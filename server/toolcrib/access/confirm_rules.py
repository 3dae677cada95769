"""Which tools a person is asked about before they run.

Knows globs and declared effects; never knows who is asked, or what was answered before.
"""

from toolcrib.base.model import JsonObject, SideEffects, Tool
from toolcrib.base.names import qualified_spellings
from toolcrib.base.text import glob_matcher
from toolcrib.config.schema import ConfirmSection, Effect

_HARMLESS = (SideEffects.PURE, SideEffects.READ)


class ConfirmRules:
    """The section ``policy.confirm``. A glob in any spelling is enough, as for a deny."""

    def __init__(self, section: ConfirmSection) -> None:
        self._is_named = glob_matcher(section.tools)
        self._effects = frozenset[Effect](section.effects)

    def names(self, tool: Tool) -> bool:
        """Return whether the rules name the tool."""
        spellings = (tool.name, *qualified_spellings(tool.server, tool.name, tool.public_name))
        return any(map(self._is_named, spellings))

    def may_concern_effects(self, tool: Tool) -> bool:
        """Return whether the annotations of the tool may decide: it is not known to be harmless."""
        return bool(self._effects) and tool.side_effects not in _HARMLESS

    def concern_effects(self, tool: Tool, annotations: JsonObject) -> bool:
        """Return whether the rules are about an effect of the tool; ``annotations`` are those of its definition."""
        return not self._effects.isdisjoint(effects_of(tool.side_effects, annotations))


def effects_of(side_effects: SideEffects | None, annotations: JsonObject) -> frozenset[Effect]:
    """Return what a tool may do: what is declared of it, and the worst of what is not.

    So the protocol has it: a tool is destructive and open to the world unless it is said that it is not (2025-11-25,
    ToolAnnotations).
    """
    if side_effects in _HARMLESS:
        return frozenset()
    effects: set[Effect] = {"write"}
    is_open = side_effects is None and annotations.get("openWorldHint") is not False
    if is_open or side_effects is SideEffects.EXTERNAL:
        effects.add("external")
    if annotations.get("destructiveHint") is not False:
        effects.add("destructive")
    return frozenset(effects)
