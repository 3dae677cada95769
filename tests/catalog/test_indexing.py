"""From a server's list to the catalog: what is trusted, what has to be listed again, and who is told."""

import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from fakes.menu import tool
from toolcrib.base.errors import StoreError
from toolcrib.base.model import Ingest, Tool
from toolcrib.catalog import indexing as indexing_module
from toolcrib.catalog import ingest as ingest_module
from toolcrib.catalog.index import TOOLS_SCHEMA, Changes, ToolIndex
from toolcrib.catalog.indexing import CatalogChange, Indexer
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.policy.rules import Policy, policy_of
from toolcrib.storage.store import Store
from worlds import Clock, MemoryServer, configured, settled, until

pytestmark = pytest.mark.anyio

DAY = 86_400


class Indexing:
    """An indexer over a real file, with a clock that stands still."""

    def __init__(self, folder: Path, settings: Settings, store: Store) -> None:
        self.file, self.settings, self.clock = folder / "tool_cache.db", settings, Clock(0)
        self.index = ToolIndex(store)
        self.indexer = Indexer(settings, policy_of(settings.toolcrib.policy), self.index, self.clock, lambda *_: True)
        self.indexer.open()

    async def take_in(self, key: str, *tools: Any, era: str = "legacy") -> dict[str, str]:
        return await self.indexer.listed(self.settings.servers[key], list(tools), era)

    def names(self) -> list[str]:
        return [known.public_name for known in self.indexer.current().tools]


@contextmanager
def indexing(folder: Path, toolcrib: dict[str, Any] | None = None, servers: str = "ab") -> Iterator[Indexing]:
    settings = configured(folder, {key: MemoryServer() for key in servers}, toolcrib or {})
    with Store(folder / "tool_cache.db", TOOLS_SCHEMA, fts="auto") as store:
        yield Indexing(folder, settings, store)


async def test_what_a_server_lists_is_in_the_catalog_in_order(tmp_path):
    with indexing(tmp_path) as it:
        assert it.names() == []
        await it.take_in("b", tool("y"), tool("x"))
        await it.take_in("a", tool("z"))
        assert it.names() == ["a__z", "b__x", "b__y"]


async def test_a_new_list_takes_the_place_of_the_old_one_and_of_no_others(tmp_path):
    with indexing(tmp_path) as it:
        await it.take_in("a", tool("old"), tool("same"))
        await it.take_in("b", tool("x"))
        await it.take_in("a", tool("same"), tool("new"))
        assert it.names() == ["a__new", "a__same", "b__x"]


async def test_the_live_fingerprints_are_those_of_the_catalog(tmp_path):
    with indexing(tmp_path) as it:
        live = await it.take_in("a", tool("x"), tool("y"), tool("y", "Another."), 7)
        assert live == {known.name: known.fingerprint for known in it.indexer.current().tools}
        assert list(live) == ["x", "y"]
        assert [refused.name for refused in it.indexer.refused["a"]] == ["y", "#4"]


async def test_every_step_is_told_with_what_was_before_and_what_is_after(tmp_path):
    told: list[CatalogChange] = []
    with indexing(tmp_path) as it:
        it.indexer.subscribe(told.append)
        await it.take_in("a", tool("x"), tool("y"))
        await it.take_in("a", tool("x", "Different."), tool("z"))
    first, second = told
    assert (first.server, first.rows, len(first.before.tools)) == ("a", Changes(2, 0, 0), 0)
    assert second.rows == Changes(added=1, updated=1, removed=1)
    assert second.before is first.after
    assert [known.name for known in second.after.tools] == ["x", "z"]
    assert second.after.generation > first.after.generation


async def test_lists_of_many_servers_at_once_all_arrive(tmp_path):
    with indexing(tmp_path, servers="abcdefgh") as it:
        async with anyio.create_task_group() as tasks:
            for key in "abcdefgh":
                tasks.start_soon(it.take_in, key, tool("x"))
        assert it.names() == [f"{key}__x" for key in "abcdefgh"]


async def test_lists_that_wait_for_their_vectors_get_them_together(tmp_path, monkeypatch):
    began, may_go_on = threading.Event(), threading.Event()
    filled: list[str] = []
    with indexing(tmp_path, servers="abcd") as it:

        def embed(server: str) -> None:
            filled.append(server)
            if server == "a":
                began.set()
                assert may_go_on.wait(60)

        indexer = Indexer(it.settings, Policy(), it.index, it.clock, lambda *_: True, embed)
        indexer.open()
        rounds: list[int] = []
        monkeypatch.setattr(it.index, "fill_stems", rounds.append)
        async with anyio.create_task_group() as lists:
            lists.start_soon(indexer.listed, it.settings.servers["a"], [tool("x")], "legacy")
            await until(began.is_set)
            for key in "bcd":
                lists.start_soon(indexer.listed, it.settings.servers[key], [tool("x")], "legacy")
            await until(lambda: indexer._unfilled == set("bcd"))
            may_go_on.set()
        assert filled[0] == "a"
        assert sorted(filled) == list("abcd")
        assert len(rounds) == 2, "the first alone, then all that waited"
        assert [known.public_name for known in indexer.current().tools] == ["a__x", "b__x", "c__x", "d__x"]


