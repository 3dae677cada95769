"""The kinds of events: what each is about, its fields and how important it is (R151 to R159)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, dataclass_transform

Level = Literal["debug", "info", "warning", "off"]

RefusalReason = Literal["policy", "visibility", "skill", "unknown"]
"""Why a name cannot be used."""

NotRunReason = Literal["arguments", "not_read_only", "unavailable"]
"""Why a tool that may be used was not run."""


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Event:
    """One thing that happened. Each kind is a subclass, and thereby a frozen dataclass of what its line contains.

    ``name`` is the value of the line's key ``event``: the class's name in snake case. ``level`` says how important it
    is.
    """

    name: ClassVar[str]
    level: ClassVar[Level]

    def __init_subclass__(cls, *, level: Level = "info") -> None:
        super().__init_subclass__()
        cls.name = re.sub(r"\B[A-Z]", r"_\g<0>", cls.__name__).lower()
        cls.level = level
        # In place, hence without slots: those would need a new class, which this hook cannot put in place of the old.
        dataclass(frozen=True)(cls)


class ToolSearchQuery(Event):
    """A search for tools was answered (R151)."""

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
    """`high`: the first hit is right; `low`: the right one is likely among the hits; `none`: none of them is likely."""
    hits: Sequence[str]
    """Public names of the hits, best first."""


class ToolsListed(Event):
    """A session was given its list of tools. A host's prompt cache stays valid while the list is unchanged."""

    count: int
    """How many tools are in it, ours included."""
    tool_names: Sequence[str]
    """Public names of the first 50 that are not ours."""
    digest: str
    """Hash of the list."""


class WholeListDecided(Event):
    """A caller is listed all tools from now on, because they are few, or no longer (`gate.pass_through_tokens`)."""

    is_whole: bool
    """Whether all tools are listed; if not, they are found by search."""
    tools: int
    """How many tools the caller may use."""
    tokens: int | None
    """What a model reads of their definitions, estimated; null where they are too many to be looked at."""
    limit: int
    """`gate.pass_through_tokens`."""


class ToolActivated(Event):
    """A session has used a tool for the first time (R152)."""

    tool_name: str
    """Its public name."""
    activation_scope: str
    """`run` or `session`, as configured."""
    source: str
    """How it was activated: `direct`, `tool_call`, `skill` or `config`."""
    reason: str
    """`first_use`, `explicit` or `skill`."""


class ToolActivationDenied(Event, level="warning"):
    """A call used a denied or unknown name (R153). The client is not told which."""

    tool_name: str
    """The requested name."""
    reason: RefusalReason
    """`policy`: nobody may use it. `visibility`: others may. `skill`: no active skill names it. `unknown`: no tool."""


ConfirmationAnswer = Literal["once", "this session", "always", "this run", "no", "dismissed", "none", "unable"]
"""How a question whether something may be done has ended."""


class Confirmation(Event):
    """A person was asked for approval; uses of an earlier approval record no event."""

    kind: str
    """`tool` or `skill`."""
    subject: str
    """The public name of the tool, or the `source/folder` of the skill."""
    answer: ConfirmationAnswer
    """`once`, `this session`, `always`, `this run` (of a program): yes. `no`; `dismissed`: closed without an answer;
    `none`: nobody answered in time; `unable`: the client cannot ask."""


class ToolCall(Event):
    """A tool of a downstream server was called; `duration_ms` includes the start of the server."""

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


class ProgramRun(Event):
    """A program of `tool_run` has ended; its calls have events of their own."""

    ok: bool
    """False: it failed, or reached one of its bounds."""
    calls: int
    """Number of its calls."""
    failed: int
    """Number of those that failed, or had not ended."""
    characters_read: int
    """What a model would have read of their results: the text that the host shows at once, without bytes of media."""
    characters_returned: int
    """Size of the text that came back: its value and what it printed, or why it failed."""
    tokens_saved: int
    """Estimate: what it read, less the program itself and what came back. Of one that failed, nothing read counts."""


class ToolCallNotRun(Event):
    """A call ended before the tool was run; the caller was told why."""

    tool_name: str
    """The requested name."""
    reason: NotRunReason
    """`arguments`: invalid. `not_read_only`: called with `tool_call_read`. `unavailable`: its server is down."""
    search: int | None
    """As in `tool_call`."""
    rank: int | None
    """As in `tool_call`."""


