"""The shape of a config file: every key, its type, its bounds and its default.

The text under each key is its row in docs/configuration.md.
"""

from typing import Annotated, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, Strict, field_validator, model_validator
from pydantic_core import PydanticCustomError

from toolcrib.base.json_values import as_text
from toolcrib.base.model import LoadingMode, ScopeMode, SideEffects
from toolcrib.config.switches import flag

Str = Annotated[str, Strict()]
Bool = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Seconds = Annotated[float, Strict(), Field(gt=0)]
Strings = tuple[Str, ...]
Text = Annotated[Str, BeforeValidator(as_text, json_schema_input_type=str)]
"""A text, for which people also write a number, true or false."""


def _as_list(value: object) -> object:
    return cast("object", value) if isinstance(value, list | tuple) else (value,)


OneOrMore = Annotated[Strings, BeforeValidator(_as_list, json_schema_input_type=Str | Strings)]
"""A list of texts, which may be written as a single text."""


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are frozen, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_Text = Annotated[str, Strict(), Field(min_length=1)]

_ADDRESSES = ("issuer", "client_metadata_url")


class AuthSection(Section):
    """How toolcrib logs in to an HTTP server; without it, the challenge of the server is used."""

    type: Literal["oauth", "client_credentials", "none"] = "oauth"
    """`oauth`: a person logs in with `toolcrib login`; `client_credentials`: a machine logs in; `none`: no login."""
    client_id: _Text | None = None
    """The client registered with the authorization server; null: toolcrib registers itself if it can."""
    client_secret: _Text | None = Field(default=None, repr=False)
    """Its secret; write `${VARIABLE}`."""
    private_key: _Text | None = Field(default=None, repr=False)
    """For `client_credentials`, instead of a secret: the PEM key that signs for it (`private_key_jwt`)."""
    issuer: Str | None = None
    """The authorization server of `client_id`, the only one to get its secret; null: the one that the server names."""
    scopes: Strings = ()
    """The scopes to request; empty: those that the server requires."""
    client_metadata_url: Str | None = None
    """The https URL of a client ID metadata document, if the authorization server supports one."""
    redirect_port: Annotated[int, Strict(), Field(ge=1, le=65535)] | None = None
    """The port of 127.0.0.1 for the redirect of a login; null: any free one."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse combinations of keys with which no login is possible."""
        if self.type == "client_credentials" and not (self.client_id and (self.client_secret or self.private_key)):
            raise _wrong("client_credentials needs client_id, and client_secret or private_key")
        if self.private_key and (self.type != "client_credentials" or self.client_secret):
            raise _wrong("private_key is for client_credentials, in place of client_secret")
        if self.client_secret and not self.client_id:
            raise _wrong("client_secret needs client_id")
        for name in _ADDRESSES:
            address = getattr(self, name)
            if address is not None and not _is_address(address):
                raise _wrong(f"{name} must be an https address, or http on this machine")
        if self.client_metadata_url and urlsplit(self.client_metadata_url).path in ("", "/"):
            raise _wrong("client_metadata_url must be an https address with a path")
        return self


def _wrong(text: str) -> PydanticCustomError:
    return PydanticCustomError("auth", text)  # type: ignore[arg-type]


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"))
    )


class TokenSection(Section):
    """One bearer token and the caller it identifies."""

    token: Annotated[str, Strict(), Field(min_length=8, repr=False)]
    """The secret, of visible ASCII characters; write `${VARIABLE}`."""
    subject: Annotated[str, Strict(), Field(min_length=1)]
    """The caller's name."""
    tenant_id: Str | None = None
    """The caller's tenant."""
    project_id: Str | None = None
    """The caller's project."""
    profile: Str | None = None
    """The caller's profile."""

    @field_validator("token")
    @classmethod
    def _can_be_sent(cls, token: str) -> str:
        # Eight spaces are no secret, and no client can send them.
        if not all("!" <= character <= "~" for character in token):
            raise PydanticCustomError("blank_token", "must be of visible ASCII characters, without spaces")
        return token

    @field_validator("subject")
    @classmethod
    def _names_somebody(cls, subject: str) -> str:
        if not subject.strip():
            raise PydanticCustomError("blank_subject", "must not be blank")
        return subject


