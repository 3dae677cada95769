"""Which versions of SQLite have faults that our files could meet, and that these never meet them."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from stores import SCHEMA, add, texts

from toolcrib.storage import store as store_module
from toolcrib.storage.files import turn_in
from toolcrib.storage.opening import open_file
from toolcrib.storage.store import FAULTS, Store, faults_of

WAL_RESET, FTS5 = FAULTS


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.6.23", []),
        ("3.7.0", [WAL_RESET]),
        ("3.40.1", [WAL_RESET, FTS5]),
        ("3.44.5", [WAL_RESET, FTS5]),
        ("3.44.6", [FTS5]),
        ("3.45.0", [WAL_RESET, FTS5]),
        ("3.49.2", [WAL_RESET, FTS5]),
        ("3.50.6", [WAL_RESET, FTS5]),
        ("3.50.7", [FTS5]),
        ("3.51.2", [WAL_RESET, FTS5]),
        ("3.51.3", [FTS5]),
        ("3.52.0", [FTS5]),
        ("3.53.1", [FTS5]),
        ("3.53.2", []),
        ("4.0.0", []),
    ],
)
def test_the_faults_of_a_version_are_those_that_were_published(version, expected):
    assert faults_of(version) == expected


def test_the_version_of_this_python_is_understood():
    assert set(faults_of(sqlite3.sqlite_version)) <= set(FAULTS)


def test_sqlite_never_checkpoints_by_itself(path: Path):
    with closing(open_file(path, SCHEMA, 0, fts=False).connection) as connection:
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)


def test_a_checkpoint_that_another_has_just_done_is_not_done_again(path: Path, monkeypatch: pytest.MonkeyPatch):
    """The fault takes a second checkpoint right after a whole one, while somebody commits."""
    monkeypatch.setattr(store_module, "_CHECKPOINT_BYTES", 1)
    done: list[str] = []
    with Store(path, SCHEMA) as one, Store(path, SCHEMA) as other:
        for each in (one, other):
            each._writer.set_trace_callback(lambda text: done.append(text) if "wal_checkpoint" in text else None)
        add(one, "x")
        assert len(done) == 1
        other._checkpoint()
        assert len(done) == 1
        assert texts(other) == ["x"]


def test_checkpoints_take_turns(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_module, "_CHECKPOINT_BYTES", 1)
    with Store(path, SCHEMA) as store:
        done: list[str] = []
        store._writer.set_trace_callback(lambda text: done.append(text) if "wal_checkpoint" in text else None)
        with turn_in(path.parent):  # as another process has it in a checkpoint of its own
            writing = threading.Thread(target=add, args=(store, "x"))
            writing.start()
            writing.join(0.3)
            assert (writing.is_alive(), done) == (True, [])
        writing.join(20)
        assert len(done) == 1
