"""Both protocol eras over HTTP: which listing mode serves which, what each is shown, and headers that must agree."""

import json
from collections import Counter

import anyio
import httpx2
import pytest
from mcp_types import TextContent

from fakes.menu import tool
from online import ENVELOPE, META, MODERN, modern_headers, online, request
from worlds import BUILTINS, ERAS, until

pytestmark = pytest.mark.anyio

HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
GATE_LISTED = {"tool_search": {"always_loaded_patterns": ["zoo.gate"]}}


def names(answer: httpx2.Response) -> list[str]:
    return [tool["name"] for tool in answer.json()["result"]["tools"]]


# -- dynamic: clients that speak both eras choose the one with sessions ----------------------------


async def test_a_dynamic_list_grows_for_clients_that_try_both_eras(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="dynamic") as it, it.client("auto") as client:
        assert client.session.protocol_version == "2025-11-25"
        await client.call("zoo__feed")
        assert await client.names() == [*BUILTINS, "zoo__feed"]


async def test_a_client_that_knows_the_newer_era_only_gets_a_constant_list(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="dynamic") as it:
        discovered = (await it.modern("server/discover")).json()["result"]
        assert discovered["supportedVersions"] == HANDSHAKE
        before = (await it.modern("tools/list")).json()["result"]
        called = await it.modern("tools/call", {"name": "zoo__feed", "arguments": {}})
        assert called.json()["result"]["content"][0]["text"] == "ran feed {}"
        assert (await it.modern("tools/list")).json()["result"] == before
        assert [each["name"] for each in before["tools"]] == BUILTINS


async def test_by_default_a_client_that_is_unknown_is_served_in_the_era_that_it_speaks(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}) as it:
        for era, spoken, listed in (
            ("legacy", "2025-11-25", [*BUILTINS, "zoo__feed"]),
            ("auto", MODERN, BUILTINS),
            (MODERN, MODERN, BUILTINS),
        ):
            async with it.client(era) as client:
                assert client.session.protocol_version == spoken
                await client.call("zoo__feed")
                assert await client.names() == listed


# -- stable and auto: both eras from one app -----------------------------------------------------


@pytest.mark.parametrize(("listing", "grows"), [("stable", False), ("auto", True)])
async def test_both_eras_are_served_at_once_each_by_its_own_rules(tmp_path, listing, grows):
    async with (
        online(tmp_path, {"zoo": [tool("feed"), tool("gate")]}, GATE_LISTED, listing=listing) as it,
        it.client("legacy") as old,
        it.client(MODERN) as new,
    ):
        listed = [*BUILTINS, "zoo__gate"]
        assert await old.names() == await new.names() == listed
        for client in (old, new):
            assert (await client.call("zoo__feed"))["content"][0]["text"] == "ran feed {}"
            assert (await client.tool_call("zoo__feed"))["content"][0]["text"] == "ran feed {}"
        assert await old.names() == ([*BUILTINS, "zoo__feed", "zoo__gate"] if grows else listed)
        assert await new.names() == listed
        assert await new.found("feed") == await old.found("feed") == ["zoo__feed"]


async def test_the_sessionless_list_is_the_same_to_the_byte_after_any_activation(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed"), tool("gate")]}, GATE_LISTED, listing="auto") as it:
        before = (await it.modern("tools/list")).json()["result"]
        assert (await it.modern("tools/call", {"name": "zoo__feed", "arguments": {}})).status_code == 200
        await (await it.session()).call("zoo__feed")
        assert (await it.modern("tools/list")).json()["result"] == before
        assert (before["cacheScope"], before["resultType"]) == ("private", "complete")


async def test_a_stable_list_announces_no_activation(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="stable") as it:
        session = await it.session()
        assert [frame.get("method") for frame in await session.call("zoo__feed")] == [None]


async def test_without_servers_both_eras_are_served(tmp_path):
    async with online(tmp_path) as it, it.client("auto") as client:
        assert client.session.protocol_version == MODERN


@pytest.mark.parametrize("era", ERAS)
async def test_the_last_progress_arrives_though_the_result_follows_at_once(tmp_path, era):
    async def feed(call):
        for step in (1, 2, 3):
            await call.report(step, 3)
        return {"content": []}

    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="auto") as it, it.client(era) as client:
        it.world["zoo"].answers["feed"] = feed
        for _ in range(10):
            seen: list[float] = []

            async def note(progress, _total, _message, seen=seen):
                seen.append(progress)

            await client.ask("tools/call", {"name": "zoo__feed", "arguments": {}}, on_progress=note)
            assert seen == [1, 2, 3]


# -- subscriptions (2026-07-28) ------------------------------------------------------------------

TWO_TENANTS = {
    "http": {
        "tokens": [
            {"token": "token-ann", "subject": "ann", "tenant_id": "a"},
            {"token": "token-bob", "subject": "bob", "tenant_id": "b"},
        ]
    },
    "policy": {
        "visibility": [
            {"when": {"tenant_id": "a"}, "allow": ["zoo.*"]},
            {"when": {"tenant_id": "b"}, "allow": ["ark.*"]},
        ]
    },
    "tool_search": {"default_loading_mode": "always"},
}


