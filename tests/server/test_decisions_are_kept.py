"""Activations of a session id and use of skills outlive the cache, in a running toolcrib and over a restart."""

import shutil
from pathlib import Path

import pytest
from shelving import put, repo, skills

from fakes.menu import tool
from worlds import BUILTINS, ERAS, Client, world

pytestmark = pytest.mark.anyio

TOOLS = [tool("read"), tool("write")]
SESSION = {"tool_search": {"activation_scope": "session"}, "context": {"session_id": "s-1"}}


def delete(cache: Path) -> None:
    shutil.rmtree(cache)


def garble(cache: Path) -> None:
    for file in cache.glob("*.db*"):
        file.write_bytes(b"no database at all\n" * 500)


@pytest.mark.parametrize("lose", [delete, garble])
async def test_what_a_session_has_activated_stays_activated_whatever_becomes_of_the_cache(tmp_path, lose):
    async with world(tmp_path, {"db": TOOLS}, SESSION) as w, w.client() as client:
        await client.call("db__read")
    lose(tmp_path / "cache")
    async with world(tmp_path, {"db": TOOLS}, SESSION) as w, w.client() as client:
        assert "db__read" in await client.names()


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("lose", [delete, garble])
async def test_active_skills_of_a_session_id_stay_active_until_they_are_let_go(tmp_path, lose, era):
    put(repo(tmp_path), "reading", tools=["db__read"])
    put(repo(tmp_path), "writing", tools=["db__write"])
    config = {**SESSION, **skills(), "servers": {"db": {"default_loading_mode": "skill"}}}

    async def open_names(client: Client) -> list[str]:
        found = await client.found("db", search_type="regex", include_always_loaded=True)
        listed = [name for name in await client.names() if "__" in name]
        assert listed == (sorted(found) if era == "legacy" else [])
        return sorted(found)

    async with world(tmp_path, {"db": TOOLS}, config, listing="auto") as w:
        async with w.client(era) as client:
            await client.skill("get", names=["reading", "writing"])
        async with w.client(era) as client:  # connected again
            assert await open_names(client) == ["db__read", "db__write"]
            await client.call("skill_deactivate", {"names": ["writing"]})
    lose(tmp_path / "cache")
    async with world(tmp_path, {"db": TOOLS}, config, listing="auto") as w:
        async with w.client(era) as client:
            assert await open_names(client) == ["db__read"]
            result = await client.call("skill_deactivate", {"names": ["reading"]})
            assert result["structuredContent"] == {"active": []}
    async with world(tmp_path, {"db": TOOLS}, config, listing="auto") as w, w.client(era) as client:
        assert await open_names(client) == []


@pytest.mark.parametrize("lose", [delete, garble])
async def test_how_often_a_skill_was_used_stays_known_whatever_becomes_of_the_cache(tmp_path, lose):
    for name in ("a", "b", "c"):
        put(repo(tmp_path), name)
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        await client.skill("get", names=["c"])
    lose(tmp_path / "cache")
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        directory = client.instructions
        assert directory.index("\n- c\n") < directory.index("\n- a\n")


async def test_of_one_session_id_only_so_many_activations_are_kept(tmp_path):
    bounded = {**SESSION, "limits": {"activations_kept": 1}}
    async with world(tmp_path, {"db": TOOLS}, bounded) as w, w.client() as client:
        await client.call("db__read")
        await client.call("db__write")
        assert (await client.names())[len(BUILTINS) :] == ["db__read", "db__write"]
    async with world(tmp_path, {"db": TOOLS}, bounded) as w, w.client() as client:
        assert (await client.names())[len(BUILTINS) :] == ["db__write"]


async def test_damage_to_the_decisions_is_told_and_everything_is_served(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, SESSION) as w, w.client() as client:
        await client.call("db__read")
        state = w.settings.state_file
    state.write_bytes(b"garbage" * 1000)
    async with world(tmp_path, {"db": TOOLS}, SESSION) as w, w.client() as client:
        [event] = w.happened("state_replaced")
        [aside] = state.parent.glob("state.db.corrupt-*Z")
        assert event["file"] == "state.db"
        assert aside.name in event["reason"]
        await client.call("db__write")
        assert (await client.names())[len(BUILTINS) :] == ["db__write"]
    async with world(tmp_path, {"db": TOOLS}, SESSION) as w, w.client() as client:
        assert w.happened("state_replaced") == []
        assert (await client.names())[len(BUILTINS) :] == ["db__write"]


async def test_where_decisions_cannot_be_written_they_hold_until_the_end_and_that_is_told_once(tmp_path):
    (tmp_path / "state").write_text("in the way")
    nowhere = {**SESSION, "state_dir": str(tmp_path / "state")}
    async with world(tmp_path, {"db": TOOLS}, nowhere) as w:
        for expected in (["db__read"], ["db__read", "db__write"]):
            async with w.client() as client:
                await client.call(expected[-1])
                assert (await client.names())[len(BUILTINS) :] == expected
        [event] = w.happened("state_replaced")
        assert "in memory" in event["reason"]
