"""A client that lost a stream of its session takes it up again: what it missed comes, once, and to nobody else."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest

from downstream.scripted_http import Answer, Request, event, healthy, scripted
from fakes.menu import tool
from online import ACCEPT, HttpSession, Online, events, online, request
from toolcrib.downstream.transport import open_streams
from toolcrib.jsonrpc import sdk_http
from worlds import MemoryServer, settled, text, time_passes

pytestmark = pytest.mark.anyio


class Slow:
    """A server whose one tool answers when it is told to."""

    def __init__(self) -> None:
        self.running, self.done = anyio.Event(), anyio.Event()
        self.answer = text("worked")
        self.server = MemoryServer([tool("feed"), tool("work")], answers={"work": self._work})

    async def _work(self, _call: Any) -> dict[str, Any]:
        self.running.set()
        await self.done.wait()
        return self.answer


@asynccontextmanager
async def calling(it: Online, session: HttpSession, key: int = 70) -> AsyncGenerator[AsyncIterator[str]]:
    """Call ``zoo__work``, and yield the lines of its stream."""
    call = request("tools/call", {"name": "zoo__work", "arguments": {}}, key)
    headers = {**ACCEPT, **session.headers}
    async with AsyncExitStack() as stack:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(time_passes, sdk_http.AT_ONCE_S)
            stream = await stack.enter_async_context(it.http.stream("POST", it.url, json=call, headers=headers))
        yield stream.aiter_lines()


async def first_event(lines: AsyncIterator[str]) -> dict[str, str]:
    """Return the fields of the event that comes before anything happens."""
    fields: dict[str, str] = {}
    async for line in lines:
        if not line:
            return fields
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    return fields


async def streamed(it: Online, session: HttpSession, slow: Slow, key: int = 70) -> tuple[dict[str, str], str]:
    """Call ``zoo__work`` and have it answer once its stream has begun; return the first event and the rest."""
    slow.done = anyio.Event()
    async with calling(it, session, key) as lines:
        slow.done.set()
        return await first_event(lines), "".join([line async for line in lines])


async def taken_up(it: Online, session: HttpSession, after: str) -> list[dict[str, Any]]:
    """Return the messages that come after an event, until an answer is among them or the stream ends."""
    headers = {**session.headers, "accept": "text/event-stream", "last-event-id": after}
    heard: list[dict[str, Any]] = []
    async with it.http.stream("GET", it.url, headers=headers) as stream:
        assert stream.status_code == 200
        async for line in stream.aiter_lines():
            if line.startswith("data: {"):
                heard += events(httpx2.Response(200, text=line, headers={"content-type": "text/event-stream"}))
            if heard and ("result" in heard[-1] or "error" in heard[-1]):
                break
    return heard


@pytest.mark.parametrize("ends_first", ["the stream", "the call"])
async def test_the_result_of_a_call_whose_stream_was_lost_can_be_had_without_running_it_again(tmp_path, ends_first):
    slow = Slow()
    async with online(tmp_path, {"zoo": slow.server}) as it:
        session = await it.session()
        async with calling(it, session) as lines:
            primed = await first_event(lines)
            await slow.running.wait()
        if ends_first == "the call":
            slow.done.set()
            await session.names()
        async with anyio.create_task_group() as tasks:
            if ends_first == "the stream":
                tasks.start_soon(_later, slow)
            heard = await taken_up(it, session, primed["id"])
        assert heard[-1] == {"jsonrpc": "2.0", "id": 70, "result": text("worked")}
        assert len(slow.server.calls("work")) == 1


async def _later(slow: Slow) -> None:
    await settled()
    slow.done.set()


async def test_a_stream_says_first_how_it_can_be_taken_up(tmp_path):
    slow = Slow()
    async with online(tmp_path, {"zoo": slow.server}) as it:
        primed, _ = await streamed(it, await it.session(), slow)
        older = await it.session()
        older.headers["mcp-protocol-version"] = "2025-06-18"
        unprimed, _ = await streamed(it, older, slow)
    assert (primed["data"], primed["retry"]) == ("", "1000")
    assert unprimed["data"].startswith("{")


async def test_no_session_is_sent_what_another_one_was(tmp_path):
    slow = Slow()
    async with online(tmp_path, {"zoo": slow.server}) as it:
        mine, other = await it.session(), await it.session()
        primed, _ = await streamed(it, mine, slow)
        theirs, _ = await streamed(it, other, slow)
        assert theirs["id"] != primed["id"]
        assert await taken_up(it, other, primed["id"]) == []
        assert (await taken_up(it, mine, primed["id"]))[-1]["result"] == text("worked")


async def test_what_is_kept_is_bounded_for_all_sessions_together_and_the_oldest_goes(tmp_path):
    slow = Slow()
    async with online(tmp_path, {"zoo": slow.server}, {"limits": {"replay_max_bytes": 8192}}) as it:
        session = await it.session()
        primed, _ = await streamed(it, session, slow)
        for _ in range(10):
            await (await it.session()).call("zoo__feed")  # a stream, on which it is told first that the list has grown
        assert await taken_up(it, session, primed["id"]) == []


async def test_what_was_answered_at_once_pushes_nothing_out(tmp_path):
    slow = Slow()
    async with online(tmp_path, {"zoo": slow.server}, {"limits": {"replay_max_bytes": 12_000}}) as it:
        session, other = await it.session(), await it.session()
        primed, _ = await streamed(it, session, slow)
        for _ in range(30):
            await other.call("zoo__feed")
        assert (await taken_up(it, session, primed["id"]))[-1]["result"] == text("worked")


async def test_sessions_that_have_ended_take_nobodys_place(tmp_path):
    slow = Slow()
    async with online(tmp_path, {"zoo": slow.server}, {"limits": {"replay_max_bytes": 8192}}) as it:
        session = await it.session()
        primed, _ = await streamed(it, session, slow)
        for _ in range(10):
            other = await it.session()
            await other.call("zoo__feed")
            await other.end()
        assert (await taken_up(it, session, primed["id"]))[-1]["result"] == text("worked")


async def test_what_is_too_large_to_be_kept_pushes_nothing_out_and_says_so_when_it_is_asked_for(tmp_path):
    slow = Slow()
    async with online(tmp_path, {"zoo": slow.server}, {"limits": {"replay_max_bytes": 8192}}) as it:
        session = await it.session()
        small, rest = await streamed(it, session, slow)
        assert "worked" in rest
        slow.answer = text("a" * 8000)
        large, rest = await streamed(it, session, slow, key=71)
        assert "a" * 8000 in rest
        assert (await taken_up(it, session, small["id"]))[-1]["result"] == text("worked")
        [lost] = await taken_up(it, session, large["id"])
        assert (lost["id"], lost["error"]["code"]) == (71, types.INTERNAL_ERROR)
        assert "has run" in lost["error"]["message"]
        assert "limits.replay_max_bytes" in lost["error"]["message"]


async def test_nothing_is_kept_where_that_is_configured(tmp_path):
    slow = Slow()
    async with online(tmp_path, {"zoo": slow.server}, {"limits": {"replay_max_bytes": 0}}) as it:
        first, _ = await streamed(it, await it.session(), slow)
        assert first["data"].startswith("{")


async def test_a_stream_that_the_server_of_a_call_ends_is_ended_for_a_client_that_can_take_it_up(tmp_path):
    """A server that has its client poll (SEP-1699) does so through toolcrib too, and gets one call (R347)."""
    ended = anyio.Event()

    async def polled(call: Request) -> Answer:
        async def begun() -> AsyncGenerator[bytes]:
            yield b"id: 1\nretry: 10\ndata: \n\n"

        async def finished() -> AsyncGenerator[bytes]:
            await ended.wait()
            yield event({"jsonrpc": "2.0", "id": server.calls()[0].message["id"], "result": text("worked")})

        match call.method:
            case "tools/call":
                return Answer(200, events=begun())
            case "GET" if "last-event-id" in call.headers:
                return Answer(200, events=finished())
            case _:
                return await healthy(call)

    async with scripted(polled) as server:
        zoo = {"zoo": MemoryServer(entry={"url": server.url})}
        async with online(tmp_path, zoo, connector=open_streams) as it:
            session = await it.session()
            call = request("tools/call", {"name": "zoo__echo", "arguments": {}}, 70)
            async with it.http.stream("POST", it.url, json=call, headers={**ACCEPT, **session.headers}) as stream:
                lines = stream.aiter_lines()
                primed = await first_event(lines)
                assert [line async for line in lines if '"result"' in line] == []
            ended.set()
            assert (await taken_up(it, session, primed["id"]))[-1]["result"] == text("worked")
        assert len(server.calls()) == 1