class HttpSection(Section):
    """Serving over streamable HTTP."""

    host: Str = "127.0.0.1"
    """The address to listen on; beyond loopback only with tokens."""
    port: Annotated[int, Strict(), Field(ge=0, le=65535)] = 8765
    """The port to listen on; 0: any free one."""
    path: Annotated[str, Strict(), Field(pattern=r"^/[A-Za-z0-9_./-]*$")] = "/mcp"
    """The path of the endpoint."""
    allowed_hosts: Strings = ()
    """Additional accepted values of the header `Host`."""
    allowed_origins: Strings = ()
    """Accepted values of the header `Origin`."""
    session_idle_s: Seconds = 1800
    """Seconds without a request after which a session ends."""
    absence_s: Seconds = 30
    """Seconds without an open request after which a session's calls are cancelled."""
    max_sessions: Count = 1000
    """Maximum number of sessions."""
    max_sessions_per_subject: Count | None = None
    """Maximum number of sessions per token subject; a new one ends the longest idle. Null: half of `max_sessions` with
    several subjects."""
    max_connections: Count = 512
    """Maximum number of connections, at most half of the process's descriptor limit; silent ones are closed first."""
    head_timeout_s: Seconds = 10
    """Seconds in which the head of a request must arrive."""
    body_timeout_s: Seconds = 30
    """Seconds in which the body of a request must arrive."""
    tokens: tuple[TokenSection, ...] = ()
    """Who may connect; empty: anyone on this machine."""

    @property
    def sessions_of_one(self) -> int:
        """Most sessions of one subject at a time."""
        # With several subjects, one of them must not use up all sessions.
        shared = len({entry.subject for entry in self.tokens}) > 1
        return self.max_sessions_per_subject or (max(1, self.max_sessions // 2) if shared else self.max_sessions)

    @field_validator("tokens")
    @classmethod
    def _each_token_once(cls, tokens: tuple[TokenSection, ...]) -> tuple[TokenSection, ...]:
        if len({entry.token for entry in tokens}) < len(tokens):
            raise PydanticCustomError("repeated_token", "must not hold the same token twice")
        return tokens


class WhenSection(Section):
    """The condition of a visibility rule; all given keys must match."""

    tenant_id: OneOrMore | None = None
    """The caller's tenant is one of these."""
    project_id: OneOrMore | None = None
    """The caller's project is one of these."""
    profile: OneOrMore | None = None
    """The caller's profile is one of these."""


class VisibilitySection(Section):
    """One visibility rule."""

    when: WhenSection
    """The callers that the rule applies to."""
    allow: Strings | None = None
    """Globs that replace `policy.allow` for them; null: `policy.allow` applies."""
    deny: Strings = ()
    """Globs added to `policy.deny` for them."""


Effect = Literal["destructive", "external", "write"]
"""What a tool may do to the world, as far as a person may want to be asked first."""


class ConfirmSection(Section):
    """What needs a person's approval. If the client cannot ask, it is refused until it is allowed."""

    tools: Strings = ()
    """Tools: globs of `server.name`, or of the bare name."""
    effects: tuple[Effect, ...] = ()
    """Tools with one of these effects, by `servers.NAME.side_effects`, else by what their servers declare; a tool of
    which nothing is declared has all of them."""


class PolicySection(Section):
    """Who may use what: case-sensitive globs; a deny wins."""

    allow: Strings = ("*",)
    """Tools, resources and prompts that may be used: globs of `server.name`, or of `server.URI`."""
    deny: Strings = ()
    """What is denied to everyone: globs of `server.name` or of the bare name, or of a URI."""
    visibility: tuple[VisibilitySection, ...] = ()
    """Rules for some callers only."""
    confirm: ConfirmSection = ConfirmSection()
    """What needs a person's approval."""


class SkillPackConfig(Section):
    """One pack of curated skills (R110)."""

    name: Annotated[str, Strict(), Field(min_length=1)]
    """The pack's name, a part of the names of its skills."""
    path: Annotated[str, Strict(), Field(min_length=1)]
    """Its folder, or `package:resource`."""
    format: Literal["md", "yaml", "json", "jsonl"] | None = None
    """The format of its files; null: by each file's name."""
    scope_mode: ScopeMode = "project"
    """Who sees its skills."""
    enabled: Bool = True
    """Load the pack."""
    update_existing_pack_skills: Bool = True
    """Replace a skill of the pack when its file has changed."""
    pinned_skill_names: Strings = ()
    """Skills that come first in the skill directory."""


class SkillPermission(Section):
    """One rule about who may load a skill (R181)."""

    tool: Str = "skill_get"
    """The tool that the rule is about."""
    skill_name: Str | None = None
    """The skill that the rule is about; null: every skill."""
    action: Literal["deny", "allow", "confirm"]
    """A deny beats an allow, which beats a confirmation: with that, the text is returned after a person's approval."""


class SkillToolsConfig(Section):
    """The tools of servers that one skill needs; a plain list means `tools`."""

    tools: Strings = ()
    """The tools that it needs, in addition to those its own text names: names or globs of `server.tool`."""
    scoped: Bool = False
    """`tools` are available only while a skill that names them is active: loading mode `skill`."""
    exclusive: Bool = False
    """When it becomes active, all others are deactivated."""


def _as_tools(value: object) -> object:
    return {"tools": cast("object", value)} if isinstance(value, list | tuple) else value


SkillTools = Annotated[SkillToolsConfig, BeforeValidator(_as_tools, json_schema_input_type=Strings | SkillToolsConfig)]
"""What a skill needs, or just the list of its tools."""


class SkillsInitialSection(Section):
    """Bounds of the full catalog of skills (R173)."""

    max_entries: Count = 200
    """Maximum number of skills in it."""
    max_bytes: Count = 32_768
    """Maximum size in bytes."""


class SkillsSearchSection(Section):
    """Bounds of `skill_search` (R185)."""

    default_limit: Annotated[int, Strict(), Field(ge=1, le=50)] = 8
    """Number of hits if the caller gives no limit."""
    max_limit: Annotated[int, Strict(), Field(ge=1, le=50)] = 20
    """Maximum number of hits that a caller may request."""


def _as_word(value: object) -> object:
    return {True: "always", False: "never"}[value] if isinstance(value, bool) else value


ExposePaths = Annotated[
    Literal["auto", "never", "always"],
    BeforeValidator(_as_word, json_schema_input_type=Literal["auto", "never", "always"] | bool),
]
"""Who is shown paths of this machine; older files have true or false."""


class SkillsDirectoryConfig(Section):
    """The short list of skills in the server's instructions (R122)."""

    enabled: Bool = True
    """Include it in the instructions."""
    max_entries: Count = 30
    """Maximum number of skills in it."""
    max_bytes: Count = 1000
    """Maximum size in bytes."""
    include_fields: tuple[Literal["name", "title", "trigger", "task_type"], ...] = ("name", "title", "trigger")
    """The fields shown of each skill."""
    selection_strategy: Literal["pinned_then_recent", "pinned_then_top"] = "pinned_then_recent"
    """Which skills are in it."""


class SkillsSection(Section):
    """Skills: which are served, to whom, and how much of them."""

    enabled: Bool = True
    """Serve skills."""
    core_pack: Bool = True
    """Load the pack that ships with toolcrib."""
    cache_dir: Str | None = None
    """Where the index of skills is kept; null: `toolcrib.cache_dir`."""
    top_k: Count = 3
    """Number of skills that a prompt for a task returns."""
    max_tokens: Annotated[int, Strict(), Field(ge=200)] = 2000
    """Maximum tokens of those skills together."""
    summarize: Bool = False
    """Without effect: skills are shortened by their structure, without a model."""
    redact_pii: Bool = True
    """Replace mail addresses, phone numbers and keys in skill texts."""
    scope_mode: ScopeMode = "project"
    """Who sees skills that name no scope."""
    fts_fallback_to_regex: Bool = True
    """Without effect: full-text search needs no FTS5, so nothing falls back."""
    estimator: Literal["chars", "bytes"] = "chars"
    """What tokens are estimated from: a quarter of the characters, or of the bytes."""
    frames: dict[Str, Strings] = Field(default_factory=dict[str, Strings])
    """Tags of the skills that belong to the frame of a task, by frame; an empty list: no skills are returned."""
    skill_packs: tuple[SkillPackConfig, ...] = ()
    """Packs of curated skills."""
    skill_dirs: Strings = ()
    """More folders with Agent Skills; `preset:claude` and similar name another client's own folders."""
    discover: tuple[Literal["repo", "user"], ...] = ("repo", "user")
    """Where Agent Skills are discovered: the repository, the home directory."""
    trust_project: Bool = True
    """Offer the skills of the repository."""
    from_servers: Bool = True
    """Offer the skills that MCP servers have."""
    validation: Literal["strict", "lenient"] = "lenient"
    """Whether a skill that breaks the format's rules is left out or only reported."""
    disabled_skills: Strings = ()
    """Skills to leave out, by name."""
    permissions: tuple[SkillPermission, ...] = ()
    """Rules about who may load a skill."""
    expose_paths: ExposePaths = "auto"
    """Show the paths of skill files on this machine: `auto`, to the client of a stdio server, for skills from folders;
    `true` is `always` and `false` is `never`. Never shown to callers with tokens."""
    serve_resources: Bool = True
    """Offer skills as resources too."""
    publish_redacted: Bool = False
    """Offer skills as resources even where redaction changed their text."""
    tool_activation: Literal["hint", "auto"] = "hint"
    """`auto`: a returned skill activates the tools that it names, while it is active; `hint`: it only names them."""
    outcomes: Bool = False
    """Let agents report whether a skill served its purpose; one that mostly fails ranks slightly lower for them."""
    initial: SkillsInitialSection = SkillsInitialSection()
    """Bounds of the full catalog."""
    search: SkillsSearchSection = SkillsSearchSection()
    """Bounds of `skill_search`."""
    directory: SkillsDirectoryConfig = SkillsDirectoryConfig()
    """The short list in the server's instructions."""


def _auto_or_bool(value: object) -> object:
    if value != "auto" and not isinstance(value, bool):
        raise PydanticCustomError("auto_or_bool", "must be auto, true or false")
    return value


AutoOrBool = Annotated[Literal["auto"] | bool, BeforeValidator(_auto_or_bool)]
"""A switch that may be left to what is installed."""


class SemanticSection(Section):
    """Search for tools and skills by meaning, in addition to words.

    The extra `toolcrib[semantic]` brings a model; nothing is downloaded automatically.
    """

    enabled: AutoOrBool = "auto"
    """Use it; `auto`: if a model is installed. If it fails, search uses words only and `toolcrib status` says why."""
    model: Annotated[str, Strict(), Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")] = (
        "minishlab/potion-retrieval-32M"
    )
    """The model2vec model that `toolcrib index semantic --download` downloads, as `owner/name`."""
    path: Str | None = None
    """A folder with a model2vec model to use; null: the downloaded `model`, or else the installed one."""
    alpha: Annotated[float, Strict(), Field(ge=0, le=1)] = 0.8
    """Weight of meaning, from 0 to 1: it is multiplied by how unsure words are, and at most .55."""


class ToolSearchSection(Section):
    """How tools are found and activated."""

    enabled: Bool = True
    """False: list every allowed tool, as a plain proxy would."""
    include_search_tool: Bool = True
    """Offer `tool_search`."""
    default_loading_mode: LoadingMode = LoadingMode.DEFERRED
    """Whether tools are listed from the start, once activated, or only while an active skill names them."""
    always_loaded_patterns: Strings = ()
    """Tools that are always listed from the start: globs of `server.tool`."""
    skill_scoped_patterns: Strings = ()
    """Tools available only while a skill that names them is active: names or globs of `server.tool`."""
    activation_scope: Literal["run", "session"] = "run"
    """Lifetime of an activation: one connection, or a session id that outlives it."""
    preferred_namespaces: Strings = ()
    """Servers whose tools rank first among equally good hits."""
    fts: Literal["auto", "off"] = "auto"
    """Keep FTS5 tables beside the rows, for programs that read the indexes; `off` is for tests."""
    fts_fallback_to_regex: Bool = True
    """Without effect: full-text search needs no FTS5, so nothing falls back."""
    enable_incremental_index: Bool = True
    """Without effect: a list is always compared with the index, and only what differs is written."""
    rebuild_cache_on_init: Bool = False
    """List all servers again at every start."""
    max_search_results: Annotated[int, Strict(), Field(ge=1, le=50)] = 10
    """Maximum number of hits of one search."""
    learn: Bool = False
    """Learn from use: associate words of a search with the tool that is called soon after it."""
    learn_shared: Bool = False
    """With `learn`: share what is learned among all who may use the same tools."""
    cache_dir: Str | None = None
    """Where the index of tools is kept; null: `toolcrib.cache_dir`."""
    capabilities: Strings = ()
    """Files with capabilities of your tools, added to those that ship with the package."""
    semantic: SemanticSection = SemanticSection()
    """Search by meaning, in addition to words, for tools and skills."""


Listing = Literal["dynamic", "stable", "auto"]


class ServerEntry(BaseModel):
    """One entry of `mcpServers`. Other programs read it too: keys that toolcrib does not know are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    command: Str | None = None
    """The program to start; if it begins with `./` or `../`, relative to the config file."""
    args: tuple[Text, ...] | None = None
    """Its arguments."""
    env: dict[str, Text] | None = None
    """Variables added to its environment."""
    cwd: Str | None = None
    """The directory it is started in; null: toolcrib's own."""
    type: Str | None = None
    """`stdio`, `http` (also `streamable-http`) or `sse`; null: by `command` or `url`."""
    url: Str | None = None
    """The URL of an HTTP server."""
    headers: dict[str, Text] | None = None
    """Headers sent with every request to it."""
    disabled: Bool = False
    """Leave this server out; [other words for it](#switched-off) are read too."""


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
    """Whether activated tools appear in the list; null: by the client's host if it is known, else `auto`."""
    call_tools: Literal["single", "split"] = "split"
    """`split`: also offer `tool_call_read`, which calls only tools declared read-only; hosts run it without asking."""
    expose: ExposeSection = ExposeSection()
    """Resources and prompts of servers."""
    pass_through_tokens: Annotated[int, Strict(), Field(ge=0)] = 0
    """List all tools, and none for finding them, to a caller whose tools take at most so many tokens; 0: never."""
    pass_through_below: Annotated[int, Strict(), Field(ge=0)] = 0
    """An older form: list all tools besides those for finding them to a caller who may use fewer; 0: never."""


class HostSection(Section):
    """Overrides for clients of one name."""

    structured: Literal["always", "never"] | None = None
    """Whether to send them structured content; null: as to others. `never`: what servers send alone is text too."""
    listing: Listing | None = None
    """Their kind of `tools/list`; null: as for others."""
    max_tokens: Count | None = None
    """Estimated tokens of a server's result given to their model at once; null: what known hosts show, else all."""


class ServerResultsSection(Section):
    """How much of a server's results a model is given at once."""

    max_tokens: Count | None = None
    """Estimated tokens of one result; the rest is read with `read_more`. null: as much as the client's host takes."""
    pages_kept: Count | None = None
    """Maximum number of pages of one result that are kept; null: as many as fit into `limits.results_kept_bytes`."""


class ResultsSection(Section):
    """How answers are sent; results of servers pass unchanged, but for length, `hidden` and what a host cannot show."""

    hidden: Literal["pass", "mark"] = "pass"
    """What a tool's result holds that a person cannot see: pass it on, or `mark` it in its texts, as in `[U+200B]`."""
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


class ArgumentSection(Section):
    """A value for one argument of a tool: fixed, or used where a call has none."""

    fixed: JsonValue = None
    """The value of each call; callers are not shown the argument."""
    default: JsonValue = None
    """The value where a call has none; the argument becomes optional."""

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if len(self.model_fields_set & {"fixed", "default"}) != 1:
            raise PydanticCustomError("one_of", "takes exactly one of fixed and default")
        return self


class ToolSection(Section):
    """Your words for one tool of a server, in place of its own."""

    name: Annotated[str, Strict(), Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None = None
    """Another name, without the server; the original one finds it too."""
    description: Str | None = None
    """Another description."""
    hide: Bool = False
    """Offer it to nobody, like `policy.deny`."""
    arguments: dict[str, ArgumentSection] = Field(default={})
    """Values of arguments, by name."""


class ServerSection(Section):
    """What toolcrib adds to one entry of `mcpServers`."""

    enabled: Annotated[Bool, BeforeValidator(flag, json_schema_input_type=bool)] = True
    """Use the server."""
    description: Str = ""
    """What the server is for."""
    protocol: Literal["auto", "legacy", "modern"] = "auto"
    """The revisions of MCP to speak with it; `auto`: those in which it can ask the client that calls it."""
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
    tools: dict[str, ToolSection] = Field(default={})
    """Your words for its tools, by the server's own names."""
    results: ServerResultsSection = ServerResultsSection()
    """How much of its results a model is given at once."""
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


class ProgramsSection(Section):
    """Programs over tools, run by `tool_run`; only with the extra `programs`."""

    enabled: Literal["auto", "off"] = "auto"
    """`auto`: list `tool_run` where the extra is installed, unless `tool_search.enabled` is false."""
    writes: Literal["ask", "never", "allow"] = "ask"
    """Tools that are not declared read-only: `ask` a person in each run, `never` call them, or `allow` them."""
    shapes: Bool = True
    """Learn from calls which names results that are JSON in a text have, and show them in later sessions."""
    timeout_s: Seconds = 120
    """How long one program may take; the time that a person takes to answer does not count."""
    compute_s: Seconds = 10
    """How long it may compute, on the clock, without the time that its calls take."""
    memory_bytes: Annotated[int, Strict(), Field(ge=16 * 1024 * 1024)] = 256 * 1024 * 1024
    """Memory of its values, and of the results of its calls that it has not taken yet."""
    code_bytes: Count = 32 * 1024
    """Size of its text."""
    calls: Count = 200
    """Calls of one program."""
    calls_at_a_time: Count = 8
    """Calls of one program under way at the same time; more wait for their turn."""
    result_bytes: Annotated[int, Strict(), Field(ge=1024)] = 16 * 1024 * 1024
    """Size of the result of one call inside; a larger one is an error in the program."""
    printed_bytes: Count = 16 * 1024
    """Size of what it prints that is kept; the rest is dropped."""
    max_tokens: Annotated[int, Strict(), Field(ge=100)] = 8000
    """Estimated tokens of its value and of what it prints that a model is given, together; a call may ask for less."""
    runs_per_session: Count = 4
    """Programs of one session at the same time; more are refused."""
    runs: Count = 32
    """Programs of all sessions at the same time, at most half of it, rounded up, of one caller; more are refused."""
    workers: Count = 8
    """Programs that compute at the same time, at most half of it, rounded up, of one caller; more wait."""
    idle_stop_s: Seconds = 60
    """Seconds without a program after which the processes that ran them, of which `workers` are kept, are stopped."""


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
    """Servers started at the same time, and known ones that are listed over HTTP at the same time."""
    catalog_max_age_s: Seconds = 86_400
    """Age at which a server's list of tools is refreshed, whatever else tells that it may have changed."""
    server_log_max_bytes: Annotated[int, Strict(), Field(ge=4096)] = 256 * 1024
    """Size of one server's stderr log on disk, for `toolcrib logs`; the oldest lines are dropped."""
    result_max_bytes: Annotated[int, Strict(), Field(ge=1024)] = 1024 * 1024
    """Size of one tool result, or of one page of it; of a larger one, text is read page by page with `read_more`."""
    json_path_s: Seconds = 1
    """How long one JSON path of `read_more` may take."""
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
    tasks: Count = 32
    """Tasks of one session, running or kept. A call beyond it is waited for, or refused if it asks for a task."""
    tasks_per_principal: Count = 128
    """The same for all sessions of one caller."""
    task_ttl_s: Seconds = 3600
    """How long a task may run and its result is kept, together; a client may ask for less."""
    task_poll_s: Seconds = 0.1
    """Shortest pause between two looks at a task, whatever its server suggests."""
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
    server_skills: Count = 200
    """Skills taken from one server."""
    server_skills_max_bytes: Annotated[int, Strict(), Field(ge=1024)] = 16 * 1024 * 1024
    """Total size of the files of these skills."""
    server_skills_timeout_s: Seconds = 60
    """How long reading the skills of one server may take; those read by then are used."""


class ToolcribSection(Section):
    """The whole value of the key `toolcrib`."""

    cache_dir: Str | None = None
    """Where the index is kept; null: a folder for this config file in the user's cache directory."""
    state_dir: Str | None = None
    """Where decisions and usage are kept; null: a folder for this config file in the user's data directory."""
    env_file: Str | None = None
    """A file of lines `NAME=value`, from which `${NAME}` is taken if the environment does not have it."""
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
    programs: ProgramsSection = ProgramsSection()
    """Programs over tools."""
    http: HttpSection = HttpSection()
    """Serving over HTTP."""
    events: EventsSection = EventsSection()
    """Structured events."""
    reload: ReloadSection = ReloadSection()
    """When the config is reloaded."""
    limits: LimitsSection = LimitsSection()
    """Every bound."""
