"""The built-in tools of skills: what a model reads of each, its arguments, and its answer."""

import json
from typing import Annotated, ClassVar, Literal, Self

from pydantic import FailFast, Field, Strict

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import REPORT_OUTCOME, JsonObject, ScopeMode, SkillOrigin, TaskType
from toolcrib.base.text import one_line
from toolcrib.config.schema import SkillsSearchSection
from toolcrib.config.settings import has_scoped_tools
from toolcrib.gateway.composition import Generation
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session
from toolcrib.search.confidence import explained
from toolcrib.server.builtin.tool import (
    ALWAYS_LOAD,
    CONFIDENCE,
    COUNT,
    FLAG,
    ORIGIN,
    READ_ONLY,
    SCOPE,
    SCORE,
    SEARCH_TYPE,
    SEARCH_TYPES,
    TASK_TYPE,
    TEXT,
    TEXTS,
    USABLE,
    Answer,
    Arguments,
    BuiltinTool,
    SearchTypeName,
    SkillTool,
    described,
    list_of,
    object_of,
)
from toolcrib.skills.answers import GetRequest, ListAnswer, ListRequest, SearchAnswer
from toolcrib.skills.outcomes import OutcomeReports, OutcomeRequest
from toolcrib.skills.search import SkillQuery
from toolcrib.skills.use_cases import SkillUseCases

_SOURCE_MAX = 200


class SearchArguments(Arguments):
    """The arguments of ``skill_search``."""

    query: Annotated[str, Strict()]
    search_type: SearchTypeName = "fts"
    limit: Annotated[int, Strict(), Field(ge=1)] | None = None
    task_type: TaskType | None = None
    source: Annotated[str, Strict(), Field(min_length=1, max_length=_SOURCE_MAX)] | None = None
    usable: Annotated[bool, Strict()] = False


