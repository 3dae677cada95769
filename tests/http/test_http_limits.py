"""What clients may take before anybody knows who they are: connections, time, sessions; and what they are told."""

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream

from fakes.memory import Call
from fakes.menu import tool
from online import HttpSession, Online, online, request
from toolcrib.base.model import JsonObject
from toolcrib.jsonrpc import sdk_http
from worlds import DEADLINE_S, MemoryServer, passing, settled, text, time_passes, until

pytestmark = pytest.mark.anyio

HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = HEAD + b"Accept: application/json, text/event-stream\r\nContent-Length: 1000\r\n\r\n{"
HELLO = request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})
SOON = {"http": {"head_timeout_s": DEADLINE_S, "body_timeout_s": DEADLINE_S}}


def tokens(*subjects: str, **more: int) -> dict[str, object]:
    return {"http": {"tokens": [{"token": f"token-{who}", "subject": who} for who in subjects], **more}}


@asynccontextmanager
async def connected(it: Online) -> AsyncGenerator[ByteStream]:
    url = httpx2.URL(it.url)
    async with await anyio.connect_tcp(url.host, url.port or 0) as stream:
        yield stream


async def ended(stream: ByteStream) -> bytes:
    """Wait until the server closes the connection; return what came before."""
    came = b""
    with anyio.fail_after(DEADLINE_S):
        while True:
            try:
                came += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return came


# -- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", HEAD, BODY], ids=["nothing", "half a head", "half a body"])
@pytest.mark.parametrize("more", [{}, tokens("ann")["http"]], ids=["open", "with tokens"])
async def test_a_request_that_does_not_arrive_is_not_waited_for(tmp_path, sent, more):
    async with online(tmp_path, {}, {"http": {**SOON["http"], **more}}) as it, connected(it) as stream:
        if sent:
            await stream.send(sent)
        await time_passes(DEADLINE_S)
        answer = await ended(stream)
        assert answer == b"" or b" 401 " in answer


@pytest.mark.parametrize("sent", [HEAD, BODY], ids=["head", "body"])
async def test_single_bytes_now_and_then_buy_no_time(tmp_path, sent):
    async with online(tmp_path, {}, SOON) as it, connected(it) as stream:
        await stream.send(sent)
        with pytest.raises(anyio.BrokenResourceError):
            await trickle(stream, DEADLINE_S + 3)  # that it is closed is noticed when the next byte but one is sent


async def trickle(stream: ByteStream, seconds: int) -> None:
    for _ in range(seconds):
        await time_passes(1)
        await stream.send(b"x")


async def test_a_second_request_on_a_connection_has_the_same_deadline(tmp_path):
    async with online(tmp_path, {}, SOON) as it, connected(it) as stream:
        await stream.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea")
        await time_passes(DEADLINE_S)
        assert (await ended(stream)).endswith(b"ok\n")


async def test_a_long_answer_and_a_stream_are_no_silence_of_the_client(tmp_path):
    async def slow(_call):
        await anyio.sleep(2 * DEADLINE_S)
        return text("done")

    servers = {"zoo": MemoryServer([tool("feed")], answers={"feed": slow})}
    async with online(tmp_path, servers, SOON) as it:
        session = await it.session()
        async with session.own_stream() as heard:
            async with passing(2 * DEADLINE_S):
                answers = await session.call("zoo__feed")
            assert answers[-1]["result"]["content"] == [{"type": "text", "text": "done"}]
            await it.world["zoo"].change(tool("feed", "Another."))
            await until(lambda: bool(heard))


# -- connections ---------------------------------------------------------------------------------


async def test_silent_connections_make_room_for_those_that_ask(tmp_path):
    async with (
        online(tmp_path, {"zoo": [tool("feed")]}, {"http": {"max_connections": 6}}) as it,
        AsyncExitStack() as stack,
    ):
        session = await it.session()
        silent = [await stack.enter_async_context(connected(it)) for _ in range(30)]
        for _ in range(3):
            assert await session.names()
            async with connected(it) as stream:
                await stream.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert b" 200 " in await ended(stream)
        for stream in silent[:20]:
            assert await ended(stream) == b""


