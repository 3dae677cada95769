"""From a config file on disk to :class:`~toolcrib.config.settings.Settings`, or to everything that is wrong with it."""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from toolcrib.base.errors import ConfigError, Problem
from toolcrib.base.json_values import DocumentError, as_object, repeated_in, with_members
from toolcrib.base.model import JsonObject
from toolcrib.base.redaction import SECRET_MIN_CHARACTERS, Learned
from toolcrib.config.documents import read, text_of
from toolcrib.config.findings import Findings, did_you_mean, ignored_keys, join, validation_problems
from toolcrib.config.foreign import foreign_shapes, list_hint
from toolcrib.config.paths import (
    USER_FILES,
    absolute,
    is_there,
    user_cache_dir,
    user_config_dir,
    user_state_dir,
)
from toolcrib.config.schema import HttpSection, ToolcribSection
from toolcrib.config.servers import ServerReader
from toolcrib.config.settings import MemoryTarget, Place, ServerSettings, Settings, has_scoped_tools
from toolcrib.config.switches import lists_off
from toolcrib.config.variables import Keyring, MissingSecret, References, Variables, no_keyring

NEW_FILE = USER_FILES[-1]
"""The user's config file that is created if there is none: JSON is read fastest."""

WORKING_DIRECTORY_FILES = ("mcp.json", ".mcp.json", *USER_FILES)
"""Names in the working directory that are worth a notice; none is ever used by itself."""

PRESET = "preset:"
"""How an entry of ``skills.skill_dirs`` begins that names another client's folders instead of a path."""

RESOURCE = re.compile(r"[A-Za-z_][\w.]+:[\w./-]+\Z")
"""``package:resource``; a drive letter alone is no package."""

_PROGRAM = "the config of this program"
_ENV_FILE = "toolcrib.env_file"
_TOP_LEVEL = ("mcpServers", "toolcrib", "$schema")
_CONTEXT = ("tenant_id", "project_id", "profile", "session_id")


