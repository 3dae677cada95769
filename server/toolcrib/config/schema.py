"""The shape of a config file: every key, its type, its bounds and its default.

Knows names and ranges only; never knows files, variables of the environment or running state.
The text under each key is its row in docs/configuration.md.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict

from toolcrib.base.model import LoadingMode, SideEffects
from toolcrib.config.auth_schema import AuthSection
from toolcrib.config.http_schema import HttpSection
from toolcrib.config.policy_schema import PolicySection
from toolcrib.config.skills_schema import SkillsSection, SkillTools
from toolcrib.config.tool_search_schema import ToolSearchSection
from toolcrib.config.values import Bool, Count, Seconds, Section, Str, Strings

Listing = Literal["dynamic", "stable", "auto"]


class ServerEntry(BaseModel):
    """One entry of `mcpServers`. Other programs read it too: keys that toolcrib does not know are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    command: Str | None = None
    """The program to start; if it begins with `./` or `../`, relative to the config file."""
    args: Strings | None = None
    """Its arguments."""
    env: dict[str, Str] | None = None
    """Variables added to its environment."""
    cwd: Str | None = None
    """The directory it is started in; null: toolcrib's own."""
    type: Str | None = None
    """`stdio`, `http` (also `streamable-http`) or `sse`; null: by `command` or `url`."""
    url: Str | None = None
    """The URL of an HTTP server."""
    headers: dict[str, Str] | None = None
    """Headers sent with every request to it."""
    disabled: Bool = False
    """Leave this server out."""


class ContextSection(Section):
    """The caller's identity, on stdio and on plain loopback HTTP."""

    tenant_id: Str | None = None
    """The caller's tenant; null: `TOOLCRIB_TENANT_ID`."""
    project_id: Str | None = None
    """The caller's project; null: `TOOLCRIB_PROJECT_ID`."""
    profile: Str | None = None
    """The caller's profile; null: `TOOLCRIB_PROFILE`."""
    session_id: Str | None = None
    """The stable name of the session; null: `TOOLCRIB_SESSION_ID`."""


Exposure = Literal["listed", "searchable", "off"]


class ExposeSection(Section):
    """Exposure of resources and prompts of servers; `searchable`: found by `tool_search`, and not listed."""

    resources: Exposure = "listed"
    """Resources, templates of resources, and subscriptions to them."""
    prompts: Exposure = "listed"
    """Prompts."""


class GateSection(Section):
    """Which tools are listed, and with which built-in tools they can be called."""

    listing: Listing | None = None
    """Whether activated tools appear in the list; null: by the client's host if it is known, else by transport."""
    call_tools: Literal["single", "split"] = "split"
    """`split`: also offer `tool_call_read`, which calls only tools declared read-only; hosts run it without asking."""
    expose: ExposeSection = ExposeSection()
    """Resources and prompts of servers."""
    pass_through_below: Annotated[int, Strict(), Field(ge=0)] = 0
    """List all tools to a caller who may use fewer than this; 0: never."""


class HostSection(Section):
    """Overrides for clients of one name."""

    structured: Literal["always", "never"] | None = None
    """Whether to send them structured content; null: as to others."""
    listing: Listing | None = None
    """Their kind of `tools/list`; null: as for others."""


class ResultsSection(Section):
    """How the answers of toolcrib's own tools are sent; results of servers pass unchanged."""

    structured: Literal["auto", "always", "never"] = "auto"
    """Send structured content in addition to text; `auto`: not to hosts known to show text if it is alone."""
    hosts: dict[str, HostSection] = Field(default={})
    """By the name that a client sends, or a glob of names; the first match applies."""


class ToolExamplesSection(Section):
    """How examples of use are shown under a tool's description (R91)."""

    enabled: Bool = True
    """Show examples."""
    max_examples_per_tool: Annotated[int, Strict(), Field(ge=0, le=10)] = 3
    """Maximum number of examples per tool."""
    include_descriptions: Bool = True
    """Show what each example is for."""
    filter_tags: Strings | None = None
    """Show only examples with one of these tags; null: all."""


class ExampleSection(Section):
    """One example of use of a tool (R85)."""

    args: dict[str, JsonValue]
    """The arguments of the call."""
    description: Str = ""
    """What the call is for."""
    tags: Strings = ()
    """Tags; `minimal`, `common` and `edge-case` determine the order."""


