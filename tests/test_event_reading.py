"""Events read back: whole lines alone, the file before the rotated one first, and whatever comes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib.events.reading import followed, recorded


def _line(number: int) -> str:
    return json.dumps({"event": "noted", "ts": "", "number": number}) + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_events_are_read_in_order_from_both_files(path: Path):
    path.with_name("events.jsonl.1").write_text(_line(1) + _line(2))
    path.write_text(_line(3))
    assert [event["number"] for event in recorded(path)] == [1, 2, 3]


def test_nothing_is_there_before_anything_was_written(path: Path):
    assert list(recorded(path)) == []


def test_what_is_no_event_is_passed_over(path: Path):
    path.write_text("nonsense\n[]\n" + _line(1) + '{"event": "half')
    assert [event["number"] for event in recorded(path)] == [1]


def test_events_are_followed_into_the_next_file_and_none_is_lost(path: Path):
    def happen() -> Iterator[None]:
        yield  # there is no file yet
        path.write_text(_line(1) + _line(2)[:9])
        yield
        with path.open("a") as file:
            file.write(_line(2)[9:] + _line(3))
        yield
        with path.open("a") as file:
            file.write(_line(4))
        path.replace(path.with_name("events.jsonl.1"))
        path.write_text(_line(5))
        yield
        path.unlink()
        yield
        path.write_text(_line(6))
        yield

    steps = happen()
    found = followed(path, lambda _seconds: next(steps))
    assert [next(found)["number"] for _ in range(6)] == [1, 2, 3, 4, 5, 6]
