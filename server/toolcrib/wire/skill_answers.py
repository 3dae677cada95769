"""The results of the skill tools: structured content and the same as text, for hosts show a model one or the other.

Knows the words that a model reads, and the schemas of the structured content; never knows what an answer holds.
"""

import json

from toolcrib.model import JsonObject, SkillOrigin, TaskType
from toolcrib.skills.answers import get_json, list_json, search_json
from toolcrib.skills.requests import FoundSkill, GetAnswer, GetRequest, ListAnswer, SearchAnswer

TASK_TYPES = [kind.value for kind in TaskType]
ORIGINS = [origin.value for origin in SkillOrigin]
SCOPES = ["project", "tenant", "global"]


def search_result(answer: SearchAnswer) -> JsonObject:
    """Return the result of ``skill_search``."""
    head = (
        f"{len(answer.hits)} of {answer.count} skills for {json.dumps(answer.query, ensure_ascii=False)} "
        f"({answer.effective.value}, confidence {answer.confidence})"
    )
    lines = [head, *(f"- {_spelled(hit)} [{hit.score:.2f} {hit.reason}] {hit.trigger}" for hit in answer.hits)]
    if answer.hits:
        lines.append("Load one with skill_get.")
    if answer.note:
        lines.append(answer.note)
    return _result("\n".join(lines), search_json(answer))


def get_result(answer: GetAnswer, request: GetRequest) -> JsonObject:
    """Return the result of ``skill_get``."""
    return _result(answer.formatted, get_json(answer, request))


def list_result(answer: ListAnswer) -> JsonObject:
    """Return the result of ``skill_list``."""
    lines = [f"{len(answer.skills)} of {answer.total} skills"]
    lines += [f"- {_spelled(shown)}: {shown.trigger}" for shown in answer.skills]
    if answer.next_cursor:
        lines.append(f"More with cursor {answer.next_cursor}")
    if answer.errors:
        lines.append(f"{answer.errors_count} files could not be loaded:")
        lines += [f"- {error.place}: {error.message}" for error in answer.errors]
    return _result("\n".join(lines), list_json(answer))


def _result(text: str, structured: JsonObject) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}


def _spelled(shown: FoundSkill) -> str:
    return f"{shown.name} ({shown.skill.source})"


_TEXT: JsonObject = {"type": "string"}
_TEXTS: JsonObject = {"type": "array", "items": {"type": "string"}}
_COUNT: JsonObject = {"type": "integer"}
_FLAG: JsonObject = {"type": "boolean"}
_TASK_TYPE: JsonObject = {"type": "string", "enum": TASK_TYPES}


def _object(properties: JsonObject, required: list[str]) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required}


def _array(item: JsonObject) -> JsonObject:
    return {"type": "array", "items": item}


SEARCH_OUTPUT = _object(
    {
        "skills": _array(
            _object(
                {
                    "name": _TEXT,
                    "trigger": _TEXT,
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                    "id": _TEXT,
                    "title": _TEXT,
                    "task_type": _TASK_TYPE,
                    "scope": {"type": "string", "enum": SCOPES},
                    "source": _TEXT,
                    "reason": {"type": "string", "enum": ["exact_path", "exact_name", "prefix", "text"]},
                },
                ["name", "trigger", "score"],
            )
        ),
        "query": _TEXT,
        "search_type": {"type": "string", "enum": ["fts", "regex", "exact"]},
        "count": _COUNT,
        "truncated": _FLAG,
        "confidence": {"type": "string", "enum": ["high", "low", "none"]},
        "note": _TEXT,
    },
    ["skills", "query", "search_type"],
)
GET_OUTPUT = _object(
    {
        "skills": _array(
            _object(
                {
                    "name": _TEXT,
                    "trigger": _TEXT,
                    "steps": _TEXTS,
                    "id": _TEXT,
                    "title": _TEXT,
                    "task_type": _TASK_TYPE,
                    "preconditions": _TEXTS,
                    "failure_modes": _TEXTS,
                    "uri": _TEXT,
                    "digest": _TEXT,
                    "base": _TEXT,
                    "files": _TEXTS,
                    "tools": _array(_object({"tool": _TEXT, "note": _TEXT}, ["tool"])),
                    "extra": {"type": "object"},
                },
                ["name", "trigger", "steps"],
            )
        ),
        "formatted_context": _TEXT,
        "not_found": _TEXTS,
        "ambiguous": {"type": "object", "additionalProperties": _TEXTS},
    },
    ["skills", "formatted_context"],
)
LIST_OUTPUT = _object(
    {
        "skills": _array(
            _object(
                {
                    "name": _TEXT,
                    "trigger": _TEXT,
                    "task_type": _TASK_TYPE,
                    "origin": {"type": "string", "enum": ORIGINS},
                    "scope": {"type": "string", "enum": SCOPES},
                    "source": _TEXT,
                },
                ["name", "trigger", "task_type", "origin", "scope", "source"],
            )
        ),
        "total": _COUNT,
        "next_cursor": _TEXT,
        "truncated": _FLAG,
        "errors_count": _COUNT,
        "errors": _array(_object({"path": _TEXT, "source": _TEXT, "message": _TEXT}, ["path", "message"])),
    },
    ["skills", "total"],
)
