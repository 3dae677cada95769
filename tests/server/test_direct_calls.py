"""``tools/call`` of a downstream tool by its own name, and all that passes through on the way there and back."""

import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from fakes.menu import tool
from worlds import DEADLINE_S, ERAS, PATIENCE_S, MemoryServer, passing, text, time_passes, until, world

pytestmark = pytest.mark.anyio

ANSWERING = ["legacy", "modern"]
RESERVED = "io.modelcontextprotocol/"


def both_sides(test):
    """Try a test with both eras of the client and both eras of the server."""
    sides = pytest.mark.parametrize("server_era", ANSWERING)
    return sides(pytest.mark.parametrize("era", ERAS)(test))


def answering(answer, server_era: str = "modern", name: str = "get") -> MemoryServer:
    return MemoryServer([tool(name)], eras=[server_era], answers={name: answer})


def bare(result):
    """Return a result without what the newer era adds to each."""
    meta = {key: value for key, value in result.get("_meta", {}).items() if not key.startswith(RESERVED)}
    kept = {key: value for key, value in result.items() if key not in ("resultType", "_meta")}
    return kept | ({"_meta": meta} if meta else {})


# -- the way there -------------------------------------------------------------------------------


@pytest.mark.sampled
@both_sides
async def test_an_unlisted_but_allowed_tool_can_be_called_by_its_name(tmp_path, era, server_era):
    async with world(tmp_path, {"db": answering(text("got it"), server_era)}, listing="auto") as w:
        async with w.client(era) as client:
            assert "db__get" not in await client.names()
            assert bare(await client.call("db__get", {"a": [1, None]})) == text("got it")
            [params] = w["db"].calls()
            assert (params["name"], params["arguments"]) == ("get", {"a": [1, None]})


