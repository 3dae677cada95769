"""The known MCP clients, as data: where each keeps its servers, in which format, and how an entry is added."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from math import inf
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter

from toolcrib.base.model import JsonObject

DARWIN, WINDOWS = "darwin", "win32"


class Base(StrEnum):
    """The directory that a client's file is looked for in."""

    HOME = "home"
    CONFIG = "config"
    """``$XDG_CONFIG_HOME``, else ``~/.config``, on macOS too."""
    APP = "app"
    """As ``CONFIG``, but ``~/Library/Application Support`` on macOS and ``%APPDATA%`` on Windows."""
    PROJECT = "project"
    """The working directory: its files may come from another person."""


class Syntax(StrEnum):
    """A spelling of variables that a client fills in; whatever else looks like one is text to it."""

    BRACED = "braced"
    """``${NAME}``, ``${NAME:-default}``"""
    BARE = "bare"
    """``$NAME``"""
    EDITOR = "editor"
    """``${env:NAME}``, ``${userHome}``, ``${workspaceFolder}`` and the like"""
    INPUT = "input"
    """``${input:ID}``, for which the client asks the person"""
    FILE = "file"
    """``${file:PATH}``"""
    CURLY = "curly"
    """``{env:NAME}``, ``{file:PATH}``"""


# A misspelled key of the table must not count as one that is left out.
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file that a client reads: its path below a base; ``variable`` names another directory in its stead.

    ``is_old``: earlier versions of the client stored servers there; nothing new is written into it.
    """

    __pydantic_config__ = _STRICT

    base: Base
    path: str
    variable: str = ""
    is_old: bool = False

    @property
    def is_project(self) -> bool:
        """Whether it lies in the working directory."""
        return self.base is Base.PROJECT


_LONG = 1000
"""As seconds more than most people mean, as milliseconds fewer than most mean."""


@dataclass(frozen=True, slots=True)
class Timeout:
    """What a key about time means: our option, and how many seconds its unit has.

    People write numbers of the other unit too, and nobody means a call to end after 60 ms, or to wait for a day:
    numbers from ``milliseconds_from`` on, and below ``seconds_below``, are read as what can be meant.
    """

    __pydantic_config__ = _STRICT

    option: str = "call_timeout_s"
    unit_s: float = 1.0
    milliseconds_from: float = inf
    seconds_below: float = 0

    def unit_of(self, number: float) -> float:
        """Return how many seconds the unit has in which a number was written."""
        return 0.001 if number >= self.milliseconds_from else 1 if number < self.seconds_below else self.unit_s

    def is_sure(self, number: float) -> bool:
        """Return whether a number can be meant in the unit of the client alone."""
        return self.unit_of(number) == self.unit_s and (number < _LONG or self.milliseconds_from == inf)


class EntryShape(StrEnum):
    """How a client writes the entry of a server that it starts."""

    STANDARD = "standard"
    """``command`` and ``args``"""
    COMMAND_LIST = "command_list"
    """``command`` is the list of the program and its arguments"""
    GOOSE = "goose"
    """``cmd`` and ``args``, with its own name"""


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """The client's own commands that add and remove a server for this person.

    ``{name}`` and ``{json}`` stand for the name of the entry and for the entry, ``{command}`` for the words that start
    toolcrib, one argument each.
    """

    __pydantic_config__ = _STRICT

    add: tuple[str, ...]
    remove: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Client:
    """One MCP client.

    ``places`` are the paths of keys under which servers stand by name; the first is where an entry is written.
    ``url_type`` is what its ``url`` means where no type is given. ``entry`` is added to the entry of toolcrib.
    """

    __pydantic_config__ = _STRICT

    key: str
    title: str
    files: tuple[ClientFile, ...]
    places: tuple[tuple[str, ...], ...] = (("mcpServers",),)
    syntax: frozenset[Syntax] = frozenset()
    timeouts: Mapping[str, Timeout] = field(default_factory=dict[str, Timeout])
    url_type: str = "http"
    shape: EntryShape = EntryShape.STANDARD
    entry: JsonObject = field(default_factory=dict[str, object])
    rule_files: tuple[ClientFile, ...] = ()
    own: OwnCommand | None = None

    @property
    def signs(self) -> tuple[tuple[str, ...], ...]:
        """The ends of the paths of its files, by which a file is known for one of this client's."""
        return tuple(tuple(Path(file.path).parts[-2:]) for file in self.files)


@dataclass(frozen=True, slots=True)
class ClientTable:
    """The known clients, in the order in which they are shown; ``other`` is what any other client's file is read as."""

    clients: tuple[Client, ...]
    other: Client


@cache
def client_table() -> ClientTable:
    """Return the table that ships with the package, ``known.json``. Reads the file once."""
    return TypeAdapter(ClientTable).validate_json(files("toolcrib.clients").joinpath("known.json").read_bytes())


def client_named(key: str) -> Client | None:
    """Return the client with this key; None where there is none."""
    return next((client for client in client_table().clients if client.key == key), None)


def client_of(path: Path) -> Client | None:
    """Return the client that keeps a file at such a path; None where none does."""
    ends = tuple(path.parts[-2:])
    for client in client_table().clients:
        # The last two parts tell most files apart: many clients call theirs mcp.json.
        for sign in client.signs:
            if ends[-len(sign) :] == sign:
                return client
    return None


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """Where a person's files are: variables, the platform, and the working directory."""

    environ: Mapping[str, str]
    cwd: Path
    platform: str

    @property
    def home(self) -> Path:
        """The home directory; the working directory where none is set."""
        home = self.environ.get("HOME") or self.environ.get("USERPROFILE")
        return Path(home) if home else self.cwd

    def locate(self, file: ClientFile) -> Path:
        """Return where a client's file is, or would be."""
        # Such a variable names the folder in which the file then lies by its bare name.
        if file.variable and (named := self.environ.get(file.variable)):
            return Path(named, Path(file.path).name)
        if file.base is Base.PROJECT:
            return self.cwd / file.path
        if file.base is Base.HOME:
            return self.home / file.path
        return self._config_dir(file.base) / file.path

    def _config_dir(self, base: Base) -> Path:
        if base is Base.APP and self.platform == DARWIN:
            return self.home / "Library" / "Application Support"
        if self.platform == WINDOWS:
            roaming = self.environ.get("APPDATA")
            return Path(roaming) if roaming else self.home / "AppData" / "Roaming"
        named = self.environ.get("XDG_CONFIG_HOME")
        return Path(named) if named else self.home / ".config"
