"""What servers ask and tell their clients through toolcrib, in all four pairings of eras: it reaches the caller."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from downstream.scripted_http import Answer, Request, healthy, scripted
from downstream.scripted_http import result as reply
from fakes.menu import tool
from toolcrib.downstream.transport import open_streams
from worlds import (
    DEADLINE_S,
    ERAS,
    Call,
    Client,
    JsonObject,
    MemoryServer,
    passing,
    settled,
    text,
    time_passes,
    until,
    world,
)

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
FORM: JsonObject = {
    "message": "Which one?",
    "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}},
}
SAMPLE: JsonObject = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Count to three."}}],
    "maxTokens": 7,
}
QUESTIONS: dict[str, JsonObject] = {
    "elicitation/create": FORM,
    "sampling/createMessage": SAMPLE,
    "roots/list": {},
}
TOOLS = types.SamplingCapability.model_validate({"tools": {}})


def person(heard: list[Any] | None = None, answer: str = "the red one") -> JsonObject:
    """Return a client's callbacks: it can be asked everything, and notes what it was asked."""
    heard = [] if heard is None else heard

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        heard.append(params)
        return types.ElicitResult(action="accept", content={"which": answer})

    async def sample(_context: Any, params: Any) -> types.CreateMessageResult:
        heard.append(params)
        said = types.TextContent(text=answer)
        return types.CreateMessageResult(role="assistant", content=said, model="m", stop_reason="endTurn")

    async def roots(_context: Any) -> types.ListRootsResult:
        heard.append(None)
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": f"file:///{answer.replace(' ', '-')}"})])

    return {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}


def answered(result: JsonObject) -> str:
    return result["content"][0]["text"]


