"""Sessions that a server over HTTP has forgotten: known by any answer, replaced once, and no call in one is lost."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import pytest

from downstream.fleets import DEADLINE_S, Watched, fleet_of, http_settings, settled, time_passes, until
from downstream.scripted_http import SESSION, Answer, Request, error, event, healthy, result, scripted
from toolcrib.auth.challenges import Challenge
from toolcrib.base.errors import DownstreamError, LoginNeeded, StartFailed
from toolcrib.downstream.http import WANTS_LOGIN, BodyBounds, HttpClient
from toolcrib.downstream.sessions import names_lost_session
from toolcrib.downstream.states import State

pytestmark = pytest.mark.anyio
AGAIN_S = 30

Refuse = Callable[[Request], Answer]


@dataclass
class Forgetful:
    """The script of a server with sessions. Whoever comes with another one is refused by ``refuse``.

    Its tool ``hold`` answers once ``let_go`` is set; ``fails`` is what its tools answer in place of a result.
    """

    refuse: Refuse
    known: set[str] = field(default_factory=set[str])
    begun: int = 0
    let_go: anyio.Event = field(default_factory=anyio.Event)
    fails: Refuse | None = None

    async def __call__(self, request: Request) -> Answer:
        match request.method:
            case "initialize":
                self.begun += 1
                self.known.add(str(self.begun))
                answer = await healthy(request)
                return Answer(answer.status, answer.body, {SESSION: str(self.begun)})
            case "server/discover" | "GET" | "DELETE":
                return await healthy(request)
            case _ if request.headers.get(SESSION) not in self.known:
                return self.refuse(request)
            case "tools/list":
                return result(request, {"tools": [_tool("echo"), _tool("hold")]})
            case "tools/call" if self.fails is not None:
                return self.fails(request)
            case "tools/call" if request.message["params"]["name"] == "hold":
                await self.let_go.wait()
        return await healthy(request)

    def forget(self) -> None:
        self.known.clear()


def _tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def refusing(status: int, code: int, message: str) -> Refuse:
    """Return what refuses with a JSON-RPC error."""
    return lambda request: error(request, code, message, status)


def bare(status: int) -> Refuse:
    """Return what refuses without a word."""
    return lambda _request: Answer(status, b"sorry", {"content-type": "text/plain"})


def nameless(request: Request) -> Answer:
    """Refuse by an error that names no request."""
    answer = error(request, -32001, "Session not found")
    return Answer(200, {**answer.body, "id": None})


def as_event(request: Request) -> Answer:
    """Refuse by an error in a stream."""
    return Answer(200, event(error(request, -32001, "Session not found").body), {"content-type": "text/event-stream"})


async def begin_anew(it: Watched) -> None:
    """Call until a call is answered, which the one after the first refused one is."""
    with suppress(DownstreamError):
        await it.call("web", "echo")
    await it.call("web", "echo")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "Invalid session"),
        (403, "Your session has expired"),
        (409, "Unknown session"),
        (410, "Session gone"),
        (412, "Missing or invalid Mcp-Session-Id"),
        (422, "No such session"),
    ],
)
async def test_a_call_that_is_refused_for_its_session_is_sent_again_in_a_new_one(status: int, message: str):
    server = Forgetful(refusing(status, -32001, message))
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        await it.call("web", "echo")
        server.forget()
        assert await it.text("web", "echo", {"n": 1}) == '{"n": 1}'
        assert [call.headers[SESSION] for call in http.calls()] == ["1", "1", "2"]


@pytest.mark.parametrize(
    "refuse",
    [
        *(refusing(status, -32001, "Session not found") for status in (200, 500, 502, 503)),
        *(bare(status) for status in (401, 403, 410, 500, 503)),
        refusing(500, -32603, "Internal error"),
        refusing(200, -32000, "Bad Request: No valid session ID provided"),
        nameless,
        as_event,
    ],
)
async def test_a_call_that_may_have_run_is_refused_once_and_the_next_begins_a_new_session(refuse: Refuse):
    server = Forgetful(refuse)
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        await it.call("web", "echo")
        server.forget()
        with pytest.raises(DownstreamError, match=r"not repeated, and the next call begins a new one$"):
            await it.call("web", "echo")
        await it.call("web", "echo")
        assert [call.headers[SESSION] for call in http.calls()] == ["1", "1", "2"]
        assert it.fleet["web"].status.state is State.READY


@pytest.mark.parametrize(
    "fails",
    [
        *(bare(status) for status in (401, 403, 410, 429, 500, 502, 503)),
        refusing(500, -32603, "The browser session was not found"),
        refusing(200, -32602, "Session not found"),
        refusing(200, -32000, "Session expired"),
        refusing(200, -32001, "Request timed out"),
        refusing(422, -32000, "invalid session id"),
        refusing(500, -32603, "Session is closed"),
    ],
)
async def test_what_a_server_refuses_in_a_session_that_lives_changes_nothing(fails: Refuse):
    server = Forgetful(bare(404), fails=fails)
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        for _ in range(3):
            with pytest.raises(DownstreamError) as caught:
                await it.call("web", "echo")
            assert "forgotten" not in str(caught.value)
        server.fails = None
        assert await it.text("web", "echo") == "{}"
        assert server.begun == 1
        assert len(http.calls()) == 4


async def test_a_ping_that_hangs_says_nothing():
    async def script(request: Request) -> Answer:
        if request.method == "ping":
            await anyio.sleep_forever()
        return Answer(500) if request.method == "tools/call" else await healthy(request)

    async with scripted(script) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(time_passes, DEADLINE_S)
            with pytest.raises(DownstreamError, match=r"HTTP 500 Internal Server Error$"):
                await it.call("web", "echo")
        assert it.states_of("web") == ["starting", "ready"]


@pytest.mark.parametrize("status", [408, 424, 429])
async def test_a_status_that_may_come_late_is_no_reason_to_send_a_call_again(status: int):
    server = Forgetful(refusing(status, -32000, "Session timed out"))
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        await it.call("web", "echo")
        server.forget()
        await begin_anew(it)
        assert [call.headers[SESSION] for call in http.calls()] == ["1", "1", "2"]


async def test_a_start_that_is_refused_is_told_as_one_and_costs_no_renewal():
    server = Forgetful(bare(503))
    is_warm = False

    async def script(request: Request) -> Answer:
        return await server(request) if is_warm or request.method == "initialize" else Answer(503)

    async with scripted(script) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        with pytest.raises(StartFailed) as caught:
            await it.call("web", "echo")
        assert "forgotten" not in str(caught.value)
        is_warm = True
        await it.answers("web", "echo")
        begun = server.begun
        server.forget()
        await begin_anew(it)
        assert server.begun == begun + 1


async def test_a_stop_while_the_next_session_begins_ends_it_although_calls_of_the_older_one_go_on():
    server, texts = Forgetful(bare(404)), list[str]()
    starting, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> Answer:
        if request.method == "initialize" and server.begun:
            starting.set()
            await go_on.wait()
        return await server(request)

    async with scripted(script) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:

        async def hold() -> None:
            texts.append(await it.text("web", "hold"))

        async def lose() -> None:
            with suppress(StartFailed):
                await it.call("web", "echo")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await until(lambda: len(http.calls()) == 1)
            server.forget()
            tasks.start_soon(lose)
            await starting.wait()
            it.fleet["web"].stop()
            go_on.set()
            assert await it.text("web", "echo") == "{}"
            assert texts == []
            server.let_go.set()
        assert texts == ["{}"]


async def test_an_older_session_that_wants_a_login_says_nothing_of_the_live_one():
    server = Forgetful(bare(404))

    async def script(request: Request) -> Answer:
        answer = await server(request)
        is_held = request.method == "tools/call" and request.message["params"]["name"] == "hold"
        return Answer(401, b"", {"www-authenticate": "Bearer"}) if is_held else answer

    async with scripted(script) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:

        async def hold() -> None:
            with pytest.raises(LoginNeeded):
                await it.call("web", "hold")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await until(lambda: len(http.calls()) == 1)
            server.forget()
            await begin_anew(it)
            server.let_go.set()
        assert it.fleet["web"].status.state is State.READY
        assert await it.text("web", "echo") == "{}"
        assert server.begun == 2


async def test_an_error_that_is_nested_too_deeply_costs_its_call_only():
    body = b'{"jsonrpc":"2.0","id":null,"error":' + b"[" * 3000
    server = Forgetful(bare(404), fails=lambda _request: Answer(200, body))
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        with pytest.raises(DownstreamError, match="Failed to parse JSON response"):
            await it.call("web", "echo")
        assert it.states_of("web") == ["starting", "ready"]


@pytest.mark.parametrize("refuse", [bare(503), refusing(410, -32001, "Session gone"), nameless])
async def test_a_server_that_forgets_every_session_gets_a_new_one_only_now_and_then(refuse: Refuse):
    server = Forgetful(refuse)
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        await it.call("web", "echo")
        server.forget()
        await begin_anew(it)
        server.forget()
        for _ in range(3):
            with pytest.raises(DownstreamError, match=r"a new session can begin in (30|29|28) s$"):
                await it.call("web", "echo")
        assert server.begun == 2
        await time_passes(AGAIN_S)
        await begin_anew(it)
        assert server.begun == 3
        assert it.fleet["web"].status.state is State.READY


async def test_a_session_that_comes_back_meanwhile_is_used_on():
    server = Forgetful(bare(503))
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        await it.call("web", "echo")
        server.forget()
        await begin_anew(it)
        server.forget()
        with pytest.raises(DownstreamError, match="a new session can begin"):
            await it.call("web", "echo")
        server.known = {"2"}
        assert await it.text("web", "echo") == "{}"
        assert server.begun == 2


@pytest.mark.parametrize("refuse", [bare(404), refusing(400, -32000, "No valid session ID provided"), bare(503)])
async def test_calls_under_way_end_in_their_session_however_long_they_take(refuse: Refuse):
    server, texts = Forgetful(refuse), list[str]()
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:

        async def hold() -> None:
            texts.append(await it.text("web", "hold", {"n": 1}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await until(lambda: len(http.calls()) == 1)
            server.forget()
            await begin_anew(it)
            await time_passes(DEADLINE_S)
            assert await it.text("web", "echo", {"n": 2}) == '{"n": 2}'
            assert texts == []
            server.let_go.set()
        assert texts == ['{"n": 1}']
        await until(
            lambda: [request.headers[SESSION] for request in http.requests if request.verb == "DELETE"] == ["1"]
        )
        # The end of the older session says nothing about the server.
        assert it.states_of("web") == ["starting", "ready", "sleeping", "starting", "ready"]
        assert await it.text("web", "echo", {"n": 3}) == '{"n": 3}'
        assert server.begun == 2


async def test_a_call_that_still_waits_for_its_turn_is_sent_in_the_new_session():
    server, texts = Forgetful(bare(503)), list[str]()
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy"), calls_in_flight=1) as it:

        async def call(name: str) -> None:
            texts.append(await it.text("web", name))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "hold")
            await until(lambda: len(http.calls()) == 1)
            tasks.start_soon(call, "echo")
            await settled()
            server.forget()
            connection = await it.fleet["web"].connection()
            connection.announcements.note_tools()
            await until(lambda: connection.is_over)
            server.let_go.set()
        assert texts == ["{}", "{}"]
        assert [call.headers[SESSION] for call in http.calls()] == ["1", "2"]


async def test_a_list_that_meets_a_lost_session_begins_a_new_one_too():
    server = Forgetful(bare(503))
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        await it.call("web", "echo")
        server.forget()
        connection = await it.fleet["web"].connection()
        connection.announcements.note_tools()
        await until(lambda: connection.is_over)
        assert await it.text("web", "echo") == "{}"
        assert server.begun == 2


async def test_a_token_of_the_config_that_is_refused_for_a_lost_session_goes_on_in_a_new_one():
    """The server calls it a want of login, which nobody could mend."""

    def refuse(_request: Request) -> Answer:
        return Answer(401, b"", {"www-authenticate": 'Bearer error="invalid_token"'})

    server = Forgetful(refuse)
    settings = {"headers": {"Authorization": "Bearer old"}, "protocol": "legacy"}
    async with scripted(server) as http, fleet_of(http_settings(http.url, **settings)) as it:
        await it.call("web", "echo")
        server.forget()
        with pytest.raises(DownstreamError, match=r"HTTP 401 .*, and the next call begins a new one$"):
            await it.call("web", "echo")
        assert await it.text("web", "echo") == "{}"
        assert server.begun == 2


class Refused:
    """A login that was refused, and cannot be renewed."""

    is_expected = True

    def __init__(self) -> None:
        self.renewals = 0

    def authorize(self, request: httpx2.Request) -> str:
        request.headers["authorization"] = "Bearer old"
        return "old"

    async def renew(self, sent: str, challenge: Challenge) -> bool:
        assert (sent, challenge.status) == ("old", 401)
        self.renewals += 1
        return False


async def test_where_a_login_can_be_had_it_is_tried_first_and_its_want_is_told():
    async def script(_request: Request) -> Answer:
        return Answer(401, {"error": "invalid_token", "error_description": "Session expired"})

    login, message = Refused(), {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}
    async with scripted(script) as http:
        async with HttpClient(http.url, BodyBounds(10_000, 1000), "mark", login=login) as client:
            answer = await client.post(http.url, json=message, headers={SESSION: "first"})
        assert answer.json()["error"]["code"] == WANTS_LOGIN
        assert login.renewals == 1
        assert [request.method for request in http.requests] == ["tools/call"]


async def test_an_answer_without_an_id_is_the_answer_to_what_it_came_with():
    """Without its id the SDK would wait for another one."""
    server = Forgetful(bare(404), fails=lambda request: Answer(200, {**error(request, -7, "no").body, "id": None}))
    async with scripted(server) as http, fleet_of(http_settings(http.url, protocol="legacy")) as it:
        with pytest.raises(DownstreamError, match=r"^no$") as caught:
            await it.call("web", "echo")
        assert caught.value.code == -7


@pytest.mark.parametrize(
    "text",
    [
        "Session not found",
        "Session has been terminated",
        "Invalid or missing session ID",
        "Bad Request: No valid session ID provided",
        "Bad Request: Server not initialized",
        '{"error":"session expired"}',
        "Unknown session",
        "No transport found for sessionId",
        "Could not find session",
        "Session abc-123 does not exist",
        "The session doesn\u2019t exist",
        "MCP session expired",
        "Missing Mcp-Session-Id header",
        "Invalid `mcp-session-id`",
        "<h1>Session expired</h1>",
        "The requested session was not found",
        '{"error":"session_not_found"}',
        "SESSION_EXPIRED",
        'Session "abc" not found',
        "Session with ID 12.34 not found",
        "There is no session with this id",
        "Request for unknown session",
        "Your session has expired. Please reconnect.",
    ],
)
def test_what_names_a_lost_session(text: str):
    assert names_lost_session(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Service unavailable",
        "Too many sessions",
        "Session limit exceeded",
        "A session is already active",
        "The browser session was not found",
        "Could not find database session",
        "Your session does not allow this tool",
        "Failed to create a session",
        "Invalid session name: must be alphanumeric",
        "Unknown session type",
        f"{'x' * 5000}. Session not found",
    ],
)
def test_what_names_none(text: str):
    assert not names_lost_session(text)
