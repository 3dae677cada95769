"""A connection over two descriptors: requests and answers of both sides, taken back, reported on, bounded, ended.

What both sides of the SDK rely on is checked with the SDK's own dispatcher, too, over the streams of a pair in memory.
"""

import json
import math
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from ends import DEADLINE_S, PATIENCE_S, read_on, settled, time_passes, two_pipes, until
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, REQUEST_TIMEOUT, jsonrpc_message_adapter
from pydantic import TypeAdapter

from toolcrib.jsonrpc.dispatcher import PipeBounds, open_dispatcher
from toolcrib.jsonrpc.rate_limit import RateBounds
from toolcrib.jsonrpc.sdk import SessionMessage, StreamDispatcher

pytestmark = pytest.mark.anyio
BOUNDS = PipeBounds(
    line_max_bytes=64 * 1024 * 1024,
    line_limit="limits.line",
    values=1_000_000,
    garbage_lines=3,
    pace=RateBounds(per_s=1_000_000, flood_s=30),
    paces_requests=False,
)

Handler = Callable[[Any, Any], Awaitable[Any]]


@dataclass
class Peer:
    """The far end of a connection, message by message; ``channel`` is the dispatcher at our end."""

    channel: Any
    send: Callable[[dict[str, Any]], Awaitable[None]]
    receive: Callable[[], Awaitable[dict[str, Any]]]
    hang_up: Callable[[], Awaitable[None]]
    notified: list[tuple[str, Any]] = field(default_factory=list)
    intercepted: list[str] = field(default_factory=list)
    far_in: int = -1
    far_out: int = -1
    handlers: dict[str, Handler] = field(default_factory=dict)

    async def ask(self, key: int | str, method: str, params: dict[str, Any] | None = None) -> None:
        await self.send({"id": key, "method": method, **({"params": params} if params is not None else {})})

    async def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self.send({"method": f"notifications/{method}", **({"params": params} if params is not None else {})})

    async def on_request(self, context: Any, method: str, params: Any) -> Any:
        return await self.handlers[method](context, params)

    async def on_notify(self, _context: Any, method: str, params: Any) -> None:
        self.notified.append((method, params))

    def intercept(self, method: str, _params: Any) -> bool:
        self.intercepted.append(method)
        return method == "notifications/ours"


@dataclass
class Wire:
    """The descriptors of the far end of a :class:`Peer` over pipes."""

    far_in: int
    far_out: int
    rest: bytearray = field(default_factory=bytearray)

    async def send(self, message: dict[str, Any]) -> None:
        os.write(self.far_out, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        with anyio.fail_after(PATIENCE_S):
            while b"\n" not in self.rest:
                await anyio.wait_readable(self.far_in)
                self.rest += os.read(self.far_in, 1 << 16)
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    async def hang_up(self) -> None:
        os.close(self.far_out)


@asynccontextmanager
async def running(peer: Peer) -> AsyncGenerator[Peer]:
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(peer.channel.run, peer.on_request, peer.on_notify, peer.intercept)
            yield peer
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def piped(bounds: PipeBounds = BOUNDS, garbage: list[str] | None = None) -> AsyncGenerator[Peer]:
    with two_pipes() as (near, (far_in, far_out)):
        wire = Wire(far_in, far_out)
        with open_dispatcher(*near, bounds, ([] if garbage is None else garbage).append) as channel:
            async with running(
                Peer(channel, wire.send, wire.receive, wire.hang_up, far_in=far_in, far_out=far_out)
            ) as peer:
                yield peer


@asynccontextmanager
async def streamed() -> AsyncGenerator[Peer]:
    to_near, at_near = anyio.create_memory_object_stream[Any](math.inf)
    to_far, at_far = anyio.create_memory_object_stream[Any](math.inf)

    async def send(message: dict[str, Any]) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message})
        await to_near.send(SessionMessage(jsonrpc_message_adapter.validate_python(json.loads(text), by_name=False)))

    async def receive() -> dict[str, Any]:
        with anyio.fail_after(PATIENCE_S):
            return (await at_far.receive()).message.model_dump(by_alias=True, exclude_unset=True)

    async with to_near, at_near, to_far, at_far:
        async with running(Peer(StreamDispatcher(at_near, to_far), send, receive, to_near.aclose)) as peer:
            yield peer


