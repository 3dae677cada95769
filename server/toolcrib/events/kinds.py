"""The kinds of events: what each is about, its fields and how important it is (R151 to R159)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

Level = Literal["debug", "info", "warning", "off"]

RefusalReason = Literal["policy", "visibility", "skill", "unknown"]
"""Why a name cannot be used."""

NotRunReason = Literal["arguments", "not_read_only", "unavailable"]
"""Why a tool that may be used was not run."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``name`` is the value of the line's key ``event``; ``level`` how important it is."""

    name: ClassVar[str]
    level: ClassVar[Level] = "info"


@dataclass(frozen=True, slots=True)
class ToolSearchQuery(Event):
    """A search for tools was answered (R151)."""

    name: ClassVar[str] = "tool_search_query"

    query: str
    """The text that was searched for; `[denied]` replaces names of tools that the caller may not use."""
    requested_search_type: str
    """`fts`, `regex` or `exact`, as asked for."""
    effective_search_type: str
    """The search that was performed."""
    results_count: int
    """How many tools were found."""
    search: int
    """Which search for tools of its session this is, from 1."""
    confidence: str
    """`high`, `low` or `none`: how likely the hits contain the right tool."""
    hits: Sequence[str]
    """Public names of the hits, best first."""


@dataclass(frozen=True, slots=True)
class ToolsListed(Event):
    """A session was given its list of tools. A host's prompt cache stays valid while the list is unchanged."""

    name: ClassVar[str] = "tools_listed"

    count: int
    """How many tools are in it, ours included."""
    tool_names: Sequence[str]
    """Public names of the first 50 that are not ours."""
    digest: str
    """Hash of the list."""


@dataclass(frozen=True, slots=True)
class ToolActivated(Event):
    """A session has used a tool for the first time (R152)."""

    name: ClassVar[str] = "tool_activated"

    tool_name: str
    """Its public name."""
    activation_scope: str
    """`run` or `session`, as configured."""
    source: str
    """How it was activated: `direct`, `tool_call`, `skill` or `config`."""
    reason: str
    """`first_use`, `explicit` or `skill`."""


@dataclass(frozen=True, slots=True)
class ToolActivationDenied(Event):
    """A call used a denied or unknown name (R153). The client is not told which."""

    name: ClassVar[str] = "tool_activation_denied"
    level: ClassVar[Level] = "warning"

    tool_name: str
    """The requested name."""
    reason: RefusalReason
    """`policy`: nobody may use it. `visibility`: others may. `skill`: no active skill names it. `unknown`: no tool."""


ConfirmationAnswer = Literal["once", "this session", "always", "no", "dismissed", "none", "unable"]
"""How a question whether something may be done has ended."""


@dataclass(frozen=True, slots=True)
class Confirmation(Event):
    """A person was asked for approval; uses of an earlier approval record no event."""

    name: ClassVar[str] = "confirmation"

    kind: str
    """`tool` or `skill`."""
    subject: str
    """The public name of the tool, or the `source/folder` of the skill."""
    answer: ConfirmationAnswer
    """`once`, `this session` or `always`: yes. `no`; `dismissed`: closed without an answer; `none`: nobody answered in
    time; `unable`: the client cannot ask."""


@dataclass(frozen=True, slots=True)
class ToolCalled(Event):
    """A tool of a downstream server was called; `duration_ms` includes the start of the server."""

    name: ClassVar[str] = "tool_call"

    tool_name: str
    """Its public name."""
    ok: bool
    """False: the call failed, or its result is marked as an error."""
    bytes: int
    """Approximate size of its result."""
    search: int | None = None
    """The session's latest search that found the tool: the number in its `tool_search_query`; null: none."""
    rank: int | None = None
    """The rank of the tool among that search's hits, from 1."""


@dataclass(frozen=True, slots=True)
class ToolCallNotRun(Event):
    """A call ended before the tool was run; the caller was told why."""

    name: ClassVar[str] = "tool_call_not_run"

    tool_name: str
    """The requested name."""
    reason: NotRunReason
    """`arguments`: invalid. `not_read_only`: called with `tool_call_read`. `unavailable`: its server is down."""
    search: int | None
    """As in `tool_call`."""
    rank: int | None
    """As in `tool_call`."""


@dataclass(frozen=True, slots=True)
class ServerAsked(Event):
    """A request other than a tool call was sent to a server; `duration_ms` includes the start of the server."""

    name: ClassVar[str] = "server_request"

    server: str
    """Its key in the config."""
    method: str
    """`resources/read`, `resources/subscribe`, `prompts/get` or `completion/complete`."""
    target: str
    """The URI or the name, as the client gave it."""
    ok: bool
    """False: it failed."""
    bytes: int
    """Approximate size of its answer, up to `limits.result_max_bytes`."""


@dataclass(frozen=True, slots=True)
class ServerRequestDenied(Event):
    """A denied or unknown resource or prompt was requested. The client is not told which."""

    name: ClassVar[str] = "server_request_denied"
    level: ClassVar[Level] = "warning"

    method: str
    """`resources/read` for any request about a resource; `prompts/get` for a prompt."""
    target: str
    """The requested URI or name."""