def answered_text(result: types.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def asks(method: str, params: JsonObject | None = None) -> Callable[[Call], Awaitable[JsonObject]]:
    """Return a tool of a server with sessions: it asks once, and tells what it was answered."""

    async def run(call: Call) -> JsonObject:
        return text(str(await call.ask(method, params or QUESTIONS[method] or None)))

    return run


def requires(method: str, params: JsonObject | None = None) -> Callable[[Call], Awaitable[JsonObject]]:
    """Return the same tool of a server of 2026-07-28: it asks by its result."""

    async def run(call: Call) -> JsonObject:
        if "inputResponses" in call.params:
            assert call.params["requestState"] == "the state of the server"
            return text(str(call.params["inputResponses"]["it"]))
        question = {"method": method, "params": params or QUESTIONS[method]}
        return {
            "resultType": "input_required",
            "inputRequests": {"it": question},
            "requestState": "the state of the server",
        }

    return run


def zoo(era: str, method: str = "elicitation/create", params: JsonObject | None = None) -> MemoryServer:
    eras = ("legacy",) if era == "legacy" else ("modern",)
    answer = (asks if era == "legacy" else requires)(method, params)
    return MemoryServer([tool("feed"), tool("gate")], eras=eras, answers={"feed": answer})


def called_once(server: MemoryServer, tool_name: str = "feed") -> bool:
    """Return whether a tool was called once, retries with an answer aside."""
    return len([call for call in server.calls(tool_name) if "inputResponses" not in call]) == 1


async def _no(*_args: Any) -> Any:
    raise AssertionError


# -- the four pairings ---------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("method", QUESTIONS)
@pytest.mark.parametrize("of_server", ERAS)
@pytest.mark.parametrize("of_client", ERAS)
async def test_a_question_of_a_server_reaches_the_caller_and_the_answer_the_server(
    tmp_path, of_client, of_server, method
):
    heard: list[Any] = []
    server = zoo(of_server, method)
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(of_client, **person(heard)) as client:
        result = await client.call_tool("zoo__feed", {})  # in 2026-07-28 it asks by itself, and calls again
        assert "red" in answered_text(result)
    assert len(heard) == 1
    assert called_once(server)


@pytest.mark.sampled
@pytest.mark.parametrize("door", ["direct", "tool_call"])
@pytest.mark.parametrize("of_server", ERAS)
async def test_it_is_the_same_through_tool_call(tmp_path, of_server, door):
    name, arguments = ("zoo__feed", {}) if door == "direct" else ("tool_call", {"name": "zoo__feed"})
    for of_client in ERAS:
        folder = tmp_path / of_client
        folder.mkdir()
        async with (
            world(folder, {"zoo": zoo(of_server)}, listing="auto") as w,
            w.client(of_client, **person()) as client,
        ):
            assert "red" in answered_text(await client.call_tool(name, arguments))


async def test_a_question_and_its_answer_pass_as_they_are(tmp_path):
    more = {**FORM, "vendor": {"a": 1}, "_meta": {"vendor/key": 2, "progressToken": 3}}
    async with (
        world(tmp_path, {"zoo": zoo("legacy", params=more)}) as w,
        w.client("legacy", **person()) as client,
    ):
        result = await client.call("zoo__feed")
        [asked] = [frame for frame in client.frames if frame.get("method") == "elicitation/create"]
        assert asked["params"] == {**FORM, "vendor": {"a": 1}, "_meta": {"vendor/key": 2}}
        assert answered(result) == str({"action": "accept", "content": {"which": "the red one"}})


@pytest.mark.parametrize("of_client", ERAS)
async def test_a_server_with_sessions_is_told_at_the_handshake_what_its_caller_can_do_and_nothing_for_indexing(
    tmp_path, of_client
):
    server = zoo("legacy")
    async with world(tmp_path, {"zoo": server}, listing="auto") as w:
        async with w.client(of_client, **person(), sampling_capabilities=TOOLS) as client:
            await client.call_tool("zoo__gate", {})
            indexing, calling = server.declared()
            assert indexing == {}
            assert calling["sampling"] == {"tools": {}}
            assert calling["elicitation"] == {"form": {}, "url": {}}
            assert "roots" in calling
        async with w.client(of_client) as client:
            await client.call_tool("zoo__gate", {})
            assert server.declared()[2:] == [{}]


@pytest.mark.parametrize("of_client", ERAS)
async def test_a_server_without_sessions_is_told_with_each_request_what_its_caller_can_do(tmp_path, of_client):
    server = zoo(MODERN)
    async with world(tmp_path, {"zoo": server}, listing="auto") as w:
        async with w.client(of_client, **person()) as client, w.client(of_client) as other:
            await other.call_tool("zoo__gate", {})
            await client.call_tool("zoo__gate", {})
    told = [call["_meta"]["io.modelcontextprotocol/clientCapabilities"] for call in server.calls()]
    assert told[0] == {}
    assert told[1].keys() == {"elicitation", "sampling", "roots"}
    # Listed once, and shared by both; a client of the handshake era that can be asked has tried that one first.
    assert server.starts == (3 if of_client == "legacy" else 2)


@pytest.mark.parametrize("of_server", ERAS)
async def test_what_a_client_has_not_declared_it_is_not_asked(tmp_path, of_server):
    heard: list[Any] = []
    options = {"elicitation_callback": person(heard)["elicitation_callback"]}
    server = zoo(of_server, "sampling/createMessage")
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client("legacy", **options) as client:
        result = await client.tried("zoo__feed")
        said = result.message if isinstance(result, MCPError) else answered(result)
        assert "does not declare 'sampling'" in said
    assert heard == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("capabilities", "params", "refused"),
    [
        ({"elicitation": {}}, {"mode": "url", "url": "https://a.test", "message": "m", "elicitationId": "e"}, True),
        ({"elicitation": {"url": {}}}, FORM, True),
        ({"elicitation": {}}, FORM, False),
        ({"elicitation": {"form": {}}}, FORM, False),
    ],
)
async def test_only_the_modes_of_elicitation_are_used_that_a_client_has_declared(
    tmp_path, capabilities, params, refused
):
    server = zoo("legacy", params=params)
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN) as client:
        data: JsonObject = {"method": "tools/call", "params": {"name": "zoo__feed", "arguments": {}}}
        client.session._stamp(data, {})
        data["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities
        ask = client.session._dispatcher.send_raw_request
        if refused:
            with pytest.raises(MCPError, match="does not declare 'elicitation"):
                await ask("tools/call", data["params"])
        else:
            assert (await ask("tools/call", data["params"]))["resultType"] == "input_required"


# -- a caller without a session over a server with sessions ----------------------------------------


def two_questions() -> MemoryServer:
    async def feed(call: Call) -> JsonObject:
        first = await call.ask("elicitation/create", {**FORM, "message": "First?"})
        await call.report(1, 2)
        second = await call.ask("elicitation/create", {**FORM, "message": "Second?"})
        return text(first["content"]["which"], second["content"]["which"])

    return MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed})