BOTH = pytest.mark.parametrize("connected", [piped, streamed])
Connected = Callable[[], Any]


async def says(words: Any) -> Handler:
    async def answer(_context: Any, _params: Any) -> Any:
        return words

    return answer


async def ask_in(tasks: Any, peer: Peer, **opts: Any) -> tuple[dict[str, Any], "Asked"]:
    """Have our end ask something, and return what the far end gets of it."""
    asked = Asked()
    tasks.start_soon(asked.ask, peer.channel, opts)
    return await peer.receive(), asked


@dataclass
class Asked:
    """A request of our end, and what came of it."""

    outcome: Any = None
    done: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def ask(self, channel: Any, opts: Any) -> None:
        with self.scope:
            try:
                self.outcome = await channel.send_raw_request("ask", {"a": 1}, opts)
            except MCPError as error:
                self.outcome = error
        self.done.set()

    async def settled(self) -> Any:
        with anyio.fail_after(PATIENCE_S):
            await self.done.wait()
        return self.outcome


async def echo(_context: Any, params: Any) -> Any:
    return params


# -- the peer asks -------------------------------------------------------------------------------


@BOTH
async def test_a_request_is_answered_under_its_own_id(connected: Connected):
    async with connected() as peer:
        peer.handlers["echo"] = echo
        for key in (7, "7", "seven"):
            await peer.ask(key, "echo", {"text": "é\udcff"})
            assert await peer.receive() == {"jsonrpc": "2.0", "id": key, "result": {"text": "é\udcff"}}


@BOTH
async def test_a_handler_that_takes_long_holds_up_no_other(connected: Connected):
    async with connected() as peer:
        peer.handlers["slow"] = lambda _context, _params: anyio.sleep_forever()
        peer.handlers["quick"] = await says({})
        await peer.ask(1, "slow")
        await peer.ask(2, "quick")
        assert (await peer.receive())["id"] == 2


@BOTH
async def test_what_comes_behind_initialize_waits_until_that_is_answered(connected: Connected):
    order: list[str] = []

    async def greet(_context: Any, _params: Any) -> Any:
        await settled()
        order.append("greeted")
        return {}

    async def other(_context: Any, _params: Any) -> Any:
        order.append("other")
        return {}

    async with connected() as peer:
        peer.handlers = {"initialize": greet, "other": other}
        await peer.ask(1, "initialize")
        await peer.ask(2, "other")
        assert [(await peer.receive())["id"] for _ in range(2)] == [1, 2]
    assert order == ["greeted", "other"]


@BOTH
async def test_an_error_of_the_protocol_is_told_as_it_is(connected: Connected):
    async def refuse(_context: Any, _params: Any) -> Any:
        raise MCPError(-32001, "Not today", {"why": "Sunday"})

    async def misread(_context: Any, _params: Any) -> Any:
        TypeAdapter(int).validate_python("canary-secret")

    async with connected() as peer:
        peer.handlers = {"refuse": refuse, "misread": misread}
        await peer.ask(1, "refuse")
        assert (await peer.receive())["error"] == {"code": -32001, "message": "Not today", "data": {"why": "Sunday"}}
        await peer.ask(2, "misread")
        error = (await peer.receive())["error"]
        assert (error["code"], "canary" in json.dumps(error)) == (INVALID_PARAMS, False)


async def test_of_any_other_failure_nothing_is_told(caplog: pytest.LogCaptureFixture):
    async def fail(_context: Any, _params: Any) -> Any:
        raise ZeroDivisionError("canary-secret")

    async with piped() as peer:
        peer.handlers = {"fail": fail, "set": await says({"no json": {object()}})}
        for method in ("fail", "set"):
            await peer.ask(method, method)
            assert (await peer.receive())["error"] == {"code": -32603, "message": "Internal error"}
    assert "canary-secret" in caplog.text