@dataclass(frozen=True, slots=True)
class Given:
    """What a program configures itself: nothing is looked for that it does not name.

    ``document`` takes the place of a file. ``entries`` are further ones of ``mcpServers``, ``objects`` servers that are
    objects of the program, by the same names. ``in_memory``: nothing is stored. ``folder`` is where everything is
    stored; without it, where commands store it for the same file.
    """

    document: JsonObject = field(default_factory=dict[str, Any])
    entries: JsonObject = field(default_factory=dict[str, Any])
    objects: Mapping[str, MemoryTarget] = field(default_factory=dict[str, MemoryTarget])
    in_memory: bool = True
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the config comes from; ``path`` None is the embedded default. Its paths start from ``base``."""

    path: Path | None
    base: Path
    environ: Mapping[str, str]
    cwd: Path
    references: References
    given: Given | None = None

    @property
    def name(self) -> str:
        if self.path is not None:
            return str(self.path)
        return "the built-in defaults" if self.given is None else _PROGRAM


def load(
    path: Path | None,
    environ: Mapping[str, str],
    cwd: Path,
    keyring: Keyring = no_keyring,
    learned: Learned | None = None,
    given: Given | None = None,
) -> Settings:
    """Return what is configured: in ``path``, else ``$TOOLCRIB_CONFIG``, else the user's config directory.

    Without any file: no downstream. A relative ``path`` starts from ``cwd``, where no file is ever used by itself.
    The ``keyring`` is asked for what the config takes from there. ``learned`` are the secrets that have come up in this
    process. With what is ``given`` by a program, only ``path`` is read. Blocks.

    Raises:
        ConfigError: the file cannot be used; it carries everything that is wrong.

    """
    findings = Findings()
    config, base = (None, cwd) if given and path is None else _find(path, environ, cwd, findings)
    source = _Source(config, base, environ, cwd, References(environ, base, keyring), given)
    document: JsonObject = given.document if given else {}
    if source.path is not None:
        if _is_missing(source.path):
            # A program has named the file: a command that writes one is not what it lacks.
            hint = "check the path" if given else f"check the path, or `toolcrib init --config {source.path}` writes it"
            raise ConfigError(source.name, [Problem("file", "does not exist", hint)])
        # The list of problems becomes that of the findings, which the rest adds to.
        document, findings.problems = read(source.path)
        findings.problems += foreign_shapes(document, source.path)
    if given and given.entries:
        document = _with_entries(document, given.entries, findings)
    listed_off = lists_off(document)
    unread = [key for key in document if listed_off.get(key) is None]
    meanings = dict.fromkeys(listed_off, "write a list of names")
    findings.notices += ignored_keys(source.name, unread, _TOP_LEVEL, meanings)
    findings.notices += _read_env_file(document, environ, source.references)
    # Reading goes on after a mistake, so that a person sees all of them at once.
    section, secrets = _section(document.get("toolcrib"), source, findings)
    # Each server learns the secrets of its own login, and all of them are masked everywhere.
    learned = learned or Learned()
    servers = {
        key: replace(server, learned=learned.part(key))
        for key, server in _servers(document, section, source, findings, listed_off).items()
    }
    findings.notices += (
        Problem(str(file), "holds a secret, and others can read it", f"chmod 600 {shlex.quote(str(file))}")
        for file in source.references.open_to_others
    )
    capabilities = tuple(_capabilities(section, source, findings))
    malformed = [each for each in findings.skipped if each.is_malformed]
    if findings.problems:
        # An entry forbids no start, but a person sees all mistakes at once.
        raise ConfigError(source.name, [*findings.problems, *malformed])
    of_program = _keys_of_program(source)
    if own := [each for each in malformed if each.key in of_program]:
        raise ConfigError(_PROGRAM, own)
    without_effect = tuple(keys_without_effect(section))
    # Without them, folders of the person and of the repository are looked for, which this program did not name.
    names_skills = given is None or path is not None or "skills" in section.model_fields_set
    section = _with_absolute_paths(_with_context(section, environ), source)
    in_memory = given is not None and given.in_memory
    if in_memory:
        section = _with(section, ["skills", "from_servers"], value=False)  # they are read from copies on disk
    if not names_skills:
        section = _with(section, ["skills", "enabled"], value=False)
    return Settings(
        source=source.name,
        config_path=source.path,
        cache_dir=_directory(section.cache_dir, "TOOLCRIB_CACHE_DIR", user_cache_dir, source),
        state_dir=_directory(section.state_dir, "TOOLCRIB_STATE_DIR", user_state_dir, source),
        in_memory=in_memory,
        toolcrib=section,
        servers=servers,
        place=_place(source),
        skipped=tuple(findings.skipped),
        notices=tuple(findings.notices),
        without_effect=without_effect,
        session_id=section.context.session_id,
        secrets=secrets,
        learned=learned,
        capabilities=capabilities,
        env_file=source.references.env_file,
    )


def env_references(
    document: JsonObject, path: Path, environ: Mapping[str, str], keyring: Keyring = no_keyring
) -> References:
    """Return what the references in a config's ``document`` stand for, which is or will be at ``path``.

    Its file of variables counts as empty where it cannot be read. Blocks.
    """
    references = References(environ, path.parent, keyring)
    tuple(_read_env_file(document, environ, references))
    return references


def _read_env_file(document: JsonObject, environ: Mapping[str, str], references: References) -> Iterator[Problem]:
    """Take in the file of variables that a config names, before its variables are filled in."""
    named = (_object(document.get("toolcrib")) or {}).get("env_file")
    # Of another type, it is an error of the schema.
    if not isinstance(named, str) or not named:
        return
    try:
        references.read_env_file(Variables(environ, references).fill(named, _ENV_FILE))
    except MissingSecret as missing:
        yield Problem(_ENV_FILE, missing.reason, missing.hint, is_mistake=True)


def user_file(environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the config file that is used where none is named: the one that is there, else where one would be."""
    named = environ.get("TOOLCRIB_CONFIG")
    if named:
        return absolute(named, cwd, environ)
    directory = user_config_dir(environ)
    return next((file for name in USER_FILES if is_there(file := directory / name)), directory / NEW_FILE)


