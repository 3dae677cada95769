"""Converts one entry of a client's file into an entry of ``mcpServers`` and related settings."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any, cast

from toolcrib.base.errors import Problem
from toolcrib.base.json_values import as_list, as_object, as_text
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line
from toolcrib.clients.known import Client, Syntax
from toolcrib.config.entries import TWO_TARGETS, UNKNOWN_TYPE, unusable, word_of_type, wrong_type
from toolcrib.config.env_file import ENV_FILE_MAX_BYTES, parse_variables
from toolcrib.config.findings import join
from toolcrib.config.foreign import looks_like_sse
from toolcrib.config.launching import starts_toolcrib
from toolcrib.config.switches import Switches, switches
from toolcrib.config.tool_rules import Denials, combined, tool_rules
from toolcrib.config.variables import DOLLAR, variable_name

FILE_MAX_BYTES = 64 * 1024
"""Most that is read of a file whose content takes the place of a variable."""

_TOKEN = re.compile(r"\$\{(?P<braced>[^}]*)\}|\$(?P<bare>[A-Za-z_]\w*)|\{(?P<curly>(?:env|file):[^}]*)\}")
_VARIABLE_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<default>:-[^$]*)?\Z")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a client asks the person for, under an id."""

    description: str = ""
    default: str = ""
    is_password: bool = False


@dataclass(frozen=True, slots=True)
class VariableContext:
    """What the variables of one file stand for: its spellings, the home, the project it is for, and its questions."""

    syntax: frozenset[Syntax]
    home: Path
    folder: Path | None
    prompts: Mapping[str, Prompt] = field(default_factory=dict[str, Prompt])

    def read(self, name: str, most: int, encoding: str) -> str:
        """Return the text of a file that such a file names, of at most ``most`` characters.

        Raises:
            _Unread: it cannot be read, or is too large.

        """
        path = self.home / name[2:] if name.startswith("~/") else Path(name)
        try:
            with ((self.folder or self.home) / path).open("rb") as file:
                content = file.read(most + 1).decode(encoding)
        except (OSError, ValueError):
            raise _Unread("cannot be read") from None
        if len(content) > most:
            raise _Unread("is too large")
        return content


class _Unread(Exception):
    """A file was not read; the text says why, as the end of a sentence."""


@dataclass(slots=True)
class Translation:
    """The findings of a translation.

    ``asked`` are variables to set, each with what the client asked for; ``inlined`` the contents of files that stand
    there now; ``obstacles`` variables that have no counterpart; ``texts`` what looks like a variable, and is none.
    """

    asked: dict[str, str] = field(default_factory=dict[str, str])
    inlined: list[str] = field(default_factory=list[str])
    obstacles: list[str] = field(default_factory=list[str])
    texts: list[str] = field(default_factory=list[str])


