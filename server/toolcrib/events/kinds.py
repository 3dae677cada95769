"""The kinds of events: what each is about, its fields and how important it is (R151 to R159).

Knows names and fields; never knows where an event is written or what is redacted.
"""

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
    """The text that was searched for; `[denied]` stands for names of tools that the caller may not use."""
    requested_search_type: str
    """`fts`, `regex` or `exact`, as asked for."""
    effective_search_type: str
    """The search that was done."""
    results_count: int
    """How many tools were found."""
    search: int
    """Which search for tools of its session this is, from 1."""
    confidence: str
    """`high`, `low` or `none`: how likely what is needed is among them."""
    hits: Sequence[str]
    """Their public names, the best first."""


@dataclass(frozen=True, slots=True)
class ToolsListed(Event):
    """A session was given its list of tools. A host's cache of prompts lasts as long as the list stays what it was."""

    name: ClassVar[str] = "tools_listed"

    count: int
    """How many tools are in it, ours included."""
    tool_names: Sequence[str]
    """Public names of those that are not ours, the first 50."""
    digest: str
    """The same as long as the list is."""


@dataclass(frozen=True, slots=True)
class ToolActivated(Event):
    """A session has used a tool for the first time (R152)."""

    name: ClassVar[str] = "tool_activated"

    tool_name: str
    """Its public name."""
    activation_scope: str
    """`run` or `session`, as configured."""
    source: str
    """By which way: `direct`, `tool_call`, `skill` or `config`."""
    reason: str
    """`first_use`, `explicit` or `skill`."""


@dataclass(frozen=True, slots=True)
class ToolActivationDenied(Event):
    """A name was called that the caller may not use, or that nobody has (R153). The client is not told which."""

    name: ClassVar[str] = "tool_activation_denied"
    level: ClassVar[Level] = "warning"

    tool_name: str
    """The name as it was asked for."""
    reason: RefusalReason
    """`policy`: nobody may use it. `visibility`: others may. `skill`: no active skill names it. `unknown`: else."""


ConfirmationAnswer = Literal["once", "this session", "always", "no", "dismissed", "none", "unable"]
"""How a question whether something may be done has ended."""


@dataclass(frozen=True, slots=True)
class Confirmation(Event):
    """A person had to say yes first; what they have allowed for longer is not asked again, and makes no event."""

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
    """False: it failed, or said that it did."""
    bytes: int
    """About how large its result was."""
    search: int | None = None
    """The search of the session that found the tool last: the number in its `tool_search_query`; null: none did."""
    rank: int | None = None
    """Which of that search's hits it was, from 1."""


@dataclass(frozen=True, slots=True)
class ToolCallNotRun(Event):
    """A call of a tool ended before the tool was run; whoever asked for it was told why."""

    name: ClassVar[str] = "tool_call_not_run"

    tool_name: str
    """The name as it was asked for."""
    reason: NotRunReason
    """`arguments`: they do not fit. `not_read_only`: asked of `tool_call_read`. `unavailable`: its server is down."""
    search: int | None
    """As of `tool_call`."""
    rank: int | None
    """As of `tool_call`."""


@dataclass(frozen=True, slots=True)
class ServerAsked(Event):
    """A server was asked for something besides a tool; `duration_ms` includes the start of the server."""

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
    """About how large its answer was; counted as far as `limits.result_max_bytes`."""


@dataclass(frozen=True, slots=True)
class ServerRequestDenied(Event):
    """A resource or a prompt was asked for that the caller may not use, or that nobody has. The client is not told."""

    name: ClassVar[str] = "server_request_denied"
    level: ClassVar[Level] = "warning"

    method: str
    """`resources/read` for a resource, whatever was to be done with it; `prompts/get` for a prompt."""
    target: str
    """The URI or the name as it was asked for."""


@dataclass(frozen=True, slots=True)
class ConfigReloaded(Event):
    """The config was read again while toolcrib was running."""

    name: ClassVar[str] = "config_reloaded"

    ok: bool
    """Whether it is in use; if not, nothing has changed."""
    reason: str
    """Why it is not; empty where it is."""
    unchanged: Sequence[str]
    """Keys that are another now and take a restart."""


