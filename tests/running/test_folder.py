"""The files of running processes: private, there for as long as their process, and of nobody else."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.gateway.instances import open_instance_file, read_instance_files

HOLD = """
import os, sys
from toolcrib.gateway.instances import open_instance_file
with open_instance_file(dict(os.environ), os.getpid()) as own:
    own.write("held")
    print("ready", flush=True)
    sys.stdin.read()
"""


def _environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "run").mkdir(exist_ok=True)
    return {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.name != ".gitignore")


def test_a_file_and_its_folder_are_private_and_say_the_last_that_was_written(tmp_path: Path):
    environ = _environ(tmp_path)
    with open_instance_file(environ, 7) as own:
        assert own
        own.write("first")
        own.write("second")
        assert list(read_instance_files(environ)) == ["second"]
        folder = tmp_path / "run" / "toolcrib"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in _files(folder)} == {0o600}
    assert _files(folder) == []
    assert list(read_instance_files(environ)) == []


def test_what_is_read_while_it_is_written_is_whole(tmp_path: Path):
    environ = _environ(tmp_path)
    with open_instance_file(environ, 7) as own:
        assert own
        for number in range(50):
            own.write(json.dumps([number] * 10_000))
            assert [len(json.loads(text)) for text in read_instance_files(environ)] == [10_000]


def test_a_process_that_was_killed_is_no_longer_told_of_and_its_files_go(tmp_path: Path):
    environ = _environ(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], env={**os.environ, **environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        assert list(read_instance_files(environ)) == ["held"]
        process.kill()
        process.wait(30)
        assert list(read_instance_files(environ)) == []
        assert _files(tmp_path / "run" / "toolcrib") == []
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_several_who_ask_at_the_same_time_disturb_neither_each_other_nor_the_process(tmp_path: Path):
    environ = _environ(tmp_path)
    with open_instance_file(environ, 7) as own:
        assert own
        own.write("here")
        asking = [read_instance_files(environ) for _ in range(3)]
        assert [next(each) for each in asking] == ["here"] * 3
        own.write("still here")
        assert list(read_instance_files(environ)) == ["still here"]


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_folder_that_others_may_look_into_is_neither_written_nor_read(tmp_path: Path, mode: int):
    environ = _environ(tmp_path)
    folder = tmp_path / "run" / "toolcrib"
    folder.mkdir()
    folder.chmod(mode)
    (folder / "1-x.lock").touch()
    (folder / "1-x.json").write_text("planted")
    with open_instance_file(environ, 7) as own:
        assert own
        own.write("mine")
        assert list(read_instance_files(environ)) == ["mine"]
    assert [path.name for path in _files(folder)] == ["1-x.json", "1-x.lock"]


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path):
    environ = _environ(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "run" / "toolcrib").symlink_to(elsewhere)
    with open_instance_file(environ, 7) as own:
        assert own
        own.write("mine")
    assert _files(elsewhere) == []


@pytest.mark.parametrize("runtime", ["", "relative", "/nowhere/at/all"])
def test_without_a_runtime_directory_the_cache_is_used(tmp_path: Path, runtime: str):
    environ = {**_environ(tmp_path), "XDG_RUNTIME_DIR": runtime or "/nowhere"}
    with open_instance_file(environ, 7) as own:
        assert own
        own.write("mine")
        assert list(read_instance_files(environ)) == ["mine"]
        assert _files(tmp_path / "cache" / "toolcrib" / "running")


def test_where_no_folder_can_be_made_there_is_no_file(tmp_path: Path):
    (tmp_path / "file").touch()
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "file"), "XDG_CACHE_HOME": str(tmp_path / "file")}
    with open_instance_file(environ, 7) as own:
        assert own is None
    assert list(read_instance_files(environ)) == []
