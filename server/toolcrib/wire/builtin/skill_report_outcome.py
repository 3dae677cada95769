"""``skill_report_outcome``: what a model reads of it, its arguments, and its answer.

Knows the words that a model reads; never knows what is done with a report.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Field, Strict

from toolcrib.base.model import REPORT_OUTCOME, JsonObject
from toolcrib.policy.sessions import Session
from toolcrib.skills.outcomes import OutcomeReports, OutcomeRequest
from toolcrib.wire.builtin.schemas import FLAG, TEXT, object_of
from toolcrib.wire.builtin.tool import ALWAYS_LOAD, Answer, Arguments, BuiltinParts, BuiltinTool, CallMaker

_NAME_MAX, _NOTE_MAX = 1024, 2000


class OutcomeArguments(Arguments):
    """The arguments of ``skill_report_outcome``."""

    name: Annotated[str, Strict(), Field(min_length=1, max_length=_NAME_MAX)]
    success: Annotated[bool, Strict()]
    note: Annotated[str, Strict(), Field(max_length=_NOTE_MAX)] | None = None


_DEFINITION: JsonObject = {
    "title": "Report what a skill did",
    "description": 'Report if a skill worked.\nExamples:\n- args: {"name":"pdf-forms","success":false}',
    "inputSchema": object_of(
        {"name": TEXT, "success": FLAG, "note": TEXT},
        ["name", "success"],
    ),
    "annotations": {
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": False,
    },
    **ALWAYS_LOAD,
}


class ReportOutcome(BuiltinTool[OutcomeArguments]):
    """Accepts reports of skills' outcomes; only a config with ``skills.outcomes`` offers it (C19)."""

    name: ClassVar[str] = REPORT_OUTCOME
    answer_schema: ClassVar[JsonObject | None] = object_of({"name": TEXT, "success": FLAG}, ["name", "success"])
    arguments = OutcomeArguments
    definition = _DEFINITION

    def __init__(self, reports: OutcomeReports) -> None:
        self._reports = reports

    @classmethod
    def offered_by(cls, parts: BuiltinParts) -> Self | None:
        """Return the tool if there are skills, and outcomes are configured."""
        is_wanted = parts.skill_use_cases and parts.settings.toolcrib.skills.outcomes
        return cls(OutcomeReports(parts.skill_use_cases)) if parts.skill_use_cases and is_wanted else None

    async def run(self, session: Session, given: OutcomeArguments, _call: CallMaker) -> Answer:
        """Record the report.

        Raises:
            BadRequest: this session has no such skill to report on.

        """
        await self._reports.report(session, OutcomeRequest(given.name, given.success, given.note or ""))
        said = f"Noted: {given.name} {'did' if given.success else 'did not do'} what it was for."
        return Answer(said, {"name": given.name, "success": given.success})
