"""Who may use what: what a policy takes from a caller does not exist for that caller, at any door, in any byte."""

import json
import sqlite3
from typing import Any

import pytest
from mcp import MCPError

from fakes.generated import tools as generated
from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import ERAS, MemoryServer, world

pytestmark = pytest.mark.anyio

TOOLS = [tool("read_row", "Read a row."), tool("drop_table", "Drop a table with all its rows.")]
DB = {"db": TOOLS}


async def refusal(client, name: str) -> dict[str, Any]:
    """Return the JSON-RPC error of a direct call."""
    with pytest.raises(MCPError) as caught:
        await client.call(name, {"any": 1})
    return caught.value.error.model_dump()


async def exists(client, name: str = "db__drop_table") -> bool:
    """Return whether a tool exists for a client: the same at every door."""
    server, _, bare = name.partition("__")
    wide = {"include_always_loaded": True, "limit": 20}
    doors = {
        "regex": name in await client.found(".", search_type="regex", **wide),
        "exact": name in await client.found(bare, search_type="exact", **wide),
        "fts": name in await client.found(bare.replace("_", " "), **wide),
        "tool_call": "isError" not in await client.tool_call(f"{server}.{bare}"),
        "direct": await called(client, name),
    }
    assert len(set(doors.values())) == 1, doors
    return doors["direct"]


async def called(client, name: str) -> bool:
    answer = await client.tried(name)
    if isinstance(answer, MCPError):
        assert answer.message == f"Unknown tool: {name}"
        return False
    return True


# -- deny and allow ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "glob",
    [
        "drop_table",
        "drop_*",
        "*_table",
        "db.drop_table",
        "db__drop_table",
        "db/drop_table",
        "db:drop_table",
        "db.drop*",
        "*.drop_table",
        "db?drop_table",
        "*table",
        "[d]rop_table",
    ],
)
async def test_a_tool_that_is_denied_in_any_spelling_does_not_exist(tmp_path, glob):
    server = MemoryServer(TOOLS)
    async with world(tmp_path, {"db": server}, {"policy": {"deny": [glob]}}, listing="auto") as w:
        for era in ERAS:
            async with w.client(era) as client:
                assert not await exists(client)
                assert (await client.search("row"))["total_deferred"] == 1
        assert server.calls("drop_table") == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_denied_tools_name_and_words_are_in_no_byte_of_a_whole_session(tmp_path, era):
    tools = [tool("read_row", "Read a row."), tool("xyzzy", "Plugh with a plover.", {"frobnicate": "string"})]
    async with world(tmp_path, {"db": tools}, {"policy": {"deny": ["xyzzy"]}}, listing="auto") as w:
        async with w.client(era) as client:
            await client.tools()
            for query in ("row", "plug", "xyzz", "frobnic", "read_row"):
                for kind in ("fts", "exact", "regex"):
                    await client.search(query, search_type=kind, detail="schema", include_always_loaded=True)
            await client.search(".*", search_type="regex")
            await client.tool_call("read_rows")
            await client.tool_call("db.read_row", [1])
            await client.call("db__read_row")
        said = "".join("".join(lines) for lines in w.said)
    assert not [word for word in ("xyzzy", "Plugh", "plover", "frobnicate") if word in said]


@pytest.mark.parametrize("glob", ["DROP_TABLE", "table", "drop", "db.drop", "db", "drop_table ", "mydb.drop_table"])
async def test_globs_are_case_sensitive_and_match_whole_names(tmp_path, glob):
    async with world(tmp_path, DB, {"policy": {"deny": [glob]}}) as w, w.client() as client:
        assert await exists(client)


@pytest.mark.parametrize(
    ("allow", "deny", "allowed"),
    [
        (["*"], [], {"read_row", "drop_table"}),
        (["db.*"], [], {"read_row", "drop_table"}),
        (["db__read*"], [], {"read_row"}),
        (["*.read_row"], [], {"read_row"}),
        (["read_row"], [], set()),
        ([], [], set()),
        (["other.*"], [], set()),
        (["db.*"], ["*.drop_table"], {"read_row"}),
        (["db.drop_table"], ["db.drop_table"], set()),
        (["*"], ["*"], set()),
    ],
)
async def test_only_what_is_allowed_and_not_denied_exists(tmp_path, allow, deny, allowed):
    async with world(tmp_path, DB, {"policy": {"allow": allow, "deny": deny}}) as w, w.client() as client:
        hits = await client.found(".", search_type="regex")
        assert {name.removeprefix("db__") for name in hits} == allowed
        for name in ("read_row", "drop_table"):
            assert await called(client, f"db__{name}") is (name in allowed)
            assert ("isError" not in await client.tool_call(name)) is (name in allowed)