async def test_a_list_that_was_stored_is_published_even_if_its_server_is_stopped_meanwhile(tmp_path, monkeypatch):
    told: list[CatalogChange] = []
    stored, may_go_on = threading.Event(), threading.Event()
    with indexing(tmp_path) as it:
        await it.take_in("a", tool("x", "Reads."))
        it.indexer.subscribe(told.append)
        fill = it.index.fill_stems

        def fill_later(ranked_in_memory: int) -> None:
            stored.set()
            assert may_go_on.wait(60)
            fill(ranked_in_memory)

        monkeypatch.setattr(it.index, "fill_stems", fill_later)
        async with anyio.create_task_group() as server:
            server.start_soon(it.take_in, "a", tool("x", "Deletes."), tool("new"))
            await until(stored.is_set)
            server.cancel_scope.cancel()
            may_go_on.set()
        assert it.names() == ["a__new", "a__x"]
    assert [each.public_name for change in told if change.rows for each in change.rows.redefined] == ["a__x", "a__new"]


async def test_a_list_that_could_not_be_published_is_told_with_the_next(tmp_path, monkeypatch):
    told: list[CatalogChange] = []
    with indexing(tmp_path) as it:
        await it.take_in("a", tool("x", "Reads."))
        it.indexer.subscribe(told.append)
        with monkeypatch.context() as patched:
            patched.setattr(it.index, "load", refuse)
            with pytest.raises(StoreError):
                await it.take_in("a", tool("x", "Deletes."))
        await it.take_in("a", tool("x", "Deletes."))
    assert [change.rows for change in told] == [Changes(0, 1, 0)]
    assert [each.public_name for change in told if change.rows for each in change.rows.redefined] == ["a__x"]


def refuse(_servers: Mapping[str, str]) -> list[Tool]:
    raise StoreError("busy")


async def test_lists_that_come_while_a_catalog_is_made_share_the_next_one(tmp_path, monkeypatch):
    told: list[CatalogChange] = []
    may_go_on = threading.Event()
    with indexing(tmp_path, servers="abcd") as it:
        it.indexer.subscribe(told.append)
        load = it.index.load

        def load_when_all_are_ready(servers: Mapping[str, str]) -> list[Tool]:
            assert may_go_on.wait(60)
            return load(servers)

        monkeypatch.setattr(it.index, "load", load_when_all_are_ready)
        async with anyio.create_task_group() as tasks:
            for key in "abcd":
                tasks.start_soon(it.take_in, key, tool("x"))
            await until(lambda: it.indexer._swap.statistics().tasks_waiting == 3)
            may_go_on.set()
        assert it.names() == ["a__x", "b__x", "c__x", "d__x"]
    assert sorted(str(change.server) for change in told) == ["a", "b", "c", "d"]
    assert all(change.rows == Changes(1, 0, 0) for change in told)
    assert all(one.after is other.before for one, other in pairwise(told))
    assert told[0].before.tools == ()
    assert len({change.after.generation for change in told}) == 2


async def test_a_catalog_is_made_ready_before_anybody_knows_of_it(tmp_path):
    ready: list[tuple[list[str], list[str]]] = []
    with indexing(tmp_path) as it:
        it.indexer.prepare_by(
            lambda catalog: ready.append(([known.public_name for known in catalog.tools], it.names()))
        )
        await it.take_in("a", tool("x"))
        assert ready == [(["a__x"], [])]
        it.indexer.unsubscribe()
        await it.take_in("b", tool("y"))
    assert len(ready) == 1


async def test_large_lists_are_checked_one_after_the_other_and_make_no_small_one_wait(tmp_path, monkeypatch):
    going: list[str] = []
    small_is_checked, ingest = Event(), ingest_module.ingest

    def noted(server: ServerSettings, *rest: Any) -> Ingest:
        going.append(f"{server.key} begins")
        taken = ingest(server, *rest)
        if server.key == "c":
            small_is_checked.set()
        assert small_is_checked.wait(30)
        going.append(f"{server.key} ends")
        return taken

    monkeypatch.setattr(ingest_module, "ingest", noted)
    monkeypatch.setattr(indexing_module, "_LARGE_LIST", 2)
    with indexing(tmp_path, servers="abc") as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.take_in, "a", tool("x"), tool("y"))
            tasks.start_soon(it.take_in, "b", tool("x"), tool("y"))
            await until(lambda: bool(going))
            tasks.start_soon(it.take_in, "c", tool("x"))
        assert len(it.names()) == 5
    large = [each for each in going if each[0] in "ab"]
    assert [each.split()[1] for each in large] == ["begins", "ends"] * 2


