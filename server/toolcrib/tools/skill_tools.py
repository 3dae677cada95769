"""The states of active skills' tools in a session: ready, deferred, or their server has failed (R204).

Knows sessions, the gate and which servers have failed; never knows texts of skills, or how any of it is shown.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from toolcrib.base.model import LoadingMode, Tool
from toolcrib.policy.sessions import Session
from toolcrib.tools.gate import Gate
from toolcrib.tools.index.catalog import Catalog

SkillTools = Mapping[str, Mapping[str, str]]
"""Active skills by label, each with the public names and states of the tools that it names."""


class SkillToolStates:
    """Determines the states of tools. ``has_failed`` returns whether a server has failed."""

    def __init__(self, gate: Gate, has_failed: Callable[[str], bool]) -> None:
        self._gate, self._has_failed = gate, has_failed

    def state(self, session: Session, tool: Tool, opened: AbstractSet[int]) -> str:
        """Return the state of a tool, given the rows that active skills have opened."""
        if self._has_failed(tool.server):
            return "its server failed"
        is_used = tool.public_name in session.activations.names
        is_ready = is_used or tool.loading_mode is LoadingMode.ALWAYS or tool.row in opened
        return "ready" if is_ready else "deferred"

    def of(self, session: Session, catalog: Catalog) -> SkillTools:
        """Return a session's active skills with those of their tools that its caller may use."""
        if not session.skills.skills:
            return {}
        bindings, allowed = self._gate.bindings, self._gate.allowed(session, catalog)
        opened = self._gate.opened(session, catalog).keys()
        return {
            skill.label: {
                tool.public_name: self.state(session, tool, opened)
                for tool in bindings.named(catalog, allowed, (*bindings.of(skill).tools, *skill.tools)).tools
            }
            for skill in session.skills.skills
        }
