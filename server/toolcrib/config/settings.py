"""What the rest of the program gets from a config file: parsed, expanded and frozen."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolcrib.base.errors import Problem
from toolcrib.base.model import LoadingMode
from toolcrib.base.redaction import TEXT_RULES, Learned, Redactor
from toolcrib.config.findings import Skipped
from toolcrib.config.paths import TOKENS, user_model_dir
from toolcrib.config.schema import ServerEntry, ServerSection, ToolcribSection
from toolcrib.config.variables import EnvFile

if TYPE_CHECKING:
    from toolcrib.jsonrpc.sdk import Channel  # imports the SDK, which most commands do without


def scoped_globs(section: ToolcribSection) -> tuple[str, ...]:
    """Return the names and globs of tools that are there by skills alone, whatever server they are of."""
    by_skills = (glob for entry in section.skill_tools.values() if entry.scoped for glob in entry.tools)
    return tuple(dict.fromkeys((*section.tool_search.skill_scoped_patterns, *by_skills)))


def needs_scopes(section: ToolcribSection) -> bool:
    """Return whether earlier returned skills matter: for tools, or for outcomes of skills."""
    return section.skills.enabled and (section.skills.outcomes or has_scoped_tools(section))


def has_scoped_tools(section: ToolcribSection) -> bool:
    """Return whether any tool is there by skills alone, as far as the config tells."""
    modes = (section.tool_search, section.server_defaults, *section.servers.values())
    return bool(scoped_globs(section)) or any(each.default_loading_mode is LoadingMode.SKILL for each in modes)


def fingerprint(entry: "ServerEntry | MemoryTarget", options: ServerSection, section: ToolcribSection) -> str:
    """Return the hash of an entry, its options and the general settings that shape rows, as 64 hex digits.

    The variables of ``entry`` are filled in, and its ``type`` is ``stdio``, ``http`` or ``sse``.
    """
    identity: dict[str, Any] = {
        "target": {"version": entry.version} if isinstance(entry, MemoryTarget) else _target(entry),
        # Neither changes what a server offers; the part of auth that does is added below.
        "options": options.model_dump(exclude={"isolation", "auth", "results"}),
        "policy": section.policy.model_dump(),
        "tool_examples": section.tool_examples.model_dump(),
        "loading": [section.tool_search.default_loading_mode, section.tool_search.always_loaded_patterns],
        "limits": [section.limits.name_max, section.limits.tools_per_server, section.limits.definition_max_bytes],
    }
    if globs := scoped_globs(section):
        identity["scoped"] = globs
    if options.auth is not None:  # who logs in may see other tools
        identity["auth"] = _digest(options.auth.model_dump_json(exclude={"redirect_port"}))
    return _digest(json.dumps(identity, sort_keys=True, separators=(",", ":")))


def _target(entry: ServerEntry) -> dict[str, Any]:
    if entry.url is None:
        return {
            "command": entry.command,
            "args": entry.args,
            "cwd": entry.cwd,
            # Hashed: the fingerprint is stored in the index, and secrets are not.
            "env": _hashed(entry.env or {}),
        }
    url = urlsplit(entry.url)
    userinfo, _, address = url.netloc.rpartition("@")
    return {
        "type": entry.type,
        "url": url._replace(netloc=address, query="", fragment="").geturl(),
        "hashed": [_digest(userinfo), _digest(url.query)],
        # Names of headers are the same in any case.
        "headers": _hashed({name.lower(): value for name, value in (entry.headers or {}).items()}),
    }


def _hashed(values: Mapping[str, str]) -> dict[str, str]:
    return {name: _digest(value) for name, value in values.items()}


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


TOOL_CACHE = "tool_cache.db"
"""The name of the tool index in its directory."""

SKILL_CACHE = "skills.db"
"""The name of the skill index in its directory."""

SERVER_SKILLS = "server-skills"
"""The name of the folder with copies of the skills of servers, in the cache directory."""

STATE = "state.db"
"""The name of the file of decisions in its directory."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where this process was started: all that the discovery of skills needs of the environment.

    ``skills_root`` is ``$TOOLCRIB_SKILLS_ROOT``, which ends the walk up for repository skills (R164).
    ``variables`` are the names of the environment variables that are set and not empty; never their values.
    ``cache_home`` is ``$XDG_CACHE_HOME``.
    """

    cwd: Path
    home: Path | None = None
    skills_root: Path | None = None
    variables: frozenset[str] = frozenset()
    cache_home: str | None = None


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A downstream that is started as a process. ``env`` is its whole environment, already chosen."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path | None


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A downstream that is reached by streamable HTTP, or by the older SSE transport."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    sse: bool = False

    @property
    def public_url(self) -> str:
        """Return the URL without what may be secret: user, password and query."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()

    @property
    def has_own_token(self) -> bool:
        """Whether the config has the credentials, so that no login is used."""
        return any(name.lower() == "authorization" for name in self.headers)


@dataclass(frozen=True, slots=True)
class MemoryTarget:
    """A downstream that is an object of the program that runs toolcrib. ``open`` opens a channel to it.

    ``version`` differs between two of which one may have other tools.
    """

    open: "Callable[[], AbstractAsyncContextManager[Channel]]" = field(repr=False)
    version: str


Target = StdioTarget | HttpTarget | MemoryTarget

