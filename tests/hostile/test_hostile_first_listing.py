"""While servers are listed for the first time, no wait and no start tells of one that the caller may not use."""

from typing import Any

import anyio
import pytest

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import MemoryServer, until, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

RED = Caller("r", tenant_id="red")
HIDDEN = {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["vault__*"]}]}}
CLOSED = {"policy": {"deny": ["vault.*"]}}
WAITS = {"limits": {"first_index_wait_s": 600}}
NAMES = ("vault__open", "vault.open", "nobody__open", "nobody.open")


def hanging() -> MemoryServer:
    return MemoryServer([tool("open")], hangs_at="tools/list")


@pytest.mark.parametrize("policy", [HIDDEN, CLOSED], ids=["hidden from this caller", "closed to everyone"])
async def test_a_name_of_a_hidden_server_is_waited_for_as_long_as_one_of_none(tmp_path, policy):
    """An answer that comes at once, where an unknown name waits for what is being listed, is as good as a list."""
    servers = {"vault": hanging(), "zoo": hanging()}
    answered: list[str] = []
    async with world(tmp_path, servers, {**policy, **WAITS}, wait=False) as w, w.client(caller=RED) as client:

        async def call(name: str) -> None:
            await client.tool_call(name, {})
            answered.append(name)

        async with anyio.create_task_group() as tasks:
            for name in NAMES:
                tasks.start_soon(call, name)
            await until(lambda: w["zoo"].methods().count("tools/list") == 1)
            with anyio.move_on_after(0.5):
                await until(lambda: bool(answered))
            assert answered == []
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("policy", [HIDDEN, CLOSED], ids=["hidden from this caller", "closed to everyone"])
async def test_nobody_waits_for_a_server_of_which_they_could_be_permitted_nothing(tmp_path, policy):
    servers = {"vault": hanging(), "zoo": MemoryServer([tool("feed")])}
    always = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, servers, {**policy, **WAITS, **always}, wait=False) as w, w.client(caller=RED) as client:
        assert "zoo__feed" in await client.names()
        assert await client.found("open") == []
        for name in NAMES:
            assert (await client.tool_call(name, {}))["isError"]
        for server in ("vault", "nobody"):
            assert await client.found("open", server=server) == []


async def test_a_server_that_is_closed_to_everyone_is_never_started(tmp_path):
    eager: dict[str, Any] = {"servers": {"vault": {"start": "eager"}}}
    servers = {"vault": MemoryServer([tool("open")]), "zoo": MemoryServer([tool("feed")])}
    async with world(tmp_path, servers, {**CLOSED, **eager}, wait=False) as w, w.client(caller=RED) as client:
        await until(lambda: w["zoo"].methods().count("tools/list") == 1)
        for name in NAMES:
            await client.tool_call(name, {})
        await client.search("open the vault", server="vault")
        await w.gateway.fleet.list_all()
        assert w["vault"].starts == 0
    async with world(tmp_path, servers, {"policy": {}}) as w:
        assert w["vault"].starts == 1


async def test_a_server_that_is_closed_by_a_reload_is_not_started_again(tmp_path):
    servers = {"vault": MemoryServer([tool("open")]), "zoo": MemoryServer([tool("feed")])}
    async with world(tmp_path, servers) as w:
        assert w["vault"].starts == 1
    async with world(tmp_path, servers, CLOSED) as w:
        assert w["vault"].starts == 1
        assert [known.server for known in w.gateway.tools.indexer.current().tools] == ["zoo"]
