"""The servers of the suite, and the ways to them: directly, through toolcrib, and through another proxy."""

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.names import Names, renamed
from e2e.crib import free_port, listening, served_over_http, write_config
from oauth.rig import find_fastmcp
from worlds import OWN_TOOLS

JsonObject = dict[str, Any]

SERVER = "fixture"
COMMAND = [sys.executable, str(Path(__file__).with_name("server.py"))]


@dataclass(frozen=True, slots=True)
class Fixture:
    """A server that has all that the suite asks for, and how docs/conformance.md describes it.

    ``script`` is run by this Python, or by FastMCP's where ``with_fastmcp`` says so.
    """

    name: str
    script: str
    arguments: Sequence[str] = ()
    with_fastmcp: bool = False
    about: str = ""

    def command(self, environ: Mapping[str, str]) -> list[str] | None:
        """Return the command that starts it on its pipes, or None where FastMCP is not installed."""
        python = find_fastmcp(environ) if self.with_fastmcp else Path(sys.executable)
        return python and [str(python), str(Path(__file__).with_name(self.script)), *self.arguments]


BY_ERA = Fixture(
    "by era", "server.py",
    about="written with the SDK's low-level `Server`; asks in each era as that era does",
)  # fmt: skip
SDK = Fixture(
    "Python SDK", "documented_server.py", ["sdk"],
    about="written as the SDK's documentation writes a server: `MCPServer`, tools that push (`ctx.elicit`, "
    "`ctx.session.create_message`)",
)  # fmt: skip
FASTMCP = Fixture(
    "FastMCP", "documented_server.py", ["fastmcp"], with_fastmcp=True, about="the same, written with FastMCP"
)
FIXTURES = (BY_ERA, SDK, FASTMCP)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to the server.

    ``toolcrib`` is the section of the config, ``options`` stand on the command line; ``own`` are the names that clients
    see besides the server's.
    """

    name: str
    toolcrib: JsonObject
    over_http: bool = True
    options: Sequence[str] = ()
    own: Sequence[str] = tuple(OWN_TOOLS)


_ALL_LISTED: JsonObject = {"tool_search": {"default_loading_mode": "always"}}
_ALONE: JsonObject = {"tool_search": {"enabled": False}, "skills": {"enabled": False}}

DEFAULT = Way("default", {})
LISTED = Way("all listed", _ALL_LISTED)
PROXY = Way("proxy", _ALONE, over_http=False, own=())
"""Nothing but passing on, with the server on its pipes."""
LEGACY_SERVER = Way("legacy server", {**_ALL_LISTED, "servers": {SERVER: {"protocol": "legacy"}}})
WAYS = (DEFAULT, LISTED, PROXY, LEGACY_SERVER)
FASTMCP_PROXY = "FastMCP's proxy"
"""Another program's way, for comparison: its figures are recorded, and not explained."""


@asynccontextmanager
async def directly(command: Sequence[str] = COMMAND) -> AsyncGenerator[str]:
    """Run a server over HTTP, and yield its address."""
    port = free_port()
    async with listening([*command, str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def through(way: Way, folder: Path, command: Sequence[str] = COMMAND) -> AsyncGenerator[str]:
    """Run a server behind toolcrib, with names mapped, and yield the address."""
    if way.over_http:
        async with directly(command) as url, _served(way, folder, {"url": url}) as address:
            yield address
    else:
        async with _served(way, folder, {"command": command[0], "args": [*command[1:]]}) as address:
            yield address


@asynccontextmanager
async def through_fastmcp(fastmcp: Path, command: Sequence[str]) -> AsyncGenerator[str]:
    """Run a server behind FastMCP's proxy, by FastMCP's Python, and yield the address."""
    port = free_port()
    script = Path(__file__).with_name("fastmcp_proxy.py")
    async with directly(command) as url, listening([str(fastmcp), str(script), url, str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def _served(way: Way, folder: Path, entry: JsonObject) -> AsyncGenerator[str]:
    config = write_config(folder, {SERVER: entry}, **way.toolcrib)
    async with served_over_http(config, *way.options) as url:
        with renamed(url, Names(SERVER, way.own)) as address:
            yield address