_OF_TOOLS: Sequence[str] = (
    "description default_loading_mode always_loaded_tools deferred_tools tags side_effects tool_examples "
    "inherit_from_schema tools results"
).split()
"""Options of a server that do not matter to how it is run."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One downstream: how to reach it, and what toolcrib does with its tools.

    ``fingerprint`` is the hash of all that decides its rows in the index and how it is started; it holds no secret.
    ``secrets`` are values that must never appear in a log, an error or an event; nor must those that are ``learned``.
    """

    key: str
    target: Target
    options: ServerSection
    fingerprint: str
    secrets: tuple[str, ...] = field(repr=False, default=())
    learned: Learned = field(repr=False, compare=False, default_factory=Learned)

    @property
    def may_log_in(self) -> bool:
        """Whether it is one that toolcrib logs in to, where it asks for that."""
        auth = self.options.auth
        is_wanted = auth is None or auth.type != "none"
        return is_wanted and isinstance(self.target, HttpTarget) and not self.target.has_own_token

    def is_run_as(self, other: "ServerSettings") -> bool:
        """Return whether both are reached, started and called in the same way; what they say of tools may differ."""
        without_tools = dict.fromkeys(_OF_TOOLS)
        ours, theirs = (
            replace(each, options=each.options.model_copy(update=without_tools), fingerprint="")
            for each in (self, other)
        )
        return ours == theirs

    @property
    def redactor(self) -> Redactor:
        """Return what takes this server's secrets out of what it says."""
        return Redactor(self.secrets, learned=self.learned)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that was configured.

    ``source`` names the file for people. ``servers`` are the ones to use; ``skipped`` are entries left out
    (disabled, malformed, an unset variable, toolcrib itself), each with its reason. ``notices`` are warnings for
    stderr.
    ``without_effect`` are keys that are set and change nothing, for a person who asks.
    ``secrets`` are those that the key ``toolcrib`` refers to, ``learned`` those that come up while it is in use.
    ``capabilities`` are the files of ``tool_search.capabilities``, each with its text. ``env_file`` is the file of
    variables that the config names.
    ``in_memory``: nothing is written to disk, and nothing is read that another process has written there.
    Every path in ``toolcrib`` is absolute, but for ``package:resource`` of a pack and ``preset:NAME`` of a skill
    directory.
    """

    source: str
    config_path: Path | None
    cache_dir: Path
    state_dir: Path
    toolcrib: ToolcribSection
    servers: Mapping[str, ServerSettings]
    place: Place
    skipped: tuple[Skipped, ...] = ()
    notices: tuple[Problem, ...] = ()
    without_effect: tuple[Problem, ...] = ()
    session_id: str | None = None
    secrets: tuple[str, ...] = field(repr=False, default=())
    learned: Learned = field(repr=False, compare=False, default_factory=Learned)
    capabilities: tuple[tuple[str, str], ...] = field(repr=False, default=())
    env_file: EnvFile | None = None
    in_memory: bool = False

    @property
    def redactor(self) -> Redactor:
        """Return what takes every secret of this config out of a text, and whatever else looks like one."""
        of_servers = (secret for server in self.servers.values() for secret in server.secrets)
        of_callers = (entry.token for entry in self.toolcrib.http.tokens)
        return Redactor([*of_servers, *of_callers, *self.secrets], TEXT_RULES, self.learned)

    def why_left_out(self, server: str) -> str:
        """Return why the entry of a server is left out, and what to do; empty where it is not, or there is none."""
        why = next((each for each in self.skipped if each.key == server), None)
        return "" if why is None else why.text

    def stored(self, path: Path) -> Path | None:
        """Return the path of a file or folder, or None where nothing is written to disk."""
        return None if self.in_memory else path

    @property
    def why_no_servers(self) -> Problem | None:
        """Return why there is no server to use; None if there is one."""
        if self.servers:
            return None
        if self.config_path is None:
            hint = "`toolcrib init` takes over the servers of your clients, or name a file with --config"
            return Problem("mcpServers", "there is no config file, so there are no servers", hint)
        if self.skipped:
            hint = "`toolcrib config check` gives the reasons"
            return Problem("mcpServers", "no server is used, because each of them is left out", hint)
        hint = "`toolcrib add` writes one, `toolcrib init` those of your clients"
        return Problem("mcpServers", "there are no servers", hint)

    @property
    def tool_cache_dir(self) -> Path:
        """Return the directory of the tool index."""
        named = self.toolcrib.tool_search.cache_dir
        return self.cache_dir if named is None else Path(named)

    @property
    def tool_cache(self) -> Path:
        """Return the file of the tool index."""
        return self.tool_cache_dir / TOOL_CACHE

    @property
    def downloaded_model_dir(self) -> Path:
        """Return the folder of the downloaded model for search by meaning, whether it is there or not."""
        home = self.place.cache_home
        environ = {} if home is None else {"XDG_CACHE_HOME": home}
        return user_model_dir(environ, self.toolcrib.tool_search.semantic.model)

    @property
    def skill_cache(self) -> Path:
        """Return the file of the skill index."""
        named = self.toolcrib.skills.cache_dir
        return (self.cache_dir if named is None else Path(named)) / SKILL_CACHE

    @property
    def server_skills_dir(self) -> Path:
        """Return the directory of copies of the skills of servers, a folder for each server."""
        return self.cache_dir / SERVER_SKILLS

    @property
    def state_file(self) -> Path:
        """Return the file of what was decided, and of what cannot be made again."""
        return self.state_dir / STATE

    @property
    def tokens_dir(self) -> Path:
        """Return the directory of what logins to servers gave."""
        return self.state_dir / TOKENS

    @property
    def events_file(self) -> Path:
        """Return the file that events are written to."""
        named = self.toolcrib.events.file
        return self.cache_dir / "events.jsonl" if named is None else Path(named)
