"""How a tool is called: once, within its deadline, and with a text that says what became of it."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from downstream.fleets import (
    DEADLINE_S,
    HURRIED_S,
    fleet_of,
    http_settings,
    passing,
    settings_of,
    settled,
    time_passes,
    until,
)
from downstream.scripted_http import SESSION, Answer, Request, healthy, result, scripted
from fakes.menu import FakeServer
from toolcrib.base.errors import CallTimeout, ConnectionLost, DownstreamError
from toolcrib.base.model import JsonObject
from toolcrib.base.redaction import Redactor
from toolcrib.downstream.connection import Connection
from toolcrib.downstream.relays import ProgressRelay
from toolcrib.downstream.states import State
from toolcrib.downstream.suspended import SuspendedCall
from toolcrib.policy.requests import OWN_REQUEST

pytestmark = pytest.mark.anyio
BOTH = pytest.mark.parametrize("era", ["legacy", "modern"])


# -- what passes ---------------------------------------------------------------------------------


@BOTH
async def test_results_pass_as_they_are(tmp_path: Path, era: Any):
    odd = {
        "content": [{"type": "text", "text": "a\u2028b"}, {"type": "hologram", "beam": 1}],
        "structuredContent": {"n": 1.5, "deep": [{}]},
        "isError": True,
        "_meta": {"vendor/key": None},
        "vendorField": [1],
    }
    fake = FakeServer(tmp_path, tools=["odd"], results={"odd": odd})
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        result = await it.call("fake", "odd")
        assert {**result, "_meta": {"vendor/key": result["_meta"]["vendor/key"]}} == odd | (
            {"resultType": "complete"} if era == "modern" else {}
        )


@BOTH
async def test_arguments_meta_and_further_params_pass_as_they_are(tmp_path: Path, era: Any):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        await it.fleet["fake"].connection()
        more = {"requestState": "s"} if era == "modern" else {"further": "s"}
        arguments = {"a": "\udcff", "b": [None]}
        await it.send("fake", "echo", {**more, "arguments": arguments, "_meta": {"vendor/key": 1}})
    [params] = fake.calls("echo")
    assert (params["arguments"], {key: params[key] for key in more}) == (arguments, more)
    assert params["_meta"]["vendor/key"] == 1
    assert "progressToken" not in params["_meta"]
    assert ("io.modelcontextprotocol/protocolVersion" in params["_meta"]) == (era == "modern")


async def test_a_retry_is_refused_by_a_server_of_the_handshake_era_which_would_run_it_again(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake, protocol="legacy")) as it:
        await it.fleet["fake"].connection()
        for retry in ({"requestState": "s"}, {"inputResponses": {}}):
            with pytest.raises(DownstreamError, match="no call of yours") as caught:
                await it.send("fake", "echo", {**retry, "arguments": {}})
            assert caught.value.code == types.INVALID_PARAMS
    assert fake.calls("echo") == []


@BOTH
async def test_errors_of_the_server_pass_as_they_are(tmp_path: Path, era: Any):
    error = {"code": -32050, "message": "quota", "data": {"left": 0}}
    fake = FakeServer(tmp_path, tools=["broke"], error_on_call={"broke": error})
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        with pytest.raises(DownstreamError) as caught:
            await it.call("fake", "broke")
    assert (caught.value.code, str(caught.value), caught.value.data) == (-32050, "quota", {"left": 0})


async def test_an_error_with_the_code_of_a_closed_connection_is_an_answer_too(tmp_path: Path):
    error = {"code": types.CONNECTION_CLOSED, "message": "quota exceeded"}
    fake = FakeServer(tmp_path, error_on_call={"echo": error})
    async with fleet_of(settings_of(fake)) as it:
        for _ in range(2):
            with pytest.raises(DownstreamError, match="quota exceeded"):
                await it.call("fake", "echo")
        assert it.fleet["fake"].status.state is State.READY
    assert len(fake.starts()) == 1
    assert len(fake.calls()) == 2


async def test_a_large_result_comes_whole(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["big"])
    async with fleet_of(settings_of(fake)) as it:
        assert await it.text("fake", "big", {"bytes": 5_000_000}) == "x" * 5_000_000


async def test_many_calls_share_a_connection(tmp_path: Path):
    fake, texts = FakeServer(tmp_path), []
    async with fleet_of(settings_of(fake)) as it, anyio.create_task_group() as tasks:

        async def call(number: int) -> None:
            texts.append((number, await it.text("fake", "echo", {"n": number})))

        for number in range(200):
            tasks.start_soon(call, number)
    assert sorted(texts) == [(number, f'{{"n": {number}}}') for number in range(200)]


async def test_only_so_many_calls_are_under_way_at_a_time(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["sleep"])
    async with fleet_of(settings_of(fake), calls_in_flight=2) as it, anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as leaving:
            for _ in range(2):
                leaving.start_soon(it.call, "fake", "sleep", {"seconds": 600})
            await fake.reached("tools/call", 2)
            tasks.start_soon(it.call, "fake", "sleep", {"seconds": 0})
            await settled()
            await it.fleet["fake"].list_again()  # answered after whatever was sent before
            assert len(fake.calls()) == 2
            leaving.cancel_scope.cancel()
    assert len(fake.calls()) == 3


# -- progress ------------------------------------------------------------------------------------


@BOTH
async def test_progress_is_passed_on(tmp_path: Path, era: Any):
    seen: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    fake = FakeServer(tmp_path, tools=["progress"])
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        await it.call("fake", "progress", {"steps": 30}, on_progress)
    assert seen == [(step, 30, f"step {step}") for step in range(1, 31)]


async def test_progress_restarts_the_deadline(tmp_path: Path):
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    fake = FakeServer(tmp_path, tools=["progress"])
    async with fleet_of(settings_of(fake, call_timeout_s=2 * DEADLINE_S)) as it, anyio.create_task_group() as tasks:
        tasks.start_soon(it.call, "fake", "progress", {"steps": 4, "held": True}, on_progress)
        await fake.reached("tools/call")
        for step in range(1, 5):
            await time_passes(DEADLINE_S)
            fake.let_go()
            await until(lambda step=step: seen == [*range(1, step + 1)])


async def test_progress_cannot_prolong_a_call_for_ever(tmp_path: Path):
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def reported_late() -> None:
        await fake.reached("tools/call")
        await time_passes(DEADLINE_S)
        fake.let_go()
        await until(lambda: seen == [1])

    fake = FakeServer(tmp_path, tools=["progress"])
    async with fleet_of(settings_of(fake, call_timeout_s=4 * DEADLINE_S), call_max_s=2.5 * DEADLINE_S) as it:
        async with passing(1.5 * DEADLINE_S, reported_late):
            with pytest.raises(CallTimeout, match=r"did not answer 'progress' within 15 s"):
                await it.call("fake", "progress", {"steps": 2, "held": True}, on_progress)


async def test_a_receiver_of_progress_that_takes_none_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.relays._LAST_S", 0.01)
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)
        await anyio.sleep_forever()

    fake = FakeServer(tmp_path, tools=["progress"])
    async with fleet_of(settings_of(fake)) as it:
        result = await it.call("fake", "progress", {"steps": 1500}, on_progress)
        assert result["content"][0]["text"] == "1500 steps"
    assert seen == [1]


@BOTH
async def test_a_slow_receiver_of_progress_gets_the_latest_and_the_result_after_it(
    tmp_path: Path, era: Any, monkeypatch: pytest.MonkeyPatch
):
    delivered: list[float] = []
    result_came, drain = anyio.Event(), ProgressRelay.drain

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        await result_came.wait()
        delivered.append(progress)

    async def note_and_drain(relay: ProgressRelay) -> None:
        result_came.set()
        await drain(relay)

    monkeypatch.setattr(ProgressRelay, "drain", note_and_drain)
    monkeypatch.setattr("toolcrib.downstream.relays._LAST_S", DEADLINE_S)

    fake = FakeServer(tmp_path, tools=["progress"])
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        await it.call("fake", "progress", {"steps": 500}, on_progress)
        assert delivered == [1, 500]


async def test_a_server_that_tells_things_without_end_is_read_slowly_and_then_ended_with_the_reason(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["storm", "echo"])
    async with fleet_of(settings_of(fake), notifications_per_s=100, flood_s=0.1, close_timeout_s=HURRIED_S) as it:
        with pytest.raises(ConnectionLost) as raised:
            await it.call("fake", "storm")
        said = str(raised.value)
        assert "The server 'fake' went away" in said
        assert "it sent more than 100 notifications a second (limits.notifications_per_s) for 0.1 s" in said
        assert (await it.call("fake", "echo", {}))["structuredContent"] == {}, "it is not started again"


async def test_progress_that_somebody_waits_for_is_slowed_but_never_ended(tmp_path: Path):
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        pass

    fake, began = FakeServer(tmp_path, tools=["progress"]), anyio.current_time()
    async with fleet_of(settings_of(fake), notifications_per_s=100, flood_s=0.1) as it:
        result = await it.call("fake", "progress", {"steps": 1500}, on_progress)
        assert result["content"][0]["text"] == "1500 steps"
        assert anyio.current_time() - began > 0.4, "more than 1000 at once and 1000 a second"


async def test_a_receiver_of_progress_that_fails_does_not_fail_the_call(tmp_path: Path):
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        raise ZeroDivisionError

    fake = FakeServer(tmp_path, tools=["progress"])
    async with fleet_of(settings_of(fake)) as it:
        assert (await it.call("fake", "progress", {}, on_progress))["content"][0]["text"] == "3 steps"


# -- deadlines and cancelling --------------------------------------------------------------------


@BOTH
async def test_a_call_without_an_answer_ends_at_its_deadline_and_is_cancelled_and_not_repeated(
    tmp_path: Path, era: Any
):
    fake = FakeServer(tmp_path, tools=["sleep", "echo"])
    async with fleet_of(settings_of(fake, protocol=era, call_timeout_s=DEADLINE_S)) as it:
        async with passing(DEADLINE_S, lambda: fake.reached("tools/call")):
            with pytest.raises(CallTimeout) as caught:
                await it.call("fake", "sleep", {"seconds": 600})
        assert str(caught.value) == (
            "The server 'fake' did not answer 'sleep' within 6 s. The call may have run: check before you repeat it."
        )
        assert caught.value.server == "fake"
        await fake.reached("notifications/cancelled")
        await it.call("fake", "echo")
    assert fake.messages("notifications/cancelled")[0]["params"]["requestId"] == fake.messages("tools/call")[0]["id"]
    assert len(fake.calls("sleep")) == 1
    assert len(fake.starts()) == 1


async def test_a_server_that_hangs_in_calls_ends_each_at_its_deadline(tmp_path: Path):
    fake = FakeServer(tmp_path, hang_at="call", ignore_sigterm=True)
    async with fleet_of(settings_of(fake, call_timeout_s=DEADLINE_S), close_timeout_s=HURRIED_S) as it:
        ended: list[str] = []

        async def call() -> None:
            with pytest.raises(CallTimeout) as caught:
                await it.call("fake", "echo")
            ended.append(str(caught.value))

        async with passing(DEADLINE_S, lambda: fake.reached("tools/call", 40)), anyio.create_task_group() as tasks:
            for _ in range(40):
                tasks.start_soon(call)
        assert len(ended) == 40
    assert len(fake.calls()) == 40


@BOTH
async def test_a_caller_who_leaves_cancels_the_call_at_the_server(tmp_path: Path, era: Any):
    fake = FakeServer(tmp_path, tools=["sleep", "cancelled"])
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call, "fake", "sleep", {"seconds": 600})
            await fake.reached("tools/call")
            tasks.cancel_scope.cancel()
        await fake.reached("notifications/cancelled")
        assert (await it.call("fake", "cancelled"))["structuredContent"]["ids"] == ["call-1"]


async def test_a_server_that_reads_nothing_holds_up_neither_a_call_nor_another_server(tmp_path: Path):
    wedged, fine = FakeServer(tmp_path, "wedged"), FakeServer(tmp_path, "fine")
    given_up: list[str] = []
    async with fleet_of(settings_of(wedged, call_timeout_s=DEADLINE_S), settings_of(fine), circuit_failures=6) as it:
        await it.up("wedged")
        await it.call("fine", "echo")
        os.kill(wedged.starts()[0], signal.SIGSTOP)

        async def call_wedged() -> None:
            with pytest.raises(CallTimeout) as caught:
                await it.call("wedged", "echo", {"text": "x" * 1_000_000})
            given_up.append(str(caught.value))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(call_wedged)
            await settled()
            assert await it.text("fine", "echo") == "{}"
            assert given_up == []
            await time_passes(DEADLINE_S)
        assert len(given_up) == 5

        os.kill(wedged.starts()[0], signal.SIGCONT)
        await it.call("wedged", "echo")
    # What had been begun came whole; what had not never came.
    assert [len(text) for params in wedged.calls() if (text := params["arguments"].get("text"))] == [1_000_000]


# -- death ---------------------------------------------------------------------------------------


@BOTH
async def test_a_server_that_dies_in_a_call_is_told_and_the_call_is_not_repeated(tmp_path: Path, era: Any):
    fake = FakeServer(tmp_path, tools=["crash", "counter"])
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        with pytest.raises(ConnectionLost) as caught:
            await it.call("fake", "crash")
        assert str(caught.value) == (
            "The server 'fake' went away during the call (it exited with status 1; its last output on stderr: 'crashed "
            "in a call'). The call may have run: check before you repeat it. "
            "The next call restarts or reconnects to it."
        )
        assert caught.value.server == "fake"
        assert await it.text("fake", "counter") == "1"
        assert it.states_of() == ["starting", "ready", "sleeping", "starting", "ready"]
    assert len(fake.calls("crash")) == 1
    assert len(fake.starts()) == 2


async def test_a_call_that_two_connections_did_not_take_ran_nothing_and_says_what_to_do():
    async def script(request: Request) -> Answer | None:
        return Answer(404) if request.method == "tools/call" else await healthy(request)

    async with scripted(script) as server, fleet_of(http_settings(server.url, protocol="legacy")) as it:
        with pytest.raises(ConnectionLost) as caught:
            await it.call("web", "echo")
        assert str(caught.value) == (
            "The server 'web' rejected the call of 'echo': it no longer knows our session. "
            "Nothing ran; search for the tool again, then repeat the call."
        )
        assert caught.value.server == "web"
        assert len(server.calls()) == 2


async def test_a_call_that_did_not_reach_a_server_which_has_changed_its_tool_since_ran_nothing():
    async def script(request: Request) -> Answer | None:
        if request.headers.get(SESSION) == "first":
            return Answer(404)
        if request.method == "tools/list":
            return result(request, {"tools": [{"name": "echo", "description": "Deletes.", "inputSchema": {}}]})
        answer = await healthy(request)
        return Answer(answer.status, answer.body)

    async with scripted(healthy) as server, fleet_of(http_settings(server.url, protocol="legacy")) as it:
        await it.fleet["web"].connection()
        server.script = script
        with pytest.raises(ConnectionLost) as caught:
            await it.call("web", "echo")
        assert str(caught.value) == (
            "The server 'web' rejected the call of 'echo': it has restarted, and the tool has changed. "
            "Nothing ran; search for the tool again, then repeat the call."
        )
        assert len(server.calls()) == 1


async def test_all_calls_under_way_hear_of_the_death(tmp_path: Path):
    fake, lost = FakeServer(tmp_path, tools=["sleep", "crash"]), []
    async with fleet_of(settings_of(fake)) as it, anyio.create_task_group() as tasks:

        async def call(tool: str) -> None:
            with pytest.raises(ConnectionLost) as caught:
                await it.call("fake", tool, {"seconds": 600})
            lost.append(str(caught.value))

        for _ in range(5):
            tasks.start_soon(call, "sleep")
        await fake.reached("tools/call", 5)
        tasks.start_soon(call, "crash")
    assert len(lost) == 6
    assert len(fake.calls()) == 6


async def test_a_server_that_died_while_nobody_looked_is_started_again(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake)) as it:
        await it.call("fake", "echo")
        os.kill(fake.starts()[0], signal.SIGKILL)
        await it.is_in(State.SLEEPING)
        assert it.reason() == "it was ended by signal 9"
        assert await it.text("fake", "echo") == "{}"
    assert len(fake.starts()) == 2


async def test_a_result_that_is_too_large_costs_the_connection_and_says_so(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["big", "echo"])
    async with fleet_of(settings_of(fake), message_max_bytes=100_000, close_timeout_s=HURRIED_S) as it:
        with pytest.raises(ConnectionLost, match=r"sent a line of more than 100000 bytes \(limits.message_max_bytes\)"):
            await it.call("fake", "big", {"bytes": 200_000})
        assert await it.text("fake", "echo") == "{}"
    assert len(fake.calls("big")) == 1


async def test_a_server_that_went_away_is_up_no_longer_also_where_it_has_no_time_to_say_why(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["big"])
    async with fleet_of(settings_of(fake), message_max_bytes=100_000, close_timeout_s=0.01) as it:
        with pytest.raises(ConnectionLost):
            await it.call("fake", "big", {"bytes": 200_000})
        await it.is_in(State.SLEEPING)


async def test_no_secret_is_told_in_an_error_of_a_server(tmp_path: Path):
    said = {
        "isError": True,
        "content": [{"type": "text", "text": "bad key hunter2222"}],
        "structuredContent": {"k": ["hunter2222"]},
    }
    fine = {**said, "isError": False}
    refusal = {"code": -32000, "message": "no hunter2222", "data": {"hunter2222": ["hunter2222"]}}
    fake = FakeServer(
        tmp_path,
        tools=["fail", "work", "refuse"],
        results={"fail": said, "work": fine},
        error_on_call={"refuse": refusal},
    )
    async with fleet_of(settings_of(fake, secrets=("hunter2222",))) as it:
        told = await it.call("fake", "fail")
        assert told["content"] == [{"type": "text", "text": "bad key ***"}]
        assert told["structuredContent"] == {"k": ["***"]}
        with pytest.raises(DownstreamError) as refused:
            await it.call("fake", "refuse")
        assert (str(refused.value), refused.value.data) == ("no ***", {"***": ["***"]})
        assert (await it.call("fake", "work"))["content"] == fine["content"]


def test_what_is_nested_too_deeply_to_look_at_is_masked_whole():
    deep: Any = "hunter2222"
    for _ in range(5000):
        deep = [deep]
    cleaned = Redactor(["hunter2222"]).cleaned({"a": deep, "b": "c"})
    assert cleaned["b"] == "c"
    assert "hunter2222" not in json.dumps(cleaned)


async def test_no_secret_is_told_of_a_death(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["crash"])
    async with fleet_of(settings_of(fake, secrets=("crashed in",))) as it:
        with pytest.raises(ConnectionLost, match=r"'\*\*\* a call'"):
            await it.call("fake", "crash")
        await until(lambda: "*** a call" in it.reason())


async def test_a_caller_that_is_cancelled_is_told_of_no_lost_connection(tmp_path: Path):
    async def end_at_once(connection: Connection) -> JsonObject:
        scope.cancel()
        raise ConnectionLost("fake", "it closed the connection")

    async with fleet_of(settings_of(FakeServer(tmp_path))) as it:
        await it.fleet["fake"].connection()
        with anyio.CancelScope() as scope:
            await it.fleet["fake"].calls.deliver("x", end_at_once)
        assert scope.cancelled_caught


async def test_a_caller_that_is_cancelled_is_told_of_no_work_that_ended():
    suspended = SuspendedCall(OWN_REQUEST, str)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(suspended.next_step)
        await settled()
        suspended.end(ConnectionLost("fake", "it closed the connection"))
        tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught
