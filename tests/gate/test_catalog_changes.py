"""A change of a server's tools is told to exactly the sessions whose list it changes, in both eras."""

import pytest

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import BUILTINS, ERAS, MemoryServer, until, world

pytestmark = pytest.mark.anyio

TOOLS = [tool("read"), tool("write")]
ALWAYS = {"tool_search": {"default_loading_mode": "always"}}
BY_TENANT = {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["secret"]}]}}


async def test_a_session_is_told_of_changes_to_what_it_has_activated_and_of_no_others(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as reader, w.client() as writer, w.client() as idle:
        await reader.call("db__read")
        await writer.call("db__write")
        await w.change("db", tool("read", "Reads better."), tool("write"), tool("new"))
        assert [client.list_changes for client in (reader, writer, idle)] == [2, 1, 0]
        assert (await reader.tools())[-1]["description"] == "Reads better."


async def test_a_new_tool_that_is_always_listed_is_told_to_every_session(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, ALWAYS) as w, w.client() as one, w.client() as two:
        await one.names()
        await two.names()
        await w.change("db", *TOOLS, tool("new"))
        assert [client.list_changes for client in (one, two)] == [1, 1]
        assert "db__new" in await one.names()


async def test_a_list_that_is_announced_but_the_same_is_told_to_nobody(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, ALWAYS) as w, w.client() as client:
        await client.names()
        await w.change("db", *reversed(TOOLS))
        assert client.list_changes == 0


@pytest.mark.parametrize("listing", ["stable", "auto"])
async def test_a_listening_client_of_the_newer_era_is_told(tmp_path, listing):
    config = {"tool_search": {"always_loaded_patterns": ["db.always*"]}}
    tools = [tool("always"), tool("later")]
    async with world(tmp_path, {"db": tools}, config, listing=listing) as w, w.client("2026-07-28") as client:
        async with client.listen(tools_list_changed=True) as changes:
            await w.change("db", tool("always"), tool("later", "Deferred: not listed, and may be called."))
            await anext(changes)
            assert client.list_changes == 1
            await w.change("db", tool("always", "Changed."), tool("later"))
            await anext(changes)
            assert client.list_changes == 2
            assert (await client.tools())[-1]["description"] == "Changed."


async def test_a_client_of_the_newer_era_that_does_not_listen_is_told_nothing(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, ALWAYS, listing="auto") as w, w.client("2026-07-28") as client:
        await client.names()
        await w.change("db", tool("new"))
        assert client.list_changes == 0


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_is_told_of_a_change_that_they_may_not_see(tmp_path, era):
    config = {**ALWAYS, **BY_TENANT}
    async with world(tmp_path, {"db": [tool("secret")]}, config, listing="auto") as w:
        red, blue = Caller("r", tenant_id="red"), Caller("b", tenant_id="blue")
        async with w.client(era, caller=red) as denied, w.client(era, caller=blue) as allowed:
            async with denied.listening(), allowed.listening():
                assert ("db__secret" in await denied.names(), "db__secret" in await allowed.names()) == (False, True)
                await w.change("db", tool("secret", "Changed."))
                assert (denied.list_changes, allowed.list_changes) == (0, 1)


async def test_a_listening_client_hears_when_tools_are_few_enough_to_be_passed_through_and_when_not(tmp_path):
    config = {"gate": {"pass_through_below": 3}}
    async with world(tmp_path, {"db": TOOLS}, config, listing="auto") as w, w.client("2026-07-28") as client:
        assert await client.names() == [*BUILTINS, "db__read", "db__write"]
        async with client.listen(tools_list_changed=True) as changes:
            for listed in (tool("read"),), (tool("a"), tool("b"), tool("c")):
                before = await client.names()
                await w.change("db", *listed)
                await anext(changes)
                assert await client.names() != before


async def test_a_changed_list_is_searched_at_once(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        await w.change("db", tool("teleport", "Moves things elsewhere."))
        assert await client.found("teleport things") == ["db__teleport"]
        assert await client.found("read") == []


async def test_a_sleeping_servers_change_is_told_when_the_server_is_started_by_a_call(tmp_path):
    server = MemoryServer(TOOLS)
    async with world(tmp_path, {"db": server}, ALWAYS) as w, w.client() as client:
        await client.names()
        server.tools.append(tool("new"))
        await client.call("db__read")
        await until(lambda: client.list_changes == 1)
        assert "db__new" in await client.names()