class ServerSection(Section):
    """What toolcrib adds to one entry of `mcpServers`."""

    enabled: Bool = True
    """Use the server."""
    description: Str = ""
    """What the server is for."""
    protocol: Literal["auto", "legacy", "modern"] = "auto"
    """The revisions of MCP to speak with it."""
    default_loading_mode: LoadingMode | None = None
    """Overrides `tool_search.default_loading_mode` for its tools."""
    always_loaded_tools: Strings = ()
    """Its tools that are listed from the start."""
    deferred_tools: Strings | None = None
    """The only tools of it that are not listed from the start; null: by loading mode."""
    tags: dict[str, Strings] = Field(default={})
    """Search words for its tools, by tool name or glob."""
    side_effects: dict[str, SideEffects] = Field(default={})
    """Effects of its tools, by tool name, if their own annotations are wrong or missing."""
    tool_examples: dict[str, tuple[ExampleSection, ...]] = Field(default={})
    """Examples of use, by tool name; they replace the server's own."""
    inherit_from_schema: Bool = True
    """Use the examples in the tools' own schemas."""
    start: Literal["lazy", "eager"] = "lazy"
    """Start it when a tool is first called, or at once."""
    idle_stop_s: Annotated[float, Strict(), Field(ge=0)] = 1800
    """Seconds without a call after which it is stopped, until the next call; 0: never."""
    connect_timeout_s: Seconds = 30
    """Seconds it may take to start and to list its tools."""
    call_timeout_s: Seconds = 60
    """Seconds a call may take without progress."""
    inherit_env: Strings = ()
    """Additional variables of toolcrib's environment that it inherits: globs."""
    isolation: Literal["shared", "principal", "session"] | None = None
    """Who shares a connection; null: `principal` for a command if tokens have several subjects, else `shared`."""
    auth: AuthSection | None = None
    """How toolcrib logs in to it; null: by OAuth, if the server requires it and no header has a token."""


class EventsSection(Section):
    """Structured events."""

    file: Str | None = None
    """The file they are written to; null: `events.jsonl` in the cache directory."""
    level: Literal["debug", "info", "warning", "off"] = "info"
    """The least important events to write."""
    max_bytes: Count = 10 * 1024 * 1024
    """Size at which the file is rotated to `.1`."""


class ReloadSection(Section):
    """Reloading the config while toolcrib runs; `SIGHUP` always triggers it."""

    watch: Bool = False
    """Reload it when the file changes."""


