"""A skill as a row of the index, and back: columns made of a record, values made of columns.

Knows how each value is written into SQLite and which words of a skill count; never knows a connection.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from toolcrib.base.model import Skill, SkillOrigin, SkillProblem, SkillRecord, SkillText, TaskType, ToolNote
from toolcrib.base.patterns import SUBJECT_MAX
from toolcrib.base.text import words
from toolcrib.storage.store import storable, to_json

ROW_FORMAT = 7
"""Increased, together with a migration that forgets the files, when the row of an unchanged skill would differ."""

SHORT_FIELDS = 4
"""Name, title, trigger with description, and tags; the body follows."""

_BODY_MAX = 20_000
"""Maximum number of indexed characters of a body."""

_WORD_MAX = 40
"""A longer word in a body is data, not a word."""

_NOTHING: Mapping[str, int] = {}

NO_STEMS = (_NOTHING,) * (SHORT_FIELDS + 1)
"""The stems of a skill without words."""


def record_hash(record: SkillRecord) -> str:
    """Return the hash of what a row stores of a record, except its source's label, which differs by process."""
    scope = record.scope
    facts = (
        ROW_FORMAT,
        *(record.id, record.text.content_hash, record.folder, record.path, record.origin.value, record.origin_ref),
        *(scope.mode, scope.tenant_id, scope.project_id, record.is_pinned, record.is_conforming),
    )
    return sha256(json.dumps(facts).encode()).hexdigest()


def columns_of(record: SkillRecord, stem: Callable[[str], str], now: float) -> dict[str, str | float | None]:
    """Return a record as values by column; ``now`` is in seconds since the epoch."""
    text = record.text
    *stems, body_stems = counted_stems(text, stem)
    columns: dict[str, Any] = {
        "id": record.id,
        "name": text.name,
        "source": record.source,
        "folder": record.folder,
        "path": record.path,
        "title": text.title,
        "trigger": text.trigger,
        "task_type": text.task_type.value,
        "tags": to_json(text.tags),
        "requires": to_json(text.requires),
        "origin": record.origin.value,
        "origin_ref": record.origin_ref,
        "scope_mode": record.scope.mode,
        "tenant_id": record.scope.tenant_id,
        "project_id": record.scope.project_id,
        "content_hash": text.content_hash,
        "record_hash": record_hash(record),
        "is_pinned": int(record.is_pinned),
        "is_hidden": int(text.is_hidden),
        "is_conforming": int(record.is_conforming),
        "created_at": now,
        "updated_at": now,
        "description": text.description,
        "steps": to_json(text.steps),
        "preconditions": to_json(text.preconditions),
        "failure_modes": to_json(text.failure_modes),
        "tools": to_json([(note.tool, note.note) for note in text.tools]),
        "extra": to_json(text.extra),
        "frontmatter": to_json(text.frontmatter),
        "stems": to_json(stems),
        "body_stems": to_json(body_stems),
        "mentions": to_json(mentions_of(text)),
        "body": text.body,
    }
    return {name: storable(value) if isinstance(value, str) else value for name, value in columns.items()}


def skill_of(row: tuple[Any, ...], sources: Mapping[str, str]) -> Skill:
    """Return a skill from the values of ``VISIBLE_COLUMNS``; ``sources`` has the label of each root.

    One written by another program without a place gets one from its origin and its id.
    """
    number, name_id, name, source, root, folder, path, title, description, trigger, task_type, *rest = row
    tags, requires, tools, origin, origin_ref, scope_mode, content_hash, is_pinned, is_hidden, is_conforming = rest
    return Skill(
        row=number,
        id=name_id,
        name=name,
        source=sources.get(root, source) or origin,
        root=root,
        folder=folder or name_id,
        path=path,
        title=title,
        description=description,
        # Most have their description as the trigger: the two share one string in memory.
        trigger=description if trigger == description else trigger,
        task_type=TaskType(task_type),
        tags=_texts(tags),
        requires=_texts(requires),
        tools=() if tools == "[]" else tuple(name for name, _note in json.loads(tools)),
        origin=SkillOrigin(origin),
        origin_ref=origin_ref,
        scope_mode=scope_mode,
        content_hash=content_hash,
        is_pinned=bool(is_pinned),
        is_hidden=bool(is_hidden),
        is_conforming=bool(is_conforming),
    )


