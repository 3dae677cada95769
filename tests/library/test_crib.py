"""``toolcrib.open``: the tools of servers, objects and functions, searched, decided about and called from a program.

See R350 to R355.
"""

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent
from starlette.applications import Starlette
from starlette.routing import Mount, Route

import toolcrib
from library.server_objects import files
from toolcrib.config.loading import load
from toolcrib.gateway.offline import open_decisions
from toolcrib.gateway.runtime import Runtime
from worlds import ERAS, PATIENCE_S

pytestmark = pytest.mark.anyio


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first one.
    """
    return a + b


async def weather(city: str) -> dict[str, str]:
    """Tell the weather in a city."""
    return {"city": city, "weather": "rain"}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# -- what is opened --------------------------------------------------------------------------------


async def test_functions_are_found_by_what_they_do_and_called_by_name():
    async with toolcrib.open(tools=[add, weather]) as crib:
        found = await crib.search("will it rain in a city")
        assert [hit.name for hit in found][:1] == ["local__weather"]
        [hit, *_] = found
        assert hit.definition["inputSchema"]["required"] == ["city"]
        assert hit.why
        result = await crib.call(hit.name, {"city": "Oslo"})
        assert result.structured == result.value == {"city": "Oslo", "weather": "rain"}
        assert json.loads(result.text) == result.structured
        assert (await crib.call("local__add", {"a": 2})).value == "3"
        assert {tool.name for tool in await crib.tools()} == {"local__add", "local__weather"}


async def test_hits_have_the_reasons_that_the_engine_alone_gives():
    index = toolcrib.ToolSearch([add, weather], server="local")
    async with toolcrib.open(tools=[add, weather]) as crib:
        for query in ("sum of the local numbers", "rain forecast for Oslo", "the first city", "add", "^local"):
            kind: Any = "regex" if query.startswith("^") else "fts"
            hits = await crib.search(query, search_type=kind)
            assert hits
            alone = {hit.name: hit.why for hit in index.search(query, search_type=kind)}
            assert {hit.name: hit.why for hit in hits} == alone


async def test_server_objects_and_groups_of_functions_are_servers_by_their_names():
    async with toolcrib.open(servers={"files": files(), "sums": [add]}, tools=[weather]) as crib:
        tools = {tool.name: tool.server for tool in await crib.tools()}
        assert tools == {"files__read_file": "files", "sums__add": "sums", "local__weather": "local"}
        assert (await crib.call("files__read_file", {"path": "x"})).text == "content of x"
        assert [hit.server for hit in await crib.search("read", server="files")] == ["files"]


async def test_a_document_configures_them_like_a_file(tmp_path: Path):
    section = {"policy": {"deny": ["sums__*"]}, "servers": {"files": {"tools": {"read_file": {"name": "peruse"}}}}}
    file = tmp_path / "toolcrib.json"
    file.write_text(json.dumps({"toolcrib": section}))
    for config in ({"toolcrib": section}, file, str(file)):
        async with toolcrib.open(config, servers={"files": files(), "sums": [add]}) as crib:
            assert [tool.name for tool in await crib.tools()] == ["files__peruse"]


@pytest.mark.parametrize("server", [7, "mcp.json", object()])
def test_what_is_no_server_is_refused_at_once(server: object):
    with pytest.raises(toolcrib.BadRequest, match="The server 'x' is a"):
        toolcrib.open(servers={"x": server})


def test_functions_that_cannot_be_tools_together_are_refused_at_once():
    with pytest.raises(toolcrib.BadRequest, match="Two functions are called add"):
        toolcrib.open(tools=[add, add])
    with pytest.raises(toolcrib.BadRequest, match="'local' is the server"):
        toolcrib.open(servers={"local": [add]}, tools=[weather])


async def test_a_config_that_cannot_be_used_says_everything_that_is_wrong(tmp_path: Path):
    wrong = {"mcpServers": {"a": {"command": "x"}}, "toolcrib": {"servers": {"c": {}}, "limits": {"name_max": "x"}}}
    with pytest.raises(toolcrib.ConfigError) as caught:
        async with toolcrib.open(wrong, servers={"a": [add]}):
            pass
    paths = {problem.path for problem in caught.value.problems}
    assert paths == {"mcpServers.a", "toolcrib.servers.c", "toolcrib.limits.name_max"}
    with pytest.raises(toolcrib.ConfigError, match="does not exist"):
        async with toolcrib.open(tmp_path / "none.json"):
            pass


# -- the same way as any call ----------------------------------------------------------------------


async def test_denied_tools_are_unknown_and_move_nothing():
    async def seen(crib: toolcrib.Crib) -> list[object]:
        found = [await crib.search("read a file"), await crib.search("add", search_type="regex")]
        with pytest.raises(toolcrib.UnknownTool) as caught:
            await crib.call("files__read_file", {"path": "x"})
        return [*found, [list(each) for each in found], await crib.tools(), str(caught.value)]

    deny = {"toolcrib": {"policy": {"deny": ["files__*"]}}}
    async with toolcrib.open(deny, servers={"files": files()}, tools=[add]) as crib:
        denied = await seen(crib)
    async with toolcrib.open(tools=[add]) as crib:
        assert await seen(crib) == denied


async def test_reasons_have_no_word_that_only_the_name_of_a_denied_tool_has():
    def total(numbers: list[int]) -> int:
        """Add up numbers. Use files__read_file first."""
        return sum(numbers)

    whys: list[str] = []
    for config in ({}, {"toolcrib": {"policy": {"deny": ["files__*"]}}}):
        async with toolcrib.open(config, servers={"files": files()}, tools=[total]) as crib:
            whys.append((await crib.search("add up numbers, read files", server="local"))[0].why)
    assert whys == ["description: add, numbers, read, files", "description: add, numbers"]


async def test_arguments_are_checked_before_the_function_runs():
    ran: list[int] = []

    def note(number: int) -> None:
        ran.append(number)

    async with toolcrib.open(tools=[note]) as crib:
        with pytest.raises(toolcrib.BadRequest, match="number"):
            await crib.call("local__note", {"number": "many"})
        assert not ran
        assert (await crib.call("note", {"number": 3})).text == ""
    assert ran == [3]


async def test_a_tool_that_needs_a_persons_yes_does_not_run_without():
    ran: list[int] = []
    confirm = {"toolcrib": {"policy": {"confirm": {"tools": ["local__note"]}}}}
    async with toolcrib.open(confirm, tools=[_noting(ran)]) as crib:
        for caller in (crib, crib.as_("ann")):
            with pytest.raises(toolcrib.NotConfirmed, match="local__note"):
                await caller.call("local__note", {"number": 1})
        await crib.allow("note")
        await crib.call("local__note", {"number": 2})
        # A yes for one caller is none for another.
        with pytest.raises(toolcrib.NotConfirmed):
            await crib.as_("ann").call("local__note", {"number": 3})
    assert ran == [2]


async def test_what_may_not_be_used_cannot_be_allowed():
    async with toolcrib.open({"toolcrib": {"policy": {"deny": ["*add"]}}}, tools=[add, weather]) as crib:
        for name in ("local__add", "local__none"):
            with pytest.raises(toolcrib.UnknownTool, match=name):
                await crib.allow(name)


def _noting(ran: list[int]) -> Any:
    def note(number: int) -> None:
        ran.append(number)

    return note


async def test_a_tool_that_is_not_read_only_is_refused_where_only_those_are_wanted():
    async with toolcrib.open(tools=[add]) as crib:
        with pytest.raises(toolcrib.ToolcribError, match="not declared read-only"):
            await crib.call("local__add", {"a": 1}, read_only=True)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_that_takes_too_long_is_given_up(*, is_async: bool):
    going_on = threading.Event()

    def block() -> None:
        going_on.wait(PATIENCE_S)

    async def sleep() -> None:
        await anyio.sleep_forever()

    brief = {"toolcrib": {"servers": {"local": {"call_timeout_s": 0.05}}}}
    async with toolcrib.open(brief, tools=[sleep if is_async else block]) as crib:
        with pytest.raises(toolcrib.CallTimeout, match="did not answer"):
            await crib.call("sleep" if is_async else "block")
    going_on.set()


async def test_cancelling_a_call_cancels_its_function():
    began, cancelled = anyio.Event(), anyio.Event()

    async def wait() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.fail_after(PATIENCE_S):
        async with toolcrib.open(tools=[wait]) as crib, anyio.create_task_group() as tasks:
            tasks.start_soon(crib.call, "local__wait")
            await began.wait()
            tasks.cancel_scope.cancel()
    assert cancelled.is_set()


async def test_what_a_function_raises_is_a_result_that_says_so():
    def fail() -> None:
        raise LookupError("no such row")

    async with toolcrib.open(tools=[fail]) as crib:
        result = await crib.call("local__fail")
        assert result.is_error
        assert result.text == "LookupError: no such row"
        assert "is_error" in repr(result)


async def test_events_tell_of_searches_and_calls():
    events: list[Mapping[str, Any]] = []
    async with toolcrib.open(tools=[add], on_event=events.append) as crib:
        await crib.search("add")
        await crib.call("local__add", {"a": 1})
    happened = [event["event"] for event in events]
    assert {"tool_search_query", "tool_activated", "tool_call"} <= set(happened)


# -- a library -------------------------------------------------------------------------------------


async def test_the_blocks_own_error_comes_out_as_it_was_raised():
    with pytest.raises(LookupError, match="mine"):
        async with toolcrib.open(tools=[add]):
            raise LookupError("mine")


async def test_nothing_is_written_where_nothing_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    async with toolcrib.open({"toolcrib": {"skills": {"enabled": True}}}, servers={"files": files()}) as crib:
        await crib.search("read")
        await crib.call("files__read_file", {"path": "x"})
    assert names_in(tmp_path) == set()


async def test_nor_does_a_program_over_tools_leave_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    config = {"toolcrib": {"programs": {"writes": "allow"}}}
    code = "from tools import local__add\nawait local__add(a=1, b=2)"
    async with toolcrib.open(config, tools=[add]) as crib, crib.client() as client:
        result = await client.call_tool("tool_run", {"code": code})
        assert result.content == [TextContent(type="text", text="3")]
    assert names_in(tmp_path) == set()


async def test_a_folder_keeps_what_is_known_for_the_next_time(tmp_path: Path):
    for _ in range(2):
        async with toolcrib.open(tools=[add], cache=tmp_path / "kept") as crib:
            assert (await crib.call("add", {"a": 1})).text == "2"
    assert {"tool_cache.db", "state.db", "events.jsonl"} <= names_in(tmp_path / "kept")


async def test_what_the_command_line_has_stored_for_a_file_is_shared_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    file = tmp_path / "toolcrib.json"
    file.write_text(json.dumps({"toolcrib": {"policy": {"confirm": {"tools": ["*"]}}}}))
    async with toolcrib.open(file, tools=[add], cache="user") as crib:
        await crib.allow("local__add")
    settings = load(file, dict(os.environ), tmp_path)
    assert settings.tool_cache.exists()
    with open_decisions(settings, Runtime()) as decided:
        assert [approval.name for approval, _at in decided.approvals.all()] == ["local__add"]
    async with toolcrib.open(file, tools=[add], cache="user") as crib:
        assert (await crib.call("local__add", {"a": 1})).text == "2"


def test_what_is_stored_for_a_file_needs_the_file():
    with pytest.raises(toolcrib.BadRequest, match="cache='user'"):
        toolcrib.open(tools=[add], cache="user")


async def test_functions_that_change_between_two_openings_are_listed_anew(tmp_path: Path):
    def old() -> str:
        return "old"

    async with toolcrib.open(tools=[old], cache=tmp_path):
        pass
    async with toolcrib.open(tools=[add], cache=tmp_path) as crib:
        assert [tool.name for tool in await crib.tools()] == ["local__add"]


async def test_several_are_open_at_the_same_time_and_know_nothing_of_each_other():
    async with toolcrib.open(tools=[add]) as one, toolcrib.open(tools=[weather]) as other:
        assert [tool.name for tool in await one.tools()] == ["local__add"]
        assert [tool.name for tool in await other.tools()] == ["local__weather"]
    assert repr(one) == "Crib(local; for local)"


@pytest.mark.slow
async def test_a_thousand_calls_at_once_are_all_answered():
    async with toolcrib.open(servers={"files": files()}, tools=[add, weather]) as crib:
        answers: dict[int, str] = {}

        async def call(number: int) -> None:
            match number % 3:
                case 0:
                    answers[number] = (await crib.call("local__add", {"a": number})).text
                case 1:
                    answers[number] = (await crib.call("local__weather", {"city": str(number)})).value["city"]
                case _:
                    answers[number] = (await crib.call("files__read_file", {"path": str(number)})).text

        async with anyio.create_task_group() as tasks:
            for number in range(1000):
                tasks.start_soon(call, number)
        expected = {0: lambda n: str(n + 1), 1: str, 2: lambda n: f"content of {n}"}
        assert answers == {number: expected[number % 3](number) for number in range(1000)}


# -- for others ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_clients_and_frameworks_get_what_serve_serves(mode: str):
    async with toolcrib.open(tools=[add]) as crib:
        for client in (crib.client(mode=mode), mcp.Client(crib.server, mode=mode)):
            async with client:
                assert "tool_search" in {tool.name for tool in (await client.list_tools()).tools}
                result = await client.call_tool("tool_call", {"name": "local__add", "arguments": {"a": 1}})
                assert [block.model_dump()["text"] for block in result.content] == ["2"]


async def test_a_crib_is_a_server_of_another_crib():
    async with toolcrib.open(tools=[add]) as inner, toolcrib.open(servers={"inner": inner.server}) as outer:
        result = await outer.call("inner__tool_call", {"name": "local__add", "arguments": {"a": 1}})
        assert result.text == "2"


VISIBLE = {
    "toolcrib": {
        "policy": {
            "visibility": [
                {"when": {"tenant_id": "acme"}, "allow": ["local__*"]},
                {"when": {"tenant_id": "other"}, "deny": ["local__add"]},
            ]
        }
    }
}


async def test_each_caller_sees_and_calls_their_own_tools():
    async with toolcrib.open(VISIBLE, tools=[add, weather]) as crib:
        ann, bob = crib.as_("ann", tenant_id="acme"), crib.as_("bob", tenant_id="other")
        assert {tool.name for tool in await ann.tools()} == {"local__add", "local__weather"}
        assert {tool.name for tool in await bob.tools()} == {"local__weather"}
        assert [hit.name for hit in await bob.search("local__add", search_type="exact")] == []
        assert (await ann.call("local__add", {"a": 1})).text == "2"
        with pytest.raises(toolcrib.UnknownTool):
            await bob.call("local__add", {"a": 1})


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_of_a_callers_crib_is_that_caller(mode: str):
    async with toolcrib.open(VISIBLE, tools=[add, weather]) as crib:
        bob = crib.as_("bob", tenant_id="other")
        async with crib.as_("ann", tenant_id="acme").client(mode=mode) as client, bob.client(mode=mode) as other:
            assert not await _fails(client, "local__add")
            assert await _fails(other, "local__add")
            assert not await _fails(client, "local__add")


async def _fails(client: mcp.Client, name: str) -> bool:
    result = await client.call_tool("tool_call", {"name": name, "arguments": {"a": 1}})
    return result.is_error


async def test_it_is_mounted_in_an_application():
    async with toolcrib.open(tools=[add]) as crib:
        app = Starlette(routes=[Mount("/tools", crib.asgi()), Route("/mcp", crib.as_("ann").asgi())])
        for url in ("http://127.0.0.1/tools/", "http://127.0.0.1/mcp"):
            async with (
                httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http,
                mcp.Client(streamable_http_client(url, http_client=http)) as client,
            ):
                result = await client.call_tool("tool_call", {"name": "local__add", "arguments": {"a": 1}})
                assert [block.model_dump()["text"] for block in result.content] == ["2"]


async def test_what_is_mounted_checks_tokens_and_hosts():
    tokens = {"toolcrib": {"http": {"tokens": [{"token": "a-long-token-of-ann", "subject": "ann"}]}}}
    async with toolcrib.open(tokens, tools=[add]) as crib:
        transport = httpx2.ASGITransport(Starlette(routes=[Mount("/", crib.asgi())]))
        async with httpx2.AsyncClient(transport=transport) as http:
            assert (await http.post("http://127.0.0.1/mcp", json={})).status_code == 401
            known = {"authorization": "Bearer a-long-token-of-ann"}
            assert (await http.post("http://evil.example/mcp", json={}, headers=known)).status_code == 421
