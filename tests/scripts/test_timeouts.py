"""A test that takes long on purpose gets the time for it, and one that runs out of time shows where it stood."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SUITE = """
import threading
import pytest
from hypothesis import given, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, rule

settings.register_profile("ci", max_examples=3)

@pytest.fixture(autouse=True)
def its_time(request):
    marker = request.node.get_closest_marker("timeout")
    print(request.node.name, "may take", marker.args[0] if marker else "as long as any")

def test_quick():
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.slow
@pytest.mark.timeout(7)
def test_bounded():
    pass

@given(strategies.integers())
def test_property(number):
    pass

class Machine(RuleBasedStateMachine):
    @rule()
    def step(self):
        pass

TestMachine = Machine.TestCase

@pytest.mark.timeout(5, method="thread")
@pytest.mark.hanging
def test_hanging():
    this_is_where_it_stands()

def this_is_where_it_stands():
    threading.Event().wait()
"""


def run(project: Path, *options: str) -> str:
    (project / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    hostile\n    hanging\n")
    (project / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "timeouts", *options]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "of_many"), [("default", "as long as any"), ("ci", "600")])
def test_a_test_that_draws_many_inputs_has_the_time_of_a_slow_one(tmp_path: Path, profile: str, of_many: str):
    printed = run(tmp_path, "-n0", "-s", "-m", "not hanging", f"--hypothesis-profile={profile}")
    said = dict(re.findall(r"(test_\w+|runTest) may take (.+)", printed.replace("test_suite.py", "")))
    assert said == {
        "test_quick": "as long as any",
        "test_slow": "600",
        "test_bounded": "7",
        "test_property": of_many,
        "runTest": of_many,
    }


@pytest.mark.slow
def test_what_runs_out_of_time_in_a_worker_shows_where_it_stands(tmp_path: Path):
    printed = run(tmp_path, "-n1", "-m", "hanging")
    assert "crashed while running 'test_suite.py::test_hanging'" in printed
    assert "in this_is_where_it_stands" in printed