def _find(path: Path | None, environ: Mapping[str, str], cwd: Path, findings: Findings) -> tuple[Path | None, Path]:
    """Return the config file, None where there is none, and the folder that its relative paths start from."""
    named = str(path) if path is not None else environ.get("TOOLCRIB_CONFIG")
    if named:
        # Paths in a named file start from its folder, whichever directory a client starts toolcrib in.
        file = absolute(named, cwd, environ)
        return file, file.parent
    directory = user_config_dir(environ)
    own = [file for name in USER_FILES if is_there(file := directory / name)]
    for other in own[1:]:
        findings.notices.append(Problem(str(other), "is not used", f"{own[0].name} beside it is"))
    # A config names programs to start, so starting in a cloned repository must not use its files.
    for name in WORKING_DIRECTORY_FILES:
        if cwd != directory and is_there(cwd / name):
            reason = "is in the working directory, and such a file is never used automatically"
            findings.notices.append(Problem(name, reason, f"to use it, add --config {name}"))
    return (own[0], directory) if own else (None, cwd)


def _is_missing(file: Path) -> bool:
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # reading it says what is wrong
        return False
    return False


def _section(raw: Any, source: _Source, findings: Findings) -> tuple[ToolcribSection, tuple[str, ...]]:
    """Return the key ``toolcrib``, and the secrets that were filled in.

    Where it is wrong it is the defaults, so that the rest can be looked at too.
    """
    variables = Variables(source.environ, source.references)
    filled = variables.fill({} if raw is None else raw, "toolcrib")
    findings.problems += variables.missing
    try:
        section = ToolcribSection.model_validate(filled)
    except ValidationError as error:
        findings.problems += validation_problems(error, ToolcribSection, "toolcrib")
        return ToolcribSection(), ()
    secrets = (secret for secret in variables.secrets if len(secret) >= SECRET_MIN_CHARACTERS)
    return section, tuple(dict.fromkeys(secrets))


def _servers(
    document: JsonObject,
    section: ToolcribSection,
    source: _Source,
    findings: Findings,
    listed_off: Mapping[str, Collection[str] | None],
) -> dict[str, ServerSettings]:
    entries = _object(document.get("mcpServers"))
    if entries is None:
        hint = list_hint(document["mcpServers"])
        findings.problems.append(Problem("mcpServers", "must be an object of servers by name", hint))
        return {}
    options = _object((_object(document.get("toolcrib")) or {}).get("servers")) or {}
    objects = source.given.objects if source.given else dict[str, MemoryTarget]()
    for key in options:
        if key not in entries and key not in objects:
            path = join("toolcrib.servers", key)
            findings.problems.append(Problem(path, "is not in mcpServers", did_you_mean(key, [*entries, *objects])))
    findings.problems += (_twice(key) for key in objects if key in entries)
    environ, references, repeated = source.environ, source.references, repeated_in(entries)
    reader = ServerReader(section, environ, source.base, findings, references, listed_off, repeated)
    servers = [reader.read(key, entry) for key, entry in entries.items()]
    servers += [reader.in_memory(key, target) for key, target in objects.items()]
    return {server.key: server for server in servers if server is not None}


def _with_entries(document: JsonObject, entries: JsonObject, findings: Findings) -> JsonObject:
    """Return a config with further entries of servers."""
    own = _object(document.get("mcpServers"))
    if own is None:
        return document  # which is an error below
    findings.problems += (_twice(key) for key in entries if key in own)
    return {**document, "mcpServers": with_members(own, entries)}


