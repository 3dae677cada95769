"""Which list a host gets by its name, in either era; and how one connection finds its era (contract, the gate)."""

import json
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from fakes.menu import tool
from online import online
from worlds import BUILTINS, ERAS, Client, JsonObject, World, world

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
SERVERS = {"db": [tool("get"), tool("put")]}
CONSTANT = [
    "codex-mcp-client",
    "gemini-cli-mcp-client",
    "opencode",
    "copilot-cli",
    "qwen-cli-mcp-client-x",
    "@cline/core",
]
GROWING = ["claude-code", "somebody", ""]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "late", "version": "1"}}


async def raw(client: Client, method: str, params: JsonObject) -> JsonObject:
    """Send a request just so, whatever the era of the client is."""
    return await client.session._dispatcher.send_raw_request(method, params, {})


async def refused(client: Client, method: str, params: JsonObject | None = None, *, as_it_is: bool = False) -> Any:
    with pytest.raises(MCPError) as caught:
        await (raw(client, method, params or {}) if as_it_is else client.ask(method, params))
    return caught.value.error


# -- by the host ---------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("host", CONSTANT)
async def test_a_host_that_gains_nothing_by_a_grown_list_gets_a_constant_one_in_its_own_era(tmp_path, host, era):
    async with world(tmp_path, SERVERS) as w, w.client(era, name=host) as client:
        before = await client.tools()
        assert [entry["name"] for entry in before] == BUILTINS
        await client.call("db__get")
        await client.tool_call("db.put")
        assert await client.tools() == before
        assert client.list_changes == 0


@pytest.mark.parametrize(("host", "era"), [("claude-code", "auto"), ("somebody", "legacy"), ("", "legacy")])
async def test_claude_code_and_whoever_is_unknown_and_has_a_session_get_a_list_that_grows(tmp_path, host, era):
    async with world(tmp_path, SERVERS) as w, w.client(era, name=host) as client:
        assert client.protocol_version == "2025-11-25"
        await client.call("db__get")
        assert client.list_changes == 1
        assert await client.names() == [*BUILTINS, "db__get"]


@pytest.mark.parametrize("host", GROWING)
async def test_without_a_session_they_are_served_too(tmp_path, host):
    async with world(tmp_path, SERVERS) as w, w.client(MODERN, name=host) as client:
        named = (await client.ask("server/discover"))["supportedVersions"]
        assert named == (list(HANDSHAKE_PROTOCOL_VERSIONS) if host == "claude-code" else [MODERN])
        await client.tool_call("db.put")
        await client.call("db__get")
        assert await client.names() == BUILTINS


@pytest.mark.sampled
@pytest.mark.parametrize("host", [*CONSTANT, "claude-code"])
async def test_a_dynamic_list_that_is_written_by_hand_grows_in_every_host(tmp_path, host):
    async with world(tmp_path, SERVERS, listing="dynamic") as w:
        async with w.client("auto", name=host) as client:
            assert client.protocol_version == "2025-11-25"
            await client.call("db__get")
            assert await client.names() == [*BUILTINS, "db__get"]
        async with w.client(MODERN, name=host) as client:
            await client.call("db__get")
            assert await client.names() == BUILTINS


async def test_the_config_says_which_list_a_client_gets_by_its_name(tmp_path):
    long = "a-client-with-a-name-that-no-label-shows-whole"
    by_name = {
        "mine-*": {"listing": "stable"},
        long: {"listing": "stable"},
        "opencode": {"listing": "dynamic"},
        "claude-code": {"listing": "auto"},
    }
    async with world(tmp_path, SERVERS, {"results": {"hosts": by_name}}) as w:
        for host, era, grows in (
            ("mine-1", MODERN, 0),
            (long, MODERN, 0),
            ("opencode", "auto", 1),
            ("claude-code", "legacy", 1),
        ):
            async with w.client(era, name=host) as client:
                await client.call("db__get")
                assert len(await client.names()) == len(BUILTINS) + grows
        async with w.client("auto", name="claude-code") as client:
            assert client.protocol_version == MODERN


