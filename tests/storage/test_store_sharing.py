"""One file used by several threads, stores and programs at the same time."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from stores import SCHEMA, add, texts

from toolcrib.base.errors import StoreError
from toolcrib.storage import opening
from toolcrib.storage.store import Store
from waiting import PATIENCE_S


def test_a_transaction_that_fails_changes_nothing(path: Path):
    def add_and_fail(store: Store) -> None:
        with store.write() as connection:
            connection.execute("INSERT INTO notes(text) VALUES ('gone')")
            raise ZeroDivisionError

    with Store(path, SCHEMA) as store:
        with pytest.raises(ZeroDivisionError):
            add_and_fail(store)
        assert texts(store) == []
        add(store, "kept")
        assert texts(store) == ["kept"]


def test_a_reader_sees_one_state_while_another_thread_writes(path: Path):
    with Store(path, SCHEMA) as store:
        add(store, "first")
        with store.read() as connection:
            connection.execute("SELECT * FROM notes").fetchall()
            writer = threading.Thread(target=add, args=(store, "second"))
            writer.start()
            writer.join(5)
            assert connection.execute("SELECT count(*) FROM notes").fetchone()[0] == 1
        assert texts(store) == ["first", "second"]


def test_of_the_connections_of_a_burst_of_readers_only_some_are_kept(path: Path):
    with Store(path, SCHEMA) as store:
        with ExitStack() as readers:
            for _ in range(20):
                readers.enter_context(store.read())
        assert len(store._idle) == 2
        assert texts(store) == []


def test_many_threads_read_and_write_at_once(path: Path):
    with Store(path, SCHEMA) as store:
        barrier = threading.Barrier(8, timeout=10)
        failures: list[Exception] = []

        def work(number: int) -> None:
            try:
                barrier.wait()
                for turn in range(20):
                    add(store, f"{number} {turn}")
                    texts(store)
                    store.data_version()
            except (StoreError, threading.BrokenBarrierError) as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert failures == []
        assert len(texts(store)) == 160


def test_threads_take_turns_where_the_store_lives_in_memory(tmp_path: Path):
    with Store(tmp_path, SCHEMA) as store:
        threads = [threading.Thread(target=add, args=(store, str(number))) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert sorted(texts(store)) == [str(number) for number in range(8)]


def test_the_data_version_tells_of_writes_by_others_only(path: Path):
    with Store(path, SCHEMA) as store, Store(path, SCHEMA) as other:
        before = store.data_version()
        add(store, "ours")
        assert store.data_version() == before
        add(other, "theirs")
        after = store.data_version()
        assert after != before
        add(store, "ours again")
        assert store.data_version() == after


def test_the_data_version_does_not_wait_for_a_writer(path: Path):
    with Store(path, SCHEMA) as store:
        before = store.data_version()
        seen: list[int] = []
        with store.write():
            thread = threading.Thread(target=lambda: seen.append(store.data_version()))
            thread.start()
            thread.join(5)
        assert seen == [before]


def test_a_write_that_waits_too_long_is_a_store_error(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(opening, "_BUSY_TIMEOUT_S", 0.01)
    with Store(path, SCHEMA) as store, Store(path, SCHEMA) as other, other.write():
        with pytest.raises(StoreError) as caught:
            add(store, "no")
        assert "locked" in caught.value.detail
        assert "tool_cache.db" in str(caught.value)


def test_switching_to_the_log_waits_for_a_process_that_is_just_doing_it(path: Path, monkeypatch: pytest.MonkeyPatch):
    pauses: list[float] = []
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(opening, "_BUSY_TIMEOUT_S", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(opening.time, "sleep", lambda pause: pauses.append(pause) or other.execute("COMMIT"))
        with Store(path, SCHEMA) as store:
            assert store.path == path
    assert len(pauses) == 1


def test_a_file_that_stays_locked_is_not_waited_for_without_end(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(opening, "_BUSY_TIMEOUT_S", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Store(path, SCHEMA) as store:
            assert store.path is None
            assert "locked" in (store.rebuilt or "")


def test_a_file_that_another_program_keeps_for_itself_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch):
    Store(path, SCHEMA).close()
    monkeypatch.setattr(opening, "_BUSY_TIMEOUT_S", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with Store(path, SCHEMA) as store:
            assert store.path is None
            assert "locked" in (store.rebuilt or "")
    with Store(path, SCHEMA) as store:
        assert store.rebuilt is None


def test_two_that_ask_for_the_data_version_at_once_are_both_told(path: Path):
    with Store(path, SCHEMA) as store, Store(path, SCHEMA) as other, ThreadPoolExecutor(2) as threads:
        meet = threading.Barrier(2, timeout=PATIENCE_S)

        def asked() -> int:
            meet.wait()
            return store.data_version()

        before = store.data_version()
        for number in range(200):
            add(other, str(number))
            told = {each.result() for each in [threads.submit(asked), threads.submit(asked)]}
            assert len(told) == 1
            assert before not in told
            [before] = told
