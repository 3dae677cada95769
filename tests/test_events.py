"""Events are lines of JSON in a private file, and writing them never disturbs anybody."""

import json
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from toolcrib.base.redaction import TEXT_RULES, Redactor
from toolcrib.events.kinds import Event, SkillGet, ToolActivationDenied
from toolcrib.events.log import TEXT_MAX, WAITING_MAX, Batches, EventFile, EventLog, open_event_log


class Noted(Event):
    """An event of this test's own."""

    number: int = 0
    text: str = ""
    other: Any = None


class Warned(Event, level="warning"):
    """Another one, which matters more."""


NOON = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)


def noon() -> float:
    return NOON.timestamp()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def whole_lines(path: Path) -> int:
    """How many lines have been written to their end: who reads beside a writer may see half of the last one."""
    return path.read_bytes().count(b"\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "events.jsonl"


def test_git_does_not_see_the_directory_that_is_made_for_events(path: Path):
    with open_event_log(EventFile(path), clock=noon) as log:
        log.emit(Noted(1))
    assert (path.parent / ".gitignore").read_text() == "*\n"


def test_an_event_is_one_line_with_exactly_its_keys(path: Path):
    with open_event_log(EventFile(path), clock=noon) as log:
        log.emit(ToolActivationDenied("db__drop", "policy"))
        log.emit(SkillGet(("a", "b"), 2, 1500, 300), session="s", duration_ms=1.23456)
    assert lines(path) == [
        {
            "ts": "2026-11-20T12:00:00.123Z",
            "event": "tool_activation_denied",
            "session": None,
            "duration_ms": None,
            "tool_name": "db__drop",
            "reason": "policy",
        },
        {
            "ts": "2026-11-20T12:00:00.123Z",
            "event": "skill_get",
            "session": "s",
            "duration_ms": 1.235,
            "names": ["a", "b"],
            "returned_count": 2,
            "max_tokens": 1500,
            "final_tokens_est": 300,
        },
    ]


def test_the_time_is_in_utc_wherever_the_computer_is(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Asia/Tashkent")
    time.tzset()
    with open_event_log(EventFile(path), clock=noon) as log:
        log.emit(Noted())
    monkeypatch.undo()
    time.tzset()
    assert lines(path)[0]["ts"] == "2026-11-20T12:00:00.123Z"


def test_the_clock_of_the_computer_is_used_by_default(path: Path):
    with open_event_log(EventFile(path)) as log:
        log.emit(Noted())
    EventLog(lambda _line: None).emit(Noted())
    assert lines(path)[0]["ts"].startswith(str(datetime.now(UTC).year))


def test_the_file_and_its_directory_are_private(path: Path):
    with open_event_log(EventFile(path)):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_is_there_is_appended_to(path: Path):
    for _ in range(2):
        with open_event_log(EventFile(path)) as log:
            log.emit(Noted())
    assert len(lines(path)) == 2


def test_every_line_is_mirrored_and_without_a_file_only_mirrored(path: Path):
    mirrored: list[str] = []
    with open_event_log(EventFile(path), mirror=mirrored.append) as log:
        log.emit(Noted())
    assert [json.loads(line) for line in mirrored] == lines(path)
    with open_event_log(None, mirror=mirrored.append) as log:
        log.emit(Noted())
    assert len(mirrored) == 2
    with open_event_log(None) as log:
        log.emit(Noted())


def test_a_mirror_that_is_gone_disturbs_nobody(path: Path):
    def broken(line: str) -> None:
        raise BrokenPipeError

    with open_event_log(EventFile(path), mirror=broken) as log:
        log.emit(Noted())
    assert len(lines(path)) == 1


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["noted", "warned"]),
        ("info", ["noted", "warned"]),
        ("warning", ["warned"]),
    ],
)
def test_less_important_events_are_not_written(level: Any, written: list[str], path: Path):
    with open_event_log(EventFile(path), level=level) as log:
        for event in (Noted(), Warned()):
            log.emit(event)
    assert [line["event"] for line in lines(path)] == written


def test_when_it_is_off_there_is_no_file(path: Path):
    mirrored: list[str] = []
    with open_event_log(EventFile(path), level="off", mirror=mirrored.append) as log:
        for event in (Noted(), Warned()):
            log.emit(event)
    assert not path.parent.exists()
    assert mirrored == []


def test_every_text_is_redacted_however_deep_it_stands(path: Path):
    secret = "hunter2-secret"
    other = {"names": [secret], "kinds": {secret}, "filters": {"task": (secret, 3, None)}}
    with open_event_log(EventFile(path), clean=Redactor([secret], TEXT_RULES).redact) as log:
        log.emit(Noted(text=f"{secret} anna@corp.io", other=other), session=secret)
    assert secret not in path.read_text(encoding="utf-8")
    [line] = lines(path)
    assert line["session"] == "***"
    assert line["text"] == "*** [REDACTED_EMAIL]"
    assert line["other"] == {"names": ["***"], "kinds": ["***"], "filters": {"task": ["***", 3, None]}}


def test_known_shapes_are_redacted_without_being_asked(path: Path):
    with open_event_log(EventFile(path)) as log:
        log.emit(Noted(text="anna@corp.io"))
    assert lines(path)[0]["text"] == "[REDACTED_EMAIL]"


