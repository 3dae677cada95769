"""``skill_search``: what a model reads of it, its arguments, and its answer.

Knows the words that a model reads; never knows how skills are found.
"""

import json
from typing import Annotated, ClassVar, Self

from pydantic import Field, Strict

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import JsonObject, TaskType
from toolcrib.config.schema import SkillsSearchSection
from toolcrib.policy.sessions import Session
from toolcrib.skills.answers import search_json
from toolcrib.skills.requests import SearchAnswer
from toolcrib.skills.search import SkillQuery
from toolcrib.skills.use_cases import SkillUseCases
from toolcrib.wire.builtin.schemas import (
    CONFIDENCE,
    COUNT,
    FLAG,
    SCOPE,
    SCORE,
    SEARCH_TYPE,
    TASK_TYPE,
    TEXT,
    USABLE,
    described,
    list_of,
    object_of,
)
from toolcrib.wire.builtin.tool import (
    READ_ONLY,
    SEARCH_TYPES,
    Answer,
    Arguments,
    BuiltinParts,
    BuiltinTool,
    CallMaker,
    SearchTypeName,
)

_SOURCE_MAX = 200


class SearchArguments(Arguments):
    """The arguments of ``skill_search``."""

    query: Annotated[str, Strict()]
    search_type: SearchTypeName = "fts"
    limit: Annotated[int, Strict(), Field(ge=1)] | None = None
    task_type: TaskType | None = None
    source: Annotated[str, Strict(), Field(min_length=1, max_length=_SOURCE_MAX)] | None = None
    usable: Annotated[bool, Strict()] = False


_ANSWER = object_of(
    {
        "skills": list_of(
            object_of(
                {
                    "name": TEXT,
                    "trigger": TEXT,
                    "score": SCORE,
                    "id": TEXT,
                    "title": TEXT,
                    "task_type": TASK_TYPE,
                    "scope": SCOPE,
                    "source": TEXT,
                    "reason": {"type": "string", "enum": ["exact_path", "exact_name", "prefix", "text"]},
                },
                ["name", "trigger", "score"],
            )
        ),
        "query": TEXT,
        "search_type": SEARCH_TYPE,
        "count": COUNT,
        "truncated": FLAG,
        "confidence": CONFIDENCE,
        "note": TEXT,
    },
    ["skills", "query", "search_type"],
)


class SearchSkills(BuiltinTool[SearchArguments]):
    """Finds skills. ``section`` has the default and the maximum number of hits."""

    name: ClassVar[str] = "skill_search"
    answer_schema: ClassVar[JsonObject | None] = _ANSWER
    arguments = SearchArguments

    def __init__(self, skill_use_cases: SkillUseCases, section: SkillsSearchSection) -> None:
        self._skill_use_cases, self._limit = skill_use_cases, section.default_limit
        self._limit_max = max(section.max_limit, section.default_limit)
        self.definition = _definition(self._limit, self._limit_max)

    @classmethod
    def offered_by(cls, parts: BuiltinParts) -> Self | None:
        """Return the tool if there are skills."""
        return cls(parts.skill_use_cases, parts.settings.toolcrib.skills.search) if parts.skill_use_cases else None

    async def run(self, session: Session, given: SearchArguments, _call: CallMaker) -> Answer:
        """Search, and return the hits.

        Raises:
            BadRequest: a blank query, a limit out of range, or a pattern that cannot be used.

        """
        limit = self._limit if given.limit is None else given.limit
        if limit > self._limit_max:
            raise BadRequest(f"limit: must be from 1 to {self._limit_max}")
        query = SkillQuery(
            given.query.strip(),
            SEARCH_TYPES[given.search_type],
            limit,
            given.task_type,
            given.source,
            usable=given.usable,
        )
        answer = await self._skill_use_cases.search(session, query)
        return Answer(_text(answer), search_json(answer))


def _text(answer: SearchAnswer) -> str:
    """Return the answer as lines: the hits, what to do with them, and why there are no more."""
    head = (
        f"{len(answer.hits)} of {answer.count} skills for {json.dumps(answer.query, ensure_ascii=False)} "
        f"({answer.effective.value}, confidence {answer.confidence})"
    )
    found = [f"- {hit.name} ({hit.skill.source}) [{hit.score:.2f} {hit.reason}] {hit.trigger}" for hit in answer.hits]
    next_step = "Load one with skill_get." if answer.hits else ""
    return "\n".join(filter(None, [head, *found, next_step, answer.note]))


def _definition(limit: int, limit_max: int) -> JsonObject:
    return {
        "title": "Find skills",
        "description": (
            "Search skills: tested instructions for tasks.\n"
            "Examples:\n"
            '- args: {"query":"fill a form"}\n'
            '- args: {"query":"git.*","search_type":"regex"}\n'
            '- args: {"query":"log in","task_type":"browser"}'
        ),
        "inputSchema": object_of(
            {
                "query": described("string", "What to do; or a regex or name"),
                "search_type": {
                    **SEARCH_TYPE,
                    "default": "fts",
                    "description": "fts: words; regex: RE2; exact: a name",
                },
                "limit": {
                    **described("integer", "Most results"),
                    "minimum": 1,
                    "maximum": limit_max,
                    "default": limit,
                },
                "task_type": {**described("string", "Only this kind"), **TASK_TYPE},
                "source": described("string", "Only from it"),
                "usable": USABLE,
            },
            ["query"],
        ),
        **READ_ONLY,
    }
