"""Sessions of the handshake era over HTTP: each has its own list, and hears of its own changes only."""

import anyio
import pytest

from fakes.menu import tool
from online import MODERN, online
from toolcrib.server import http as serving
from waiting import PATIENCE_S
from worlds import BUILTINS, DEADLINE_S, settled, time_passes, until

pytestmark = pytest.mark.anyio

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
ALWAYS_GATE = {"tool_search": {"always_loaded_patterns": ["zoo.gate"]}}


@pytest.mark.slow
async def test_what_one_session_activates_no_other_lists_in_a_hundred_rounds(tmp_path):
    rounds = 100
    tools = [tool(f"{who}_{number:03}") for who in ("ann", "bob") for number in range(rounds)]
    async with online(tmp_path, {"zoo": tools}) as it:
        sessions = {"ann": await it.session(), "bob": await it.session()}

        async def use_one(who: str, number: int) -> None:
            await sessions[who].call(f"zoo__{who}_{number:03}")
            own = [f"zoo__{who}_{seen:03}" for seen in range(number + 1)]
            assert await sessions[who].names() == [*BUILTINS, *own]

        for number in range(rounds):
            async with anyio.create_task_group() as tasks:
                for who in sessions:
                    tasks.start_soon(use_one, who, number)


@pytest.mark.parametrize("through", ["directly", "tool_call"])
async def test_a_call_announces_the_longer_list_on_its_own_stream_before_its_result(tmp_path, through):
    async with online(tmp_path, {"zoo": [tool("feed"), tool("gate")]}, ALWAYS_GATE) as it:
        caller, other = await it.session(), await it.session()
        assert await caller.names() == await other.names() == [*BUILTINS, "zoo__gate"]
        name, arguments = ("zoo__feed", {}) if through == "directly" else ("tool_call", {"name": "zoo__feed"})
        async with caller.own_stream() as by_caller, other.own_stream() as by_other:
            first, second = await caller.call(name, arguments)
            assert first == CHANGED
            assert second["result"]["content"][0]["text"] == "ran feed {}"
            assert ["result" in frame for frame in await caller.call(name, arguments)] == [True]
            # A change that both see comes on the streams of their own: nothing came on them before it.
            await it.world["zoo"].change(tool("feed"), tool("gate", "Another gate."))
            await until(lambda: by_caller == by_other == [CHANGED])


async def test_a_change_of_the_catalog_is_told_to_those_sessions_only_whose_list_it_changes(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed"), tool("gate")]}, ALWAYS_GATE) as it:
        user, other = await it.session(), await it.session()
        await user.call("zoo__feed")
        await other.names()
        async with user.own_stream() as by_user, other.own_stream() as by_other:
            await it.world["zoo"].change(tool("feed", "Feed them twice."), tool("gate"))
            await until(lambda: by_user == [CHANGED])
            await it.world["zoo"].change(tool("feed", "Feed them twice."), tool("gate", "Another gate."))
            await until(lambda: by_user == [CHANGED, CHANGED])
            await until(lambda: by_other == [CHANGED])


async def test_an_ended_session_is_forgotten_and_holds_up_nobody(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed"), tool("gate")]}, ALWAYS_GATE) as it:
        ended, other = await it.session(), await it.session()
        await ended.call("zoo__feed")
        await other.names()
        await ended.end()
        await until(lambda: len(list(it.world.serving.sessions.open())) == 1)
        assert (await it.post({}, **ended.headers)).status_code == 404
        async with other.own_stream() as by_other:
            await it.world["zoo"].change(tool("feed"), tool("gate", "Another gate."))
            await until(lambda: by_other == [CHANGED])


async def test_a_session_lasts_as_long_as_its_own_stream_is_open(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}, {"http": {"session_idle_s": DEADLINE_S}}) as it:
        listening, silent = await it.session(), await it.session()
        async with listening.own_stream():
            await listening.call("zoo__feed")
            await silent.call("zoo__feed")
            await settled()
            assert len(list(it.world.serving.sessions.open())) == 2
            await time_passes(DEADLINE_S)
            assert len(list(it.world.serving.sessions.open())) == 1
            assert await listening.names() == [*BUILTINS, "zoo__feed"]
            assert (await it.post({}, **silent.headers)).status_code == 404


async def test_sessions_that_come_and_go_take_nothing_from_one_that_stays(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}, {"http": {"max_sessions": 2}}) as it:
        staying = await it.session()
        await staying.call("zoo__feed")
        for _ in range(5):
            passing = await it.session()
            assert await passing.names() == BUILTINS
            refused = await it.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
            assert refused.status_code == 503
            await passing.end()
        assert await staying.names() == [*BUILTINS, "zoo__feed"]


async def test_a_header_that_names_no_kept_session_opens_no_other_one(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}) as it:
        session = await it.session()
        await session.call("zoo__feed")
        for number in range(100):
            session.headers["x-toolcrib-session"] = str(number)
            assert await session.names() == [*BUILTINS, "zoo__feed"]
        assert len(list(it.world.serving.sessions.open())) == 1


async def test_initialize_says_that_the_list_may_change(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}) as it, it.client("legacy") as client:
        assert client.server_capabilities.tools.list_changed is True


async def test_progress_arrives_on_the_stream_of_the_call(tmp_path):
    async with online(tmp_path, {"zoo": [tool("feed")]}) as it:

        async def feed(call):
            for step in range(3):
                await call.report(step + 1, 3, f"step {step}")
            return {"content": []}

        it.world["zoo"].answers["feed"] = feed
        session = await it.session()
        given = {"name": "zoo__feed", "arguments": {}, "_meta": {"progressToken": "mine"}}
        frames = await session.ask("tools/call", given)
        told = [frame["params"] for frame in frames if frame.get("method") == "notifications/progress"]
        assert [(step["progressToken"], step["progress"], step["message"]) for step in told] == [
            ("mine", number + 1, f"step {number}") for number in range(3)
        ]
        assert frames[0] == CHANGED
        assert "result" in frames[-1]


async def test_stopping_ends_every_stream_in_order_and_without_a_word(tmp_path, caplog):
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="auto") as it, it.client(MODERN) as client:
        session = await it.session()
        headers = {**session.headers, "accept": "text/event-stream"}
        async with (
            it.http.stream("GET", it.url, headers=headers) as own_stream,
            client.listen(tools_list_changed=True) as subscription,
        ):
            it.stop.set()
            await time_passes(serving._GRACE_S)
            assert [line async for line in own_stream.aiter_lines() if line.startswith("data: {")] == []
            assert [event async for event in subscription] == []
    assert [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


async def test_a_call_under_way_is_answered_before_the_server_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "_GRACE_S", PATIENCE_S)
    async with online(tmp_path, {"zoo": [tool("feed")]}) as it:

        async def feed(_call):
            it.stop.set()
            return {"content": [{"type": "text", "text": "fed"}]}

        it.world["zoo"].answers["feed"] = feed
        session = await it.session()
        assert (await session.call("zoo__feed"))[-1]["result"]["content"][0]["text"] == "fed"
