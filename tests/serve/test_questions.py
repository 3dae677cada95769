"""A server on pipes asks its client, behind a toolcrib that is a process: over pipes, and over HTTP with tokens."""

import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from e2e.crib import serve, served_over_http, write_config
from worlds import ERAS, Client

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]

SERVER = r"""
import json, os, sys
def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n"); sys.stdout.flush()
FORM = {"type": "object", "properties": {"which": {"type": "string"}}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "zoo", "version": "1"}}
call = None
for line in sys.stdin:
    message = json.loads(line)
    method, key = message.get("method"), message.get("id")
    if method == "initialize":
        say({"id": key, "result": HELLO})
    elif method == "tools/list":
        say({"id": key, "result": {"tools": [{"name": "feed", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        call = key
        question = {"message": message["params"]["arguments"]["who"], "requestedSchema": FORM}
        say({"id": "question", "method": "elicitation/create", "params": question})
    elif method is None and key == "question":
        said = message["result"]["content"]["which"] + " " + str(os.getpid())
        say({"id": call, "result": {"content": [{"type": "text", "text": said}]}})
    elif key is not None:
        say({"id": key, "error": {"code": -32601, "message": "Method not found"}})
"""
ENTRY = {"command": sys.executable, "args": ["-c", SERVER]}
TOKENS = [{"token": f"token-of-{who}", "subject": who} for who in ("ann", "bob")]


def options(name: str, mode: str) -> dict[str, Any]:
    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"which": f"{name} for {params.message}"})

    return {"mode": mode, "elicitation_callback": elicit, "client_info": Implementation(name="test", version="1")}


async def said(client: Client, who: str) -> str:
    [block] = (await client.call_tool("zoo__feed", {"who": who})).content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("mode", ERAS)
async def test_over_pipes_the_client_is_asked(tmp_path: Path, mode: str):
    command, *arguments = serve(write_config(tmp_path, {"zoo": ENTRY}), "--listing", "auto")
    server = StdioServerParameters(command=command, args=arguments)
    async with Client(server, [], **options("ann", mode)) as client:
        assert (await said(client, "ann")).startswith("ann for ann ")


@pytest.mark.parametrize("mode", ERAS)
async def test_over_http_each_token_s_client_is_asked_by_a_process_of_its_own(tmp_path: Path, mode: str):
    config = write_config(tmp_path, {"zoo": ENTRY}, http={"port": 0, "tokens": TOKENS})
    processes: dict[str, set[str]] = {"ann": set(), "bob": set()}
    async with served_over_http(config) as url, anyio.create_task_group() as tasks:

        async def work(name: str) -> None:
            headers = {"authorization": f"Bearer token-of-{name}"}
            async with httpx2.AsyncClient(headers=headers, timeout=30, verify=False) as http:
                streams = streamable_http_client(url, http_client=http)
                async with Client(streams, [], **options(name, mode)) as client:
                    for _ in range(3):
                        *answer, process = (await said(client, name)).split()
                        assert answer == [name, "for", name]
                        processes[name].add(process)

        tasks.start_soon(work, "ann")
        tasks.start_soon(work, "bob")
    assert [len(own) for own in processes.values()] == [1, 1]
    assert not processes["ann"] & processes["bob"]
