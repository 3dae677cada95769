"""The built-in tools in order, those that a config offers, and the dispatch of a call."""

from typing import Any

from pydantic import ValidationError

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import REPORT_OUTCOME, JsonObject
from toolcrib.config.settings import has_scoped_tools
from toolcrib.gateway.composition import Generation
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session, SkillScopes, WholeList
from toolcrib.server.builtin.programs import RunProgram
from toolcrib.server.builtin.skills import (
    ActivateSkills,
    DeactivateSkills,
    GetSkills,
    ListSkills,
    ReportOutcome,
    SearchSkills,
)
from toolcrib.server.builtin.tool import Answer, Arguments, BuiltinTool, read_as_meant
from toolcrib.server.builtin.tools import CallReadOnly, CallTool, ReadMore, SearchTools

BUILTINS: tuple[type[BuiltinTool[Any]], ...] = (
    SearchTools,
    CallTool,
    CallReadOnly,
    RunProgram,
    SearchSkills,
    GetSkills,
    ListSkills,
    ActivateSkills,
    DeactivateSkills,
    ReportOutcome,
    ReadMore,
)
"""All built-in tools, in listing order; a new one needs its own file and a line here."""

_FINDING = frozenset(tool.name for tool in (SearchTools, CallTool, CallReadOnly))
_OF_SKILLS = frozenset(tool.name for tool in BUILTINS if tool.name.startswith("skill_"))

HANDLE = "handle"
"""The parameter that identifies a scope of skills where no session does."""

_OPENING = frozenset(
    ("tool_search", "tool_call", "tool_call_read", "skill_get", "skill_activate", "skill_deactivate"),
)
"""The tools that have the parameter if some tools are only available through skills."""
_REPORTING = frozenset(("skill_get", REPORT_OUTCOME))
"""The tools that have the parameter if outcomes are reported."""
_HANDLE_SCHEMA: JsonObject = {"type": "string", "description": "From skill_get"}


class Builtins:
    """The built-in tools of one configuration, by name.

    A definition depends on the servers that its caller may use, whether the session has pages to read, and whether its
    skills have a handle. A session that is listed all tools is not shown those for finding and calling them.
    """

    def __init__(self, generation: Generation, scopes: SkillScopes) -> None:
        offered = (tool.offered_by(generation) for tool in BUILTINS)
        self.tools = {tool.name: tool for tool in offered if tool is not None}
        section = generation.settings.toolcrib
        self._scopes, self._take_handles = scopes, frozenset[str]()
        if has_scoped_tools(section):
            self._take_handles |= _OPENING
        if section.skills.outcomes:
            self._take_handles |= _REPORTING
        self._shown: dict[tuple[object, ...], list[JsonObject]] = {}
        self._gate, self._indexer = generation.tools.gate, generation.tools.indexer

    def shown_to(self, session: Session) -> list[JsonObject]:
        """Return the definitions of these tools for the session's caller, in order; the same list while they are."""
        hidden = _unneeded(session.whole_list)
        depends_on = (self._gate.servers(session), session.reads_more, bool(session.skills.handle), hidden)
        # Each list asks twice, and is compared with the one before: the same object is compared at once.
        known = self._shown.get(depends_on)
        if known is None:
            known = self._shown[depends_on] = self._definitions(session, hidden)
        return known

    def _definitions(self, session: Session, hidden: frozenset[str]) -> list[JsonObject]:
        shown = {name: tool.shown_to(session) for name, tool in self.tools.items() if name not in hidden}
        return [
            {"name": name, **(_with_handle(definition) if self._takes_handle(session, name) else definition)}
            for name, definition in shown.items()
            if definition is not None
        ]

    def _takes_handle(self, session: Session, name: str) -> bool:
        return bool(session.skills.handle) and name in self._take_handles

    async def run(self, request: Request, name: str, arguments: JsonObject) -> JsonObject:
        """Return the ``tools/call`` result of one of these tools.

        Raises:
            BadRequest: the arguments are invalid, or cannot be served.
            UnknownSkill: an argument names a file that a skill does not have.

        """
        tool, session = self.tools[name], request.session
        # Before validation, since no model of arguments names it, and each refuses what it does not name.
        if self._takes_handle(session, name):
            arguments = self._resume_scope(session, arguments)
        # After the handle, which may have switched the session to a scope with other active skills.
        active = session.skills.skills
        answer = await tool.run(request, _validated(tool.arguments, arguments))
        # While the request is under way: over HTTP its channel ends with the answer.
        if self._gate.shows_otherwise(session, self._indexer.current(), active):
            await request.notify_tools_changed()
        if not isinstance(answer, Answer):
            return answer
        result: JsonObject = {"content": [{"type": "text", "text": answer.text}], "isError": False}
        if answer.meta:
            result["_meta"] = answer.meta
        # Some hosts show their model both forms, at twice the tokens; these get the text alone (ADR 16).
        return {**result, "structuredContent": answer.structured} if session.client_profile.structured else result

    def _resume_scope(self, session: Session, arguments: JsonObject) -> JsonObject:
        """Switch the session to the scope of the handle in the arguments, if any; return the arguments without it."""
        handle = arguments.get(HANDLE)
        if handle is None:
            return arguments
        if not isinstance(handle, str):
            raise BadRequest(f"'{HANDLE}' must be a text.")
        self._scopes.resume(session, handle)
        return {key: value for key, value in arguments.items() if key != HANDLE}


def _unneeded(whole: WholeList | None) -> frozenset[str]:
    """Return the tools that a session is not shown, though they answer it: it needs no search for what is listed."""
    if whole is None:
        return frozenset()
    return _FINDING if whole.shows_skills else _FINDING | _OF_SKILLS


def _validated(model: type[Arguments], arguments: JsonObject) -> Arguments:
    try:
        return model.model_validate(arguments)
    except ValidationError:
        return read_as_meant(model, arguments)


def _with_handle(definition: JsonObject) -> JsonObject:
    # A copy: the definition itself is shared by all sessions.
    schema = definition["inputSchema"]
    return {**definition, "inputSchema": {**schema, "properties": {**schema["properties"], HANDLE: _HANDLE_SCHEMA}}}
