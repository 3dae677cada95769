"""A test that fails in a run and passes alone, twice, is reported and does not fail the run; a broken one does."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reruns import Unstable, listed

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent

SUITE = """
import os, time
from pathlib import Path
import pytest

def is_first(name):
    file = Path(__file__).with_name(name)
    found = file.exists()
    file.touch()
    return not found

def test_good():
    pass

@pytest.mark.parametrize("way", ["a way"])
def test_racing(way):
    print("said by the test")
    assert not is_first("racing"), "a busy moment"

@pytest.mark.timeout(10, method="thread")
def test_hanging():
    if is_first("hanging"):
        time.sleep(60)

def test_crashing():
    if is_first("crashing"):
        os._exit(3)

def test_broken():
    assert is_first("broken") == "never"

def test_skipped_then():
    if not is_first("skipped"):
        pytest.skip("not now")
    assert False

@pytest.fixture
def fragile():
    yield
    assert not is_first("fragile")

def test_failing_at_its_end(fragile):
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    return tmp_path


def run(project: Path, tests: str, workers: int = 0) -> tuple[int, str, list[str]]:
    """Run some of the tests; return the exit code, what is printed, and the texts of the files."""
    command = [sys.executable, "-m", "pytest", "-p", "reruns", "-n", str(workers), "-k", tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "PYTEST_ADDOPTS": f"--rerun-failed={project / 'unstable'}",
    }
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    files = sorted((project / "unstable").glob("*"))
    return done.returncode, done.stdout, [file.read_text() for file in files]


@pytest.mark.full(group="reruns")
def test_unstable_tests_pass_the_run_and_are_shown_whole(project: Path):
    code, printed, files = run(project, "good or racing or hanging", workers=2)
    assert code == 0, printed
    assert "1 passed" in printed
    assert "2 unstable" in printed
    [racing, hanging] = sorted(files, key=lambda text: "hanging" in text)
    assert racing.startswith("test_suite.py::test_racing[a way]")
    for text in (racing, printed):
        assert "AssertionError: a busy moment" in text
        assert "said by the test" in text
        assert 'name = "test_suite.py::test_racing"' in text
    assert "crashed while running 'test_suite.py::test_hanging'" in hanging


@pytest.mark.slow
def test_broken_test_fails_the_run_beside_an_unstable_one(project: Path):
    code, printed, files = run(project, "racing or broken")
    assert code == 1
    assert "1 failed" in printed
    assert "1 unstable" in printed
    assert "FAILED test_suite.py::test_broken" in printed
    assert [text.splitlines()[0] for text in files] == ["test_suite.py::test_racing[a way]"]


@pytest.mark.full(group="reruns")
def test_third_unstable_test_fails_the_run(project: Path):
    code, printed, files = run(project, "racing or crashing or at_its_end", workers=2)
    assert (code, len(files)) == (1, 3)
    assert "This run fails: 3 tests are unstable; a run may have 2" in printed


@pytest.mark.full(group="reruns")
def test_unstable_tests_of_runs_with_one_folder_are_counted_together(project: Path):
    (project / "unstable").mkdir()
    for name in ("01.txt", "02.txt"):
        (project / "unstable" / name).write_text("of another run")
    code, printed, files = run(project, "racing")
    assert (code, len(files)) == (1, 3)
    assert "This run fails: 3 tests are unstable" in printed


@pytest.mark.full(group="reruns")
def test_listed_test_that_is_unstable_again_fails_the_run(project: Path):
    (project / "tests").mkdir()
    (project / "tests" / "unstable.toml").write_text('[[unstable]]\nname = "test_suite.py::test_racing"\n')
    code, printed, _ = run(project, "racing")
    assert code == 1
    assert "test_suite.py::test_racing is listed in tests/unstable.toml" in printed


@pytest.mark.full(group="reruns")
def test_repetition_that_is_skipped_shows_nothing(project: Path):
    code, printed, files = run(project, "skipped_then")
    assert (code, files) == (1, [])
    assert "1 failed" in printed


@pytest.mark.full(group="reruns")
def test_module_that_cannot_be_imported_fails_the_run(project: Path):
    (project / "test_other.py").write_text("import a_module_that_is_missing\n")
    code, _, files = run(project, "good")
    assert (code, files) == (2, [])


def test_listed_tests_exist():
    for name in listed(TESTS / "unstable.toml"):
        path, first, *_ = name.split("::")
        assert re.search(rf"\b{first}\b", (ROOT / path).read_text(encoding="utf-8")), name


def test_entry_of_a_test_can_be_read_again(tmp_path: Path):
    text = 'E   assert "\x7f \N{GRINNING FACE} \\" == 1'
    entry = Unstable("tests/test_it.py::test_it[a-b]", f"def test_it():\n{text}").entry
    (tmp_path / "unstable.toml").write_text(entry, encoding="utf-8")
    assert listed(tmp_path / "unstable.toml") == {"tests/test_it.py::test_it"}
    assert tomllib.loads(entry)["unstable"][0]["lines"] == text


@pytest.mark.slow
def test_workers_read_the_options_of_the_run_and_tests_do_not_pass_them_on(tmp_path: Path):
    """With the configuration of this repository, as CI gives the options."""
    (tmp_path / "tests").mkdir()
    for path in (*TESTS.glob("*.py"), TESTS / "e2e"):
        if not path.name.startswith("test_"):
            (tmp_path / "tests" / path.name).symlink_to(path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "test_options.py").write_text(
        "import os\n"
        "from hypothesis import settings\n"
        "def test_options():\n"
        "    assert settings.default.max_examples == 100\n"
        "    assert 'PYTEST_ADDOPTS' not in os.environ\n"
    )
    environment = {**os.environ, "PYTEST_ADDOPTS": "--hypothesis-profile=ci", "PYTHONPATH": str(ROOT / "server")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "tests/test_options.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