def accepted(result: JsonObject, *which: str) -> JsonObject:
    """Return the members of a retry that answers the questions of an interim result."""
    names = result["inputRequests"]
    given = {name: {"action": "accept", "content": {"which": each}} for name, each in zip(names, which, strict=True)}
    return {"inputResponses": given, "requestState": result["requestState"]}


def message(result: JsonObject) -> str:
    [question] = result["inputRequests"].values()
    assert question["method"] == "elicitation/create"
    return question["params"]["message"]


async def test_a_parked_call_goes_on_through_several_rounds_and_runs_once(tmp_path):
    server = two_questions()
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        assert (first["resultType"], message(first)) == ("input_required", "First?")
        second = await client.call("zoo__feed", {}, further="unknown", **accepted(first, "one"))
        assert message(second) == "Second?"
        assert second["requestState"] != first["requestState"]
        last = await client.call("zoo__feed", {}, **accepted(second, "two"))
        assert [block["text"] for block in last["content"]] == ["one", "two"]
        assert len(server.calls("feed")) == 1
        await until(lambda: len(parking(w)) == 0)


async def test_progress_of_a_parked_call_reaches_the_request_that_waits_for_it(tmp_path):
    async def feed(call: Call) -> JsonObject:
        await call.report(1, 3, "looking")
        await call.ask("elicitation/create", FORM)
        await call.report(2, 3, "cutting")
        await call.report(3, 3, "done")
        return text("fed")

    told: dict[str, list[Any]] = {"first": [], "retry": []}

    def receiver(request: str) -> Callable[..., Awaitable[None]]:
        async def receive(*report: Any) -> None:
            told[request].append(report)

        return receive

    server = MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed})
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN, **person()) as client:
        params: JsonObject = {"name": "zoo__feed", "arguments": {}}
        first = await client.ask("tools/call", params, on_progress=receiver("first"))
        assert first["resultType"] == "input_required"
        again = {**params, **accepted(first, "the red one")}
        assert answered(await client.ask("tools/call", again, on_progress=receiver("retry"))) == "fed"
    assert told["first"] == [(1, 3, "looking")]
    assert told["retry"][-1] == (3, 3, "done")
    assert (1, 3, "looking") not in told["retry"]


def parking(w: Any) -> Any:
    return w.gateway.tools.fleet._dependencies.suspended_calls


@dataclass
class TwoTools:
    """A server whose tool ``feed`` asks once ``gate`` was called too, which does nothing but end when ``ends`` is set.

    ``answered`` is what it was answered; ``results`` what a client got that called one by :meth:`call`.
    """

    ends: anyio.Event = field(default_factory=anyio.Event)
    answered: list[str] = field(default_factory=list)
    results: JsonObject = field(default_factory=dict)
    server: MemoryServer = field(init=False)

    def __post_init__(self) -> None:
        tools = {"feed": self.feed, "gate": self.gate}
        self.server = MemoryServer([*map(tool, tools)], eras=("legacy",), answers={**tools})

    async def feed(self, call: Call) -> JsonObject:
        await until(lambda: bool(self.server.calls("gate")))
        try:
            self.answered.append(str(await call.ask("elicitation/create", FORM)))
        except MCPError as error:
            self.answered.append(error.message)
        return text(self.answered[-1])

    async def gate(self, _call: Call) -> JsonObject:
        await self.ends.wait()
        return text("done")

    async def call(self, client: Client, name: str) -> None:
        self.results[name] = await client.tried(f"zoo__{name}")