class TaskCreated(Event):
    """A call has become a task: its caller got a handle in the place of the result."""

    tool_name: str
    """The public name of the tool."""


class TaskEnded(Event):
    """A task has ended, or nobody can ask for it any more; `duration_ms` is how long it ran."""

    tool_name: str
    """The public name of the tool."""
    status: Literal["completed", "failed", "cancelled"]
    """`failed`: by an error, or its result is marked as one. `cancelled`: by its caller, the end of the session or of
    `limits.task_ttl_s`."""


class ServerRequest(Event):
    """A request other than a tool call was sent to a server; `duration_ms` includes the start of the server."""

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


class ServerRequestDenied(Event, level="warning"):
    """A denied or unknown resource or prompt was requested. The client is not told which."""

    method: str
    """`resources/read` for any request about a resource; `prompts/get` for a prompt."""
    target: str
    """The requested URI or name."""


class ConfigReloaded(Event):
    """The config was reloaded."""

    ok: bool
    """Whether the new config is in use; if not, nothing has changed."""
    reason: str
    """Why it is not in use; empty if it is."""
    unchanged: Sequence[str]
    """Changed keys that need a restart."""


class DownstreamState(Event):
    """A downstream server changed its state."""

    server: str
    """Its key in the config."""
    state: str
    """`sleeping`, `starting`, `ready`, `failed` or `needs_login`."""
    reason: str | None
    """The reason, if there is one."""
    protocol: str | None = None
    """The protocol revision spoken with it, if it is ready."""
    protocol_reason: str | None = None
    """Why it is that one."""


class ListOutdated(Event):
    """A server is listed again in the background, because its known list may be another by now."""

    server: str
    """Its key in the config."""
    reason: Literal["program", "hour", "age"]
    """`program`: its program's files have changed. `hour`: it is reached by HTTP, and an hour has passed. `age`:
    the list is older than `limits.catalog_max_age_s`."""


class DefinitionChanged(Event, level="warning"):
    """A server that was listed before changed, added or removed a tool.

    Of each list at most 100 are told, changed ones first.
    """

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


class IndexRebuilt(Event, level="warning"):
    """An index file could not be used and was replaced."""

    file: str
    """The name of the file."""
    reason: str
    """What was wrong with it, and where the old one is now."""


class StateReplaced(Event, level="warning"):
    """The file of decisions could not be used and was replaced; decisions may have to be repeated."""

    file: str
    """The name of the file."""
    reason: str
    """What was wrong with it, and where the old one is now."""


class SkillPackLoaded(Event):
    """A pack was scanned (R154)."""

    pack_name: str
    """Its name."""
    skill_count: int
    """How many skills it has."""
    updated_count: int
    """How many of them are new or changed since the last scan."""


class SkillDirectoryRendered(Event):
    """The directory of skills was included in the instructions of a session (R155)."""

    count: int
    """How many skills it names."""


class SkillsRetrieved(Event):
    """Skills were selected for a task (R156)."""

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


class SkillSearchQuery(Event):
    """A search for skills was answered (R157)."""

    query: str
    """The text that was searched for; `[denied]` replaces names of tools that the caller may not use."""
    requested_search_type: str
    """`fts`, `regex` or `exact`, as asked for."""
    effective_search_type: str
    """The search that was performed."""
    results_count: int
    """How many skills were found."""


class SkillGet(Event):
    """Skills were requested by name (R158)."""

    names: Sequence[str]
    """Those that were found."""
    returned_count: int
    """The number of them."""
    max_tokens: int
    """The budget."""
    final_tokens_est: int
    """Tokens of the returned text, estimated."""


class SkillOutcome(Event):
    """An outcome of a skill was reported."""

    skill_name: str
    """Its name."""
    success: bool
    """Whether it served its purpose."""
    note: str
    """The note in the report; may be empty."""


class SkillActivated(Event):
    """A skill became active: its text was returned, or it was activated without it."""

    skill_name: str
    """Its name."""
    tools: int
    """How many tools it names that the caller may use."""


class SkillDeactivated(Event):
    """A skill is no longer active, and tools that only it made available are unavailable."""

    skill_name: str
    """Its name."""
    reason: str
    """`explicit`: it was deactivated. `exclusive`: another skill replaced all."""


class SkillList(Event):
    """A page of the list of skills was returned (R159)."""

    filters: Mapping[str, object]
    """The filter of the list."""
    returned_count: int
    """How many skills the page has."""
