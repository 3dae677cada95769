"""The frozen values that the layers exchange."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

JsonObject = dict[str, Any]
"""A JSON object as received, not validated yet."""


READ_MORE = "read_more"
"""The name of the built-in tool that returns the rest of a result; listed only if there is one."""

REPORT_OUTCOME = "skill_report_outcome"
"""The name of the built-in tool that accepts outcomes of skills; listed only if the config enables it."""

BUILTIN_NAMES = (
    "tool_search",
    "tool_call",
    "tool_call_read",
    "tool_run",
    "skill_search",
    "skill_get",
    "skill_list",
    "skill_activate",
    "skill_deactivate",
    REPORT_OUTCOME,
    READ_MORE,
)
"""Names of the built-in tools, which no downstream tool can have: public names contain ``__``."""


OfferKind = Literal["resource", "template", "prompt"]
"""What a server may offer besides tools."""


class LoadingMode(StrEnum):
    """Whether a tool is listed from the start, once activated (R16), or available while a skill names it (R202)."""

    ALWAYS = "always"
    DEFERRED = "deferred"
    SKILL = "skill"


class SideEffects(StrEnum):
    """The effects of calling a tool, mildest first: the order breaks ties in search (R54)."""

    PURE = "pure"
    READ = "read"
    WRITE = "write"
    EXTERNAL = "external"
    STATEFUL = "stateful"


SIDE_EFFECTS_ORDER = {effect: rank for rank, effect in enumerate(SideEffects)}
"""Rank of each side effect in the tie-break; a tool without one ranks ``len(SIDE_EFFECTS_ORDER)``."""


class SearchType(StrEnum):
    """How a query is interpreted (R48)."""

    FTS = "fts"
    REGEX = "regex"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Example:
    """One way to call a tool (R85). ``tags`` may hold ``minimal``, ``common`` or ``edge-case``."""

    args: Mapping[str, Any]
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A downstream tool as the catalog holds it in memory: identity and gate facts, without the definition.

    ``row`` is its row in the index. ``fingerprint`` is the hash of its whole record (R46).
    """

    row: int
    server: str
    name: str
    public_name: str
    loading_mode: LoadingMode
    side_effects: SideEffects | None
    read_only: bool
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """Everything the index stores of one tool; the result of ingesting a definition.

    ``definition`` is the downstream's own, repaired where it had to be, with its own name.
    ``summary`` is the first sentence of the description, ``body`` the rest. The ``*_text`` fields are
    search text only: split identifiers, without the parameters that most tools of a server share.
    ``mentions``: what may be the name of some tool in the texts, by the column of the index that has the words of the
    text; under the empty string what is read but not searched.
    """

    server: str
    name: str
    public_name: str
    loading_mode: LoadingMode
    side_effects: SideEffects | None
    read_only: bool
    definition: JsonObject
    tags: tuple[str, ...]
    examples: tuple[Example, ...]
    signature: str
    summary: str
    body: str
    name_text: str
    params_text: str
    params_description_text: str
    fingerprint: str
    mentions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Refused:
    """A downstream's tool that cannot be offered, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ingest:
    """One downstream's whole list, ready for the index.

    ``denied`` are digests of the bare names of its tools that are denied to everyone; ``withheld`` are those of their
    names that no glob of the policy tells. ``instructions`` is what the server tells a model of itself, cleaned.
    ``cut`` says why it has more tools than these; empty if it has not.
    """

    server: str
    records: tuple[ToolRecord, ...]
    refused: tuple[Refused, ...]
    withheld: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    instructions: str = ""
    cut: str = ""


class Caller(NamedTuple):
    """The caller. Determined by the transport and the config, never by an argument (R145)."""

    principal: str = "local"
    tenant_id: str | None = None
    project_id: str | None = None
    profile: str | None = None


# -- skills --------------------------------------------------------------------------------------

ScopeMode = Literal["project", "tenant", "global"]
"""Who may see a skill: callers of the same tenant and project, of the same tenant, or everyone (R145)."""


class TaskType(StrEnum):
    """What kind of work a skill is about (R104)."""

    BROWSER = "browser"
    API = "api"
    CODE = "code"
    DOMAIN = "domain"
    UNKNOWN = "unknown"


class SkillOrigin(StrEnum):
    """Where a skill comes from: a curated pack, a folder with a SKILL.md, or what was learned (R107)."""

    PACK = "pack"
    DIR = "dir"
    LEARNED = "learned"


@dataclass(frozen=True, slots=True)
class SkillScope:
    """Whose skill it is: the tenant and project of the config that loaded it, and how far it may be seen."""

    mode: ScopeMode = "project"
    tenant_id: str | None = None
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolNote:
    """A tool that a skill mentions as one it works with, and what the author says about it (R118)."""

    tool: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class SkillText:
    """The parsed content of one skill's file; the same for a pack's skill and for a SKILL.md.

    ``body`` is Markdown without frontmatter, empty where the format has none. ``frontmatter`` is what the author
    wrote, every field, as JSON values. ``extra`` holds the fields that nothing else here holds (R117).
    ``requires`` are names of environment variables. ``is_hidden``: the author wants no model to find it.
    ``content_hash`` is SHA-256 over the canonical fields, in hex (R119).
    """

    name: str
    title: str
    description: str
    trigger: str
    task_type: TaskType
    tags: tuple[str, ...]
    steps: tuple[str, ...]
    preconditions: tuple[str, ...]
    failure_modes: tuple[str, ...]
    tools: tuple[ToolNote, ...]
    requires: tuple[str, ...]
    body: str
    frontmatter: JsonObject
    extra: JsonObject
    is_hidden: bool
    content_hash: str


@dataclass(frozen=True, slots=True)
class SkillProblem:
    """One thing wrong with a file of a root: ``path`` is relative to the root, ``line`` counts from 1, 0 is none.

    An ``error`` keeps the skill out, a ``warning`` or ``info`` does not. ``code`` is stable: ``name-not-folder``.
    """

    path: str
    line: int
    level: Literal["error", "warning", "info"]
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class FileMark:
    """Metadata that shows a file to be unchanged without reading it, and the SHA-256 of its bytes in hex."""

    mtime_ns: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class SkillRecord:
    """One skill as stored in the index: the content of its file, and its place.

    ``id`` is opaque and stable (R95). ``source`` is the label of its root (``repo``, ``user``, ``dir/NAME``,
    ``pack/NAME``). ``folder`` is where it stands in its root and in its URI: ``skill://SOURCE/FOLDER/SKILL.md``.
    ``path`` is its file, relative to the root. ``is_conforming``: it keeps every rule of the Agent Skills format.
    """

    id: str
    text: SkillText
    source: str
    folder: str
    path: str
    origin: SkillOrigin
    origin_ref: str
    scope: SkillScope
    is_pinned: bool
    is_conforming: bool


@dataclass(frozen=True, slots=True)
class SkillFile:
    """The result of parsing one file of a root: its skills, several for some pack files, and its problems."""

    path: str
    mark: FileMark
    records: tuple[SkillRecord, ...]
    problems: tuple[SkillProblem, ...]


OF_SERVERS = "server/"
"""How the label of every root begins that has the skills of a server."""


@dataclass(frozen=True, slots=True)
class Skill:
    """An indexed skill in memory: the facts to find, name and filter it, without its text.

    ``row`` is its row in the index, ``root`` the key of its root there. ``folder`` is unique in its source. ``tools``
    are the names in its own lists of tools, as they are spelled there.
    """

    row: int
    id: str
    name: str
    source: str
    root: str
    folder: str
    path: str
    title: str
    description: str
    trigger: str
    task_type: TaskType
    tags: tuple[str, ...]
    requires: tuple[str, ...]
    tools: tuple[str, ...]
    origin: SkillOrigin
    origin_ref: str
    scope_mode: ScopeMode
    content_hash: str
    is_pinned: bool
    is_hidden: bool
    is_conforming: bool

    @property
    def is_of_server(self) -> bool:
        """Whether it comes from a server, which may change it at any time."""
        return self.source.startswith(OF_SERVERS)

    @property
    def summary(self) -> str:
        """What a list tells of it, the most telling first: what it is for, then at what else it is to be used.

        Authors of a SKILL.md write that into the description, and words to listen for into triggers; authors of packs
        write a trigger for it.
        """
        if self.trigger in self.description or not self.description:
            return self.description or self.trigger
        parts = [self.description, self.trigger]
        return " ".join(parts if self.origin is SkillOrigin.DIR else parts[::-1])
