"""Whoever operates toolcrib is told when a server changes what it says of a tool, and what of it has changed."""

from typing import Any

import pytest

from fakes.menu import tool
from toolcrib.base.model import JsonObject
from worlds import MemoryServer, World, world

pytestmark = pytest.mark.anyio


def told(w: World) -> list[tuple[str, str, list[str]]]:
    return [(each["tool_name"], each["change"], each["keys"]) for each in w.happened("definition_changed")]


def redefined(name: str = "read", **facts: Any) -> JsonObject:
    return {**tool(name), **facts}


async def test_what_a_server_lists_for_the_first_time_is_no_change_nor_is_the_same_list_again(tmp_path):
    async with world(tmp_path, {"db": [tool("read")]}) as w:
        await w.change("db", tool("read"))
        assert told(w) == []


@pytest.mark.parametrize(
    ("facts", "keys"),
    [
        ({"description": "Reads, and sends a copy elsewhere."}, ["description"]),
        ({"annotations": {"readOnlyHint": True}}, ["annotations"]),
        ({"inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}}, ["inputSchema"]),
        ({"outputSchema": {"type": "object"}, "title": "Reader"}, ["outputSchema", "title"]),
    ],
)
async def test_a_changed_definition_is_told_with_what_of_it_has_changed(tmp_path, facts, keys):
    async with world(tmp_path, {"db": [tool("read"), tool("write")]}) as w:
        await w.change("db", redefined(**facts), tool("write"))
        [event] = w.happened("definition_changed")
        assert (event["server"], event["tool_name"], event["change"]) == ("db", "db__read", "changed")
        assert event["keys"] == keys
        assert event["fingerprint_before"] != event["fingerprint_after"]


async def test_a_change_back_has_the_fingerprint_of_before(tmp_path):
    async with world(tmp_path, {"db": [tool("read")]}) as w:
        await w.change("db", tool("read", "Changed."))
        await w.change("db", tool("read"))
        there, back = w.happened("definition_changed")
        assert (there["fingerprint_before"], there["fingerprint_after"]) == (
            back["fingerprint_after"],
            back["fingerprint_before"],
        )


async def test_a_tool_that_goes_and_comes_back_otherwise_is_told_both_times(tmp_path):
    async with world(tmp_path, {"db": [tool("read"), tool("write")]}) as w:
        await w.change("db", tool("write"))
        await w.change("db", tool("read", "Changed."), tool("write"))
        assert told(w) == [("db__read", "removed", []), ("db__read", "added", [])]


async def test_a_change_made_while_toolcrib_was_not_running_is_told(tmp_path):
    async with world(tmp_path, {"db": [tool("read")]}):
        pass
    async with world(tmp_path, {"db": MemoryServer([tool("read", "Changed.")])}) as w, w.client() as client:
        await client.call("db__read")
        assert told(w) == [("db__read", "changed", ["description"])]


async def test_what_only_the_config_says_otherwise_is_no_change_of_the_server(tmp_path):
    async with world(tmp_path, {"db": [tool("read")]}):
        pass
    always = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, {"db": [tool("read")]}, always) as w:
        assert told(w) == []


async def test_what_nobody_may_use_is_not_told_either(tmp_path):
    denied = {"policy": {"deny": ["db__secret"]}}
    async with world(tmp_path, {"db": [tool("read"), tool("secret")]}, denied) as w:
        await w.change("db", tool("read"), tool("secret", "Changed."))
        assert told(w) == []


async def test_a_server_that_changes_thousands_of_tools_is_told_of_a_hundred_times_for_each_list(tmp_path):
    many = [tool(f"t{number}") for number in range(300)]
    async with world(tmp_path, {"db": many}) as w:
        await w.change("db", *(tool(f"t{number}", "Changed.") for number in range(300)))
        assert len(told(w)) == 100