async def test_a_question_that_came_by_the_result_of_a_call_which_ends_comes_by_its_own(tmp_path):
    it = TwoTools()
    async with (
        world(tmp_path, {"zoo": it.server}, listing="auto") as w,
        w.client(MODERN, **person()) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(it.call, client, "feed")
        await until(lambda: bool(it.server.calls("feed")))
        await it.call(client, "gate")
        # Nothing says whose question it is. Who is asked gives this call up, and nothing tells that either.
        assert message(it.results["gate"]) == FORM["message"]
        assert "feed" not in it.results
        it.ends.set()
        await until(lambda: "feed" in it.results)
        assert message(it.results["feed"]) == FORM["message"]
        last = await client.call("zoo__feed", {}, **accepted(it.results["feed"], "the red one"))
        assert "the red one" in answered(last)
        assert len(it.answered) == 1


async def test_two_questions_at_once_come_by_the_results_of_two_calls(tmp_path):
    async def feed(call: Call) -> JsonObject:
        await until(lambda: len(server.calls()) == 2)
        return text(str(await call.ask("elicitation/create", {**FORM, "message": call.arguments["key"]})))

    server, results = MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed}), list[JsonObject]()
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN, **person()) as client:

        async def call(key: str) -> None:
            results.append(await client.call("zoo__feed", {"key": key}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "one")
            tasks.start_soon(call, "two")
        assert {message(each) for each in results} == {"one", "two"}


async def test_a_question_that_its_server_takes_back_leaves_the_other_call_whose_result_brought_it(tmp_path):
    it = TwoTools()
    async with world(tmp_path, {"zoo": it.server}, listing="auto") as w, w.client(MODERN, **person()) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call, client, "feed")
            await until(lambda: bool(it.server.calls("feed")))
            await it.call(client, "gate")
            tasks.cancel_scope.cancel()
        await until(lambda: "notifications/cancelled" in it.server.methods())
        await settled()  # the server's own word that its question is taken back
        it.ends.set()
        given = {"requestState": it.results["gate"]["requestState"], "inputResponses": {}}
        assert answered(await client.call("zoo__gate", {}, **given)) == "done"


