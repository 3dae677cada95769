"""The known MCP clients, as data: where each keeps its servers, in which format, and how an entry is added."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from pathlib import Path

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
    """The working directory: what lies there may come from somebody else."""


class Syntax(Flag):
    """The spellings of variables that a client fills in; whatever else looks like one is text to it."""

    NONE = 0
    BRACED = auto()
    """``${NAME}``, ``${NAME:-default}``"""
    BARE = auto()
    """``$NAME``"""
    EDITOR = auto()
    """``${env:NAME}``, ``${userHome}``, ``${workspaceFolder}`` and the like"""
    INPUT = auto()
    """``${input:ID}``, for which the client asks the person"""
    FILE = auto()
    """``${file:PATH}``"""
    CURLY = auto()
    """``{env:NAME}``, ``{file:PATH}``"""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file that a client reads: its path below a base; ``variable`` names another directory in its stead.

    ``is_old``: it is where servers were kept once, and nothing new is written into it.
    """

    base: Base
    path: str
    variable: str = ""
    is_old: bool = False

    @property
    def is_project(self) -> bool:
        """Whether it lies in the working directory."""
        return self.base is Base.PROJECT


@dataclass(frozen=True, slots=True)
class Timeout:
    """What a key about time means: our option, and how many seconds its unit has.

    ``milliseconds_from``: numbers from here on were written for a version that counted in milliseconds.
    """

    option: str = "call_timeout_s"
    unit_s: float = 1.0
    milliseconds_from: float | None = None


_MILLISECONDS = Timeout(unit_s=0.001)
_SECONDS = Timeout()
_GUESSED = Timeout(milliseconds_from=1000)


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

    add: tuple[str, ...]
    remove: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Client:
    """One MCP client.

    ``places`` are the paths of keys under which servers stand by name; the first is where an entry is written.
    ``url_type`` is what its ``url`` means where no type is given. ``entry`` is added to the entry of toolcrib.
    """

    key: str
    title: str
    files: tuple[ClientFile, ...]
    places: tuple[tuple[str, ...], ...] = (("mcpServers",),)
    syntax: Syntax = Syntax.NONE
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


_GEMINI_TIMES = {"timeout": _MILLISECONDS}

