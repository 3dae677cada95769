"""With search, skills and deferral off, nothing tells toolcrib from the server itself, but for names and ``_meta``.

One client speaks to the server directly, another through toolcrib, and what they hear is compared as JSON text.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import MCPError
from mcp_types import Implementation

from fakes.memory import Call, MemoryServer, _Talk, pipe
from fakes.menu import tool
from worlds import ERAS, MODERN, Client, JsonObject, _Transport, text, time_passes, world

pytestmark = pytest.mark.anyio

PLAIN = {"tool_search": {"enabled": False}, "skills": {"enabled": False}}
PLACE = "toolcrib://servers/own/"
CONTENT = (
    {
        "type": "text",
        "text": "line\nline \ud83d\ude00 \u0000 \u007f",
        "annotations": {"audience": ["user"], "priority": 0.5},
    },
    {"type": "image", "data": "AAAA", "mimeType": "image/png", "_meta": {"own/key": [1, None]}},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "file:///a%20b", "name": "a b", "size": 3},
    {"type": "resource", "resource": {"uri": "ui://view", "mimeType": "text/html", "text": "<p>"}},
    {"type": "resource", "resource": {"uri": "file:///x", "blob": "AAAA", "unknown": {"a": 1}}},
)
RESULTS = (
    {"content": list(CONTENT)},
    {"content": []},
    {"content": [], "structuredContent": {"b": 1, "a": [1.5, 1e300, -0.0, 12345678901234567890, None, True, ""]}},
    {"content": [{"type": "text", "text": "failed"}], "isError": True, "unknown": {"deep": [[]]}},
    {"content": [], "_meta": {"own/key": {"a": 1}, "traceparent": "00-1"}, "isError": False},
)
MODERN_RESULTS = (
    {"content": [], "structuredContent": [1, "two", {"three": 3}]},
    {"content": [], "structuredContent": "text"},
    {"resultType": "input_required", "inputRequests": {}, "requestState": "opaque"},
)
ERRORS = (
    MCPError(-32602, "no such thing", {"a": [1]}),
    MCPError(-32000, "own"),
    MCPError(-32603, "inner", "text"),
)
TOOLS = (
    tool("plain"),
    tool(
        "full",
        "Says \u00e9 and more.\n\nIn paragraphs.",
        {"a": "string", "b": {"type": ["integer", "null"], "default": None, "x-own": 1}},
        ["a"],
        title="Full",
        annotations={"readOnlyHint": True, "title": "T", "x-own": 2},
        outputSchema={"type": "object", "properties": {"b": {}}, "$defs": {"d": True}},
        icons=[{"src": "https://x/y.png", "sizes": ["48x48"]}],
        execution={"taskSupport": "forbidden"},
        _meta={"ui": {"resourceUri": "ui://view"}},
        unknown=[{}],
    ),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@asynccontextmanager
async def direct(server: MemoryServer, mode: str) -> AsyncGenerator[Client]:
    """Connect a client to the server itself."""
    async with pipe() as ends, anyio.create_task_group() as tasks:
        tasks.start_soon(_Talk(server, ends.far, tasks).run)
        info = Implementation(name="mcp", version="1")
        async with Client(_Transport(ends.near), ends.to_near, mode=mode, client_info=info) as client:
            yield client
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def both(tmp_path: Any, server: MemoryServer, mode: str) -> AsyncGenerator[tuple[Client, Client]]:
    """Connect a client to the server itself, and one to a toolcrib that has no other."""
    async with world(tmp_path, {"own": server}, PLAIN, listing="auto") as w, w.client(mode) as through:
        async with direct(server, mode) as itself:
            yield itself, through


def as_text(value: Any) -> str:
    """Return what is compared: JSON as it comes, order and all, with names as the server has them."""
    return json.dumps(value).replace(PLACE, "").replace("own__", "")


def as_definition(tool: JsonObject) -> str:
    """Return a definition as text; its members have lost their order in the index, and nothing else."""
    return as_text(json.loads(json.dumps(without_ours(tool), sort_keys=True)))


def without_ours(result: JsonObject) -> JsonObject:
    """Return a result or a definition without what toolcrib adds to ``_meta``; it may stand elsewhere."""
    ours = ("toolcrib/source", "io.modelcontextprotocol/serverInfo")
    meta = {key: value for key, value in result.get("_meta", {}).items() if key not in ours}
    plain = {key: value for key, value in result.items() if key != "_meta"}
    return {**plain, "_meta": meta} if meta else plain


async def said(client: Client, name: str, **params: Any) -> str:
    """Return what a call of the tool comes to, as text."""
    try:
        return as_text(without_ours(await client.call(name, {}, **params)))
    except MCPError as error:
        return as_text(error.error.model_dump(mode="json", exclude_none=True))


@pytest.mark.parametrize("mode", ERAS)
async def test_the_list_is_the_servers_own(tmp_path, mode):
    async with both(tmp_path, MemoryServer(list(TOOLS)), mode) as (itself, through):
        own = [as_definition(each) for each in await itself.tools()]
        listed = await through.tools()
        assert sorted(map(as_definition, listed)) == sorted(own)
        assert [each["_meta"]["toolcrib/source"]["tool"] for each in listed] == ["full", "plain"]
        assert not through.instructions


@pytest.mark.parametrize("mode", ERAS)
async def test_every_result_is_the_servers_own(tmp_path, mode):
    results = [*RESULTS, *(MODERN_RESULTS if mode == MODERN else ())]
    names = [f"t{number}" for number in range(len(results))]
    server = MemoryServer([*map(tool, names)], answers=dict(zip(names, results, strict=True)))
    async with both(tmp_path, server, mode) as (itself, through):
        for name in names:
            assert await said(through, f"own__{name}") == await said(itself, name)


@pytest.mark.parametrize("mode", ERAS)
async def test_every_error_is_the_servers_own(tmp_path, mode):
    names = [f"t{number}" for number in range(len(ERRORS))]
    server = MemoryServer([*map(tool, names)], answers=dict(zip(names, ERRORS, strict=True)))
    async with both(tmp_path, server, mode) as (itself, through):
        for name in names:
            assert await said(through, f"own__{name}") == await said(itself, name)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ERAS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings.default.max_examples // 2)
@given(
    result=st.dictionaries(st.text(min_size=1, max_size=6), JSON, max_size=4),
    structured=st.dictionaries(st.text(max_size=6), JSON, max_size=3),
)
def test_any_result_passes_as_it_is(tmp_path_factory, mode, result, structured):
    async def run() -> None:
        answer = {**result, "content": [text("it ran")["content"][0]], "structuredContent": structured}
        answer.pop("_meta", None)
        answer.pop("isError", None)
        server = MemoryServer([tool("any")], answers={"any": answer})
        async with both(tmp_path_factory.mktemp("any"), server, mode) as (itself, through):
            assert await said(through, "own__any") == await said(itself, "any")

    anyio.run(run)


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_is_the_servers_own(tmp_path, mode):
    async def report(call: Call) -> JsonObject:
        for step in (0, 0.5, 1):
            await call.report(step, 1, f"step {step}")
            await time_passes(1)  # a slow client is told the latest only
        return text("done")

    def told(client: Client) -> list[JsonObject]:
        frames = (frame["params"] for frame in client.frames if frame.get("method") == "notifications/progress")
        return [{key: value for key, value in frame.items() if key != "progressToken"} for frame in frames]

    async def heard(_progress: float, _total: float | None, _message: str | None) -> None:
        pass

    async with both(tmp_path, MemoryServer([tool("slow")], answers={"slow": report}), mode) as (itself, through):
        await itself.ask("tools/call", {"name": "slow", "arguments": {}}, on_progress=heard)
        await through.ask("tools/call", {"name": "own__slow", "arguments": {}}, on_progress=heard)
        assert told(through) == told(itself)
        assert len(told(itself)) == 3


@pytest.mark.parametrize("mode", ERAS)
async def test_what_a_call_says_besides_its_arguments_reaches_the_server(tmp_path, mode):
    server = MemoryServer([tool("echo")])
    async with both(tmp_path, server, mode) as (itself, through):
        meta = {"_meta": {"own/key": {"a": [1]}, "traceparent": "00-1"}}
        await itself.call("echo", {"b": 1, "a": None}, **meta)
        await through.call("own__echo", {"b": 1, "a": None}, **meta)
        [own, passed] = server.calls("echo")
        kept = [
            {
                **each,
                "_meta": {key: value for key, value in each["_meta"].items() if "/" in key or key == "traceparent"},
            }
            for each in (own, passed)
        ]
        for each in kept:
            each["_meta"] = {
                key: value for key, value in each["_meta"].items() if not key.startswith("io.modelcontextprotocol/")
            }
        assert kept[0] == kept[1]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_that_is_taken_back_is_taken_back_there(tmp_path, mode):
    began, ended = anyio.Event(), anyio.Event()

    async def wait(_call: Call) -> JsonObject:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError("nobody took it back")

    async with both(tmp_path, MemoryServer([tool("wait")], answers={"wait": wait}), mode) as (_itself, through):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(through.call, "own__wait")
            await began.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(30):
            await ended.wait()


@pytest.mark.parametrize("mode", ERAS)
async def test_resources_and_prompts_are_the_servers_own(tmp_path, mode):
    resource = {
        "uri": "file:///a",
        "name": "a",
        "title": "A",
        "mimeType": "text/plain",
        "size": 2,
        "_meta": {"own/k": 1},
    }
    template = {"uriTemplate": "file:///{x}", "name": "t", "description": "d"}
    prompt = {"name": "p", "title": "P", "arguments": [{"name": "x", "required": True, "unknown": 1}]}
    offers = {"resources": [resource], "resourceTemplates": [template], "prompts": [prompt]}
    given = {
        "file:///a": {
            "contents": [{"uri": "file:///a", "mimeType": "text/plain", "text": "hi", "_meta": {"own/k": 2}}]
        },
        "p": {"description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]},
    }
    server = MemoryServer([tool("one")], offers=offers, given=given)
    async with both(tmp_path, server, mode) as (itself, through):
        for method, key in (
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ):
            own = (await itself.ask(method))[key]
            ours = (await through.ask(method))[key]
            assert [as_text(without_ours(each)) for each in ours] == [as_text(without_ours(each)) for each in own]
        read = [
            await client.ask("resources/read", {"uri": uri})
            for client, uri in ((itself, "file:///a"), (through, f"{PLACE}file:///a"))
        ]
        assert as_text(read[1]["contents"]) == as_text(read[0]["contents"])
        got = [
            await client.ask("prompts/get", {"name": name, "arguments": {"x": "1"}})
            for client, name in ((itself, "p"), (through, "own__p"))
        ]
        assert as_text(got[1]["messages"]) == as_text(got[0]["messages"])