async def test_a_session_is_asked_again_by_the_call_that_is_left_when_the_other_ends(tmp_path):
    it, asked = TwoTools(), list[str]()
    may_answer = anyio.Event()

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        if len(asked) == 1:
            it.ends.set()
        else:
            may_answer.set()
        await may_answer.wait()
        return types.ElicitResult(action="accept", content={"which": "the red one"})

    async with (
        world(tmp_path, {"zoo": it.server}) as w,
        w.client("legacy", elicitation_callback=elicit) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(it.call, client, "feed")
        await until(lambda: bool(it.server.calls("feed")))
        tasks.start_soon(it.call, client, "gate")
        await until(lambda: it.results.keys() == {"feed", "gate"})
    assert answered(it.results["gate"]) == "done"
    assert "the red one" in answered(it.results["feed"])


async def test_an_answer_that_is_missing_is_asked_for_again(tmp_path):
    async with world(tmp_path, {"zoo": two_questions()}, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        again = await client.call("zoo__feed", {}, requestState=first["requestState"], inputResponses={"other": {}})
        assert message(again) == "First?"
        assert again["inputRequests"] == first["inputRequests"]


@pytest.mark.parametrize("wrong", ["used", "foreign", "made up", "other arguments", "other tool"])
async def test_a_retry_that_is_not_that_of_a_parked_call_of_its_caller_is_refused_and_runs_nothing(tmp_path, wrong):
    server = two_questions()
    server.tools.append(tool("gate"))
    async with (
        world(tmp_path, {"zoo": server}, listing="auto") as w,
        w.client(MODERN, name="ann's", **person()) as ann,
        w.client(MODERN, name="bob's", **person()) as bob,
    ):
        first = await ann.call("zoo__feed")
        retry, client, name, arguments = accepted(first, "one"), ann, "zoo__feed", {}
        match wrong:
            case "used":
                await ann.call("zoo__feed", {}, **retry)
            case "foreign":
                client = bob
            case "made up":
                retry["requestState"] = "A" * 43
            case "other arguments":
                arguments = {"more": True}
            case _:
                name = "zoo__gate"
        with pytest.raises(MCPError) as caught:
            await client.call(name, arguments, **retry)
        assert caught.value.code == types.INVALID_PARAMS
        assert "requestState" in caught.value.message
        assert caught.value.error.data == {"reason": "invalid_request_state"}
        assert len(server.calls()) == 1


async def test_a_parked_call_expires_and_is_cancelled_at_the_server(tmp_path):
    server = two_questions()
    limits = {"limits": {"answer_timeout_s": DEADLINE_S}}
    async with world(tmp_path, {"zoo": server}, limits, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        await time_passes(DEADLINE_S)
        assert "notifications/cancelled" in server.methods()
        with pytest.raises(MCPError, match="it has expired"):
            await client.call("zoo__feed", {}, **accepted(first, "one"))
        assert len(server.calls()) == 1


@pytest.mark.parametrize("limit", ["parked_calls", "parked_calls_per_principal"])
async def test_no_more_calls_are_parked_than_the_limits_say(tmp_path, limit):
    server = zoo("legacy")
    async with (
        world(tmp_path, {"zoo": server}, {"limits": {limit: 2}}, listing="auto") as w,
        w.client(MODERN, **person()) as client,
    ):
        parked = [await client.call("zoo__feed") for _ in range(2)]
        third = await client.tried("zoo__feed")
        assert isinstance(third, MCPError)
        assert "limits.parked_calls" in third.message
        for each in parked:
            assert "red" in answered(await client.call("zoo__feed", {}, **accepted(each, "red")))


async def test_a_parked_call_ends_with_its_server_and_the_retry_is_told(tmp_path):
    server = two_questions()
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        await server.hang_up()
        result = await client.call("zoo__feed", {}, **accepted(first, "one"))
        assert result["isError"]
        assert "went away" in answered(result)
        assert len(server.calls()) == 1


async def test_a_parked_call_whose_server_has_ended_leaves_its_place_to_others(tmp_path):
    server = two_questions()
    limits = {"limits": {"parked_calls_per_principal": 1}}
    async with world(tmp_path, {"zoo": server}, limits, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        await server.hang_up()
        await until(lambda: not w.gateway.fleet["zoo"].calls.in_flight)
        again = await client.call("zoo__feed")
        assert message(again) == "First?"
        with pytest.raises(MCPError, match="the server has gone"):
            await client.call("zoo__feed", {}, **accepted(first, "one"))


async def test_a_parked_call_of_a_server_that_is_removed_from_the_config_ends_at_once(tmp_path):
    server = two_questions()
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        w.servers.clear()
        await w.reload(servers={})
        await until(lambda: not server._talks)
        assert "notifications/cancelled" in server.methods()
        await w.reload(servers={"zoo": server})
        await w.listed()
        told = await client.call("zoo__feed", {}, **accepted(first, "one"))
        assert "was removed from the config during the call" in answered(told)
        assert len(server.calls()) == 1


async def test_a_parked_call_of_a_server_that_is_changed_in_the_config_goes_on(tmp_path):
    server = two_questions()
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        server.entry = {"command": "in-memory", "args": ["--more"]}
        await w.reload()
        await w.listed()
        second = await client.call("zoo__feed", {}, **accepted(first, "one"))
        assert message(second) == "Second?"


async def test_a_server_with_a_parked_call_is_not_idle(tmp_path):
    server = two_questions()
    section = {"servers": {"zoo": {"idle_stop_s": DEADLINE_S}}}
    async with world(tmp_path, {"zoo": server}, section, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        await time_passes(2 * DEADLINE_S)
        second = await client.call("zoo__feed", {}, **accepted(first, "one"))
        assert message(second) == "Second?"


async def test_a_caller_that_gives_up_a_retry_gives_up_the_call(tmp_path):
    async def feed(call: Call) -> JsonObject:
        await call.ask("elicitation/create", FORM)
        await anyio.sleep_forever()
        return text("never")

    server = MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed})
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        with anyio.move_on_after(DEADLINE_S):
            async with passing(DEADLINE_S):
                await client.call("zoo__feed", {}, **accepted(first, "one"))
        await until(lambda: "notifications/cancelled" in server.methods())


async def test_a_question_that_the_server_takes_back_is_not_waited_for(tmp_path):
    async def feed(call: Call) -> JsonObject:
        with anyio.move_on_after(DEADLINE_S):
            await call.ask("elicitation/create", FORM)
        return text("went on without")

    server = MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed})
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(MODERN, **person()) as client:
        first = await client.call("zoo__feed")
        await time_passes(DEADLINE_S)
        result = await client.call("zoo__feed", {}, **accepted(first, "one"))
        assert answered(result) == "went on without"


# -- time, and callers who leave -------------------------------------------------------------------


@pytest.mark.parametrize("of_server", ERAS)
async def test_the_deadline_of_a_call_does_not_run_while_its_caller_is_asked(tmp_path, of_server):
    async def slowly(_context: Any, _params: Any) -> types.ElicitResult:
        await time_passes(2 * DEADLINE_S)
        return types.ElicitResult(action="accept", content={"which": "red"})

    section = {"servers": {"zoo": {"call_timeout_s": DEADLINE_S}}}
    async with (
        world(tmp_path, {"zoo": zoo(of_server)}, section) as w,
        w.client("legacy", elicitation_callback=slowly) as client,
    ):
        assert "red" in answered(await client.call("zoo__feed"))


async def test_a_person_who_takes_too_long_is_not_waited_for(tmp_path):
    asked = anyio.Event()

    async def never(_context: Any, _params: Any) -> types.ElicitResult:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        world(tmp_path, {"zoo": zoo("legacy")}, {"limits": {"answer_timeout_s": DEADLINE_S}}) as w,
        w.client("legacy", elicitation_callback=never) as client,
    ):
        async with passing(DEADLINE_S):
            result = await client.tried("zoo__feed")
        assert asked.is_set()
        assert isinstance(result, MCPError)
        assert "Nobody answered within 6 s" in result.message
        assert "notifications/cancelled" in [frame.get("method") for frame in client.frames]


