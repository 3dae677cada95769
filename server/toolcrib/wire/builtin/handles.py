"""The parameter with which a client without a session stays in one scope of skills across calls.

Knows which of our tools take it, and what a model reads of it; never knows what is active in a scope.
"""

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import REPORT_OUTCOME, JsonObject
from toolcrib.config.schema import ToolcribSection
from toolcrib.config.settings import has_scoped_tools
from toolcrib.policy.sessions import Session, SkillScopes

HANDLE = "handle"

_OPENING = frozenset(
    ("tool_search", "tool_call", "tool_call_read", "skill_get", "skill_activate", "skill_deactivate"),
)
"""The tools that take it if some tools are only available through skills."""
_REPORTING = frozenset(("skill_get", REPORT_OUTCOME))
"""The tools that take it if outcomes are reported."""
_PARAMETER: JsonObject = {"type": "string", "description": "From skill_get"}


class Handles:
    """Removes the parameter from calls and adds it to definitions, for sessions whose scope has a handle."""

    def __init__(self, section: ToolcribSection, scopes: SkillScopes) -> None:
        self._scopes = scopes
        opening = _OPENING if has_scoped_tools(section) else frozenset[str]()
        self._taken_by = opening | (_REPORTING if section.skills.outcomes else frozenset[str]())

    def shown(self, session: Session, name: str, definition: JsonObject) -> JsonObject:
        """Return a definition with the parameter, if the tool takes it from this session."""
        if not self._takes(session, name):
            return definition
        schema = definition["inputSchema"]
        return {**definition, "inputSchema": {**schema, "properties": {**schema["properties"], HANDLE: _PARAMETER}}}

    def taken(self, session: Session, name: str, arguments: JsonObject) -> JsonObject:
        """Switch the session to the scope of the handle in the arguments, if any; return the arguments without it.

        Raises:
            BadRequest: it is not a valid handle of this caller.

        """
        if not self._takes(session, name) or arguments.get(HANDLE) is None:
            return arguments
        handle = arguments[HANDLE]
        if not isinstance(handle, str):
            raise BadRequest(f"'{HANDLE}' must be a text.")
        self._scopes.take_up(session, handle)
        return {key: value for key, value in arguments.items() if key != HANDLE}

    def _takes(self, session: Session, name: str) -> bool:
        return bool(session.skills.handle) and name in self._taken_by