async def test_a_tool_that_is_denied_to_everyone_is_nowhere_in_the_index(tmp_path):
    async with world(tmp_path, DB, {"policy": {"deny": ["drop_table"]}}) as w:
        with sqlite3.connect(f"file:{w.catalog_file}?mode=ro", uri=True) as connection:
            assert connection.execute("SELECT name FROM tools").fetchall() == [("db__read_row",)]
        connection.close()
        everything = b"".join(file.read_bytes() for file in w.catalog_file.parent.glob(f"{w.catalog_file.name}*"))
        assert b"read_row" in everything
        assert b"drop_table" not in everything
        assert b"Drop a table" not in everything


async def test_a_tool_that_a_new_config_denies_leaves_the_index_at_the_next_start(tmp_path):
    async with world(tmp_path, DB) as w, w.client() as client:
        assert await exists(client)
    async with world(tmp_path, DB, {"policy": {"deny": ["drop_table"]}}) as w, w.client() as client:
        assert not await exists(client)
        with sqlite3.connect(f"file:{w.catalog_file}?mode=ro", uri=True) as connection:
            assert connection.execute("SELECT name FROM tools").fetchall() == [("db__read_row",)]
        connection.close()


async def test_a_denied_tool_is_unknown_from_the_first_moment_also_while_servers_are_being_listed(tmp_path):
    async with world(tmp_path, DB):
        pass
    hanging = MemoryServer(TOOLS, hangs_at="tools/list")
    config = {"policy": {"deny": ["drop_table"]}, "limits": {"first_index_wait_s": 0}}
    async with world(tmp_path, {"db": hanging}, config, wait=False) as w, w.client() as client:
        assert not await exists(client)


# -- denied is unknown ---------------------------------------------------------------------------

HIDING = {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["drop_*"]}]}}
DENYING = {"policy": {"deny": ["drop_*"]}}
RED = Caller("r", tenant_id="red")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("config", [HIDING, DENYING])
async def test_denied_and_unknown_are_the_same_answer_but_for_the_name(tmp_path, era, config):
    unknown = ["db__drop_chair", "db__nothing_like_it", "nobody__drop_table", "x" * 300, "__", ""]
    async with world(tmp_path, DB, config, listing="auto") as w, w.client(era, caller=RED) as client:
        for name in ("db__drop_table", *unknown):
            assert await refusal(client, name) == {"code": -32602, "message": f"Unknown tool: {name}", "data": None}
            assert set(client.frames[-1]["error"]) == {"code", "message"}
            result = await client.tool_call(name, {"any": 1})
            assert result["isError"] is True
            assert result["content"][0]["text"].partition(". Similar names: ")[0] == f"Unknown tool: {name}"
        reasons = [event["reason"] for event in w.happened("tool_activation_denied")]
        assert reasons[:2] == ["visibility" if config is HIDING else "policy"] * 2
        assert len(reasons) == 14
        assert w["db"].starts == 1


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("config", [HIDING, DENYING])
async def test_every_answer_is_the_same_byte_for_byte_whether_a_denied_tool_exists_or_not(tmp_path, era, config):
    async def answers(folder: str, tools: list) -> list[str]:
        (tmp_path / folder).mkdir()
        async with world(tmp_path / folder, {"db": tools}, config, listing="auto") as w:
            async with w.client(era, caller=RED) as client:
                return [json.dumps(answer) for answer in await everything_said(client)]

    assert await answers("without", TOOLS[:1]) == await answers("with", TOOLS)


