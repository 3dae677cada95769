"""A server whose resources and prompts are endless, invalid, too many or oddly named: bounded, and told by name."""

import json
import logging
from contextlib import nullcontext

import anyio
import anyio.lowlevel
import pytest
from mcp import MCPError

from fakes.memory import MemoryServer
from fakes.menu import tool
from toolcrib.downstream.connection import rest_s
from worlds import DEADLINE_S, ERAS, passing, until, world

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("era", ERAS)
SMALL = {"limits": {"list_pages": 5, "offers_per_server": 20, "offers_max_bytes": 20_000, "definition_max_bytes": 1024}}


def server(**offers) -> MemoryServer:
    return MemoryServer([tool("get")], offers={"resources": [], "resourceTemplates": [], "prompts": [], **offers})


async def uris(client) -> list[str]:
    return [each["uri"] for each in (await client.ask("resources/list"))["resources"][1:]]


async def refused(client, key: str) -> dict[str, str]:
    [found] = (await client.ask("resources/read", {"uri": "toolcrib://status"}))["contents"]
    servers = {each["server"]: each for each in json.loads(found["text"])["servers"]}
    return {each["name"]: each["reason"] for each in servers[key]["refused"]}


def pages(items, *, repeat: bool = False):
    """Answer each page with these items under another URI, and name a next one without end."""
    count = 0

    def page(_params):
        nonlocal count
        count += 1
        listed = [{**each, "uri": f"{each['uri']}/{count}"} for each in items]
        return {"resources": listed, "nextCursor": "same" if repeat else str(count)}

    return page


@BOTH
@pytest.mark.parametrize("repeat", [False, True])
async def test_a_list_without_end_is_taken_as_far_as_its_bounds(tmp_path, era, repeat):
    bad = server()
    bad.pages["resources/list"] = pages([{"uri": "x://1", "name": "x"}], repeat=repeat)
    good = server(resources=[{"uri": "y://1", "name": "y"}])
    async with world(tmp_path, {"bad": bad, "good": good}, SMALL, listing="auto") as w, w.client(era) as client:
        listed = await uris(client)
        assert listed[-1] == "toolcrib://servers/good/y://1"
        assert len(listed) == 1 + (2 if repeat else 5)
        reason = "its list repeats itself" if repeat else "limits.list_pages is 5"
        assert await refused(client, "bad") == {"more resources": reason}
        assert (await client.call("bad__get"))["content"]


async def test_too_many_items_or_bytes_are_cut_and_told(tmp_path):
    many = server(resources=[{"uri": f"x://{number}", "name": "x"} for number in range(50)])
    large = server()
    large.pages["resources/list"] = pages([{"uri": "x://1", "name": "x", "description": "x" * 900}] * 9)
    async with world(tmp_path, {"many": many, "large": large}, SMALL) as w, w.client() as client:
        listed = await uris(client)
        assert sum(uri.startswith("toolcrib://servers/many/") for uri in listed) == 20
        assert await refused(client, "many") == {"more resources": "limits.offers_per_server is 20"}
        assert (await refused(client, "large"))["more resources"] == "limits.offers_max_bytes is 20000"


@BOTH
async def test_items_that_are_none_are_refused_one_by_one_and_the_rest_is_listed(tmp_path, era):
    fine = {"uri": "x://1", "name": "fine"}
    deep: object = "x"
    for _ in range(100):
        deep = [deep]
    odd = [
        7, None, [], {}, {"uri": 7, "name": "a"}, {"uri": "", "name": "b"}, {"name": "c"},
        {"uri": "x://\u202egnp", "name": "d"}, {"uri": "x://\n", "name": "e"},
        {"uri": "x://" + "y" * 9000, "name": "f"},
        {"uri": "x://deep", "name": "g", "_meta": {"x": deep}}, {"uri": "x://big", "name": "h", "x": "y" * 2000},
        fine, {**fine, "name": "twice"},
    ]  # fmt: skip
    prompts = [
        {"name": ""}, {"name": "x" * 300}, {}, {"name": "p", "arguments": [7, {"name": 8}, {"name": "ok"}]},
        {"name": "q", "arguments": []},
    ]  # fmt: skip
    bad = server(resources=odd, prompts=prompts, resourceTemplates=[{"uri": "x"}, {"uriTemplate": "t://{x}"}])
    async with world(tmp_path, {"bad": bad}, SMALL, listing="auto") as w, w.client(era) as client:
        assert await uris(client) == ["toolcrib://servers/bad/x://1"]
        assert [each.name for each in (await client.list_prompts()).prompts] == ["bad__p", "bad__q"]
        listed = (await client.ask("prompts/list"))["prompts"]
        assert [prompt["arguments"] for prompt in listed] == [[{"name": "ok"}], []]
        templates = (await client.ask("resources/templates/list"))["resourceTemplates"]
        assert templates == [{"uriTemplate": "toolcrib://servers/bad/t://{x}", "name": "t://{x}"}]
        assert len(await refused(client, "bad")) >= 12
        await client.list_resources()  # the SDK's own models take all of it


