"""Our own tools: which there are, in which order, and that each says of its arguments what it takes."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from shelving import put, repo, skills

from fakes.menu import tool
from toolcrib.base.json_values import compact
from toolcrib.base.model import BUILTIN_NAMES
from toolcrib.server.builtin.registry import BUILTINS
from worlds import ERAS, OWN_TOOLS, Client, MemoryServer, text, world

pytestmark = pytest.mark.anyio

README = Path(__file__).parents[2] / "README.md"
EVERYTHING = {
    **skills(outcomes=True),
    "programs": {"enabled": "auto"},
    "tool_search": {"skill_scoped_patterns": ["nothing.at_all"]},
}
ASKED_FOR = ("skill_activate", "skill_deactivate", "skill_report_outcome")
"""Those that only a config lists which asks for them, or scopes tools to skills."""
CONDITIONAL = ("read_more",)
"""Those that a list shows only once there is something for them to do."""


def test_the_names_and_their_order_are_the_contracts():
    listed = ("tool_search", "tool_call", "tool_call_read", "tool_run", "skill_search", "skill_get", "skill_list")
    assert (*listed, *ASKED_FOR, *CONDITIONAL) == BUILTIN_NAMES


def test_everybody_knows_the_names_of_the_built_in_tools():
    assert tuple(tool.name for tool in BUILTINS) == BUILTIN_NAMES


def test_no_tool_of_a_downstream_can_have_one_of_the_names():
    assert not [name for name in BUILTIN_NAMES if "__" in name]


def test_the_readme_names_every_tool_that_is_offered_by_default():
    text = README.read_text(encoding="utf-8")
    assert [name for name in OWN_TOOLS if name not in text] == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_config_that_offers_everything_lists_every_unconditional_one_in_order(tmp_path, era):
    async with world(tmp_path, {}, EVERYTHING, listing="auto") as w, w.client(era) as client:
        assert (*await client.names(), *CONDITIONAL) == BUILTIN_NAMES


async def test_those_that_not_every_list_has_take_at_most_300_tokens_together(tmp_path):
    async with listing_all(tmp_path) as client:
        shown = [each for each in await client.tools() if each["name"] in (*ASKED_FOR, *CONDITIONAL)]
    assert len(shown) == len((*ASKED_FOR, *CONDITIONAL))
    read = [{key: each[key] for key in ("name", "description", "inputSchema")} for each in shown]
    # Measured: such JSON has 4.17 characters a token of cl100k, and 300 tokens are allowed.
    assert len("".join(map(compact, read))) <= 300 * 4.17


@asynccontextmanager
async def listing_all(folder: Path) -> AsyncGenerator[Client]:
    """Connect a client whose list shows all of them: tools are scoped, and the rest of a result is kept for it."""
    config = {**EVERYTHING, "limits": {"result_max_bytes": 1024}}
    servers = {"db": MemoryServer([tool("get")], answers={"get": text("x" * 2000)})}
    async with world(folder, servers, config) as w, w.client() as client:
        await client.call("db__get")
        yield client


@pytest.mark.sampled
@pytest.mark.parametrize("tool", BUILTINS, ids=BUILTIN_NAMES)
async def test_a_definition_has_the_parameters_and_defaults_of_the_arguments(tmp_path, tool):
    async with listing_all(tmp_path) as client:
        [schema] = [entry["inputSchema"] for entry in await client.tools() if entry["name"] == tool.name]
    fields = tool.arguments.model_fields
    assert list(schema["properties"]) == list(fields)
    assert schema.get("required", []) == [name for name, field in fields.items() if field.is_required()]
    told = {name: entry["default"] for name, entry in schema["properties"].items() if "default" in entry}
    assert [name for name in told if fields[name].default not in (told[name], None)] == []


@pytest.mark.sampled
@pytest.mark.parametrize("name", BUILTIN_NAMES)
async def test_arguments_that_do_not_fit_are_named_with_the_parameters_there_are(tmp_path, name):
    async with listing_all(tmp_path) as client:
        result = await client.call(name, {"no_such": 1})
        properties = next(tool["inputSchema"]["properties"] for tool in await client.tools() if tool["name"] == name)
    assert result["isError"]
    [block] = result["content"]
    assert block["text"].startswith("The arguments do not fit: ")
    assert block["text"].endswith(f" Parameters: {', '.join(properties)}.")
    assert "no_such: " in block["text"]


WRONG = ({}, [], [7], [None], 7, 2.5, "perhaps", "", True, "[" * 9, "x" * 9999)
OF_PYTHON = re.compile(r"[Tt]uple|Input|Python|dictionary|\b(?:str|int|bool|float|list|dict|None)\b|\bvalid\b")


@pytest.mark.sampled
@pytest.mark.parametrize("name", BUILTIN_NAMES)
async def test_what_is_wrong_is_said_in_words_of_json(tmp_path, name):
    async with listing_all(tmp_path) as client:
        [schema] = [entry["inputSchema"] for entry in await client.tools() if entry["name"] == name]
        required = {each: ["x"] if each == "names" else "x" for each in schema.get("required", []) if each != "success"}
        said = [
            (await client.call(name, {**required, parameter: value}))["content"][0]["text"]
            for parameter in schema["properties"]
            for value in WRONG
            # What it refers to may be anything.
            if (name, parameter) not in {("tool_call", "arguments"), ("tool_call_read", "arguments")}
        ]
    refused = [each for each in said if each.startswith("The arguments do not fit: ")]
    assert len(refused) >= 5
    assert [each for each in refused if OF_PYTHON.search(each.partition(" Parameters: ")[0])] == []


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_are_read_as_those_of_servers_are(tmp_path, era):
    put(repo(tmp_path), "letters", "Writes letters.")
    async with world(tmp_path, {"db": [tool("get_row")]}, skills(), listing="auto") as w, w.client(era) as client:
        for name, given, meant in (
            ("tool_search", {"query": "row", "limit": 3.0}, {"query": "row", "limit": 3}),
            ("tool_search", {"query": "row", "limit": " 3 "}, {"query": "row", "limit": 3}),
            ("tool_search", {"query": "row", "limit": None, "server": None, "detail": None}, {"query": "row"}),
            (
                "tool_search",
                {"query": "row", "include_always_loaded": "yes"},
                {"query": "row", "include_always_loaded": True},
            ),
            ("skill_search", {"query": "letters", "limit": "1"}, {"query": "letters", "limit": 1}),
            ("skill_list", {"page_size": "5", "usable": 0}, {"page_size": 5}),
            ("skill_get", {"names": '["letters"]', "max_tokens": "900"}, {"names": ["letters"], "max_tokens": 900}),
        ):
            expected = await client.call(name, {**meant, **({"force": True} if name == "skill_get" else {})})
            assert not expected["isError"]
            assert await client.call(name, {**given, **({"force": "on"} if name == "skill_get" else {})}) == expected
        for given, problem in (
            ({"query": None}, "query: must be string, not null"),
            ({"query": "x", "limit": "3.5"}, "limit: must be integer, not string"),
            ({"query": "x", "limit": "0"}, "limit: must be greater than or equal to 1"),
            ({"query": "x", "limt": None}, "limt: is not known here"),
        ):
            refused = await client.call("tool_search", given)
            assert refused["content"][0]["text"].startswith(f"The arguments do not fit: {problem}. Parameters: query,")
