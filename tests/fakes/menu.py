"""Orders a fake downstream from ``server.py`` and reads what happened to it."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from waiting import until

JsonObject = dict[str, Any]
Point = Literal["spawn", "initialize", "discover", "list", "call"]
SCRIPT = Path(__file__).with_name("server.py")


class Menu(TypedDict, total=False):
    """What a fake server offers and what is wrong with it. Every key may be left out.

    ``tools`` are definitions or bare names, the path of a JSON file with a key ``tools``, or ``{"generate": N}``.
    The names of ``behaviours.py`` do something special when called; any other tool says that it ran.
    """

    tools: Sequence[JsonObject | str] | str | dict[Literal["generate"], int]
    eras: Sequence[Literal["legacy", "modern"]]
    legacy_version: str  # the newest handshake revision it speaks
    instructions: str
    page_size: int
    results: Mapping[str, JsonObject]  # by tool: the result to answer with
    error_on_call: Mapping[str, JsonObject]  # by tool: {code, message, data}

    list_changed_after: str  # the tool whose call changes the list and announces it
    more_tools: Sequence[JsonObject | str]  # what it adds or redefines
    fewer_tools: Sequence[str]  # what it takes away
    announcements: int  # how often it announces that
    list_changed_capability: bool

    slow_s: Mapping[Point, float]
    hold_at: Point  # waits there, each time, until it is let go
    hang_at: Point  # never answers there
    exit_at: Point  # exits there with code 3
    faulty_starts: int  # hang_at and exit_at hold for so many starts only
    die_on_discover: bool
    cursor_loop: Literal["same", "fresh"]  # endless pages
    garbage: int  # lines that are no JSON before each message
    storm: bool  # sends notifications without end as soon as a list was asked for
    wrong_ids: bool  # answers calls under ids that nobody used
    flood: int  # bytes without a newline at the start
    stderr: str  # printed at the start
    ignore_eof: bool  # the end of its stdin does not stop it
    ignore_sigterm: bool  # neither that nor the end of its stdin stops it
    fork_child: bool  # starts a sleeping grandchild that holds its pipes
    detach_child: bool  # starts one in a session of its own


class FakeServer:
    """One fake downstream. ``folder`` is where its menu and its record are kept, usually ``tmp_path``."""

    def __init__(self, folder: Path, name: str = "fake", **menu: Unpack[Menu]) -> None:
        self.name = name
        self._menu_file = folder / f"{name}.menu.json"
        self._record = folder / f"{name}.record.jsonl"
        if self._menu_file.exists():
            raise ValueError(f"there is a fake named {name} in {folder}; give this one another name")
        self._let_go = folder / f"{name}.let-go"
        self._menu: JsonObject = {"name": name, "record": str(self._record), "let_go": str(self._let_go)}
        self.change(**menu)

    @property
    def command(self) -> str:
        return sys.executable

    @property
    def args(self) -> list[str]:
        return ["-S", str(SCRIPT), str(self._menu_file)]

    def entry(self, **more: Any) -> JsonObject:
        """Return its entry in ``mcpServers``."""
        return {"command": self.command, "args": self.args, **more}

    def change(self, **menu: Unpack[Menu]) -> None:
        """Change the menu from the next start on."""
        self._menu |= menu
        self._menu_file.write_text(json.dumps(self._menu))

    def let_go(self) -> None:
        """Have it go on, once, where it is held."""
        self._let_go.touch()

    def starts(self) -> list[int]:
        """Return the process ids of all its starts so far."""
        return [event["pid"] for event in self._events("start")]

    def messages(self, method: str | None = None) -> list[JsonObject]:
        """Return the messages that it received, those of ``method`` where one is given."""
        received = [event["message"] for event in self._events("message")]
        return [message for message in received if method in (None, message.get("method"))]

    def calls(self, tool: str | None = None) -> list[JsonObject]:
        """Return the params of the calls that it received, those of ``tool`` where one is given."""
        called = [message["params"] for message in self.messages("tools/call")]
        return [params for params in called if tool in (None, params["name"])]

    async def reached(self, method: str, count: int = 1) -> None:
        """Wait until it has received ``method`` so many times.

        Raises:
            TimeoutError: it has not in time.

        """
        await until(lambda: len(self.messages(method)) >= count)

    def survivors(self) -> list[int]:
        """Return the process ids of its starts and their children that are still alive."""
        born = [event["pid"] for event in self._events("start", "child")]
        return [pid for pid in born if _is_alive(pid)]

    def _events(self, *kinds: str) -> list[JsonObject]:
        if not self._record.exists():
            return []
        whole_lines = self._record.read_text().split("\n")[:-1]
        return [event for event in map(json.loads, whole_lines) if event["event"] in kinds]


def tool(
    name: str,
    description: str = "",
    params: Mapping[str, str | JsonObject] | None = None,
    required: Sequence[str] = (),
    **more: Any,
) -> JsonObject:
    """Return a tool definition. A parameter is a JSON type or a schema; ``more`` is title, annotations and so on."""
    properties = {
        key: {"type": schema} if isinstance(schema, str) else schema for key, schema in (params or {}).items()
    }
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {"name": name, "description": description or f"The tool {name}.", "inputSchema": schema, **more}


def _is_alive(pid: int) -> bool:
    """Return whether the process runs. One that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends while it is read
        if Path("/proc/self/stat").exists():
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
