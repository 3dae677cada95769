"""A result that is too large is given page by page: what a model is told, and by which door it reads on."""

import json
import re
from typing import Any

import pytest

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import ERAS, OWN_TOOLS, Client, JsonObject, MemoryServer, text, world

pytestmark = pytest.mark.anyio

LINES = "".join(f"line {number}\n" for number in range(400))
SMALL = {"limits": {"result_max_bytes": 1024}}
IMAGE = {"type": "image", "data": "x" * 3000, "mimeType": "image/png"}
NOTHING = "There is nothing to read with this handle"


def server(result: JsonObject) -> dict[str, MemoryServer]:
    return {"db": MemoryServer([tool("get", annotations={"readOnlyHint": True})], answers={"get": result})}


def following(result: JsonObject) -> tuple[str, JsonObject] | None:
    """Return the tool and the arguments that the last text of a result tells a model to call; None if it tells none."""
    found = re.search(r"call toolcrib's (\w+) with (\{.*\})\.", result["content"][-1]["text"])
    return (found[1], json.loads(found[2])) if found else None


def told(result: JsonObject) -> tuple[str, JsonObject]:
    """Return them of a result that tells some."""
    call = following(result)
    assert call is not None
    return call


async def read_all(client: Client, result: JsonObject) -> list[JsonObject]:
    """Return the pages of a result, read as a model is told to, without what it is told."""
    pages = [result]
    while call := following(pages[-1]):
        pages.append(await client.call(*call))
    return [{**page, "content": page["content"][:-1]} for page in pages]


def joined(pages: list[JsonObject]) -> str:
    return "".join(block["text"] for page in pages for block in page["content"])


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("door", ["direct", "tool_call", "tool_call_read"])
async def test_nothing_of_a_result_is_lost(tmp_path, era, door):
    async with world(tmp_path, server(text(LINES)), SMALL, listing="auto") as w, w.client(era) as client:
        result = await (
            client.call("db__get") if door == "direct" else client.call(door, {"name": "db__get", "arguments": {}})
        )
        pages = await read_all(client, result)
        assert joined(pages) == LINES
        assert all(page["content"][-1]["text"].endswith("\n") for page in pages)
        assert len(w["db"].calls()) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_every_content_type_and_the_error_flag_keep_their_form(tmp_path, era):
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    result = {"content": [{"type": "text", "text": "t" * 900}, IMAGE, link], "isError": True, "_meta": {"a/b": 1}}
    async with world(tmp_path, server(result), SMALL, listing="auto") as w, w.client(era) as client:
        pages = await read_all(client, await client.call("db__get"))
    public = {**link, "uri": "toolcrib://servers/db/file:///a"}
    assert [[block["type"] for block in page["content"]] for page in pages] == [
        ["text", "image"],
        ["text", "resource_link"],
    ]
    assert pages[0]["content"][0]["text"] + pages[1]["content"][0]["text"] == "t" * 900
    assert (pages[0]["content"][1], pages[1]["content"][1]) == (IMAGE, public)
    assert [page["isError"] for page in pages] == [True] * 2
    assert pages[0]["_meta"]["a/b"] == 1


async def test_a_model_is_told_of_a_large_page_before_it_reads_it(tmp_path):
    async with world(tmp_path, server({"content": [IMAGE, IMAGE]}), SMALL) as w, w.client() as client:
        result = await client.call("db__get")
    assert result["content"][:-1] == [IMAGE]
    said = result["content"][-1]["text"]
    assert "larger than 1024 bytes (limits.result_max_bytes)" in said
    assert re.search(r"this is page 1 of 2, kept for 15 minutes\. For page 2, .* Page 2 takes 30\d\d bytes\.", said)


# -- listed only where it is needed ----------------------------------------------------------------


async def test_a_growing_list_shows_it_from_the_first_cut_result_on(tmp_path):
    config = {**SMALL, "servers": {"db": {"always_loaded_tools": ["get"]}}}
    async with world(tmp_path, server(text(LINES)), config) as w, w.client() as client, w.client() as other:
        assert "read_more" not in await client.names()
        assert told(await client.call("db__get"))[0] == "read_more"
        assert client.list_changes == 1
        assert [*await client.names()][3:] == ["read_more", "db__get"]
        await client.call("db__get")
        assert client.list_changes == 1
        assert "read_more" not in await other.names()


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("calls", "door"), [("split", "tool_call_read"), ("single", "tool_call")])
async def test_a_constant_list_never_shows_it_and_a_listed_tool_leads_to_it(tmp_path, era, calls, door):
    config = {**SMALL, "gate": {"call_tools": calls}}
    async with world(tmp_path, server(text(LINES)), config, listing="stable") as w, w.client(era) as client:
        before = await client.names()
        result = await client.tool_call("db__get")
        name, arguments = told(result)
        assert (name, arguments["name"]) == (door, "read_more")
        assert await client.names() == before
        assert joined(await read_all(client, result)) == LINES


async def test_arguments_for_it_are_forgiven_their_shape_as_for_any_tool(tmp_path):
    async with world(tmp_path, server(text(LINES)), SMALL, listing="stable") as w, w.client() as client:
        _, given = told(await client.tool_call("db__get"))
        shaped = json.dumps(given["arguments"])
        assert "page 2 of" in (await client.tool_call("read_more", shaped))["content"][-1]["text"]
        wrong = await client.tool_call("read_more", {"page": 2})
        assert wrong["content"][0]["text"].startswith("The arguments do not fit: handle: ")