async def everything_said(client) -> list[Any]:
    """Return the answers to everything that a curious caller can think of."""
    said: list[Any] = [await client.ask("tools/list")]
    queries = ["drop table", "drop_table", "db__drop_table", "rows of a table", "read a row", "db", "create"]
    for query in queries:
        for kind in ("fts", "exact", "regex"):
            for more in ({}, {"detail": "schema"}, {"server": "db"}, {"include_always_loaded": True}, {"limit": 1}):
                arguments = {"query": query, "search_type": kind, **more}
                said.append(await client.call("tool_search", arguments))
    for name in ("db__drop_table", "db.drop_table", "drop_table", "db__drop_tables", "DROP_TABLE", "drop", "table"):
        said.append(await client.tool_call(name, {}))
        answer = await client.tried(name, {})
        said.append(answer.error.model_dump() if isinstance(answer, MCPError) else answer)
    return said


@pytest.mark.slow
@pytest.mark.parametrize("config", [HIDING, DENYING])
async def test_a_thousand_denied_tools_change_no_byte_of_any_answer(tmp_path, config):
    def denied(number: int):
        return {
            **generated(1)[0],
            "name": f"drop_{number}",
            "description": f"Create, read, drop row {number} of a table.",
        }

    async def answers(folder: str, more: list) -> list[str]:
        (tmp_path / folder).mkdir()
        servers = {"db": [*TOOLS, *more, tool("read_table", "Read all rows of a table.")], "gh": generated(40)}
        async with world(tmp_path / folder, servers, config) as w, w.client(caller=RED) as client:
            return [json.dumps(answer) for answer in await everything_said(client)]

    assert await answers("few", []) == await answers("many", [denied(number) for number in range(1000)])


@pytest.mark.parametrize("config", [HIDING, DENYING])
async def test_a_denied_best_hit_takes_no_place_among_the_results(tmp_path, config):
    tools = [tool("drop_it", "drop row drop row"), tool("lose_it", "Drop a row."), tool("other", "Something else.")]
    async with world(tmp_path, {"db": tools}, config) as w, w.client(caller=RED) as client:
        for kind, query in (("fts", "drop row"), ("regex", "drop")):
            assert await client.found(query, search_type=kind, limit=1) == ["db__lose_it"]


async def test_a_server_whose_tools_are_all_denied_is_a_server_that_does_not_exist(tmp_path):
    servers = {"db": TOOLS, "vault": [tool("open")]}
    async with world(tmp_path, servers, {"policy": {"deny": ["vault.*"]}}) as w, w.client() as client:
        of_vault, of_nobody = [await client.search("open", server=name) for name in ("vault", "nobody")]
        assert of_vault == of_nobody


async def test_near_names_are_of_permitted_tools_only(tmp_path):
    tools = [tool("create_issue"), tool("create_issue_comment"), tool("create_secret_issue")]
    async with world(tmp_path, {"gh": tools}, {"policy": {"deny": ["*secret*"]}}) as w, w.client() as client:
        said = (await client.tool_call("create_secret_issues"))["content"][0]["text"]
        assert said.replace("Unknown tool: create_secret_issues", "").count("secret") == 0
        assert "gh__create_issue" in said


# -- visibility (R25) ----------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_two_callers_see_disjoint_sets_and_can_call_only_their_own(tmp_path, era):
    rules = [
        {"when": {"tenant_id": "red"}, "allow": ["db.read*"]},
        {"when": {"tenant_id": "blue"}, "allow": ["db.drop*"]},
    ]
    config = {"policy": {"allow": [], "visibility": rules}}
    blue = Caller("b", tenant_id="blue")
    async with world(tmp_path, DB, config, listing="auto") as w:
        async with w.client(era, caller=RED) as one, w.client(era, caller=blue) as two, w.client(era) as nobody:
            assert await one.found(".", search_type="regex") == ["db__read_row"]
            assert await two.found(".", search_type="regex") == ["db__drop_table"]
            assert await nobody.found(".", search_type="regex") == []
            assert [await called(one, "db__read_row"), await called(one, "db__drop_table")] == [True, False]
            assert [await called(two, "db__read_row"), await called(two, "db__drop_table")] == [False, True]
            assert [await called(nobody, "db__read_row"), await called(nobody, "db__drop_table")] == [False, False]
            assert (await one.search("row"))["total_deferred"] == 1