async def test_a_list_is_in_the_catalog_once_its_stems_are_made_and_when_they_cannot_be(tmp_path, monkeypatch, caplog):
    known: list[list[str]] = []
    with indexing(tmp_path, {"limits": {"ranked_in_memory": 0}}) as it:

        def fail() -> None:
            known.append(it.names())
            raise StoreError("another process writes")

        monkeypatch.setattr(it.index.stems, "fill", fail)
        await it.take_in("a", tool("x"))
        assert it.names() == ["a__x"]
    assert known == [[]]
    assert "another process writes" in caplog.text


async def test_tools_that_are_ranked_in_memory_get_no_stems(tmp_path, monkeypatch):
    with indexing(tmp_path, {"limits": {"ranked_in_memory": 1}}) as it:
        monkeypatch.setattr(it.index.stems, "fill", lambda: pytest.fail("nobody reads them"))
        await it.take_in("a", tool("x"))
        assert it.names() == ["a__x"]


# -- what is trusted -----------------------------------------------------------------------------


async def test_what_never_got_stems_leaves_nothing_to_be_done_when_it_goes(tmp_path):
    with indexing(tmp_path) as it:
        for number in range(5):
            await it.take_in("a", tool("x", f"Version {number}."))
    with closing(sqlite3.connect(tmp_path / "tool_cache.db")) as connection:
        assert connection.execute("SELECT count(*) FROM tools_stems_due").fetchone() == (1,)


async def test_after_a_restart_the_last_known_list_is_there_at_once(tmp_path):
    with indexing(tmp_path) as it:
        assert it.indexer.unlisted() == ["a", "b"]
        await it.take_in("a", tool("x"), era="modern")
    with indexing(tmp_path) as it:
        assert it.names() == ["a__x"]
        assert it.indexer.unlisted() == ["b"]
        assert it.index.server_rows()["a"].era == "modern"


async def test_a_server_without_tools_is_listed_all_the_same(tmp_path):
    with indexing(tmp_path) as it:
        await it.take_in("a")
        assert it.indexer.unlisted() == ["b"]


async def test_a_server_that_is_no_longer_configured_is_forgotten(tmp_path):
    with indexing(tmp_path, servers="ab") as it:
        await it.take_in("a", tool("x"))
        await it.take_in("b", tool("y"))
    with indexing(tmp_path, servers="b") as it:
        assert it.names() == ["b__y"]
        assert list(it.index.server_rows()) == ["b"]


@pytest.mark.parametrize(
    "toolcrib",
    [
        {"policy": {"deny": ["other"]}},
        {"servers": {"a": {"tags": {"*": ["t"]}}}},
        {"tool_search": {"default_loading_mode": "always"}},
        {"tool_examples": {"max_examples_per_tool": 1}},
        {"limits": {"name_max": 40}},
    ],
)
async def test_a_server_is_listed_anew_when_the_config_changes_what_its_rows_say(tmp_path, toolcrib):
    with indexing(tmp_path) as it:
        await it.take_in("a", tool("x"))
    with indexing(tmp_path, toolcrib) as it:
        assert it.names() == []
        assert "a" in it.indexer.unlisted()


async def test_rows_that_somebody_else_has_planted_are_dropped_and_the_server_is_listed_anew(tmp_path):
    with indexing(tmp_path) as it:
        await it.take_in("a", tool("x"))
    with sqlite3.connect(tmp_path / "tool_cache.db") as connection:
        connection.execute("INSERT INTO tools(name, namespace, tool, description) VALUES ('a__evil', 'a', 'evil', '')")
    connection.close()
    with indexing(tmp_path) as it:
        assert it.names() == []
        assert it.indexer.unlisted() == ["a", "b"]


async def test_the_index_can_be_made_anew_at_every_start(tmp_path):
    with indexing(tmp_path) as it:
        await it.take_in("a", tool("x"))
    with indexing(tmp_path, {"tool_search": {"rebuild_cache_on_init": True}}) as it:
        assert it.names() == []
        assert it.indexer.unlisted() == ["a", "b"]


async def test_a_list_that_is_a_day_old_is_outdated_and_one_that_was_never_made_is_not(tmp_path):
    with indexing(tmp_path) as it:
        await it.take_in("a", tool("x"))
        it.clock.now += DAY
        assert it.indexer.outdated() == {}
        it.clock.now += 1
        assert it.indexer.outdated() == {"a": "age"}
        await it.take_in("a", tool("x"))
        assert it.indexer.outdated() == {}