@dataclass(frozen=True, slots=True)
class DownstreamState(Event):
    """A downstream server has another state."""

    name: ClassVar[str] = "downstream_state"

    server: str
    """Its key in the config."""
    state: str
    """`sleeping`, `starting`, `ready`, `failed` or `needs_login`."""
    reason: str | None
    """Why, where there is something to say."""


@dataclass(frozen=True, slots=True)
class DefinitionChanged(Event):
    """A server that was listed before defines a tool otherwise, has a new one, or one less.

    Of each list at most 100 are told, changed ones first.
    """

    name: ClassVar[str] = "definition_changed"
    level: ClassVar[Level] = "warning"

    server: str
    """Its key in the config."""
    tool_name: str
    """The tool's public name."""
    change: Literal["changed", "added", "removed"]
    """What became of the tool."""
    keys: Sequence[str]
    """Keys of its definition that differ, such as `description`, `inputSchema` or `annotations`."""
    fingerprint_before: str | None
    """Of all that the index has of the tool, as it was; null where it is new."""
    fingerprint_after: str | None
    """The same as it is now; null where it is gone."""


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
    """The file of decisions could not be used and was replaced: what was decided may have to be decided again."""

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
    """How many of them are new or different since the last scan."""


@dataclass(frozen=True, slots=True)
class SkillDirectoryRendered(Event):
    """The directory of skills was written into the instructions of a session (R155)."""

    name: ClassVar[str] = "skill_directory_rendered"

    count: int
    """How many skills it names."""


@dataclass(frozen=True, slots=True)
class SkillsRetrieved(Event):
    """Skills were put before a task (R156)."""

    name: ClassVar[str] = "skills_retrieved"

    skill_count: int
    """How many fit."""
    top_k_used: int
    """How many were wanted at most."""
    raw_tokens_est: int
    """Tokens of their whole texts, estimated."""
    final_tokens_est: int
    """Tokens of what was given, estimated."""
    was_summarized: bool
    """Always false: toolcrib calls no model."""


@dataclass(frozen=True, slots=True)
class SkillSearchQuery(Event):
    """A search for skills was answered (R157)."""

    name: ClassVar[str] = "skill_search_query"

    query: str
    """The text that was searched for; `[denied]` stands for names of tools that the caller may not use."""
    requested_search_type: str
    """`fts`, `regex` or `exact`, as asked for."""
    effective_search_type: str
    """The search that was done."""
    results_count: int
    """How many skills were found."""


@dataclass(frozen=True, slots=True)
class SkillGet(Event):
    """Skills were asked for by name (R158)."""

    name: ClassVar[str] = "skill_get"

    names: Sequence[str]
    """Those that were found."""
    returned_count: int
    """How many these are."""
    max_tokens: int
    """The budget."""
    final_tokens_est: int
    """Tokens of what was given, estimated."""


@dataclass(frozen=True, slots=True)
class SkillOutcome(Event):
    """What came of a skill was reported."""

    name: ClassVar[str] = "skill_outcome"

    skill_name: str
    """Its name."""
    success: bool
    """Whether it did what it was for."""
    note: str
    """What was said about it; empty where nothing was."""


@dataclass(frozen=True, slots=True)
class SkillActivated(Event):
    """A skill is active from now on: its text was given, or it was activated without."""

    name: ClassVar[str] = "skill_activated"

    skill_name: str
    """Its name."""
    tools: int
    """How many tools that the caller may use it names."""


@dataclass(frozen=True, slots=True)
class SkillDeactivated(Event):
    """A skill is active no longer, and what only it had opened is closed."""

    name: ClassVar[str] = "skill_deactivated"

    skill_name: str
    """Its name."""
    reason: str
    """`explicit`: it was let go. `exclusive`: another took the place of all."""


@dataclass(frozen=True, slots=True)
class SkillList(Event):
    """A page of the list of skills was given (R159)."""

    name: ClassVar[str] = "skill_list"

    filters: Mapping[str, object]
    """What the list was narrowed to."""
    returned_count: int
    """How many skills the page has."""
