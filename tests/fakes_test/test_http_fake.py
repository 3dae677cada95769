"""The HTTP fakes list and call through the SDK's own client."""

import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp_types import TextContent

from fakes.http_server import http_server

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("json_response", [False, True])
@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_streamable_http_serves_both_eras(mode: str, version: str, *, json_response: bool):
    with http_server(json_response=json_response) as server:
        async with Client(server.url, mode=mode, cache=None) as mcp:
            assert mcp.protocol_version == version
            assert [tool.name for tool in (await mcp.list_tools()).tools] == ["echo", "sleep", "progress"]
            assert (await mcp.call_tool("echo", {"text": "hi"})).structured_content == {"text": "hi"}
            assert (await mcp.call_tool("sleep", {"seconds": 0})).content == [TextContent(text="slept")]
        assert server.headers


@pytest.mark.parametrize("sse", [False, True])
async def test_progress_is_reported_over_http(*, sse: bool):
    seen = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    with http_server(sse=sse) as server:
        async with Client(sse_client(server.url) if sse else server.url, mode="legacy", cache=None) as mcp:
            assert (await mcp.call_tool("progress", {"steps": 2}, progress_callback=on_progress)).content
    assert seen == [1, 2]


async def test_a_server_comes_back_on_the_port_it_had():
    with http_server() as first:
        port = first.port
    with http_server(port=port) as second:
        async with Client(second.url, cache=None) as mcp:
            assert (await mcp.call_tool("echo")).structured_content == {}
