"""Each server by each client: what a feature comes to directly, and what through toolcrib with default settings.

A cell is one feature of one server by one client over one transport, which is the same on both sides of toolcrib.
"""

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio.to_thread

from e2e.crib import environment, free_port, listening, serve, served_over_http, write_config
from e2e.npm import Npm
from matrix.features import EVERYDAY, EVERYTHING, FORM, NOTHING, ROOT, SAMPLED
from matrix.names import Names

JsonObject = dict[str, Any]
Target = str | list[str]
"""A URL, or a command line."""

HERE = Path(__file__).parent
KEY = "srv"
TRANSPORTS = ("stdio", "HTTP")
CLIENT_S = 240


@dataclass(frozen=True, slots=True)
class Programs:
    """What is installed: programs from npm, FastMCP's Python where there is one, and the Python with the SDK to try."""

    npm: Npm
    fastmcp: Path | None
    python: Path = Path(sys.executable)


@dataclass(frozen=True, slots=True)
class Server:
    """A server; ``command`` takes what is installed, a transport and a port, and returns None if it is missing."""

    name: str
    command: Callable[[Programs, str, int], list[str] | None]
    features: JsonObject


def _python(programs: Programs, transport: str, port: int) -> list[str] | None:
    return [str(programs.python), str(HERE / "python_server.py"), "sdk", *_port(transport, port)]


def _fastmcp(programs: Programs, transport: str, port: int) -> list[str] | None:
    if programs.fastmcp is None:
        return None
    return [str(programs.fastmcp), str(HERE / "python_server.py"), "fastmcp", *_port(transport, port)]


def _typescript(programs: Programs, transport: str, port: int) -> list[str] | None:
    npm = programs.npm
    return [str(npm.node), str(HERE / "ts_server.mjs"), str(npm.folder), *_port(transport, port)]


def _everything(programs: Programs, transport: str, port: int) -> list[str] | None:
    return programs.npm.everything("stdio" if transport == "stdio" else "streamableHttp")


def _port(transport: str, port: int) -> list[str]:
    return [] if transport == "stdio" else [str(port)]


SERVERS = (
    Server("Python SDK", _python, EVERYDAY),
    Server("FastMCP", _fastmcp, EVERYDAY),
    Server("TypeScript SDK", _typescript, EVERYDAY),
    Server("server-everything", _everything, EVERYTHING),
)


@dataclass(frozen=True, slots=True)
class Client:
    """A client in one of its modes; ``version`` is the TypeScript SDK's, and empty for Python's."""

    name: str
    mode: str
    version: str = ""

    async def outcomes(self, programs: Programs, target: Target, names: Names, features: JsonObject) -> dict[str, str]:
        """Return what each feature comes to."""
        plan = {
            "client": self.version, "mode": self.mode, "target": target, "features": features,
            "tool": names.public(""), "resource": names.public_uri(""),
            "answers": {"form": FORM, "root": ROOT, "sampled": SAMPLED},
        }  # fmt: skip
        npm = programs.npm
        by_node = [str(npm.node), str(HERE / "ts_client.mjs"), str(npm.folder)]
        by_python = [str(programs.python), str(HERE / "python_client.py")]
        command = [*(by_node if self.version else by_python), json.dumps(plan)]
        return await anyio.to_thread.run_sync(_ran, command, names)


def _ran(command: list[str], names: Names) -> dict[str, str]:
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=CLIENT_S, check=False, env=environment(), errors="replace"
    )
    assert ended.returncode == 0, ended.stderr
    return {name: names.private(said) for name, said in json.loads(ended.stdout).items()}


CLIENTS = (
    Client("Python, legacy", "legacy"),
    Client("Python, auto", "auto"),
    Client("Python, 2026-07-28", "2026-07-28"),
    Client("TypeScript 1", "legacy", "v1"),
    Client("TypeScript 2, legacy", "legacy", "v2"),
    Client("TypeScript 2, auto", "auto", "v2"),
    Client("TypeScript 2, 2026-07-28", "2026-07-28", "v2"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One feature of a server by a client: what it comes to directly and through toolcrib."""

    server: str
    client: str
    transport: str
    feature: str
    direct: str
    through: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.server, self.client, self.transport, self.feature

    @property
    def is_same(self) -> bool:
        return self.direct == self.through

    @property
    def works_directly(self) -> bool:
        return works(self.direct)

    @property
    def works_through(self) -> bool:
        return works(self.through)


def works(outcome: str) -> bool:
    """Whether what a feature came to is an answer."""
    return not outcome.startswith(("error", "no connection", "goes on")) and outcome != NOTHING


async def cells(
    programs: Programs, server: Server, transport: str, clients: Sequence[Client] = CLIENTS, only: Sequence[str] = ()
) -> list[Cell]:
    """Try the features of a server, or only some, by each client directly and through toolcrib."""
    features = {name: feature for name, feature in server.features.items() if not only or name in only}
    found: list[Cell] = []
    async with _direct(programs, server, transport) as direct, _direct(programs, server, transport) as behind:
        for client in clients:
            there = await client.outcomes(programs, direct, Names(), features)
            async with _through(behind) as through:
                here = await client.outcomes(programs, through, Names(KEY), features)
            found += [Cell(server.name, client.name, transport, name, there[name], here[name]) for name in features]
    return found


@asynccontextmanager
async def _direct(programs: Programs, server: Server, transport: str) -> AsyncGenerator[Target]:
    port = free_port()
    command = server.command(programs, transport, port)
    assert command is not None
    if transport == "stdio":
        yield command
        return
    async with listening(command, port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def _through(server: Target) -> AsyncGenerator[Target]:
    """Yield a toolcrib that has never been started before, with the server behind it."""
    with TemporaryDirectory() as folder:
        if isinstance(server, list):
            yield serve(write_config(Path(folder), {KEY: {"command": server[0], "args": server[1:]}}))
            return
        async with served_over_http(write_config(Path(folder), {KEY: {"url": server}})) as url:
            yield url


def installed(programs: Programs) -> list[Server]:
    """Return the servers that are installed."""
    return [server for server in SERVERS if server.command(programs, "stdio", 0) is not None]


def versions(programs: Programs) -> dict[str, str]:
    """Return the versions of what is tried, by package."""
    python = {"mcp": _version_by(programs.python, "mcp")}
    if programs.fastmcp is not None:
        python["fastmcp"] = _version_by(programs.fastmcp, "fastmcp")
    packages = ("client", "sdk", "server", "node", "server-everything")
    modules = programs.npm.folder / "node_modules" / "@modelcontextprotocol"
    found = {
        f"@modelcontextprotocol/{name}": json.loads((modules / name / "package.json").read_text())["version"]
        for name in packages
    }
    return {**python, **found}


def _version_by(python: Path, package: str) -> str:
    script = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True).stdout.strip()
