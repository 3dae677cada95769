"""The proxy in front of toolcrib maps names and URIs, and nothing else: what it hid, the suite could not see."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from conformance.names import Names, renamed
from fakes.http_server import serving

pytestmark = pytest.mark.anyio

NAMES = Names("zoo", own=["tool_search"])
PLACE = "toolcrib://servers/zoo/"


@pytest.mark.parametrize(
    ("asked", "passed_on"),
    [
        ({"method": "tools/call", "params": {"name": "feed"}}, {"name": "zoo__feed"}),
        ({"method": "tools/call", "params": {"name": "tool_search"}}, {"name": "tool_search"}),
        ({"method": "prompts/get", "params": {"name": "feed"}}, {"name": "zoo__feed"}),
        ({"method": "resources/read", "params": {"uri": "test://a"}}, {"uri": f"{PLACE}test://a"}),
        ({"method": "resources/subscribe", "params": {"uri": "test://a"}}, {"uri": f"{PLACE}test://a"}),
        ({"method": "resources/read", "params": {"uri": "toolcrib://status"}}, {"uri": "toolcrib://status"}),
        (
            {"method": "completion/complete", "params": {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {}}},
            {"ref": {"type": "ref/prompt", "name": "zoo__p"}, "argument": {}},
        ),
        (
            {"method": "completion/complete", "params": {"ref": {"type": "ref/resource", "uri": "test://{a}"}}},
            {"ref": {"type": "ref/resource", "uri": f"{PLACE}test://{{a}}"}},
        ),
        (
            {"method": "subscriptions/listen", "params": {"notifications": {"resourceSubscriptions": ["test://a"]}}},
            {"notifications": {"resourceSubscriptions": [f"{PLACE}test://a"]}},
        ),
        ({"method": "tools/list", "params": {"name": "feed"}}, {"name": "feed"}),
    ],
)
def test_a_request_names_what_toolcrib_calls_it(asked: dict[str, Any], passed_on: dict[str, Any]):
    assert NAMES.asked(asked) == {**asked, "params": passed_on}


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({"tools": [{"name": "zoo__feed", "title": "zoo__feed"}]}, {"tools": [{"name": "feed", "title": "zoo__feed"}]}),
        ({"prompts": [{"name": "zoo__p"}, {"name": "skill"}]}, {"prompts": [{"name": "p"}, {"name": "skill"}]}),
        (
            {"contents": [{"uri": f"{PLACE}test://a", "text": PLACE}]},
            {"contents": [{"uri": "test://a", "text": PLACE}]},
        ),
        ({"resourceTemplates": [{"uriTemplate": f"{PLACE}a{{b}}"}]}, {"resourceTemplates": [{"uriTemplate": "a{b}"}]}),
        ({"content": [{"type": "text", "text": "zoo__feed"}]}, {"content": [{"type": "text", "text": "zoo__feed"}]}),
        ({"structuredContent": {"name": "zoo__feed"}}, {"structuredContent": {"name": "zoo__feed"}}),
    ],
)
def test_an_answer_names_what_the_server_calls_it(told: dict[str, Any], shown: dict[str, Any]):
    assert NAMES.answered({"id": 1, "result": told}) == {"id": 1, "result": shown}


async def test_headers_status_and_bytes_pass_as_they_are():
    seen: list[Request] = []

    async def answer(request: Request) -> Response:
        seen.append(request)
        await request.body()
        if request.method == "GET":
            return Response(b'{"a":  1.0}', 418, {"mcp-session-id": "s"}, "application/json")
        return JSONResponse({"error": {"data": {"uri": f"{PLACE}test://a"}}}, 400)

    with serving(Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST"])])) as target:
        with renamed(f"{target}/mcp", NAMES) as url:
            async with httpx2.AsyncClient() as http:
                got = await http.get(url, headers={"host": "evil.example.com", "last-event-id": "7"})
                headers = {"mcp-method": "tools/call", "mcp-name": "feed"}
                posted = await http.post(url, content=b"not JSON", headers=headers)
    assert (got.status_code, got.content, got.headers["mcp-session-id"]) == (418, b'{"a":  1.0}', "s")
    assert (seen[0].headers["host"], seen[0].headers["last-event-id"]) == ("evil.example.com", "7")
    assert seen[1].headers["mcp-name"] == "zoo__feed"
    assert (posted.status_code, posted.json()) == (400, {"error": {"data": {"uri": "test://a"}}})


async def test_events_come_when_they_are_sent_and_the_end_of_a_client_is_passed_on():
    ended = anyio.Event()

    async def events() -> AsyncGenerator[bytes]:
        try:
            yield b"id: 1\ndata: \n\n"
            yield b'event: message\ndata: {"result": {"tools": [{"name": "zoo__feed"}]}}\n\n'
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def answer(_request: Request) -> Response:
        return StreamingResponse(events(), media_type="text/event-stream")

    with serving(Starlette(routes=[Route("/mcp", answer, methods=["POST"])])) as target:
        with renamed(f"{target}/mcp", NAMES) as url:
            with anyio.fail_after(30):
                async with httpx2.AsyncClient() as http, http.stream("POST", url, json={}) as stream:
                    lines = stream.aiter_lines()
                    heard = [await anext(lines) for _ in range(5)]
                while not ended.is_set():
                    await anyio.sleep(0.01)
    assert heard[:2] == ["id: 1", "data: "]
    assert json.loads(heard[4].removeprefix("data: ")) == {"result": {"tools": [{"name": "feed"}]}}
