"""Requests about skills and their answers, in the JSON that programs get."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar

from toolcrib.base.json_values import compact
from toolcrib.base.model import JsonObject, SearchType, Skill, SkillOrigin, SkillText, TaskType, ToolNote
from toolcrib.base.text import one_line, split_summary, truncate
from toolcrib.search.confidence import Confidence, Evidence
from toolcrib.search.documents import Reason
from toolcrib.skills.formats.fields import stated

Format = Literal["raw", "injection"]

SKILLS_META = "toolcrib/skills"
"""The key in the ``_meta`` of a result that lists its skills."""

_Item = TypeVar("_Item")
_TRIGGER_MAX = 120
_ITEM_TOKENS = 60
"""Maximum size of a skill's item besides its text, in estimated tokens of four characters."""
_STEP_MAX = 60
_STEPS_MAX = 12
_BOLD = re.compile(r"\*\*(.+?)[.:]?\*\*")
_CLAUSE_END = re.compile(r"(?<=\w)(?:[:;,] |,? [\u2013\u2014(])")
"""The end of the first clause of a long step."""


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """One skill of a list or search result; its name, title and trigger are redacted for the caller."""

    skill: Skill
    name: str
    title: str
    trigger: str
    score: float = 0
    reason: Reason = "text"

    @property
    def as_json(self) -> JsonObject:
        """Return it as a hit of ``skill_search``."""
        skill = self.skill
        return _without_empty(
            {
                "name": self.name,
                "trigger": self.trigger,
                "score": self.score,
                "id": skill.id,
                "title": self.title,
                "task_type": skill.task_type.value if skill.task_type is not TaskType.UNKNOWN else None,
                "scope": skill.scope_mode,
                "source": skill.source,
                "reason": self.reason,
            }
        )


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer of ``skill_search``; ``count`` is the total number of matches.

    ``evidence`` is what ``confidence`` is derived from, comparable between queries.
    """

    hits: tuple[FoundSkill, ...]
    query: str
    effective: SearchType
    count: int
    truncated: bool
    confidence: Confidence
    note: str | None
    evidence: Evidence

    @property
    def as_json(self) -> JsonObject:
        """Return the answer of ``skill_search``."""
        return {
            "skills": [hit.as_json for hit in self.hits],
            "query": self.query,
            "search_type": self.effective.value,
            "count": self.count,
            "truncated": self.truncated,
            "confidence": self.confidence,
            **({"note": self.note} if self.note else {}),
        }


@dataclass(frozen=True, slots=True)
class GetRequest:
    """Skills by name (R134). ``file``: this file of the one skill instead. ``force``: send texts again.

    ``by_person``: requested by a person who picked a skill, not by a model.
    """

    names: tuple[str, ...]
    format: Format = "injection"
    max_tokens: int = 1500
    file: str | None = None
    force: bool = False
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class ToolSpellings:
    """The tools that a skill works with, as spelled by its author: not to be shown to any caller.

    ``required`` are those that a pack declares as required.
    """

    notes: tuple[ToolNote, ...] = ()
    required: tuple[str, ...] = ()

    @property
    def every(self) -> tuple[str, ...]:
        """Return the required ones, followed by the noted ones."""
        return (*self.required, *(note.tool for note in self.notes))


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """One skill of an answer, its text and summary redacted for the caller. ``digest`` is SHA-256 in hex.

    ``share`` is how many tokens of the budget its text could take; 0: the answer only names it. ``modified_ms`` is its
    file's modification time, in milliseconds since the epoch; None if it has no file. ``is_known``: the caller already
    has its text.
    """

    skill: Skill
    text: SkillText
    summary: str
    uri: str
    digest: str
    files: tuple[str, ...]
    base: str
    spellings: ToolSpellings
    share: int = 0
    modified_ms: int | None = None
    is_known: bool = False

    @property
    def is_delivered(self) -> bool:
        """Whether the caller now has its text."""
        return self.is_known or self.share > 0


@dataclass(frozen=True, slots=True)
class GetAnswer:
    """The answer of ``skill_get``.

    ``ambiguous`` has unambiguous alternatives for a name of several skills; ``near`` has suggestions for an unknown
    name.
    """

    skills: tuple[LoadedSkill, ...]
    formatted: str
    not_found: tuple[str, ...]
    ambiguous: Mapping[str, tuple[str, ...]]
    near: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def as_json(self, request: GetRequest) -> JsonObject:
        """Return the answer of ``skill_get``: the text, and a short item for each skill.

        In ``injection`` form the whole answer stays within the budget and 60 tokens for each skill.
        """
        given: JsonObject = {"skills": [], "formatted_context": self.formatted}
        given |= _without_empty({"not_found": list(self.not_found), "ambiguous": dict(self.ambiguous)})
        # Four characters per token, as everywhere (R144), minus the braces and keys that are always present.
        size = 4 * (request.max_tokens + _ITEM_TOKENS * len(request.names)) - len(compact({key: [] for key in given}))
        items = len(self.not_found) + len(self.ambiguous) + len(self.skills)
        room = _Room(size - len(compact(self.formatted)), items)
        if self.not_found:
            given["not_found"] = [room.filled(partial(_cut, name)) for name in self.not_found]
        if self.ambiguous:
            candidates = (room.filled(partial(_candidates, *each)) for each in self.ambiguous.items())
            given["ambiguous"] = dict(candidates)
        given["skills"] = [
            _raw_item(skill) if request.format == "raw" else room.filled(partial(_short_item, skill))
            for skill in self.skills
        ]
        return given

    @property
    def meta(self) -> JsonObject:
        """Return metadata about the skills for the host, which no model has to read (R180)."""
        return {SKILLS_META: list(map(_meta_item, self.skills))} if self.skills else {}


def did_you_mean(names: Sequence[str]) -> str:
    """Return the sentence that suggests these names in place of an unknown one; empty if there are none."""
    return f" Did you mean: {', '.join(names)}?" if names else ""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A page of all visible skills, filtered (R137). ``cursor`` is from the previous page.

    ``usable``: only those whose required tools the caller has.
    """

    task_type: TaskType | None = None
    origin: SkillOrigin | None = None
    scope: str | None = None
    source: str | None = None
    cursor: str | None = None
    page_size: int = 50
    usable: bool = False

    def passes(self, skill: Skill) -> bool:
        """Return whether a skill passes the filters, apart from the tools it requires."""
        return (
            self.task_type in (None, skill.task_type)
            and self.origin in (None, skill.origin)
            and self.scope in (None, skill.scope_mode)
            and self.source in (None, skill.source)
        )


