"""One database file: how it is opened, what happens to a bad one, and who may use it at the same time."""

import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from stores import APPLICATION_ID, SCHEMA, add, make_notes, texts

from toolcrib.base.errors import StoreError
from toolcrib.storage import opening
from toolcrib.storage.store import Schema, Store


def test_a_file_is_private_and_its_directory_is_ignored_by_git(path: Path):
    with Store(path, SCHEMA) as store:
        add(store, "x")
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert (path.parent / ".gitignore").read_text() == "*\n"
        for file in path.parent.glob("tool_cache.db*"):
            assert file.stat().st_mode & 0o777 == 0o600
        assert store.rebuilt is None
        assert store.path == path


def test_a_store_without_a_file_is_in_memory_and_nothing_is_wrong_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    replaced: list[str] = []
    with Store(None, SCHEMA, on_replaced=replaced.append) as store:
        add(store, "x")
        # Later, too, it looks for no file to go back to.
        store.execute("INSERT INTO notes(text) VALUES (?)", ("y",), owed="y")
        assert texts(store) == ["x", "y"]
        assert (store.path, store.rebuilt, replaced) == (None, None, [])
    with Store(None, SCHEMA) as other:
        assert texts(other) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("durable", "mode"), [(True, 2), (False, 1)], ids=["waits for the disk", "does not"])
def test_what_is_durable_waits_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, *, durable: bool):
    monkeypatch.setattr(sqlite3, "connect", getattr(sqlite3.connect, "__wrapped__"))  # noqa: B009 - tests wait for none
    opened = opening.open_file(path, replace(SCHEMA, durable=durable), 0, fts=False)
    with closing(opened.connection) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (mode,)


def test_a_directory_that_was_there_before_stays_as_it_is(tmp_path: Path):
    tmp_path.chmod(0o755)
    with Store(tmp_path / "tool_cache.db", SCHEMA):
        assert tmp_path.stat().st_mode & 0o777 == 0o755
        assert not (tmp_path / ".gitignore").exists()


def test_a_file_that_others_could_read_is_made_private(path: Path):
    Store(path, SCHEMA).close()
    path.chmod(0o644)
    with Store(path, SCHEMA):
        assert path.stat().st_mode & 0o777 == 0o600


def test_what_was_written_is_there_after_a_restart(path: Path):
    with Store(path, SCHEMA) as store:
        add(store, "kept")
    with Store(path, SCHEMA) as store:
        assert texts(store) == ["kept"]
        assert store.rebuilt is None


def test_opening_again_writes_nothing(path: Path):
    Store(path, SCHEMA).close()
    before = path.stat().st_mtime_ns, path.read_bytes()
    Store(path, SCHEMA).close()
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


def test_a_store_writes_ahead(path: Path):
    with Store(path, SCHEMA) as store, store.read() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA trusted_schema").fetchone()[0] == 0