class Translator:
    """Writes texts of one client in toolcrib's syntax; findings go to ``found``."""

    def __init__(self, context: VariableContext, found: Translation) -> None:
        self._context, self._found = context, found
        self._editor: Mapping[str, Callable[[], str | None]] = {
            "userHome": lambda: "${HOME}",
            "workspaceFolder": self._workspace,
            "workspaceRoot": self._workspace,
            "workspaceFolderBasename": lambda: None if context.folder is None else context.folder.name,
            "cwd": self._workspace,
            "pathSeparator": lambda: "/",
            "/": lambda: "/",
        }

    def translate(self, value: Any) -> Any:
        """Return a copy of ``value`` with the variables in all its strings written in toolcrib's words."""
        if isinstance(value, str):
            return _TOKEN.sub(self._written, value)
        if isinstance(value, Mapping):
            return {key: self.translate(member) for key, member in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list):
            return [self.translate(item) for item in cast("list[Any]", value)]
        return value

    def _written(self, match: re.Match[str]) -> str:
        if match["curly"] is not None:
            return self._curly(match["curly"], match[0]) if Syntax.CURLY in self._context.syntax else match[0]
        if match["bare"] is not None:
            return f"${{{match['bare']}}}" if Syntax.BARE in self._context.syntax else match[0]
        # Text to its client must stay text here: its "$" is escaped.
        known = self._braced(match["braced"], match[0])
        if known is None:
            self._found.texts.append(match[0])
            return f"{DOLLAR}{match[0][1:]}"
        return known

    def _braced(self, inner: str, whole: str) -> str | None:
        """Return what ``${inner}`` is here; None where the client takes it for text."""
        syntax = self._context.syntax
        if Syntax.BRACED in syntax and _VARIABLE_NAME.match(inner):
            return whole
        if Syntax.INPUT in syntax and inner.startswith("input:"):
            return self._input(inner.removeprefix("input:"))
        if Syntax.EDITOR in syntax and (inner in self._editor or inner.startswith(("env:", "command:", "config:"))):
            known = self._editor[inner]() if inner in self._editor else self._colon(inner)
            return self._refused(whole, whole) if known is None else known
        return self._file(inner.removeprefix("file:"), whole) if self._is_file(inner) else None

    def _is_file(self, inner: str) -> bool:
        return Syntax.FILE in self._context.syntax and inner.startswith("file:")

    def _colon(self, inner: str) -> str | None:
        """Return what ``env:NAME`` is here; None where it is something else."""
        kind, _, rest = inner.partition(":")
        return f"${{{rest}}}" if kind == "env" and _VARIABLE_NAME.match(rest) else None

    def _curly(self, inner: str, whole: str) -> str:
        """Return what ``{env:NAME}`` or ``{file:PATH}`` is here."""
        if inner.startswith("file:"):
            return self._file(inner.removeprefix("file:"), whole)
        return self._colon(inner) or self._refused(whole, whole)

    def _input(self, key: str) -> str:
        name = variable_name(key)
        prompt = self._context.prompts.get(key, Prompt())
        # "$" and "}" would end or nest the default of a variable.
        if prompt.default and not prompt.is_password and "$" not in prompt.default and "}" not in prompt.default:
            return f"${{{name}:-{prompt.default}}}"
        self._found.asked[name] = prompt.description
        return f"${{{name}}}"

    def _file(self, text: str, whole: str) -> str:
        name = text.strip()
        try:
            # An editor ends the file with a newline, which is no part of the secret.
            content = self._context.read(name, FILE_MAX_BYTES, "utf-8").strip()
        except _Unread as reason:
            return self._refused(whole, f"the file {name}, which {reason}")
        # The content may contain "${", which is no variable of ours.
        written = literal(content)
        self._found.inlined.append(written)
        return written

    def _workspace(self) -> str | None:
        return None if self._context.folder is None else literal(str(self._context.folder))

    def _refused(self, whole: str, what: str) -> str:
        """Return the variable as it stands, for a person to replace: its server is not to be used until then."""
        self._found.obstacles.append(what)
        return whole


def literal(text: str) -> str:
    """Return ``text`` so that toolcrib reads it as it stands."""
    return text.replace("${", f"{DOLLAR}{{")


IS_TOOLCRIB = "starts toolcrib itself"
"""Why nothing is taken over of an entry of ours."""