@BOTH
async def test_a_request_that_is_taken_back_is_stopped_and_never_answered(connected: Connected):
    stopped: list[bool] = []

    async def slow(context: Any, _params: Any) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(context.cancel_requested.is_set())

    async with connected() as peer:
        peer.handlers = {"slow": slow, "ping": await says({})}
        await peer.ask(5, "slow")
        await settled()
        await peer.tell("cancelled", {"requestId": "5"})
        await peer.ask(6, "ping")
        assert (await peer.receive())["id"] == 6
    assert stopped == [True]


@BOTH
async def test_nothing_is_taken_back_by_an_id_that_is_none(connected: Connected):
    async with connected() as peer:
        peer.handlers["ping"] = await says({})
        for odd in ([], {"requestId": True}, {"requestId": [1]}, {"requestId": 99}, {}):
            await peer.send({"method": "notifications/cancelled", **({"params": odd} if odd else {})})
        await peer.ask(1, "ping")
        assert (await peer.receive())["id"] == 1


@BOTH
async def test_two_requests_under_one_id_are_both_answered_and_the_later_is_the_one_to_take_back(connected: Connected):
    held = anyio.Event()

    async def first(_context: Any, _params: Any) -> Any:
        await held.wait()
        return {"was": "first"}

    async with connected() as peer:
        peer.handlers = {"first": first, "second": lambda _context, _params: anyio.sleep_forever()}
        await peer.ask(1, "first")
        await peer.ask(1, "second")
        await settled()
        await peer.tell("cancelled", {"requestId": 1})
        await settled()
        held.set()
        assert (await peer.receive())["result"] == {"was": "first"}


@BOTH
async def test_a_handler_can_ask_back_and_tell_until_it_is_done(connected: Connected):
    contexts: list[Any] = []

    async def ask_back(context: Any, _params: Any) -> Any:
        contexts.append(context)
        assert context.can_send_request
        await context.progress(1, 2, "half")
        await context.notify("notifications/message", {"data": 1})
        return {"heard": await context.send_raw_request("roots/list", None)}

    async with connected() as peer:
        peer.handlers["ask back"] = ask_back
        await peer.ask("a", "ask back", {"_meta": {"progressToken": "t"}})
        told = (await peer.receive())["params"]
        assert told == {"progressToken": "t", "progress": 1, "total": 2, "message": "half"}
        assert (await peer.receive())["method"] == "notifications/message"
        asked = await peer.receive()
        assert asked == {"jsonrpc": "2.0", "id": asked["id"], "method": "roots/list"}
        await peer.send({"id": asked["id"], "result": {"roots": []}})
        assert (await peer.receive())["result"] == {"heard": {"roots": []}}
        await contexts[0].progress(2)
        await contexts[0].notify("notifications/message", {})
        assert not contexts[0].can_send_request
        with pytest.raises(MCPError, match="no back-channel"):
            await contexts[0].send_raw_request("roots/list", None)
        peer.handlers["ping"] = await says({})
        await peer.ask("b", "ping")
        assert (await peer.receive())["id"] == "b"


@BOTH
async def test_progress_without_a_token_is_not_told(connected: Connected):
    async def work(context: Any, _params: Any) -> Any:
        await context.progress(1)
        return {}

    async with connected() as peer:
        peer.handlers["work"] = work
        for meta in ({}, {"progressToken": True}, {"progressToken": None}):
            await peer.ask(1, "work", {"_meta": meta})
            assert "result" in await peer.receive()


# -- our end asks --------------------------------------------------------------------------------


@BOTH
async def test_an_answer_goes_to_who_asked_also_when_its_id_comes_back_as_text(connected: Connected):
    async with connected() as peer, anyio.create_task_group() as tasks:
        first, one = await ask_in(tasks, peer)
        second, two = await ask_in(tasks, peer)
        assert first == {"jsonrpc": "2.0", "id": first["id"], "method": "ask", "params": {"a": 1}}
        await peer.send({"id": str(second["id"]), "result": {"n": 2}})
        await peer.send({"id": first["id"], "result": {"n": 1}})
        await peer.send({"id": "nobody's", "result": {"n": 3}})
        await peer.send({"id": first["id"], "result": {"n": "late"}})
        assert (await one.settled(), await two.settled()) == ({"n": 1}, {"n": 2})


