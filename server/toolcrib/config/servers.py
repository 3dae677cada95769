"""Parses entries of ``mcpServers`` into servers to connect to."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from toolcrib.base.errors import Problem
from toolcrib.base.json_values import as_object
from toolcrib.base.redaction import SECRET_MIN_CHARACTERS
from toolcrib.base.text import one_line
from toolcrib.config.entries import LeftOut, entry_defects, parse_entry, refuse, value_faults
from toolcrib.config.findings import Findings, Skipped, ignored_keys, join
from toolcrib.config.foreign import foreign_key_hints, foreign_rules
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


class ServerReader:
    """Reads the entries of one config file. ``base`` is the directory that relative paths start from.

    ``listed_off`` are servers that the file switches off beside them, by the key of the list. ``repeated`` are the
    names that it gives to several.
    """

    def __init__(
        self,
        section: ToolcribSection,
        environ: Mapping[str, str],
        base: Path,
        findings: Findings,
        references: References | None = None,
        listed_off: Mapping[str, Collection[str] | None] = MappingProxyType({}),
        repeated: Collection[str] = (),
    ) -> None:
        self.section, self.environ, self.base, self.findings = section, environ, base, findings
        self.listed_off, self.repeated = listed_off, repeated
        self._references = references
        self._environments = ChildEnvironments(environ)

    def read(self, key: str, raw: Any) -> ServerSettings | None:
        """Return the server of one entry, or None if it is left out; problems go to the findings."""
        # One for each entry: a variable that is missing leaves out this server only.
        variables = Variables(self.environ, self._references)
        options, path = _options_of(key, self.section), join("mcpServers", key)
        try:
            entry = self._entry(key, raw, path, options, variables)
        except LeftOut as left:
            self.findings.skipped.append(replace(left.why, path=path, key=key))
            return None
        if problems := tuple(_auth_problems(entry, self.section.servers.get(key), key)):
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
            self.findings.skipped.append(replace(_disabled(), path=path, key=key))
            return None
        own = self.section.servers.get(key)
        # Connected once: to be stopped and started again costs it its state, and saves nothing.
        if own is None or "start" not in own.model_fields_set:
            options = options.model_copy(update={"start": "eager"})
        return ServerSettings(key, target, options, fingerprint(target, options, self.section))

    def _entry(self, key: str, raw: Any, path: str, options: ServerSection, variables: Variables) -> ServerEntry:
        """Return the entry, filled in and with its type settled.

        Raises:
            LeftOut: its server is not used.

        """
        filled = variables.fill(raw, path)
        found = switches(as_object(filled))
        # First: what is switched off may have any fault.
        if off := self._switched_off(key, found, options):
            raise LeftOut(off)
        refuse(entry_defects(key, raw, is_repeated=key in self.repeated))
        rules = tool_rules(as_object(raw), key)
        own = {name: value for name, value in as_object(filled).items() if name not in {*rules, *found.keys}}
        entry = parse_entry(own if isinstance(filled, dict) else filled)
        self.findings.notices += ignored_keys(path, own, ServerEntry.model_fields, foreign_key_hints(own))
        # Serving an entry whose restrictions are not applied would allow what its author forbade.
        if reason := _reason_to_skip(entry, found, variables) or foreign_rules(key, rules):
            raise LeftOut(reason)
        refuse(value_faults(entry))
        return entry

    def _switched_off(self, key: str, found: Switches, options: ServerSection) -> Skipped | None:
        """Return what has switched the server off, if it is."""
        if not options.enabled:
            return _disabled()
        if off := found.off:
            # Whoever writes our own word knows what it says; of others it is told what is made of them.
            is_ours = (off.path, off.value) == (("disabled",), "true")
            return _disabled("" if is_ours else str(off))
        listed = (name for name, keys in self.listed_off.items() if keys and key in keys)
        return _disabled(f"{one_line(name)} names it") if (name := next(listed, "")) else None

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


def _disabled(by: str = "") -> Skipped:
    return Skipped("", "is disabled", by, public="is disabled")


def _reason_to_skip(entry: ServerEntry, found: Switches, variables: Variables) -> Skipped | None:
    """Return why a server that was written correctly and is not switched off is left out, if it is."""
    if variables.missing:
        reasons = dict.fromkeys(problem.reason for problem in variables.missing)
        return Skipped("", "; ".join(reasons), variables.missing[0].hint, is_mistake=True)
    if reason := found.not_understood:
        return Skipped("", reason, "write disabled: true or false instead", is_mistake=True)
    if starts_toolcrib(entry.command or "", entry.args or ()):
        return Skipped("", "would start toolcrib inside toolcrib", "list the servers behind it here instead")
    return None


def _options_of(key: str, section: ToolcribSection) -> ServerSection:
    """Return the options of a server: its own, else those for all servers, else the defaults."""
    own = section.servers.get(key)
    if own is None:
        return section.server_defaults
    # Only what is set overrides: a default of the schema is not a decision of the person.
    return section.server_defaults.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


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


def _private_values(entry: ServerEntry, variables: Variables) -> Iterator[str]:
    """Yield every value that may be a secret: of variables, the environment, headers, the URL and the arguments."""
    yield from variables.values
    yield from (entry.env or {}).values()
    yield from private_headers(entry.headers or {})
    yield from (secret for _, secret in private_arguments(entry.args or ()))
    if entry.url is not None:
        yield from private_parts(urlsplit(entry.url))
