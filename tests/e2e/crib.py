"""``toolcrib serve`` as clients start it: a process of its own, over its pipes or over HTTP."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.streams.text import TextReceiveStream
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from worlds import Client

JsonObject = dict[str, Any]
SERVING = re.compile(r"toolcrib: serving (http://\S+)")
START_S = 60
ERAS = {"legacy": "legacy", "modern": "2026-07-28"}
"""The protocol era of a client, and its mode for it."""


def write_config(folder: Path, servers: JsonObject, /, **toolcrib: Any) -> Path:
    """Write a config with a cache of its own beside it."""
    file = folder / "toolcrib.json"
    section = {
        "cache_dir": "cache",
        "state_dir": "state",
        "http": {"port": 0},
        "programs": {"enabled": "off"},
        **toolcrib,
    }
    file.write_text(json.dumps({"mcpServers": servers, "toolcrib": section}))
    return file


@asynccontextmanager
async def connected(
    command: list[str], mode: str = "auto", name: str = "mcp", options: JsonObject | None = None, **process: Any
) -> AsyncGenerator[Client]:
    """Start a server as a process and connect to it, under a name; ``process`` may hold env and cwd.

    ``options`` are further ones of the client.
    """
    server = StdioServerParameters(command=command[0], args=command[1:], **process)
    with anyio.fail_after(120):
        info = Implementation(name=name, version="1")
        async with Client(server, [], mode=mode, client_info=info, **(options or {})) as client:
            yield client


def serve(config: Path, *options: str) -> list[str]:
    """Return the command that serves a config."""
    return [sys.executable, "-m", "toolcrib", "serve", "--config", str(config), *options]


@asynccontextmanager
async def served_over_http(config: Path, *options: str) -> AsyncGenerator[str]:
    """Serve over HTTP in a process, and yield its address; it must end in order when it is asked to."""
    command = serve(config, "--transport", "http", *options)
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stdout=None) as process:
        try:
            yield await _address(process)
        finally:
            process.send_signal(signal.SIGTERM)
            with anyio.move_on_after(10, shield=True):
                await process.wait()
        assert process.returncode == 0


async def _address(process: anyio.abc.Process) -> str:
    assert process.stderr is not None
    said = ""
    with anyio.fail_after(START_S):
        async for text in TextReceiveStream(process.stderr):
            said += text
            if found := SERVING.search(said):
                return found[1]
    raise AssertionError(f"toolcrib serve said: {said}")


@asynccontextmanager
async def connected_over_http(
    url: str, mode: str = "auto", token: str | None = None, **options: Any
) -> AsyncGenerator[Client]:
    """Connect to an address; ``options`` are further ones of the client."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), [], mode=mode, **options) as client,
    ):
        yield client


@asynccontextmanager
async def listening(command: list[str], port: int) -> AsyncGenerator[None]:
    """Run a server that takes its port from the variable PORT, until the block ends."""
    async with await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PORT": str(port)},
    ) as process:  # fmt: skip
        try:
            with anyio.fail_after(START_S):
                while not await _accepts(port):
                    await anyio.sleep(0.05)
            yield
        finally:
            process.kill()


async def _accepts(port: int) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, without what would change how toolcrib starts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCRIB_")}
    return {**kept, **more}


@asynccontextmanager
async def crib(transport: str, era: str, config: Path, **of_client: Any) -> AsyncGenerator[Client]:
    """Connect to a served config, with a list that suits the era; ``of_client`` are options of the client."""
    options = ["--listing", "dynamic" if era == "legacy" else "auto"]
    if transport == "stdio":
        async with connected(serve(config, *options), ERAS[era], options=of_client) as client:
            yield client
        return
    async with served_over_http(config, *options) as url, connected_over_http(url, ERAS[era], **of_client) as client:
        yield client
