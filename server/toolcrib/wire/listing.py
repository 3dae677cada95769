"""The list of tools that a session is shown: ours first, then those of servers.

Knows the order, and what the operator is told about a list; never knows the protocol.
"""

from toolcrib.base.json_values import compact
from toolcrib.base.model import JsonObject
from toolcrib.base.names import name_digest
from toolcrib.events.kinds import ToolsListed
from toolcrib.events.log import EventLog
from toolcrib.gateway.tools import ToolUseCases
from toolcrib.policy.sessions import Session
from toolcrib.wire.builtin.registry import Builtins

_NAMES_TOLD = 50


class Listing:
    """Creates tool lists for one configuration."""

    def __init__(self, tool_use_cases: ToolUseCases, builtins: Builtins, events: EventLog) -> None:
        self._tool_use_cases, self._builtins, self._events = tool_use_cases, builtins, events

    async def of(self, session: Session) -> list[JsonObject]:
        """Return the definitions in a session's ``tools/list``."""
        downstream_tools = await self._tool_use_cases.list_tools(session)
        return [*self._builtins.shown_to(session), *downstream_tools]

    async def given_to(self, session: Session) -> list[JsonObject]:
        """Return the same for a session that has requested it, and emit events about it."""
        tools = await self.of(session)
        own = self._builtins.shown_to(session)
        marks = self._tool_use_cases.gate.marks(session, self._tool_use_cases.indexer.current())
        names = [tool["name"] for tool in tools[len(own) : len(own) + _NAMES_TOLD]]
        digest = name_digest(compact([own, marks]))
        self._events.emit(ToolsListed(len(tools), names, digest), session=session.label)
        return tools
