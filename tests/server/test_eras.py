"""Two protocol eras: who is served in which listing mode, and what each era's answers carry besides the tools."""

import json

import mcp
import mcp_types as types
import pytest
from mcp import MCPError
from mcp_types import TextContent
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from fakes.menu import tool
from toolcrib import __version__
from worlds import BUILTINS, ERAS, text, world

pytestmark = pytest.mark.anyio

SERVERS = {"db": [tool("get")]}
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{META}protocolVersion": MODERN,
    f"{META}clientInfo": {"name": "t", "version": "1"},
    f"{META}clientCapabilities": {},
}


async def test_a_client_that_speaks_both_eras_is_told_of_the_one_in_which_its_list_grows(tmp_path):
    async with world(tmp_path, SERVERS, listing="dynamic") as w, w.client("auto") as client:
        assert client.protocol_version == "2025-11-25"
        await client.call("db__get")
        assert await client.names() == [*BUILTINS, "db__get"]


async def test_a_client_that_speaks_the_newer_era_alone_is_served_where_lists_grow_too(tmp_path):
    async with world(tmp_path, SERVERS, listing="dynamic") as w, w.client(MODERN) as client:
        discovered = await client.ask("server/discover")
        assert discovered["supportedVersions"] == list(HANDSHAKE_PROTOCOL_VERSIONS)
        assert "tool_search" in discovered["instructions"]
        assert (await client.call("db__get"))["content"][0]["text"] == "ran get {}"
        assert (await client.tool_call("db.get"))["content"][0]["text"] == "ran get {}"
        assert await client.names() == BUILTINS
        assert client.list_changes == 0
        [status] = (await client.ask("resources/read", {"uri": "toolcrib://status"}))["contents"]
        assert json.loads(status["text"])["list_grows"] is False
        assert len(w["db"].calls()) == 2


@pytest.mark.parametrize("era", ["auto", MODERN])
async def test_an_unknown_client_is_told_of_both_eras_and_served_in_the_one_that_it_chooses(tmp_path, era):
    async with world(tmp_path, SERVERS) as w, w.client(era) as client:
        assert client.protocol_version == MODERN
        assert (await client.ask("server/discover"))["supportedVersions"] == [MODERN]
        await client.call("db__get")
        assert await client.names() == BUILTINS


@pytest.mark.parametrize("listing", ["dynamic", "stable", "auto"])
async def test_a_connection_that_has_shaken_hands_refuses_an_envelope_and_still_answers_a_probe(tmp_path, listing):
    async with world(tmp_path, SERVERS, listing=listing) as w, w.client("legacy") as client:
        with pytest.raises(MCPError) as caught:
            await client.ask("tools/list", {"_meta": ENVELOPE})
        assert caught.value.code == types.INVALID_REQUEST
        assert "supportedVersions" in await client.ask("server/discover", {"_meta": ENVELOPE})
        assert await client.names() == BUILTINS


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("listing", "mode", "version"),
    [
        ("dynamic", "legacy", "2025-11-25"),
        ("dynamic", MODERN, MODERN),
        ("stable", "auto", MODERN),
        ("auto", "auto", MODERN),
    ],
)
async def test_the_sdks_own_client_is_served_in_process_too(tmp_path, listing, mode, version):
    async with (
        world(tmp_path, SERVERS, listing=listing) as w,
        mcp.Client(w.handler.server, mode=mode, cache=None) as client,
    ):
        assert client.protocol_version == version
        found = await client.call_tool("tool_search", {"query": "get"})
        assert found.structured_content["tools"][0]["name"] == "db__get"
        assert (await client.call_tool("db__get")).content == [TextContent(text="ran get {}")]
        assert len((await client.list_tools()).tools) == len(BUILTINS) + (version != MODERN)


@pytest.mark.sampled
@pytest.mark.parametrize("listing", ["stable", "auto"])
@pytest.mark.parametrize(("era", "version"), [("legacy", "2025-11-25"), ("auto", MODERN), (MODERN, MODERN)])
async def test_both_eras_are_served_otherwise(tmp_path, listing, era, version):
    async with world(tmp_path, SERVERS, listing=listing) as w, w.client(era) as client:
        assert client.protocol_version == version
        assert await client.names() == BUILTINS
        assert (await client.call_tool("db__get")).content == [TextContent(text="ran get {}")]


async def test_answers_of_the_newer_era_say_that_they_are_complete_private_and_whose_they_are(tmp_path):
    async with world(tmp_path, SERVERS, listing="auto") as w, w.client(MODERN) as client:
        for result in (await client.ask("tools/list"), await client.call("db__get"), await client.call("tool_search")):
            assert result["resultType"] == "complete"
            assert result["_meta"][f"{META}serverInfo"]["name"] == "toolcrib"
            assert result["_meta"][f"{META}serverInfo"]["version"] == __version__
        listed = await client.ask("tools/list")
        assert (listed["ttlMs"], listed["cacheScope"]) == (10_000, "private")


async def test_answers_of_the_older_era_carry_nothing_of_the_newer_one(tmp_path):
    server = {"db": [tool("get", outputSchema={"type": "object"})]}
    async with world(tmp_path, server, listing="auto") as w, w.client("legacy") as client:
        w["db"].answers["get"] = text("x", structuredContent={}, ttlMs=5, cacheScope="public", resultType="complete")
        for result in (await client.ask("tools/list"), await client.call("db__get"), await client.call("tool_search")):
            assert not {"resultType", "ttlMs", "cacheScope", "requestState", "_meta"} & result.keys()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_learns_who_serves_and_how_tools_are_found(tmp_path, mode):
    async with world(tmp_path, SERVERS, listing="auto") as w, w.client(mode) as client:
        assert (client.server_info.name, client.server_info.version) == ("toolcrib", __version__)
        assert client.server_capabilities.tools.list_changed is True
        assert "tool_search" in (client.instructions or "")
        assert "tool_call" in (client.instructions or "")


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_method_is_not_found(tmp_path, era):
    async with world(tmp_path, SERVERS, listing="auto") as w, w.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.ask("tools/run")
        assert caught.value.code == types.METHOD_NOT_FOUND


@pytest.mark.parametrize("listing", ["dynamic", "auto"])
async def test_nothing_is_served_before_the_handshake(tmp_path, listing):
    async with world(tmp_path, SERVERS, listing=listing) as w, w.client(MODERN) as client:
        client.session._stamp = lambda data, options: None  # a request of the older era, and no handshake
        for method in ("tools/list", "tools/call"):
            with pytest.raises(MCPError):
                await client.ask(method, {"name": "db__get"})
        assert w["db"].calls() == []


async def test_many_clients_are_served_at_once_each_by_its_own_era(tmp_path):
    async with world(tmp_path, SERVERS, listing="auto") as w:
        async with w.client("legacy") as a, w.client(MODERN) as b, w.client("auto") as c, w.client("legacy") as d:
            await a.call("db__get")
            lists = [(await client.names())[len(BUILTINS) :] for client in (a, b, c, d)]
    assert lists == [["db__get"], [], [], []]
