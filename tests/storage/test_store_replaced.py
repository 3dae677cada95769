"""What only a write reveals, damage or a disk that takes nothing: what takes the file's place, and what is lost."""

import os
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from stores import APPLICATION_ID, SCHEMA, add, make_notes, texts

from toolcrib.base.errors import StoreError
from toolcrib.storage.store import Schema, Store, StoreReplaced

FORGET = "INSERT INTO notes_fts(notes_fts, rowid, text) VALUES ('delete', 1, 'never there')"
"""What FTS5 calls malformed, though every check says that all is well: it counts fewer than no rows."""


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def change(store: Store, *statements: str, owed: str | None = None) -> None:
    """Change the store by some statements; a new file has nothing of which FTS5 could be wrong."""

    def work(connection: sqlite3.Connection) -> None:
        for statement in statements:
            if statement != FORGET or connection.execute("SELECT count(*) FROM notes WHERE text = 'old'").fetchone()[0]:
                connection.execute(statement)

    store.change(work, owed=owed)


def added(text: str) -> str:
    return f"INSERT INTO notes(text) VALUES ('{text}')"


def outside(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY id")]


def fill_up(store: Store) -> None:
    """Let the file grow no more."""
    [pages] = store._writer.execute("PRAGMA page_count").fetchone()
    store._writer.execute(f"PRAGMA max_page_count = {pages}")


LARGE = "x" * 100_000


class TestDamage:
    def test_a_file_that_a_write_finds_damaged_is_moved_aside_and_the_write_is_done_on_a_new_one(self, path: Path):
        told: list[str] = []
        with Store(path, SCHEMA, on_replaced=told.append, clock=Clock()) as store:
            add(store, "old")
            before = store.data_version()
            change(store, added("new"), FORGET)
            assert texts(store) == ["new"]
            assert (store.path, store.generation) == (path, 1)
            assert store.data_version() != before
        aside = path.with_name("tool_cache.db.corrupt-20231114T221320Z")
        assert outside(aside) == ["old"]
        assert outside(path) == ["new"]
        [reason] = told
        assert "damaged" in reason
        assert aside.name in reason

    def test_a_write_that_cannot_be_done_again_says_so_and_the_next_one_is_done(self, path: Path):
        with Store(path, SCHEMA) as store:
            add(store, "old")
            with pytest.raises(StoreReplaced), store.write() as connection:
                connection.execute(FORGET)
            add(store, "new")
            assert texts(store) == ["new"]

    def test_the_second_damage_leaves_memory(self, path: Path):
        told: list[str] = []
        with Store(path, SCHEMA, on_replaced=told.append) as store:
            for text in ("new", "newest"):
                add(store, "old")
                change(store, added(text), FORGET)
                assert texts(store) == [text]
            assert store.path is None
            add(store, "more")
            assert texts(store) == ["newest", "more"]
        assert len(told) == 2
        assert "in memory" in told[1]

    def test_damage_in_memory_is_said_and_not_met_again_and_again(self, tmp_path: Path):
        with Store(tmp_path, SCHEMA) as store:
            with pytest.raises(StoreError) as caught:
                store.change(lambda connection: connection.execute(FORGET))
            assert "malformed" in caught.value.detail

    def test_what_prepares_a_file_prepares_the_new_one_too(self, path: Path):
        def mark(store: Store) -> None:
            with store.write() as connection:
                connection.execute("INSERT INTO notes(text) VALUES ('prepared')")

        with Store(path, SCHEMA) as store:
            store.prepare(mark)
            add(store, "old")
            change(store, added("new"), FORGET)
            assert texts(store) == ["prepared", "new"]

    def test_readers_of_the_old_file_go_on_and_are_not_lent_again(self, path: Path):
        with Store(path, SCHEMA) as store:
            add(store, "old")
            with store.read() as connection:
                change(store, added("new"), FORGET)
                assert connection.execute("SELECT text FROM notes").fetchall() == [("old",)]
            assert texts(store) == ["new"]

    def test_a_file_that_another_process_has_replaced_is_used_and_not_moved(self, path: Path):
        with Store(path, SCHEMA) as store, Store(path, SCHEMA) as other:
            add(store, "old")
            change(other, added("theirs"), FORGET)
            change(store, added("ours"), FORGET)
            assert texts(store) == texts(other) == ["theirs", "ours"]
        assert len(list(path.parent.glob("*.corrupt-*Z"))) == 1

    def test_threads_that_meet_the_damage_together_replace_the_file_once(self, path: Path):
        with Store(path, SCHEMA) as store:
            add(store, "old")
            threads = [threading.Thread(target=change, args=(store, added(str(each)), FORGET)) for each in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
            assert sorted(texts(store)) == list("012345")
            assert store.generation == 1


class TestFullDisk:
    def test_on_a_full_disk_the_store_goes_on_in_memory_with_all_that_it_had(self, path: Path):
        told: list[str] = []
        with Store(path, SCHEMA, on_replaced=told.append) as store:
            add(store, "old")
            fill_up(store)
            change(store, added(LARGE))
            change(store, added("more"))
            assert texts(store) == ["old", LARGE, "more"]
            assert store.path is None
        assert outside(path) == ["old"]
        [reason] = told
        assert reason.startswith("tool_cache.db cannot be written: ")
        assert "full" in reason

    def test_what_is_owed_is_written_once_the_disk_takes_it_beside_what_others_wrote(self, path: Path):
        clock, told = Clock(), []
        with Store(path, SCHEMA, clock=clock, on_replaced=told.append) as store:
            add(store, "old")
            fill_up(store)
            change(store, added(LARGE), owed="large")
            change(store, added("only for now"))
            change(store, added("first"), owed="last one counts")
            change(store, added("second"), owed="last one counts")
            with Store(path, SCHEMA) as other:
                add(other, "theirs")
            clock.now += 61
            change(store, added("back"))
            assert texts(store) == ["old", "theirs", LARGE, "second", "back"]
            assert store.path == path
        assert outside(path) == ["old", "theirs", LARGE, "second", "back"]
        assert len(told) == 1

    def test_the_file_is_not_tried_at_every_write(self, path: Path):
        clock = Clock()
        with Store(path, SCHEMA, clock=clock) as store:
            fill_up(store)
            change(store, added(LARGE), owed="large")
            clock.now += 59
            change(store, added("more"), owed="more")
            assert store.path is None
            assert outside(path) == []

    def test_a_disk_that_is_full_again_is_said_only_once(self, path: Path):
        clock, told = Clock(), []
        with Store(path, SCHEMA, clock=clock, on_replaced=told.append) as store:
            for _ in range(3):
                fill_up(store)
                change(store, added(LARGE), owed="large")
                assert store.path is None
                clock.now += 61
                add(store, "small")
                assert store.path == path
        assert len(told) == 1

    def test_while_the_file_still_cannot_be_written_memory_is_kept(self, path: Path, monkeypatch: pytest.MonkeyPatch):
        clock = Clock()
        with Store(path, SCHEMA, clock=clock) as store:
            fill_up(store)
            change(store, added(LARGE), owed="large")
            add(store, "only in memory")
            moved = path.parent.rename(path.parent.with_name("away"))
            path.parent.write_text("in the way")
            clock.now += 61
            add(store, "more")
            assert texts(store) == [LARGE, "only in memory", "more"]
            assert outside(moved / path.name) == []

    def test_what_is_owed_has_a_bound(self, path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("toolcrib.storage.store._OWED_MAX", 2)
        clock = Clock()
        with Store(path, SCHEMA, clock=clock) as store:
            fill_up(store)
            for text in (LARGE, "b", "c"):
                change(store, added(text), owed=text)
            change(store, added("B"), owed="b")
            clock.now += 61
            change(store)
            assert texts(store) == [LARGE, "B"]

    def test_a_file_that_can_only_be_read_is_read(self):
        with foreign_folder() as folder:
            path = folder / "cache" / "tool_cache.db"
            with Store(path, SCHEMA) as store:
                add(store, "old")
            with read_only(folder / "cache"), Store(path, SCHEMA) as store:
                assert store.path is None
                assert "tool_cache.db cannot be used" in (store.rebuilt or "")
                add(store, "volatile")
                assert texts(store) == ["old", "volatile"]
            assert outside(path) == ["old"]

    def test_of_an_older_file_that_can_only_be_read_a_newer_copy_is_made(self):
        with foreign_folder() as folder:
            path = folder / "cache" / "tool_cache.db"
            with Store(path, Schema(APPLICATION_ID, (make_notes,))) as store:
                add(store, "old")
            with read_only(folder / "cache"), Store(path, SCHEMA) as store:
                assert texts(store) == ["old"]

    def test_what_is_no_file_of_ours_is_not_read(self):
        with foreign_folder() as folder:
            path = folder / "cache" / "tool_cache.db"
            path.parent.mkdir()
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
            with read_only(folder / "cache"), Store(path, SCHEMA) as store:
                assert texts(store) == []

    @pytest.mark.skipif(os.geteuid() != 0 or not Path("/proc/mounts").exists(), reason="only root can mount a disk")
    def test_a_real_disk_that_runs_full_and_has_room_again(self, tmp_path: Path):
        disk, clock = tmp_path / "disk", Clock()
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")
        try:
            with Store(disk / "cache" / "tool_cache.db", SCHEMA, clock=clock) as store:
                add(store, "old")
                ballast = disk / "ballast"
                fill(ballast)
                change(store, added(LARGE), owed="large")
                assert store.path is None
                ballast.unlink()
                clock.now += 61
                change(store)
                assert texts(store) == ["old", LARGE]
            assert outside(disk / "cache" / "tool_cache.db") == ["old", LARGE]
        finally:
            subprocess.run(["umount", str(disk)], check=True)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


@contextmanager
def foreign_folder() -> Iterator[Path]:
    """Make a folder that somebody who is not root may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nothing be written in a folder; root, who may write anywhere, is somebody else meanwhile."""
    folder.chmod(0o555)
    for file in folder.iterdir():
        file.chmod(0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_reader_does_not_wait_for_a_writer(path: Path):
    with Store(path, SCHEMA) as store:
        add(store, "old")
        seen: list[list[str]] = []
        with store.write() as connection:
            connection.execute("INSERT INTO notes(text) VALUES ('not yet')")
            reader = threading.Thread(target=lambda: seen.append(texts(store)))
            reader.start()
            reader.join(5)
        assert seen == [["old"]]
