"""The built-in tools in order, those that a config offers, and the dispatch of a call."""

from typing import Any

from toolcrib.base.model import JsonObject
from toolcrib.policy.sessions import Session
from toolcrib.server.builtin.skills import (
    ActivateSkills,
    DeactivateSkills,
    GetSkills,
    ListSkills,
    ReportOutcome,
    SearchSkills,
)
from toolcrib.server.builtin.tool import Answer, BuiltinParts, BuiltinTool, CallMaker, Handles, checked
from toolcrib.server.builtin.tools import CallReadOnly, CallTool, ReadMore, SearchTools

BUILTINS: tuple[type[BuiltinTool[Any]], ...] = (
    SearchTools,
    CallTool,
    CallReadOnly,
    SearchSkills,
    GetSkills,
    ListSkills,
    ActivateSkills,
    DeactivateSkills,
    ReportOutcome,
    ReadMore,
)
"""All built-in tools, in listing order; a new one needs its own file and a line here."""


class Builtins:
    """The built-in tools of one configuration."""

    def __init__(self, parts: BuiltinParts) -> None:
        offered = (tool.offered_by(parts) for tool in BUILTINS)
        self._tools = {tool.name: tool for tool in offered if tool is not None}
        self._handles = Handles(parts.settings.toolcrib, parts.scopes)
        self._gate, self._indexer = parts.tool_use_cases.gate, parts.tool_use_cases.indexer

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def shown_to(self, session: Session) -> list[JsonObject]:
        """Return the definitions of these tools for the session's caller, in order."""
        shown = {name: tool.shown_to(session) for name, tool in self._tools.items()}
        return [
            {"name": name, **self._handles.shown(session, name, definition)}
            for name, definition in shown.items()
            if definition is not None
        ]

    async def run(self, session: Session, name: str, arguments: JsonObject, call: CallMaker) -> JsonObject:
        """Return the ``tools/call`` result of one of these tools.

        Raises:
            BadRequest: the arguments are invalid, or cannot be served.
            UnknownSkill: an argument names a file that a skill does not have.

        """
        tool = self._tools[name]
        arguments = self._handles.taken(session, name, arguments)
        active = session.skills.skills
        answer = await tool.run(session, checked(tool.arguments, arguments), call)
        if self._gate.shows_otherwise(session, self._indexer.current(), active):
            await call(name, None).announce()
        if not isinstance(answer, Answer):
            return answer
        result: JsonObject = {"content": [{"type": "text", "text": answer.text}], "isError": False}
        if answer.meta:
            result["_meta"] = answer.meta
        return {**result, "structuredContent": answer.structured} if session.served.structured else result