def test_an_older_file_is_migrated_forward(path: Path):
    with Store(path, Schema(APPLICATION_ID, (make_notes,))) as store:
        add(store, "old")
    with Store(path, SCHEMA) as store:
        assert texts(store) == ["old"]
        with store.read() as connection:
            assert connection.execute("PRAGMA user_version").fetchone()[0] == 2
            assert connection.execute("SELECT count(*) FROM notes_fts_docsize").fetchone()[0] == 0


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path):
    def half(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE more (x)")
        connection.execute("CREATE TABLE notes (x)")

    with Store(path, Schema(APPLICATION_ID, (make_notes,))) as store:
        add(store, "old")
    with pytest.raises(StoreError), Store(path, Schema(APPLICATION_ID, (make_notes, half))):
        pass
    with Store(path, SCHEMA) as store:
        assert texts(store) == ["old"]


def test_a_newer_file_is_left_alone_and_one_beside_it_is_used(path: Path):
    with Store(path, SCHEMA) as store:
        add(store, "from the future")
    before = path.read_bytes()
    older = Schema(APPLICATION_ID, (make_notes,))
    for _ in range(2):
        with Store(path, older) as store:
            assert store.path == path.with_name("tool_cache.v1.db")
            assert "version 2" in (store.rebuilt or "")
            add(store, "present")
    assert path.read_bytes() == before
    with Store(path, older) as store:
        assert texts(store) == ["present", "present"]


@pytest.mark.parametrize("size", [100, 4096, 50_000])
def test_random_bytes_are_moved_aside(path: Path, size: int):
    path.parent.mkdir(parents=True)
    garbage = bytes((number * 37 + 11) % 251 for number in range(size))
    path.write_bytes(garbage)
    with Store(path, SCHEMA, clock=lambda: 1_700_000_000) as store:
        aside = path.with_name("tool_cache.db.corrupt-20231114T221320Z")
        assert aside.name in (store.rebuilt or "")
        assert aside.read_bytes() == garbage
        add(store, "new")
        assert texts(store) == ["new"]


def test_a_damaged_page_is_found_at_the_start(path: Path):
    with Store(path, SCHEMA) as store, store.write() as connection:
        connection.executemany("INSERT INTO notes(text) VALUES (?)", [("x" * 500,)] * 500)
    content = bytearray(path.read_bytes())
    content[5 * 4096 : 40 * 4096] = os.urandom(35 * 4096)
    path.write_bytes(content)
    with Store(path, SCHEMA) as store:
        assert "damaged" in (store.rebuilt or "")
        assert texts(store) == []


def test_a_damaged_full_text_table_is_found_at_the_start(path: Path):
    with Store(path, SCHEMA) as store, store.write() as connection:
        connection.execute("INSERT INTO notes(id, text) VALUES (1, 'word')")
        connection.execute("INSERT INTO notes_fts(rowid, text) VALUES (1, 'word')")
    with Store(path, SCHEMA) as store, store.write() as connection:
        connection.execute("UPDATE notes_fts_data SET block = x'00ff00ff00ff' WHERE id > 10")
    with Store(path, SCHEMA) as store:
        assert "damaged" in (store.rebuilt or "")


def test_without_full_text_search_its_tables_are_not_looked_at(path: Path):
    with Store(path, SCHEMA) as store, store.write() as connection:
        connection.execute("INSERT INTO notes_fts(rowid, text) VALUES (1, 'word')")
    with Store(path, SCHEMA) as store, store.write() as connection:
        connection.execute("UPDATE notes_fts_data SET block = x'00ff00ff00ff' WHERE id > 10")
    with Store(path, SCHEMA, fts="off") as store:
        assert store.rebuilt is None
        assert store.check() == []


def test_a_database_of_another_program_is_moved_aside_whole(path: Path):
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.commit()
    with Store(path, SCHEMA) as store:
        assert "not one of toolcrib's" in (store.rebuilt or "")
    (aside,) = path.parent.glob("*.corrupt-*")
    with closing(sqlite3.connect(aside)) as connection:
        assert connection.execute("SELECT count(*) FROM theirs").fetchone() == (0,)


def test_a_schema_that_is_no_text_is_damage(path: Path):
    Store(path, SCHEMA).close()
    content = path.read_bytes()
    name = b"tablenotesnotes"
    assert content.count(name) == 1
    path.write_bytes(
        content.replace(name, b"table\xccotes\xccotes").replace(b"CREATE TABLE notes", b"CREATE \xccABLE notes")
    )
    with Store(path, SCHEMA) as store:
        assert "damaged" in (store.rebuilt or "")
        assert texts(store) == []


def test_an_empty_file_is_simply_filled(path: Path):
    path.parent.mkdir(parents=True)
    path.touch()
    with Store(path, SCHEMA) as store:
        assert store.rebuilt is None


def test_where_no_file_can_be_made_the_store_lives_in_memory(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    for path in (
        tmp_path / "file" / "tool_cache.db",
        tmp_path / "file" / "deeper" / "tool_cache.db",
        tmp_path,
    ):
        with Store(path, SCHEMA) as store:
            assert store.path is None
            assert "in memory" in (store.rebuilt or "")
            add(store, "volatile")
            assert texts(store) == ["volatile"]


def test_in_a_read_only_directory_the_store_lives_in_memory():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o555)
        root = os.geteuid() == 0
        if root:  # root may write anywhere
            os.seteuid(65534)
        try:
            with Store(Path(name) / "tool_cache.db", SCHEMA) as store:
                assert store.path is None
                assert "tool_cache.db cannot be used" in (store.rebuilt or "")
                add(store, "volatile")
        finally:
            if root:
                os.seteuid(0)


def test_a_file_that_is_damaged_again_and_again_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage" * 100)
    monkeypatch.setattr(opening, "move_aside", lambda path, identity, now: path)
    with Store(path, SCHEMA) as store:
        assert store.path is None


def test_a_bad_file_that_another_process_has_replaced_is_not_moved(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage" * 100)

    def replaced_meanwhile(*_args: object, **_options: object) -> None:
        monkeypatch.undo()
        path.rename(path.with_name("moved-by-another"))
        with Store(path, SCHEMA) as other:
            add(other, "by another")
        raise opening._UnusableFileError("damaged")

    monkeypatch.setattr(opening, "_inspect", replaced_meanwhile)
    with Store(path, SCHEMA) as store:
        assert texts(store) == ["by another"]


def test_an_error_of_the_disk_that_passes_costs_nothing(path: Path, monkeypatch: pytest.MonkeyPatch):
    passing = sqlite3.OperationalError("disk I/O error")
    passing.sqlite_errorcode = sqlite3.SQLITE_IOERR_DELETE_NOENT

    def once(_connection: object) -> None:
        monkeypatch.undo()
        raise passing

    with Store(path, SCHEMA) as store:
        add(store, "kept")
    monkeypatch.setattr(opening, "_use_wal", once)
    with Store(path, SCHEMA) as store:
        assert store.rebuilt is None
        assert texts(store) == ["kept"]


def test_the_log_does_not_grow_without_end(path: Path):
    with Store(path, SCHEMA) as store:
        for _ in range(30):
            with store.write() as connection:
                connection.execute("DELETE FROM notes")
                connection.executemany("INSERT INTO notes(text) VALUES (?)", [("x" * 4000,)] * 200)
            assert Path(f"{path}-wal").stat().st_size < 8 * 1024 * 1024


def test_a_file_deleted_under_a_running_store_does_not_stop_it(path: Path):
    with Store(path, SCHEMA) as store:
        add(store, "still here")
        for file in path.parent.glob("tool_cache.db*"):
            file.unlink()
        assert texts(store) == ["still here"]
        with Store(path, SCHEMA) as other:
            add(other, "another life")
            assert texts(store) == ["still here"]


def test_text_that_sqlite_cannot_hold_is_a_store_error(path: Path):
    with Store(path, SCHEMA) as store:
        with pytest.raises(StoreError):
            add(store, "\ud800")
        add(store, "fine")


def test_a_closed_store_says_so(path: Path):
    store = Store(path, SCHEMA)
    reader = store.read()
    reader.__enter__()
    store.close()
    store.close()
    reader.__exit__(None, None, None)
    for use in (texts, lambda store: add(store, "x"), Store.data_version):
        with pytest.raises(StoreError) as caught:
            use(store)
        assert "closed" in caught.value.detail


def test_a_check_tells_what_is_wrong(path: Path):
    with Store(path, SCHEMA) as store:
        assert store.check() == []
        with store.write() as connection:
            connection.execute("INSERT INTO notes(id, text) VALUES (1, 'only here')")
        assert any("notes_fts" in problem for problem in store.check())


def test_sqlite_without_full_text_search_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch):
    connect = sqlite3.connect

    class Without(sqlite3.Connection):
        def execute(self, sql, *parameters):
            if "fts5(" in sql:
                raise sqlite3.OperationalError("no such module: fts5")
            return super().execute(sql, *parameters)

    monkeypatch.setattr(opening.sqlite3, "connect", lambda *args, **kwargs: connect(*args, factory=Without, **kwargs))
    with Store(path, Schema(APPLICATION_ID, (make_notes,))) as store:
        assert store.fts is False


def test_a_file_whose_schema_makes_no_sense_is_moved_aside(path: Path):
    """A turned bit in the name of a tokenizer is an error of SQLite's that does not say damage."""
    with Store(path, SCHEMA) as store, store.write() as connection:
        if not store.fts:
            pytest.skip("this SQLite has no full-text search")
        connection.execute("CREATE VIRTUAL TABLE odd USING fts5(x, tokenize = 'porter')")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    assert b"'porter'" in data
    path.write_bytes(data.replace(b"'porter'", b"'qorter'"))
    with Store(path, SCHEMA) as store:
        assert store.path == path
        assert "tokenizer" in (store.rebuilt or "")
        add(store, "works")
