"""Servers on HTTP: reached in both eras and by SSE, found again after a restart, and never asked twice for one call."""

import gc
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from typing import Any

import anyio
import anyio.to_thread
import pytest

from downstream.fleets import DEADLINE_S, fleet_of, http_settings, passing, time_passes, until
from downstream.scripted_http import SESSION, Answer, Request, error, event, healthy, result, scripted
from fakes.http_server import HttpServer, http_server
from toolcrib.base.errors import CallTimeout, ConnectionLost, DownstreamError, LoginNeeded, StartFailed
from toolcrib.downstream.states import State

pytestmark = pytest.mark.anyio

WAYS: list[Any] = [
    pytest.param({}, {"protocol": "legacy"}, "legacy", id="legacy"),
    pytest.param({"json_response": True}, {"protocol": "legacy"}, "legacy", id="legacy JSON"),
    pytest.param({}, {}, "modern", id="modern"),
    pytest.param({"json_response": True}, {}, "modern", id="modern JSON"),
    # The SDK's own SSE server leaves streams open when it is stopped.
    pytest.param(
        {"sse": True},
        {"sse": True},
        "modern",
        id="SSE",
        marks=pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    ),
]
EVERY_WAY = pytest.mark.parametrize(("served", "reached", "era"), WAYS)
MAIN_WAYS = pytest.mark.parametrize(("served", "reached", "era"), [WAYS[0], WAYS[2], WAYS[4]])
RESTARTS = pytest.mark.parametrize(
    ("served", "reached", "era"),
    [
        WAYS[2],
        *[pytest.param(*way.values, id=way.id, marks=[*way.marks, pytest.mark.slow]) for way in (WAYS[0], WAYS[4])],
    ],
)
"""Those whose streams are open when the fake stops take it a second to stop."""


class Address:
    """A fake server on one port that can be switched off and on."""

    def __init__(self, served: dict[str, bool]) -> None:
        self._served, self._stack, self._port = served, ExitStack(), 0
        self.running: list[HttpServer] = []

    @property
    def url(self) -> str:
        return self.running[-1].url

    async def on(self) -> None:
        server = http_server(**self._served, port=self._port)
        self.running.append(await anyio.to_thread.run_sync(self._stack.enter_context, server))
        self._port = self.running[-1].port

    async def off(self) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._stack.close)
        gc.collect()


@asynccontextmanager
async def address(served: dict[str, bool]) -> AsyncGenerator[Address]:
    it = Address(served)
    await it.on()
    try:
        yield it
    finally:
        await it.off()


# -- the ways there ------------------------------------------------------------------------------


@pytest.mark.sampled
@EVERY_WAY
async def test_tools_are_listed_and_called_with_progress_errors_and_the_headers_of_the_entry(
    served: Any, reached: Any, era: str
):
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    headers = {"Authorization": "Bearer s3cr3t", "X-Team": "blue"}
    async with address(served) as server:
        async with fleet_of(http_settings(server.url, headers=headers, **reached)) as it:
            assert await it.text("web", "echo", {"text": "hé"}) == '{"text": "h\\u00e9"}'
            assert it.lists == [("web", ["echo", "sleep", "progress"], era)]
            await it.call("web", "progress", {"steps": 3}, on_progress)
            assert seen == ([] if served.get("json_response") else [1, 2, 3])
            connection = await it.fleet["web"].connection()
            with pytest.raises(DownstreamError, match="Unknown tool: nothing"):
                await connection.request("tools/call", {"name": "nothing", "arguments": {}})
        requests = server.running[0].headers
        assert len(requests) >= 5
        assert {(each["authorization"], each["x-team"]) for each in requests} == {("Bearer s3cr3t", "blue")}


async def test_requests_of_the_modern_era_carry_their_routing_headers():
    async with address({}) as server:
        async with fleet_of(http_settings(server.url)) as it:
            await it.call("web", "echo")
        last = server.running[0].headers[-1]
    assert (last["mcp-method"], last["mcp-name"]) == ("tools/call", "echo")
    assert last["mcp-protocol-version"] == "2026-07-28"
    assert SESSION not in last