async def test_a_caller_that_gives_up_its_call_ends_the_question_and_the_server_is_told_why(tmp_path):
    errors: list[MCPError] = []

    async def feed(call: Call) -> JsonObject:
        with anyio.CancelScope(shield=True):
            try:
                await call.ask("elicitation/create", FORM)
            except MCPError as error:
                errors.append(error)
        return text("late")

    given_up = anyio.CancelScope()

    async def never(_context: Any, _params: Any) -> types.ElicitResult:
        given_up.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    server = MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed})
    async with world(tmp_path, {"zoo": server}) as w, w.client("legacy", elicitation_callback=never) as client:
        with given_up:
            await client.call("zoo__feed")
        await until(lambda: bool(errors))
        assert "cancelled it" in errors[0].message


async def test_a_server_that_asks_on_and_on_by_its_results_is_stopped(tmp_path):
    async def feed(_call: Call) -> JsonObject:
        return {"resultType": "input_required", "requestState": "again"}

    server = MemoryServer([tool("feed")], eras=("modern",), answers={"feed": feed})
    async with world(tmp_path, {"zoo": server}, {"limits": {"input_rounds": 3}}) as w, w.client("legacy") as client:
        result = await client.call("zoo__feed")
        assert result["isError"]
        assert "limits.input_rounds" in answered(result)
        assert len(server.calls()) == 4


async def test_answers_that_no_longer_reach_their_server_are_lost_and_the_call_is_not_begun_again(tmp_path):
    async def script(request: Request) -> Answer | None:
        match request.method:
            case "server/discover":
                facts = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
                return reply(request, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **facts})
            case "tools/call":
                call = Call(request.message["params"], _no, _no, _no)
                return reply(request, await requires("elicitation/create")(call))
            case _:
                return await healthy(request)

    async with scripted(script) as server:

        async def switched_off(_context: Any, _params: Any) -> types.ElicitResult:
            await server.stop()
            return types.ElicitResult(action="accept", content={"which": "red"})

        entry = MemoryServer(entry={"url": server.url})
        async with (
            world(tmp_path, {"web": entry}, connector=open_streams) as w,
            w.client("legacy", elicitation_callback=switched_off) as client,
        ):
            result = await client.call("web__echo")
            assert result["isError"]
            assert "went away during the call" in answered(result)
            assert "The call may have run: check before you repeat it." in answered(result)
        assert len(server.calls()) == 1


async def test_a_call_whose_connection_ends_says_why_and_that_it_may_have_run(tmp_path):
    async def feed(_call: Call) -> JsonObject:
        await server.hang_up()
        return text("never heard")

    server = MemoryServer([tool("feed")], answers={"feed": feed})
    async with world(tmp_path, {"zoo": server}) as w, w.client() as client:
        told = answered(await client.call("zoo__feed"))
    assert "The server 'zoo' went away during the call (Connection closed). The call may have run" in told
    assert len(server.calls()) == 1


# -- prompts and resources -------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("of_server", ERAS)
@pytest.mark.parametrize("of_client", ERAS)
async def test_a_prompt_and_a_resource_may_ask_too(tmp_path, of_client, of_server):
    def given(result: JsonObject) -> Callable[[Call], Awaitable[JsonObject]]:
        async def give(call: Call) -> JsonObject:
            if of_server == "legacy":
                await call.ask("elicitation/create", FORM)
            elif "inputResponses" not in call.params:
                question = {"method": "elicitation/create", "params": FORM}
                return {"resultType": "input_required", "inputRequests": {"it": question}, "requestState": "s"}
            return result

        return give

    message = {"role": "user", "content": {"type": "text", "text": "Feed them."}}
    server = MemoryServer(
        [tool("feed")],
        eras=("legacy",) if of_server == "legacy" else ("modern",),
        offers={"prompts": [{"name": "meal"}], "resources": [{"name": "plan", "uri": "zoo://plan"}]},
        given={
            "meal": given({"messages": [message]}),
            "zoo://plan": given({"contents": [{"uri": "zoo://plan", "text": "At noon."}]}),
        },
    )
    heard: list[Any] = []
    async with world(tmp_path, {"zoo": server}, listing="auto") as w, w.client(of_client, **person(heard)) as client:
        await until(lambda: not w.gateway.tools.fleet.offering_first)
        prompt = await client.get_prompt("zoo__meal")
        assert isinstance(prompt.messages[0].content, types.TextContent)
        contents = (await client.read_resource("toolcrib://servers/zoo/zoo://plan")).contents
        assert isinstance(contents[0], types.TextResourceContents)
        assert contents[0].text == "At noon."
    assert len(heard) == 2


