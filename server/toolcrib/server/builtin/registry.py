"""The built-in tools in order, those that a config offers, and the dispatch of a call."""

from typing import Any

from toolcrib.base.model import JsonObject
from toolcrib.gateway.composition import Generation
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session, SkillScopes
from toolcrib.server.builtin.skills import (
    ActivateSkills,
    DeactivateSkills,
    GetSkills,
    ListSkills,
    ReportOutcome,
    SearchSkills,
)
from toolcrib.server.builtin.tool import Answer, BuiltinTool, Handles, checked
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
    """The built-in tools of one configuration, by name.

    A definition depends on the servers that its caller may use, whether the session has pages to read, and whether its
    skills have a handle.
    """

    def __init__(self, generation: Generation, scopes: SkillScopes) -> None:
        offered = (tool.offered_by(generation) for tool in BUILTINS)
        self.tools = {tool.name: tool for tool in offered if tool is not None}
        self._handles = Handles(generation.settings.toolcrib, scopes)
        self._shown: dict[tuple[tuple[str, ...], bool, bool], list[JsonObject]] = {}
        self._gate, self._indexer = generation.tools.gate, generation.tools.indexer

    def shown_to(self, session: Session) -> list[JsonObject]:
        """Return the definitions of these tools for the session's caller, in order; the same list while they are."""
        depends_on = (self._gate.servers(session), session.reads_more, bool(session.skills.handle))
        known = self._shown.get(depends_on)
        if known is None:
            known = self._shown[depends_on] = self._definitions(session)
        return known

    def _definitions(self, session: Session) -> list[JsonObject]:
        shown = {name: tool.shown_to(session) for name, tool in self.tools.items()}
        return [
            {"name": name, **self._handles.shown(session, name, definition)}
            for name, definition in shown.items()
            if definition is not None
        ]

    async def run(self, request: Request, name: str, arguments: JsonObject) -> JsonObject:
        """Return the ``tools/call`` result of one of these tools.

        Raises:
            BadRequest: the arguments are invalid, or cannot be served.
            UnknownSkill: an argument names a file that a skill does not have.

        """
        tool, session = self.tools[name], request.session
        arguments = self._handles.remove_from(session, name, arguments)
        active = session.skills.skills
        answer = await tool.run(request, checked(tool.arguments, arguments))
        if self._gate.shows_otherwise(session, self._indexer.current(), active):
            await request.notify_tools_changed()
        if not isinstance(answer, Answer):
            return answer
        result: JsonObject = {"content": [{"type": "text", "text": answer.text}], "isError": False}
        if answer.meta:
            result["_meta"] = answer.meta
        return {**result, "structuredContent": answer.structured} if session.client_profile.structured else result
