"""``toolcrib serve`` as a process, spoken to in raw lines, so that every byte on its stdout is seen.

async with served(tmp_path, fake) as crib:
    await crib.initialize()
    assert (await crib.tool("tool_search", query="echo"))["structuredContent"]["tools"]
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from mcp_types import jsonrpc_message_adapter

from fakes.menu import FakeServer

JsonObject = dict[str, Any]
META = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientInfo": {"name": "test", "version": "1"},
    f"{META}clientCapabilities": {},
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
PATIENCE_S = 60


def write_config(folder: Path, *fakes: FakeServer, limits: JsonObject | None = None, **toolcrib: Any) -> Path:
    """Write a config with a cache of its own; ``toolcrib`` is its key of that name.

    Servers get a moment to stop, and a first answer waits for their lists half as long as a test waits for the answer.
    """
    bounds = {"close_timeout_s": 0.6, "first_index_wait_s": PATIENCE_S / 2, **(limits or {})}
    # The list of an installation without the extra, as in memory.
    section = {
        "cache_dir": str(folder / "cache"),
        "state_dir": str(folder / "state"),
        "limits": bounds,
        "programs": {"enabled": "off"},
        **toolcrib,
    }
    file = folder / "toolcrib.json"
    file.write_text(json.dumps({"mcpServers": {fake.name: fake.entry() for fake in fakes}, "toolcrib": section}))
    return file


def command(config: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "toolcrib", "serve", "--config", str(config), *options]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return this process's environment without what belongs to a person or to another toolcrib."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLCRIB_", "XDG_"))}
    return {**kept, "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder / "run"), **more}


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``toolcrib serve`` with nothing on its stdin, until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "toolcrib", "serve", *arguments],
        env=environment(folder, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def message_of(line: bytes) -> JsonObject:
    """Return the JSON-RPC message that a line is; anything else is an error."""
    document = json.loads(line)
    jsonrpc_message_adapter.validate_python(document, by_name=False)
    return document


@dataclass
class Served:
    """A running toolcrib. ``lines`` are all that came from its stdout."""

    process: subprocess.Popen[bytes]
    to_it: int
    from_it: int
    errors: Path
    lines: list[bytes] = field(default_factory=list)
    _partial: bytes = b""
    _ids: Any = field(default_factory=lambda: count(1))

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        while data:
            await anyio.wait_writable(self.to_it)
            data = data[os.write(self.to_it, data[:65_536]) :]

    async def send(self, message: JsonObject) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def receive(self) -> JsonObject:
        """Return the next message from its stdout; whatever is no message fails the test."""
        with anyio.fail_after(PATIENCE_S):
            while b"\n" not in self._partial:
                await anyio.wait_readable(self.from_it)
                chunk = os.read(self.from_it, 1 << 16)
                assert chunk, f"it closed its stdout: {self.said}"
                self._partial += chunk
        line, _, self._partial = self._partial.partition(b"\n")
        self.lines.append(line)
        return message_of(line)

    async def answer(self, key: int | str) -> JsonObject:
        """Return the answer to a request; what comes before it is passed over."""
        while True:
            message = await self.receive()
            if message.get("id") == key and "method" not in message:
                return message

    async def request(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """Send a request and return its result."""
        key = next(self._ids)
        await self.send({"id": key, "method": method, "params": params or {}})
        return (await self.answer(key))["result"]

    async def initialize(self) -> JsonObject:
        result = await self.request("initialize", INITIALIZE)
        await self.send({"method": "notifications/initialized"})
        return result

    async def tool(self, name: str, /, **arguments: Any) -> JsonObject:
        """Call one of its tools."""
        return await self.request("tools/call", {"name": name, "arguments": arguments})

    @property
    def said(self) -> str:
        """All that it printed on stderr."""
        return self.errors.read_text()

    def close_stdin(self) -> None:
        """Let it see the end of its input."""
        os.close(self.to_it)
        self.to_it = -1

    async def ended(self) -> int:
        """Wait until the process has ended; return its exit code. All that it still printed has to be messages."""
        with anyio.fail_after(PATIENCE_S):
            while self.process.poll() is None:
                await anyio.sleep(0.01)
        if self.from_it >= 0:
            while chunk := os.read(self.from_it, 1 << 16):
                self._partial += chunk
        for line in self._partial.split(b"\n")[:-1]:
            message_of(line)
        return self.process.returncode

    @property
    def peak_bytes(self) -> int:
        """The most memory that it has held so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@asynccontextmanager
async def started(
    arguments: Sequence[str], folder: Path, *, sockets: bool = False, first: bytes = b"", **more: str
) -> AsyncGenerator[Served]:
    """Start a command with pipes, or a socket, for stdin and stdout; ``first`` is sent before it runs."""
    ends = _sockets() if sockets else _pipes()
    os.write(ends[1], first)
    it = _start(arguments, folder, ends, environment(folder, **more))
    try:
        yield it
    finally:
        _stop(it.process)
        for fd in {it.to_it, it.from_it} - {-1}:
            os.close(fd)


def _start(arguments: Sequence[str], folder: Path, ends: tuple[int, int, int, int], env: dict[str, str]) -> Served:
    near_in, near_out, far_in, far_out = ends
    errors = folder / f"stderr-{len(list(folder.glob('stderr-*')))}"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(arguments, stdin=far_in, stdout=far_out, stderr=stderr, env=env, cwd=folder)
    for fd in {far_in, far_out}:
        os.close(fd)
    return Served(process, near_out, near_in, errors)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End it in order, so that it ends its servers too; only one that does not obey is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(PATIENCE_S)
        raise


def _pipes() -> tuple[int, int, int, int]:
    (far_in, near_out), (near_in, far_out) = os.pipe(), os.pipe()
    return near_in, near_out, far_in, far_out


def _sockets() -> tuple[int, int, int, int]:
    near, far = socket.socketpair()
    near_fd, far_fd = near.detach(), far.detach()
    return near_fd, near_fd, far_fd, far_fd


@asynccontextmanager
async def served(
    folder: Path, *fakes: FakeServer, options: Sequence[str] = (), sockets: bool = False, **toolcrib: Any
) -> AsyncGenerator[Served]:
    """Serve some fakes; ``toolcrib`` is the config's key of that name."""
    config = write_config(folder, *fakes, **toolcrib)
    async with started(command(config, *options), folder, sockets=sockets) as it:
        yield it


async def end_of_input(crib: Served) -> None:
    crib.close_stdin()


async def terminate(crib: Served) -> None:
    crib.process.send_signal(signal.SIGTERM)


async def interrupt(crib: Served) -> None:
    crib.process.send_signal(signal.SIGINT)


ENDINGS = (end_of_input, terminate, interrupt)
"""Every way in which a client or a person ends it."""