@pytest.mark.sampled
@pytest.mark.parametrize("token", ["", "token-ann"])
@pytest.mark.parametrize(
    ("host", "chosen", "grows"),
    [("copilot-cli", MODERN, False), ("claude-code", "2025-11-25", True), ("somebody", MODERN, True)],
)
async def test_over_http_it_is_the_same_with_tokens_and_without(tmp_path, host, chosen, grows, token):
    info = types.Implementation(name=host, version="1")
    section = {"http": {"tokens": [{"token": token, "subject": "ann"}]}} if token else {}
    async with online(tmp_path, {"zoo": [tool("feed")]}, section) as it:
        for era, spoken in (("auto", chosen), ("legacy", "2025-11-25"), (MODERN, MODERN)):
            async with it.client(era, token or None, client_info=info) as client:
                assert client.protocol_version == spoken
                await client.call("zoo__feed")
                is_grown = grows and spoken != MODERN
                assert await client.names() == [*BUILTINS, *(["zoo__feed"] if is_grown else [])]


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_can_read_how_it_is_served_and_why(tmp_path, era):
    async with world(tmp_path, SERVERS) as w, w.client(era, name="copilot-cli") as client:
        [found] = (await client.ask("resources/read", {"uri": "toolcrib://status"}))["contents"]
    status = json.loads(found["text"])
    assert (status["client"], status["listing"], status["structured"]) == ("copilot-cli", "stable", False)
    assert "changes the head of its model's prompt" in status["listing_reason"]
    assert "text and structured content, both" in status["structured_reason"]


# -- one connection, one era ---------------------------------------------------------------------


@pytest.fixture(params=["stable", "auto"])
async def both(request: pytest.FixtureRequest, tmp_path):
    """A toolcrib that serves both eras."""
    async with world(tmp_path, SERVERS, listing=request.param) as w:
        yield w


async def test_a_client_that_gives_up_its_probe_may_still_shake_hands(both: World):
    async with both.client(MODERN) as client:
        assert MODERN in (await client.ask("server/discover"))["supportedVersions"]
        assert (await raw(client, "initialize", HELLO))["protocolVersion"] == "2025-11-25"
        assert len((await raw(client, "tools/list", {}))["tools"]) == len(BUILTINS)
        assert (await refused(client, "tools/list")).code == types.INVALID_REQUEST


async def test_so_may_one_that_has_not_waited_for_the_answer_to_its_probe(both: World):
    async with both.client(MODERN) as client, anyio.create_task_group() as tasks:

        async def probe() -> None:
            with suppress(MCPError):  # whatever comes of it, nobody waits for that any more
                await client.ask("server/discover")

        tasks.start_soon(probe)
        tasks.start_soon(probe)
        await anyio.lowlevel.checkpoint()
        assert (await raw(client, "initialize", HELLO))["protocolVersion"] == "2025-11-25"
        assert len((await raw(client, "tools/list", {}))["tools"]) == len(BUILTINS)


@pytest.mark.sampled
@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
async def test_after_a_request_without_a_session_there_is_no_handshake(both: World, method):
    async with both.client(MODERN) as client:
        with suppress(MCPError):  # an answer that is an error settles the era too
            await client.ask(method, {"name": "db__none"})
        error = await refused(client, "initialize", HELLO, as_it_is=True)
        assert (error.code, error.data["supported"]) == (-32022, [MODERN])
        assert (await refused(client, "tools/list", {}, as_it_is=True)).code == types.INVALID_PARAMS
        assert len(await client.tools()) == len(BUILTINS)


@pytest.mark.sampled
@pytest.mark.parametrize("host", GROWING)
async def test_a_probe_settles_nothing_whatever_is_answered(tmp_path, host):
    async with world(tmp_path, SERVERS) as w, w.client(MODERN, name=host) as client:
        await client.ask("server/discover")
        assert (await raw(client, "initialize", HELLO))["protocolVersion"] == "2025-11-25"
        await raw(client, "tools/call", {"name": "db__get"})
        assert len((await raw(client, "tools/list", {}))["tools"]) == len(BUILTINS) + 1
        assert "supportedVersions" in await client.ask("server/discover")


async def test_an_envelope_that_is_not_whole_is_refused_for_what_it_lacks(both: World):
    async with both.client(MODERN) as client:
        half = {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}}
        assert (await refused(client, "tools/list", half, as_it_is=True)).code == types.INVALID_PARAMS
