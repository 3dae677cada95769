"""``gate.pass_through_tokens``: who may use so few tools that all are listed, and is not shown how to find them."""

import json
from pathlib import Path

import anyio
import pytest

from fakes.menu import tool
from worlds import BUILTINS, ERAS, PATIENCE_S, MemoryServer, world

pytestmark = pytest.mark.anyio

TOOLS = [tool("read"), tool("write"), tool("drop")]
NAMES = ["db__drop", "db__read", "db__write"]
LIMIT = {"gate": {"pass_through_tokens": 400}}
SOME_SKILLS = {"skills": {"enabled": True, "core_pack": True}}
LONG = "Word " * 130
"""A description of some 160 tokens."""


async def known(folder: Path, servers, config=None) -> None:
    """Let a toolcrib list the servers, so that the next start knows them."""
    async with world(folder, servers, config or LIMIT):
        pass


@pytest.mark.parametrize("era", ERAS)
async def test_few_tools_are_listed_alone_and_nothing_tells_how_to_find_them(tmp_path, era):
    async with world(tmp_path, {"db": TOOLS}, LIMIT, listing="auto") as w, w.client(era) as client:
        assert await client.names() == NAMES
        assert not client.instructions
        assert (await client.call("db__read"))["content"][0]["text"] == "ran read {}"
        assert await client.names() == NAMES
        assert client.list_changes == 0


@pytest.mark.parametrize("era", ERAS)
async def test_more_tokens_than_that_are_found_by_search(tmp_path, era):
    config = {"gate": {"pass_through_tokens": 30}}
    async with world(tmp_path, {"db": TOOLS}, config, listing="auto") as w, w.client(era) as client:
        assert await client.names() == BUILTINS
        assert client.instructions is None or "tool_search" in client.instructions


async def test_what_is_not_shown_answers_nevertheless(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, LIMIT) as w, w.client() as client:
        assert "db__drop" in json.dumps(await client.call("tool_search", {"query": "drop"}))
        assert (await client.tool_call("db__read"))["content"][0]["text"] == "ran read {}"


async def test_the_tools_for_skills_go_too_where_there_are_none_but_those_of_the_core_pack(tmp_path):
    config = {**LIMIT, "skills": {"enabled": True}}
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:
        assert await client.names() == NAMES
        assert not client.instructions
        assert "skills" in json.dumps(await client.call("skill_list"))


async def test_the_tools_for_skills_stay_where_there_are_skills(tmp_path):
    folder = tmp_path / "skills" / "bake"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: bake\ndescription: Bake bread.\n---\nKnead.\n", encoding="utf-8")
    config = {**LIMIT, "skills": {"enabled": True, "skill_dirs": [str(tmp_path / "skills")]}}
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:
        names = await client.names()
        assert [name for name in names if name.startswith("skill_")] == ["skill_search", "skill_get", "skill_list"]
        assert "tool_search" not in names
        assert "skill_search" in (client.instructions or "")
        assert "tool_search" not in (client.instructions or "")


async def test_what_is_denied_does_not_count(tmp_path):
    tools = [*TOOLS, tool("huge", LONG * 4)]
    async with world(tmp_path, {"db": tools}, LIMIT) as w, w.client() as client:
        assert await client.names() == BUILTINS
    (tmp_path / "denied").mkdir()
    async with world(tmp_path / "denied", {"db": tools}, {**LIMIT, "policy": {"deny": ["huge"]}}) as w:
        async with w.client() as client:
            assert await client.names() == NAMES


async def test_tools_that_are_not_known_yet_are_found_by_search_until_the_next_start(tmp_path):
    slow = MemoryServer(TOOLS, hangs_at="tools/list")
    async with world(tmp_path, {"db": slow}, LIMIT, wait=False) as w, w.client() as client:
        assert "tool_search" in (client.instructions or "")
        slow.hangs_at = ""
        assert "tool_search" in await client.names()
    await known(tmp_path, {"db": TOOLS})
    async with world(tmp_path, {"db": TOOLS}, LIMIT, wait=False) as w, w.client() as client:
        assert await client.names() == NAMES


async def test_a_tool_that_comes_and_fits_is_listed_and_one_that_does_not_is_found(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, LIMIT) as w, w.client() as client:
        assert await client.names() == NAMES
        await w.change("db", *TOOLS, tool("more"), tool("zzz", LONG * 3))
        assert await client.names() == ["db__drop", "db__more", "db__read", "db__write"]
        assert "db__zzz" in json.dumps(await client.call("tool_search", {"query": "zzz"}))
        assert (await client.tool_call("db__zzz"))["content"][0]["text"] == "ran zzz {}"


async def test_what_is_listed_already_counts_against_a_tool_that_comes(tmp_path):
    many = [tool(f"many{number}", LONG) for number in range(2)]
    async with world(tmp_path, {"db": many}, LIMIT) as w, w.client() as client:
        assert await client.names() == ["db__many0", "db__many1"]
        await w.change("db", *many, tool("zzz", LONG * 2))
        assert await client.names() == ["db__many0", "db__many1"]


async def test_a_whole_list_stays_whole_up_to_half_as_much_again(tmp_path):
    grown = [*TOOLS, tool("more", LONG), tool("most", LONG)]
    await known(tmp_path, {"db": TOOLS})
    async with world(tmp_path, {"db": grown}, LIMIT, wait=False) as w, w.client() as client:
        assert await client.names() == NAMES
        await w.change("db", *grown)
    async with world(tmp_path, {"db": grown}, LIMIT) as w, w.client() as client:
        assert len(await client.names()) == 5
    (tmp_path / "new").mkdir()
    async with world(tmp_path / "new", {"db": grown}, LIMIT) as w, w.client() as client:
        assert await client.names() == BUILTINS


async def test_a_change_of_the_kind_of_list_is_an_event(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, LIMIT) as w, w.client() as client:
        await client.names()
        found = [each for each in w.events if each["event"] == "whole_list_decided"]
        assert [(each["is_whole"], each["tools"], each["limit"]) for each in found] == [(True, 3, 400)]


async def test_a_session_without_end_keeps_the_kind_of_list_that_it_began_with_after_a_reload(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, LIMIT, listing="auto") as w, w.client() as client:
        assert await client.names() == NAMES
        await w.reload({**LIMIT, "gate": {**LIMIT["gate"], "pass_through_tokens": 1}})
        assert await client.names() == NAMES


@pytest.mark.parametrize("era", ERAS)
async def test_the_rest_of_a_long_result_is_read_by_its_own_tool(tmp_path, era):
    config = {**LIMIT, "limits": {"result_max_bytes": 2000}}
    long = {"content": [{"type": "text", "text": "line\n" * 900}]}
    server = MemoryServer(TOOLS, answers={"read": long})
    async with world(tmp_path, {"db": server}, config, listing="auto") as w, w.client(era) as client:
        assert await client.names() == NAMES
        with anyio.fail_after(PATIENCE_S):
            said = json.dumps(await client.call("db__read"))
        assert "call toolcrib's read_more" in said
