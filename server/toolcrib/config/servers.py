"""Parses entries of ``mcpServers`` into servers to connect to."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic import ValidationError

from toolcrib.base.errors import Problem, StartRefused
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.redaction import SECRET_MIN_CHARACTERS
from toolcrib.base.text import glob_matcher, one_line
from toolcrib.config.documents import foreign_entry, meanings
from toolcrib.config.findings import Findings, ignored_keys, join, near_keys, validation_problems
from toolcrib.config.paths import absolute
from toolcrib.config.private_values import private_arguments, private_headers, private_parts
from toolcrib.config.schema import ServerEntry, ServerSection, ToolcribSection
from toolcrib.config.settings import HttpTarget, ServerSettings, StdioTarget, Target, fingerprint
from toolcrib.config.variables import References, Variables

_BRIDGE = re.compile(r"mcp-remote(?:@[\w.^~-]+)?\Z")
_LAUNCHERS = frozenset({"bun", "bunx", "cmd", "npm", "npx", "pnpm", "yarn"})
_BRIDGE_OPTIONS_WITH_VALUE = frozenset(
    "--auth-timeout --header --host --ignore-tool --resource --static-oauth-client-info --static-oauth-client-metadata "
    "--transport".split()
)
_NEEDLESS = frozenset("--allow-http --auth-timeout --debug --enable-proxy --header --host --silent --transport".split())
"""Options that are about the bridge itself, or that the direct entry has."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class Bridge:
    """What an entry reaches by the bridge: its URL, the entry without it, and options that nothing is made of."""

    url: str
    entry: JsonObject
    unread: tuple[str, ...]


def bridge_in(entry: JsonObject) -> Bridge | None:
    """Return what an entry of ``mcpServers`` is without ``mcp-remote``; None where it does not run that."""
    args = [each if isinstance(each, str) else "" for each in as_list(entry.get("args"))]
    rest = _after_the_bridge(str(entry.get("command") or ""), args)
    place = next((number for number, each in enumerate(rest) if each.startswith(("https://", "http://"))), None)
    if place is None:
        return None
    url, options = rest[place], list(_options([*rest[:place], *rest[place + 1 :]]))
    transports = [value for name, value in options if name == "--transport"]
    headers = dict(_headers(options, as_object(entry.get("env"))))
    kept = {key: value for key, value in entry.items() if key not in ("args", "command", "cwd", "env", "type")}
    is_sse = _is_sse(url, transports)
    direct = {**({"type": "sse"} if is_sse else {}), "url": url, **({"headers": headers} if headers else {}), **kept}
    return Bridge(url, direct, tuple(dict.fromkeys(name for name, _ in options if name not in _NEEDLESS)))


def _after_the_bridge(command: str, args: Sequence[str]) -> list[str]:
    """Return the arguments of ``mcp-remote``; none where it is not what is run."""
    program = PureWindowsPath(command).name.lower().removesuffix(".cmd").removesuffix(".exe")
    if program == "mcp-remote":
        return list(args)
    if program not in _LAUNCHERS:
        return []
    # The last one: before it, it may be named as the package to bring (npx -p mcp-remote mcp-remote URL).
    places = [number for number, each in enumerate(args) if _BRIDGE.match(each)]
    return list(args[places[-1] + 1 :]) if places else []


