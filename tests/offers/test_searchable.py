"""``gate.expose``: what is not listed and found by searching, and what is not there at all."""

import pytest
from mcp import MCPError

from fakes.memory import MemoryServer
from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.catalog.arguments import SchemaChecker
from toolcrib.catalog.config_names import find_unmatched
from toolcrib.gateway.offline import open_index
from toolcrib.gateway.runtime import Runtime
from worlds import ERAS, world

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("era", ERAS)
SEARCHABLE = {"gate": {"expose": {"resources": "searchable", "prompts": "searchable"}}}


COMPLETING = {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "", "value": ""}}


def server() -> MemoryServer:
    offers = {
        "resources": [
            {"uri": "docs://tea", "name": "tea", "title": "Tea", "description": "How green tea is brewed. At length."},
            {"uri": "docs://rust", "name": "rust", "description": "What oxidises iron."},
        ],
        "resourceTemplates": [{"uriTemplate": "docs://recipes/{dish}", "name": "recipe", "description": "A recipe."}],
        "prompts": [{"name": "brew", "description": "Plans a tea party.", "arguments": [{"name": "guests"}]}],
    }
    return MemoryServer([tool("boil_water", "Boils water for tea.")], offers=offers)


async def lists(client) -> list[int]:
    asked = {"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}
    return [len((await client.ask(method))[key]) for method, key in asked.items()]


@BOTH
async def test_what_is_searchable_is_found_marked_for_what_it_is_and_not_listed(tmp_path, era):
    async with world(tmp_path, {"docs": server()}, SEARCHABLE, listing="auto") as w, w.client(era) as client:
        assert await lists(client) == [1, 0, 0]
        answer = await client.search("tea")
        assert [hit["name"] for hit in answer["tools"]] == ["docs__boil_water"]
        found = {hit["address"]: hit for hit in answer["offers"]}
        assert found.keys() == {"toolcrib://servers/docs/docs://tea", "docs__brew"}
        assert {hit["kind"] for hit in found.values()} == {"resource", "prompt"}
        assert found["docs__brew"]["description"] == "Plans a tea party."
        [block] = (await client.call("tool_search", {"query": "tea"}))["content"]
        assert "- resource toolcrib://servers/docs/docs://tea Tea How green tea is brewed." in block["text"]
        assert "- prompt docs__brew Plans a tea party." in block["text"]
        assert (await client.ask("resources/read", {"uri": "toolcrib://servers/docs/docs://tea"}))["contents"]
        assert (await client.ask("prompts/get", {"name": "docs__brew"}))["messages"]


@pytest.mark.sampled
@BOTH
@pytest.mark.parametrize(
    ("search", "addresses"),
    [
        ({"query": "docs://rust", "search_type": "exact"}, ["toolcrib://servers/docs/docs://rust"]),
        ({"query": "recip.*", "search_type": "regex"}, ["toolcrib://servers/docs/docs://recipes/{dish}"]),
        ({"query": "guests"}, ["docs__brew"]),
        ({"query": "iron", "server": "docs"}, ["toolcrib://servers/docs/docs://rust"]),
        ({"query": "iron", "server": "other"}, []),
        ({"query": "nothing like it"}, []),
    ],
)
async def test_every_kind_of_search_finds_them(tmp_path, era, search, addresses):
    servers = {"docs": server(), "other": [tool("get")]}
    async with world(tmp_path, servers, SEARCHABLE, listing="auto") as w, w.client(era) as client:
        answer = await client.search(**search)
        assert [hit["address"] for hit in answer.get("offers", [])] == addresses


async def test_what_is_listed_is_not_found_by_searching(tmp_path):
    async with world(tmp_path, {"docs": server()}) as w, w.client() as client:
        assert await lists(client) == [3, 1, 1]
        assert "offers" not in await client.search("tea")


@BOTH
async def test_what_is_off_is_not_there_and_no_server_is_asked_for_it(tmp_path, era):
    docs = server()
    config = {"gate": {"expose": {"resources": "off", "prompts": "off"}}}
    docs.answers["boil_water"] = link = {"content": [{"type": "resource_link", "uri": "docs://tea", "name": "tea"}]}
    async with world(tmp_path, {"docs": docs}, config, listing="auto") as w, w.client(era) as client:
        for uri in ("toolcrib://servers/docs/docs://tea", "docs://tea"):
            with pytest.raises(MCPError, match="Not found"):
                await client.ask("resources/read", {"uri": uri})
        for method in ("prompts/list", "completion/complete"):
            with pytest.raises(MCPError) as caught:
                await client.ask(
                    method, {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "", "value": ""}}
                )
            assert caught.value.code == -32601
        assert (await client.ask("resources/templates/list"))["resourceTemplates"] == []
        assert (await client.call("docs__boil_water"))["content"] == link["content"]
        assert not {"resources/list", "prompts/list"} & set(docs.methods())


async def test_what_is_denied_is_not_found_nor_are_words_of_it(tmp_path):
    visibility = [{"when": {"tenant_id": "t"}, "deny": ["rust", "brew"]}]
    config = {**SEARCHABLE, "policy": {"visibility": visibility}}
    async with world(tmp_path, {"docs": server()}, config, transport="http") as w:
        async with w.client(caller=Caller("anna", "t")) as anna, w.client(caller=Caller("bob", "u")) as bob:
            assert "offers" not in await anna.search("iron")
            assert len((await bob.search("iron"))["offers"]) == 1
            assert [hit["kind"] for hit in (await anna.search("tea"))["offers"]] == ["resource"]


async def test_a_policy_about_resources_and_prompts_is_no_slip(tmp_path):
    deny = ["docs.docs://rust", "brew", "file:///etc/*"]
    async with world(tmp_path, {"docs": server()}, {"policy": {"deny": deny}}) as w:
        settings = w.settings
    with open_index(settings, Runtime()) as index:
        assert list(find_unmatched(settings, index, SchemaChecker(50, lambda: 0.0))) == []
