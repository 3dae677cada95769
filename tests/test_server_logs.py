"""What servers say on stderr is kept on disk: bounded, private, redacted, and without waiting."""

import stat
from pathlib import Path

import pytest

from toolcrib.events.server_logs import LINES_PER_SECOND, last_lines, open_server_logs


class Clock:
    """A clock that is set by hand."""

    now = 1_700_000_000.25

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_lines_are_kept_with_their_times_by_server(tmp_path: Path, clock: Clock):
    with open_server_logs(tmp_path, 4096, str, clock) as logs:
        logs.note("a", "one")
        logs.note("b", "two")
        logs.note("a", "three")
    assert last_lines(tmp_path, "a", 9) == ["2023-11-14T22:13:20.250Z one", "2023-11-14T22:13:20.250Z three"]
    assert last_lines(tmp_path, "a", 1) == ["2023-11-14T22:13:20.250Z three"]
    assert last_lines(tmp_path, "c", 9) == []


def test_files_are_private_and_a_name_cannot_lead_elsewhere(tmp_path: Path, clock: Clock):
    with open_server_logs(tmp_path / "cache", 4096, str, clock) as logs:
        for name in ("../../x", "..", "a/b", "a-b", ""):
            logs.note(name, name)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".gitignore"]
    assert {path.parent for path in files} == {tmp_path / "cache" / "logs"}
    assert len(files) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert last_lines(tmp_path / "cache", "a/b", 1)[0].endswith(" a/b")


def test_the_oldest_lines_go(tmp_path: Path, clock: Clock):
    with open_server_logs(tmp_path, 4096, str, clock) as logs:
        for number in range(1000):
            clock.now += 1
            logs.note("a", f"line {number}")
    kept = last_lines(tmp_path, "a", 1000)
    assert kept[-1].endswith("line 999")
    assert 30 < len(kept) < 200
    assert sum(path.stat().st_size for path in (tmp_path / "logs").glob("a.log*")) <= 4096


def test_a_flood_is_cut_and_counted(tmp_path: Path, clock: Clock):
    with open_server_logs(tmp_path, 1 << 20, str, clock) as logs:
        for _ in range(LINES_PER_SECOND + 5):
            logs.note("a", "x")
        clock.now += 1
        logs.note("a", "y")
    kept = last_lines(tmp_path, "a", 1000)
    assert len(kept) == LINES_PER_SECOND + 2
    assert kept[-2].endswith(" (5 more lines in a second were not kept)")


def test_every_line_is_redacted(tmp_path: Path, clock: Clock):
    with open_server_logs(tmp_path, 4096, lambda text: text.replace("canary", "***"), clock) as logs:
        logs.note("a", "token canary\0canary")
    assert "canary" not in last_lines(tmp_path, "a", 1)[0]


def test_a_folder_that_cannot_be_written_harms_nobody(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture):
    (tmp_path / "logs").write_text("in the way")
    with open_server_logs(tmp_path, 4096, str, clock) as logs:
        logs.note("a", "one")
    assert "cannot be written" in caplog.text
