"""``tool_call`` and ``tool_call_read``: any allowed tool, in any spelling, with arguments that are checked first."""

import json
from typing import Any

import anyio
import pytest
from mcp import MCPError

from fakes.menu import tool
from worlds import BUILTINS, DEADLINE_S, ERAS, MemoryServer, passing, text, world

pytestmark = pytest.mark.anyio

PARAMS: dict[str, Any] = {"owner": "string", "count": {"type": "integer", "minimum": 1}}
CREATE = tool("create_issue", "Create an issue.", PARAMS, ["owner"])
FITS = {"owner": "o", "count": 2}


async def refused(client, name: str, arguments: Any = None, door: str = "tool_call") -> str:
    """Return the text of a call that is refused, all of which is in the content."""
    result = await client.call(door, {"name": name, **({} if arguments is None else {"arguments": arguments})})
    assert result["isError"] is True
    assert "structuredContent" not in result
    [block] = result["content"]
    return block["text"]


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_is_called_by_any_spelling_of_its_name(tmp_path, era):
    qualified = [f"github{mark}create_issue" for mark in ("__", ".", "/", ":")]
    async with world(tmp_path, {"github": [CREATE]}, listing="auto") as w, w.client(era) as client:
        for spelling in (*qualified, "create_issue"):
            result = await client.tool_call(spelling, FITS)
            assert result["content"][0]["text"] == f"ran create_issue {json.dumps(FITS)}"
        assert [call["name"] for call in w["github"].calls()] == ["create_issue"] * 5


async def test_a_name_in_another_case_or_shape_is_unknown(tmp_path):
    async with world(tmp_path, {"github": [CREATE]}) as w, w.client() as client:
        for spelling in ("Create_Issue", "GITHUB__create_issue", "github create_issue", "", "__", "."):
            assert (await refused(client, spelling)).startswith(f"Unknown tool: {spelling}")
        assert w["github"].calls() == []


async def test_a_bare_name_that_two_servers_have_names_neither_and_both_are_suggested(tmp_path):
    async with world(tmp_path, {"github": [CREATE], "jira": [CREATE]}) as w, w.client() as client:
        said = await refused(client, "create_issue", FITS)
        assert said == "Unknown tool: create_issue. Similar names: github__create_issue, jira__create_issue"
        assert w["github"].calls() == w["jira"].calls() == []


async def test_a_bare_name_that_two_servers_have_means_the_one_that_is_always_listed(tmp_path):
    config = {"servers": {"jira": {"always_loaded_tools": ["create_issue"]}}}
    async with world(tmp_path, {"github": [CREATE], "jira": [CREATE]}, config) as w, w.client() as client:
        assert "isError" not in await client.tool_call("create_issue", FITS)
        assert (len(w["github"].calls()), len(w["jira"].calls())) == (0, 1)


async def test_a_bare_name_is_told_from_a_denied_one_of_another_server(tmp_path):
    config = {"policy": {"deny": ["jira.create_issue"]}}
    async with world(tmp_path, {"github": [CREATE], "jira": [CREATE]}, config) as w, w.client() as client:
        assert "isError" not in await client.tool_call("create_issue", FITS)
        assert len(w["github"].calls()) == 1


async def test_an_odd_name_of_a_server_and_a_tool_can_be_called_as_it_is_found(tmp_path):
    async with world(tmp_path, {"my server__": [tool("a b/c.d")]}) as w, w.client() as client:
        [name] = await client.found("a b c d")
        assert len(name) <= 64
        await client.call(name)
        await client.tool_call("my server__.a b/c.d")
        assert [call["name"] for call in w["my server__"].calls()] == ["a b/c.d"] * 2


async def test_at_most_three_near_names_are_suggested(tmp_path):
    tools = [tool(f"create_issue_{number}") for number in range(6)]
    async with world(tmp_path, {"github": tools}) as w, w.client() as client:
        assert (await refused(client, "create_an_issue")).count("github__create_issue_") == 3
        assert await refused(client, "teleport") == "Unknown tool: teleport"


