"""How often a large file is checked from end to end: not at every start, and at every start where there is doubt."""

import os
from pathlib import Path
from typing import Any

import pytest
from stores import SCHEMA, add, texts

from toolcrib.base.errors import StoreError
from toolcrib.storage import opening
from toolcrib.storage.store import Store

NOW = 1_700_000_000.0
DAY = 86400.0


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Count the checks that are made."""
    made: list[float] = []
    check = opening._check

    def counted(*args: Any, **options: Any) -> None:
        made.append(1)
        check(*args, **options)

    monkeypatch.setattr(opening, "_check", counted)
    return made


@pytest.fixture
def path(tmp_path: Path, checks: list[float]) -> Path:
    """Make a file of more than a megabyte, and look at it once."""
    path = tmp_path / "cache" / "large.db"
    with Store(path, SCHEMA, clock=lambda: NOW) as store, store.write() as connection:
        connection.executemany("INSERT INTO notes(text) VALUES (?)", [("x" * 2000,)] * 1000)
    return path


def start(path: Path, now: float = NOW + 1) -> str | None:
    with Store(path, SCHEMA, clock=lambda: now) as store:
        return store.rebuilt


def test_a_file_that_was_closed_in_good_order_is_not_checked_again(path: Path, checks: list[float]):
    for _ in range(3):
        assert start(path) is None
    assert checks == []
    note = path.with_name("large.db-checked")
    assert note.stat().st_mode & 0o777 == 0o600
    with Store(path, SCHEMA, clock=lambda: NOW + 2) as store:
        add(store, "more")
    before = note.stat().st_mtime_ns
    start(path)
    assert checks == []
    assert note.stat().st_mtime_ns == before


def test_a_day_later_it_is_checked_however_it_was_closed(path: Path, checks: list[float]):
    start(path, NOW + DAY - 1)
    assert len(checks) == 0
    start(path, NOW + DAY + 1)
    assert len(checks) == 1
    start(path, NOW + DAY + 2)
    assert len(checks) == 1
    start(path, NOW)  # the clock was set back
    assert len(checks) == 2


def test_a_file_that_others_have_written_to_is_checked(path: Path):
    content = bytearray(path.read_bytes())
    content[40 * 4096 : 60 * 4096] = os.urandom(20 * 4096)
    path.write_bytes(content)
    assert "damaged" in (start(path) or "")
    assert path.with_name("large.db-checked").exists() is False


def test_a_note_that_says_nothing_is_no_excuse(path: Path, checks: list[float]):
    for text in ("", "now\n", "1\n2\n3", "\xff"):
        path.with_name("large.db-checked").write_text(text, encoding="latin-1")
        start(path)
    assert len(checks) == 4


def test_damage_that_is_met_in_use_has_the_next_start_check(path: Path, checks: list[float]):
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as a disk would do it
    with Store(path, SCHEMA, clock=lambda: NOW + 1) as store:
        with pytest.raises(StoreError):
            texts(store)
    assert checks == []
    assert "damaged" in (start(path) or "")


def test_what_a_check_on_demand_finds_counts_too(path: Path, checks: list[float]):
    with Store(path, SCHEMA, clock=lambda: NOW + 1) as store:
        with store.write() as connection:
            connection.execute("INSERT INTO notes_fts(rowid, text) VALUES (5000, 'only here')")
        assert store.check() != []
    start(path)
    assert len(checks) == 1


def test_a_small_file_is_checked_at_every_start(tmp_path: Path, checks: list[float]):
    path = tmp_path / "small.db"
    for _ in range(3):
        start(path)
    assert len(checks) == 2
    assert not path.with_name("small.db-checked").exists()


def test_a_file_replaced_under_a_running_store_gets_no_note(path: Path, tmp_path: Path, checks: list[float]):
    with Store(path, SCHEMA, clock=lambda: NOW + 1):
        other = tmp_path / "other.db"
        other.write_bytes(path.read_bytes())
        for file in path.parent.glob("large.db*"):
            file.unlink()
        other.rename(path)
    assert not path.with_name("large.db-checked").exists()
    start(path)
    assert len(checks) == 1