def _options(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options, each with its value; a port for the answer of a login has no name, and is none."""
    rest = iter(args)
    for each in rest:
        if each.startswith("--"):
            name, equals, value = each.partition("=")
            yield name, value if equals or name not in _BRIDGE_OPTIONS_WITH_VALUE else next(rest, "")


def _headers(options: Sequence[tuple[str, str]], env: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the headers; a variable in one that the entry sets for the bridge is what it is set to."""
    for name, value in options:
        header, colon, content = value.partition(":")
        if name == "--header" and colon:
            yield header.strip(), _VARIABLE.sub(lambda match: str(env.get(match[1], match[0])), content.strip())


def _is_sse(url: str, transports: Sequence[str]) -> bool:
    """Return whether the older transport is meant: by name, or as addresses of such servers end."""
    if transports:
        return transports[-1].startswith("sse")
    try:
        return urlsplit(url).path.rstrip("/").endswith("/sse")
    except ValueError:
        return False


_RULE = re.compile(
    r"""(?=.*tool).*(?:exclud|disabl|den[iy]|block|forbid|ignor|hid|includ|enabl|allow|permi|only|filter|select|polic)
    | tools\Z | (?:allow|allowed|deny|denied|blocked|permissions)\Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""``excludeTools``, ``includeTools``, ``toolPermissions``, ``disabled_tools``, ``tools`` and what sounds like these."""
_APPROVAL = re.compile(r"auto|always|trust", re.IGNORECASE)
"""Keys about what runs without a question to the person: it may run all the same."""
_NAMES_WHAT_MAY = re.compile(r"(?!.*disallow).*(?:includ|enabl|allow|permit|only|select)|tools\Z", re.IGNORECASE)
_NAME_MAX = 100
_SHOWN_MAX = 5


def foreign_rules(key: str, entry: Mapping[str, Any], path: str) -> Problem | None:
    """Return why the server ``key`` cannot be served: its entry forbids tools in words of another client."""
    rules = rules_of(entry)
    if not rules:
        return None
    named = ", ".join(map(one_line, list(rules)[:_SHOWN_MAX]))
    hints = [_hint(key, name, value) for name, value in rules.items()]
    reason = f"restricts its tools with another client's keys ({named}), which toolcrib does not apply"
    return Problem(path, reason, f"{'; '.join(hints[:_SHOWN_MAX])}; then remove {named} here", is_mistake=True)


def rules_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an entry that forbid tools, each with its value."""
    return {name: value for name, value in entry.items() if is_rule(name) and _forbids(name, value)}


def names_what_may(name: str) -> bool:
    """Return whether a key of a rule lists the tools that may be used, and not those that may not."""
    return _NAMES_WHAT_MAY.match(name) is not None


def is_rule(name: str) -> bool:
    """Return whether a key sounds like a rule about which tools may be used."""
    return len(name) <= _NAME_MAX and _RULE.match(name) is not None and _APPROVAL.match(name) is None


def _forbids(name: str, value: Any) -> bool:
    if isinstance(value, dict):
        return not all(member is True for member in cast("dict[str, Any]", value).values())
    if isinstance(value, list) and "*" in cast("list[Any]", value):
        return not names_what_may(name)
    says_nothing = value is None or (not value and not names_what_may(name))
    return not says_nothing


def _hint(key: str, name: str, value: Any) -> str:
    """Return what to write instead, as far as the value can be understood."""
    names = cast("list[Any]", value) if isinstance(value, list) else list[Any]()
    tools = [each for each in names if isinstance(each, str) and each]
    if not tools or len(tools) != len(names):
        return 'put tools that must not be called into toolcrib.policy.deny, as "SERVER.TOOL"'
    if names_what_may(name):
        return f"put tools that may be called into toolcrib.policy.allow: {_globs(key, tools)}"
    return f"write toolcrib.policy.deny: {_globs(key, tools)}"


def _globs(key: str, tools: list[str]) -> str:
    more = ", …" if len(tools) > _SHOWN_MAX else ""
    shown = ", ".join(json.dumps(one_line(f"{key}.{tool}"), ensure_ascii=False) for tool in tools[:_SHOWN_MAX])
    return f"[{shown}{more}]"


PARENT_MARKER = "TOOLCRIB_PARENT"
"""Set in the environment of every server that toolcrib starts."""

_OURSELVES = "toolcrib"
_LAUNCHER_OPTIONS_WITH_VALUE = frozenset(
    "--from --with --with-editable --with-requirements --python -p --index --default-index --index-url -i "
    "--extra-index-url --directory --project --spec --pip-args --env-file --extra --group -X -W".split()
)
"""Options of uv, pipx and Python that take the next argument."""


def refuse_nested(environ: Mapping[str, str]) -> None:
    """Refuse to go on in a process that a toolcrib has started.

    Raises:
        StartRefused: the environment has the marker.

    """
    if environ.get(PARENT_MARKER):
        raise StartRefused(
            "This toolcrib was started by another toolcrib, which would recurse without end. Remove the entry that "
            "starts it from mcpServers, and list the servers behind it there instead."
        )


def starts_toolcrib(command: str, args: Sequence[str]) -> bool:
    """Return whether a command line plainly starts toolcrib: by itself, with uv or pipx, or as a Python module."""
    program = PureWindowsPath(command).name.lower()
    program = program.removesuffix(".exe").removesuffix(".cmd").removesuffix(".bat")
    if program == "uvx":
        return _runs_package(args)
    if program in ("uv", "pipx"):
        rest = args[1:] if args[:1] == ["tool"] else args
        return rest[:1] == ["run"] and _runs_package(rest[1:])
    if program.startswith(("python", "pypy")) or program == "py":
        return _runs_module(args)
    return program == _OURSELVES


def _runs_package(args: Sequence[str]) -> bool:
    """Whether ``--from`` or ``--spec``, or else the first argument that is no option, is our package."""
    rest = iter(args)
    for arg in rest:
        if not arg.startswith("-"):
            return _package(arg) == _OURSELVES
        name, equals, value = arg.partition("=")
        if not equals and name in _LAUNCHER_OPTIONS_WITH_VALUE:
            value = next(rest, "")
        if name in ("--from", "--spec"):
            return _package(value) == _OURSELVES
        if name == "-m":
            return next(rest, "") == _OURSELVES
    return False


def _package(requirement: str) -> str:
    """Return the name in a requirement such as ``toolcrib[demo]>=1`` or ``toolcrib@latest``."""
    end = next((i for i, char in enumerate(requirement) if not (char.isalnum() or char in "-_.")), None)
    return requirement[:end].lower()


def _runs_module(args: Sequence[str]) -> bool:
    rest = iter(args)
    for arg in rest:
        if arg == "-m":
            return next(rest, "") == _OURSELVES
        if not arg.startswith("-"):
            return False
        if arg in _LAUNCHER_OPTIONS_WITH_VALUE:
            next(rest, None)
    return False


def find_program(target: StdioTarget) -> str | None:
    """Return what to start for a server, as it is written or with its folder; None where there is no such program.

    What the search path does not have is looked for beside toolcrib's own Python: servers that were installed with it,
    as those of the extra ``demo``, are found though nobody has activated its environment.
    """
    return target.command if is_program(target.command, target) else _beside_toolcrib(target.command)


def is_program(command: str, target: StdioTarget) -> bool:
    """Return whether a server could start ``command``, by its own search path and from its own folder."""
    is_bare = Path(command).name == command
    path = command if is_bare or target.cwd is None else str(target.cwd / command)
    return shutil.which(path, path=target.env.get("PATH", os.defpath)) is not None


def _beside_toolcrib(command: str) -> str | None:
    if Path(command).name != command:
        return None
    return shutil.which(command, path=str(Path(sys.executable).parent))


SAFE_POSIX = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
SAFE_WINDOWS = (
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""What the MCP SDK passes on: its ``mcp.client.stdio.DEFAULT_INHERITED_ENV_VARS``."""

NEEDED = (
    "LANG", "LC_*", "TZ", "TMPDIR", "XDG_*", "*_PROXY", "*_proxy", "SSL_*", "NODE_EXTRA_CA_CERTS",
    "PIP_*", "UV_*", "npm_config_*", "SSH_AUTH_SOCK",
)  # fmt: skip
"""Globs of what servers need besides, to reach the network and to find packages."""


def safe_names(platform: str = sys.platform) -> tuple[str, ...]:
    """Return the names that every server gets, which hold no secrets."""
    return SAFE_WINDOWS if platform == "win32" else SAFE_POSIX


class ChildEnvironments:
    """The environments of servers, out of that of toolcrib. Shell functions, whose values begin with ``()``, stay."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._everybody = self._inherited((*safe_names(), *NEEDED))

    def of(self, inherit: Iterable[str], own: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of a server: what it inherits, its ``own``, and the marker against nesting.

        ``inherit`` are globs of more names than every server gets.
        """
        return {**self._everybody, **self._inherited(inherit), **own, PARENT_MARKER: "1"}

    def _inherited(self, globs: Iterable[str]) -> dict[str, str]:
        wanted = glob_matcher(globs)
        return {name: value for name, value in self._environ.items() if wanted(name) and not value.startswith("()")}


_TYPES = {"stdio": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse"}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f]")


class ServerReader:
    """Reads the entries of one config file. ``base`` is the directory that relative paths start from."""

    def __init__(
        self,
        section: ToolcribSection,
        environ: Mapping[str, str],
        base: Path,
        findings: Findings,
        references: References | None = None,
    ) -> None:
        self.section, self.environ, self.base, self.findings = section, environ, base, findings
        self._references = references
        self._environments = ChildEnvironments(environ)

    def read(self, key: str, raw: Any) -> ServerSettings | None:
        """Return the server of one entry, or None where it is left out; what is wrong goes to the findings."""
        path = join("mcpServers", key)
        if not key.strip():
            self.findings.problems.append(Problem(path, "the name of a server must not be empty"))
        variables = Variables(self.environ, self._references)
        entry = self._entry(variables.fill(raw, path), path)
        if entry is None:
            return None
        options = _options_of(key, self.section)
        reason = _reason_to_skip(entry, options, variables, path) or foreign_rules(key, raw, path)
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

    def _entry(self, raw: Any, path: str) -> ServerEntry | None:
        """Return the entry where its shape is right, with its type settled."""
        if foreign := foreign_entry(raw, path):
            self.findings.skipped.append(foreign)
            return None
        try:
            entry = ServerEntry.model_validate(raw)
        except ValidationError as error:
            self.findings.problems += validation_problems(error, ServerEntry, path)
            return None
        problem = _shape_problem(entry, path)
        if problem:
            hint = problem.hint or near_keys(raw, ServerEntry.model_fields, meanings(raw))
            self.findings.problems.append(replace(problem, hint=hint))
            return None
        self.findings.notices += ignored_keys(path, raw, ServerEntry.model_fields, meanings(raw))
        return entry.model_copy(update={"type": _type(entry)})

    def _target(self, entry: ServerEntry, options: ServerSection) -> Target:
        if entry.command is None:
            return HttpTarget(entry.url or "", dict(entry.headers or {}), sse=entry.type == "sse")
        return StdioTarget(
            command=self._command(entry.command),
            args=entry.args or (),
            env=self._environments.of(options.inherit_env, entry.env or {}),
            cwd=None if entry.cwd is None else absolute(entry.cwd, self.base, self.environ),
        )

    def _command(self, command: str) -> str:
        is_path = command.startswith(("./", "../", ".\\", "..\\", "~/"))
        return str(absolute(command, self.base, self.environ)) if is_path else command

    def _secrets(self, entry: ServerEntry, options: ServerSection, variables: Variables) -> Iterator[str]:
        yield from (value for value in variables.secrets if len(value) >= SECRET_MIN_CHARACTERS)
        yield from filter(self._is_secret, (*_private_values(entry, variables), *_auth_secrets(options)))

    def _is_secret(self, value: str) -> bool:
        """Whether to mask ``value``: long enough, no number, and nothing that every server is told anyway."""
        known = (self.environ.get(name) for name in safe_names())
        return len(value) >= SECRET_MIN_CHARACTERS and not value.isdigit() and value not in known


def _reason_to_skip(entry: ServerEntry, options: ServerSection, variables: Variables, path: str) -> Problem | None:
    """Return why a server that was written correctly is left out, if it is."""
    if entry.disabled or not options.enabled:
        return Problem(path, "is disabled")
    if variables.missing:
        reasons = dict.fromkeys(problem.reason for problem in variables.missing)
        return Problem(path, "; ".join(reasons), variables.missing[0].hint, is_mistake=True)
    if starts_toolcrib(entry.command or "", entry.args or ()):
        return Problem(path, "would start toolcrib inside toolcrib", "list the servers behind it here instead")
    return None


def _options_of(key: str, section: ToolcribSection) -> ServerSection:
    """Return what is said about a server: about it alone, else about all, else the defaults."""
    own = section.servers.get(key)
    if own is None:
        return section.server_defaults
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
    """Yield what is wrong with the values of an entry once its variables are filled in, without the values."""
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
    """Yield what is wrong with how toolcrib is to log in to a server."""
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