def _keys_of_program(source: _Source) -> set[str]:
    """Return the servers whose entries a program has made: it is told of a mistake by an error."""
    if source.given is None:
        return set()
    document = source.given.document if source.path is None else {}
    return {*source.given.entries, *as_object(document.get("mcpServers"))}


def _twice(key: str) -> Problem:
    hint = "give one of them another name"
    return Problem(join("mcpServers", key), "is a server of the config and one of the program", hint)


def _object(value: Any) -> JsonObject | None:
    """Return ``value`` if it is an object, an empty one where there is none, and None where it is something else."""
    # YAML has null where a key is followed by comments only.
    if value is None:
        return {}
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _with_context(section: ToolcribSection, environ: Mapping[str, str]) -> ToolcribSection:
    """Return the section with what the config leaves open about the caller taken from the environment."""
    found = {
        name: value
        for name in _CONTEXT
        if getattr(section.context, name) is None and (value := environ.get(f"TOOLCRIB_{name.upper()}"))
    }
    return section.model_copy(update={"context": section.context.model_copy(update=found)})


def _with_absolute_paths(section: ToolcribSection, source: _Source) -> ToolcribSection:
    def resolved(part: BaseModel, key: str) -> dict[str, str]:
        text = getattr(part, key)
        return {} if text is None else {key: str(absolute(text, source.base, source.environ))}

    search, events, skills = section.tool_search, section.events, section.skills
    packs = [
        pack if RESOURCE.match(pack.path) else pack.model_copy(update=resolved(pack, "path"))
        for pack in skills.skill_packs
    ]
    folders = [
        text if text.startswith(PRESET) else str(absolute(text, source.base, source.environ))
        for text in skills.skill_dirs
    ]
    dictionaries = [str(absolute(text, source.base, source.environ)) for text in search.capabilities]
    found = {**resolved(skills, "cache_dir"), "skill_packs": tuple(packs), "skill_dirs": tuple(folders)}
    return section.model_copy(
        update={
            **resolved(section, "cache_dir"),
            **resolved(section, "state_dir"),
            **resolved(section, "env_file"),
            "tool_search": search.model_copy(
                update={
                    **resolved(search, "cache_dir"),
                    "semantic": search.semantic.model_copy(update=resolved(search.semantic, "path")),
                    "capabilities": tuple(dictionaries),
                }
            ),
            "events": events.model_copy(update=resolved(events, "file")),
            "skills": skills.model_copy(update=found),
        }
    )


def _capabilities(section: ToolcribSection, source: _Source, findings: Findings) -> Iterator[tuple[str, str]]:
    """Yield each file of capabilities with its text; those that cannot be used are problems."""
    if not section.tool_search.capabilities:
        return
    from toolcrib.search.capabilities import Capabilities, CapabilityError  # noqa: PLC0415 - most configs have none

    for number, name in enumerate(section.tool_search.capabilities):
        path = absolute(name, source.base, source.environ)
        reason, hint = "", "docs/capabilities.md has the form"
        try:
            text = text_of(path)
            Capabilities([(str(path), text)]).every  # noqa: B018 - compiled only to be checked
            yield str(path), text
        except CapabilityError as error:
            reason = str(error)
        except OSError as error:
            reason, hint = f"{path} cannot be read: {error.strerror or 'it is not a file'}", ""
        except DocumentError as error:
            reason = f"{path} {error}"
        if reason:
            findings.problems.append(Problem(join("toolcrib.tool_search.capabilities", number), reason, hint))


def _place(source: _Source) -> Place:
    environ = source.environ
    home, skills_root = environ.get("HOME") or environ.get("USERPROFILE"), environ.get("TOOLCRIB_SKILLS_ROOT")
    return Place(
        cwd=source.cwd,
        home=Path(home) if home else None,
        skills_root=absolute(skills_root, source.cwd, environ) if skills_root else None,
        variables=frozenset(name for name, value in environ.items() if value),
        cache_home=environ.get("XDG_CACHE_HOME") or None,
    )