@BOTH
async def test_what_is_wrong_with_a_field_costs_the_field_only(tmp_path, era):
    raw = {
        "uri": "x://1",
        "name": 7,
        "title": ["t"],
        "description": "a\u202eb\x1b[31mc",
        "mimeType": 3,
        "size": "big",
        "annotations": {"audience": ["user", "eve"], "priority": 7, "lastModified": 3, "x": 1},
        "icons": [{"src": 1}, {"src": "i.png"}],
        "_meta": {"io.modelcontextprotocol/x": 1, "own/y": 2},
        "vendor": {"kept": True},
    }
    async with world(tmp_path, {"bad": server(resources=[raw])}, listing="auto") as w, w.client(era) as client:
        assert (await client.ask("resources/list"))["resources"][1] == {
            "uri": "toolcrib://servers/bad/x://1",
            "name": "x://1",
            "description": "ab[31mc",
            "annotations": {"audience": ["user"], "x": 1},
            "icons": [{"src": "i.png"}],
            "_meta": {"own/y": 2},
            "vendor": {"kept": True},
        }
        await client.list_resources()


@pytest.mark.slow
async def test_ten_thousand_resources_are_listed_page_by_page_in_bounded_time(tmp_path):
    many = server(resources=[{"uri": f"x://{number:05}", "name": "x"} for number in range(10_000)])
    async with world(tmp_path, {"many": many}) as w, w.client() as client:
        seen, cursor = [], {}
        while cursor is not None:
            page = await client.ask("resources/list", cursor)
            seen += [each["uri"] for each in page["resources"]]
            cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
        assert len(seen) == len(set(seen)) == 10_001


@BOTH
async def test_names_with_odd_characters_get_public_names_and_reach_the_server_as_they_are(tmp_path, era):
    names = ["a b", "ü", "a/b", "a__b", "x" * 200, "a.b", "emoji 🎉", "-"]
    # A name that a person cannot read is not offered: another one would not reach the server.
    bad = server(prompts=[{"name": name} for name in (*names, "a\u202eb")])
    async with world(tmp_path, {"my server": bad}, listing="auto") as w, w.client(era) as client:
        listed = [each["name"] for each in (await client.ask("prompts/list"))["prompts"]]
        assert len(set(listed)) == len(names)
        assert all(name.isascii() and len(name) <= 64 for name in listed)
        for name in listed:
            await client.ask("prompts/get", {"name": name})
        got = [each["params"]["name"] for each in bad.received if each.get("method") == "prompts/get"]
        assert sorted(got) == sorted(names)


async def test_the_same_uri_at_two_servers_is_two_resources(tmp_path):
    servers = {key: server(resources=[{"uri": "x://1", "name": key}]) for key in ("a", "b")}
    for key, each in servers.items():
        each.given["x://1"] = {"contents": [{"uri": "x://1", "text": key}]}
    async with world(tmp_path, servers) as w, w.client() as client:
        for uri, key in zip(await uris(client), "ab", strict=True):
            result = await client.ask("resources/read", {"uri": uri})
            assert result["contents"] == [{"uri": f"toolcrib://servers/{key}/x://1", "text": key}]


LISTS = {"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}


@pytest.mark.parametrize("method", LISTS)
async def test_a_list_that_fails_or_never_comes_keeps_nobody_from_the_rest(tmp_path, caplog, method):
    offers = {
        "resources": [{"uri": "x://1", "name": "x"}],
        "resourceTemplates": [{"uriTemplate": "t://{x}", "name": "t"}],
        "prompts": [{"name": "p"}],
    }
    failing, hanging, wrong = server(**offers), server(**offers), server(**offers)

    def fail(_params):
        raise MCPError(-32603, "broken")

    failing.pages[method] = fail
    wrong.pages[method] = lambda _params: {"resources": "x", "resourceTemplates": None, "prompts": 7}
    hanging.hangs_at = method
    config = {"server_defaults": {"connect_timeout_s": DEADLINE_S}}
    caplog.set_level(logging.WARNING)
    servers = {"failing": failing, "hanging": hanging, "wrong": wrong}
    async with world(tmp_path, servers, config, wait=False) as w, w.client() as client:
        for key in servers:
            assert (await client.call(f"{key}__get"))["content"]
        counts = []
        for asked, key in (
            ("resources", "resources"),
            ("resources/templates", "resourceTemplates"),
            ("prompts", "prompts"),
        ):
            async with passing(DEADLINE_S) if not counts else nullcontext():  # the first waits for all lists
                items = (await client.ask(f"{asked}/list"))[key]
            counts.append(len([each for each in items if each.get("uri") != "toolcrib://status"]))
        lists = ["resources/list", "resources/templates/list", "prompts/list"]
        assert counts == [0 if each == method else 3 for each in lists]
        await until(lambda: sum(method in record.getMessage() for record in caplog.records) >= 3)


async def test_changes_without_end_do_not_have_lists_read_without_end(tmp_path):
    bad = server(resources=[{"uri": "x://1", "name": "x"}])
    async with world(tmp_path, {"bad": bad}) as w, w.client() as client:
        await client.ask("resources/read", {"uri": "toolcrib://servers/bad/x://1"})
        before = bad.methods().count("resources/list")
        began = anyio.current_time()
        for _ in range(1000):
            await bad.change_offers("resources", {"uri": "x://1", "name": "x"})
            await anyio.lowlevel.checkpoint()
        pauses = (anyio.current_time() - began) / rest_s()
        assert bad.methods().count("resources/list") - before < pauses + 2
