"""``skill_get``: what a model reads of it, its arguments, and its answer.

Knows the words that a model reads; never knows how a skill is read or shortened.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict

from toolcrib.base.model import JsonObject
from toolcrib.policy.sessions import Session
from toolcrib.skills.answers import get_json, get_meta
from toolcrib.skills.requests import GetRequest
from toolcrib.wire.builtin.schemas import TASK_TYPE, TEXT, TEXTS, described, list_of, object_of
from toolcrib.wire.builtin.tool import READ_ONLY, Answer, Arguments, CallMaker, SkillTool

_TOKENS_MIN, _TOKENS_MAX = 200, 6000
_TOKENS = 1500
_NAMES_MAX = 10


class GetArguments(Arguments):
    """The arguments of ``skill_get``."""

    names: Annotated[tuple[Annotated[str, Strict()], ...], Field(min_length=1, max_length=_NAMES_MAX)]
    format: Literal["raw", "injection"] = "injection"
    max_tokens: Annotated[int, Strict(), Field(ge=_TOKENS_MIN, le=_TOKENS_MAX)] = _TOKENS
    file: Annotated[str, Strict(), Field(min_length=1, max_length=1024)] | None = None
    force: Annotated[bool, Strict()] = False


_ANSWER = object_of(
    {
        "skills": list_of(
            object_of(
                {
                    "name": TEXT,
                    "trigger": TEXT,
                    "steps": TEXTS,
                    "id": TEXT,
                    "title": TEXT,
                    "description": TEXT,
                    "task_type": TASK_TYPE,
                    "tags": TEXTS,
                    "requires": TEXTS,
                    "domain": {},
                    "frames": {},
                    "preconditions": TEXTS,
                    "failure_modes": TEXTS,
                    "uri": TEXT,
                    "digest": TEXT,
                    "base": TEXT,
                    "files": TEXTS,
                    "tools": list_of(object_of({"tool": TEXT, "note": TEXT}, ["tool"])),
                    "extra": {"type": "object"},
                },
                ["name", "trigger", "steps"],
            )
        ),
        "formatted_context": TEXT,
        "not_found": TEXTS,
        "ambiguous": {"type": "object", "additionalProperties": TEXTS},
    },
    ["skills", "formatted_context"],
)

_DEFINITION: JsonObject = {
    "title": "Read skills",
    "description": (
        "Load skills by name, within a token budget; they grant no permission.\n"
        'Examples:\n- args: {"names":["pdf-forms"],"max_tokens":3000}'
    ),
    "inputSchema": object_of(
        {
            "names": {
                **TEXTS,
                "minItems": 1,
                "maxItems": _NAMES_MAX,
                "description": "Names, ids or URIs",
            },
            "format": {
                "type": "string",
                "enum": ["raw", "injection"],
                "default": "injection",
                "description": "raw: whole text",
            },
            "max_tokens": {
                **described("integer", "Budget"),
                "minimum": _TOKENS_MIN,
                "maximum": _TOKENS_MAX,
                "default": _TOKENS,
            },
            "file": described("string", "One file of it instead"),
            "force": {**described("boolean", "Send again"), "default": False},
        },
        ["names"],
    ),
    **READ_ONLY,
}


class GetSkills(SkillTool[GetArguments]):
    """Returns skills by name, within a token budget."""

    name: ClassVar[str] = "skill_get"
    answer_schema: ClassVar[JsonObject | None] = _ANSWER
    arguments = GetArguments
    definition = _DEFINITION

    async def run(self, session: Session, given: GetArguments, call: CallMaker) -> Answer:
        """Return the skills; both forms of the answer have the same text.

        Raises:
            BadRequest: ``file`` with several skills, or one that cannot be shown as text.
            UnknownSkill: the skill has no such ``file``.

        """
        request = GetRequest(given.names, given.format, given.max_tokens, given.file, given.force)
        answer = await self._skill_use_cases.get(session, request, call(self.name, None).asker)
        return Answer(answer.formatted, get_json(answer, request), get_meta(answer))