async def test_arguments_that_the_server_wants_in_headers_are_mirrored_there():
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    async def script(request: Request) -> Answer | None:
        if request.method == "tools/list":
            return result(request, {**MODERN, "tools": [{"name": "query", "inputSchema": schema}, {"name": "odd"}]})
        return await announcing(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        await it.call("web", "query", {"region": "eu"})
        assert server.calls()[0].headers["mcp-param-region"] == "eu"


# -- deadlines -----------------------------------------------------------------------------------


@pytest.mark.sampled
@MAIN_WAYS
async def test_a_call_without_an_answer_ends_at_its_deadline(served: Any, reached: Any, era: str):
    options = {"call_timeout_s": DEADLINE_S, **reached}
    async with address(served) as server, fleet_of(http_settings(server.url, **options)) as it:
        async with passing(DEADLINE_S, lambda: server.running[0].reached("sleep")):
            with pytest.raises(CallTimeout, match="'web' did not answer 'sleep' within"):
                await it.call("web", "sleep", {"seconds": 600})
        await it.call("web", "echo")


@pytest.mark.parametrize("silent_at", ["server/discover", "initialize", "tools/list"])
async def test_a_server_that_keeps_silent_is_given_up_at_its_deadline(silent_at: str):
    reached = anyio.Event()

    async def script(request: Request) -> Answer | None:
        if request.method == silent_at:
            reached.set()
            await anyio.sleep_forever()
        return await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url, connect_timeout_s=DEADLINE_S)) as it:
        async with passing(DEADLINE_S, reached.wait):
            with pytest.raises(StartFailed, match="'web' could not be started: it did not answer within"):
                await it.call("web", "echo")


async def test_an_address_that_does_not_even_connect_is_given_up_at_its_deadline():
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=1) as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        settings = http_settings(f"http://127.0.0.1:{port}/sse", sse=True, connect_timeout_s=DEADLINE_S)
        async with fleet_of(settings) as it:
            async with passing(DEADLINE_S, lambda: it.is_in(State.STARTING, "web")):
                with pytest.raises(StartFailed, match="it did not answer within"):
                    await it.call("web", "echo")


async def test_a_server_that_does_not_let_go_of_its_session_holds_up_nobody_for_long():
    leaving = anyio.Event()

    async def script(request: Request) -> Answer | None:
        if request.verb == "DELETE":
            leaving.set()
            await anyio.sleep_forever()
        return await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url, idle_stop_s=DEADLINE_S)) as it:
        await it.call("web", "echo")
        await time_passes(DEADLINE_S)
        await it.is_in(State.SLEEPING, "web")
        await leaving.wait()
        async with passing(DEADLINE_S):
            assert await it.text("web", "echo") == "{}"


# -- restarts ------------------------------------------------------------------------------------


@RESTARTS
async def test_a_server_that_was_restarted_between_two_calls_is_found_again(served: Any, reached: Any, era: str):
    async with address(served) as server, fleet_of(http_settings(server.url, **reached)) as it:
        await it.call("web", "echo")
        await server.off()
        await server.on()
        assert await it.text("web", "echo", {"n": 2}) == '{"n": 2}'
        assert await it.text("web", "echo", {"n": 3}) == '{"n": 3}'


@RESTARTS
async def test_a_server_that_is_switched_off_is_named_and_found_again_later(served: Any, reached: Any, era: str):
    async with address(served) as server, fleet_of(http_settings(server.url, **reached)) as it:
        await it.call("web", "echo")
        await server.off()
        if served:  # its stream is known to be gone before a call tries it
            await it.is_in(State.SLEEPING, "web")
        with pytest.raises(StartFailed, match=r"'web' could not be started: cannot connect to http://127.0.0.1"):
            await it.call("web", "echo")
        assert it.fleet["web"].status.state is State.FAILED
        await server.on()
        assert await it.text("web", "echo", {"n": 2}) == '{"n": 2}'


