"""A server's process: started as it was asked for, and gone when it is left, with everything it has started."""

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from downstream.fleets import LATE_S, PATIENCE_S, TEST_S, Stopwatch, asleep, until
from fakes.menu import FakeServer
from toolcrib.config.settings import StdioTarget
from toolcrib.downstream.process import LINES_KEPT, Child, Descendants, _end, open_lifeline, running

pytestmark = pytest.mark.anyio
CLOSE_S = 0.1
"""How long a process gets to end. It decides nothing: one that is late is killed, as one is that never ends."""


def target(*command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> StdioTarget:
    return StdioTarget(command[0], command[1:], env or {}, cwd)


def python(code: str, **more: Any) -> StdioTarget:
    return target(sys.executable, "-S", "-c", code, **more)


def fake_target(fake: FakeServer) -> StdioTarget:
    return target(fake.command, *fake.args)


@asynccontextmanager
async def started(what: StdioTarget, close_timeout_s: float = CLOSE_S) -> AsyncGenerator[Child]:
    with anyio.fail_after(TEST_S):
        async with running(what, close_timeout_s) as child:
            yield child


def environment_of(child: Child) -> list[bytes]:
    return sorted(filter(None, Path(f"/proc/{child.process.pid}/environ").read_bytes().split(b"\0")))


def folder_of(child: Child) -> Path:
    return Path(f"/proc/{child.process.pid}/cwd").readlink()


async def gone(fake: FakeServer) -> None:
    """Wait until the kernel has ended what it has started and was killed with it."""
    await until(lambda: not fake.survivors())


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


# -- start ---------------------------------------------------------------------------------------


async def test_it_leads_a_process_group_of_its_own():
    async with started(target("/bin/cat")) as child:
        pid = child.process.pid
        assert os.getpgid(pid) == pid != os.getpgrp()
        assert os.getsid(pid) == pid


async def test_its_pipes_are_connected():
    async with started(target("/bin/cat")) as child:
        os.write(child.write_fd, b"hello\n")
        assert os.read(child.read_fd, 100) == b"hello\n"


async def test_its_environment_is_the_one_given_and_nothing_else():
    async with started(target("/bin/cat", env={"ONLY": "this", "AND": "that=é"})) as child:
        await until(lambda: bool(environment_of(child)))  # the kernel fills it in just after a start is known
        assert environment_of(child) == ["AND=that=é".encode(), b"ONLY=this"]


async def test_it_runs_in_the_folder_it_was_given(tmp_path: Path):
    async with started(target("/bin/cat", cwd=tmp_path)) as child:
        assert folder_of(child) == tmp_path


def no_program(_tmp_path: Path) -> StdioTarget:
    return target("/no/such/program")


def no_folder(tmp_path: Path) -> StdioTarget:
    return target("/bin/cat", cwd=tmp_path / "no-such-folder")


def not_executable(tmp_path: Path) -> StdioTarget:
    file = tmp_path / "script"
    file.write_text("text")
    return target(str(file))


def not_a_program(tmp_path: Path) -> StdioTarget:
    file = tmp_path / "script"
    file.write_text("no interpreter line")
    file.chmod(0o755)
    return target(str(file))


@pytest.mark.parametrize("what", [no_program, no_folder, not_executable, not_a_program])
async def test_what_cannot_be_started_is_an_os_error_and_leaves_nothing_open(tmp_path: Path, what: Any):
    async with started(target("/bin/cat")):
        pass
    before = open_descriptors()
    with pytest.raises(OSError, match="Errno"):
        async with started(what(tmp_path)):
            pass
    assert open_descriptors() == before


# -- end -----------------------------------------------------------------------------------------


async def test_it_may_end_by_itself_when_its_input_ends(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with started(fake_target(fake), close_timeout_s=PATIENCE_S) as child:
        await until(lambda: bool(fake.starts()))
    assert child.exit_status == 0


async def test_everything_it_has_started_ends_with_it(tmp_path: Path):
    fake = FakeServer(tmp_path, fork_child=True)
    async with started(fake_target(fake)):
        await until(lambda: len(fake.survivors()) == 2)
    await gone(fake)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_what_it_has_started_in_another_session_ends_with_it_where_it_does_not_end_by_itself(tmp_path: Path):
    fake, before = FakeServer(tmp_path, detach_child=True, ignore_sigterm=True), open_descriptors()
    async with started(fake_target(fake)):
        await until(lambda: len(fake.survivors()) == 2)
    await gone(fake)
    assert open_descriptors() == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_no_descriptors_are_held_for_what_it_has_started(tmp_path: Path):
    fake = FakeServer(tmp_path, detach_child=True)
    async with started(fake_target(fake)) as child:
        await until(lambda: len(fake.survivors()) == 2)
        before = open_descriptors()
        others = await anyio.to_thread.run_sync(Descendants.find, child.process.pid)
        assert len(others.found) == 1
        assert open_descriptors() == before
        others.kill()


async def test_it_ends_and_is_no_longer_held_even_if_the_search_for_what_it_has_started_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(_pid: int) -> Descendants:
        raise MemoryError

    monkeypatch.setattr(Descendants, "find", fail)
    fake = FakeServer(tmp_path, fork_child=True, ignore_sigterm=True)
    async with open_lifeline() as lifeline:
        with pytest.RaisesGroup(MemoryError):
            async with running(fake_target(fake), CLOSE_S, lifeline):
                await until(lambda: len(fake.survivors()) == 2)
        await gone(fake)
        assert not lifeline._held


async def test_what_ends_by_itself_may_leave_something_in_another_session(tmp_path: Path):
    fake = FakeServer(tmp_path, detach_child=True)
    async with started(fake_target(fake), close_timeout_s=PATIENCE_S):
        await until(lambda: len(fake.survivors()) == 2)
    [left] = fake.survivors()
    os.kill(left, signal.SIGKILL)


async def test_what_ignores_its_end_is_killed_in_time(tmp_path: Path):
    fake = FakeServer(tmp_path, fork_child=True, ignore_sigterm=True, hang_at="spawn")
    async with started(fake_target(fake)) as child:
        await until(lambda: len(fake.survivors()) == 2)
        watch = Stopwatch()
    assert watch.seconds < CLOSE_S + LATE_S
    await gone(fake)
    assert child.exit_status == -signal.SIGKILL


async def test_a_stopped_process_is_killed_in_time(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with started(fake_target(fake)) as child:
        await until(lambda: bool(fake.starts()))
        os.kill(child.process.pid, signal.SIGSTOP)
    assert fake.survivors() == []


async def test_a_leader_that_is_gone_does_not_save_its_children(tmp_path: Path):
    fake = FakeServer(tmp_path, fork_child=True)
    async with started(fake_target(fake)) as child:
        await until(lambda: len(fake.survivors()) == 2)
        os.kill(child.process.pid, signal.SIGKILL)
        await until(lambda: child.exit_status is not None)
        assert len(fake.survivors()) == 1
    await gone(fake)


async def test_its_end_does_not_wait_for_a_thread_that_others_use(tmp_path: Path):
    fake = FakeServer(tmp_path, fork_child=True, ignore_eof=True)
    threads, others = anyio.to_thread.current_default_thread_limiter(), []
    try:
        async with started(fake_target(fake)):
            await until(lambda: len(fake.survivors()) == 2)
            while threads.available_tokens:
                others.append(object())
                threads.acquire_on_behalf_of_nowait(others[-1])
        await gone(fake)
    finally:
        for other in others:
            threads.release_on_behalf_of(other)


async def test_whoever_has_got_the_number_of_one_that_has_ended_is_left_alone():
    stranger = asleep()
    try:
        ended = SimpleNamespace(pid=stranger.pid, returncode=0)
        await _end(cast("anyio.abc.Process", ended), CLOSE_S / 2)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_nothing_is_left_when_the_one_who_waits_is_cancelled(tmp_path: Path):
    fake, before = FakeServer(tmp_path, fork_child=True), open_descriptors()
    async with anyio.create_task_group() as tasks:

        async def hold() -> None:
            async with started(fake_target(fake)):
                await anyio.sleep_forever()

        tasks.start_soon(hold)
        await until(lambda: len(fake.survivors()) == 2)
        tasks.cancel_scope.cancel()
    await gone(fake)
    assert open_descriptors() == before


async def test_nothing_is_left_of_a_start_that_is_cancelled_at_once(tmp_path: Path):
    fake, before = FakeServer(tmp_path, hang_at="spawn"), open_descriptors()
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with started(fake_target(fake)):
            await anyio.sleep_forever()
    assert fake.survivors() == []
    assert open_descriptors() == before


async def test_an_error_in_between_ends_it_and_is_passed_on(tmp_path: Path):
    fake = FakeServer(tmp_path)
    with pytest.RaisesGroup(ZeroDivisionError):
        async with started(fake_target(fake)):
            await until(lambda: bool(fake.starts()))
            raise ZeroDivisionError
    assert fake.survivors() == []


# -- exit status and stderr ----------------------------------------------------------------------


async def test_it_settles_with_its_exit_status_and_its_last_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.process._EXIT_S", PATIENCE_S)
    async with started(python("import sys; print('bad key', file=sys.stderr); sys.exit(7)")) as child:
        await until(lambda: os.read(child.read_fd, 1) == b"")
        await child.wait_for_exit()
        assert child.exit_status == 7
        assert list(child.stderr) == ["bad key"]


async def test_settling_does_not_wait_long_for_one_that_lives():
    async with started(target("/bin/cat")) as child:
        watch = Stopwatch()
        await child.wait_for_exit()
        assert child.exit_status is None
        assert watch.seconds < LATE_S


async def test_only_the_last_words_on_stderr_are_kept():
    code = """
import sys
for number in range(5000):
    print(f"line {number}", file=sys.stderr)
print("x" * 3_000_000, file=sys.stderr)
print("   ", file=sys.stderr)
sys.stderr.buffer.write(b"caf\\xe9 \\xff\\n")
sys.stderr.flush()
sys.stdin.read()
"""
    async with started(python(code)) as child:
        await until(lambda: bool(child.stderr) and child.stderr[-1].startswith("caf"))
        assert len(child.stderr) == LINES_KEPT
        *_, first, second, third = child.stderr
        assert (first, third) == ("line 4999", "caf\ufffd \ufffd")
        assert set(second) == {"x"}
        assert len(second) <= 2000


async def test_stderr_is_read_however_much_there_is():
    async with started(python("import sys; sys.stderr.write('noise ' * 200_000); print('done', flush=True)")) as child:
        await anyio.wait_readable(child.read_fd)
        assert os.read(child.read_fd, 100) == b"done\n"


# -- if we are killed ----------------------------------------------------------------------------


async def test_the_watcher_ends_the_groups_that_are_held_when_its_input_ends_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("toolcrib.downstream.process._WATCHER_WORK_S", PATIENCE_S)
    held, freed, other = processes = [asleep() for _ in range(3)]
    try:
        async with open_lifeline() as lifeline:
            await lifeline.ready()
            for process in (freed, held):
                lifeline.hold(process.pid)
            lifeline.free(freed.pid)
        await until(lambda: held.poll() == -signal.SIGKILL)
        assert (freed.poll(), other.poll()) == (None, None)
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def test_a_watcher_that_holds_nothing_is_gone_when_the_lifeline_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.process._WATCHER_END_S", PATIENCE_S)
    async with open_lifeline() as lifeline:
        async with running(target("/bin/cat"), CLOSE_S, lifeline) as child:
            assert child.exit_status is None
        watcher = lifeline._watcher
        assert watcher is not None
        assert watcher.returncode is None
    assert watcher.returncode == 0


async def test_a_watcher_that_somebody_has_killed_is_told_and_harms_no_server(caplog: pytest.LogCaptureFixture):
    async with open_lifeline() as lifeline:
        await lifeline.ready()
        watcher = lifeline._watcher
        assert watcher is not None
        watcher.kill()
        await watcher.wait()
        async with running(target("/bin/cat"), CLOSE_S, lifeline) as child:
            os.write(child.write_fd, b"hello\n")
            assert os.read(child.read_fd, 100) == b"hello\n"
    assert "servers may survive" in caplog.text
