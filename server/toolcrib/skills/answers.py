"""Answers of the skills' use cases, as JSON for programs."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from toolcrib.base.json_values import compact
from toolcrib.base.model import JsonObject, SkillText, TaskType
from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.skills.formats.fields import stated
from toolcrib.skills.requests import FoundSkill, GetAnswer, GetRequest, ListAnswer, LoadedSkill, SearchAnswer

_Item = TypeVar("_Item")

SKILLS_META = "toolcrib/skills"
"""The key in the ``_meta`` of a result that lists its skills."""

_TRIGGER_MAX = 120
_ITEM_TOKENS = 60
"""Maximum size of a skill's item besides its text, in estimated tokens of four characters."""
_STEP_MAX = 60
_STEPS_MAX = 12
_BOLD = re.compile(r"\*\*(.+?)[.:]?\*\*")
_CLAUSE_END = re.compile(r"(?<=\w)(?:[:;,] |,? [\u2013\u2014(])")
"""The end of the first clause of a long step."""


def search_json(answer: SearchAnswer) -> JsonObject:
    """Return the answer of ``skill_search``."""
    return {
        "skills": [_found(hit) for hit in answer.hits],
        "query": answer.query,
        "search_type": answer.effective.value,
        "count": answer.count,
        "truncated": answer.truncated,
        "confidence": answer.confidence,
        **({"note": answer.note} if answer.note else {}),
    }


def get_json(answer: GetAnswer, request: GetRequest) -> JsonObject:
    """Return the answer of ``skill_get``: the text, and a short item for each skill.

    In ``injection`` form the whole answer stays within the budget and 60 tokens for each skill.
    """
    given: JsonObject = {"skills": [], "formatted_context": answer.formatted}
    given |= _without_nothing({"not_found": list(answer.not_found), "ambiguous": dict(answer.ambiguous)})
    # Four characters per token, as everywhere (R144), minus the braces and keys that are always present.
    size = 4 * (request.max_tokens + _ITEM_TOKENS * len(request.names)) - len(compact({key: [] for key in given}))
    items = len(answer.not_found) + len(answer.ambiguous) + len(answer.skills)
    room = _Room(size - len(compact(answer.formatted)), items)
    if answer.not_found:
        given["not_found"] = [room.filled(partial(_cut, name)) for name in answer.not_found]
    if answer.ambiguous:
        candidates = (room.filled(partial(_candidates, *each)) for each in answer.ambiguous.items())
        given["ambiguous"] = dict(candidates)
    given["skills"] = [
        _raw_item(skill) if request.format == "raw" else room.filled(partial(_short_item, skill))
        for skill in answer.skills
    ]
    return given


def get_meta(answer: GetAnswer) -> JsonObject:
    """Return metadata about the skills of ``skill_get`` for the host, which no model has to read (R180)."""
    return {SKILLS_META: list(map(_meta_item, answer.skills))} if answer.skills else {}


def list_json(answer: ListAnswer) -> JsonObject:
    """Return the answer of ``skill_list``."""
    listed: JsonObject = {
        "skills": [_list_item(shown) for shown in answer.skills],
        "total": answer.total,
        "truncated": answer.next_cursor is not None,
        "errors_count": answer.errors_count,
    }
    if answer.next_cursor:
        listed["next_cursor"] = answer.next_cursor
    if answer.errors:
        listed["errors"] = [error.as_json for error in answer.errors]
    return listed


def _found(hit: FoundSkill) -> JsonObject:
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


def _list_item(shown: FoundSkill) -> JsonObject:
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
    """Shares a budget of JSON characters among items: what one leaves over goes to the next."""

    def __init__(self, size: int, items: int) -> None:
        self._size, self._items = size, items

    def filled(self, make: Callable[[int], _Item]) -> _Item:
        """Return the result of ``make`` for the next item, given the number of characters available to it."""
        # One character is for the comma between two items.
        made = make(self._size // self._items - 1)
        self._size -= len(compact(made)) + 1
        self._items -= 1
        return made


def _cut(text: str, room: int) -> str:
    """Return ``text``, truncated if it would take more than ``room`` characters of JSON."""
    # An escaped character takes two in JSON, so half of the room is the target.
    return text if len(compact(text)) <= room else truncate(one_line(text), max(room // 2 - 1, 1))


def _candidates(name: str, names: Sequence[str], room: int) -> tuple[str, list[str]]:
    """Return an ambiguous name with as many of its unambiguous alternatives as ``room`` allows."""
    name = _cut(name, room // 2)
    shown = list(names)
    while shown and len(compact((name, shown))) > room:
        del shown[-1]
    return name, shown


def _short_item(given: LoadedSkill, room: int) -> JsonObject:
    """Return the item of one skill in at most ``room`` characters: its trigger, and the step titles that fit."""
    item: JsonObject = {"name": _cut(given.text.name, room // 2), "trigger": "", "steps": []}
    left = room - len(compact(item))
    about = replace(given.skill, description=given.text.description, trigger=given.text.trigger).summary
    trigger = truncate(one_line(about), max(min(_TRIGGER_MAX, left), 0))
    item["trigger"] = trigger
    steps = given.text.steps
    for number, step in enumerate(steps):
        title = _title(one_line(step))
        rest = [f"(+{len(steps) - number - 1} more)"] if number + 1 < len(steps) else []
        if number == _STEPS_MAX or len(compact({**item, "steps": [*item["steps"], title, *rest]})) > room:
            # Omitted titles are counted, so that the list is not taken for complete (R135).
            item["steps"].append(f"(+{len(steps) - number} more)")
            break
        item["steps"].append(title)
    return item


def _title(step: str) -> str:
    """Return the gist of a step: its bold beginning, its first sentence or clause, else as many words as fit."""
    bold = _BOLD.match(step)
    title = bold[1] if bold else split_summary(step)[0]
    if len(title) > _STEP_MAX:
        title = _CLAUSE_END.split(title, maxsplit=1)[0]
    return truncate(title, _STEP_MAX).rstrip("…")


def _raw_item(given: LoadedSkill) -> JsonObject:
    text = given.text
    return _without_nothing(
        {
            "name": text.name,
            "trigger": text.trigger,
            "steps": list(text.steps),
            "id": given.skill.id,
            "title": text.title,
            "description": text.description,
            "task_type": text.task_type.value,
            "tags": list(text.tags),
            "requires": list(text.requires),
            **_written_fields(text),
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


def _meta_item(given: LoadedSkill) -> JsonObject:
    skill = given.skill
    is_told = "://" not in given.base
    item = {
        "skill_id": skill.id,
        "name": given.text.name,
        "path": f"{given.base}/{skill.path.rpartition('/')[2]}" if is_told else given.uri,
        "dir": given.base,
        "mtime_ms": given.modified_ms,
    }
    return _without_nothing(item)


def _written_fields(text: SkillText) -> JsonObject:
    """Return the fields that are searched like tags, as the author wrote them: the format has them under metadata."""
    found = {name: stated(text.frontmatter, name) for name in ("domain", "frames")}
    return {name: value for name, value in found.items() if value}


def _without_nothing(item: JsonObject, keep: tuple[str, ...] = ()) -> JsonObject:
    return {key: value for key, value in item.items() if key in keep or value not in (None, "", [], {})}