def lost_by(status: int, code: int, message: str) -> Callable[[Request], Any]:
    """Return a script of a server that does not know the session ``first`` any more, and opens ``second`` ones."""

    async def script(request: Request) -> Answer | None:
        if request.headers.get(SESSION) == "first":
            return error(request, code, message, status)
        answer = await healthy(request)
        return Answer(answer.status, answer.body, {SESSION: "second"} if request.method == "initialize" else {})

    return script


LOST_SESSIONS = pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, -32600, "Session not found"),
        (404, -32001, "whatever"),
        (400, -32000, "Bad Request: No valid session ID provided"),
        (400, -32000, "Bad Request: Server not initialized"),
    ],
)


@pytest.mark.sampled
@LOST_SESSIONS
async def test_a_call_in_a_session_that_has_ended_is_sent_again_in_a_new_one(status: int, code: int, message: str):
    async with scripted(healthy) as server, fleet_of(http_settings(server.url, protocol="legacy")) as it:
        await it.call("web", "echo")
        server.script = lost_by(status, code, message)
        assert await it.text("web", "echo", {"n": 1}) == '{"n": 1}'
        assert [call.headers[SESSION] for call in server.calls()] == ["first", "first", "second"]


async def test_many_calls_in_a_session_that_has_ended_open_one_new_session():
    async with scripted(healthy) as server, fleet_of(http_settings(server.url, protocol="legacy")) as it:
        await it.call("web", "echo")
        server.script = lost_by(404, -32600, "Session not found")
        texts: list[str] = []

        async def call() -> None:
            texts.append(await it.text("web", "echo"))

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(call)
        assert len(texts) == 8
        assert [request.method for request in server.requests].count("initialize") == 2


@pytest.mark.parametrize("code", [-39_401, -39_403, -39_404, -39_405])
async def test_a_server_that_answers_with_our_codes_is_believed_nothing_and_called_once(code: int):
    """Who could say "nothing ran" of a call that ran would have it run twice."""

    async def script(request: Request) -> Answer | None:
        if request.method != "tools/call":
            return await healthy(request)
        return error(request, code, "done, all the same", data={"toolcrib": "0" * 64, "wants_more": True})

    async with scripted(script) as server, fleet_of(http_settings(server.url, protocol="legacy")) as it:
        with pytest.raises(DownstreamError, match="done, all the same") as caught:
            await it.call("web", "echo")
        assert (caught.value.code, len(server.calls())) == (code, 1)
        assert caught.value.data == {"toolcrib": "0" * 64, "wants_more": True}
        assert it.fleet["web"].status.state is State.READY


async def test_a_connection_that_breaks_in_a_call_may_have_run_it_and_is_not_tried_again():
    async def script(request: Request) -> Answer | None:
        return None if request.method == "tools/call" else await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(ConnectionLost, match=r"went away during the call \(the connection to http://127.*broke"):
            await it.call("web", "echo")
        assert len(server.calls()) == 1
        server.script = healthy
        assert await it.text("web", "echo") == "{}"
        assert it.states_of("web") == ["starting", "ready"]


async def test_a_stream_that_breaks_in_a_call_may_have_run_it_and_is_not_tried_again():
    async def script(request: Request) -> Answer | None:
        if request.method == "tools/call":
            return Answer(200, b": working\n\n", {"content-type": "text/event-stream", "content-length": "999"})
        return await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(ConnectionLost, match="went away during the call"):
            await it.call("web", "echo")
        assert len(server.calls()) == 1
        server.script = healthy
        assert await it.text("web", "echo") == "{}"


# -- the older transport -------------------------------------------------------------------------


class Older:
    """The script of a server on the older SSE transport. ``refusal`` is what a posted call gets from now on."""

    def __init__(self) -> None:
        self.refusal: Answer | None = None
        self.sessions = 0
        self._events: Any = None

    async def __call__(self, request: Request) -> Answer | None:
        if request.verb == "GET":
            self.sessions += 1
            self._events, to_client = anyio.create_memory_object_stream[bytes](10)
            await self._events.send(event(f"/messages?session_id={self.sessions}", "endpoint"))
            return Answer(200, events=_closing(to_client, self._events))
        if request.method == "tools/call" and self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            return refusal
        if "id" in request.message:
            await self._events.send(event((await healthy(request)).body))
        return Answer(202)