@BOTH
async def test_an_error_of_the_peer_is_raised_as_it_came(connected: Connected):
    async with connected() as peer, anyio.create_task_group() as tasks:
        asked, one = await ask_in(tasks, peer)
        error = {"code": -32050, "message": "no", "data": [1]}
        await peer.send({"id": asked["id"], "error": error})
        raised = await one.settled()
        assert (raised.code, raised.message, raised.data) == (-32050, "no", [1])


@BOTH
async def test_an_id_of_the_caller_s_own_is_used_and_never_twice_at_a_time(connected: Connected):
    async with connected() as peer, anyio.create_task_group() as tasks:
        asked, one = await ask_in(tasks, peer, request_id="2")
        assert asked["id"] == "2"
        with pytest.raises(ValueError, match="already in flight"):
            await peer.channel.send_raw_request("ask", None, {"request_id": 2})
        minted = [(await ask_in(tasks, peer))[0]["id"] for _ in range(2)]
        assert "2" not in map(str, minted)
        await peer.send({"id": 2, "result": {}})
        assert await one.settled() == {}
        tasks.cancel_scope.cancel()


@BOTH
@pytest.mark.parametrize("takes_back", [True, False])
async def test_who_gives_up_waiting_takes_the_request_back(connected: Connected, takes_back: bool):
    async with connected() as peer, anyio.create_task_group() as tasks:
        asked, one = await ask_in(tasks, peer, cancel_on_abandon=takes_back)
        one.scope.cancel()
        await one.settled()
        await peer.channel.notify("notifications/last", None)
        told = await peer.receive()
        if takes_back:
            assert told["method"] == "notifications/cancelled"
            assert told["params"]["requestId"] == asked["id"]
            told = await peer.receive()
        assert told == {"jsonrpc": "2.0", "method": "notifications/last"}


@BOTH
async def test_a_request_with_a_deadline_is_taken_back_when_it_has_passed(connected: Connected):
    async with connected() as peer, anyio.create_task_group() as tasks:
        asked, one = await ask_in(tasks, peer, timeout=DEADLINE_S)
        await settled()
        assert not one.done.is_set()
        await time_passes(DEADLINE_S)
        assert (await one.settled()).code == REQUEST_TIMEOUT
        assert (await peer.receive())["params"]["requestId"] == asked["id"]


@BOTH
async def test_who_was_cancelled_before_asks_nothing(connected: Connected):
    async with connected() as peer:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await peer.channel.send_raw_request("ask", None)
        await peer.channel.notify("notifications/last", {})
        assert (await peer.receive())["method"] == "notifications/last"


@BOTH
async def test_progress_reaches_who_asked_and_nobody_else(connected: Connected):
    reports: list[Any] = []

    async def on_progress(*report: Any) -> None:
        reports.append(report)
        raise ZeroDivisionError  # which is the receiver's own affair

    async with connected() as peer, anyio.create_task_group() as tasks:
        asked, one = await ask_in(tasks, peer, on_progress=on_progress)
        token = asked["params"]["_meta"]["progressToken"]
        for facts in (
            {"progress": 1, "total": 2, "message": "half"},
            {"progress": 2.5, "total": "many", "message": 7},
            {"progress": True},
            {"progress": "3"},
            {},
        ):
            await peer.tell("progress", {"progressToken": token, **facts})
        await peer.tell("progress", {"progressToken": "another", "progress": 4})
        await peer.send({"id": asked["id"], "result": {}})
        assert await one.settled() == {}
        assert reports == [(1.0, 2.0, "half"), (2.5, None, None)]


# -- notifications -------------------------------------------------------------------------------