@dataclass(frozen=True, slots=True)
class LoadError:
    """A file that could not be loaded: its path relative to the root with this source, and why (R168).

    ``line`` counts from 1; 0: the whole file (R116). For an invalid config key, the key is the path, and there is no
    source.
    """

    source: str
    path: str
    message: str
    line: int = 0

    @property
    def place(self) -> str:
        """Return source, path and line as one text."""
        place = f"{self.source}/{self.path}" if self.source else self.path
        return f"{place}:{self.line}" if self.line else place

    @property
    def as_json(self) -> JsonObject:
        """Return it as shown in answers."""
        line = {"line": self.line} if self.line else {}
        return {"path": self.path, "source": self.source, **line, "message": self.message}


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """The answer of ``skill_list``; ``errors`` are at most 20 of ``errors_count``."""

    skills: tuple[FoundSkill, ...]
    total: int
    next_cursor: str | None
    errors_count: int
    errors: tuple[LoadError, ...]

    @property
    def as_json(self) -> JsonObject:
        """Return the answer of ``skill_list``."""
        listed: JsonObject = {
            "skills": [
                {
                    "name": shown.name,
                    "trigger": shown.trigger,
                    "task_type": shown.skill.task_type.value,
                    "origin": shown.skill.origin.value,
                    "scope": shown.skill.scope_mode,
                    "source": shown.skill.source,
                }
                for shown in self.skills
            ],
            "total": self.total,
            "truncated": self.next_cursor is not None,
            "errors_count": self.errors_count,
        }
        if self.next_cursor:
            listed["next_cursor"] = self.next_cursor
        if self.errors:
            listed["errors"] = [error.as_json for error in self.errors]
        return listed


@dataclass(frozen=True, slots=True)
class RelevantRequest:
    """A task for which skills are to be selected before it begins (R141, R193).

    ``top_k`` and ``max_tokens`` default to the config's. Skills of ``frame`` and of ``task_type`` get a small boost.
    """

    task: str
    top_k: int | None = None
    max_tokens: int | None = None
    frame: str | None = None
    task_type: TaskType | None = None


@dataclass(frozen=True, slots=True)
class RelevantAnswer:
    """The block of text for a task, empty if nothing fits."""

    formatted: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkillsStatus:
    """The state of skills. ``loaded`` are those that a session received: name, and content hash in hex.

    ``active`` are its active ones, with the public names and states of their tools.

    ``errors`` are at most 20 of ``errors_count``; ``sources`` has the number of skills of each.
    """

    count: int
    loaded: tuple[tuple[str, str], ...]
    errors_count: int
    errors: tuple[LoadError, ...]
    sources: Mapping[str, int] = field(default_factory=dict[str, int])
    active: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    @property
    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "count": self.count,
            "sources": dict(self.sources),
            "loaded": [{"name": name, "digest": digest} for name, digest in self.loaded],
            "active": [{"name": name, "tools": dict(tools)} for name, tools in self.active.items()],
            "errors_count": self.errors_count,
            "errors": [error.as_json for error in self.errors],
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """All skills, for the person at the terminal: those available to agents, those hidden with the reason, and errors.

    ``changed`` counts skills added or changed since the last time; ``untrusted`` those of a repository that is not
    trusted.
    """

    skills: tuple[FoundSkill, ...]
    withheld: tuple[tuple[Skill, str], ...]
    changed: int
    untrusted: int
    errors: tuple[LoadError, ...]


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
    trigger = truncate(one_line(given.summary), max(min(_TRIGGER_MAX, left), 0))
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
    return _without_empty(
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
            # As the author wrote them; they are searched like tags, and the format has them under metadata.
            "domain": stated(text.frontmatter, "domain") or None,
            "frames": stated(text.frontmatter, "frames") or None,
            "preconditions": list(text.preconditions),
            "failure_modes": list(text.failure_modes),
            "uri": given.uri,
            "digest": given.digest,
            "base": given.base,
            "files": list(given.files),
            "tools": [_without_empty({"tool": note.tool, "note": note.note}) for note in text.tools],
            "extra": text.extra,
        },
        keep=("steps",),
    )


def _meta_item(given: LoadedSkill) -> JsonObject:
    skill = given.skill
    # A base that is a URI is no path: then local paths must not be shown (C15).
    is_path = "://" not in given.base
    return _without_empty(
        {
            "skill_id": skill.id,
            "name": given.text.name,
            "path": f"{given.base}/{skill.path.rpartition('/')[2]}" if is_path else given.uri,
            "dir": given.base,
            "mtime_ms": given.modified_ms,
        }
    )


def _without_empty(item: JsonObject, keep: tuple[str, ...] = ()) -> JsonObject:
    return {key: value for key, value in item.items() if key in keep or value not in (None, "", [], {})}