async def _closing(*streams: Any) -> AsyncGenerator[bytes]:
    async with streams[0], streams[1]:
        async for item in streams[0]:
            yield item


@pytest.mark.parametrize(
    "refusal", [Answer(404, b"Could not find session"), Answer(400, b"No transport found for sessionId")]
)
async def test_an_older_server_that_does_not_know_the_session_any_more_gets_a_new_one(refusal: Answer):
    async with scripted(script := Older()) as server, fleet_of(http_settings(server.url, sse=True)) as it:
        await it.call("web", "echo")
        script.refusal = refusal
        assert await it.text("web", "echo", {"n": 1}) == '{"n": 1}'
        assert script.sessions == 2
        assert len(server.calls()) == 3


async def test_an_older_server_that_refuses_all_in_a_session_gets_a_new_one():
    is_gone = False

    async def script(request: Request) -> Answer | None:
        refuses = is_gone and older.sessions == 1 and request.verb == "POST"
        return Answer(503) if refuses else await older(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url, sse=True)) as it:
        older = Older()
        await it.call("web", "echo")
        is_gone = True
        with pytest.raises(DownstreamError, match="the next call begins a new one"):
            await it.call("web", "echo")
        assert await it.text("web", "echo", {"n": 1}) == '{"n": 1}'
        assert older.sessions == 2


async def test_an_older_server_that_refuses_a_call_is_told_at_once_and_the_connection_stays():
    async with scripted(script := Older()) as server, fleet_of(http_settings(server.url, sse=True)) as it:
        await it.call("web", "echo")
        script.refusal = Answer(500, b"<html>")
        with pytest.raises(DownstreamError, match="HTTP 500 Internal Server Error"):
            await it.call("web", "echo")
        assert await it.text("web", "echo", {"n": 1}) == '{"n": 1}'
        assert script.sessions == 1


# -- subscriptions -------------------------------------------------------------------------------

MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