CLIENTS: tuple[Client, ...] = (
    Client(
        key="claude-code",
        title="Claude Code",
        files=(
            ClientFile(Base.HOME, ".claude.json", "CLAUDE_CONFIG_DIR"),
            ClientFile(Base.PROJECT, ".mcp.json"),
        ),
        places=(("mcpServers",), ("projects", "*", "mcpServers")),
        syntax=Syntax.BRACED,
        timeouts={"timeout": _MILLISECONDS},
        entry={"type": "stdio", "alwaysLoad": True},
        rule_files=(
            ClientFile(Base.HOME, ".claude/settings.json"),
            ClientFile(Base.PROJECT, ".claude/settings.json"),
            ClientFile(Base.PROJECT, ".claude/settings.local.json"),
        ),
        own=OwnCommand(
            add=("claude", "mcp", "add-json", "--scope", "user", "{name}", "{json}"),
            remove=("claude", "mcp", "remove", "--scope", "user", "{name}"),
        ),
    ),
    Client(
        key="claude-desktop",
        title="Claude Desktop",
        files=(ClientFile(Base.APP, "Claude/claude_desktop_config.json"),),
    ),
    Client(
        key="cursor",
        title="Cursor",
        files=(ClientFile(Base.HOME, ".cursor/mcp.json"), ClientFile(Base.PROJECT, ".cursor/mcp.json")),
        syntax=Syntax.EDITOR,
    ),
    Client(
        key="vscode",
        title="VS Code",
        files=(
            ClientFile(Base.APP, "Code/User/mcp.json"),
            ClientFile(Base.APP, "Code/User/settings.json", is_old=True),
            ClientFile(Base.PROJECT, ".vscode/mcp.json"),
        ),
        places=(("servers",), ("mcp", "servers")),
        syntax=Syntax.EDITOR | Syntax.INPUT,
        entry={"type": "stdio"},
    ),
    Client(
        key="codex",
        title="Codex",
        files=(
            ClientFile(Base.HOME, ".codex/config.toml", "CODEX_HOME"),
            ClientFile(Base.PROJECT, ".codex/config.toml"),
        ),
        places=(("mcp_servers",),),
        timeouts={
            "tool_timeout_sec": _SECONDS,
            "startup_timeout_sec": Timeout("connect_timeout_s"),
            "startup_timeout_ms": Timeout("connect_timeout_s", 0.001),
        },
        entry={"required": True},
    ),
    Client(
        key="gemini-cli",
        title="Gemini CLI",
        files=(
            ClientFile(Base.HOME, ".gemini/settings.json"),
            ClientFile(Base.PROJECT, ".gemini/settings.json"),
        ),
        syntax=Syntax.BRACED | Syntax.BARE,
        timeouts=_GEMINI_TIMES,
        url_type="sse",
        own=OwnCommand(
            add=("gemini", "mcp", "add", "--scope", "user", "{name}", "{command}"),
            remove=("gemini", "mcp", "remove", "--scope", "user", "{name}"),
        ),
    ),
    Client(
        key="windsurf",
        title="Windsurf",
        files=(ClientFile(Base.HOME, ".codeium/windsurf/mcp_config.json"),),
        syntax=Syntax.EDITOR | Syntax.FILE,
    ),
    Client(
        key="opencode",
        title="opencode",
        files=(
            ClientFile(Base.CONFIG, "opencode/opencode.json"),
            ClientFile(Base.CONFIG, "opencode/opencode.jsonc"),
            ClientFile(Base.PROJECT, "opencode.json"),
            ClientFile(Base.PROJECT, "opencode.jsonc"),
        ),
        places=(("mcp",), ("mcp", "servers")),
        syntax=Syntax.CURLY,
        timeouts={"timeout": Timeout("connect_timeout_s", 0.001)},
        shape=EntryShape.COMMAND_LIST,
        entry={"type": "local"},
    ),
    Client(
        key="goose",
        title="Goose",
        files=(ClientFile(Base.CONFIG, "goose/config.yaml"),),
        places=(("extensions",),),
        syntax=Syntax.BRACED | Syntax.BARE,
        timeouts={"timeout": _SECONDS},
        shape=EntryShape.GOOSE,
        entry={"type": "stdio", "enabled": True, "timeout": 300},
        rule_files=(ClientFile(Base.CONFIG, "goose/permission.yaml"),),
    ),
    Client(
        key="zed",
        title="Zed",
        files=(ClientFile(Base.CONFIG, "zed/settings.json"), ClientFile(Base.PROJECT, ".zed/settings.json")),
        places=(("context_servers",),),
        timeouts={"timeout": _GUESSED},
    ),
    Client(
        key="copilot-cli",
        title="Copilot CLI",
        files=(ClientFile(Base.HOME, ".copilot/mcp-config.json", "COPILOT_HOME"),),
        syntax=Syntax.BRACED | Syntax.BARE,
        timeouts={"timeout": _MILLISECONDS},
        entry={"type": "local", "tools": ["*"]},
    ),
    Client(
        key="qwen-code",
        title="Qwen Code",
        files=(ClientFile(Base.HOME, ".qwen/settings.json"), ClientFile(Base.PROJECT, ".qwen/settings.json")),
        syntax=Syntax.BRACED | Syntax.BARE,
        timeouts={**_GEMINI_TIMES, "discoveryTimeoutMs": Timeout("connect_timeout_s", 0.001)},
        url_type="sse",
        own=OwnCommand(
            add=("qwen", "mcp", "add", "--scope", "user", "{name}", "{command}"),
            remove=("qwen", "mcp", "remove", "--scope", "user", "{name}"),
        ),
    ),
)
"""The clients whose files are found by themselves, in the order in which they are shown."""

ANY = Client(
    key="other",
    title="an MCP client",
    files=(),
    places=(
        ("mcpServers",),
        ("servers",),
        ("context_servers",),
        ("mcp_servers",),
        ("mcp", "servers"),
        ("mcp",),
        ("extensions",),
        ("amp.mcpServers",),
        ("projects", "*", "mcpServers"),
    ),
    syntax=Syntax.BRACED | Syntax.EDITOR | Syntax.INPUT,
    timeouts={"timeout": _GUESSED},
)
"""What a file is read as that no known client is recognised by."""


def client_named(key: str) -> Client | None:
    """Return the client with this key; None where there is none."""
    return next((client for client in CLIENTS if client.key == key), None)


def client_of(path: Path) -> Client | None:
    """Return the client that keeps a file at such a path; None where none does."""
    ends = tuple(path.parts[-2:])
    for client in CLIENTS:
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
