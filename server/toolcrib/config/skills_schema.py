"""The shape of ``toolcrib.skills``: every key, its type, its bounds and its default.

Knows names and ranges only; never knows files or what a skill is.
The text under each key is its row in docs/configuration.md.
"""

from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, Strict

from toolcrib.config.values import Bool, Count, Section, Str, Strings
from toolcrib.model import ScopeMode


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
    """What happens: a deny beats an allow, which beats a confirmation: the text is given after a
    person has said yes."""


class SkillToolsConfig(Section):
    """What one skill needs of the tools of servers; a list alone means `tools`."""

    tools: Strings = ()
    """The tools that it needs: names or globs of `server.tool`, besides those that its own text names."""
    scoped: Bool = False
    """`tools` are there only while a skill that names them is active: loading mode `skill`."""
    exclusive: Bool = False
    """When it becomes active, all others are let go."""


def _as_tools(value: object) -> object:
    return {"tools": cast("object", value)} if isinstance(value, list | tuple) else value


SkillTools = Annotated[SkillToolsConfig, BeforeValidator(_as_tools, json_schema_input_type=Strings | SkillToolsConfig)]
"""What a skill needs, or just the list of its tools."""


class SkillsInitialSection(Section):
    """Bounds of the full catalog of skills (R173)."""

    max_entries: Count = 200
    """Most skills in it."""
    max_bytes: Count = 32_768
    """Most bytes of it."""


class SkillsSearchSection(Section):
    """Bounds of `skill_search` (R185)."""

    default_limit: Annotated[int, Strict(), Field(ge=1, le=50)] = 8
    """Hits where the caller names no limit."""
    max_limit: Annotated[int, Strict(), Field(ge=1, le=50)] = 20
    """Most hits that a caller may ask for."""


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
    """Put it there."""
    max_entries: Count = 30
    """Most skills in it."""
    max_bytes: Count = 1200
    """Most bytes of it."""
    include_fields: tuple[Literal["name", "title", "trigger", "task_type"], ...] = (
        "name",
        "title",
        "trigger",
    )
    """What is said of each skill."""
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
    """Skills that a prompt for a task brings."""
    max_tokens: Annotated[int, Strict(), Field(ge=200)] = 2000
    """Most tokens of those skills together."""
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
    """Tags of the skills that belong to the frame of a task, by frame; an empty list: none do, and none are brought."""
    skill_packs: tuple[SkillPackConfig, ...] = ()
    """Packs of curated skills."""
    skill_dirs: Strings = ()
    """More folders to look for Agent Skills in; `preset:claude` and the like name another client's own folders."""
    discover: tuple[Literal["repo", "user"], ...] = ("repo", "user")
    """Where Agent Skills are looked for: the repository, the home directory."""
    trust_project: Bool = True
    """Offer the skills of the repository."""
    validation: Literal["strict", "lenient"] = "lenient"
    """Whether a skill that breaks the format's rules is refused or only reported."""
    disabled_skills: Strings = ()
    """Skills to leave out, by name."""
    permissions: tuple[SkillPermission, ...] = ()
    """Rules about who may load a skill."""
    expose_paths: ExposePaths = "auto"
    """Tell where the files of skills lie on this machine: `auto`, the one client of a stdio server, of skills from
    folders; `true` is `always` and `false` is `never`. Never to callers with tokens."""
    serve_resources: Bool = True
    """Offer skills as resources too."""
    publish_redacted: Bool = False
    """Offer skills as resources even where redaction changed their text."""
    tool_activation: Literal["hint", "auto"] = "hint"
    """`auto`: a skill that is given activates the tools that it names, while it is active; `hint`: it tells of them."""
    outcomes: Bool = False
    """Let agents report whether a skill did what it was for; one that mostly fails is found a little later by them."""
    initial: SkillsInitialSection = SkillsInitialSection()
    """Bounds of the full catalog."""
    search: SkillsSearchSection = SkillsSearchSection()
    """Bounds of `skill_search`."""
    directory: SkillsDirectoryConfig = SkillsDirectoryConfig()
    """The short list in the server's instructions."""