class LimitsSection(Section):
    """Every bound, with its unit in its name: `_s` seconds, `_ms` milliseconds, `_bytes`, else a count."""

    first_index_wait_s: Annotated[float, Strict(), Field(ge=0)] = 10
    """How long after the start an answer waits for servers that are being listed for the first time."""
    first_start_timeout_s: Seconds = 300
    """Time limit of the very first start of a command, which may download it, if longer than `connect_timeout_s`."""
    parallel_starts: Count = 4
    """Servers started at the same time."""
    catalog_max_age_s: Seconds = 86_400
    """Age at which a server's list of tools is refreshed."""
    server_log_max_bytes: Annotated[int, Strict(), Field(ge=4096)] = 256 * 1024
    """Size of one server's stderr log on disk, for `toolcrib logs`; the oldest lines are dropped."""
    result_max_bytes: Annotated[int, Strict(), Field(ge=1024)] = 1024 * 1024
    """Size of one tool result, or of one page of it; a larger one is read page by page with `read_more`."""
    results_kept_s: Seconds = 900
    """How long the remaining pages of a result are kept."""
    results_kept_bytes: Count = 16 * 1024 * 1024
    """Total size of these pages for one session; the oldest are dropped."""
    results_kept_total_bytes: Count = 64 * 1024 * 1024
    """Total size of these pages for all; the oldest of the caller with the most are dropped."""
    schema_check_ms: Annotated[float, Strict(), Field(gt=0)] = 50
    """Time for checking the arguments of one call."""
    name_max: Annotated[int, Strict(), Field(ge=24, le=128)] = 64
    """Characters of a tool's public name."""
    tools_per_server: Count = 20_000
    """Tools taken from one server."""
    list_pages: Count = 1000
    """Pages of one server's list."""
    definition_max_bytes: Annotated[int, Strict(), Field(ge=1024)] = 512 * 1024
    """Size of the definition of one tool, resource or prompt."""
    offers_per_server: Count = 10_000
    """Resources taken from one server; the same limit for templates and for prompts."""
    subscriptions: Count = 100
    """Resources that one session, or one subscription, may subscribe to."""
    offers_max_bytes: Annotated[int, Strict(), Field(ge=1024)] = 16 * 1024 * 1024
    """Size of the list of one of these kinds."""
    request_max_bytes: Annotated[int, Strict(), Field(ge=65_536)] = 4 * 1024 * 1024
    """Size of one request from a client."""
    replay_max_bytes: Annotated[int, Strict(), Field(ge=0)] = 8 * 1024 * 1024
    """Memory for sent messages of open HTTP sessions, for clients that resume a lost stream; in total; 0: none."""
    message_max_bytes: Annotated[int, Strict(), Field(ge=65_536)] = 32 * 1024 * 1024
    """Size of one message from a server."""
    message_values: Count = 1_000_000
    """Values in one message: texts, numbers, lists and objects together."""
    notifications_per_s: Count = 500
    """Notifications per second of a server or client (over HTTP also answers); one that exceeds it is slowed."""
    flood_s: Seconds = 30
    """How long it may exceed that rate before its connection is closed."""
    garbage_lines: Count = 1000
    """Consecutive lines of a server's output that are not messages before it fails."""
    connections_per_server: Count = 32
    """Processes of one server, or connections to it, if `isolation` requires more than one."""
    calls_in_flight: Count = 128
    """Concurrent calls of one server; more wait for their turn, within their deadline."""
    pending_calls: Count = 512
    """Running and waiting calls of one session; more are refused immediately."""
    pending_bytes: Annotated[int, Strict(), Field(ge=65_536)] = 32 * 1024 * 1024
    """Total size of the arguments of these calls; a single call may exceed it."""
    pending_calls_per_principal: Count = 1024
    """The same for all sessions of one caller."""
    pending_bytes_per_principal: Annotated[int, Strict(), Field(ge=65_536)] = 64 * 1024 * 1024
    """The same for all sessions of one caller."""
    circuit_failures: Count = 5
    """Consecutive calls without an answer after which a server is not called for a while."""
    circuit_pause_s: Seconds = 5
    """How long it is not called then; doubled each time it fails again, up to `backoff_max_s`."""
    call_max_s: Seconds = 3600
    """How long one call may take however much progress it reports."""
    answer_timeout_s: Seconds = 600
    """How long a person may take to answer a question of a server, and a client to come back with the answer."""
    input_rounds: Count = 10
    """How many times a server may ask for input during one call with its results."""
    parked_calls: Count = 64
    """Calls that wait for an answer of a client without a session."""
    parked_calls_per_principal: Count = 16
    """The same for one principal."""
    skill_handles_s: Seconds = 3600
    """How long after its last use a handle of a scope of skills is valid, for clients without a session."""
    close_timeout_s: Seconds = 3
    """How long a server may take to stop."""
    backoff_max_s: Seconds = 60
    """Longest pause between two attempts to start a server, or to call one that fails."""
    regex_ms: Annotated[float, Strict(), Field(gt=0)] = 100
    """Time for one search by pattern."""
    ranked_in_memory: Annotated[int, Strict(), Field(ge=0)] = 20_000
    """A search among more tools uses the index on disk, if SQLite has FTS5, instead of memory."""
    sessions_kept_s: Seconds = 30 * 86_400
    """How long the activations of an unused session are kept."""
    sessions_kept: Count = 200
    """Session ids of one caller whose activations are kept; the least recently used is dropped."""
    activations_kept: Count = 500
    """Activations kept per session id; the oldest is dropped."""
    skills_per_root: Count = 10_000
    """Skills taken from one pack or folder."""
    skill_depth: Count = 6
    """Search depth for skills below such a folder."""
    skill_folders: Count = 2000
    """Folders without a skill that are searched below one such folder."""
    skill_text_max_bytes: Annotated[int, Strict(), Field(ge=1024)] = 1024 * 1024
    """Size of one SKILL.md or file of a pack."""
    skill_files: Count = 512
    """Files beside one SKILL.md."""
    skill_files_max_bytes: Annotated[int, Strict(), Field(ge=1024)] = 16 * 1024 * 1024
    """Size of the files beside one SKILL.md together."""


class ToolcribSection(Section):
    """The whole value of the key `toolcrib`."""

    cache_dir: Str | None = None
    """Where the index is kept; null: a folder for this config file in the user's cache directory."""
    state_dir: Str | None = None
    """Where decisions and usage are kept; null: a folder for this config file in the user's data directory."""
    context: ContextSection = ContextSection()
    """The caller's identity."""
    tool_search: ToolSearchSection = ToolSearchSection()
    """How tools are found and activated."""
    gate: GateSection = GateSection()
    """What is listed."""
    results: ResultsSection = ResultsSection()
    """How answers are sent."""
    tool_examples: ToolExamplesSection = ToolExamplesSection()
    """How examples are shown."""
    policy: PolicySection = PolicySection()
    """Who may use what."""
    servers: dict[str, ServerSection] = Field(default={})
    """Settings of single servers, by their key in `mcpServers`."""
    server_defaults: ServerSection = ServerSection()
    """The same keys for all servers; those of a single server override them."""
    skills: SkillsSection = SkillsSection()
    """Skills."""
    skill_tools: dict[str, SkillTools] = Field(default={})
    """The tools that skills need, by the skill's name, `source/name` or id."""
    http: HttpSection = HttpSection()
    """Serving over HTTP."""
    events: EventsSection = EventsSection()
    """Structured events."""
    reload: ReloadSection = ReloadSection()
    """When the config is reloaded."""
    limits: LimitsSection = LimitsSection()
    """Every bound."""
