"""``servers.NAME.tools``: a person's words for a server's tools, in place of its own."""

import json
from typing import Any

import pytest

from fakes.menu import tool
from worlds import BUILTINS, ERAS, MemoryServer, world

pytestmark = pytest.mark.anyio

CREATE = tool("mk", "Does it.", {"repo": "string", "title": "string", "limit": "integer"}, ["repo", "title"])
TOOLS = [CREATE, tool("drop", "Drop everything, unlike mk."), tool("keep", "Keep what drop would drop.")]


def words(**tools: Any) -> dict[str, Any]:
    """Return a config with entries for the tools of one server, all of them listed."""
    return {"tool_search": {"default_loading_mode": "always"}, "servers": {"db": {"tools": tools}}}


@pytest.mark.parametrize("era", ERAS)
async def test_another_name_and_description_are_listed_and_the_tool_is_called_by_either_name(tmp_path, era):
    config = words(mk={"name": "create_issue", "description": "Create an issue."})
    async with world(tmp_path, {"db": TOOLS}, config, listing="auto") as w, w.client(era) as client:
        listed = {each["name"]: each for each in await client.tools()}
        assert list(listed) == [*BUILTINS, "db__create_issue", "db__drop", "db__keep"]
        assert listed["db__create_issue"]["description"] == "Create an issue."
        assert "Does it." not in json.dumps(listed)
        given = {"repo": "r", "title": "t"}
        for name in ("create_issue", "db__create_issue", "mk", "db.mk"):
            assert "isError" not in (told := await client.tool_call(name, given)), (name, told)
        await client.call("db__create_issue", given)
        assert [call["name"] for call in w["db"].calls()] == ["mk"] * 5


async def test_it_is_found_by_its_own_and_by_the_other_name(tmp_path):
    config = words(mk={"name": "create_issue", "description": "Create an issue."})
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:
        for query in ("create issue", "mk"):
            assert (await client.found(query, include_always_loaded=True))[0] == "db__create_issue"


async def test_a_hidden_tool_is_as_one_that_there_is_not(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, words(drop={"hide": True})) as w, w.client() as client:
        assert "db__drop" not in await client.names()
        hidden, absent = await client.tool_call("db__drop"), await client.tool_call("db__dorp")
        assert hidden["content"][0]["text"].replace("drop", "dorp") == absent["content"][0]["text"]
        assert await client.found("drop_everything", include_always_loaded=True) == await client.found(
            "dorp_everything", include_always_loaded=True
        )
        assert w["db"].calls() == []


async def test_two_tools_cannot_be_given_one_name(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, words(mk={"name": "keep"})) as w, w.client() as client:
        assert await client.names() == [*BUILTINS, "db__drop"]
        refused = w.gateway.tools.indexer.refused["db"]
        assert {each.name for each in refused} == {"mk", "keep"}


@pytest.mark.parametrize("door", ["direct", "tool_call"])
async def test_fixed_arguments_are_not_shown_and_always_sent_defaults_where_there_are_none(tmp_path, door):
    config = words(mk={"arguments": {"repo": {"fixed": "mine"}, "limit": {"default": 5}}})
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:

        async def call(**arguments: Any) -> None:
            if door == "direct":
                await client.call("db__mk", arguments)
            else:
                assert not (await client.tool_call("db__mk", arguments)).get("isError")

        schema = next(each for each in await client.tools() if each["name"] == "db__mk")["inputSchema"]
        assert list(schema["properties"]) == ["title", "limit"]
        assert schema["required"] == ["title"]
        assert schema["properties"]["limit"]["default"] == 5
        await call(title="t")
        await call(title="t", limit=7)
        assert [each["arguments"] for each in w["db"].calls()] == [
            {"limit": 5, "title": "t", "repo": "mine"},
            {"limit": 7, "title": "t", "repo": "mine"},
        ]


async def test_a_caller_cannot_say_otherwise_than_what_is_fixed(tmp_path):
    config = words(mk={"arguments": {"repo": {"fixed": "mine"}}})
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:
        await client.call("db__mk", {"repo": "theirs", "title": "t"})
        assert w["db"].calls()[0]["arguments"]["repo"] == "mine"


async def test_a_reload_takes_them_on_without_starting_the_server_again(tmp_path):
    server = MemoryServer(TOOLS)
    async with world(tmp_path, {"db": server}, words()) as w, w.client() as client:
        await client.call("db__keep")
        before = server.starts
        await w.reload(words(keep={"description": "Store things."}))
        await w.listed()
        assert (
            next(each for each in await client.tools() if each["name"] == "db__keep")["description"] == "Store things."
        )
        assert server.starts == before
