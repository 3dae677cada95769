"""The shape of ``toolcrib.skills``: every key, its type, its bounds and its default.

Knows names and ranges only; never knows files or what a skill is.
The text under each key is its row in docs/configuration.md.
"""

from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, Strict

from toolcrib.base.model import ScopeMode
from toolcrib.config.values import Bool, Count, Section, Str, Strings


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
"""To whom paths of this machine are told; older files have true or false."""


class SkillsDirectoryConfig(Section):
    """The short list of skills in the server's instructions (R122)."""

    enabled: Bool = True
    """Include it in the instructions."""
    max_entries: Count = 30
    """Maximum number of skills in it."""
    max_bytes: Count = 1200
    """Maximum size in bytes."""
    include_fields: tuple[Literal["name", "title", "trigger", "task_type"], ...] = (
        "name",
        "title",
        "trigger",
    )
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