def _texts(column: str) -> tuple[str, ...]:
    return () if column == "[]" else tuple(json.loads(column))  # most are empty, and a start reads them all


def text_of(*row: Any) -> SkillText:
    """Return a whole text from the values of ``TEXT_COLUMNS``."""
    name, title, description, trigger, task_type, *lists, body, frontmatter, extra, is_hidden, content_hash = row
    tags, steps, preconditions, failure_modes, tools, requires = map(json.loads, lists)
    return SkillText(
        name=name,
        title=title,
        description=description,
        trigger=trigger,
        task_type=TaskType(task_type),
        tags=tuple(tags),
        steps=tuple(steps),
        preconditions=tuple(preconditions),
        failure_modes=tuple(failure_modes),
        tools=tuple(ToolNote(tool, note) for tool, note in tools),
        requires=tuple(requires),
        body=body,
        frontmatter=json.loads(frontmatter),
        extra=json.loads(extra),
        is_hidden=bool(is_hidden),
        content_hash=content_hash,
    )


def stems_of(stems: str, body_stems: str) -> tuple[Mapping[str, int], ...]:
    """Return the counted stems of each field, the body last, from the values of ``STEM_COLUMNS``.

    Empty if they were not counted, because another program has written the row.
    """
    short = json.loads(stems)
    return (*short, *NO_STEMS[len(short) : SHORT_FIELDS], json.loads(body_stems)) if short else ()


def short_texts_of(trigger: str, description: str, tags: str) -> tuple[str, ...]:
    """Return the texts that a pattern is tried on, deduplicated, from the columns with these names."""
    return tuple(text[:SUBJECT_MAX] for text in dict.fromkeys((trigger, description, *json.loads(tags))))


def problems_to_json(problems: tuple[SkillProblem, ...]) -> str:
    """Serialize the problems of one file for a row of ``skill_files``."""
    return to_json([asdict(problem) for problem in problems])


def problems_of(problems: str) -> list[SkillProblem]:
    """Return the problems of one file from their serialized form."""
    return [SkillProblem(**each) for each in json.loads(problems)]


def counted_stems(text: SkillText, stem: Callable[[str], str]) -> tuple[Mapping[str, int], ...]:
    """Return the stems of each field with their counts, the body last."""
    return tuple(_counted("\n".join(texts), stem) for texts in _fields(text))


def mentions_from(column: str) -> tuple[Mapping[str, int], ...]:
    """Return the result of :func:`mentions_of` as stored in a row; empty if another program has written the row."""
    return tuple(json.loads(column))


def mentions_of(text: SkillText) -> tuple[Mapping[str, int], ...]:
    """Return the possible tool names in each field with their counts; the body last."""
    from toolcrib.catalog.name_detection import candidates  # noqa: PLC0415 - no start waits for its patterns

    # Each text on its own, as it is cleaned: a backtick in one must not begin or end code in the next.
    return tuple(Counter(name for each in texts for _, name in candidates(each)) for texts in _fields(text))


def _fields(text: SkillText) -> tuple[tuple[str, ...], ...]:
    """Return the texts of each field; the body last."""
    # Without a trigger of its own a skill has its description in both fields, which must count only once.
    said = (text.trigger,) if text.trigger == text.description else (text.trigger, text.description)
    return (text.name,), (text.title,), said, text.tags, (text.body[:_BODY_MAX],)


def _counted(text: str, stem: Callable[[str], str]) -> dict[str, int]:
    """Return the stems of a text; line by line, because a line in ASCII is split four times as fast."""
    return Counter(stem(word) for line in text.splitlines() for word in words(line) if len(word) <= _WORD_MAX)
