"""What is asked about skills, and what it answers: plain values.

Knows the questions and answers of the skill tools; never knows how they are worked out or sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from toolcrib.model import JsonObject, SearchType, Skill, SkillOrigin, SkillText, TaskType, ToolNote
from toolcrib.search.matches import Confidence, Reason

Format = Literal["raw", "injection"]


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """One skill of a list or hit of a search; its name, title and trigger are cleaned for the caller."""

    skill: Skill
    name: str
    title: str
    trigger: str
    score: float = 0
    reason: Reason = "text"


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What ``skill_search`` answers; ``count`` is how many match in all.

    ``evidence`` is what ``confidence`` comes from, comparable between queries.
    """

    hits: tuple[FoundSkill, ...]
    query: str
    effective: SearchType
    count: int
    truncated: bool
    confidence: Confidence
    note: str | None
    evidence: float


@dataclass(frozen=True, slots=True)
class GetRequest:
    """Skills by name (R134). ``file``: this file of the one skill instead. ``force``: send again what was sent.

    ``by_person``: no model asks, but a person who has picked a skill.
    """

    names: tuple[str, ...]
    format: Format = "injection"
    max_tokens: int = 1500
    file: str | None = None
    force: bool = False
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class SkillNames:
    """How a skill spells the tools that it works with, as its author wrote it: for no caller to read.

    ``required`` are those of them without which a pack says that it is of no use.
    """

    notes: tuple[ToolNote, ...] = ()
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """One skill of an answer, its text cleaned for the caller. ``digest`` is SHA-256 in hex.

    ``share`` is how many tokens of the budget its text could take; 0: the answer only names it. ``modified_ms`` is when
    its file was changed, in milliseconds since the epoch; None where it has no file. ``is_known``: whoever asks has its
    text already.
    """

    skill: Skill
    text: SkillText
    uri: str
    digest: str
    files: tuple[str, ...]
    base: str
    names: SkillNames
    share: int = 0
    modified_ms: int | None = None
    is_known: bool = False

    @property
    def is_delivered(self) -> bool:
        """Whether whoever asks has its text now."""
        return self.is_known or self.share > 0


@dataclass(frozen=True, slots=True)
class GetAnswer:
    """What ``skill_get`` answers.

    ``ambiguous`` has, for a name that several skills have, names that only one has; ``near``, for one that is not
    found, names that may be meant.
    """

    skills: tuple[LoadedSkill, ...]
    formatted: str
    not_found: tuple[str, ...]
    ambiguous: Mapping[str, tuple[str, ...]]
    near: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def did_you_mean(names: Sequence[str]) -> str:
    """Return the sentence that suggests these names in place of one that is not found; nothing where there are none."""
    return f" Did you mean: {', '.join(names)}?" if names else ""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A page of all visible skills, filtered (R137). ``cursor`` is what the page before gave.

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
        """Return whether a skill is of the kind that is asked for, whatever tools it needs."""
        return (
            self.task_type in (None, skill.task_type)
            and self.origin in (None, skill.origin)
            and self.scope in (None, skill.scope_mode)
            and self.source in (None, skill.source)
        )


@dataclass(frozen=True, slots=True)
class LoadError:
    """A file that could not be loaded: its path relative to the root with this source, and why (R168).

    ``line`` counts from 1; 0: the whole file (R116). Where a key of the config is wrong, it stands for the path and
    there is no source.
    """

    source: str
    path: str
    message: str
    line: int = 0

    @property
    def place(self) -> str:
        """Return source, path and line as one."""
        place = f"{self.source}/{self.path}" if self.source else self.path
        return f"{place}:{self.line}" if self.line else place

    @property
    def as_json(self) -> JsonObject:
        """Return it as answers tell it."""
        line = {"line": self.line} if self.line else {}
        return {"path": self.path, "source": self.source, **line, "message": self.message}


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """What ``skill_list`` answers; ``errors`` are at most 20 of ``errors_count``."""

    skills: tuple[FoundSkill, ...]
    total: int
    next_cursor: str | None
    errors_count: int
    errors: tuple[LoadError, ...]


@dataclass(frozen=True, slots=True)
class RelevantRequest:
    """A task to bring skills for before it is begun (R141, R193).

    ``top_k`` and ``max_tokens`` None are the config's. Skills of ``frame`` and of ``task_type`` are a little ahead.
    """

    task: str
    top_k: int | None = None
    max_tokens: int | None = None
    frame: str | None = None
    task_type: TaskType | None = None


@dataclass(frozen=True, slots=True)
class RelevantAnswer:
    """The block of text for a task, empty where nothing fits."""

    formatted: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkillsStatus:
    """What is going on with skills. ``loaded`` are those that a session was given: name, and content hash in hex.

    ``active`` are those that are active for it, with the public names and states of their tools.

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
    """All skills, for the person at the terminal: those agents can get, those hidden with the reason, and errors.

    ``changed`` counts skills that are new or different since the last time; ``untrusted`` those of a repository that
    is not trusted.
    """

    skills: tuple[FoundSkill, ...]
    withheld: tuple[tuple[Skill, str], ...]
    changed: int
    untrusted: int
    errors: tuple[LoadError, ...]