async def test_a_plain_proxy_lists_it_to_a_session_that_needs_it(tmp_path):
    config = {**SMALL, "tool_search": {"enabled": False}}
    async with world(tmp_path, server(text(LINES)), config) as w, w.client() as client:
        assert await client.names() == ["db__get"]
        pages = await read_all(client, await client.call("db__get"))
        assert joined(pages) == LINES
        assert await client.names() == ["read_more", "db__get"]


async def test_a_plain_proxy_answers_it_unlisted_where_lists_are_constant(tmp_path):
    config = {**SMALL, "tool_search": {"enabled": False}}
    async with world(tmp_path, server(text(LINES)), config) as w, w.client(ERAS[1]) as client:
        pages = await read_all(client, await client.call("db__get"))
        assert joined(pages) == LINES
        assert await client.names() == ["db__get"]


async def test_who_has_read_nothing_cut_sees_no_more_than_before(tmp_path):
    async with world(tmp_path, server(text("short"))) as w, w.client() as client:
        await client.call("db__get")
        assert await client.names() == [*OWN_TOOLS[:3], "db__get"]


# -- whose it is, and for how long -----------------------------------------------------------------


async def refused(client: Client, arguments: Any) -> str:
    result = await client.call("read_more", arguments)
    assert result["isError"] is True
    return result["content"][0]["text"]


@pytest.mark.parametrize("era", ERAS)
async def test_another_caller_and_another_session_cannot_read_it(tmp_path, era):
    async with world(tmp_path, server(text(LINES)), SMALL, listing="auto") as w:
        async with w.client(era, Caller("ann")) as ann, w.client(era, Caller("bob")) as bob:
            _, given = told(await ann.call("db__get"))
            handle = {"handle": given.get("arguments", given)["handle"]}
            unknown = await refused(ann, {"handle": "unknown"})
            assert unknown.startswith(NOTHING)
            assert await refused(bob, handle) == unknown
            async with w.client("legacy", Caller("ann")) as second:
                assert await refused(second, handle) == unknown
            assert "page 2 of" in (await ann.call("read_more", handle))["content"][-1]["text"]


async def test_it_can_be_read_for_a_time(tmp_path):
    times = [0.0]
    servers = server(text(LINES))
    async with world(tmp_path, servers, SMALL, clock=lambda: times[0]) as w, w.client() as client:
        call = told(await client.call("db__get"))
        times[0] = 899
        assert "isError" not in await client.call(*call)
        times[0] = 901
        assert (await refused(client, call[1])).startswith(NOTHING)


RED = Caller("r", tenant_id="red")
GONE = {
    "denied": {"policy": {"deny": ["db.get"]}},
    "in no allow": {"policy": {"allow": ["db.other"]}},
    "denied to its tenant": {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["get"]}]}},
    "hidden": {"servers": {"db": {"tools": {"get": {"hide": True}}}}},
    "denied by its new name": {
        "servers": {"db": {"tools": {"get": {"name": "fetch"}}}},
        "policy": {"deny": ["db__fetch"]},
    },
}


@pytest.mark.parametrize("change", GONE)
@pytest.mark.parametrize("arguments", [{}, {"page": 2}, {"find": "line 3"}])
async def test_nothing_is_read_any_more_of_a_tool_that_may_not_be_used_any_more(tmp_path, change, arguments):
    servers = server(text(LINES))
    async with world(tmp_path, servers, SMALL, listing="auto") as w, w.client(caller=RED) as client:
        handle = told(await client.call("db__get"))[1]["handle"]
        assert "isError" not in await client.call("read_more", {"handle": handle, **arguments})
        assert not (await w.reload({**SMALL, **GONE[change]})).failure
        assert await refused(client, {"handle": handle, **arguments}) == await refused(client, {"handle": "unknown"})


async def test_nothing_is_read_any_more_of_a_server_that_the_config_has_not_any_more(tmp_path):
    async with world(tmp_path, server(text(LINES)), SMALL) as w, w.client() as client:
        call = told(await client.call("db__get"))
        await w.reload(SMALL, {"gh": [tool("other")]})
        assert (await refused(client, call[1])).startswith(NOTHING)


async def test_what_is_still_permitted_is_read_on_after_a_reload(tmp_path):
    config = {**SMALL, "policy": {"deny": ["db.other"]}, "servers": {"db": {"tools": {"get": {"name": "fetch"}}}}}
    async with world(tmp_path, server(text(LINES)), SMALL) as w, w.client() as client:
        result = await client.call("db__get")
        await w.reload(config)
        assert joined(await read_all(client, result)) == LINES


async def test_what_cannot_be_kept_is_told(tmp_path):
    config = {"limits": {"result_max_bytes": 1024, "results_kept_bytes": 2048}}
    async with world(tmp_path, server(text("x" * 10_000)), config) as w, w.client() as client:
        result = await client.call("db__get")
        assert " more pages were too much to keep (limits.results_kept_bytes). " in result["content"][-1]["text"]
        assert "ask for less at a time" in result["content"][-1]["text"]
        assert 1000 < len(joined(await read_all(client, result))) < 4000