_ADDRESSES = {"url": "", "uri": "http", "httpUrl": "http", "serverUrl": "http"}
"""Keys of an address, and the type that it has by its key."""
_EITHER = ("url", "serverUrl")
"""Keys of an address with which a client tries both transports."""
_TYPES = {
    "sse": "sse",
    **dict.fromkeys(("http", "streamablehttp", "remote"), "http"),
    **dict.fromkeys(("stdio", "local", "custom"), "stdio"),
}
_ENVIRONMENTS = ("env", "envs", "environment")
_OF_COMMANDS: Mapping[str, type] = {
    "args": list,
    **dict.fromkeys(_ENVIRONMENTS, dict),
    "envFile": str,
    "env_keys": list,
    "env_vars": list,
}
"""Keys that say how a server is run, and their types."""
_OF_ADDRESSES: Mapping[str, type] = {
    **dict.fromkeys(("headers", "http_headers", "env_http_headers", "requestOptions"), dict),
    "bearer_token_env_var": str,
}
"""Keys that say how a server is reached, and their types."""
_BUILT_IN = ("builtin", "platform", "frontend", "inline_python", "extension", "sdk", "ide")
"""Types of servers that are part of a client."""
_READ = frozenset((*_ADDRESSES, *_ENVIRONMENTS)) | frozenset(
    "command cmd args cwd headers type transport source name description envFile env_vars env_keys "
    "http_headers env_http_headers bearer_token_env_var requestOptions".split()
)
_SILENT = frozenset(
    "autoApprove alwaysAllow trust required alwaysLoad gallery version bundled display_name lastModified $schema "
    "default_tools_approval_mode supports_parallel_tool_calls remote".split()
)
"""Keys that change nothing here: questions to the person, and how the client itself starts and shows a server."""
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_PUBLIC_TEXT = re.compile(r"\$\{(?:[A-Za-z]\w*:[\w.:/~-]+|[A-Z][A-Z0-9_]*)\}\Z")
"""What may be quoted of a text with ``${``: anything else there may be part of a password."""


class Use(StrEnum):
    """Whether its client uses a server."""

    ON = "on"
    OFF = "off"
    """A person has switched it off there."""
    FORBIDDEN = "forbidden"
    """The client is told never to use it."""


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """A server in toolcrib's words: its entry of ``mcpServers``, its options, and what its client forbids.

    ``notices`` are what changed on the way, ``asked`` variables that have to be set, with what the client said of them.
    ``use``: the entry is switched off too, where its client does not use it. ``obstacle`` is why it cannot be used as
    it is written; it is then imported disabled, so that nothing is lost. ``lost`` is why there is nothing that could be
    taken over.
    """

    entry: JsonObject
    options: JsonObject = field(default_factory=dict[str, Any])
    denials: Denials = field(default_factory=Denials)
    notices: tuple[str, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict[str, str])
    inlined: tuple[str, ...] = ()
    use: Use = Use.ON
    obstacle: str = ""
    lost: str = ""

    def restricted(self, denials: Denials) -> "ReadEntry":
        """Return it with rules that stand outside of the entry, switched off where they are not understood."""
        found = replace(self, denials=self.denials.narrowed(denials))
        if not denials.unknown:
            return found
        return replace(found, entry={**self.entry, "disabled": True}, obstacle=self.obstacle or not_understood(denials))

    def unused(self, use: Use) -> "ReadEntry":
        """Return it switched off, for a reason that stands outside of the entry."""
        return replace(self, entry={**self.entry, "disabled": True}, use=use)


def read_entry(name: str, raw: Any, client: Client, context: VariableContext) -> ReadEntry:
    """Return what the entry of the server ``name`` of ``client`` is here."""
    if not isinstance(raw, dict):
        return ReadEntry({}, lost="is not an object")
    return _Reading(name, cast("JsonObject", raw), client, context).read()


