"""The worlds of the tests wait for what they say they wait for."""

from typing import Any

import mcp_types as types
import pytest

from fakes.menu import tool
from worlds import world

pytestmark = pytest.mark.anyio


async def decline(_context: Any, _params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_change_returns_when_the_new_list_is_served(tmp_path, transport):
    """A client that can be asked has a connection of its own to the server, which hears of the change first."""
    config = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, {"shop": [tool("sell")]}, config, transport=transport) as w:
        async with w.client(elicitation_callback=decline) as client:
            await client.call("shop__sell")
            for number in range(4):
                await w.change("shop", tool("sell"), tool(f"wrap-{number}"))
                assert f"shop__wrap-{number}" in await client.names()