@BOTH
async def test_every_notification_is_offered_in_order_and_told_unless_it_is_taken(connected: Connected):
    async with connected() as peer:
        peer.handlers["ping"] = await says({})
        for name in ("one", "ours", "two", "cancelled"):
            await peer.tell(name, {"n": 1})
        await peer.ask(1, "ping")
        await peer.receive()
        await settled()
        assert peer.intercepted == [f"notifications/{name}" for name in ("one", "ours", "two", "cancelled")]
        assert peer.notified == [(f"notifications/{name}", {"n": 1}) for name in ("one", "two", "cancelled")]


@BOTH
async def test_a_handler_of_notifications_that_fails_harms_nobody(connected: Connected):
    async with connected() as peer:
        peer.handlers["ping"] = await says({})
        peer.notified = None  # type: ignore[assignment] - so that the handler fails
        await peer.tell("any")
        await peer.ask(1, "ping")
        assert (await peer.receive())["id"] == 1


# -- the end -------------------------------------------------------------------------------------


@BOTH
async def test_the_end_of_the_input_ends_it_and_tells_all_who_wait(connected: Connected):
    async with connected() as peer, anyio.create_task_group() as tasks:
        _, one = await ask_in(tasks, peer)
        await peer.hang_up()
        assert (await one.settled()).code == CONNECTION_CLOSED
        await peer.channel.ended.wait()
        with pytest.raises(MCPError) as raised:
            await peer.channel.send_raw_request("ask", None)
        assert raised.value.code == CONNECTION_CLOSED
        await peer.channel.notify("notifications/late", None)


@BOTH
async def test_what_is_being_handled_at_the_end_is_cancelled_and_says_so(connected: Connected):
    ended: list[str] = []

    async def slow(_context: Any, _params: Any) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
                ended.append("in order")

    async with connected() as peer:
        peer.handlers["slow"] = slow
        await peer.ask(1, "slow")
        await settled()
        await peer.hang_up()
        assert (await peer.receive())["error"]["code"] == CONNECTION_CLOSED
    assert ended == ["in order"]


async def test_nothing_can_be_asked_before_it_runs():
    with two_pipes() as (near, _), open_dispatcher(*near, BOUNDS, [].append) as channel:
        with pytest.raises(RuntimeError, match="before run"):
            await channel.send_raw_request("ask", None)


async def test_a_peer_that_is_gone_is_told_nothing_more():
    with two_pipes() as (near, (far_in, far_out)):
        with open_dispatcher(*near, BOUNDS, [].append) as channel:
            wire = Wire(far_in, far_out)
            async with running(Peer(channel, wire.send, wire.receive, wire.hang_up)):
                os.close(far_in)
                await channel.notify("notifications/any", None)
                with pytest.raises(MCPError) as raised:
                    await channel.send_raw_request("ask", None)
                assert raised.value.code == CONNECTION_CLOSED


# -- bounds --------------------------------------------------------------------------------------


