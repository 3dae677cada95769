"""``skill_list``: what a model reads of it, its arguments, and its answer.

Knows the words that a model reads; never knows where skills come from.
"""

from typing import Annotated, ClassVar

from pydantic import Field, Strict

from toolcrib.base.model import JsonObject, ScopeMode, SkillOrigin, TaskType
from toolcrib.policy.sessions import Session
from toolcrib.skills.answers import list_json
from toolcrib.skills.requests import ListAnswer, ListRequest
from toolcrib.wire.builtin.schemas import (
    COUNT,
    FLAG,
    ORIGIN,
    SCOPE,
    TASK_TYPE,
    TEXT,
    USABLE,
    described,
    list_of,
    object_of,
)
from toolcrib.wire.builtin.tool import READ_ONLY, Answer, Arguments, CallMaker, SkillTool

_PAGE, _PAGE_MAX = 50, 200


class ListArguments(Arguments):
    """The arguments of ``skill_list``."""

    task_type: TaskType | None = None
    origin: SkillOrigin | None = None
    scope: ScopeMode | None = None
    source: Annotated[str, Strict()] | None = None
    cursor: Annotated[str, Strict()] | None = None
    page_size: Annotated[int, Strict(), Field(ge=1, le=_PAGE_MAX)] = _PAGE
    usable: Annotated[bool, Strict()] = False


_ANSWER = object_of(
    {
        "skills": list_of(
            object_of(
                {
                    "name": TEXT,
                    "trigger": TEXT,
                    "task_type": TASK_TYPE,
                    "origin": ORIGIN,
                    "scope": SCOPE,
                    "source": TEXT,
                },
                ["name", "trigger", "task_type", "origin", "scope", "source"],
            )
        ),
        "total": COUNT,
        "next_cursor": TEXT,
        "truncated": FLAG,
        "errors_count": COUNT,
        "errors": list_of(
            object_of({"path": TEXT, "source": TEXT, "line": COUNT, "message": TEXT}, ["path", "message"])
        ),
    },
    ["skills", "total"],
)

_DEFINITION: JsonObject = {
    "title": "List skills",
    "description": 'List skills page by page.\nExamples:\n- args: {"page_size":20}',
    "inputSchema": {
        "type": "object",
        "properties": {
            "task_type": {**described("string", "Kind"), **TASK_TYPE},
            "origin": {**described("string", "Origin"), **ORIGIN},
            "scope": {**described("string", "Scope"), **SCOPE},
            "source": described("string", "Source"),
            "cursor": described("string", "From next_cursor"),
            "page_size": {
                **described("integer", "Skills a page"),
                "minimum": 1,
                "maximum": _PAGE_MAX,
                "default": _PAGE,
            },
            "usable": USABLE,
        },
    },
    **READ_ONLY,
}


class ListSkills(SkillTool[ListArguments]):
    """Lists skills page by page."""

    name: ClassVar[str] = "skill_list"
    answer_schema: ClassVar[JsonObject | None] = _ANSWER
    arguments = ListArguments
    definition = _DEFINITION

    async def run(self, session: Session, given: ListArguments, _call: CallMaker) -> Answer:
        """Return one page.

        Raises:
            BadRequest: the cursor is invalid.

        """
        request = ListRequest(**given.model_dump())
        answer = await self._skill_use_cases.list_skills(session, request)
        return Answer(_text(answer), list_json(answer))


def _text(answer: ListAnswer) -> str:
    """Return the page as lines, and what was omitted from the list and why."""
    lines = [f"{len(answer.skills)} of {answer.total} skills"]
    lines += [f"- {shown.name} ({shown.skill.source}): {shown.trigger}" for shown in answer.skills]
    if answer.next_cursor:
        lines.append(f"More with cursor {answer.next_cursor}")
    if answer.errors:
        lines.append(f"Left out ({answer.errors_count}):")
        lines += [f"- {error.place}: {error.message}" for error in answer.errors]
    return "\n".join(lines)
