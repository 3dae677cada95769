"""The SDK's own client connects to a served gateway as it does to any server object, without a transport."""

from pathlib import Path

import mcp
import pytest
from mcp.server import Server

from fakes.menu import tool
from worlds import ERAS, World, world

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", [*ERAS, "auto"])
async def test_the_client_of_the_sdk_connects_to_the_server_itself(tmp_path: Path, mode: str):
    async with world(tmp_path, {"github": [tool("create_issue")]}) as w:
        assert isinstance(w.serving.server, Server)
        async with mcp.Client(w.serving.server, mode=mode) as client:
            assert "tool_search" in await _names(client)
            result = await client.call_tool("tool_call", {"name": "github__create_issue", "arguments": {}})
            assert [block.model_dump()["text"] for block in result.content] == ["ran create_issue {}"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_in_memory_is_served_by_the_config_that_a_reload_puts_in_use(tmp_path: Path, mode: str):
    async with world(tmp_path, {"github": [tool("create_issue")]}) as w, mcp.Client(w.serving.server, mode=mode) as c:
        assert "tool_search" in await _names(c)
        await _forbid_searches(w)
        assert "tool_search" not in await _names(c)


async def _forbid_searches(w: World) -> None:
    loaded = await w.reload({"tool_search": {"include_search_tool": False}})
    assert not loaded.failure


async def _names(client: mcp.Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]
