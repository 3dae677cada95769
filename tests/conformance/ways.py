"""The server of the suite by itself, and behind toolcrib in each of the ways that are tried."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.names import Names, renamed
from e2e.crib import free_port, listening, served_over_http, write_config
from worlds import OWN_TOOLS

JsonObject = dict[str, Any]

SERVER = "fixture"
COMMAND = [sys.executable, str(Path(__file__).with_name("server.py"))]

_ALL_LISTED: JsonObject = {"tool_search": {"default_loading_mode": "always"}}


@dataclass(frozen=True, slots=True)
class Way:
    """One way through toolcrib. ``own`` are the names that clients see besides the server's."""

    name: str
    over_http: bool
    toolcrib: JsonObject
    listing: str = "auto"
    own: Sequence[str] = ()


PROXY = Way("proxy", False, {"tool_search": {"enabled": False}, "skills": {"enabled": False}})
"""Nothing but passing on, with the server on its pipes."""

WAYS = (
    Way("default", True, _ALL_LISTED, own=OWN_TOOLS),
    PROXY,
    Way("legacy server", True, {**_ALL_LISTED, "servers": {SERVER: {"protocol": "legacy"}}}, "stable", OWN_TOOLS),
)
"""``default``: as installed, with every tool listed. ``legacy server``: the same, with a server of 2025-11-25."""


@asynccontextmanager
async def directly() -> AsyncGenerator[str]:
    """Run the server over HTTP, and yield its address."""
    port = free_port()
    async with listening([*COMMAND, str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def through(way: Way, folder: Path) -> AsyncGenerator[str]:
    """Run the server behind toolcrib, with names mapped, and yield the address."""
    if way.over_http:
        async with directly() as url, _served(way, folder, {"url": url}) as address:
            yield address
    else:
        async with _served(way, folder, {"command": COMMAND[0], "args": COMMAND[1:]}) as address:
            yield address


@asynccontextmanager
async def _served(way: Way, folder: Path, entry: JsonObject) -> AsyncGenerator[str]:
    config = write_config(folder, {SERVER: entry}, **way.toolcrib)
    async with served_over_http(config, "--listing", way.listing) as url:
        with renamed(url, Names(SERVER, way.own)) as address:
            yield address