def _directory(
    configured: str | None, variable: str, default: Callable[[Mapping[str, str], Path | None], Path], source: _Source
) -> Path:
    if source.given and source.given.folder:
        return source.given.folder
    if configured is not None:
        return Path(configured)
    named = source.environ.get(variable)
    return absolute(named, source.cwd, source.environ) if named else default(source.environ, source.path)


_FIXED = (
    "cache_dir",
    "state_dir",
    "context",
    "events",
    "reload",
    "tool_search.cache_dir",
    "tool_search.activation_scope",
    "skills.cache_dir",
    *(f"http.{name}" for name in HttpSection.model_fields if name != "tokens"),
    *(f"limits.{name}" for name in ("request_max_bytes", "garbage_lines", "replay_max_bytes")),
    *(f"limits.{name}" for name in ("sessions_kept", "sessions_kept_s", "activations_kept")),
    *(f"limits.{name}" for name in ("results_kept_s", "results_kept_bytes", "results_kept_total_bytes")),
)
"""By these something was opened that outlives a config. Who listens, and whose the files are, stays as it was."""


def keep_fixed_keys(before: Settings, after: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings as they can take the place of others, and the keys that differ and stay as they were."""
    section, fixed = after.toolcrib, list[str]()
    for key in _FIXED:
        value = _at(before.toolcrib, key)
        if _at(section, key) != value:
            fixed.append(key)
            section = _with(section, key.split("."), value)
    # The transport was opened with tokens or without; which tokens there are may change.
    if bool(section.http.tokens) != bool(before.toolcrib.http.tokens):
        fixed.append("http.tokens")
        section = _with(section, ["http", "tokens"], before.toolcrib.http.tokens)
    kept = {name: getattr(before, name) for name in ("cache_dir", "state_dir", "session_id", "in_memory")}
    return replace(after, toolcrib=section, **kept), tuple(fixed)


def _at(section: BaseModel, key: str) -> Any:
    value: Any = section
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _with(section: ToolcribSection, path: list[str], value: object) -> ToolcribSection:
    """Return a copy in which the key at ``path`` has this value."""
    name, *inner = path
    if inner:
        part = getattr(section, name)
        value = part.model_copy(update={inner[0]: value})
    return section.model_copy(update={name: value})


_NO_FALLBACK = "has no effect: full-text search needs no FTS5, so nothing ever falls back to patterns"

_NOTHING_SCOPED = "has no effect: this entry has no tools"
_NAME_TOOLS = "name them in 'tools': what the skill's own text names is scoped by server or pattern only"
_NEVER_OPEN = "is false, but some tools are scoped to skills: nobody can ever use them"
_SWITCH_ON = "enable skills, or remove the loading mode 'skill' and 'scoped'"

REASONS: Mapping[tuple[str, str], str] = {
    ("tool_search", "fts_fallback_to_regex"): _NO_FALLBACK,
    ("skills", "fts_fallback_to_regex"): _NO_FALLBACK,
    (
        "tool_search",
        "enable_incremental_index",
    ): "has no effect: a list is always compared with the index, and only what differs is written",
    ("skills", "summarize"): "has no effect: skills are shortened by their structure, without a model",
}
"""By section and key, what to tell a person who sets it."""


def keys_without_effect(section: ToolcribSection) -> Iterator[Problem]:
    """Yield a note on each key that the config sets and that changes nothing, whatever its value."""
    for (part, key), reason in REASONS.items():
        inner: BaseModel = getattr(section, part)
        if key in inner.model_fields_set:
            yield Problem(join("toolcrib", part, key), reason)
    for skill, entry in section.skill_tools.items():
        if entry.scoped and not entry.tools:
            yield Problem(join("toolcrib", "skill_tools", skill, "scoped"), _NOTHING_SCOPED, _NAME_TOOLS)
    if has_scoped_tools(section) and not section.skills.enabled:
        yield Problem(join("toolcrib", "skills", "enabled"), _NEVER_OPEN, _SWITCH_ON)
