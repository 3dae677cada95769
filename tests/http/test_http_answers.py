"""How a request of a session is answered over HTTP: by one JSON object at once, and else by a stream."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from fakes.menu import tool
from online import ACCEPT, HttpSession, Online, events, online, request
from worlds import MemoryServer, text, until

pytestmark = pytest.mark.anyio

JSON, STREAM = "application/json", "text/event-stream"


async def fed(it: Online, session: HttpSession, **headers: str) -> httpx2.Response:
    call = request("tools/call", {"name": "zoo__feed", "arguments": {}}, 7)
    return await it.post(call, **session.headers, **headers)


def answering(result: dict[str, Any]) -> dict[str, MemoryServer]:
    return {"zoo": MemoryServer([tool("feed")], answers={"feed": result})}


async def test_an_answer_that_comes_at_once_is_one_json_object_of_its_session(tmp_path):
    async with online(tmp_path, answering(text("fed"))) as it:
        session = await it.session()
        await fed(it, session)  # which tells first that the list has grown
        answer = await fed(it, session)
        assert answer.headers["content-type"] == JSON
        assert answer.headers["mcp-session-id"] == session.headers["mcp-session-id"]
        assert answer.json() == {"jsonrpc": "2.0", "id": 7, "result": text("fed")}


async def test_so_is_an_error(tmp_path):
    async with online(tmp_path, {}) as it:
        session = await it.session()
        answer = await it.post(request("no/such/method"), **session.headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, JSON)
        assert answer.json()["error"]["message"] == "Method not found"


@pytest.mark.parametrize("key", ["null", "1.5", "{}", "true"])
async def test_so_is_a_request_with_an_invalid_id(tmp_path, key):
    async with online(tmp_path, {}) as it:
        session = await it.session()
        body = f'{{"jsonrpc": "2.0", "id": {key}, "method": "ping"}}'
        answer = await it.post_text(body, **session.headers)
        assert (answer.status_code, answer.headers["content-type"]) == (400, JSON)
        assert (answer.json()["id"], answer.json()["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400"])
async def test_a_number_that_json_cannot_say_is_an_error_and_not_sent_as_null(tmp_path, number):
    async with online(tmp_path, answering(text("fed"))) as it:
        session = await it.session()
        given = {"name": "zoo__feed", "arguments": {"grams": ["GRAMS"]}}
        for call in (given, {"name": "tool_call", "arguments": given}):
            body = json.dumps(request("tools/call", call, 7)).replace('"GRAMS"', number)
            refused = (await it.post_text(body, **session.headers)).json()["result"]
            assert refused["isError"]
            assert "NaN or a number too large for JSON. Nothing ran." in refused["content"][0]["text"]
        assert not it.world["zoo"].calls()


async def test_what_is_told_before_an_answer_comes_on_a_stream_with_it(tmp_path):
    async with online(tmp_path, answering(text("fed"))) as it:
        answer = await fed(it, await it.session())
        assert answer.headers["content-type"] == STREAM
        assert [said.get("method", "the answer") for said in events(answer)] == [
            "notifications/tools/list_changed",
            "the answer",
        ]


async def test_an_answer_of_which_a_part_may_be_lost_comes_on_a_stream_that_can_be_taken_up(tmp_path):
    async with online(tmp_path, answering(text("a" * 100_000))) as it:
        session = await it.session()
        await fed(it, session)
        answer = await fed(it, session)
        assert answer.headers["content-type"] == STREAM
        assert answer.text.startswith("id: ")
        assert events(answer) == [{"jsonrpc": "2.0", "id": 7, "result": text("a" * 100_000)}]


@pytest.mark.parametrize("accept", [f"{STREAM}, {JSON}", "*/*"])
async def test_a_client_that_does_not_name_json_first_gets_a_stream_that_can_be_taken_up_at_once(tmp_path, accept):
    async with online(tmp_path, answering(text("fed"))) as it:
        session = await it.session()
        await fed(it, session)
        answer = await fed(it, session, accept=accept)
        assert answer.headers["content-type"] == STREAM
        assert answer.text.startswith("id: ")


async def test_an_answer_goes_out_in_one_piece(tmp_path):
    async with online(tmp_path, {}) as it:
        url = httpx2.URL(it.url)
        async with await anyio.connect_tcp(url.host, url.port or 0) as stream:
            await stream.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await stream.receive()).endswith(b"\r\n\r\nok\n")


@asynccontextmanager
async def waiting(it: Online, session: HttpSession) -> AsyncGenerator[list[httpx2.Response]]:
    """Have a call under way during the block; its answer is in the list behind it."""
    answers: list[httpx2.Response] = []

    async def call() -> None:
        answers.append(await fed(it, session))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await until(lambda: bool(it.world["zoo"].calls()))
        yield answers


async def test_a_second_request_with_an_id_takes_the_place_of_the_first_whose_stream_ends(tmp_path):
    begun: list[Any] = []

    async def never(call: Any) -> Any:
        begun.append(call)
        await anyio.sleep_forever()

    ended: list[int] = []
    async with online(tmp_path, {"zoo": MemoryServer([tool("feed")], answers={"feed": never})}) as it:
        session = await it.session()

        async def feed(number: int) -> None:
            await fed(it, session)
            ended.append(number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed, 1)
            await until(lambda: len(begun) == 1)
            tasks.start_soon(feed, 2)
            await until(lambda: ended == [1])
            await session.end()
            await until(lambda: ended == [1, 2])


async def test_a_session_that_ends_meanwhile_ends_its_answers(tmp_path, caplog):
    async def never(_call: Any) -> Any:
        await anyio.sleep_forever()

    servers = {"zoo": MemoryServer([tool("feed")], answers={"feed": never})}
    async with online(tmp_path, servers, listing="stable") as it:
        session = await it.session()
        async with waiting(it, session) as answers:
            await session.end()
        assert (answers[0].status_code, events(answers[0])) == (200, [])
    assert not caplog.records


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"accept": JSON}, 406), ({"accept": STREAM}, 406), ({"content_type": "text/plain"}, 400)],
)
async def test_what_is_not_in_order_is_refused(tmp_path, headers, status):
    async with online(tmp_path, answering(text("fed"))) as it:
        session = await it.session()
        sent = {**ACCEPT, **session.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = await it.http.post(it.url, json=request("tools/list"), headers=sent)
        assert answer.status_code == status
        for body in (b"{", b"[]"):
            sent = {**ACCEPT, **session.headers}
            assert (await it.http.post(it.url, content=body, headers=sent)).status_code == 400
        assert (await fed(it, session)).status_code == 200