async def test_names_are_suggested_by_spelling_and_only_where_they_are_near(tmp_path):
    servers = {
        "git": [
            tool("git_show", "Shows the log of one commit."),
            tool("git_log", "Lists commits."),
            tool("git_branch"),
        ],
        "devtools": [
            tool("emulate", "Emulates a device that does not exist, such as nosuch."),
            tool("get_file_contents"),
        ],
    }
    async with world(tmp_path, servers) as w, w.client() as client:
        for written, meant in (
            *(("git_lgo", "git__git_log"), ("git__git_lgo", "git__git_log"), ("git.lgo", "git__git_log")),
            *(("mcp__toolcrib__git__git_lgo", "git__git_log"), ("other__git_lgo", "git__git_log")),
            *(
                ("devtools.emualte", "devtools__emulate"),
                ("contents_of_file", ""),
                ("nosuch__x", ""),
                ("git__frob", ""),
            ),
            *(("list_commits", ""), ("get_file", "devtools__get_file_contents")),
            *(("git.print_log", "git__git_log"), ("print_log", ""), ("devtools.git_log", "git__git_log")),
        ):
            expected = f"Unknown tool: {written}" + (f". Similar names: {meant}" if meant else "")
            assert await refused(client, written) == expected


async def test_the_tool_of_the_named_server_is_suggested_before_that_of_another(tmp_path):
    servers = {"alpha": [tool("send_mail")], "beta": [tool("send_mail")]}
    async with world(tmp_path, servers) as w, w.client() as client:
        for written in ("beta__send_mial", "beta/sendmail", "beta_send_mail"):
            said = await refused(client, written)
            assert said.startswith(f"Unknown tool: {written}. Similar names: beta__send_mail"), said


async def test_the_built_in_tools_are_not_called_through_tool_call(tmp_path):
    async with world(tmp_path, {"github": [CREATE]}) as w, w.client() as client:
        for name in BUILTINS:
            assert (await refused(client, name, {"query": "x"})).startswith(f"Unknown tool: {name}")


# -- arguments -----------------------------------------------------------------------------------


async def test_arguments_as_text_or_doubled_are_understood(tmp_path):
    text = json.dumps(FITS)
    async with world(tmp_path, {"github": [CREATE]}) as w, w.client() as client:
        for arguments in (FITS, text, {"arguments": FITS}, {"arguments": text}, json.dumps({"arguments": FITS})):
            result = await client.tool_call("create_issue", arguments)
            assert "isError" not in result, result
        assert [call["arguments"] for call in w["github"].calls()] == [FITS] * 5


async def test_no_arguments_are_an_empty_object(tmp_path):
    async with world(tmp_path, {"github": [tool("ping")]}) as w, w.client() as client:
        for arguments in (None, {}, "{}"):
            await client.tool_call("ping", arguments)
        assert [call["arguments"] for call in w["github"].calls()] == [{}] * 3


async def test_a_tool_that_has_a_parameter_called_arguments_gets_it(tmp_path):
    runner = tool("run", params={"arguments": "object"})
    async with world(tmp_path, {"sh": [runner]}) as w, w.client() as client:
        await client.tool_call("run", {"arguments": {"a": 1}})
        assert [call["arguments"] for call in w["sh"].calls()] == [{"arguments": {"a": 1}}]


async def test_arguments_that_are_no_object_are_refused_with_the_schema(tmp_path):
    async with world(tmp_path, {"github": [CREATE]}) as w, w.client() as client:
        for arguments in (7, True, [FITS], "not JSON", '"text"', "[]"):
            said = await refused(client, "create_issue", arguments)
            assert "'arguments' must be a JSON object" in said
            assert '"owner"' in said
        assert w["github"].calls() == []


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_that_do_not_fit_are_refused_path_by_path_with_the_schema_and_nothing_runs(tmp_path, era):
    async with world(tmp_path, {"github": [CREATE]}, listing="auto") as w, w.client(era) as client:
        said = await refused(client, "create_issue", {"count": 0, "owner": 7})
        assert "The arguments do not fit github__create_issue, so it was not called:" in said
        assert "arguments.owner" in said
        assert "arguments.count" in said
        schema = said.rpartition("Input schema: ")[2]
        assert json.loads(schema) == CREATE["inputSchema"]
        assert w["github"].calls() == []
        assert "isError" not in await client.tool_call("create_issue", FITS)