def test_a_text_is_bounded_and_cannot_break_the_line_or_steer_a_terminal(path: Path):
    with open_event_log(EventFile(path)) as log:
        log.emit(Noted(text="a\nb\x9b\u202e\udcff" + "x" * 5000, other=Path("p")))
    raw = path.read_bytes()
    assert raw.count(b"\n") == 1
    assert raw.isascii()
    [line] = lines(path)
    assert len(line["text"]) <= TEXT_MAX
    assert line["other"] == "p"


def test_events_are_written_soon_and_in_order_while_it_is_open(path: Path):
    with open_event_log(EventFile(path), clock=noon) as log:
        for number in range(50):
            log.emit(Noted(number))
        give_up = time.monotonic() + 30
        while whole_lines(path) < 50:
            assert time.monotonic() < give_up
        assert [line["number"] for line in lines(path)] == list(range(50))


def test_none_is_lost_however_slow_the_disk_is():
    written: list[bytes] = []
    slow, released = threading.Event(), threading.Event()

    def write(batch: Sequence[bytes]) -> None:
        slow.set()
        assert released.wait(30)
        written.extend(batch)

    with Batches(write) as batches:
        batches.add(lambda: "first")
        assert slow.wait(30)
        for number in range(WAITING_MAX):
            batches.add(partial(str, number))
        assert written == []
        released.set()
        batches.add(lambda: "last")  # writes all that waits, itself
        assert written == [b"first\n", *(f"{number}\n".encode() for number in range(WAITING_MAX)), b"last\n"]


def test_what_is_added_by_several_threads_is_all_written():
    written: list[bytes] = []
    with Batches(written.extend) as batches:
        threads = [threading.Thread(target=batches.add, args=(partial(str, number),)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(int(line) for line in written) == list(range(20))


def test_where_nothing_happens_no_thread_is_started(path: Path):
    before = threading.active_count()
    with open_event_log(EventFile(path)):
        assert threading.active_count() == before


def test_the_mirror_is_told_at_once(path: Path):
    mirrored: list[str] = []
    with open_event_log(EventFile(path), mirror=mirrored.append) as log:
        log.emit(Noted(1))
        assert json.loads(mirrored[0])["number"] == 1


def test_a_full_file_is_moved_aside_once(path: Path):
    with open_event_log(EventFile(path, 300), clock=noon) as log:
        for number in range(7):
            log.emit(Noted(number))
    older = path.with_name("events.jsonl.1")
    numbers = [line["number"] for line in (*lines(older), *lines(path))]
    assert numbers == list(range(7))[-len(numbers) :]
    assert numbers[-1] == 6
    assert older.stat().st_size <= 300
    assert path.stat().st_size <= 300
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_line_larger_than_the_bound_is_written_all_the_same(path: Path):
    with open_event_log(EventFile(path, 10)) as log:
        log.emit(Noted())
    assert len(lines(path)) == 1


def test_two_processes_with_one_file_do_not_throw_each_others_lines_away(path: Path):
    with (
        open_event_log(EventFile(path, 300), clock=noon) as first,
        open_event_log(EventFile(path, 300), clock=noon) as second,
    ):
        first.emit(Noted(0))
        second.emit(Noted(1))
        for number in (2, 3):
            first.emit(Noted(number))
        for number in (4, 5):
            second.emit(Noted(number))
    written = [line["number"] for file in path.parent.glob("events*") for line in lines(file)]
    assert sorted(written)[-4:] == [2, 3, 4, 5]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="toolcrib.events.log")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_file_that_cannot_be_opened_is_reported_once_and_never_raised(
    tmp_path: Path, warnings: Callable[[], list[str]]
):
    blocked = tmp_path / "file"
    blocked.write_text("")
    mirrored: list[str] = []
    with open_event_log(EventFile(blocked / "events.jsonl"), mirror=mirrored.append) as log:
        log.emit(Noted())
        log.emit(Noted())
    assert len(mirrored) == 2
    [warning] = warnings()
    assert str(blocked) in warning


@pytest.mark.parametrize("name", ["events.jsonl/", "nul\0"])
def test_a_path_that_is_no_file_is_reported(name: str, tmp_path: Path, warnings: Callable[[], list[str]]):
    (tmp_path / "events.jsonl").mkdir()
    with open_event_log(EventFile(tmp_path / name)) as log:
        log.emit(Noted())
    assert len(warnings()) == 1


def test_a_pipe_that_nobody_reads_does_not_hang(tmp_path: Path, warnings: Callable[[], list[str]]):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with open_event_log(EventFile(pipe)) as log:
        log.emit(Noted())
    assert len(warnings()) == 1


def test_writing_goes_on_once_the_directory_is_back(path: Path, warnings: Callable[[], list[str]]):
    path.parent.write_text("in the way")
    file = EventFile(path)
    file.open()
    file.write([b'{"number": 1}\n'])
    path.parent.unlink()
    file.write([b'{"number": 2}\n'])
    file.close()
    assert [line["number"] for line in lines(path)] == [2]
    assert len(warnings()) == 1


def test_a_file_that_was_deleted_is_begun_anew_when_it_would_be_full(path: Path):
    with open_event_log(EventFile(path, 150), clock=noon) as log:
        log.emit(Noted(1))
        path.unlink()
        log.emit(Noted(2))
        log.emit(Noted(3))
    assert lines(path)[-1]["number"] == 3