@pytest.mark.parametrize(
    ("context", "rules", "visible"),
    [
        ({"tenant_id": "red"}, [{"when": {"tenant_id": "red"}, "deny": ["b"]}], "ac"),
        ({"tenant_id": "blue"}, [{"when": {"tenant_id": "red"}, "deny": ["b"]}], "abc"),
        ({}, [{"when": {"tenant_id": "red"}, "deny": ["b"]}], "abc"),
        ({"profile": "p"}, [{"when": {"profile": ["o", "p"]}, "allow": ["s.a"]}], "a"),
        ({"project_id": "x"}, [{"when": {"tenant_id": "t", "project_id": "x"}, "allow": ["s.a"]}], "abc"),
        (
            {"project_id": "x", "tenant_id": "t"},
            [{"when": {"tenant_id": "t", "project_id": "x"}, "allow": ["s.a"]}],
            "a",
        ),
        ({"tenant_id": "Red"}, [{"when": {"tenant_id": "red"}, "allow": ["s.a"]}], "abc"),
        (
            {"tenant_id": "red", "profile": "p"},
            [{"when": {"tenant_id": "red"}, "allow": ["s.a"]}, {"when": {"profile": "p"}, "allow": ["s.b"]}],
            "ab",
        ),
        (
            {"tenant_id": "red", "profile": "p"},
            [{"when": {"tenant_id": "red"}, "allow": ["s.*"]}, {"when": {"profile": "p"}, "deny": ["s.b"]}],
            "ac",
        ),
        ({"tenant_id": "red"}, [{"when": {"tenant_id": "red"}, "allow": []}], ""),
    ],
)
async def test_the_rules_that_match_the_caller_shape_what_exists(tmp_path, context, rules, visible):
    config = {"context": context, "policy": {"visibility": rules}}
    async with world(tmp_path, {"s": [tool("a"), tool("b"), tool("c")]}, config) as w, w.client() as client:
        assert {name[-1] for name in await client.found(".", search_type="regex")} == set(visible)


async def test_a_callers_token_counts_and_not_the_context_of_the_config(tmp_path):
    config = {**HIDING, "context": {"tenant_id": "red"}}
    async with world(tmp_path, DB, config) as w:
        async with w.client() as local, w.client(caller=Caller("ana")) as ana:
            assert not await exists(local)
            assert await exists(ana)


async def test_nothing_that_a_model_says_changes_who_it_is(tmp_path):
    async with world(tmp_path, DB, HIDING) as w, w.client(caller=RED) as client:
        meta = {"tenant_id": "blue", "toolcrib/tenant_id": "blue"}
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call("db__drop_table", {"tenant_id": "blue"}, _meta=meta)
        result = await client.call("tool_call", {"name": "drop_table", "tenant_id": "blue"})
        assert result["isError"]


async def test_a_rule_can_give_a_caller_what_nobody_else_has(tmp_path):
    config = {"policy": {"allow": ["db.read*"], "visibility": [{"when": {"tenant_id": "red"}, "allow": ["db.drop*"]}]}}
    async with world(tmp_path, DB, config) as w, w.client(caller=RED) as red, w.client() as other:
        assert await red.found(".", search_type="regex") == ["db__drop_table"]
        assert await other.found(".", search_type="regex") == ["db__read_row"]


async def test_a_same_named_tool_of_a_denied_server_does_not_hide_the_allowed_one(tmp_path):
    config = {"policy": {"deny": ["old.*"]}}
    async with world(tmp_path, {"db": TOOLS, "old": TOOLS}, config) as w, w.client() as client:
        assert (await client.tool_call("read_row"))["content"][0]["text"] == "ran read_row {}"
        assert await client.found("read_row", search_type="exact") == ["db__read_row"]


@pytest.mark.parametrize(
    ("policy", "is_closed"),
    [
        ({"deny": ["db.*"]}, True),
        ({"allow": ["ark.*"]}, True),
        ({"deny": ["db.drop"]}, False),
        ({"allow": ["ark.*"], "visibility": [{"when": {"tenant_id": "red"}, "allow": ["db.read"]}]}, False),
    ],
)
async def test_a_server_of_which_nobody_may_use_anything_is_not_started_and_known_as_closed(
    tmp_path, policy, is_closed
):
    async with world(tmp_path, {"db": [tool("read"), tool("drop")]}, {"policy": policy}) as w:
        assert w.handler._tool_use_cases.gate.is_closed("db") is is_closed
        assert (w["db"].starts == 0) is is_closed