@both_sides
async def test_a_callers_meta_goes_along_but_nothing_that_belongs_to_the_hop(tmp_path, era, server_era):
    async with world(tmp_path, {"db": answering(text("ok"), server_era)}, listing="auto") as w:
        async with w.client(era) as client:
            meta = {"vendor/key": {"deep": 1}, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
            hop = {f"{RESERVED}secret": "x", "progressToken": "mine"}
            await client.call("db__get", {}, _meta=meta | hop)
            await client.tool_call("get", {}, _meta=meta | hop)
            for params in w["db"].calls():
                sent = params["_meta"]
                assert sent["vendor/key"] == {"deep": 1}
                assert f"{RESERVED}secret" not in sent
                assert sent.get("progressToken") != "mine"
                reserved = {key for key in sent if key.startswith(RESERVED)}
                assert bool(reserved) is (server_era == "modern")
                if reserved:
                    assert sent[f"{RESERVED}clientInfo"]["name"] == "toolcrib"


async def test_answers_to_a_tools_questions_go_along_in_the_newer_era(tmp_path):
    question = {"resultType": "input_required", "inputRequests": {"q": {}}, "requestState": "s-1", "content": []}
    async with world(tmp_path, {"db": answering(question)}, listing="auto") as w:
        async with w.client("2026-07-28") as client:
            asked = await client.call("db__get", {})
            assert (asked["resultType"], asked["inputRequests"], asked["requestState"]) == (
                "input_required",
                {"q": {}},
                "s-1",
            )
            await client.call("db__get", {}, inputResponses={"q": {"action": "accept"}}, requestState="s-1")
            params = w["db"].calls()[-1]
            assert (params["inputResponses"], params["requestState"]) == ({"q": {"action": "accept"}}, "s-1")
        async with w.client("legacy") as client:
            refused = await client.call("db__get", {})
            assert refused["isError"]
            assert "input" in refused["content"][0]["text"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_no_call_is_refused(tmp_path, era):
    async with world(tmp_path, {"db": [tool("get")]}, listing="auto") as w, w.client(era) as client:
        for params in ({}, {"name": 7}, {"name": "db__get", "arguments": [1]}, {"name": None}):
            with pytest.raises(MCPError) as caught:
                await client.ask("tools/call", params)
            assert caught.value.code == types.INVALID_PARAMS
        assert w["db"].calls() == []


async def test_the_server_is_started_once_for_many_calls_at_once(tmp_path):
    async with world(tmp_path, {"db": [tool("get")]}) as w, w.client() as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(client.call, "db__get")
        assert (w["db"].starts, len(w["db"].calls())) == (2, 10)


async def test_a_call_of_a_server_that_was_never_listed_waits_for_its_list(tmp_path):
    async with world(tmp_path, {"db": [tool("get")]}, wait=False) as w, w.client() as client:
        assert await client.call("db__get") == text("ran get {}")


async def test_a_call_is_decided_by_the_live_list_and_not_by_the_index(tmp_path):
    server = MemoryServer([tool("get"), tool("put")])
    async with world(tmp_path, {"db": server}) as w, w.client() as client:
        server.tools = [tool("put")]
        with pytest.raises(MCPError, match="Unknown tool: db__get") as gone:
            await client.call("db__get")
        with pytest.raises(MCPError) as never:
            await client.call("db__got")
        assert gone.value.error.model_dump() | {"message": ""} == never.value.error.model_dump() | {"message": ""}
        assert server.calls() == []


async def test_a_tool_that_came_since_the_last_listing_is_unknown_until_the_server_is_listed_again(tmp_path):
    server = MemoryServer([tool("get")])
    async with world(tmp_path, {"db": server}) as w, w.client() as client:
        server.tools.append(tool("new"))
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call("db__new")
        await client.call("db__get")
        assert await client.call("db__new") == text("ran new {}")


async def test_a_tool_that_another_process_has_listed_otherwise_is_listed_again_before_it_is_called(tmp_path):
    mine, theirs = MemoryServer([tool("get"), tool("gone")]), MemoryServer([tool("get", "Other words."), tool("more")])
    async with world(tmp_path, {"db": mine}) as w, w.client() as client:
        await client.call("db__get")
        async with world(tmp_path, {"db": theirs}) as other, other.client() as others:
            await others.call("db__get")
            with anyio.fail_after(PATIENCE_S):  # not at once: it looks a few times a second
                while await client.found("more", search_type="exact") != ["db__more"]:
                    await anyio.sleep(0.01)
            with pytest.raises(MCPError, match="Unknown tool: db__more"):
                await client.call("db__more")
            assert await client.call("db__get") == text("ran get {}")
            assert mine.methods().count("tools/list") == 3
        assert theirs.calls("more") == mine.calls("more") == []


# -- the way back --------------------------------------------------------------------------------

BLOCKS = [
    {"type": "text", "text": "\u00e9\U0001f600\u202e\x00", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "file:///a", "name": "a"},
    {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}},
    {"type": "vendor", "odd": [1, {"deep": None}]},
]
PUBLIC = json.loads(json.dumps(BLOCKS).replace("file://", "toolcrib://servers/db/file://"))
"""The same with URIs that can be read through toolcrib."""


@pytest.mark.sampled
@both_sides
async def test_a_result_passes_through_as_it_is_but_for_the_uris_of_its_resources(tmp_path, era, server_era):
    result = {
        "content": BLOCKS,
        "structuredContent": {"n": 1.5, "deep": {"list": [None, True]}},
        "isError": True,
        "_meta": {"vendor/key": [1]},
        "vendorMember": 7,
    }
    async with world(tmp_path, {"db": answering(result, server_era)}, listing="auto") as w, w.client(era) as client:
        assert bare(await client.call("db__get")) == {**result, "content": PUBLIC}
        assert bare(await client.tool_call("db__get")) == {**result, "content": PUBLIC}


@both_sides
async def test_reserved_keys_of_a_results_meta_never_cross(tmp_path, era, server_era):
    meta = {f"{RESERVED}serverInfo": {"name": "evil"}, f"{RESERVED}x": 1, "vendor/key": 1}
    async with world(tmp_path, {"db": answering(text("x", _meta=meta), server_era)}, listing="auto") as w:
        async with w.client(era) as client:
            came = (await client.call("db__get"))["_meta"]
            assert came.pop(f"{RESERVED}serverInfo", {"name": "toolcrib"})["name"] == "toolcrib"
            assert came == {"vendor/key": 1}


async def test_structured_content_that_is_no_object_is_text_to_sessionful_clients(tmp_path):
    async with world(tmp_path, {"db": answering(text("x"))}, listing="auto") as w:
        async with w.client("legacy") as old, w.client("2026-07-28") as new:
            for content in ([1, 2], "text", 7, True, []):
                w["db"].answers["get"] = text("x", structuredContent=content)
                assert await old.call("db__get") == text("x", json.dumps(content, separators=(",", ":")))
                assert (await new.call("db__get"))["structuredContent"] == content
                await old.call_tool("db__get")
                await new.call_tool("db__get")
            said_before = text("x", "[1,2]", structuredContent=[1, 2])
            w["db"].answers["get"] = said_before
            assert (await old.call("db__get"))["content"] == said_before["content"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_that_is_none_by_the_protocol_is_passed_on_without_a_fuss(tmp_path, era):
    odd_ones = ({}, {"content": 7}, {"content": "x", "structuredContent": [1]}, {"_meta": []}, {"content": [7, None]})
    async with world(tmp_path, {"db": MemoryServer([tool("get")])}, listing="auto") as w, w.client(era) as client:
        for odd in odd_ones:
            w["db"].answers["get"] = odd
            assert await client.call("db__get") == await client.tool_call("db__get")


@pytest.mark.sampled
@both_sides
async def test_a_json_rpc_error_passes_through_with_code_and_data(tmp_path, era, server_era):
    error = MCPError(-32050, "quota is used up", {"left": 0, "deep": [1]})
    async with world(tmp_path, {"db": answering(error, server_era)}, listing="auto") as w, w.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call("db__get")
    assert caught.value.error == types.ErrorData(code=-32050, message="quota is used up", data={"left": 0, "deep": [1]})


@pytest.mark.sampled
@both_sides
async def test_progress_passes_through(tmp_path, era, server_era):
    async def working(call):
        await call.report(1, 2, "half")
        await call.report(2, 2)
        return text("done")

    seen = []

    async def on_progress(*step) -> None:
        seen.append(step)

    async with world(tmp_path, {"db": answering(working, server_era)}, listing="auto") as w, w.client(era) as client:
        for door in ("db__get", "tool_call"):
            params = {"name": door, "arguments": {"name": "get"} if door == "tool_call" else {}}
            assert bare(await client.ask("tools/call", params, on_progress=on_progress)) == text("done")
        await until(lambda: len(seen) == 4)
    assert seen == [(1, 2, "half"), (2, 2, None)] * 2


@pytest.mark.sampled
@both_sides
async def test_progress_that_nobody_asked_for_is_not_sent(tmp_path, era, server_era):
    async def working(call):
        await call.report(1, 2, "half")
        return text("done")

    async with world(tmp_path, {"db": answering(working, server_era)}, listing="auto") as w, w.client(era) as client:
        await client.call("db__get")
        assert not [frame for frame in client.frames if frame.get("method") == "notifications/progress"]


def cancelled(server: MemoryServer) -> list[str]:
    """Return the requests of which the server was told that nobody waits for them any more."""
    told = [message for message in server.received if message["method"] == "notifications/cancelled"]
    return [message["params"]["requestId"] for message in told]


@pytest.mark.sampled
@both_sides
async def test_a_callers_cancellation_reaches_the_server(tmp_path, era, server_era):
    running = anyio.Event()

    async def endless(call):
        running.set()
        await anyio.sleep_forever()

    async with world(tmp_path, {"db": answering(endless, server_era)}, listing="auto") as w, w.client(era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "db__get")
            await running.wait()
            tasks.cancel_scope.cancel()
        [asked] = [message["id"] for message in w["db"].received if message["method"] == "tools/call"]
        await until(lambda: asked in cancelled(w["db"]))
        await until(lambda: len(w.happened("tool_call")) == 1)
        assert w.happened("tool_call")[0]["ok"] is False


# -- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_that_is_too_large_is_cut_and_says_so(tmp_path, era):
    result = text("a" * 800, "b" * 800, structuredContent={"c": "c" * 800}, _meta={"vendor/key": 1})
    config = {"limits": {"result_max_bytes": 1024}}
    async with world(tmp_path, {"db": answering(result)}, config, listing="auto") as w, w.client(era) as client:
        cut = bare(await client.call("db__get"))
    texts = [block["text"] for block in cut["content"]]
    assert texts[:-1] == ["a" * 800]
    assert "limits.result_max_bytes" in texts[-1]
    assert "structuredContent" not in cut
    assert cut["_meta"] == {"vendor/key": 1}
    assert w.happened("tool_call")[0]["bytes"] == 1024


async def test_a_server_that_does_not_answer_in_time_is_named_and_told(tmp_path):
    async def endless(call):
        await anyio.sleep_forever()

    config = {"servers": {"db": {"call_timeout_s": DEADLINE_S}}}
    async with world(tmp_path, {"db": answering(endless)}, config) as w, w.client() as client:
        async with passing(DEADLINE_S):
            result = await client.call("db__get")
        assert result["isError"]
        assert "'db' did not answer 'get' within 6 s" in result["content"][0]["text"]
        assert len(w["db"].calls()) == 1
        await until(lambda: "call-1" in cancelled(w["db"]))


async def test_progress_starts_the_deadline_anew(tmp_path):
    async def slow(call):
        for step in range(3):
            await time_passes(DEADLINE_S - 1)
            await call.report(step)
        return text("done")

    async def ignore(*_step) -> None:
        pass

    config = {"servers": {"db": {"call_timeout_s": DEADLINE_S}}}
    async with world(tmp_path, {"db": answering(slow)}, config) as w, w.client() as client:
        result = await client.ask("tools/call", {"name": "db__get"}, on_progress=ignore)
        assert result == text("done")


@pytest.mark.parametrize("door", ["direct", "tool_call"])
async def test_a_server_that_goes_away_during_a_call_is_named_and_the_call_is_not_repeated(tmp_path, door):
    async def crash(call):
        await w["db"].hang_up()
        await anyio.sleep_forever()

    async with world(tmp_path, {"db": answering(crash)}) as w, w.client() as client:
        result = await (client.call if door == "direct" else client.tool_call)("db__get")
        assert result["isError"]
        assert "'db' went away during the call" in result["content"][0]["text"]
        assert len(w["db"].calls()) == 1
        w["db"].answers["get"] = text("back")
        assert await client.call("db__get") == text("back")


async def test_one_broken_server_does_not_disturb_another(tmp_path):
    servers = {"bad": MemoryServer([], start_error=OSError("no such program")), "good": [tool("get")]}
    async with world(tmp_path, servers) as w, w.client() as client:
        assert await client.call("good__get") == text("ran get {}")
        assert await client.found("get") == ["good__get"]


async def test_a_call_sent_as_a_notification_runs_nothing(tmp_path):
    server = MemoryServer([tool("drop"), tool("get")])
    async with world(tmp_path, {"db": server}) as w, w.client() as client:
        await client.call("db__get")
        notification: Any = types.CallToolRequest(params=types.CallToolRequestParams(name="db__drop", arguments={}))
        await client.session.send_notification(notification)
        await client.call("db__get")
        await client.call("db__get")
        assert [params["name"] for params in server.calls()] == ["get", "get", "get"]
