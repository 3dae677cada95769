"""What servers announce reaches subscriptions of 2026-07-28 as on a direct connection, and tells of nothing hidden."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.subscriptions import Subscription

from fakes.memory import MODERN, MemoryServer
from fakes.menu import tool
from online import online
from worlds import BUILTINS, DEADLINE_S, Client, World, time_passes, until, world

pytestmark = pytest.mark.anyio

PROMPT, RESOURCE = {"name": "greet"}, {"uri": "memo://one", "name": "one"}


def shop() -> MemoryServer:
    """A server with a list of each kind."""
    return MemoryServer([tool("sell")], offers={"prompts": [PROMPT], "resources": [RESOURCE], "resourceTemplates": []})


@asynccontextmanager
async def heard_by(client: Client) -> AsyncGenerator[Counter[str]]:
    """Subscribe to the changes of all lists; yield how often each kind was heard."""
    heard: Counter[str] = Counter()

    async def note(subscription: Subscription) -> None:
        async for event in subscription:
            heard[type(event).__name__] += 1

    lists: dict[str, Any] = {"tools_list_changed": True, "resources_list_changed": True, "prompts_list_changed": True}
    async with client.listen(**lists) as subscription, anyio.create_task_group() as tasks:
        tasks.start_soon(note, subscription)
        yield heard
        tasks.cancel_scope.cancel()


async def started(w: World, client: Client, heard: Counter[str]) -> None:
    """Have the server run, with all of its lists read."""
    await client.tool_call("shop__sell")
    await until(lambda: {"prompts/list", "resources/list"} <= set(w["shop"].methods()))
    await client.ask("prompts/list")
    await w["shop"].change_offers("prompts", {"name": "settled"})
    await until(lambda: heard["PromptsListChanged"] > 0)
    assert [each["name"] for each in (await client.ask("prompts/list"))["prompts"]] == ["shop__settled"]
    heard.clear()


async def test_a_change_of_tools_that_are_not_listed_is_heard_since_they_may_be_called(tmp_path):
    async with world(tmp_path, {"shop": shop()}) as w, w.client(MODERN) as client, w.client("legacy") as other:
        async with heard_by(client) as heard:
            await started(w, client, heard)
            await w["shop"].change(tool("sell"), tool("wrap"))
            await until(lambda: heard["ToolsListChanged"] == 1)
            await client.tool_call("shop__wrap")
        assert await client.names() == BUILTINS
        assert await other.names() == BUILTINS
        assert other.list_changes == 0, "a session is notified of what differs in its own list"


async def test_what_is_announced_is_heard_whatever_differs(tmp_path):
    async with world(tmp_path, {"shop": shop()}) as w, w.client(MODERN) as client, heard_by(client) as heard:
        await started(w, client, heard)
        await w["shop"].change(tool("sell"))
        await until(lambda: heard == {"ToolsListChanged": 1})
        await w["shop"].change_offers("prompts", {"name": "settled"})
        await until(lambda: heard == {"ToolsListChanged": 1, "PromptsListChanged": 1})
        await w["shop"].change_offers("resources", RESOURCE)
        await until(lambda: heard["ResourcesListChanged"] == 1)


@pytest.mark.parametrize("first", ["nobody", "a call"])
async def test_a_change_of_a_listed_tool_is_heard_once_whoever_has_the_list_read_first(tmp_path, first):
    config = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, {"shop": shop()}, config) as w, w.client(MODERN) as client, heard_by(client) as heard:
        await started(w, client, heard)
        for count in (1, 2):
            await w["shop"].change(tool("sell"), tool(f"wrap-{count}"))
            if first == "a call":
                await client.tool_call("shop__sell")
            await until(lambda count=count: heard["ToolsListChanged"] >= count)
            assert f"shop__wrap-{count}" in await client.names()
            await time_passes(DEADLINE_S)
            assert heard == {"ToolsListChanged": count}


@pytest.mark.parametrize(
    "hiding",
    [
        {"policy": {"deny": ["shop.keep"]}},
        {"servers": {"shop": {"default_loading_mode": "skill"}}, "policy": {}},
    ],
)
async def test_an_announcement_that_a_hidden_tool_may_explain_is_not_heard(tmp_path, hiding):
    config = {**hiding, "tool_search": {"always_loaded_patterns": ["shop.sell", "shop.wrap"]}}
    async with world(tmp_path, {"shop": shop()}, config) as w, w.client(MODERN) as client, heard_by(client) as heard:
        await started(w, client, heard)
        await w["shop"].change(tool("sell"), tool("keep"))
        await until(lambda: w["shop"].methods().count("tools/list") == 2)
        # Read after the tools, and heard of after them.
        await w["shop"].change_offers("prompts", {"name": "later"})
        await until(lambda: heard["PromptsListChanged"] > 0)
        assert heard == {"PromptsListChanged": 1}
        await w["shop"].change(tool("sell"), tool("keep"), tool("wrap"))
        await until(lambda: heard["ToolsListChanged"] == 1)
        assert "shop__wrap" in await client.names()


async def test_lists_that_are_not_shown_are_not_heard_of(tmp_path):
    config = {"gate": {"expose": {"prompts": "searchable"}}}
    async with world(tmp_path, {"shop": shop()}, config) as w, w.client(MODERN) as client, heard_by(client) as heard:
        await client.tool_call("shop__sell")
        await until(lambda: {"prompts/list", "resources/list"} <= set(w["shop"].methods()))
        await w["shop"].change_offers("prompts", {"name": "other"})
        await until(lambda: w["shop"].methods().count("prompts/list") > 1)
        await w["shop"].change_offers("resources", {"uri": "memo://two", "name": "two"})
        await until(lambda: heard["ResourcesListChanged"] > 0)
        assert heard["PromptsListChanged"] == 0


async def test_over_http_it_is_heard_by_whoever_uses_the_connection(tmp_path):
    """A client that can be asked has a connection of its own to a server with a handshake."""
    servers = {"shop": MemoryServer([tool("sell")], eras=["legacy"])}
    tokens = {"http": {"tokens": [{"token": f"token-{who}", "subject": who} for who in ("ann", "bob")]}}
    async with (
        online(tmp_path, servers, {**tokens, "servers": {"shop": {"isolation": "principal"}}}) as it,
        it.client(MODERN, "token-ann", elicitation_callback=decline) as ann,
        it.client(MODERN, "token-bob", elicitation_callback=decline) as bob,
        heard_by(ann) as heard,
        heard_by(bob) as elsewhere,
    ):
        await ann.tool_call("shop__sell")
        [talk] = it.world["shop"]._talks
        await bob.tool_call("shop__sell")
        await talk.announce()
        await until(lambda: heard == {"ToolsListChanged": 1})
        [other] = {*it.world["shop"]._talks} - {talk}
        await other.announce()
        await until(lambda: elsewhere == {"ToolsListChanged": 1})
        assert heard == {"ToolsListChanged": 1}


async def decline(_context: Any, _params: Any) -> types.ElicitResult:
    """Answer a form."""
    return types.ElicitResult(action="decline")