_SEARCH_ANSWER = object_of(
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
    answer_schema: ClassVar[JsonObject | None] = _SEARCH_ANSWER
    arguments = SearchArguments

    def __init__(self, skill_use_cases: SkillUseCases, section: SkillsSearchSection) -> None:
        self._skill_use_cases, self._limit = skill_use_cases, section.default_limit
        self._limit_max = max(section.max_limit, section.default_limit)
        self.definition = _definition(self._limit, self._limit_max)

    @classmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool if there are skills."""
        return cls(generation.skills, generation.settings.toolcrib.skills.search) if generation.skills else None

    async def run(self, request: Request, given: SearchArguments) -> Answer:
        """Search, and return the hits.

        Raises:
            BadRequest: a blank query, a limit out of range, or a pattern that cannot be used.

        """
        # The config sets default and maximum, so the model of the arguments cannot state them.
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
        answer = await self._skill_use_cases.search(request.session, query)
        return Answer(_search_text(answer), answer.as_json)


def _search_text(answer: SearchAnswer) -> str:
    """Return the answer as lines: the hits, what to do with them, and why there are no more."""
    head = (
        f"{len(answer.hits)} of {answer.count} skills for {json.dumps(answer.query, ensure_ascii=False)} "
        f"({answer.effective.value}, {explained(answer.confidence, 'load')})"
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


_TOKENS_MIN, _TOKENS_MAX = 200, 6000
_TOKENS = 1500
_NAMES_MAX = 10


_Names = Annotated[tuple[Annotated[str, Strict()], ...], Field(min_length=1, max_length=_NAMES_MAX), FailFast()]


class GetArguments(Arguments):
    """The arguments of ``skill_get``."""

    names: _Names
    format: Literal["raw", "injection"] = "injection"
    max_tokens: Annotated[int, Strict(), Field(ge=_TOKENS_MIN, le=_TOKENS_MAX)] = _TOKENS
    file: Annotated[str, Strict(), Field(min_length=1, max_length=1024)] | None = None
    force: Annotated[bool, Strict()] = False


_GET_ANSWER = object_of(
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

_GET_DEFINITION: JsonObject = {
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
    answer_schema: ClassVar[JsonObject | None] = _GET_ANSWER
    arguments = GetArguments
    definition = _GET_DEFINITION

    async def run(self, request: Request, given: GetArguments) -> Answer:
        """Return the skills; both forms of the answer have the same text.

        Raises:
            BadRequest: ``file`` with several skills, or one that cannot be shown as text.
            UnknownSkill: the skill has no such ``file``.

        """
        wanted = GetRequest(given.names, given.format, given.max_tokens, given.file, given.force)
        answer = await self._skill_use_cases.get(request.session, wanted, request)
        return Answer(answer.formatted, answer.as_json(wanted), answer.meta)


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


_LIST_ANSWER = object_of(
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

_LIST_DEFINITION: JsonObject = {
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
    answer_schema: ClassVar[JsonObject | None] = _LIST_ANSWER
    arguments = ListArguments
    definition = _LIST_DEFINITION

    async def run(self, request: Request, given: ListArguments) -> Answer:
        """Return one page.

        Raises:
            BadRequest: the cursor is invalid.

        """
        wanted = ListRequest(**given.model_dump())
        answer = await self._skill_use_cases.list_skills(request.session, wanted)
        return Answer(_list_text(answer), answer.as_json)


def _list_text(answer: ListAnswer) -> str:
    """Return the page as lines, and what was omitted from the list and why."""
    lines = [f"{len(answer.skills)} of {answer.total} skills"]
    lines += [f"- {shown.name} ({shown.skill.source}): {shown.trigger}" for shown in answer.skills]
    if answer.next_cursor:
        lines.append(f"More with cursor {answer.next_cursor}")
    if answer.errors:
        lines.append(f"Left out ({answer.errors_count}):")
        lines += [f"- {error.place}: {error.message}" for error in answer.errors]
    return "\n".join(lines)


_ANSWER_TOKENS = 1500
"""Maximum size of an answer, in estimated tokens."""

_NAMES = object_of({"names": {**TEXTS, "description": "As skill_get"}}, ["names"])
_AMBIGUOUS: JsonObject = {"type": "object", "additionalProperties": TEXTS}

# Both are read-only to clients: they change what this session is shown, and nothing outside of it.
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

    names: _Names


class _SwitchesSkills(SkillTool[NamesArguments]):
    arguments = NamesArguments

    @classmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool if there are skills, and tools that are only available through skills."""
        return super().offered_by(generation) if has_scoped_tools(generation.settings.toolcrib) else None


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

    async def run(self, request: Request, given: NamesArguments) -> Answer:
        """Activate the skills; return which are active now, and which tools that makes available.

        Raises:
            NotConfirmed: a person has to confirm first, as for the text.

        """
        wanted = GetRequest(given.names, max_tokens=_ANSWER_TOKENS)
        answer = await self._skill_use_cases.activate(request.session, wanted, request)
        active = _active(request.session)
        said: JsonObject = {"active": active}
        said |= {"not_found": list(answer.not_found)} if answer.not_found else {}
        said |= (
            {"ambiguous": {name: list(names) for name, names in answer.ambiguous.items()}} if answer.ambiguous else {}
        )
        said |= {"note": answer.formatted} if answer.formatted else {}
        return Answer("\n".join(filter(None, [_active_text(active), answer.formatted])), said)


class DeactivateSkills(_SwitchesSkills):
    """Deactivates skills, and so the tools that only they have made available (R210)."""

    name: ClassVar[str] = "skill_deactivate"
    answer_schema: ClassVar[JsonObject | None] = object_of({"active": TEXTS, "not_active": TEXTS}, ["active"])
    definition = _DEACTIVATE

    async def run(self, request: Request, given: NamesArguments) -> Answer:
        """Deactivate the skills; return which are still active."""
        unknown = await self._skill_use_cases.deactivate(request.session, given.names)
        active = _active(request.session)
        lines = [_active_text(active), *([f"Not active: {', '.join(map(one_line, unknown))}"] if unknown else [])]
        return Answer("\n".join(lines), {"active": active, **({"not_active": unknown} if unknown else {})})


def _active(session: Session) -> list[str]:
    return [skill.label for skill in session.skills.skills]


def _active_text(active: list[str]) -> str:
    return f"Active skills: {', '.join(map(one_line, active)) or 'none'}."


_NAME_MAX, _NOTE_MAX = 1024, 2000


class OutcomeArguments(Arguments):
    """The arguments of ``skill_report_outcome``."""

    name: Annotated[str, Strict(), Field(min_length=1, max_length=_NAME_MAX)]
    success: Annotated[bool, Strict()]
    note: Annotated[str, Strict(), Field(max_length=_NOTE_MAX)] | None = None


_REPORT_DEFINITION: JsonObject = {
    "title": "Report what a skill did",
    "description": 'Report if a skill worked.\nExamples:\n- args: {"name":"pdf-forms","success":false}',
    "inputSchema": object_of(
        {"name": TEXT, "success": FLAG, "note": TEXT},
        ["name", "success"],
    ),
    "annotations": {
        "readOnlyHint": False,
        "destructiveHint": False,
        # A second report about the same delivery of a text is refused.
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
    definition = _REPORT_DEFINITION

    def __init__(self, reports: OutcomeReports) -> None:
        self._reports = reports

    @classmethod
    def offered_by(cls, generation: Generation) -> Self | None:
        """Return the tool if there are skills, and outcomes are configured."""
        is_wanted = generation.skills and generation.settings.toolcrib.skills.outcomes
        return cls(OutcomeReports(generation.skills)) if generation.skills and is_wanted else None

    async def run(self, request: Request, given: OutcomeArguments) -> Answer:
        """Record the report.

        Raises:
            BadRequest: this session has no such skill to report on.

        """
        await self._reports.report(request.session, OutcomeRequest(given.name, given.success, given.note or ""))
        said = f"Noted: {given.name} {'did' if given.success else 'did not do'} what it was for."
        return Answer(said, {"name": given.name, "success": given.success})
