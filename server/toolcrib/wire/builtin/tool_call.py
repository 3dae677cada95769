"""``tool_call`` and ``tool_call_read``: what a model reads of them, and their arguments.

Knows the words that a model reads; never knows how a tool is called, and passes its result on as it is.
"""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Strict

from toolcrib.base.model import READ_MORE, JsonObject
from toolcrib.catalog.arguments import unwrap_arguments
from toolcrib.gateway.tools import ToolUseCases
from toolcrib.policy.sessions import Session
from toolcrib.wire.builtin.read_more import ReadMore, ReadMoreArguments
from toolcrib.wire.builtin.schemas import described
from toolcrib.wire.builtin.tool import ALWAYS_LOAD, Arguments, BuiltinParts, BuiltinTool, CallMaker, checked


class CallArguments(Arguments):
    """The arguments of ``tool_call`` and ``tool_call_read``; ``arguments`` is forgiven its shape later on."""

    name: Annotated[str, Strict()]
    arguments: Any = None


class _Door(BuiltinTool[CallArguments]):
    """A tool that calls another: one of a server, or ``read_more``, which a constant list does not include (ADR 25)."""

    arguments = CallArguments
    read_only: ClassVar[bool]

    def __init__(self, tool_use_cases: ToolUseCases) -> None:
        self._tool_use_cases = tool_use_cases
        self._read_more = ReadMore(tool_use_cases.long_results)

    async def run(self, session: Session, given: CallArguments, call: CallMaker) -> JsonObject:
        """Call the tool that the arguments name."""
        if given.name == READ_MORE:
            schema = self._read_more.definition["inputSchema"]
            arguments = checked(ReadMoreArguments, unwrap_arguments(given.arguments, schema) or {})
            return await self._read_more.run(session, arguments, call)
        called = call(given.name, given.arguments)
        return await self._tool_use_cases.call_any(session, called, read_only=self.read_only)


class CallTool(_Door):
    """Calls any permitted tool."""

    name: ClassVar[str] = "tool_call"
    read_only = False

    def __init__(self, tool_use_cases: ToolUseCases, *, searchable: bool) -> None:
        super().__init__(tool_use_cases)
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


class CallReadOnly(_Door):
    """Calls permitted tools that their servers declare read-only."""

    name: ClassVar[str] = "tool_call_read"
    read_only = True

    def __init__(self, tool_use_cases: ToolUseCases) -> None:
        super().__init__(tool_use_cases)
        self.definition = {
            "title": "Call a read-only tool",
            "description": "Call a tool that its server declares read-only; refuses others.",
            "inputSchema": _input_schema(),
            "annotations": {"readOnlyHint": True, "openWorldHint": True},
            **ALWAYS_LOAD,
        }

    @classmethod
    def offered_by(cls, parts: BuiltinParts) -> Self | None:
        """Return the tool if read-only calls are separated."""
        section = parts.settings.toolcrib
        return cls(parts.tool_use_cases) if section.tool_search.enabled and section.gate.call_tools == "split" else None


def _input_schema() -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "name": described("string", "Its name"),
            "arguments": {**described("object", "Its arguments"), "default": {}},
        },
        "required": ["name"],
    }
