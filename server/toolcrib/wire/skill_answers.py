"""The answers of the skill tools: structured content and the same as text, for hosts show a model one or the other.

Knows what of a skill an answer holds, and within how many tokens; never knows how a skill was found or read.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from toolcrib.base.json_values import compact
from toolcrib.base.text import one_line, truncate
from toolcrib.model import JsonObject, SkillOrigin, TaskType
from toolcrib.skills.requests import FoundSkill, GetAnswer, GetRequest, GivenSkill, ListAnswer, SearchAnswer

_Item = TypeVar("_Item")

TASK_TYPES = [kind.value for kind in TaskType]
ORIGINS = [origin.value for origin in SkillOrigin]
SCOPES = ["project", "tenant", "global"]

_TRIGGER_MAX = 120
_ITEM_TOKENS = 60
"""What the item of one skill may take besides the text that is to be read (an estimate, four characters a token)."""
_STEP_MAX = 60
_STEPS_MAX = 12


def search_result(answer: SearchAnswer) -> JsonObject:
    """Return the result of ``skill_search``."""
    structured: JsonObject = {
        "skills": [_hit(hit) for hit in answer.hits],
        "query": answer.query,
        "search_type": answer.effective.value,
        "count": answer.count,
        "truncated": answer.truncated,
        "confidence": answer.confidence,
    }
    head = (
        f"{len(answer.hits)} of {answer.count} skills for {json.dumps(answer.query, ensure_ascii=False)} "
        f"({answer.effective.value}, confidence {answer.confidence})"
    )
    lines = [head, *(_hit_line(hit) for hit in answer.hits)]
    if answer.hits:
        lines.append("Load one with skill_get.")
    if answer.note:
        structured["note"] = answer.note
        lines.append(answer.note)
    return _result("\n".join(lines), structured)


def get_result(answer: GetAnswer, request: GetRequest) -> JsonObject:
    """Return the result of ``skill_get``: the text is the same in both forms, the items only help to find one's way."""
    structured: JsonObject = {"skills": [], "formatted_context": answer.formatted}
    structured |= _without_nothing({"not_found": list(answer.not_found), "ambiguous": dict(answer.ambiguous)})
    size = 4 * (request.max_tokens + _ITEM_TOKENS * len(request.names)) - len(compact({key: [] for key in structured}))
    items = len(answer.not_found) + len(answer.ambiguous) + len(answer.skills)
    room = _Room(size - len(compact(answer.formatted)), items)
    if answer.not_found:
        structured["not_found"] = [room.filled(partial(_cut, name)) for name in answer.not_found]
    if answer.ambiguous:
        candidates = (room.filled(partial(_candidates, *each)) for each in answer.ambiguous.items())
        structured["ambiguous"] = dict(candidates)
    structured["skills"] = [
        _raw_item(given) if request.format == "raw" else room.filled(partial(_short_item, given))
        for given in answer.skills
    ]
    return _result(answer.formatted, structured)


def list_result(answer: ListAnswer) -> JsonObject:
    """Return the result of ``skill_list``."""
    structured: JsonObject = {
        "skills": [_listed(shown) for shown in answer.skills],
        "total": answer.total,
        "truncated": answer.next_cursor is not None,
        "errors_count": answer.errors_count,
    }
    lines = [f"{len(answer.skills)} of {answer.total} skills"]
    lines += [f"- {_spelled(shown)}: {shown.trigger}" for shown in answer.skills]
    if answer.next_cursor:
        structured["next_cursor"] = answer.next_cursor
        lines.append(f"More with cursor {answer.next_cursor}")
    if answer.errors:
        structured["errors"] = [error.as_json for error in answer.errors]
        lines.append(f"{answer.errors_count} files could not be loaded:")
        lines += [f"- {error.place}: {error.message}" for error in answer.errors]
    return _result("\n".join(lines), structured)


def _result(text: str, structured: JsonObject) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}


def _hit(hit: FoundSkill) -> JsonObject:
    skill = hit.skill
    return _without_nothing(
        {
            "name": hit.name,
            "trigger": hit.trigger,
            "score": hit.score,
            "id": skill.id,
            "title": hit.title,
            "task_type": skill.task_type.value if skill.task_type is not TaskType.UNKNOWN else None,
            "scope": skill.scope_mode,
            "source": skill.source,
            "reason": hit.reason,
        }
    )


def _hit_line(hit: FoundSkill) -> str:
    return f"- {_spelled(hit)} [{hit.score:.2f} {hit.reason}] {hit.trigger}"


def _spelled(shown: FoundSkill) -> str:
    return f"{shown.name} ({shown.skill.source})"


def _listed(shown: FoundSkill) -> JsonObject:
    skill = shown.skill
    return {
        "name": shown.name,
        "trigger": shown.trigger,
        "task_type": skill.task_type.value,
        "origin": skill.origin.value,
        "scope": skill.scope_mode,
        "source": skill.source,
    }


class _Room:
    """Shares characters of JSON among some items: what one leaves over goes to the next."""

    def __init__(self, size: int, items: int) -> None:
        self._size, self._items = size, items

    def filled(self, make: Callable[[int], _Item]) -> _Item:
        """Return what ``make`` makes of the next item within the characters that it may take."""
        made = make(self._size // self._items - 1)
        self._size -= len(compact(made)) + 1
        self._items -= 1
        return made


def _cut(text: str, room: int) -> str:
    """Return ``text``, cut short where it would take more than ``room`` characters of JSON."""
    return text if len(compact(text)) <= room else truncate(one_line(text), max(room // 2 - 1, 1))


def _candidates(name: str, names: Sequence[str], room: int) -> tuple[str, list[str]]:
    """Return a name that several skills have, with as many of the names that only one has as ``room`` allows."""
    name = _cut(name, room // 2)
    shown = list(names)
    while shown and len(compact((name, shown))) > room:
        del shown[-1]
    return name, shown


def _short_item(given: GivenSkill, room: int) -> JsonObject:
    """Return the item of one skill in at most ``room`` characters: its trigger, and as many step titles as fit."""
    item: JsonObject = {"name": _cut(given.text.name, room // 2), "trigger": "", "steps": []}
    left = room - len(compact(item))
    trigger = truncate(one_line(given.text.trigger), max(min(_TRIGGER_MAX, left), 0))
    item["trigger"] = trigger
    for step in given.text.steps[:_STEPS_MAX]:
        title = truncate(one_line(step), _STEP_MAX)
        if len(compact({**item, "steps": [*item["steps"], title]})) > room:
            break
        item["steps"].append(title)
    return item


def _raw_item(given: GivenSkill) -> JsonObject:
    text = given.text
    return _without_nothing(
        {
            "name": text.name,
            "trigger": text.trigger,
            "steps": list(text.steps),
            "id": given.skill.id,
            "title": text.title,
            "task_type": text.task_type.value,
            "preconditions": list(text.preconditions),
            "failure_modes": list(text.failure_modes),
            "uri": given.uri,
            "digest": given.digest,
            "base": given.base,
            "files": list(given.files),
            "tools": [_without_nothing({"tool": note.tool, "note": note.note}) for note in text.tools],
            "extra": text.extra,
        },
        keep=("steps",),
    )


def _without_nothing(item: JsonObject, keep: tuple[str, ...] = ()) -> JsonObject:
    return {key: value for key, value in item.items() if key in keep or value not in (None, "", [], {})}


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