async def announcing(request: Request) -> Answer | None:
    """Answer as a modern server whose list may change, but without any subscription."""
    match request.method:
        case "server/discover":
            facts = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
            return result(request, {**MODERN, **facts})
        case "tools/list":
            return result(request, {**MODERN, "tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        case "subscriptions/listen":
            return error(request, -32601, "Method not found")
    return result(request, {"resultType": "complete", "content": []})


async def test_a_subscription_that_ends_is_held_again_and_the_list_fetched_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.connection._LISTEN_AGAIN_S", 0.02)

    async def events(request: Request) -> AsyncGenerator[bytes]:
        meta = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
        params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
        yield event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
        yield event(result(request, {"resultType": "complete"}).body)

    async def script(request: Request) -> Answer | None:
        if request.method == "subscriptions/listen":
            return Answer(200, events=events(request))
        return await announcing(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        await it.call("web", "echo")
        await until(lambda: len(it.lists) >= 3)
        methods = [request.method for request in server.requests]
        assert methods[:3] == ["server/discover", "subscriptions/listen", "tools/list"]
        assert methods.count("subscriptions/listen") >= 3


async def test_a_subscription_that_is_refused_is_done_without():
    async with scripted(announcing) as server, fleet_of(http_settings(server.url)) as it:
        await it.call("web", "echo")
        assert it.states_of("web") == ["starting", "ready"]
        assert [request.method for request in server.requests].count("subscriptions/listen") == 1


# -- wrong answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("sse", [False, True])
async def test_an_address_where_nobody_listens_is_named_without_its_secrets(*, sse: bool):
    settings = http_settings("http://user:s3cr3t@127.0.0.1:9/mcp?key=s3cr3t", sse=sse)
    async with fleet_of(settings) as it:
        with pytest.raises(StartFailed) as caught:
            await it.call("web", "echo")
    said = (
        "The server 'web' could not be started: cannot connect to http://127.0.0.1:9/mcp (All connection attempts fail"
    )
    assert str(caught.value).startswith(said)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("sse", [False, True])
async def test_a_host_that_does_not_exist_is_named(*, sse: bool):
    async with fleet_of(http_settings("http://no-such-host.invalid/mcp", sse=sse)) as it:
        with pytest.raises(StartFailed, match=r"cannot connect to http://no-such-host\.invalid/mcp"):
            await it.call("web", "echo")


@pytest.mark.parametrize("sse", [False, True])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_login_says_what_to_check(status: int, *, sse: bool):
    async def script(request: Request) -> Answer | None:
        return Answer(status, b"<html>no</html>", {"content-type": "text/html"})

    async with scripted(script) as server, fleet_of(http_settings(server.url, sse=sse)) as it:
        with pytest.raises(StartFailed, match=rf"HTTP {status} \w+\. Check the headers in its config entry\."):
            await it.call("web", "echo")


OAUTH = {"www-authenticate": 'Bearer resource_metadata="https://host/.well-known/oauth-protected-resource"'}


@pytest.mark.parametrize("sse", [False, True])
async def test_a_challenge_names_oauth_and_says_what_can_be_done(*, sse: bool):
    async def script(request: Request) -> Answer | None:
        return Answer(401, b"", OAUTH)

    async with scripted(script) as server, fleet_of(http_settings(server.url, sse=sse)) as it:
        with pytest.raises(StartFailed) as caught:
            await it.call("web", "echo")
        failure = it.fleet["web"].status.failure
    assert failure is not None
    assert failure.reason.endswith("HTTP 401 Unauthorized (it requires a login by OAuth)")
    assert failure.remedy == "Run `toolcrib login web` in a terminal."
    assert str(caught.value) == f"The server 'web' requires a login, so nothing ran. {failure.remedy}"


@pytest.mark.parametrize("sse", [False, True])
async def test_a_challenge_to_a_token_of_the_config_says_what_can_be_done(*, sse: bool):
    async def script(request: Request) -> Answer | None:
        return Answer(401, b"", OAUTH)

    headers = {"authorization": "Bearer old"}
    async with scripted(script) as server, fleet_of(http_settings(server.url, headers=headers, sse=sse)) as it:
        with pytest.raises(StartFailed, match="Get a token from whoever runs the server"):
            await it.call("web", "echo")
        assert it.states_of("web") == ["starting", "failed"]


async def test_a_challenge_in_a_call_says_what_can_be_done():
    async def script(request: Request) -> Answer | None:
        return Answer(401, b"", OAUTH) if request.method == "tools/call" else await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(LoginNeeded, match=r"nothing ran\. Run `toolcrib login web` in a terminal\."):
            await it.call("web", "echo")
        await it.is_in(State.NEEDS_LOGIN, "web")


async def test_a_challenge_in_a_call_to_a_token_of_the_config_is_an_error_of_the_server():
    async def script(request: Request) -> Answer | None:
        return Answer(401, b"", OAUTH) if request.method == "tools/call" else await healthy(request)

    headers = {"Authorization": "Bearer old"}
    async with scripted(script) as server, fleet_of(http_settings(server.url, headers=headers)) as it:
        with pytest.raises(DownstreamError, match=r"by OAuth\)\. Get a token from whoever runs the server") as caught:
            await it.call("web", "echo")
    assert caught.value.code == -32603


@pytest.mark.parametrize("status", [404, 500, 503])
async def test_a_status_in_a_call_is_an_error_of_the_server_and_no_reason_to_try_again(status: int):
    async def script(request: Request) -> Answer | None:
        if request.method == "tools/call":
            return Answer(status, b"sorry", {"content-type": "text/plain"})
        answer = await healthy(request)
        return Answer(answer.status, answer.body)  # no session

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        for _ in range(2):
            with pytest.raises(DownstreamError, match=rf"HTTP {status} "):
                await it.call("web", "echo")
        assert len(server.calls()) == 2
        assert it.states_of("web") == ["starting", "ready"]


async def test_an_answer_that_is_too_large_is_refused_and_the_connection_stays():
    async def script(request: Request) -> Answer | None:
        if request.message.get("params", {}).get("arguments", {}).get("big"):
            return result(request, {"content": [{"type": "text", "text": "x" * 200_000}]})
        return await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url), message_max_bytes=100_000) as it:
        with pytest.raises(DownstreamError, match=r"an answer of more than 100000 bytes \(limits.message_max_bytes\)"):
            await it.call("web", "echo", {"big": True})
        assert await it.text("web", "echo") == "{}"


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_of_too_many_values_is_refused_before_it_is_decoded(kind: str):
    async def script(request: Request) -> Answer | None:
        if not (wanted := request.message.get("params", {}).get("arguments", {}).get("many")):
            return await healthy(request)
        value = {"text": "x," * 2000, "many": [[] for _ in range(wanted)]}
        answer = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": {"content": [], "value": value}})
        if kind == "application/json":
            return Answer(200, answer.encode(), {"content-type": kind})
        note = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": [1, 2, 3]}}'
        events = f"data: {note}\n\n" * 400 + f"data: {answer}\n\n"
        return Answer(200, events.encode(), {"content-type": kind})

    async with scripted(script) as server, fleet_of(http_settings(server.url), message_values=1000) as it:
        assert len((await it.call("web", "echo", {"many": 400}))["value"]["many"]) == 400
        with pytest.raises((DownstreamError, ConnectionLost), match="of more than 1000 values"):
            await it.call("web", "echo", {"many": 2000})
        assert await it.text("web", "echo") == "{}"


@cache
def bomb() -> bytes:
    return gzip.compress(b'{"jsonrpc":' + b" " * 50_000_000)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "GZIP, gzip"])
