"""Whom a server asks where several clients use it: the caller of the call that it is about, or nobody."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import MCPError
from mcp.server import Server, ServerRequestContext

from fakes.menu import tool
from online import Online, online
from toolcrib.base.model import Caller, JsonObject
from toolcrib.config.schema import HttpSection, LimitsSection, ServerSection
from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.downstream import relays as downstream
from toolcrib.downstream.relays import Relays
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import NoActivations, Session
from toolcrib.server.http import bind, serve_http, url_of
from worlds import Call, Client, MemoryServer, settled, text, until

pytestmark = pytest.mark.anyio

TOKENS = {"http": {"tokens": [{"token": "token-ann", "subject": "ann"}, {"token": "token-bob", "subject": "bob"}]}}
APART = {**TOKENS, "server_defaults": {"protocol": "legacy"}}
FORM = {"message": "Which one?", "requestedSchema": {"type": "object", "properties": {"which": {"type": "string"}}}}


def answering(name: str, heard: list[str]) -> JsonObject:
    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        heard.append(f"{name} {params.message}")
        return types.ElicitResult(action="accept", content={"which": name})

    return {"elicitation_callback": elicit}


async def no_roots(_context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


def said(result: types.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def asking() -> MemoryServer:
    """Return a server on stdio that asks, when all who are expected are there, and tells what it was answered."""

    async def feed(call: Call) -> JsonObject:
        await settled()
        try:
            answer = await call.ask("elicitation/create", {**FORM, "message": call.arguments["who"]})
        except MCPError as error:
            return text(error.message)
        return text(answer["content"]["which"])

    return MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed})


@pytest.mark.parametrize("isolation", ["principal", "session", None])
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_two_principals_are_asked_what_is_theirs_at_the_same_time(tmp_path, era, isolation):
    section = {**TOKENS, "servers": {"zoo": {"isolation": isolation}}} if isolation else TOKENS
    heard: list[str] = []
    async with online(tmp_path, {"zoo": asking()}, section) as it, anyio.create_task_group() as tasks:

        async def work(name: str) -> None:
            async with it.client(era, f"token-{name}", **answering(name, heard)) as client:
                for _ in range(3):
                    assert said(await client.call_tool("zoo__feed", {"who": name})) == name

        tasks.start_soon(work, "ann")
        tasks.start_soon(work, "bob")
    assert sorted(heard) == ["ann ann"] * 3 + ["bob bob"] * 3


async def test_where_several_principals_share_a_process_nobody_is_asked_and_the_server_knows_that(tmp_path):
    zoo, heard = asking(), list[str]()
    section = {**TOKENS, "servers": {"zoo": {"isolation": "shared"}}}
    async with (
        online(tmp_path, {"zoo": zoo}, section) as it,
        it.client("legacy", "token-ann", **answering("ann", heard)) as client,
    ):
        result = await client.call_tool("zoo__feed", {"who": "ann"})
        assert "does not declare" in said(result)
        assert all(declared == {} for declared in zoo.declared())
        status = json.loads((await client.read_resource("toolcrib://status")).contents[0].text)  # type: ignore[union-attr]
        [row] = status["servers"]
        assert row["withheld"] == ["elicitation"]
    assert heard == []


async def test_two_sessions_of_one_person_that_share_a_process_are_asked_only_one_at_a_time(tmp_path):
    heard: list[str] = []
    async with (
        online(tmp_path, {"zoo": asking()}) as it,
        it.client("legacy", **answering("ann", heard)) as ann,
        it.client("legacy", **answering("bob", heard)) as bob,
    ):
        for name, client in (("ann", ann), ("bob", bob)):
            assert said(await client.call_tool("zoo__feed", {"who": name})) == name
        heard.clear()
        results: list[str] = []

        async def work(name: str, client: Client) -> None:
            results.append(said(await client.call_tool("zoo__feed", {"who": name})))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work, "ann", ann)
            tasks.start_soon(work, "bob", bob)
        assert "isolation: session" in results[0]
        assert all(each.split()[0] == each.split()[1] for each in heard)


async def test_a_server_that_asks_while_it_is_started_for_a_request_asks_whose_request_it_is(tmp_path):
    known, heard = list[JsonObject](), list[str]()

    async def plan(_call: Call) -> JsonObject:
        await until(lambda: bool(known))
        return {"contents": [{"uri": "zoo://plan", "text": known[0]["content"]["which"]}]}

    zoo = MemoryServer(
        eras=("legacy",),
        offers={"resources": [{"name": "plan", "uri": "zoo://plan"}]},
        given={"zoo://plan": plan},
        on_initialized=known,
        asks_first=("elicitation/create", FORM),
    )
    async with online(tmp_path, {"zoo": zoo}) as it, it.client("legacy", **answering("ann", heard)) as client:
        await until(lambda: not it.world.gateway.tools.fleet.offering_first)
        [contents] = (await client.read_resource("toolcrib://servers/zoo/zoo://plan")).contents
        assert isinstance(contents, types.TextResourceContents)
        assert contents.text == "ann"
    assert heard == [f"ann {FORM['message']}"]


async def test_roots_are_told_to_a_server_only_where_one_client_alone_uses_it(tmp_path):
    for isolation, told in (("shared", False), ("session", True)):
        folder, zoo = tmp_path / isolation, asking()
        folder.mkdir()
        async with (
            online(folder, {"zoo": zoo}, {"servers": {"zoo": {"isolation": isolation}}}) as it,
            it.client("legacy", list_roots_callback=no_roots, **answering("ann", [])) as client,
        ):
            await client.call_tool("zoo__feed", {"who": "ann"})
            assert ("roots" in zoo.declared()[-1]) == told


async def test_logs_of_one_principal_s_calls_are_never_told_another(tmp_path):
    async def feed(call: Call) -> JsonObject:
        await settled()
        await call.tell("message", {"level": "info", "data": call.arguments["who"]})
        return text("done")

    zoo = MemoryServer([tool("feed")], eras=("legacy",), answers={"feed": feed}, logs=True)
    section = {**TOKENS, "servers": {"zoo": {"isolation": "shared"}}}
    heard: list[tuple[str, Any]] = []

    def noting(name: str) -> JsonObject:
        async def note(params: Any) -> None:
            heard.append((name, params.data))

        return {"logging_callback": note}

    async with (
        online(tmp_path, {"zoo": zoo}, section) as it,
        it.client("legacy", "token-ann", **noting("ann")) as ann,
        it.client("legacy", "token-bob", **noting("bob")) as bob,
    ):
        await ann.call_tool("zoo__feed", {"who": "ann"})
        await until(lambda: heard == [("ann", "ann")])
        async with anyio.create_task_group() as tasks:
            for name, client in (("ann", ann), ("bob", bob)):
                tasks.start_soon(client.call_tool, "zoo__feed", {"who": name})
        assert all(name == data for name, data in heard)


# -- a server that is reached over streamable HTTP ---------------------------------------------------


@asynccontextmanager
async def http_zoo(*, asks_apart: bool = False) -> AsyncGenerator[str]:
    """Serve a server with sessions on loopback, which asks whoever calls it; yield its address.

    ``asks_apart``: by its own stream, and not on the answer to the call, as many do that call no request by its name.
    """

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="feed", input_schema={"type": "object"})])

    async def call_tool(context: ServerRequestContext[Any, Any], params: Any) -> types.CallToolResult:
        who = params.arguments["who"]
        await settled()
        about = None if asks_apart else context.request_id
        answer = await context.session.elicit_form(who, FORM["requestedSchema"], related_request_id=about)  # type: ignore[arg-type]
        content = answer.content if answer.action == "accept" else {}
        return types.CallToolResult(content=[types.TextContent(text=str((content or {}).get("which")))])

    server = Server("zoo", on_list_tools=list_tools, on_call_tool=call_tool)
    http, stop = HttpSection(port=0), anyio.Event()
    with bind(http) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_http, server.streamable_http_app(), http, listener, stop)
            yield url_of(listener, http).replace(http.path, "/mcp")
            stop.set()


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_what_comes_on_the_answer_to_a_call_is_asked_of_that_call_s_caller_whoever_shares(tmp_path, era):
    heard: list[str] = []
    async with http_zoo() as url:
        entry = {"type": "http", "url": url}
        section = {**TOKENS, "server_defaults": {"protocol": "legacy"}}
        async with reached(tmp_path, entry, section) as it, anyio.create_task_group() as tasks:

            async def work(name: str) -> None:
                async with it.client(era, f"token-{name}", **answering(name, heard)) as client:
                    for _ in range(3):
                        assert said(await client.call_tool("zoo__feed", {"who": name})) == name

            tasks.start_soon(work, "ann")
            tasks.start_soon(work, "bob")
    assert sorted(heard) == ["ann ann"] * 3 + ["bob bob"] * 3


async def test_where_it_asks_by_a_stream_of_its_own_each_session_gets_a_connection_and_is_asked_what_is_its(tmp_path):
    heard: list[str] = []
    asked = anyio.Event()

    async def never(_context: Any, _params: Any) -> types.ElicitResult:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with http_zoo(asks_apart=True) as url, reached(tmp_path, {"type": "http", "url": url}, APART) as it:
        async with (
            it.client("legacy", "token-ann", list_roots_callback=no_roots, elicitation_callback=never) as ann,
            it.client("legacy", "token-bob", list_roots_callback=no_roots, **answering("bob", heard)) as bob,
            it.client("legacy", "token-bob", **answering("cid", heard)) as cid,
        ):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ann.call_tool, "zoo__feed", {"who": "ann"})
                await asked.wait()
                tasks.cancel_scope.cancel()
            # Ann's call was given up a moment ago, and the server may still work at it.
            for name, client in (("bob", bob), ("cid", cid)):
                assert said(await client.call_tool("zoo__feed", {"who": name})) == name
            async with anyio.create_task_group() as tasks:
                for name, client in (("bob", bob), ("cid", cid)):
                    tasks.start_soon(client.call_tool, "zoo__feed", {"who": name})
            status = json.loads((await bob.read_resource("toolcrib://status")).contents[0].text)  # type: ignore[union-attr]
            assert status["servers"][0]["withheld"] == []
    assert sorted(heard) == ["bob bob"] * 2 + ["cid cid"] * 2


async def test_as_long_as_there_are_too_many_connections_for_that_who_is_not_certain_is_refused_at_once(tmp_path):
    heard: list[str] = []
    section = {**APART, "limits": {"connections_per_server": 2}}
    async with http_zoo(asks_apart=True) as url, reached(tmp_path, {"type": "http", "url": url}, section) as it:
        async with (
            it.client("legacy", "token-ann", **answering("ann", heard)) as ann,
            it.client("legacy", "token-bob", **answering("bob", heard)) as bob,
            it.client("legacy", "token-bob", **answering("cid", heard)) as cid,
        ):
            for name, client in (("ann", ann), ("ann", ann), ("bob", bob), ("cid", cid)):
                assert said(await client.call_tool("zoo__feed", {"who": name})) == name
            results: list[types.CallToolResult | MCPError] = []

            async def work(name: str, client: Client) -> None:
                try:
                    results.append(await client.call_tool("zoo__feed", {"who": name}))
                except MCPError as error:
                    results.append(error)

            heard.clear()
            async with anyio.create_task_group() as tasks:
                for name, client in (("ann", ann), ("bob", bob), ("cid", cid)):
                    tasks.start_soon(work, name, client)
            assert "ann ann" in heard
            assert {"bob cid", "cid bob"}.isdisjoint(heard)


@asynccontextmanager
async def reached(folder: Any, entry: JsonObject, section: JsonObject) -> AsyncGenerator[Online]:
    """Serve a toolcrib that reaches its one server by its real address."""
    async with online(folder, {"zoo": MemoryServer([], entry=entry)}, section, connector=None) as it:
        yield it


# -- any order of events ---------------------------------------------------------------------------

SESSIONS = ("ann", "bob", "cid")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from(SESSIONS)),
        st.tuples(st.just("answer"), st.integers(0, 5)),
        st.tuples(st.just("give up"), st.integers(0, 5)),
        st.tuples(st.just("ask"), st.integers(0, 9)),
        st.tuples(st.just("log"), st.integers(0, 9)),
    ),
    max_size=25,
)


class Someone(Request):
    """A request of a caller that notes what it is asked and told."""

    lasting = can_ask_now = True

    def __init__(self, session: str, heard: list[tuple[str, str]]) -> None:
        capabilities: JsonObject = {"elicitation": {}}
        super().__init__(
            Session(session, Caller(session), NoActivations(), growing=False, lasting=True, capabilities=capabilities)
        )
        self._heard = heard

    async def ask(self, _method: str, params: JsonObject, /) -> JsonObject:
        self._heard.append((self.session.label, params["message"]))
        return {"action": "decline"}

    async def notify(self, method: str, params: JsonObject) -> None:
        self._heard.append((self.session.label, params["data"]))

    def wants_log(self, level: str) -> bool:
        return True


@given(STEPS)
@settings(max_examples=2 * settings.default.max_examples)
async def test_whatever_happens_in_whatever_order_no_question_and_no_log_reaches_another_session(steps):
    """A server asks and tells only for calls that it may still work at: under way, or given up a moment ago."""
    server = ServerSettings("zoo", StdioTarget("zoo", (), {}, None), ServerSection(), "f")
    relays = Relays(server, LimitsSection(), {"elicitation": {}}, is_exclusive=False)
    heard: list[tuple[str, str]] = []
    open_calls: list[tuple[str, Any]] = []
    worked_at: list[str] = []

    for step, number in steps:
        if step == "call":
            call = downstream.Call(relays, Someone(str(number), heard), "tools/call", {}, "feed")
            call.__enter__().is_sent = True
            open_calls.append((str(number), call))
            worked_at.append(str(number))
        elif step in ("answer", "give up") and open_calls:
            session, call = open_calls.pop(int(number) % len(open_calls))
            if step == "answer":
                call.__exit__(None, None, None)
                worked_at.remove(session)
            else:
                error = TimeoutError()
                call.__exit__(TimeoutError, error, None)
        elif step in ("ask", "log") and worked_at:
            owner = worked_at[int(number) % len(worked_at)]
            if step == "ask":
                try:
                    await relays.on_request("elicitation/create", {**FORM, "message": owner})
                except MCPError:
                    continue
            else:
                await relays.on_notify("notifications/message", {"level": "info", "data": owner})
    assert all(session == meant for session, meant in heard)