@dataclass(frozen=True, slots=True)
class ConfigReloaded(Event):
    """The config was reloaded."""

    name: ClassVar[str] = "config_reloaded"

    ok: bool
    """Whether the new config is in use; if not, nothing has changed."""
    reason: str
    """Why it is not in use; empty if it is."""
    unchanged: Sequence[str]
    """Changed keys that need a restart."""


@dataclass(frozen=True, slots=True)
class DownstreamState(Event):
    """A downstream server changed its state."""

    name: ClassVar[str] = "downstream_state"

    server: str
    """Its key in the config."""
    state: str
    """`sleeping`, `starting`, `ready`, `failed` or `needs_login`."""
    reason: str | None
    """The reason, if there is one."""


@dataclass(frozen=True, slots=True)
class DefinitionChanged(Event):
    """A server that was listed before changed, added or removed a tool.

    Of each list at most 100 are told, changed ones first.
    """

    name: ClassVar[str] = "definition_changed"
    level: ClassVar[Level] = "warning"

    server: str
    """Its key in the config."""
    tool_name: str
    """The tool's public name."""
    change: Literal["changed", "added", "removed"]
    """What happened to the tool."""
    keys: Sequence[str]
    """Keys of its definition that differ, such as `description`, `inputSchema` or `annotations`."""
    fingerprint_before: str | None
    """Fingerprint of the tool before; null if it is new."""
    fingerprint_after: str | None
    """Fingerprint of the tool now; null if it was removed."""


@dataclass(frozen=True, slots=True)
class IndexRebuilt(Event):
    """An index file could not be used and was replaced."""

    name: ClassVar[str] = "index_rebuilt"
    level: ClassVar[Level] = "warning"

    file: str
    """The name of the file."""
    reason: str
    """What was wrong with it, and where the old one is now."""


@dataclass(frozen=True, slots=True)
class StateReplaced(Event):
    """The file of decisions could not be used and was replaced; decisions may have to be repeated."""

    name: ClassVar[str] = "state_replaced"
    level: ClassVar[Level] = "warning"

    file: str
    """The name of the file."""
    reason: str
    """What was wrong with it, and where the old one is now."""


@dataclass(frozen=True, slots=True)
class SkillPackLoaded(Event):
    """A pack was scanned (R154)."""

    name: ClassVar[str] = "skill_pack_loaded"

    pack_name: str
    """Its name."""
    skill_count: int
    """How many skills it has."""
    updated_count: int
    """How many of them are new or changed since the last scan."""


@dataclass(frozen=True, slots=True)
class SkillDirectoryRendered(Event):
    """The directory of skills was included in the instructions of a session (R155)."""

    name: ClassVar[str] = "skill_directory_rendered"

    count: int
    """How many skills it names."""


@dataclass(frozen=True, slots=True)
class SkillsRetrieved(Event):
    """Skills were selected for a task (R156)."""

    name: ClassVar[str] = "skills_retrieved"

    skill_count: int
    """How many fit."""
    top_k_used: int
    """The maximum number requested."""
    raw_tokens_est: int
    """Tokens of their whole texts, estimated."""
    final_tokens_est: int
    """Tokens of the returned text, estimated."""
    was_summarized: bool
    """Always false: toolcrib calls no model."""


@dataclass(frozen=True, slots=True)
class SkillSearchQuery(Event):
    """A search for skills was answered (R157)."""

    name: ClassVar[str] = "skill_search_query"

    query: str
    """The text that was searched for; `[denied]` replaces names of tools that the caller may not use."""
    requested_search_type: str
    """`fts`, `regex` or `exact`, as asked for."""
    effective_search_type: str
    """The search that was performed."""
    results_count: int
    """How many skills were found."""


@dataclass(frozen=True, slots=True)
class SkillGet(Event):
    """Skills were requested by name (R158)."""

    name: ClassVar[str] = "skill_get"

    names: Sequence[str]
    """Those that were found."""
    returned_count: int
    """The number of them."""
    max_tokens: int
    """The budget."""
    final_tokens_est: int
    """Tokens of the returned text, estimated."""


@dataclass(frozen=True, slots=True)
class SkillOutcome(Event):
    """An outcome of a skill was reported."""

    name: ClassVar[str] = "skill_outcome"

    skill_name: str
    """Its name."""
    success: bool
    """Whether it served its purpose."""
    note: str
    """The note in the report; may be empty."""


@dataclass(frozen=True, slots=True)
class SkillActivated(Event):
    """A skill became active: its text was returned, or it was activated without it."""

    name: ClassVar[str] = "skill_activated"

    skill_name: str
    """Its name."""
    tools: int
    """How many tools it names that the caller may use."""


@dataclass(frozen=True, slots=True)
class SkillDeactivated(Event):
    """A skill is no longer active, and tools that only it made available are unavailable."""

    name: ClassVar[str] = "skill_deactivated"

    skill_name: str
    """Its name."""
    reason: str
    """`explicit`: it was deactivated. `exclusive`: another skill replaced all."""


@dataclass(frozen=True, slots=True)
class SkillList(Event):
    """A page of the list of skills was returned (R159)."""

    name: ClassVar[str] = "skill_list"

    filters: Mapping[str, object]
    """The filter of the list."""
    returned_count: int
    """How many skills the page has."""