@pytest.mark.parametrize("arguments", [{"text": 3}, "nothing of the kind"])
async def test_a_misfit_shows_the_shortest_example(tmp_path, arguments):
    examples = [{"args": {"text": "a longer one"}}, {"args": {"text": "a"}, "description": "Keep it"}]
    keep = tool("keep_note", params={"text": "string"}, required=["text"], _meta={"examples": examples})
    async with world(tmp_path, {"db": [keep]}) as w, w.client() as client:
        said = (await client.tool_call("db__keep_note", arguments))["content"][0]["text"]
        assert said.splitlines()[-1] == 'Example: {"text":"a"}'


async def test_the_values_of_misfit_arguments_are_not_repeated(tmp_path):
    strict = tool("login", params={"password": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}})
    async with world(tmp_path, {"vault": [strict]}) as w, w.client() as client:
        assert "hunter2-SECRET" not in await refused(client, "login", {"password": "hunter2-SECRET"})


async def test_a_misfit_against_an_outdated_schema_of_a_sleeping_server_starts_it_and_is_checked_again(tmp_path):
    server = MemoryServer([CREATE])
    async with world(tmp_path, {"github": server}) as w, w.client() as client:
        server.tools = [tool("create_issue", "Create an issue.", {"title": "string"}, ["title"])]
        assert "isError" not in await client.tool_call("create_issue", {"title": "t"})
        assert [call["arguments"] for call in server.calls()] == [{"title": "t"}]
        assert server.starts == 2


async def test_a_misfit_against_the_present_schema_too_is_refused_with_the_present_schema(tmp_path):
    server = MemoryServer([CREATE])
    async with world(tmp_path, {"github": server}) as w, w.client() as client:
        server.tools = [tool("create_issue", "Create an issue.", {"title": "string"}, ["title"])]
        said = await refused(client, "create_issue", {"owner": 7})
        assert "arguments.title" in said
        assert '"required":["title"]' in said
        assert server.calls() == []


async def test_a_misfit_of_a_tool_that_its_server_no_longer_has_is_an_unknown_tool(tmp_path):
    server = MemoryServer([CREATE])
    async with world(tmp_path, {"github": server}) as w, w.client() as client:
        server.tools = []
        assert await refused(client, "github__create_issue", {}) == "Unknown tool: github__create_issue"


async def test_a_schema_that_cannot_be_checked_lets_the_arguments_through(tmp_path):
    odd = {"name": "odd", "inputSchema": {"type": "object", "$ref": "#/nowhere"}}
    async with world(tmp_path, {"db": [odd]}) as w, w.client() as client:
        assert "isError" not in await client.tool_call("odd", {"a": 1})


async def test_the_arguments_of_a_direct_call_are_the_downstreams_to_check(tmp_path):
    async with world(tmp_path, {"github": [CREATE]}) as w, w.client() as client:
        await client.call("github__create_issue", {"owner": 7})
        assert [call["arguments"] for call in w["github"].calls()] == [{"owner": 7}]


@pytest.mark.parametrize(
    ("arguments", "named"), [({}, "name"), ({"name": 7}, "name"), ({"name": "x", "argments": {}}, "argments")]
)
async def test_arguments_of_tool_call_itself_that_do_not_fit_are_refused_by_name(tmp_path, arguments, named):
    async with world(tmp_path, {"github": [CREATE]}) as w, w.client() as client:
        result = await client.call("tool_call", arguments)
        assert result["isError"] is True
        assert named in result["content"][0]["text"]


# -- reading only --------------------------------------------------------------------------------

MIXED = [
    tool("get", annotations={"readOnlyHint": True}),
    tool("put", annotations={"readOnlyHint": False}),
    tool("any"),
]
SPLIT = {"servers": {"db": {"side_effects": {"any": "read"}}}}


