"""What ``tools/list`` shows, in which order, and how much of a downstream's own definition is left."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import MCPError

from fakes.generated import tools
from fakes.menu import tool
from toolcrib.base.text import sanitize
from worlds import BUILTINS, DEADLINE_S, ERAS, PATIENCE_S, MemoryServer, passing, world

pytestmark = pytest.mark.anyio

SOURCE = "toolcrib/source"


@pytest.mark.parametrize("era", ERAS)
async def test_the_built_in_tools_come_first_then_the_others_by_public_name(tmp_path, era):
    servers = {"zoo": [tool("feed"), tool("Feed")], "ark": [tool("board")]}
    async with world(tmp_path, servers, {"tool_search": {"default_loading_mode": "always"}}, listing="auto") as w:
        async with w.client(era) as client:
            assert await client.names() == [*BUILTINS, "ark__board", "zoo__Feed", "zoo__feed"]


async def test_the_tool_that_calls_for_reading_only_can_be_left_out(tmp_path):
    async with world(tmp_path, {"zoo": [tool("feed")]}, {"gate": {"call_tools": "single"}}) as w, w.client() as client:
        assert await client.names() == ["tool_search", "tool_call"]
        assert "tool_call_read" not in json.dumps(await client.tools()) + (client.instructions or "")


@pytest.mark.parametrize("era", ERAS)
async def test_the_list_is_never_cut_into_pages(tmp_path, era):
    many = [tool(f"tool_{number:03}") for number in range(300)]
    async with world(tmp_path, {"zoo": many}, {"tool_search": {"enabled": False}}) as w, w.client(era) as client:
        result = await client.ask("tools/list")
        assert len(result["tools"]) == 300
        assert "nextCursor" not in result
        assert (await client.ask("tools/list", {"cursor": "300"}))["tools"] == result["tools"]


async def test_the_search_tool_can_be_left_out_of_the_list(tmp_path):
    async with world(tmp_path, {"zoo": [tool("feed")]}, {"tool_search": {"include_search_tool": False}}) as w:
        async with w.client() as client:
            assert await client.names() == ["tool_call", "tool_call_read"]
            assert "tool_search" not in json.dumps(await client.tools()) + (client.instructions or "")
            assert (await client.tool_call("zoo__feed"))["content"][0]["text"] == "ran feed {}"


async def test_the_list_waits_for_servers_of_which_something_may_be_listed(tmp_path):
    for number, config in enumerate(
        (
            {"tool_search": {"default_loading_mode": "always"}},
            {"tool_search": {"always_loaded_patterns": ["zoo.*"]}},
            {"tool_search": {"enabled": False}},
            {"gate": {"pass_through_below": 5}},
            {"servers": {"zoo": {"always_loaded_tools": ["feed"]}}},
            {"servers": {"zoo": {"deferred_tools": []}}},
            {"servers": {"zoo": {"default_loading_mode": "always"}}},
        )
    ):
        (tmp_path / str(number)).mkdir()
        async with (
            world(tmp_path / str(number), {"zoo": [tool("feed")]}, config, wait=False) as w,
            w.client() as client,
        ):
            assert (await client.names())[-1] == "zoo__feed", config


async def test_the_list_waits_for_no_server_of_which_nothing_can_be_listed(tmp_path):
    hanging = MemoryServer([tool("feed")], hangs_at="tools/list")
    config = {"limits": {"first_index_wait_s": 3600}}
    async with world(tmp_path, {"zoo": hanging}, config, wait=False) as w, w.client() as client:
        with anyio.fail_after(PATIENCE_S):
            assert await client.names() == BUILTINS


async def test_the_list_waits_no_longer_than_configured(tmp_path):
    hanging = MemoryServer([tool("feed")], hangs_at="tools/list")
    config = {"tool_search": {"default_loading_mode": "always"}, "limits": {"first_index_wait_s": DEADLINE_S}}
    async with world(tmp_path, {"zoo": hanging}, config, wait=False) as w, w.client() as client:
        async with passing(DEADLINE_S):
            assert await client.names() == BUILTINS


# -- loading modes (R16 to R22) ------------------------------------------------------------------

TOOLS = [tool("read"), tool("write"), tool("drop")]


@pytest.mark.parametrize(
    ("search", "server", "listed"),
    [
        ({}, {}, []),
        ({"default_loading_mode": "always"}, {}, ["drop", "read", "write"]),
        ({}, {"default_loading_mode": "always"}, ["drop", "read", "write"]),
        ({"default_loading_mode": "always"}, {"default_loading_mode": "deferred"}, []),
        ({}, {"always_loaded_tools": ["read"]}, ["read"]),
        ({}, {"always_loaded_tools": ["w*", "read"]}, ["read", "write"]),
        ({}, {"deferred_tools": ["drop"]}, ["read", "write"]),
        ({}, {"deferred_tools": []}, ["drop", "read", "write"]),
        ({}, {"deferred_tools": ["drop", "read"], "default_loading_mode": "deferred"}, ["write"]),
        ({}, {"deferred_tools": ["drop", "read"], "always_loaded_tools": ["read"]}, ["read", "write"]),
        ({"always_loaded_patterns": ["db.r*"]}, {}, ["read"]),
        ({"always_loaded_patterns": ["db__read"]}, {}, ["read"]),
        ({"always_loaded_patterns": ["db/write", "db:drop"]}, {}, ["drop", "write"]),
        ({"always_loaded_patterns": ["*.drop"]}, {"deferred_tools": ["drop"]}, ["drop", "read", "write"]),
        ({"always_loaded_patterns": ["db.drop"]}, {"default_loading_mode": "deferred"}, ["drop"]),
        ({"always_loaded_patterns": ["read"]}, {}, []),
        ({"always_loaded_patterns": ["DB.read"]}, {}, []),
    ],
)
async def test_the_first_rule_that_speaks_decides_what_is_always_listed(tmp_path, search, server, listed):
    config = {"tool_search": search, "servers": {"db": server}}
    async with world(tmp_path, {"db": TOOLS}, config, listing="auto") as w:
        for era in ERAS:
            async with w.client(era) as client:
                assert (await client.names())[len(BUILTINS) :] == [f"db__{name}" for name in listed]
                everything = await client.search(".", search_type="regex", include_always_loaded=True)
    modes = {hit["name"]: hit["loading_mode"] for hit in everything["tools"]}
    assert modes == {f"db__{name}": "always" if name in listed else "deferred" for name in ("read", "write", "drop")}


async def test_a_denied_tool_is_not_listed_even_where_a_pattern_always_lists_it(tmp_path):
    config = {"tool_search": {"always_loaded_patterns": ["db.*"]}, "policy": {"deny": ["drop"]}}
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:
        assert (await client.names())[len(BUILTINS) :] == ["db__read", "db__write"]


async def test_a_downstream_cannot_promote_its_own_tool(tmp_path):
    eager = tool("read", _meta={"anthropic/alwaysLoad": True, "loading_mode": "always", "toolcrib/loading": "always"})
    async with world(tmp_path, {"db": [eager]}) as w, w.client() as client:
        assert await client.names() == BUILTINS


# -- definitions ---------------------------------------------------------------------------------

WHOLE = {
    "name": "get_cell",
    "title": "Get a cell",
    "description": "Gets a cell.\n\n  Keeps its   white space.\u00a0",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"at": {"anyOf": [{"type": "string"}, {"type": "integer"}], "x-odd": 1}},
        "required": ["at"],
        "$defs": {"unused": True},
    },
    "outputSchema": {"type": "object", "properties": {"value": {"type": "string"}}},
    "annotations": {"title": "Cell", "readOnlyHint": True, "openWorldHint": False},
    "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    "_meta": {"vendor/key": {"deep": [1, None]}},
    "x-vendor": "kept",
}


@pytest.mark.parametrize("era", ERAS)
async def test_a_listed_definition_is_the_downstreams_own_but_for_its_name_and_source(tmp_path, era):
    config = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, {"sheet": [WHOLE]}, config, listing="auto") as w, w.client(era) as client:
        listed = (await client.tools())[-1]
    source = {"kind": "server", "owner": "sheet", "tool": "get_cell"}
    assert listed == {**WHOLE, "name": "sheet__get_cell", "_meta": {**WHOLE["_meta"], SOURCE: source}}


async def test_an_activated_tool_is_listed_with_its_whole_definition_too(tmp_path):
    async with world(tmp_path, {"sheet": [WHOLE]}) as w, w.client() as client:
        await client.call("sheet__get_cell", {"at": "A1"})
        assert (await client.tools())[-1]["inputSchema"] == WHOLE["inputSchema"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "string"}}, {"type": "string"}, {}])
async def test_an_output_schema_that_is_no_objects_is_listed_in_the_newer_era_only(tmp_path, era, schema):
    odd = tool("numbers", outputSchema=schema)
    config = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, {"db": [odd, tool("read")]}, config, listing="auto") as w, w.client(era) as client:
        listed = {entry["name"]: entry for entry in await client.tools()}
        assert listed["db__numbers"].get("outputSchema") == (None if era == "legacy" else schema)
        await client.list_tools()  # the SDK's own reading of it


async def test_reserved_keys_of_a_downstreams_meta_are_not_listed(tmp_path):
    marked = tool("read", _meta={"io.modelcontextprotocol/serverInfo": {"name": "evil"}, "vendor/key": 1})
    config = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, {"db": [marked]}, config) as w, w.client() as client:
        assert set((await client.tools())[-1]["_meta"]) == {"vendor/key", SOURCE}


async def test_one_bad_tool_never_breaks_the_list(tmp_path):
    bad = [7, None, "x", {"name": 3}, {"name": "array", "inputSchema": []}, tool("no_type", inputSchema={})]
    config = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, {"db": [*bad, tool("read"), tool("twice"), tool("twice")]}, config) as w:
        async with w.client() as client:
            assert (await client.names())[len(BUILTINS) :] == ["db__no_type", "db__read", "db__twice"]
            assert (await client.list_tools()).tools[len(BUILTINS)].input_schema["type"] == "object"


# -- examples (R85 to R94) -----------------------------------------------------------------------


async def description(tmp_path, definition, server=None, examples=None, folder="one") -> str:
    """Return the description of a tool as it is listed under a config."""
    section = {
        "tool_search": {"default_loading_mode": "always"},
        "servers": {"db": server or {}},
        "tool_examples": examples or {},
    }
    (tmp_path / folder).mkdir(exist_ok=True)
    async with world(tmp_path / folder, {"db": [definition]}, section) as w, w.client() as client:
        return (await client.tools())[-1]["description"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=20))
async def test_a_tool_without_examples_keeps_its_description_but_for_hidden_characters(descriptions):
    odd = [tool(f"t{number:02}", given_one) for number, given_one in enumerate(descriptions)]
    with TemporaryDirectory() as folder:
        async with world(Path(folder), {"db": odd}, {"tool_search": {"enabled": False}}) as w, w.client() as client:
            assert [entry["description"] for entry in await client.tools()] == list(map(sanitize, descriptions))


async def test_examples_stand_under_the_description_as_compact_json(tmp_path):
    examples = [{"args": {"at": "A1", "deep": {"n": [1, None]}}, "description": "One cell"}, {"args": {}}]
    shown = await description(tmp_path, tool("read", "Reads."), {"tool_examples": {"read": examples}})
    assert shown == 'Reads.\n\nExamples:\n- args: {"at":"A1","deep":{"n":[1,null]}}\n  # One cell\n- args: {}'


def _from_schema(value: str) -> dict[str, Any]:
    schema = {"type": "object", "examples": [{"from": value}]}
    return {"name": "read", "description": "Reads.", "inputSchema": schema}


async def test_the_configs_examples_win_over_meta_and_meta_over_the_schema(tmp_path):
    definition = _from_schema("schema")
    assert '{"from":"schema"}' in await description(tmp_path, definition, folder="schema")
    definition["_meta"] = {"examples": [{"args": {"from": "meta"}}]}
    assert '{"from":"meta"}' in await description(tmp_path, definition, folder="meta")
    configured = {"tool_examples": {"read": [{"args": {"from": "config"}}]}}
    shown = await description(tmp_path, definition, configured, folder="config")
    assert '{"from":"config"}' in shown
    assert shown.count("- args:") == 1


async def test_a_schemas_examples_are_used_only_where_they_are_inherited(tmp_path):
    assert await description(tmp_path, _from_schema("schema"), {"inherit_from_schema": False}) == "Reads."


def _tagged(*tags: str) -> dict[str, Any]:
    entries = [{"args": {"n": number}, "tags": [tag]} for number, tag in enumerate(tags)]
    return {"tool_examples": {"read": entries}}


def _shown(text: str) -> list[int]:
    return [json.loads(line.removeprefix("- args: "))["n"] for line in text.splitlines() if line.startswith("- args")]


async def test_minimal_examples_come_first_then_common_ones_then_edge_cases_then_the_rest(tmp_path):
    server = _tagged("other", "edge-case", "common", "minimal", "common")
    limit = {"max_examples_per_tool": 10}
    assert _shown(await description(tmp_path, tool("read"), server, limit)) == [3, 2, 4, 1, 0]


@pytest.mark.parametrize(("section", "shown"), [({}, 3), ({"max_examples_per_tool": 0}, 0), ({"enabled": False}, 0)])
async def test_at_most_so_many_examples_are_shown(tmp_path, section, shown):
    server = _tagged("common", "common", "common", "common", "common")
    assert len(_shown(await description(tmp_path, tool("read"), server, section))) == shown


async def test_examples_can_be_chosen_by_their_tags_and_shown_without_words(tmp_path):
    entries = [{"args": {"n": 1}, "description": "One", "tags": ["a"]}, {"args": {"n": 2}, "tags": ["b"]}]
    server = {"tool_examples": {"read": entries}}
    section = {"filter_tags": ["a"], "include_descriptions": False}
    shown = await description(tmp_path, tool("read", "Reads."), server, section)
    assert shown == 'Reads.\n\nExamples:\n- args: {"n":1}'


async def test_only_an_example_makes_a_difference_between_two_listings(tmp_path):
    plain = await description(tmp_path, tool("read", "Reads."), folder="plain")
    with_one = await description(tmp_path, tool("read", "Reads."), _tagged("common"), folder="example")
    assert with_one.startswith(plain)
    assert plain == "Reads."


# -- a plain proxy, and pass-through -------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_without_tool_search_it_is_a_plain_proxy(tmp_path, era):
    server = MemoryServer([WHOLE, tool("write")])
    async with world(tmp_path, {"sheet": server}, {"tool_search": {"enabled": False}}) as w, w.client(era) as client:
        before = await client.tools()
        assert [entry["name"] for entry in before] == ["sheet__get_cell", "sheet__write"]
        assert not client.instructions
        await client.call("sheet__get_cell", {"at": "A1"})
        assert await client.tools() == before
        assert client.list_changes == 0
    kept = [{key: value for key, value in entry.items() if key not in ("name", "_meta")} for entry in before]
    assert kept == [
        {key: value for key, value in entry.items() if key not in ("name", "_meta")} for entry in server.tools
    ]


@pytest.mark.parametrize("name", BUILTINS)
async def test_a_plain_proxy_has_none_of_our_tools(tmp_path, name):
    async with world(tmp_path, {"db": TOOLS}, {"tool_search": {"enabled": False}}) as w, w.client() as client:
        with pytest.raises(MCPError, match=f"Unknown tool: {name}"):
            await client.call(name, {"query": "x", "name": "db__read"})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("below", "listed"), [(4, 3), (3, 0), (0, 0)])
async def test_so_few_tools_are_all_listed(tmp_path, era, below, listed):
    config = {"gate": {"pass_through_below": below}}
    async with world(tmp_path, {"db": TOOLS}, config, listing="auto") as w, w.client(era) as client:
        assert len((await client.names())[len(BUILTINS) :]) == listed


async def test_what_is_denied_does_not_count_towards_so_few(tmp_path):
    config = {"gate": {"pass_through_below": 3}, "policy": {"deny": ["drop"]}}
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:
        assert (await client.names())[len(BUILTINS) :] == ["db__read", "db__write"]


async def test_a_session_that_passes_everything_through_keeps_doing_so(tmp_path):
    config = {"gate": {"pass_through_below": 4}}
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:
        assert len((await client.names())[len(BUILTINS) :]) == 3
        await client.call("db__read")
        assert client.list_changes == 0
        await w.change("db", *TOOLS, tool("more"), tool("most"))
        assert client.list_changes == 1
        assert len((await client.names())[len(BUILTINS) :]) == 5
        async with w.client() as later:
            assert await later.names() == BUILTINS


async def test_a_list_of_200_tools_is_less_than_a_tenth_of_itself_once_deferred(tmp_path):
    sizes = []
    for number, enabled in enumerate((False, True)):
        (tmp_path / str(number)).mkdir()
        config = {"tool_search": {"enabled": enabled}}
        async with world(tmp_path / str(number), {"db": tools(200)}, config) as w, w.client() as client:
            sizes.append(len(json.dumps(await client.tools())))
    assert sizes[1] < sizes[0] / 10
