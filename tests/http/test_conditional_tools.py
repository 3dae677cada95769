"""Tools that a server over HTTP lists only to clients which it can ask: known to all, called for who can be asked."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp_types as types
import pytest

from fakes.menu import tool
from online import MODERN, online
from toolcrib.base.model import JsonObject
from worlds import ERAS, Call, MemoryServer, connector, text, time_passes, until

pytestmark = pytest.mark.anyio

WEB = {"type": "http", "url": "http://example.invalid/mcp"}
FORM = {"message": "Which one?", "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}}}


async def elicit(_context: Any, _params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"which": "the red one"})


async def roots(_context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


def zoo(entry: JsonObject = WEB) -> MemoryServer:
    async def order(call: Call) -> JsonObject:
        return text(str(await call.ask("elicitation/create", FORM)))

    return MemoryServer(
        [tool("feed")],
        eras=("legacy",),
        entry=entry,
        answers={"order": order},
        only_for={"elicitation": [tool("order")], "roots": [tool("folders")]},
    )


def said(result: types.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def lists(server: MemoryServer) -> int:
    return server.methods().count("tools/list")


async def all_is_read() -> None:
    """Wait until what has been announced is read, and what that leads to: each after a pause."""
    for _ in range(3):
        await time_passes(2)


@pytest.mark.parametrize("era", ERAS)
async def test_such_a_tool_is_found_and_asks_before_anybody_has_used_its_server(tmp_path, era):
    async with online(tmp_path, {"zoo": zoo()}) as it, it.client(era, elicitation_callback=elicit) as client:
        assert "zoo__order" in await client.found("order")
        assert "the red one" in said(await client.call_tool("zoo__order", {}))


@pytest.mark.parametrize("era", ERAS)
async def test_who_cannot_be_asked_is_told_why_it_does_not_run_and_the_server_is_not_listed_for_that(tmp_path, era):
    server = zoo()
    async with online(tmp_path, {"zoo": server}) as it, it.client(era) as client:
        await client.call_tool("zoo__feed", {})
        before = lists(server)
        for name, arguments in (("zoo__order", {}), ("tool_call", {"name": "zoo__order"})):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert "offers zoo__order only to clients that it can ask for more than yours here" in said(result)
            assert "Nothing ran." in said(result)
        assert lists(server) == before
        assert server.calls("order") == []


async def test_that_is_said_too_where_the_list_is_from_before_toolcrib_was_started(tmp_path):
    server = zoo()
    async with online(tmp_path, {"zoo": server}):
        pass
    async with online(tmp_path, {"zoo": server}) as it:
        async with it.client("legacy", list_roots_callback=roots) as client:
            result = await client.call_tool("zoo__order", {})
            assert "offers zoo__order only to clients" in said(result)
        async with it.client("legacy", elicitation_callback=elicit) as client:
            assert "the red one" in said(await client.call_tool("zoo__order", {}))


async def test_roots_are_one_client_s_so_such_a_tool_is_offered_where_sessions_have_connections_of_their_own(tmp_path):
    for isolation in ("shared", "session"):
        server, folder = zoo(), tmp_path / isolation
        folder.mkdir()
        section = {"servers": {"zoo": {"isolation": isolation}}}
        async with online(folder, {"zoo": server}, section) as it:
            async with it.client("legacy", list_roots_callback=roots) as client:
                assert ("zoo__folders" in await client.found("folders")) == (isolation == "session")
                if isolation == "session":
                    assert not (await client.call_tool("zoo__folders", {})).is_error
            async with it.client("legacy", elicitation_callback=elicit) as client:
                assert "the red one" in said(await client.call_tool("zoo__order", {}))


async def test_clients_of_several_capabilities_that_take_turns_do_not_have_it_listed_on_and_on(tmp_path):
    server = zoo()
    server.only_for["sampling"] = [tool("slogan")]

    async def turn(**options: Any) -> None:
        async with it.client("legacy", **options) as client:
            await client.call_tool("zoo__feed", {})

    async with online(tmp_path, {"zoo": server}) as it:
        for options in ({}, {"elicitation_callback": elicit}):
            await turn(**options)
        await server.change(tool("feed"), tool("wash"))
        await until(lambda: "wash" in it.world.gateway.fleet["zoo"].live)
        await all_is_read()
        before = lists(server)
        for options in 2 * ({}, {"elicitation_callback": elicit}):
            await turn(**options)
        await all_is_read()
        assert lists(server) == before
        async with it.client("legacy", elicitation_callback=elicit) as client:
            assert {"zoo__wash", "zoo__order"} <= {*await client.found("wash order")}


async def test_a_list_that_still_differs_afterwards_does_not_have_the_server_listed_at_each_reading(tmp_path):
    server = zoo({"command": "in-memory"})  # whose tool for those who can be asked is indexed by nobody
    async with online(tmp_path, {"zoo": server}) as it, it.client("legacy", elicitation_callback=elicit) as client:
        await client.call_tool("zoo__feed", {})
        await until(lambda: lists(server) == 3)  # for all, on the connection of this client, and for all again
        await until(lambda: len(server._talks) == 1)
        [talk] = server._talks
        for number in (4, 5, 6):
            await talk.announce()
            await until(lambda number=number: lists(server) == number)
            await all_is_read()
            assert lists(server) == number
        assert server.starts == 3


def refusing_second(server: MemoryServer, is_refusing: Callable[[], bool]) -> Any:
    """Return a connector to a server that at times takes one client at a time."""
    reach = connector({"zoo": server})

    def connect(*about: Any) -> AbstractAsyncContextManager[Any]:
        if is_refusing() and server._talks:
            raise OSError("one client at a time")
        return reach(*about)

    return connect


async def test_a_server_that_takes_no_second_connection_is_listed_without_them(tmp_path):
    server = zoo()
    async with (
        online(tmp_path, {"zoo": server}, connector=refusing_second(server, lambda: True)) as it,
        it.client("legacy") as client,
    ):
        assert await client.found("feed order") == ["zoo__feed"]


async def test_tools_once_known_stay_when_the_second_connection_fails_for_a_moment(tmp_path):
    server, refusing = zoo(), list[int]()
    async with (
        online(tmp_path, {"zoo": server}, connector=refusing_second(server, lambda: bool(refusing))) as it,
        it.client("legacy") as client,
    ):
        assert "zoo__order" in await client.found("order")
        refusing.append(1)
        assert await it.world.gateway.fleet._list_again("zoo")
        assert "zoo__order" in await client.found("order")
        server.tools.append(tool("wash"))
        assert await it.world.gateway.fleet._list_again("zoo")
        assert await client.found("wash order") == ["zoo__wash"]


async def test_a_call_that_starts_the_server_again_does_not_wait_for_a_second_look(tmp_path):
    server = zoo()
    async with online(tmp_path, {"zoo": server}) as it, it.client("legacy") as client:
        before = server.starts
        await client.call_tool("zoo__feed", {})
        assert server.starts == before + 1
        await server.hang_up()
        await client.call_tool("zoo__feed", {})
        assert server.starts == before + 2
        assert "zoo__order" in await client.found("order")


async def test_a_process_is_not_started_for_a_second_look(tmp_path):
    server = zoo({"command": "in-memory"})
    async with online(tmp_path, {"zoo": server}) as it, it.client("legacy") as client:
        assert server.starts == 1
        assert await client.found("order") == []


async def test_in_the_newer_era_there_is_one_list(tmp_path):
    server = zoo()
    server.eras = ("legacy", "modern")
    async with online(tmp_path, {"zoo": server}) as it, it.client(MODERN) as client:
        assert await client.found("feed") == ["zoo__feed"]
        assert server.starts == 1