# -- roots, and what belongs to a session rather than to a call --------------------------------------


def starts_with_roots() -> MemoryServer:
    """Return a server that asks for roots as soon as it may, and tells them when it is called."""
    known: list[JsonObject] = []

    async def feed(call: Call) -> JsonObject:
        await until(lambda: bool(known))
        return text(str(known[-1]))

    return MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed}, on_initialized=known)


@pytest.mark.parametrize("of_client", ERAS)
async def test_roots_that_a_server_asks_for_at_its_start_are_those_of_the_caller_it_is_started_for(tmp_path, of_client):
    async with (
        world(tmp_path, {"zoo": starts_with_roots()}, listing="auto") as w,
        w.client(of_client, **person()) as client,
    ):
        result = await client.call_tool("zoo__feed", {})
        assert "file:///the-red-one" in answered_text(result)


async def test_a_question_at_the_start_may_be_answered_when_the_server_is_up_already(tmp_path):
    server = starts_with_roots()

    async def roots(_context: Any) -> types.ListRootsResult:
        await until(lambda: bool(server.calls()))
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": "file:///late"})])

    async with world(tmp_path, {"zoo": server}) as w, w.client("legacy", list_roots_callback=roots) as client:
        assert "file:///late" in answered(await client.call("zoo__feed"))


async def test_a_change_of_roots_is_told_to_the_server_that_the_client_alone_uses_which_may_ask_for_them(tmp_path):
    server = starts_with_roots()
    async with world(tmp_path, {"zoo": server}) as w, w.client("legacy", **person()) as client:
        await client.call("zoo__feed")
        before = len([frame for frame in client.frames if frame.get("method") == "roots/list"])
        await client.session.send_notification(types.RootsListChangedNotification())
        await until(lambda: "notifications/roots/list_changed" in server.methods())
        await until(lambda: len([each for each in client.frames if each.get("method") == "roots/list"]) > before)


async def test_a_question_outside_of_any_call_is_refused(tmp_path):
    server = MemoryServer([tool("feed")], eras=("legacy",))
    async with world(tmp_path, {"zoo": server}) as w, w.client("legacy", **person()) as client:
        await client.call("zoo__feed")
        [talk] = server._talks
        with pytest.raises(MCPError, match="outside of any request"):
            await talk.ask("elicitation/create", FORM)


async def test_a_finished_elicitation_is_told_to_the_one_who_was_asked(tmp_path):
    url = {"mode": "url", "message": "Log in.", "url": "https://login.test/", "elicitationId": "e-1"}
    server = zoo("legacy", params=url)
    async with (
        world(tmp_path, {"zoo": server}) as w,
        w.client("legacy", **person()) as client,
    ):
        await client.call("zoo__feed")
        [talk] = server._talks
        await talk._notify("elicitation/complete", {"elicitationId": "unknown"})
        await talk._notify("elicitation/complete", {"elicitationId": "e-1"})
        told = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "e-1"}}
        await until(lambda: told in client.frames)
        assert [frame for frame in client.frames if frame.get("method") == told["method"]] == [told]


@pytest.mark.parametrize("door", ["zoo__feed", "tool_call"])
async def test_an_error_that_requires_an_address_to_be_opened_reaches_the_client_as_it_is(tmp_path, door):
    needed = {"elicitations": [{"mode": "url", "message": "m", "url": "https://login.test/", "elicitationId": "e-2"}]}
    refusal = MCPError(types.URL_ELICITATION_REQUIRED, "Log in first.", needed)
    server = MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": refusal})
    async with world(tmp_path, {"zoo": server}) as w, w.client("legacy", **person()) as client:
        with pytest.raises(MCPError, match="Log in first") as caught:
            await client.call(door, {} if door != "tool_call" else {"name": "zoo__feed"})
        assert (caught.value.code, caught.value.error.data) == (types.URL_ELICITATION_REQUIRED, needed)
        [talk] = server._talks
        await talk._notify("elicitation/complete", {"elicitationId": "e-2"})
        await until(lambda: any("e-2" in line and "complete" in line for line in client.heard))