class _Reading:
    def __init__(self, name: str, raw: JsonObject, client: Client, context: VariableContext) -> None:
        # Goose's first versions, and VS Code's samples, wrote the entry one level further down.
        inner = as_object(raw.get("config")) or as_object(raw.get("transport"))
        self._written, self._raw = raw, {**raw, **inner} if inner and not _has_target(raw) else raw
        self._name, self._client, self._context = name, client, context
        self._found = Translation()
        self._translator = Translator(context, self._found)
        self._notices: list[str] = []
        # What stands one level further down may have taken the place of another switch.
        outer = () if self._raw is raw else switches(raw).found
        self._switches = Switches((*switches(self._raw).found, *outer))

    def read(self) -> ReadEntry:
        raw = self._raw
        entry = self._process() if _command_of(raw) is not None else self._remote()
        if entry is None:
            kind = str(raw.get("type") or raw.get("source") or "")
            is_built_in = kind in _BUILT_IN or "settings" in raw
            return ReadEntry({}, lost="is part of its client" if is_built_in else "has no command and no url")
        # Importing our own entry would make toolcrib start itself.
        if starts_toolcrib(str(entry.get("command", "")), [str(each) for each in as_list(entry.get("args"))]):
            return ReadEntry(entry, lost=IS_TOOLCRIB)
        # Half of it would be another server, or one with fewer limits.
        if faults := [*self._faults(), *_no_texts(entry)]:
            return ReadEntry({}, lost=self._why_lost(faults))
        rules, denials = self._rules()
        options = self._options()
        self._name_unread(rules)
        is_off = self._switches.off is not None
        obstacle = self._obstacle(denials)
        return ReadEntry(
            entry={**entry, "disabled": True} if is_off or obstacle else entry,
            options=options,
            denials=denials,
            notices=(*self._notices, *self._texts()),
            asked=self._found.asked,
            inlined=tuple(self._found.inlined),
            use=Use.OFF if is_off else Use.ON,
            obstacle=obstacle,
        )

    def _rules(self) -> tuple[Mapping[str, Denials], Denials]:
        """Return the rules about tools by their keys, and what they come to."""
        # Of the raw entry: its rules use the client's own words.
        rules = tool_rules(self._raw, self._name)
        # What stands one level further down may have taken the place of another rule.
        outer = {} if self._raw is self._written else tool_rules(self._written, self._name)
        return rules, combined((*rules.values(), *outer.values()))

    def _why_lost(self, faults: Sequence[Problem]) -> str:
        """Return what has to be mended, and that rules of the entry do not hold here either."""
        why, (rules, denials) = unusable(faults), self._rules()
        kept = (
            f"; its rules about tools ({', '.join(map(one_line, rules))}) are not taken over"
            if denials.restricts
            else ""
        )
        return f"{why.text}{kept}"

    def _texts(self) -> Iterator[str]:
        """Yield a notice for what a person may have meant for a variable."""
        for text in dict.fromkeys(self._found.texts):
            what = text if _PUBLIC_TEXT.match(text) else "what stands in ${…}"
            yield f"{what} is no variable of {self._client.title}: it is text there, and here too"

    def _obstacle(self, denials: Denials) -> str:
        """Return why the server must not run with this entry; empty if it may."""
        if denials.unknown:
            return not_understood(denials)
        if reason := self._switches.not_understood:
            return reason
        if self._found.obstacles:
            return f"needs {'; '.join(dict.fromkeys(self._found.obstacles))}: write what it stands for"
        return ""

    def _faults(self) -> Iterator[Problem]:
        """Yield what of the written entry nothing could be made of, each by its place in it."""
        raw, command = self._raw, _command_of(self._raw)
        is_process = command is not None
        for holder in (raw, as_object(command), as_object(raw.get("requestOptions"))):
            for key, kind in (_OF_COMMANDS if is_process else _OF_ADDRESSES).items():
                # An empty one of another type says as much as none.
                if (value := holder.get(key)) and not isinstance(value, kind):
                    yield Problem(key, "must be text") if kind is str else wrong_type(key, kind)
        if is_process and any(map(raw.get, _ADDRESSES)):
            yield TWO_TARGETS
        # One of a transport that toolcrib does not have; httpStream and the like are guessed below.
        word = word_of_type(self._type_written())
        if not is_process and word and word not in _TYPES and "http" not in word and "sse" not in word:
            yield UNKNOWN_TYPE

    def _process(self) -> JsonObject | None:
        raw, command = self._raw, _command_of(self._raw)
        args = as_list(raw.get("args"))
        if isinstance(command, list):
            command, *args = [*cast("list[Any]", command), *args] or [""]
        elif isinstance(command, dict):
            about = cast("JsonObject", command)
            command, args = about.get("path"), as_list(about.get("args")) + args
            raw = {**raw, "env": {**as_object(about.get("env")), **as_object(raw.get("env"))}}
        if not command:
            return None
        entry: JsonObject = {"command": self._program(command)}
        if args:
            entry["args"] = [self._text(as_text(arg)) for arg in args]
        environment = self._environment(raw)
        if environment:
            entry["env"] = environment
        if cwd := raw.get("cwd"):
            self._add_cwd(entry, cwd)
        # A relative argument was meant from the project's folder; toolcrib runs elsewhere.
        elif self._context.folder is not None and any(map(_is_relative, args)):
            entry["cwd"] = literal(str(self._context.folder))
        return entry

    def _program(self, command: Any) -> Any:
        """Return the program; one that starts from a folder stays where it was."""
        text = self._text(command)
        if not isinstance(text, str) or not text.startswith(("./", "../", ".\\", "..\\")):
            return text
        if self._context.folder is None:
            self._found.obstacles.append(f"the folder that {text} starts from")
            return text
        return literal(str(self._context.folder / text))

    def _add_cwd(self, entry: JsonObject, cwd: Any) -> None:
        if self._context.folder is None and cwd in ("${workspaceFolder}", "${workspaceRoot}", "${cwd}"):
            self._notices.append("it ran in the open folder; here it runs in toolcrib's working directory")
            return
        text = self._text(cwd)
        # A relative one starts from the file, there as here; but the file is another one now.
        is_relative = isinstance(text, str) and not text.startswith(("/", "~", "$", "\\")) and ":" not in text[:3]
        base = self._context.folder or self._context.home
        entry["cwd"] = literal(str(base / text)) if is_relative else text

    def _environment(self, raw: JsonObject) -> JsonObject:
        found: JsonObject = {}
        for name in as_list(raw.get("env_keys")):
            if isinstance(name, str) and _NAME.match(name):
                # Goose keeps its value in the keyring.
                found[name] = f"${{{name}}}"
                self._found.asked[name] = "stored among the client's secrets"
        found |= self._file_of_variables(raw.get("envFile"))
        for key in _ENVIRONMENTS:
            for name, value in as_object(raw.get(key)).items():
                # Where VS Code has null, the variable is not set.
                if value is None:
                    continue
                found[name] = self._text(as_text(value))
        return found

    def _file_of_variables(self, named: Any) -> JsonObject:
        if not isinstance(named, str) or not named:
            return {}
        found = Translation()
        text = Translator(self._context, found).translate(named).replace("${HOME}", str(self._context.home))
        try:
            content = self._context.read(text, ENV_FILE_MAX_BYTES, "utf-8-sig")
        except _Unread as reason:
            self._found.obstacles.append(f"the file of variables {named}, which {reason}")
            return {}
        variables = parse_variables(content)
        # Files of variables hold secrets: wherever their texts stand, they are masked.
        self._found.inlined += variables.values()
        self._notices.append(f"the variables of {named} are in its env now")
        return {name: literal(value) for name, value in variables.items()}

    def _remote(self) -> JsonObject | None:
        raw = self._raw
        key = next((key for key in ("httpUrl", "serverUrl", "uri", "url") if raw.get(key)), None)
        if key is None:
            return None
        url = self._text(raw[key])
        kind = self._type() or self._transport_of(key, url)
        entry: JsonObject = {"type": kind, "url": url}
        headers = self._headers()
        return {**entry, "headers": headers} if headers else entry

    def _transport_of(self, key: str, url: Any) -> str:
        """Return the transport of an address without a type."""
        kind = _ADDRESSES[key] or self._client.url_type
        if kind == "http" and key in _EITHER and isinstance(url, str) and looks_like_sse(url):
            # Clients try both transports, toolcrib the one that it is told.
            self._notices.append("its address ends in /sse, so the older transport is used (type: sse)")
            return "sse"
        return kind

    def _headers(self) -> JsonObject:
        raw, found = self._raw, dict[str, Any]()
        nested = as_object(as_object(raw.get("requestOptions")).get("headers"))
        for name, value in {**nested, **as_object(raw.get("headers")), **as_object(raw.get("http_headers"))}.items():
            found[name] = self._text(as_text(value))
        for name, variable in as_object(raw.get("env_http_headers")).items():
            found[name] = f"${{{variable}}}"
        if token := raw.get("bearer_token_env_var"):
            found["Authorization"] = f"Bearer ${{{token}}}"
        return found

    def _type(self) -> str:
        kind = _TYPES.get(word_of_type(self._type_written()), "")
        # opencode's remote is either; streamable HTTP is what it tries first.
        return "" if kind == "stdio" else kind

    def _type_written(self) -> Any:
        return self._raw.get("type") or self._raw.get("transport")

    def _options(self) -> JsonObject:
        options: JsonObject = {}
        described = self._raw.get("description")
        if isinstance(described, str) and described.strip():
            options["description"] = literal(described.strip())
        for key, timeout in self._client.timeouts.items():
            number = _positive(self._raw.get(key))
            if number is None:
                continue
            unit_s = timeout.unit_of(number)
            options[timeout.option] = _plain(number * unit_s)
            if not timeout.is_sure(number):
                name = "seconds" if unit_s == 1 else "milliseconds"
                self._notices.append(f"its {key} of {_plain(number)} is read as {name}")
        inherited = [
            name
            for each in as_list(self._raw.get("env_vars"))
            if isinstance(name := each if isinstance(each, str) else as_object(each).get("name"), str)
        ]
        return {**options, "inherit_env": inherited} if inherited else options

    def _name_unread(self, rules: Mapping[str, Denials]) -> None:
        """Notice the keys that nothing was made of; the ``rules`` were translated, or have made an obstacle."""
        times = (key for key in self._client.timeouts if _positive(self._raw.get(key)))
        known = {*_READ, *_SILENT, *times, *self._switches.keys, "config"}
        said = {key: value for key, value in self._raw.items() if value not in (None, False, [], {}, "")}
        unread = [key for key in said if key not in known and key not in rules]
        if unread:
            self._notices.append(f"toolcrib does not support {', '.join(unread)}")

    def _text(self, value: Any) -> Any:
        return self._translator.translate(value) if isinstance(value, str) else value