def padded(key: int, size: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": key, "method": "echo", "params": {"text": "x" * size}}).encode() + b"\n"


async def test_a_message_that_is_decoded_in_steps_keeps_its_place():
    order: list[Any] = []

    async def echo(_context: Any, params: Any) -> Any:
        order.append(len(params["text"]))
        return {}

    async with piped() as peer:
        peer.handlers["echo"] = echo
        os.set_blocking(peer.far_out, False)
        data = padded(1, 3) + padded(2, 300_000) + padded(3, 4)
        while data:
            try:
                data = data[os.write(peer.far_out, data) :]
            except BlockingIOError:
                await anyio.lowlevel.checkpoint()
        assert sorted([(await peer.receive())["id"] for _ in range(3)]) == [1, 2, 3]
    assert order == [3, 300_000, 4]


NO_MESSAGES = [
    "Starting up...",
    "[]",
    '{"jsonrpc": "2.0"}',
    '{"jsonrpc": "1.0", "method": "m"}',
    '{"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}',
    '{"jsonrpc": "2.0", "id": 1, "result": []}',
    '{"jsonrpc": "2.0", "id": null, "result": {}}',
    '{"jsonrpc": "2.0", "id": 1, "error": "no"}',
]


@pytest.mark.parametrize("noise", NO_MESSAGES)
async def test_a_line_that_is_no_message_is_passed_over_and_told(noise: str):
    garbage: list[str] = []
    async with piped(garbage=garbage) as peer:
        peer.handlers["ping"] = await says({})
        os.write(peer.far_out, noise.encode() + b"\n \r\n\n")
        await peer.ask(1, "ping")
        assert (await peer.receive())["id"] == 1
        assert garbage == [noise]


@pytest.mark.parametrize("key", ["null", "1.5", "{}", "true"])
async def test_a_request_with_an_invalid_id_gets_an_error(key: str):
    garbage: list[str] = []
    async with piped(garbage=garbage) as peer:
        os.write(peer.far_out, b'{"jsonrpc": "2.0", "id": %s, "method": "ping"}\n' % key.encode())
        answer = await peer.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert peer.notified == []
        assert len(garbage) == 1


DEEP, LONG = "[" * 11_000 + "]" * 11_000, "7" * 5000
MALFORMED = [
    '{"jsonrpc": "2.0", "id": ID, "result": null}',
    '{"jsonrpc": "2.0", "id": ID, "result": []}',
    '{"jsonrpc": "2.0", "id": ID, "result": 5}',
    '{"jsonrpc": "2.0", "id": ID}',
    '{"jsonrpc": "2.0", "id": ID, "error": null}',
    '{"jsonrpc": "2.0", "id": ID, "error": "no"}',
    '{"jsonrpc": "2.0", "id": ID, "error": {"code": "no"}, "result": {}}',
    *(
        line.replace("VALUE", value)
        for value in (DEEP, LONG, "[1, 2", '"\\ud83d" 5', f"{DEEP}, {'1, ' * 80_000}1")
        for line in (
            '{"jsonrpc": "2.0", "id": ID, "result": {"a": VALUE}}',
            '{"id":ID,"jsonrpc":"2.0","result":{"a":VALUE}}',
            '{"id":ID,"result":{"a":VALUE},"jsonrpc":"2.0"}',
            '{"jsonrpc": "2.0", "id": ID, "error": {"code": 1, "message": "", "data": VALUE}}',
            ' { "jsonrpc" : "2.0", "result": {"a": VALUE} , "id" : ID } ',
            '{"result":{"a":VALUE},"id":ID,"jsonrpc":"2.0"}',
        )
    ),
]


@pytest.mark.parametrize("key", ["own", "text"])
@pytest.mark.parametrize("line", MALFORMED, ids=range(len(MALFORMED)))
async def test_whoever_waits_for_an_answer_that_is_malformed_is_told_at_once(line: str, key: str):
    garbage: list[str] = []
    async with piped(garbage=garbage) as peer, anyio.create_task_group() as tasks:
        asked, one = await ask_in(tasks, peer)
        other, another = await ask_in(tasks, peer)
        written = asked["id"] if key == "own" else str(asked["id"])
        os.set_blocking(peer.far_out, True)
        data = line.replace("ID", json.dumps(written)).encode() + b"\n"
        await anyio.to_thread.run_sync(os.write, peer.far_out, data)
        await one.done.wait()
        assert "the answer is malformed" in str(one.outcome)
        # The connection stays, and the others go on to wait.
        assert not another.done.is_set()
        await peer.send({"id": other["id"], "result": {"a": 1}})
        await another.done.wait()
        assert another.outcome == {"a": 1}
        assert len(garbage) == 1


@pytest.mark.parametrize(
    "line",
    [
        # A request of the peer, which counts its own ids, and a text that quotes an answer.
        '{"jsonrpc": "2.0", "id": ID, "method": "m", "params": {"a": VALUE}}',
        '{"jsonrpc": "2.0", "method": "m", "params": {"result": VALUE}, "id": ID}',
        '{"jsonrpc": "2.0", "result": {"a": VALUE, "id": ID}}',
        '{"jsonrpc": "2.0", "result": {"a": VALUE, "x": "\\"id\\": ID}',
        '[{"jsonrpc": "2.0", "id": ID, "result": {"a": VALUE}}]',
        'result VALUE {"jsonrpc": "2.0", "id": ID, "result": {"a": VALUE}}',
        '{"jsonrpc": "2.0", "id": null, "result": {"a": VALUE}}',
        '{"jsonrpc": "2.0", "id": 99, "result": {"a": VALUE}}',
    ],
)
async def test_what_is_not_an_answer_to_a_request_ends_no_wait_for_one(line: str):
    garbage: list[str] = []
    async with piped(garbage=garbage) as peer, anyio.create_task_group() as tasks:
        asked, one = await ask_in(tasks, peer)
        os.write(peer.far_out, line.replace("ID", str(asked["id"])).replace("VALUE", DEEP).encode() + b"\n")
        await peer.send({"id": asked["id"], "result": {"a": 1}})
        await one.done.wait()
        assert one.outcome == {"a": 1}
        assert len(garbage) == 1


async def test_an_answer_with_an_error_of_null_is_its_result():
    async with piped() as peer, anyio.create_task_group() as tasks:
        asked, one = await ask_in(tasks, peer)
        await peer.send({"id": asked["id"], "result": {"a": 1}, "error": None})
        await one.done.wait()
        assert one.outcome == {"a": 1}


async def test_only_the_beginning_of_garbage_is_kept():
    garbage: list[str] = []
    async with piped(garbage=garbage) as peer:
        os.write(peer.far_out, b"\xff" + b"x" * 10_000 + b"\n")
        await peer.hang_up()
        await peer.channel.ended.wait()
    assert garbage == ["\ufffd" + "x" * 1999]


async def test_too_much_garbage_in_a_row_ends_it():
    async with piped() as peer:
        peer.handlers["ping"] = await says({})
        for _ in range(5):
            os.write(peer.far_out, b"noise\n" * BOUNDS.garbage_lines)
            await peer.ask(1, "ping")
            await peer.receive()
        os.write(peer.far_out, b"noise\n" * (BOUNDS.garbage_lines + 1))
        await peer.channel.ended.wait()
        assert peer.channel.fault == "sent 4 lines in a row that are not MCP messages"


async def test_from_a_peer_that_reads_no_answers_nothing_more_is_read():
    asked: list[int] = []

    async def answer_at_length(context: Any, _params: Any) -> Any:
        asked.append(context.request_id)
        return {"text": "x" * 100_000}

    async with piped() as peer:
        peer.handlers["long"] = answer_at_length
        far_out = peer.far_out
        os.set_blocking(far_out, False)
        written = 0
        with suppress(BlockingIOError):
            while written < 100_000:
                await peer.ask(written, "long")
                written += 1
                await anyio.lowlevel.checkpoint()
        await settled()
        assert len(asked) < 150, "it went on reading"
        for _ in range(written):
            assert len((await peer.receive())["result"]["text"]) == 100_000
        await settled()
        assert len(asked) == written


async def test_a_peer_that_reads_nothing_is_still_heard():
    async with piped() as peer, anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(peer.channel.notify, "notifications/large", {"text": "x" * 1_000_000, "n": number})
        await settled()
        await peer.tell("heard")
        await until(lambda: bool(peer.notified))
        tasks.cancel_scope.cancel()


# -- values and pace -----------------------------------------------------------------------------


async def test_a_message_of_too_many_values_ends_it_before_it_is_decoded():
    async with piped(replace(BOUNDS, values=50_000)) as peer, anyio.create_task_group() as tasks:
        text = b'{"jsonrpc": "2.0", "method": "m", "params": {"list": [' + b"[]," * 200_000 + b"[]]}}\n"
        tasks.start_soon(anyio.to_thread.run_sync, os.write, peer.far_out, text)
        await peer.channel.ended.wait()
        assert peer.channel.fault == "sent a message of more than 50000 values (limits.message_values)"


async def test_a_long_message_of_few_values_passes():
    async with piped(replace(BOUNDS, values=1000)) as peer, anyio.create_task_group() as tasks:
        peer.handlers["echo"] = await says({})
        text = padded(1, 10).replace(b"xxxxxxxxxx", b"a,[{," * 100_000)
        tasks.start_soon(anyio.to_thread.run_sync, os.write, peer.far_out, text)
        assert (await peer.receive())["id"] == 1


SLOW = replace(BOUNDS, pace=RateBounds(per_s=200, flood_s=0.1))


async def feed(peer: Peer, *messages: dict[str, Any]) -> None:
    """Send these over and over, as fast as they are read."""
    os.set_blocking(peer.far_out, False)
    data = b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages) * 50
    rest = b""
    while True:
        await anyio.wait_writable(peer.far_out)
        with suppress(BlockingIOError):
            rest = rest or data
            rest = rest[os.write(peer.far_out, rest) :]