# -- log messages ----------------------------------------------------------------------------------

LEVELS = ("debug", "info", "warning", "error")


def chatty(era: str, **facts: Any) -> MemoryServer:
    """Return a server that says something at each level; one of 2026-07-28 says what it is asked for."""

    async def feed(call: Call) -> JsonObject:
        wanted = call.params.get("_meta", {}).get("io.modelcontextprotocol/logLevel")
        least = LEVELS.index(wanted) if wanted else 0
        for level in LEVELS[least:] if era == "legacy" or wanted else ():
            await call.tell(
                "message", {"level": level, "logger": "meals", "data": {"said": level, "key": "s3cret-key"}}
            )
        return text("done")

    return MemoryServer(
        [tool("feed")],
        eras=("legacy",) if era == "legacy" else ("modern",),
        answers={"feed": feed},
        logs=True,
        entry={"command": "in-memory", "env": {"API_KEY": "s3cret-key"}},
        **facts,
    )


def logged(client: Any) -> list[JsonObject]:
    return [frame["params"] for frame in client.frames if frame.get("method") == "notifications/message"]


@pytest.mark.parametrize("of_server", ERAS)
async def test_log_messages_reach_the_caller_from_the_level_on_that_it_has_set(tmp_path, of_server):
    server = chatty(of_server)
    async with world(tmp_path, {"zoo": server}) as w, w.client("legacy") as client, w.client("legacy") as other:
        assert client.server_capabilities.logging is not None
        assert await client.ask("logging/setLevel", {"level": "warning"}) == {}
        await client.call("zoo__feed")
        await until(lambda: len(logged(client)) == 2)
        assert logged(client)[0] == {
            "level": "warning",
            "logger": "zoo/meals",
            "data": {"said": "warning", "key": "***"},
        }
        assert logged(other) == []
    if of_server == "legacy":
        assert [message["params"] for message in server.received if message.get("method") == "logging/setLevel"] == [
            {"level": "warning"}
        ]


async def test_a_session_that_has_set_no_level_hears_what_the_server_says_by_itself(tmp_path):
    for era, heard in (("legacy", 4), (MODERN, 3)):
        folder = tmp_path / era
        folder.mkdir()
        async with world(folder, {"zoo": chatty(era)}) as w, w.client("legacy") as client:
            await client.call("zoo__feed")
            await until(lambda client=client, heard=heard: len(logged(client)) == heard)


async def test_a_server_is_told_a_level_once_somebody_wants_one_and_no_less_than_before(tmp_path):
    server = chatty("legacy")

    def told() -> list[str]:
        return [each["params"]["level"] for each in server.received if each.get("method") == "logging/setLevel"]

    section = {"servers": {"zoo": {"isolation": "shared"}}}
    async with world(tmp_path, {"zoo": server}, section) as w, w.client("legacy") as client:
        await client.call("zoo__feed")
        assert told() == []
        for level in ("warning", "error", "debug"):
            await client.ask("logging/setLevel", {"level": level})
            await client.call("zoo__feed")
        assert told() == ["warning", "debug"]


@pytest.mark.parametrize("of_server", ERAS)
async def test_a_request_without_a_session_hears_what_it_asks_for_and_else_nothing(tmp_path, of_server):
    async with world(tmp_path, {"zoo": chatty(of_server)}, listing="auto") as w, w.client(MODERN) as client:
        await client.call("zoo__feed")
        assert logged(client) == []
        data: JsonObject = {"method": "tools/call", "params": {"name": "zoo__feed", "arguments": {}}}
        client.session._stamp(data, {})
        data["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "error"
        await client.session._dispatcher.send_raw_request("tools/call", data["params"])
        await until(lambda: len(logged(client)) == 1)
        assert logged(client)[0]["level"] == "error"


async def test_a_level_that_there_is_not_is_refused_and_without_servers_nothing_is_promised(tmp_path):
    async with world(tmp_path, {"zoo": chatty("legacy")}) as w, w.client("legacy") as client:
        with pytest.raises(MCPError):
            await client.ask("logging/setLevel", {"level": "loud"})
    async with world(tmp_path, {}) as w, w.client("legacy") as client:
        assert client.server_capabilities.logging is None
