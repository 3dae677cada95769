"""Runs the quick suite again and again as on a busy machine, and lists what failed how often.

scripts/stress --times 50 tests/gate/test_reload.py

Four tests run at a time on each core, and their worker threads and event loops are delayed (tests/delays.py), otherwise
in each run: a race that shows once in a hundred runs elsewhere shows here. The first failure of each test is printed
whole. The exit code is 1 if a test failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from patience import STRESS  # noqa: E402 - from where the tests are

TEST_S = 400
"""Seconds for one test, which has the processor for a quarter of the time at most."""


@dataclass(frozen=True)
class Failure:
    """A failure of a test, as pytest shows it, in the run with this seed."""

    test: str
    seed: int
    text: str


def run(
    seed: int, paths: Sequence[str], root: Path = ROOT, workers: int = 4 * (os.cpu_count() or 1)
) -> tuple[int, list[Failure]]:
    """Run the tests once; return how many ran, and their failures.

    Raises:
        SystemExit: there is no result: no test was found, or a module cannot be imported.

    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        options = ["-q", "-n", str(workers), f"--delays={seed}", f"--timeout={TEST_S}", "--tb=short"]
        outputs = [f"--junit-xml={report}", "-o", "junit_family=xunit1"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *outputs, *paths],
            cwd=root,
            env={**os.environ, STRESS: "yes"},
            check=False,
        )
        if done.returncode not in (0, 1):
            raise SystemExit(done.returncode)
        cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - written by pytest, just now
    failures: dict[str, Failure] = {}  # a test whose end fails too is there twice
    for case in cases:
        test = f"{case.get('file')}::{case.get('name')}"
        for problem in case:
            if problem.tag in ("failure", "error"):
                failures.setdefault(test, Failure(test, seed, problem.text or ""))
    return len({(case.get("classname"), case.get("name")) for case in cases}), list(failures.values())


def summary(times: int, tests: int, failures: Sequence[Failure]) -> str:
    """Return the first failure of each test, and how often it failed, the most frequent first."""
    by_test: dict[str, list[Failure]] = {}
    for failure in failures:
        by_test.setdefault(failure.test, []).append(failure)
    ordered = sorted(by_test.values(), key=len, reverse=True)
    firsts = [
        f"=== {first.test}\n{first.text}\nAgain: scripts/stress --times 1 --seed {first.seed} '{first.test}'\n"
        for first, *_ in ordered
    ]
    counts = [f"{len(each)} of {times}: {each[0].test}" for each in ordered]
    return "\n".join([*firsts, *counts, f"{times} runs of {tests} tests; failed: {len(ordered)}"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests, and return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/stress", description=__doc__)
    parser.add_argument("paths", metavar="PATH", nargs="*", help="tests, as pytest takes them; the quick suite if none")
    parser.add_argument("--times", type=int, default=10, help="how many runs (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the delays of the first run (default: 1)")
    options = parser.parse_args(arguments)
    tests, failures = 0, list[Failure]()
    for seed in range(options.seed, options.seed + options.times):
        print(f"--- run {seed - options.seed + 1} of {options.times}, seed {seed}", flush=True)
        tests, found = run(seed, options.paths)
        failures += found
    print(summary(options.times, tests, failures))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