async def test_a_request_that_is_being_answered_keeps_its_connection(tmp_path):
    go = anyio.Event()

    async def waiting(_call):
        await go.wait()
        return text("done")

    servers = {"zoo": MemoryServer([tool("feed")], answers={"feed": waiting})}
    async with online(tmp_path, servers, {"http": {"max_connections": 2}}) as it, AsyncExitStack() as stack:
        session = await it.session()
        answers = []

        async def call() -> None:
            answers.extend(await session.call("zoo__feed"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await until(lambda: bool(it.world["zoo"].calls()))
            for _ in range(10):
                await stack.enter_async_context(connected(it))
            go.set()
        assert answers[-1]["result"]["content"] == [{"type": "text", "text": "done"}]


# -- pace ----------------------------------------------------------------------------------------

NOTE = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
TIMES = FLOOD_S = 10
FLOOD = {"limits": {"notifications_per_s": 1, "flood_s": FLOOD_S}}


async def note(it: Online, session: HttpSession, answers: list[int], times: int = 1) -> None:
    """Notify so many times, one after the other; add how each was answered."""
    answers.extend([(await it.post(NOTE, **session.headers)).status_code for _ in range(times)])


@asynccontextmanager
async def noting(it: Online, session: HttpSession, each: int = 1) -> AsyncGenerator[list[int]]:
    """Have so many notify at once; what they are answered is in the list."""
    answers: list[int] = []
    async with anyio.create_task_group() as tasks:
        for _ in range(TIMES):
            tasks.start_soon(note, it, session, answers, each)
        yield answers


def errors_in(log: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged as an error: by us, by the SDK or by the web server."""
    return [each.getMessage() for each in log.records if each.levelno >= logging.ERROR]


async def test_a_session_that_notifies_too_fast_is_slowed_down(tmp_path):
    async with online(tmp_path, {}, {"limits": {"notifications_per_s": 1}}) as it:
        session = await it.session()
        async with noting(it, session) as answers:
            await settled()
            assert len(answers) < TIMES  # no more than a second's worth may come at once
            await time_passes(TIMES + 1)
        assert answers == [202] * TIMES
        assert await session.names()


async def test_a_session_that_notifies_too_fast_for_too_long_is_ended(tmp_path, caplog):
    async with online(tmp_path, {}, FLOOD) as it:
        flooding, calm = await it.session(), await it.session()
        async with noting(it, flooding) as answers:
            await time_passes(FLOOD_S / 2)
            assert set(answers) == {202}
            await time_passes(FLOOD_S)
        assert answers[-1] == 404
        assert await status(it, calm) == 200
    assert "ended, because its client sent more than 1 notifications a second" in caplog.text
    assert errors_in(caplog) == []


async def test_notifications_that_wait_while_their_session_ends_are_not_accepted(tmp_path, caplog):
    async with online(tmp_path, {}, FLOOD) as it:
        flooding = await it.session()
        async with noting(it, flooding, each=2) as answers:
            await time_passes(FLOOD_S / 2)
            await time_passes(FLOOD_S)
        assert set(answers) == {202, 404}
        assert await status(it, flooding) == 404
    assert caplog.text.count("is ended, because its client") == 1
    assert errors_in(caplog) == []


# -- sessions ------------------------------------------------------------------------------------


async def status(it: Online, session: HttpSession) -> int:
    """Return how a request of a session is answered: 404 where it has ended."""
    return (await it.post(request("tools/list"), **session.headers)).status_code


async def test_one_subject_cannot_take_all_sessions(tmp_path):
    async with online(tmp_path, {}, tokens("ann", "bob", max_sessions=6)) as it, AsyncExitStack() as stack:
        mine = [await it.session("token-ann") for _ in range(3)]
        for session in mine:
            await stack.enter_async_context(session.own_stream())
        refused = await it.post(HELLO, authorization="Bearer token-ann")
        assert refused.status_code == 429
        assert refused.json()["error"]["message"].startswith("Too many open sessions of this token's subject")
        assert await (await it.session("token-bob")).names()
        await mine[0].end()
        await it.session("token-ann")
        assert [await session.names() for session in mine[1:]]


async def test_the_session_that_its_subject_has_not_used_for_longest_makes_room_for_a_new_one(tmp_path):
    async with online(tmp_path, {}, tokens("ann", "bob", max_sessions=6)) as it:
        bobs = await it.session("token-bob")
        first, second, third = [await it.session("token-ann") for _ in range(3)]
        assert await first.names()  # so that the second is the one used longest ago
        async with third.own_stream():
            fourth = await it.session("token-ann")
            assert [await status(it, each) for each in (first, second, third, fourth, bobs)] == [
                200,
                404,
                200,
                200,
                200,
            ]


async def test_a_subject_that_opens_sessions_without_end_keeps_its_newest_and_takes_nobody_elses(tmp_path):
    async with online(tmp_path, {}, tokens("ann", "bob", max_sessions=6)) as it:
        bobs = [await it.session("token-bob") for _ in range(2)]
        anns = [await it.session("token-ann") for _ in range(20)]
        assert [await status(it, each) for each in anns] == [404] * 17 + [200] * 3
        assert [await status(it, each) for each in bobs] == [200, 200]
        await until(lambda: len(list(it.world.serving.sessions.open())) == 5)


async def test_where_all_sessions_are_taken_the_subject_with_most_of_them_makes_room(tmp_path):
    quota = tokens("ann", "bob", "cid", max_sessions=5, max_sessions_per_subject=3)
    async with online(tmp_path, {}, quota) as it:
        anns = [await it.session("token-ann") for _ in range(3)]
        bobs = [await it.session("token-bob") for _ in range(2)]
        cids = await it.session("token-cid")
        assert [await status(it, each) for each in (*anns, *bobs, cids)] == [404, 200, 200, 200, 200, 200]


async def test_who_has_as_many_sessions_as_the_one_who_asks_makes_no_room(tmp_path):
    quota = tokens("ann", "bob", max_sessions=2, max_sessions_per_subject=2)
    async with online(tmp_path, {}, quota) as it:
        anns, bobs = await it.session("token-ann"), await it.session("token-bob")
        async with bobs.own_stream():
            refused = await it.post(HELLO, authorization="Bearer token-bob")
            assert refused.status_code == 503
        assert [await status(it, each) for each in (anns, bobs)] == [200, 200]


async def test_sessions_that_are_being_opened_count_too(tmp_path):
    async with online(tmp_path, {}, tokens("ann", max_sessions_per_subject=2)) as it:
        answers: list[httpx2.Response] = []

        async def hello() -> None:
            answers.append(await it.post(HELLO, authorization="Bearer token-ann"))

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(hello)
        assert {answer.status_code for answer in answers} <= {200, 429}
        ids = [answer.headers["mcp-session-id"] for answer in answers if answer.status_code == 200]
        listed = [
            await it.post(request("tools/list"), authorization="Bearer token-ann", mcp_session_id=key) for key in ids
        ]
        assert sum(answer.status_code != 404 for answer in listed) == 2


async def test_a_single_subject_may_have_all_sessions_and_needs_none_in_the_newer_era(tmp_path):
    async with online(tmp_path, {}, tokens("ann", max_sessions=2), listing="auto") as it:
        for _ in range(2):
            await it.session("token-ann")
        for _ in range(3):
            answer = await it.modern("tools/list", authorization="Bearer token-ann")
            assert answer.status_code == 200


# -- health --------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [{}, tokens("ann")], ids=["open", "with tokens"])
async def test_health_and_readiness_are_told_to_anybody_and_nothing_else(tmp_path, config):
    async with online(tmp_path, {"zoo": [tool("feed")]}, config) as it:
        base = it.url.removesuffix("/mcp")
        for path, said in (("/healthz", "ok\n"), ("/readyz", "ready\n")):
            answer = await it.http.get(base + path, headers={"host": "10.0.0.1"})
            assert (answer.status_code, answer.text) == (200, said)
            assert (await it.http.post(base + path)).status_code == 405


async def test_it_is_not_ready_while_answers_wait_for_a_first_list(tmp_path):
    slow = MemoryServer([tool("feed")], hangs_at="tools/list")
    async with online(tmp_path, {"zoo": slow}, {"limits": {"first_index_wait_s": 60}}, wait=False) as it:
        answer = await it.http.get(it.url.removesuffix("/mcp") + "/readyz")
        assert (answer.status_code, answer.text) == (503, "not ready\n")
        assert (await it.http.get(it.url.removesuffix("/mcp") + "/healthz")).status_code == 200


# -- clients that go -----------------------------------------------------------------------------


def hanging() -> dict[str, MemoryServer]:
    async def hang(_call: Call) -> JsonObject:
        await anyio.sleep_forever()
        return {}

    return {"zoo": MemoryServer([tool("feed")], answers={"feed": hang})}


def cancelled(it: Online) -> bool:
    received = it.world["zoo"].received
    told = [message["params"]["requestId"] for message in received if message["method"] == "notifications/cancelled"]
    return any(str(key).startswith("call-") for key in told)


async def call_and_leave(it: Online, session: HttpSession) -> None:
    """Begin a call, and drop its connection once the server has it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.call, "zoo__feed")
        await until(lambda: bool(it.world["zoo"].calls()))
        await time_passes(sdk_http.AT_ONCE_S)  # from then on it is answered by a stream
        tasks.cancel_scope.cancel()


async def test_the_calls_of_a_session_are_cancelled_when_its_client_stays_away(tmp_path):
    async with online(tmp_path, hanging(), {"http": {"absence_s": DEADLINE_S}}) as it:
        session = await it.session()
        await call_and_leave(it, session)
        await settled()
        assert not cancelled(it)
        await time_passes(DEADLINE_S)
        assert cancelled(it)


async def test_a_client_that_is_still_heard_of_keeps_its_calls(tmp_path):
    async with online(tmp_path, hanging(), {"http": {"absence_s": DEADLINE_S}}) as it:
        session = await it.session()
        async with session.own_stream():
            await call_and_leave(it, session)
            await time_passes(2 * DEADLINE_S)
            assert not cancelled(it)
        await time_passes(DEADLINE_S)
        assert cancelled(it)


async def test_without_a_session_a_call_ends_with_its_connection(tmp_path):
    async with online(tmp_path, hanging(), listing="auto") as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.modern, "tools/call", {"name": "zoo__feed", "arguments": {}})
            await until(lambda: bool(it.world["zoo"].calls()))
            tasks.cancel_scope.cancel()
        await until(lambda: cancelled(it))