async def test_a_subscription_hears_of_changes_that_its_caller_can_see_and_of_no_others(tmp_path):
    servers = {"zoo": [tool("feed")], "ark": [tool("sail")]}
    async with (
        online(tmp_path, servers, TWO_TENANTS) as it,
        it.client(MODERN, "token-ann") as ann,
        it.client(MODERN, "token-bob") as bob,
        ann.listen(tools_list_changed=True) as for_ann,
        bob.listen(tools_list_changed=True) as for_bob,
        anyio.create_task_group() as tasks,
    ):
        heard: Counter[str] = Counter()

        async def note(who, subscription):
            async for _event in subscription:
                heard[who] += 1

        tasks.start_soon(note, "ann", for_ann)
        tasks.start_soon(note, "bob", for_bob)
        await ann.call("zoo__feed")
        await bob.call("ark__sail")
        await it.world["zoo"].change(tool("feed"), tool("hide"))
        await until(lambda: heard == {"ann": 1})
        await it.world["ark"].change(tool("sail", "Sail on."))
        await until(lambda: heard == {"ann": 1, "bob": 1})
        assert await ann.names() == [*BUILTINS, "zoo__feed", "zoo__hide"]
        tasks.cancel_scope.cancel()


# -- arguments mirrored into headers (2026-07-28) ------------------------------------------------

MIRRORED = {"region": {"type": "string", "x-mcp-header": "Region"}, "note": {"type": "string"}}
MIRRORING = {"zoo": [tool("gate", params=MIRRORED), tool("feed", params=MIRRORED), tool("hide", params=MIRRORED)]}
ONE_OF_EACH = {**GATE_LISTED, "policy": {"deny": ["zoo.hide"]}}
"""``gate`` is listed, ``feed`` may be called though it is not listed, ``hide`` does not exist."""


def mirrored(name: str, region: str = "eu"):
    return {"name": name, "arguments": {"region": region}}


async def test_a_header_that_contradicts_its_argument_stops_the_call_of_a_listed_tool(tmp_path):
    async with online(tmp_path, MIRRORING, ONE_OF_EACH, listing="auto") as it:
        for headers in ({}, {"mcp-param-region": "us"}, {"mcp-param-region": "=?base64?%%?="}):
            answer = await it.modern("tools/call", mirrored("zoo__gate"), **headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)
        assert it.world["zoo"].calls() == []


async def test_a_listed_tool_runs_where_header_and_argument_agree(tmp_path):
    async with online(tmp_path, MIRRORING, ONE_OF_EACH, listing="auto") as it:
        answer = await it.modern("tools/call", mirrored("zoo__gate"), mcp_param_region="eu")
        assert answer.json()["result"]["content"][0]["text"] == 'ran gate {"region": "eu"}'
        async with it.client(MODERN) as client:
            await client.list_tools()
            result = await client.call_tool("zoo__gate", {"region": "ünïcode"})
            assert result.content == [TextContent(text=f"ran gate {json.dumps({'region': 'ünïcode'})}")]


async def test_headers_tell_nothing_of_tools_that_are_not_listed(tmp_path):
    async with online(tmp_path, MIRRORING, ONE_OF_EACH, listing="auto") as it:
        unlisted = await it.modern("tools/call", mirrored("zoo__feed"), mcp_param_region="us")
        assert unlisted.json()["result"]["content"][0]["text"] == 'ran feed {"region": "eu"}'
        told = []
        for name in ("zoo__hide", "zoo__none"):
            answer = await it.modern("tools/call", mirrored(name), mcp_param_region="us")
            told.append((answer.status_code, answer.text.replace(name, "NAME")))
        assert told[0] == told[1]
        assert "Unknown tool: NAME" in told[0][1]


async def test_headers_are_compared_with_what_the_caller_of_the_token_is_listed(tmp_path):
    servers = {"zoo": [tool("gate", params=MIRRORED)], "ark": [tool("sail", params=MIRRORED)]}
    async with online(tmp_path, servers, TWO_TENANTS) as it:
        told = {}
        for who in ("ann", "bob"):
            answer = await it.modern(
                "tools/call", mirrored("zoo__gate"), mcp_param_region="us", authorization=f"Bearer token-{who}"
            )
            told[who] = answer.json()["error"]["code"]
        assert told == {"ann": -32020, "bob": -32602}


async def test_the_routing_headers_must_name_what_the_body_asks_for(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed"), tool("hide")]}, listing="auto") as it:
        call = request("tools/call", {"_meta": ENVELOPE, "name": "zoo__feed", "arguments": {}})
        answer = await it.post(call, **modern_headers("tools/call", "zoo__hide"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)
        unknown = {**ENVELOPE, f"{META}protocolVersion": "2027-01-01"}
        answer = await it.post(
            request("tools/list", {"_meta": unknown}),
            **{**modern_headers("tools/list"), "mcp-protocol-version": "2027-01-01"},
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32022)
        assert it.world["zoo"].calls() == []
