"""``skill_activate`` and ``skill_deactivate``: what a model reads of them, their arguments, and their answers.

Knows the words that a model reads; never knows what a skill opens. Both are there where tools are scoped to skills.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Field, Strict

from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line
from toolcrib.config.settings import has_scoped_tools
from toolcrib.policy.sessions import Session
from toolcrib.skills.requests import GetRequest
from toolcrib.skills.use_cases import SkillActivation
from toolcrib.wire.builtin.schemas import TEXT, TEXTS, object_of
from toolcrib.wire.builtin.tool import READ_ONLY, Answer, Arguments, BuiltinParts, CallMaker, SkillTool

_NAMES_MAX = 10
_TOLD_TOKENS = 1500
"""Maximum size of an answer, in estimated tokens."""

_NAMES = object_of({"names": {**TEXTS, "description": "As skill_get"}}, ["names"])
_AMBIGUOUS: JsonObject = {"type": "object", "additionalProperties": TEXTS}

_ACTIVATE: JsonObject = {
    "title": "Open the tools of skills",
    "description": 'Open skills\' tools without texts.\nExamples:\n- args: {"names":["pdf"]}',
    "inputSchema": _NAMES,
    **READ_ONLY,
}

_DEACTIVATE: JsonObject = {
    "title": "Close the tools of skills",
    "description": 'Close skills\' tools.\nExamples:\n- args: {"names":["pdf"]}',
    "inputSchema": _NAMES,
    **READ_ONLY,
}


class NamesArguments(Arguments):
    """The arguments of both."""

    names: Annotated[tuple[Annotated[str, Strict()], ...], Field(min_length=1, max_length=_NAMES_MAX)]


class _SwitchesSkills(SkillTool[NamesArguments]):
    arguments = NamesArguments

    @classmethod
    def offered_by(cls, parts: BuiltinParts) -> Self | None:
        """Return the tool if there are skills, and tools that are only available through skills."""
        return super().offered_by(parts) if has_scoped_tools(parts.settings.toolcrib) else None


class ActivateSkills(_SwitchesSkills):
    """Activates skills without returning their texts (R210)."""

    name: ClassVar[str] = "skill_activate"
    answer_schema: ClassVar[JsonObject | None] = object_of(
        {
            "active": TEXTS,
            "not_found": TEXTS,
            "ambiguous": {"type": "object", "additionalProperties": TEXTS},
            "note": TEXT,
        },
        ["active"],
    )
    definition = _ACTIVATE

    async def run(self, session: Session, given: NamesArguments, call: CallMaker) -> Answer:
        """Activate the skills; return which are active now, and which tools that makes available.

        Raises:
            NotConfirmed: a person has to confirm first, as for the text.

        """
        request = GetRequest(given.names, max_tokens=_TOLD_TOKENS)
        answer = await SkillActivation(self._skill_use_cases).activate(session, request, call(self.name, None).asker)
        active = _active(session)
        said: JsonObject = {"active": active}
        said |= {"not_found": list(answer.not_found)} if answer.not_found else {}
        said |= (
            {"ambiguous": {name: list(names) for name, names in answer.ambiguous.items()}} if answer.ambiguous else {}
        )
        said |= {"note": answer.formatted} if answer.formatted else {}
        return Answer("\n".join(filter(None, [_text(active), answer.formatted])), said)


class DeactivateSkills(_SwitchesSkills):
    """Deactivates skills, and so the tools that only they have made available (R210)."""

    name: ClassVar[str] = "skill_deactivate"
    answer_schema: ClassVar[JsonObject | None] = object_of({"active": TEXTS, "not_active": TEXTS}, ["active"])
    definition = _DEACTIVATE

    async def run(self, session: Session, given: NamesArguments, _call: CallMaker) -> Answer:
        """Deactivate the skills; return which are still active."""
        unknown = await SkillActivation(self._skill_use_cases).deactivate(session, given.names)
        active = _active(session)
        lines = [_text(active), *([f"Not active: {', '.join(map(one_line, unknown))}"] if unknown else [])]
        return Answer("\n".join(lines), {"active": active, **({"not_active": unknown} if unknown else {})})


def _active(session: Session) -> list[str]:
    return [skill.label for skill in session.skills.skills]


def _text(active: list[str]) -> str:
    return f"Active skills: {', '.join(map(one_line, active)) or 'none'}."
