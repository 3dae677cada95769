"""Somebody else on this machine prepares the cache directory: links to other files, and a folder open to everybody."""

import logging
import os
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fakes.menu import tool
from toolcrib.events.kinds import SkillGet
from toolcrib.events.log import EventFile, open_event_log
from toolcrib.events.server_logs import FOLDER, open_server_logs
from worlds import world

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.hostile,
    pytest.mark.skipif(sys.platform == "win32", reason="there are neither modes nor links there"),
]

DATABASE = "tool_cache.db"
PARTS = ("", "-wal", "-shm", "-checked")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def cache_of(folder: Path) -> Path:
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    return cache


def victim_of(folder: Path) -> Path:
    victim = folder / "victim"
    victim.write_text("precious")
    victim.chmod(0o644)
    return victim


def is_untouched(victim: Path) -> bool:
    return (victim.read_text(), mode_of(victim)) == ("precious", 0o644)


@pytest.mark.parametrize("part", PARTS)
async def test_a_link_in_the_place_of_the_index_is_moved_aside_and_what_it_leads_to_stays(tmp_path, part):
    cache, victim = cache_of(tmp_path), victim_of(tmp_path)
    (cache / f"{DATABASE}{part}").symlink_to(victim)
    async with world(tmp_path, {"zoo": [tool("feed")]}) as w, w.client() as client:
        assert await client.found("feed") == ["zoo__feed"]
        [event] = w.happened("index_rebuilt")
        assert "was a symbolic link; moved to" in event["reason"]
        assert not (cache / f"{DATABASE}{part}").is_symlink()
    assert is_untouched(victim)


async def test_a_link_to_nowhere_makes_no_file_there(tmp_path):
    cache = cache_of(tmp_path)
    (cache / DATABASE).symlink_to(tmp_path / "made")
    async with world(tmp_path, {"zoo": [tool("feed")]}):
        assert not (tmp_path / "made").exists()


async def test_a_link_to_another_database_gives_nobody_its_rows(tmp_path):
    """A file of ours from elsewhere would be read as ours, tools and all."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with world(elsewhere, {"bad": [tool("steal")]}):
        pass
    (cache_of(tmp_path) / DATABASE).symlink_to(elsewhere / "cache" / DATABASE)
    async with world(tmp_path, {"zoo": [tool("feed")]}) as w, w.client() as client:
        assert await client.found("steal") == []
    with closing(sqlite3.connect(elsewhere / "cache" / DATABASE)) as connection:
        assert connection.execute("SELECT name FROM tools").fetchall() == [("bad__steal",)]


def linked_events(cache: Path) -> Path:
    with open_event_log(EventFile(cache / "events.jsonl")) as log:
        log.emit(SkillGet(("a",), 1, 1, 1))
    return cache / "events.jsonl"


def linked_server_log(cache: Path) -> Path:
    with open_server_logs(cache, 1000, str, lambda: 0.0) as logs:
        logs.note("zoo", "hello")
    return cache / FOLDER / "zoo.log"


@pytest.mark.parametrize("write", [linked_events, linked_server_log])
def test_nothing_is_appended_to_what_a_link_leads_to(tmp_path, write: Callable[[Path], Path], caplog):
    cache, victim = cache_of(tmp_path), victim_of(tmp_path)
    (cache / FOLDER).mkdir()
    for name in ("events.jsonl", f"{FOLDER}/zoo.log"):
        (cache / name).symlink_to(victim)
    written = write(cache)
    assert is_untouched(victim)
    assert f"Events cannot be written to {written}" in caplog.text


async def test_a_folder_that_everybody_may_write_to_is_closed_and_that_is_said(tmp_path, caplog):
    cache = cache_of(tmp_path)
    cache.chmod(0o777)
    caplog.set_level(logging.WARNING)
    async with world(tmp_path, {"zoo": [tool("feed")]}) as w:
        assert mode_of(cache) == 0o755
        assert w.catalog_file.exists()
    assert f"{cache} was world-writable; its mode is now 755" in caplog.text


async def test_one_that_is_not_ours_to_close_is_not_used(tmp_path, monkeypatch):
    def refuse(_descriptor: int, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    cache = cache_of(tmp_path)
    cache.chmod(0o777)
    monkeypatch.setattr(os, "fchmod", refuse)
    async with world(tmp_path, {"zoo": [tool("feed")]}) as w, w.client() as client:
        assert await client.found("feed") == ["zoo__feed"]
        assert "this folder is world-writable" in w.happened("index_rebuilt")[0]["reason"]
    assert list(cache.iterdir()) == []


async def test_a_folder_for_temporary_files_of_all_is_used_as_it_is(tmp_path):
    cache = cache_of(tmp_path)
    cache.chmod(0o1777)
    async with world(tmp_path, {"zoo": [tool("feed")]}) as w:
        assert mode_of(cache) == 0o1777
        assert w.catalog_file.exists()
