"""Which problems of skill files are shown to whom: files not loaded, and skills left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from toolcrib.base.model import (
    Caller,
    JsonObject,
    SearchType,
    Skill,
    SkillOrigin,
    SkillProblem,
    SkillText,
    TaskType,
    ToolNote,
)
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.indexing import Indexer
from toolcrib.catalog.wording import Wordings
from toolcrib.config.settings import Settings
from toolcrib.events.log import EventLog
from toolcrib.policy.confirmations import Confirmations
from toolcrib.policy.sessions import Session
from toolcrib.search.documents import Confidence, Reason
from toolcrib.skills.catalog import SkillCatalog
from toolcrib.skills.index import LEARNED_KEPT
from toolcrib.skills.search import SkillSearcher, Standing
from toolcrib.skills.sources.scanning import LIMITS_MET

if TYPE_CHECKING:
    from toolcrib.skills.text.cleaning import Cleaner

Format = Literal["raw", "injection"]


def by_name(skill: Skill) -> tuple[str, str]:
    """Return the sort key of lists of skills, which is unique."""
    return skill.name, skill.id


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """One skill of a list or search result; its name, title and trigger are redacted for the caller."""

    skill: Skill
    name: str
    title: str
    trigger: str
    score: float = 0
    reason: Reason = "text"


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
    evidence: float


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
class SkillNames:
    """The tools that a skill works with, as spelled by its author: not to be shown to any caller.

    ``required`` are those that a pack declares as required.
    """

    notes: tuple[ToolNote, ...] = ()
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """One skill of an answer, its text redacted for the caller. ``digest`` is SHA-256 in hex.

    ``share`` is how many tokens of the budget its text could take; 0: the answer only names it. ``modified_ms`` is its
    file's modification time, in milliseconds since the epoch; None if it has no file. ``is_known``: the caller already
    has its text.
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


@dataclass(frozen=True, slots=True)
class AroundSkills:
    """The environment of skills. Until ``deadline``, on anyio's clock, requests wait for the first scan.

    ``is_local``: the only caller is the client of this process, on this machine. ``has_failed`` returns whether a
    server has failed. ``keep`` makes a session's active skills outlive the request, where nothing else does.
    """

    deadline: float
    is_local: bool = True
    has_failed: Callable[[str], bool] = lambda _server: False
    keep: Callable[[Session], None] = lambda _session: None


@dataclass(frozen=True, slots=True)
class SkillUseCaseParts:
    """The dependencies of the use cases; assembled by the composition root."""

    settings: Settings
    catalog: SkillCatalog
    searcher: SkillSearcher
    standing: Standing
    gate: Gate
    indexer: Indexer
    wordings: Wordings
    events: EventLog
    confirmations: Confirmations
    around: AroundSkills


ERRORS_MAX = 20
"""Maximum number of files that could not be loaded, named in one answer."""


def told_to_agents(catalog: SkillCatalog, caller: Caller, cleaner: "Cleaner") -> list[LoadError]:
    """Return every file of the caller's roots that could not be loaded, and every limit that omits some."""
    return [
        _told(source, problem, cleaner)
        for source, problem in catalog.reports(caller)
        if problem.level == "error" or problem.code in LIMITS_MET
    ]


def told_to_person(catalog: SkillCatalog, caller: Caller, cleaner: "Cleaner") -> list[LoadError]:
    """Return what agents get, plus problems of skills that they may not know of (R113)."""
    return [
        _told(source, problem, cleaner)
        for source, problem in catalog.reports(caller, hidden=True)
        if problem.level == "error" or problem.code in (*LIMITS_MET, LEARNED_KEPT)
    ]


def _told(source: str, problem: SkillProblem, cleaner: "Cleaner") -> LoadError:
    return LoadError(source, cleaner.text(problem.path), cleaner.text(problem.message), problem.line)