async def test_tool_call_read_runs_what_its_server_declares_read_only_and_nothing_else(tmp_path):
    async with world(tmp_path, {"db": MIXED}, SPLIT) as w, w.client() as client:
        result = await client.call("tool_call_read", {"name": "db.get"})
        assert result["content"][0]["text"] == "ran get {}"
        for name in ("put", "any"):
            said = await refused(client, f"db__{name}", {}, "tool_call_read")
            assert said == (f"db__{name} is not declared read-only by its server: call it with toolcrib's tool_call.")
        assert (await refused(client, "db__del", {}, "tool_call_read")).startswith("Unknown tool: db__del")
        assert [call["name"] for call in w["db"].calls()] == ["get"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_tool_call_read_does_not_run_what_has_just_been_declared_otherwise(tmp_path, era):
    reads, writes = (tool("get", annotations={"readOnlyHint": hint}) for hint in (True, False))
    server = MemoryServer([reads], eras=(era,))
    async with world(tmp_path, {"db": server}, SPLIT) as w, w.client() as client:
        for _ in range(20):
            await w["db"].change(reads)
            await client.tool_call("db__get")  # which waits for the new list
            assert "isError" not in await client.call("tool_call_read", {"name": "db__get"})
            await w["db"].change(writes)
            ran = len(w["db"].calls())
            assert "not declared read-only" in await refused(client, "db__get", {}, "tool_call_read")
            assert len(w["db"].calls()) == ran


async def test_what_is_announced_and_cannot_be_read_is_not_called_by_any_door(tmp_path):
    config = {"servers": {"db": {"connect_timeout_s": DEADLINE_S}}}
    async with world(tmp_path, {"db": [tool("get")]}, config) as w, w.client() as client:
        await client.tool_call("db__get")
        w["db"].hangs_at = "tools/list"
        await w["db"].change(tool("get", "Get more."))
        for call in (client.tool_call, client.call):
            async with passing(DEADLINE_S):
                answer = await call("db__get")
            assert answer["isError"]
            assert "nothing ran" in answer["content"][0]["text"]
        assert len(w["db"].calls()) == 1


async def test_tool_call_read_does_not_run_what_is_read_only_no_longer(tmp_path):
    server = MemoryServer(list(MIXED))
    async with world(tmp_path, {"db": server}, SPLIT) as w, w.client() as client:
        server.tools[0] = tool("get", annotations={"destructiveHint": True})
        said = await refused(client, "db__get", {}, "tool_call_read")
        assert "not declared read-only" in said
        assert server.calls() == []


async def test_there_is_no_tool_call_read_where_the_config_has_one_tool_for_all_calls(tmp_path):
    async with world(tmp_path, {"db": MIXED}, {"gate": {"call_tools": "single"}}) as w, w.client() as client:
        with pytest.raises(MCPError, match="Unknown tool: tool_call_read"):
            await client.call("tool_call_read", {"name": "db.get"})


# -- what comes back -----------------------------------------------------------------------------


async def test_a_json_rpc_error_of_the_downstream_comes_back_as_a_failed_call(tmp_path):
    server = MemoryServer([CREATE], answers={"create_issue": MCPError(-32050, "quota is used up", {"left": 0})})
    async with world(tmp_path, {"github": server}) as w, w.client() as client:
        said = await refused(client, "github.create_issue", FITS)
        assert "quota is used up" in said
        assert "-32050" in said


async def test_a_result_comes_back_as_it_is(tmp_path):
    result = text("one", "two", structuredContent={"n": 1}, isError=True, _meta={"vendor/key": 1})
    async with world(tmp_path, {"db": MemoryServer([tool("get")], answers={"get": result})}) as w:
        async with w.client() as client:
            assert await client.tool_call("get") == await client.call("db__get") == result


async def test_calls_run_beside_each_other(tmp_path):
    started, over = anyio.Event(), anyio.Event()

    async def slow(call):
        started.set()
        await over.wait()
        return text("slow")

    server = MemoryServer([tool("slow"), tool("fast")], answers={"slow": slow})
    async with world(tmp_path, {"db": server}) as w, w.client() as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.tool_call, "slow")
        await started.wait()
        assert (await client.tool_call("fast"))["content"][0]["text"] == "ran fast {}"
        assert await client.found("fast") == ["db__fast"]
        over.set()
