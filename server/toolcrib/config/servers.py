"""Parses entries of ``mcpServers`` into servers to connect to."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from toolcrib.base.errors import Problem
from toolcrib.base.json_values import as_object
from toolcrib.base.redaction import SECRET_MIN_CHARACTERS
from toolcrib.base.text import one_line
from toolcrib.config.findings import Findings, ignored_keys, join, near_keys, validation_problems
from toolcrib.config.foreign import foreign_entry, foreign_key_hints, foreign_rules
from toolcrib.config.launching import ChildEnvironments, safe_names, starts_toolcrib
from toolcrib.config.paths import absolute
from toolcrib.config.private_values import private_arguments, private_headers, private_parts
from toolcrib.config.schema import ServerEntry, ServerSection, ToolcribSection
from toolcrib.config.settings import (
    HttpTarget,
    MemoryTarget,
    ServerSettings,
    StdioTarget,
    Target,
    fingerprint,
)
from toolcrib.config.switches import Switches, switches
from toolcrib.config.tool_rules import tool_rules
from toolcrib.config.variables import References, Variables

_TYPES = {"stdio": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse"}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f]")


class ServerReader:
    """Reads the entries of one config file. ``base`` is the directory that relative paths start from.

    ``listed_off`` are servers that the file switches off beside them, by the key of the list.
    """

    def __init__(
        self,
        section: ToolcribSection,
        environ: Mapping[str, str],
        base: Path,
        findings: Findings,
        references: References | None = None,
        listed_off: Mapping[str, Collection[str] | None] = MappingProxyType({}),
    ) -> None:
        self.section, self.environ, self.base, self.findings = section, environ, base, findings
        self.listed_off = listed_off
        self._references = references
        self._environments = ChildEnvironments(environ)

    def read(self, key: str, raw: Any) -> ServerSettings | None:
        """Return the server of one entry, or None if it is left out; problems go to the findings."""
        path = join("mcpServers", key)
        if not key.strip():
            self.findings.problems.append(Problem(path, "the name of a server must not be empty"))
        # One for each entry: a variable that is missing leaves out this server only.
        variables = Variables(self.environ, self._references)
        filled, options = variables.fill(raw, path), _options_of(key, self.section)
        found = switches(as_object(filled))
        # First: what is switched off may have any fault.
        if off := self._switched_off(key, found, options, path):
            self.findings.skipped.append(off)
            return None
        rules = tool_rules(as_object(raw), key)
        entry = self._entry(filled, path, {*rules, *found.keys})
        if entry is None:
            return None
        # Serving an entry whose restrictions are not applied would allow what its author forbade.
        reason = _reason_to_skip(entry, found, variables, path) or foreign_rules(key, rules, path)
        if reason:
            self.findings.skipped.append(reason)
            return None
        problems = [*_value_problems(entry, path), *_auth_problems(entry, self.section.servers.get(key), key)]
        if problems:
            self.findings.problems += problems
            return None
        return ServerSettings(
            key=key,
            target=self._target(entry, options),
            options=options,
            fingerprint=fingerprint(entry, options, self.section),
            secrets=tuple(dict.fromkeys(self._secrets(entry, options, variables))),
        )

    def in_memory(self, key: str, target: MemoryTarget) -> ServerSettings | None:
        """Return the server that an object of the program is, or None if its options leave it out."""
        options, path = _options_of(key, self.section), join("mcpServers", key)
        if not key.strip():
            self.findings.problems.append(Problem(path, "the name of a server must not be empty"))
        if not options.enabled:
            self.findings.skipped.append(Problem(path, "is disabled"))
            return None
        own = self.section.servers.get(key)
        # Connected once: to be stopped and started again costs it its state, and saves nothing.
        if own is None or "start" not in own.model_fields_set:
            options = options.model_copy(update={"start": "eager"})
        return ServerSettings(key, target, options, fingerprint(target, options, self.section))

    def _switched_off(self, key: str, found: Switches, options: ServerSection, path: str) -> Problem | None:
        """Return what has switched the server off, if it is."""
        if not options.enabled:
            return Problem(path, "is disabled")
        if off := found.off:
            # Whoever writes our own word knows what it says; of others it is told what is made of them.
            is_ours = (off.path, off.value) == (("disabled",), "true")
            return Problem(path, "is disabled", "" if is_ours else str(off))
        listed = (name for name, keys in self.listed_off.items() if keys and key in keys)
        return Problem(path, "is disabled", f"{one_line(name)} names it") if (name := next(listed, "")) else None

    def _entry(self, raw: Any, path: str, others: Collection[str]) -> ServerEntry | None:
        """Return the entry where its shape is right, with its type settled; something else tells of the ``others``."""
        # Before the schema, whose error would only say that command must be text.
        if foreign := foreign_entry(raw, path):
            self.findings.skipped.append(foreign)
            return None
        written = as_object(raw)
        own = {name: value for name, value in written.items() if name not in others}
        try:
            entry = ServerEntry.model_validate(own if isinstance(raw, dict) else raw)
        except ValidationError as error:
            self.findings.problems += validation_problems(error, ServerEntry, path)
            return None
        problem = _shape_problem(entry, path)
        if problem:
            hint = problem.hint or near_keys(written, ServerEntry.model_fields, foreign_key_hints(written))
            self.findings.problems.append(replace(problem, hint=hint))
            return None
        self.findings.notices += ignored_keys(path, own, ServerEntry.model_fields, foreign_key_hints(written))
        return entry.model_copy(update={"type": _type(entry)})

    def _target(self, entry: ServerEntry, options: ServerSection) -> Target:
        if entry.command is None:
            return HttpTarget(entry.url or "", dict(entry.headers or {}), sse=entry.type == "sse")
        return StdioTarget(
            command=self._command(entry.command),
            args=entry.args or (),
            env=self._environments.build(options.inherit_env, entry.env or {}),
            cwd=None if entry.cwd is None else absolute(entry.cwd, self.base, self.environ),
        )

    def _command(self, command: str) -> str:
        is_path = command.startswith(("./", "../", ".\\", "..\\", "~/"))
        return str(absolute(command, self.base, self.environ)) if is_path else command

    def _secrets(self, entry: ServerEntry, options: ServerSection, variables: Variables) -> Iterator[str]:
        # Masking a short text would garble every answer that happens to contain it.
        yield from (value for value in variables.secrets if len(value) >= SECRET_MIN_CHARACTERS)
        yield from filter(self._is_secret, (*_private_values(entry, variables), *_auth_secrets(options)))

    def _is_secret(self, value: str) -> bool:
        """Whether to mask ``value``: long enough, no number, and no value that every server inherits anyway."""
        # HOME or USER masked would make paths in answers unreadable.
        known = (self.environ.get(name) for name in safe_names())
        return len(value) >= SECRET_MIN_CHARACTERS and not value.isdigit() and value not in known


def _reason_to_skip(entry: ServerEntry, found: Switches, variables: Variables, path: str) -> Problem | None:
    """Return why a server that was written correctly and is not switched off is left out, if it is."""
    if variables.missing:
        reasons = dict.fromkeys(problem.reason for problem in variables.missing)
        return Problem(path, "; ".join(reasons), variables.missing[0].hint, is_mistake=True)
    if reason := found.not_understood:
        return Problem(path, reason, "write disabled: true or false instead", is_mistake=True)
    if starts_toolcrib(entry.command or "", entry.args or ()):
        return Problem(path, "would start toolcrib inside toolcrib", "list the servers behind it here instead")
    return None


def _options_of(key: str, section: ToolcribSection) -> ServerSection:
    """Return the options of a server: its own, else those for all servers, else the defaults."""
    own = section.servers.get(key)
    if own is None:
        return section.server_defaults
    # Only what is set overrides: a default of the schema is not a decision of the person.
    return section.server_defaults.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def _type(entry: ServerEntry) -> str | None:
    """Return ``stdio``, ``http`` or ``sse``; None where the entry names another type."""
    if entry.type is None:
        return "http" if entry.command is None else "stdio"
    return _TYPES.get(entry.type.lower().replace("-", "").replace("_", ""))


def _shape_problem(entry: ServerEntry, path: str) -> Problem | None:
    kind = _type(entry)
    if kind is None:
        return Problem(join(path, "type"), "must be stdio, http, streamable-http or sse")
    if entry.command is None and entry.url is None:
        return Problem(path, "needs a command or a url")
    if entry.command is not None and entry.url is not None:
        return Problem(path, "has a command and a url", "keep one of them")
    if (kind == "stdio") != (entry.command is not None):
        needed = "a command" if kind == "stdio" else "a url"
        return Problem(join(path, "type"), f"is {kind}, which needs {needed}")
    return None


def _value_problems(entry: ServerEntry, path: str) -> Iterator[Problem]:
    """Yield the problems of an entry's values once its variables are filled in, without quoting the values."""
    if entry.command is not None and not entry.command.strip():
        yield Problem(join(path, "command"), "must not be empty")
    for name in entry.env or {}:
        if not name or "=" in name:
            yield Problem(join(path, "env", name), "is not a name for a variable")
    if entry.url is not None and not _is_http_url(entry.url):
        yield Problem(join(path, "url"), "must be a URL like https://host/path")
    for name, value in (entry.headers or {}).items():
        if not _HEADER_NAME.match(name) or _CONTROL.search(value):
            yield Problem(join(path, "headers", name), "is not a header that can be sent")


def _auth_problems(entry: ServerEntry, own: ServerSection | None, key: str) -> Iterator[Problem]:
    """Yield the problems of the login settings of a server."""
    if own is None or own.auth is None or own.auth.type == "none":
        return
    path = join("toolcrib.servers", key, "auth")
    if entry.url is None:
        yield Problem(path, "is for servers with a url", "remove it")
    elif HttpTarget(entry.url, entry.headers or {}).has_own_token:
        yield Problem(path, "has no effect, because headers has Authorization", "keep one of them")


def _auth_secrets(options: ServerSection) -> Iterator[str]:
    if options.auth is not None:
        yield from filter(None, (options.auth.client_secret, options.auth.private_key))


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port_is_fine and not _NOT_IN_URL.search(url)


def _private_values(entry: ServerEntry, variables: Variables) -> Iterator[str]:
    """Yield every value that may be a secret: of variables, the environment, headers, the URL and the arguments."""
    yield from variables.values
    yield from (entry.env or {}).values()
    yield from private_headers(entry.headers or {})
    yield from (secret for _, secret in private_arguments(entry.args or ()))
    if entry.url is not None:
        yield from private_parts(urlsplit(entry.url))