@pytest.mark.parametrize(
    ("unasked", "bounds"),
    [
        ({"method": "notifications/message", "params": {}}, SLOW),
        ({"method": "notifications/progress", "params": {"progressToken": 9, "progress": 1}}, SLOW),
        ({"id": 999, "result": {}}, SLOW),
        ({"id": 1, "method": "ping"}, replace(SLOW, paces_requests=True)),
    ],
)
async def test_what_nobody_asked_for_without_end_is_read_slowly_and_then_no_more(
    unasked: dict[str, Any], bounds: PipeBounds
):
    async with piped(bounds) as peer, anyio.create_task_group() as tasks:
        peer.handlers["ping"] = await says({})
        began = anyio.current_time()
        tasks.start_soon(feed, peer, unasked)
        tasks.start_soon(read_on, peer.far_in, bytearray())
        await peer.channel.ended.wait()
        took = anyio.current_time() - began
        assert peer.channel.fault == (
            "sent more than 200 notifications a second (limits.notifications_per_s) for 0.1 s"
        )
        assert took > 0.1
        assert len(peer.notified) < 200 * (took + 1.5)
        tasks.cancel_scope.cancel()


async def test_between_what_is_read_slowly_everything_else_gets_through():
    async with piped(replace(SLOW, pace=RateBounds(per_s=200, flood_s=30))) as peer, anyio.create_task_group() as tasks:
        peer.handlers["ping"] = await says({})
        noise = [{"method": "notifications/message", "params": {}}] * 49
        tasks.start_soon(feed, peer, {"id": 1, "method": "ping"}, *noise)
        for _ in range(8):
            assert (await peer.receive())["id"] == 1
        tasks.cancel_scope.cancel()


