"""The shape of ``toolcrib.tool_search``: every key, its type, its bounds and its default.

Knows names and ranges only; never knows files or how a tool is found.
The text under each key is its row in docs/configuration.md.
"""

from typing import Annotated, Literal

from pydantic import Field, Strict

from toolcrib.base.model import LoadingMode
from toolcrib.config.values import Bool, Section, Str, Strings


class SemanticSection(Section):
    """Search for tools and skills by meaning, in addition to words.

    Needs the extra `toolcrib[semantic]` and a model, which is never downloaded automatically.
    """

    enabled: Bool = False
    """Use it; if it is unavailable, search uses words only and `toolcrib status` says why."""
    model: Annotated[str, Strict(), Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")] = (
        "minishlab/potion-retrieval-32M"
    )
    """The model2vec model that `toolcrib index semantic --download` downloads, as `owner/name`."""
    path: Str | None = None
    """The folder of the model; null: one for `model` in the user's cache directory."""
    alpha: Annotated[float, Strict(), Field(ge=0, le=1)] = 0.6
    """Weight of meaning relative to words, from 0 to 1; it is lower in a long query."""


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
    """Write only what has changed to the index."""
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
    semantic: SemanticSection = SemanticSection()
    """Search by meaning, in addition to words, for tools and skills."""