async def test_what_another_process_has_listed_is_seen_soon_after_somebody_looks(tmp_path):
    told: list[CatalogChange] = []
    with indexing(tmp_path) as one, indexing(tmp_path) as other:
        one.indexer.subscribe(told.append)
        before = one.indexer.current()
        await other.take_in("a", tool("x"))
        async with following(one):
            assert one.indexer.current() is before
            one.indexer.schedule_reload()
            assert one.indexer.current() is before
            await until(lambda: one.names() == ["a__x"])
            after = one.indexer.current()
            assert after.generation > before.generation
            assert [(change.server, change.before, change.after) for change in told] == [(None, before, after)]


async def test_a_look_at_what_has_not_changed_changes_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(indexing_module, "_REST_S", 0)
    with indexing(tmp_path) as it:
        looks: list[object] = []
        real = it.index.data_version
        monkeypatch.setattr(it.index, "data_version", lambda: looks.append(1) or real())
        async with following(it):
            await it.take_in("a", tool("x"))
            before = it.indexer.current()
            looks.clear()
            for expected in (1, 2, 3):
                it.indexer.schedule_reload()
                await until(lambda: len(looks) == expected)  # noqa: B023 - waited for at once
            assert it.indexer.current() is before


async def test_many_looks_are_one(tmp_path, monkeypatch: pytest.MonkeyPatch):
    with indexing(tmp_path) as it:
        looks: list[object] = []
        real = it.index.data_version
        monkeypatch.setattr(it.index, "data_version", lambda: looks.append(1) or real())
        async with following(it):
            for _ in range(50):
                it.indexer.schedule_reload()
                await anyio.lowlevel.checkpoint()
            await until(lambda: bool(looks))
            assert len(looks) == 1


async def test_a_catalog_that_cannot_be_reloaded_stays_and_is_tried_again(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(indexing_module, "_REST_S", 0)
    with indexing(tmp_path) as one, indexing(tmp_path) as other:
        await one.take_in("a", tool("x"))
        await other.take_in("b", tool("y"))
        failures = [StoreError("no", detail="locked")]
        real = one.index.load
        monkeypatch.setattr(one.index, "load", lambda servers: raised(failures.pop()) if failures else real(servers))
        async with following(one):
            one.indexer.schedule_reload()
            await until(lambda: not failures)
            assert one.names() == ["a__x"]
            one.indexer.schedule_reload()
            await until(lambda: one.names() == ["a__x", "b__y"])


def raised(error: Exception) -> None:
    raise error


@asynccontextmanager
async def following(it: Indexing) -> AsyncIterator[list[str]]:
    """Have it follow what others write; gives the servers that are to be listed again."""
    lost: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.indexer.follow, lost.extend)
        yield lost
        tasks.cancel_scope.cancel()


async def test_servers_whose_rows_went_with_a_damaged_file_are_listed_again(tmp_path):
    with indexing(tmp_path) as it:
        await it.take_in("a", tool("x"))
        await it.take_in("b", tool("y"))
        with closing(sqlite3.connect(tmp_path / "tool_cache.db")) as connection, connection:
            connection.execute("INSERT INTO tools_fts(tools_fts) VALUES ('delete-all')")
        async with following(it) as lost:
            await it.take_in("b", tool("z"))
            assert it.names() == ["b__z"]
            await until(lambda: lost == ["a"])
            await it.take_in("a", tool("x"))
            assert it.names() == ["a__x", "b__z"]
            it.indexer.schedule_reload()
            await settled()
            assert lost == ["a"]


async def test_servers_are_listed_again_after_damage_whoever_lists_first(tmp_path):
    with indexing(tmp_path, servers="abc") as it:
        for key in "abc":
            await it.take_in(key, tool("x"))
        with closing(sqlite3.connect(it.file)) as connection, connection:
            connection.execute("INSERT INTO tools_fts(tools_fts) VALUES ('delete-all')")
        await it.take_in("a", tool("y"))
        await it.take_in("b", tool("z"))
        async with following(it) as lost:
            it.indexer.schedule_reload()
            await until(lambda: lost == ["c"])


async def test_a_server_under_another_config_in_another_process_is_not_mixed_in(tmp_path):
    with indexing(tmp_path) as one:
        await one.take_in("a", tool("x"))
        theirs = replace(one.settings.servers["a"], fingerprint="f" * 64)
        settings = replace(one.settings, servers={**one.settings.servers, "a": theirs})
        other = Indexer(settings, Policy(), one.index, one.clock, lambda *_: True)
        other.open()
        assert other.current().tools == ()
        assert other.unlisted() == ["a", "b"]
        assert one.names() == ["a__x"]