async def test_requests_are_not_slowed_unless_they_are_to_be():
    async with piped(SLOW) as peer, anyio.create_task_group() as tasks:
        peer.handlers["ping"] = await says({})
        tasks.start_soon(feed, peer, {"id": 1, "method": "ping"})
        for _ in range(1000):
            assert (await peer.receive())["id"] == 1
        assert peer.channel.fault == ""
        tasks.cancel_scope.cancel()


# -- begun by somebody else ----------------------------------------------------------------------


async def test_what_somebody_else_has_left_unsent_comes_before_every_answer():
    unsent = b'padding": "' + b"x" * 1_000_000 + b'"}}\n'
    asked = b"".join(json.dumps({"jsonrpc": "2.0", "id": key, "method": "ask"}).encode() + b"\n" for key in (1, 2))
    with two_pipes() as (near, (far_in, far_out)), open_dispatcher(*near, BOUNDS, [].append) as channel:
        wire = Wire(far_in, far_out)
        peer = Peer(channel, wire.send, wire.receive, wire.hang_up, handlers={"ask": await says({})})
        channel.take_up(asked, {1}, unsent)
        wire.rest += b'{"jsonrpc": "2.0", "id": 1, "result": {"'
        async with running(peer):
            assert [(await peer.receive())["id"] for _ in range(2)] == [1, 2]


async def test_somebody_elses_peer_that_is_gone_is_an_end_like_any_other():
    with two_pipes() as (near, (far_in, far_out)), open_dispatcher(*near, BOUNDS, [].append) as channel:
        wire = Wire(far_in, far_out)
        os.close(far_in)
        channel.take_up(b"", (), b"the rest\n")
        async with running(Peer(channel, wire.send, wire.receive, wire.hang_up)):
            await wire.hang_up()
            await channel.ended.wait()
        assert channel.fault == ""
