"""What a server has started: found through what Linux says of processes, and never mistaken for another's."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from downstream.fleets import PATIENCE_S, asleep
from toolcrib.downstream import process as descendants
from toolcrib.downstream.process import _WATCHER, Descendants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
SERVER, CHILD, GRANDCHILD, STRANGER = 101, 102, 103, 104

Tell = Callable[..., None]


def stat(pid: int, parent: int, began: int) -> str:
    return f"{pid} (a) b) S {parent} {'0 ' * 17}{began} 0\n"


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tell:
    """Have Linux say that there is a process; by a later time of its start, another one with its number."""

    def tell(pid: int, parent: int, children: tuple[int, ...] = (), began: int = 1) -> None:
        thread = tmp_path / str(pid) / "task" / str(pid)
        thread.mkdir(parents=True, exist_ok=True)
        thread.joinpath("children").write_text("".join(f"{child} " for child in children))
        (tmp_path / str(pid) / "stat").write_text(stat(pid, parent, began))

    monkeypatch.setattr(descendants, "_PROC", tmp_path)
    return tell


def found() -> set[int]:
    return {process.pid for process in Descendants.find(SERVER).found}


def test_they_are_those_of_all_generations(tell: Tell):
    tell(SERVER, os.getpid(), children=(CHILD,))
    tell(CHILD, SERVER, children=(GRANDCHILD,))
    tell(GRANDCHILD, CHILD)
    assert found() == {CHILD, GRANDCHILD}


def test_there_are_none_where_linux_says_nothing(tell: Tell):
    assert found() == set()


def test_there_are_none_of_a_process_that_ends_while_its_threads_are_listed(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
):
    def end(*_folder: object) -> None:
        raise ProcessLookupError

    tell(SERVER, os.getpid(), children=(CHILD,))
    tell(CHILD, SERVER)
    monkeypatch.setattr(os, "listdir", end)
    monkeypatch.setattr(os, "scandir", end)
    assert found() == set()


def test_there_are_none_of_a_process_that_another_has_started(tell: Tell):
    tell(SERVER, STRANGER, children=(CHILD,))
    tell(CHILD, SERVER)
    assert found() == set()


def test_a_child_that_has_ended_since_its_parent_told_of_it_is_not_mistaken_for_who_has_its_number(tell: Tell):
    tell(SERVER, os.getpid(), children=(CHILD,))
    tell(CHILD, STRANGER)
    assert found() == set()


def test_children_of_whoever_gets_the_number_of_a_child_meanwhile_are_left_out(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
):
    listed = descendants._listed

    def listed_later(pid: int) -> set[int]:
        if pid == CHILD:
            tell(CHILD, STRANGER, children=(GRANDCHILD,), began=2)
            tell(GRANDCHILD, CHILD, began=2)
        return listed(pid)

    tell(SERVER, os.getpid(), children=(CHILD,))
    tell(CHILD, SERVER)
    monkeypatch.setattr(descendants, "_listed", listed_later)
    assert found() == {CHILD}


def test_so_many_are_looked_for_and_no_more_whoever_has_started_them(tell: Tell, monkeypatch: pytest.MonkeyPatch):
    tell(SERVER, os.getpid(), children=(CHILD, GRANDCHILD, STRANGER))
    for pid in (CHILD, GRANDCHILD, STRANGER):
        tell(pid, SERVER)
    monkeypatch.setattr(descendants, "_MOST", 2)
    assert len(found()) == 2


# -- their end -----------------------------------------------------------------------------------


@pytest.fixture(params=["with descriptors of processes", "without"])
def process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[subprocess.Popen[bytes]]:
    if request.param == "without":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    process = subprocess.Popen(["/bin/sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_they_are_killed(process: subprocess.Popen[bytes]):
    it, _ = descendants._identify(process.pid)
    assert it is not None
    Descendants((it,)).kill()
    assert process.wait() == -signal.SIGKILL


def test_whoever_has_the_number_of_one_by_then_is_not_killed(process: subprocess.Popen[bytes]):
    it, _ = descendants._identify(process.pid)
    assert it is not None
    Descendants((it._replace(began=it.began - 1),)).kill()
    process.terminate()
    assert process.wait() == -signal.SIGTERM


# -- if we are killed ----------------------------------------------------------------------------


@pytest.fixture
def processes() -> Generator[list[subprocess.Popen[bytes]]]:
    processes = [asleep() for _ in range(3)]
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def watch(folder: Path, group: int, sleep: str = ":", script: str = _WATCHER) -> None:
    """Have the watcher end a group; it reads a folder instead of /proc, and runs this instead of each of its pauses.

    No other program is found: a thousand of them would delay its signals.
    """
    program = folder / "programs" / "sleep"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{sleep}\n")
    program.chmod(0o755)
    command, env = ["/bin/sh", "-c", script.replace("/proc/", f"{folder}/")], {"PATH": str(program.parent)}
    subprocess.run(command, input=f"hold {group}\n".encode(), env=env, stderr=subprocess.DEVNULL, check=False)


def test_the_watcher_ends_them_too(tell: Tell, tmp_path: Path, processes: list[subprocess.Popen[bytes]]):
    server, child, grandchild = (process.pid for process in processes)
    tell(server, os.getpid(), children=(child,))
    tell(child, server, children=(grandchild,))
    tell(grandchild, child)
    watch(tmp_path, server)
    assert [process.wait(PATIENCE_S) for process in processes] == [-signal.SIGKILL] * 3


def test_the_watcher_leaves_whoever_has_got_a_number_since_alone(
    tell: Tell, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
):
    server, child, other = (process.pid for process in processes)
    tell(server, os.getpid(), children=(child, other))
    tell(child, server)
    tell(other, server)
    changes = [f"echo '{stat(pid, STRANGER, began=2)}' > {tmp_path}/{pid}/stat" for pid in (server, child)]
    # The first pause goes on while processes are noted; in the second one they end.
    watch(tmp_path, server, "\n".join((f"if [ -e {tmp_path}/noted ]; then", *changes, f"fi; : > {tmp_path}/noted")))
    assert processes[2].wait(PATIENCE_S) == -signal.SIGKILL
    assert [process.poll() for process in processes[:2]] == [None, None]


def test_the_watcher_looks_for_so_many_and_no_more(
    tell: Tell, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
):
    server, *children = (process.pid for process in processes)
    tell(server, os.getpid(), children=tuple(children))
    for child in children:
        tell(child, server)
    watch(tmp_path, server, script=_WATCHER.replace("left=1000", "left=1"))
    assert processes[1].wait(PATIENCE_S) == -signal.SIGKILL
    assert processes[2].poll() is None