def not_understood(denials: Denials) -> str:
    """Return why a server must not run with rules that are not understood, as the end of a sentence."""
    return f"restricts its tools in a way that is not understood ({', '.join(denials.unknown)})"


def _command_of(raw: JsonObject) -> Any:
    return raw.get("command") or raw.get("cmd")


def _positive(value: Any) -> float | None:
    """Return the number that a value is, as a number or a text; None where it is none above 0."""
    if not isinstance(value, str) and not _is_number(value):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if 0 < number < inf else None


def _plain(number: float) -> float:
    """Return a number as a person writes it: a whole one without a fraction."""
    return int(number) if number == int(number) else number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _no_texts(entry: JsonObject) -> Iterator[Problem]:
    """Yield the places of an entry where text has to be and is none; people's numbers have become texts."""
    texts = {key: entry.get(key, "") for key in ("command", "url", "cwd")}
    texts |= {join("args", number): value for number, value in enumerate(as_list(entry.get("args")))}
    for part in ("env", "headers"):
        texts |= {join(part, name): text for name, text in as_object(entry.get(part)).items()}
    yield from (Problem(place, "must be text") for place, text in texts.items() if not isinstance(text, str))


def _is_relative(argument: Any) -> bool:
    return isinstance(argument, str) and (argument in (".", "..") or argument.startswith(("./", "../")))


def _has_target(raw: JsonObject) -> bool:
    return bool(_command_of(raw)) or any(raw.get(key) for key in _ADDRESSES)