async def test_an_answer_in_an_encoding_that_nobody_asked_for_is_never_decoded(kind: str, encoding: str):
    async def script(request: Request) -> Answer | None:
        if request.message.get("params", {}).get("arguments", {}).get("big"):
            return Answer(200, bomb(), {"content-type": kind, "content-encoding": encoding})
        return await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(DownstreamError, match=rf"its answer is encoded \('{encoding}'\)"):
            await it.call("web", "echo", {"big": True})
        assert await it.text("web", "echo") == "{}"
        assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}


async def test_a_refusal_in_an_encoding_that_nobody_asked_for_is_told_by_its_status():
    async def script(request: Request) -> Answer | None:
        return Answer(500, gzip.compress(b" " * 1000), {"content-encoding": "gzip"})

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(StartFailed, match="HTTP 500 Internal Server Error"):
            await it.call("web", "echo")


async def test_an_endless_body_of_a_refusal_is_not_read_to_the_end():
    async def script(request: Request) -> Answer | None:
        return Answer(500, b'"' + b"x" * 200_000 + b'"')

    async with scripted(script) as server, fleet_of(http_settings(server.url), message_max_bytes=100_000) as it:
        with pytest.raises(StartFailed, match="HTTP 500 Internal Server Error"):
            await it.call("web", "echo")


async def test_what_is_no_mcp_server_is_told():
    async def script(request: Request) -> Answer | None:
        return Answer(200, b"<html>Welcome</html>", {"content-type": "text/html"})

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(StartFailed, match="Unexpected content type: text/html"):
            await it.call("web", "echo")


@pytest.mark.parametrize("answer", [{}, {"protocolVersion": 7}, {"protocolVersion": "2025-11-25", "capabilities": 1}])
async def test_an_answer_that_breaks_the_protocol_is_told_in_one_line(answer: Any):
    async def script(request: Request) -> Answer | None:
        return result(request, answer) if request.method == "initialize" else await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(StartFailed) as caught:
            await it.call("web", "echo")
    assert "its answer is not valid MCP: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


async def test_a_list_that_is_no_list_is_told():
    async def script(request: Request) -> Answer | None:
        return result(request, {"tools": {}}) if request.method == "tools/list" else await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url)) as it:
        with pytest.raises(StartFailed, match="its answer to tools/list has no list 'tools'"):
            await it.call("web", "echo")


@pytest.mark.slow
def test_the_first_name_of_a_host_has_nothing_imported_on_the_loop():
    # By another test of this process it may be loaded already.
    code = "import sys, toolcrib.downstream.transport; print('concurrent.futures.thread' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
