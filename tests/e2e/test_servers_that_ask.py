"""Servers made with the SDK that ask their user while a tool runs: through toolcrib, with defaults, as directly."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SERVER = [sys.executable, str(Path(__file__).parents[1] / "fakes" / "asking_server.py")]
START_S = 60


@pytest.fixture
def port() -> Generator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
    with subprocess.Popen([*SERVER, str(number)], stderr=subprocess.DEVNULL) as process:
        yield number
        process.terminate()


async def listening(port: int) -> None:
    with anyio.fail_after(START_S):
        while True:
            with suppress(OSError):
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                return
            await anyio.sleep(0.02)


async def fill_in(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"size": "L"})


async def complete(context: Any, params: Any) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Wear it."), model="m")


async def outcomes(transport: Any, mode: Any, prefix: str = "") -> list[str]:
    """Return what the tools answer, or the error that comes instead."""
    found: list[str] = []
    async with Client(transport, mode=mode, elicitation_callback=fill_in, sampling_callback=complete) as client:
        for name in ("order", "slogan"):
            try:
                with anyio.fail_after(START_S):
                    result = await client.call_tool(f"{prefix}{name}", {})
                [content] = result.content
                found.append(content.text if isinstance(content, types.TextContent) else repr(content))
            except MCPError as error:
                found.append(f"{error.code}: {error}")
    return found


def command(*arguments: str, **environ: str) -> Any:
    return stdio_client(
        StdioServerParameters(command=arguments[0], args=[*arguments[1:]], env={**os.environ, **environ})
    )


def through(folder: Path, entry: dict[str, Any], *options: str) -> Any:
    """Start toolcrib with one server and no further setting."""
    config = folder / "toolcrib.json"
    config.write_text(json.dumps({"mcpServers": {"shop": entry}}))
    home = {"HOME": str(folder), "XDG_CACHE_HOME": "", "XDG_DATA_HOME": "", "XDG_RUNTIME_DIR": str(folder)}
    return command(sys.executable, "-m", "toolcrib", "serve", "--config", str(config), *options, **home)


ANSWERED = ["accept: L", "type='text' text='Wear it.' annotations=None meta=None"]


async def test_a_client_with_a_session_is_asked_by_a_process_that_speaks_both_eras(tmp_path: Path):
    entry = {"command": SERVER[0], "args": SERVER[1:]}
    assert await outcomes(command(*SERVER), "legacy") == ANSWERED
    assert await outcomes(through(tmp_path, entry), "legacy", "shop__") == ANSWERED


async def test_a_client_with_a_session_is_asked_by_a_server_on_http_that_speaks_both_eras(tmp_path: Path, port: int):
    await listening(port)
    url = f"http://127.0.0.1:{port}/mcp"
    assert await outcomes(streamable_http_client(url), "legacy") == ANSWERED
    assert await outcomes(through(tmp_path, {"type": "http", "url": url}), "legacy", "shop__") == ANSWERED


async def test_a_client_without_one_gets_the_answers_and_errors_of_a_direct_connection(tmp_path: Path):
    """Where the server has no way to ask such a client, it has none through toolcrib either."""
    entry = {"command": SERVER[0], "args": SERVER[1:]}
    direct = await outcomes(command(*SERVER), "2026-07-28")
    assert await outcomes(through(tmp_path, entry, "--listing", "auto"), "2026-07-28", "shop__") == direct
