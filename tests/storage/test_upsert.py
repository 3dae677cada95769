"""Many rows written with few statements are the same rows as if they were written one by one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.storage.store import upsert


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(opened()) as each:
        yield each


def opened() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, name TEXT UNIQUE, text TEXT, since REAL)")
    connection.execute("CREATE VIRTUAL TABLE notes_fts USING fts5(text, content = 'notes', content_rowid = 'id')")
    add, drop = "INSERT INTO notes_fts(rowid, text) VALUES", "INSERT INTO notes_fts(notes_fts, rowid, text) VALUES"
    new, old = f"{add} (new.id, new.text);", f"{drop} ('delete', old.id, old.text);"
    connection.execute(f"CREATE TRIGGER added AFTER INSERT ON notes BEGIN {new} END")
    connection.execute(f"CREATE TRIGGER changed AFTER UPDATE ON notes BEGIN {old} {new} END")
    return connection


def rows(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    connection.execute("INSERT INTO notes_fts(notes_fts, rank) VALUES ('integrity-check', 1)")
    return connection.execute("SELECT name, text, since FROM notes ORDER BY id").fetchall()


def note(number: int, text: str, since: float = 1.0) -> dict[str, object]:
    return {"name": f"note {number}", "text": text, "since": since}


def test_nothing_is_written_for_nothing(connection: sqlite3.Connection):
    upsert(connection, "notes", "name", [])
    assert rows(connection) == []


def test_a_row_that_is_there_is_replaced_but_for_what_is_kept(connection: sqlite3.Connection):
    upsert(connection, "notes", "name", [note(1, "old"), note(2, "same")], kept=["since"])
    upsert(connection, "notes", "name", [note(1, "new", since=9.0), note(3, "added", since=9.0)], kept=["since"])
    assert rows(connection) == [("note 1", "new", 1.0), ("note 2", "same", 1.0), ("note 3", "added", 9.0)]


@settings(max_examples=25, deadline=None)
@given(first=st.integers(0, 300), second=st.integers(0, 300), variables=st.sampled_from([3, 100, 999, 30_000]))
def test_any_number_of_rows_arrives_in_order_and_the_full_text_with_them(first: int, second: int, variables: int):
    with closing(opened()) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, variables)
        upsert(connection, "notes", "name", [note(number, "first") for number in range(first)])
        upsert(connection, "notes", "name", [note(number, "second") for number in range(second)])
        found = rows(connection)
        assert [text for _, text, _ in found] == ["second"] * second + ["first"] * (first - second)
        assert [name for name, _, _ in found] == [f"note {number}" for number in range(max(first, second))]
        [(matching,)] = connection.execute("SELECT count(*) FROM notes_fts WHERE notes_fts MATCH 'second'")
        assert matching == second


class Counting(sqlite3.Connection):
    """A connection that counts its statements."""

    count = 0

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.count += 1
        return super().execute(sql, parameters)


def test_few_statements_are_enough():
    with closing(sqlite3.connect(":memory:", factory=Counting)) as connection:
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, name TEXT UNIQUE, text TEXT, since REAL)")
        before = connection.count
        upsert(connection, "notes", "name", [note(number, "x") for number in range(1000)])
        assert connection.count - before == (1000).bit_count()
