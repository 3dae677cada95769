"""``tool_call`` and ``tool_call_read``: what a model reads of them, and their arguments.

Knows the words that a model reads; never knows how a tool is called, and passes its result on as it is.
"""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Strict

from toolcrib.access.sessions import Session
from toolcrib.model import JsonObject
from toolcrib.tools.use_cases import ToolUseCases
from toolcrib.wire.builtin.schemas import described
from toolcrib.wire.builtin.tool import ALWAYS_LOAD, Arguments, BuiltinParts, BuiltinTool, CallMaker


class CallArguments(Arguments):
    """The arguments of ``tool_call`` and ``tool_call_read``; ``arguments`` is forgiven its shape later on."""

    name: Annotated[str, Strict()]
    arguments: Any = None


class CallTool(BuiltinTool[CallArguments]):
    """Calls any permitted tool."""

    name: ClassVar[str] = "tool_call"
    arguments = CallArguments

    def __init__(self, tool_use_cases: ToolUseCases, *, searchable: bool) -> None:
        self._tool_use_cases = tool_use_cases
        which = "tool that toolcrib's tool_search finds" if searchable else "tool of toolcrib's servers"
        self.definition = {
            "title": "Call a tool",
            "description": (
                f"Call any {which}.\n"
                'Examples:\n- args: {"name":"time__get_current_time","arguments":{"timezone":"UTC"}}'
            ),
            "inputSchema": _input_schema(),
            "annotations": {"destructiveHint": True, "openWorldHint": True},
            **ALWAYS_LOAD,
        }

    @classmethod
    def offered_by(cls, parts: BuiltinParts) -> Self | None:
        """Return the tool unless all tools are listed."""
        section = parts.settings.toolcrib.tool_search
        return cls(parts.tool_use_cases, searchable=section.include_search_tool) if section.enabled else None

    async def run(self, session: Session, given: CallArguments, call: CallMaker) -> JsonObject:
        """Call the tool that the arguments name."""
        return await self._tool_use_cases.call_any(session, call(given.name, given.arguments))


class CallReadOnly(BuiltinTool[CallArguments]):
    """Calls permitted tools that their servers declare read-only."""

    name: ClassVar[str] = "tool_call_read"
    arguments = CallArguments

    def __init__(self, tool_use_cases: ToolUseCases) -> None:
        self._tool_use_cases = tool_use_cases
        self.definition = {
            "title": "Call a read-only tool",
            "description": "Call a tool that its server declares read-only; refuses others.",
            "inputSchema": _input_schema(),
            "annotations": {"readOnlyHint": True, "openWorldHint": True},
            **ALWAYS_LOAD,
        }

    @classmethod
    def offered_by(cls, parts: BuiltinParts) -> Self | None:
        """Return the tool where calls that only read are kept apart."""
        section = parts.settings.toolcrib
        return cls(parts.tool_use_cases) if section.tool_search.enabled and section.gate.call_tools == "split" else None

    async def run(self, session: Session, given: CallArguments, call: CallMaker) -> JsonObject:
        """Call the tool that the arguments name, if it only reads."""
        return await self._tool_use_cases.call_any(session, call(given.name, given.arguments), read_only=True)


def _input_schema() -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "name": described("string", "Its name"),
            "arguments": {**described("object", "Its arguments"), "default": {}},
        },
        "required": ["name"],
    }
