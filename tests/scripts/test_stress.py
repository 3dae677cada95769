"""scripts/stress finds a race, says how often it showed, and lets what is sound pass."""

from pathlib import Path

import pytest
import stress_runs
from stress_runs import Failure, run, summary

TESTS = Path(__file__).resolve().parents[1]

SUITE = """
import time
from functools import partial
import anyio
import anyio.to_thread
import pytest

pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def test_sound():
    assert await anyio.to_thread.run_sync(partial(int, "7")) == 7

async def test_racing_with_a_thread():
    with anyio.fail_after(0.1):
        for _ in range(10):
            await anyio.to_thread.run_sync(int)

@pytest.fixture
def fragile():
    yield
    assert False

async def test_racing_with_a_thread_and_failing_at_its_end(fragile):
    await test_racing_with_a_thread()

async def test_racing_with_the_loop():
    longest = 0.0
    with anyio.move_on_after(2 * 3.0):
        while longest < 0.01:
            began = time.perf_counter()
            await anyio.sleep(0)
            longest = time.perf_counter() - began
    assert longest < 0.01
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p anyio -p delays\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    return tmp_path


@pytest.mark.slow
def test_a_race_shows_and_what_is_sound_passes(project: Path):
    tests, failures = run(1, [], project, workers=1)
    assert tests == 4
    assert sorted(failure.test for failure in failures) == [
        "test_suite.py::test_racing_with_a_thread",
        "test_suite.py::test_racing_with_a_thread_and_failing_at_its_end",
        "test_suite.py::test_racing_with_the_loop",
    ]
    assert "TimeoutError" in next(failure.text for failure in failures if "thread" in failure.test)


def test_failures_are_counted_and_each_is_shown_once():
    failures = [Failure("t.py::a", 2, "first of a"), Failure("t.py::b", 2, "of b"), Failure("t.py::a", 3, "of a")]
    assert summary(3, 70, failures).splitlines() == [
        "=== t.py::a",
        "first of a",
        "Again: scripts/stress --times 1 --seed 2 't.py::a'",
        "",
        "=== t.py::b",
        "of b",
        "Again: scripts/stress --times 1 --seed 2 't.py::b'",
        "",
        "2 of 3: t.py::a",
        "1 of 3: t.py::b",
        "3 runs of 70 tests; failed: 2",
    ]


def test_each_run_has_other_delays_and_any_failure_is_the_exit_code(monkeypatch, capsys):
    seeds: list[int] = []

    def once(seed: int, paths: list[str]) -> tuple[int, list[Failure]]:
        seeds.append(seed)
        return 5, [Failure("t.py::a", seed, "text")] if seed == 8 and paths == ["t.py"] else []

    monkeypatch.setattr(stress_runs, "run", once)
    assert stress_runs.main(["--times", "3", "--seed", "7", "t.py"]) == 1
    assert seeds == [7, 8, 9]
    assert capsys.readouterr().out.endswith("1 of 3: t.py::a\n3 runs of 5 tests; failed: 1\n")
    assert stress_runs.main(["--times", "2"]) == 0
    assert seeds[3:] == [1, 2]
