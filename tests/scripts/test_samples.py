"""Of a sampled test, the quick suite runs every fifth parameter, at least one, and the slow suite all others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SUITE = """
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("era", ["old", "new"])
@pytest.mark.parametrize("case", range(5))
def test_sampled(case, era):
    pass

@pytest.mark.sampled
@pytest.mark.parametrize("era", ["old", "new"])
def test_eras(era):
    pass

@pytest.mark.sampled
@pytest.mark.parametrize("era", ["old", "new"])
def test_eras_too(era):
    pass

@pytest.mark.parametrize("case", range(3))
def test_whole(case):
    pass
"""


def collected(project: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", "samples", "-q", "--collect-only", *options]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_each_parameter_runs_in_one_of_both_suites(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    sampled\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    quick, slow = collected(tmp_path, "-m", "not slow"), collected(tmp_path, "-m", "slow")
    sampled = [f"test_suite.py::test_sampled[{case}-{era}]" for case in range(5) for era in ("old", "new")]
    eras = [f"test_suite.py::{test}[{era}]" for test in ("test_eras", "test_eras_too") for era in ("old", "new")]
    whole = [f"test_suite.py::test_whole[{case}]" for case in range(3)]
    assert quick == [sampled[3], sampled[8], eras[0], eras[3], *whole]
    assert sorted(slow) == sorted({*sampled, *eras} - set(quick))
    assert collected(tmp_path, "-m", "not slow", "test_suite.py::test_sampled[3-new]") == [sampled[7]]
