"""An index file that turns out damaged, or a disk that takes nothing, in a running toolcrib: all tools stay usable."""

import sqlite3
from contextlib import closing

import pytest

from fakes.menu import tool
from worlds import MemoryServer, World, until, world

pytestmark = pytest.mark.anyio

SERVERS = {"db": [tool("read"), tool("write")], "zoo": [tool("feed")]}


def damage(w: World) -> None:
    """Have the next delete of a tool say "malformed", though every check says that all is well."""
    with closing(sqlite3.connect(w.catalog_file)) as connection, connection:
        connection.execute("INSERT INTO tools_fts(tools_fts) VALUES ('delete-all')")


def fill_disk(w: World) -> None:
    """Let the file of the catalog grow no more."""
    writer = w.gateway.tools.indexer._index._store._writer
    [pages] = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")


async def test_a_damaged_index_is_made_anew_and_every_server_is_listed_again(tmp_path):
    async with world(tmp_path, SERVERS) as w, w.client() as client:
        await client.call("zoo__feed")
        damage(w)
        await w.change("db", tool("read"))
        catalog = w.gateway.tools.indexer
        await until(lambda: [known.public_name for known in catalog.current().tools] == ["db__read", "zoo__feed"])
        assert await client.found("feed zoo") == ["zoo__feed"]
        assert not (await client.tool_call("zoo__feed")).get("isError")
        [event] = w.happened("index_rebuilt")
        assert event["file"] == "tool_cache.db"
        assert "damaged" in event["reason"]
    assert list((tmp_path / "cache").glob("tool_cache.db.corrupt-*Z"))


async def test_on_a_full_disk_new_tools_are_found_and_called_and_that_is_told_once(tmp_path, caplog):
    large = [tool(f"grow_{number}", "Grows plants. " * 400) for number in range(40)]
    server = MemoryServer(SERVERS["db"])
    async with world(tmp_path, {**SERVERS, "db": server}) as w, w.client() as client:
        fill_disk(w)
        for added in (large, [*large, tool("water")]):
            await w.change("db", *added)
            assert "db__grow_7" in await client.found("grow 7")
            assert not (await client.tool_call("db__grow_7")).get("isError")
            assert await client.found("feed zoo") == ["zoo__feed"]
        assert (await client.search("db.water", search_type="exact", detail="schema"))["tools"][0]["input_schema"]
        [event] = w.happened("index_rebuilt")
        assert "cannot be written" in event["reason"]
    assert [record.levelname for record in caplog.records if "cannot be written" in record.getMessage()] == ["WARNING"]


async def test_what_was_listed_on_a_full_disk_is_on_it_once_there_is_room(tmp_path):
    large = [tool(f"grow_{number}", "Grows plants. " * 400) for number in range(40)]
    async with world(tmp_path, SERVERS) as w:
        fill_disk(w)
        await w.change("db", *large)
        w.clock.now += 61
        await w.change("zoo", tool("feed"), tool("clean"))
    async with world(tmp_path, SERVERS, wait=False) as w, w.client() as client:
        assert "db__grow_7" in await client.found("grow 7")
        assert "zoo__clean" in await client.found("clean zoo")


async def test_a_start_on_a_disk_that_takes_nothing_lists_every_server(tmp_path):
    (tmp_path / "cache").write_text("in the way")
    async with (
        world(tmp_path, SERVERS, {"events": {"file": str(tmp_path / "events.jsonl")}}) as w,
        w.client() as client,
    ):
        assert await client.found("feed zoo") == ["zoo__feed"]
        assert not (await client.tool_call("db__read")).get("isError")
        [event] = w.happened("index_rebuilt")
        assert "in memory" in event["reason"]
