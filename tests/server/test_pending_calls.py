"""Calls under way are bounded by session and by caller: more are refused at once, and told why."""

from typing import Any

import anyio
import pytest
from mcp import MCPError

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import ERAS, Call, Client, JsonObject, MemoryServer, World, text, until, world

pytestmark = pytest.mark.anyio


class Held:
    """A tool whose calls end when they are told to."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.server = MemoryServer([tool("get"), tool("quick")], answers={"get": self.answer})

    async def answer(self, _call: Call) -> JsonObject:
        await self.go.wait()
        return text("done")


async def texts_of(w: World, held: Held, *calls: tuple[Client, Any]) -> list[str]:
    """Make calls one after the other, each as soon as the one before waits, and let all of them end."""
    found: list[str] = [""] * len(calls)

    async def call(place: int, client: Client, arguments: Any) -> None:
        found[place] = (await client.call("db__get", arguments))["content"][0]["text"]

    async with anyio.create_task_group() as tasks:
        for place, (client, arguments) in enumerate(calls):
            before = len(w["db"].calls())
            tasks.start_soon(call, place, client, arguments)
            await until(lambda place=place, before=before: bool(found[place]) or len(w["db"].calls()) > before)
        held.go.set()
    return found


@pytest.mark.parametrize("era", ERAS)
async def test_more_calls_than_a_session_may_have_are_refused_at_once(tmp_path, era):
    held, config = Held(), {"limits": {"pending_calls": 2, "pending_calls_per_principal": 2}}
    async with world(tmp_path, {"db": held.server}, config, listing="auto") as w, w.client(era) as client:
        answers = await texts_of(w, held, *[(client, {})] * 4)
        assert answers[:2] == ["done", "done"]
        assert set(answers[2:]) == {
            (
                "toolcrib is busy: this session has 2 calls under way (limits.pending_calls). Nothing ran. "
                "Wait for some of them to end, then repeat the call."
            )
        }
        assert (await client.call("db__get"))["content"][0]["text"] == "done"


async def test_calls_of_all_sessions_of_a_caller_count_together(tmp_path):
    held, config = Held(), {"limits": {"pending_calls_per_principal": 3}}
    async with world(tmp_path, {"db": held.server}, config) as w:
        async with w.client(caller=Caller("ann")) as one, w.client(caller=Caller("ann")) as two:
            async with w.client(caller=Caller("bob")) as other:
                answers = await texts_of(w, held, (one, {}), (two, {}), (one, {}), (two, {}), (other, {}))
    assert [answer == "done" for answer in answers] == [True, True, True, False, True]
    assert "this caller has 3 calls under way (limits.pending_calls_per_principal)" in answers[3]


async def test_the_bytes_of_their_arguments_are_bounded_but_one_call_alone_is_let_through(tmp_path):
    held, config = Held(), {"limits": {"pending_bytes": 65_536}}
    async with world(tmp_path, {"db": held.server}, config) as w, w.client() as client:
        large, small = {"text": "x" * 70_000}, {"text": "x" * 100}
        answers = await texts_of(w, held, (client, large), (client, small))
        assert answers[0] == "done"
        assert "takes" not in answers[0]
        assert "under way take 70" in answers[1]
        assert "(limits.pending_bytes)" in answers[1]


@pytest.mark.parametrize("door", ["tool_call", "tool_search"])
async def test_what_is_refused_is_an_error_that_a_model_reads_whatever_it_calls(tmp_path, door):
    held, config = Held(), {"limits": {"pending_calls": 1}}
    async with (
        world(tmp_path, {"db": held.server}, config) as w,
        w.client() as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(client.call, "db__get")
        await until(lambda: bool(w["db"].calls()))
        result = await client.call(door, {"name": "db__quick"} if door == "tool_call" else {"query": "get"})
        assert result["isError"] is True
        assert "toolcrib is busy" in result["content"][0]["text"]
        held.go.set()


async def test_a_call_that_is_cancelled_no_longer_counts(tmp_path):
    held, config = Held(), {"limits": {"pending_calls": 1}}
    async with world(tmp_path, {"db": held.server}, config) as w, w.client() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "db__get")
            await until(lambda: bool(w["db"].calls()))
            tasks.cancel_scope.cancel()
        with anyio.fail_after(20):
            while "isError" in await client.call("db__quick"):
                await anyio.sleep(0.01)


@pytest.mark.parametrize("era", ERAS)
async def test_what_else_a_server_is_asked_for_counts_too(tmp_path, era):
    offers = {"resources": [{"uri": "docs://a", "name": "a"}], "resourceTemplates": [], "prompts": []}
    docs = MemoryServer([tool("get")], offers=offers, hangs_at="resources/read")
    uri = {"uri": "toolcrib://servers/docs/docs://a"}
    async with world(tmp_path, {"docs": docs}, {"limits": {"pending_calls": 1}}, listing="auto") as w:
        async with w.client(era) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.ask, "resources/read", uri)
            await until(lambda: "resources/read" in docs.methods())
            with pytest.raises(MCPError, match="toolcrib is busy: this session has 1 calls under way"):
                await client.ask("resources/read", uri)
            assert (await client.call("docs__get"))["isError"] is True
            tasks.cancel_scope.cancel()
