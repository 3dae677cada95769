"""Repeats a failed test alone, so that a real fault fails the run and a busy moment does not.

    pytest -n auto --rerun-failed=FOLDER

A test that failed, ran out of time or crashed its worker is repeated twice, each time in a fresh process with nothing
beside it. If either repetition fails, the test is broken. If both pass, it is unstable: its first failure is printed
whole, and written to a file in ``FOLDER``. The run fails if a test is broken, if ``FOLDER`` then has more than two
files (several runs may share it), or if an unstable test is listed in tests/unstable.toml, that is, has been seen
before. Of a crash only the name of the worker is known: what it printed last, or where it stood as it ran out of time,
is further up.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

REPETITIONS = 2
MOST_UNSTABLE = 2
"""How many unstable tests a run may have."""

MOST_REPEATED = 10
"""How many failed tests are repeated: more are one fault that broke many, and the run has failed anyway."""

REPETITION_S = 3700
"""How long one repetition may take, in seconds; pytest-timeout ends every test before that."""

LISTED = Path("tests", "unstable.toml")
"""The tests that were unstable before and whose cause has not been mended yet, below the root."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--rerun-failed",
        metavar="FOLDER",
        type=Path,
        help="repeat failed tests alone; those that pass then are reported in FOLDER and do not fail the run",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Repeat what failed in the process that reports, where that is asked for."""
    folder = config.getoption("rerun_failed")
    if folder is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reruns(config, folder))


def listed(file: Path) -> set[str]:
    """Return the names of the tests in a file like tests/unstable.toml."""
    if not file.exists():
        return set()
    return {each["name"] for each in tomllib.loads(file.read_text(encoding="utf-8")).get("unstable", ())}


@dataclass(frozen=True)
class Unstable:
    """A test that failed and passed alone: its node id, and its failure as pytest shows it."""

    node_id: str
    failure: str

    @property
    def name(self) -> str:
        """The node id without parameters."""
        return self.node_id.partition("[")[0]

    @property
    def entry(self) -> str:
        """The entry for tests/unstable.toml, with the first lines of the failure."""
        lines = self.failure.splitlines()
        lines = [line for line in lines if line.startswith("E ")] or lines
        facts = {"name": self.name, "date": f"{datetime.now(UTC):%Y-%m-%d}", "lines": "\n".join(lines[:3])}
        # A string of JSON is one of TOML but for surrogate pairs and this control character.
        strings = {
            key: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for key, value in facts.items()
        }
        return "[[unstable]]\n" + "".join(f"{key} = {string}\n" for key, string in strings.items())


class Reruns:
    """Repeats what failed in a session. ``folder`` gets a file for each unstable test."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._unstable: list[Unstable] = []
        self._reasons: list[str] = []

    # Last, that is, after the workers of pytest-xdist have ended; the summary is printed after it.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Repeat what failed, and let the session end well if all of it is unstable and that is still acceptable."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        reports = [report for key in ("failed", "error") for report in reporter.stats.get(key, ())]
        are_of_tests = all(isinstance(report, pytest.TestReport) for report in reports)
        are_all = session.testsfailed == len(reports) and not session.shouldfail and not session.shouldstop
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not are_of_tests or not are_all:
            return  # ended early, a module could not be collected, or something else than a test failed
        node_ids = list(dict.fromkeys(report.nodeid for report in reports))
        if len(node_ids) > MOST_REPEATED:
            self._reasons.append(f"{len(node_ids)} tests failed; no more than {MOST_REPEATED} are repeated")
            return
        reporter.write_line("")
        broken = {each for each in node_ids if not all(self._passes_alone(each, reporter) for _ in range(REPETITIONS))}
        self._separate(reports, broken, reporter)
        self._write_files()
        if not broken and not self._reasons:
            session.exitstatus = pytest.ExitCode.OK

    def _passes_alone(self, node_id: str, reporter: pytest.TerminalReporter) -> bool:
        options = ["-q", "-n", "0", "-m", "", "-p", "no:cacheprovider", "--color=no"]
        for option in ("hypothesis-profile", "hypothesis-seed"):  # the inputs of the first run
            value = self._config.getoption(option.replace("-", "_"), default=None)
            options += [] if value is None else [f"--{option}={value}"]
        reporter.write_line(f"repeating {node_id} alone")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, node_id],
                cwd=self._config.rootpath,
                env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=REPETITION_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reporter.write_line(f"no end after {REPETITION_S} s")
            return False
        # A test that is skipped the second time has shown nothing.
        passes = done.returncode == 0 and re.search(r"^1 passed\b", done.stdout, re.MULTILINE) is not None
        reporter.write_line("passed" if passes else done.stdout + done.stderr)
        return passes

    def _separate(
        self, reports: Iterable[pytest.TestReport], broken: set[str], reporter: pytest.TerminalReporter
    ) -> None:
        """Have pytest count unstable tests by themselves, not among those that failed."""
        parts: dict[str, list[pytest.TestReport]] = {}
        for report in reports:
            if report.nodeid not in broken:
                parts.setdefault(report.nodeid, []).append(report)
        for key in ("failed", "error"):
            if remaining := [each for each in reporter.stats.pop(key, []) if each.nodeid in broken]:
                reporter.stats[key] = remaining
        reporter._add_stats("unstable", [each[0] for each in parts.values()])
        self._unstable = [Unstable(node_id, "\n".join(map(_shown, each))) for node_id, each in parts.items()]

    def _write_files(self) -> None:
        """Write a file for each unstable test, and note why they fail the run, if they do."""
        if not self._unstable:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        number = len(list(self._folder.iterdir()))
        for test in self._unstable:
            number += 1
            text = f"{test.node_id}\n\n{test.failure}\n\n{test.entry}\n"
            (self._folder / f"{number:02}.txt").write_text(text, encoding="utf-8", errors="replace")
        if number > MOST_UNSTABLE:
            self._reasons.append(f"{number} tests are unstable; a run may have {MOST_UNSTABLE}")
        for name in sorted(listed(self._config.rootpath / LISTED) & {test.name for test in self._unstable}):
            self._reasons.append(f"{name} is listed in {LISTED.as_posix()}: its cause has to be mended")

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print each unstable test with its first failure and its entry, and why the run fails nevertheless."""
        if self._unstable:
            terminalreporter.write_sep("=", "unstable", yellow=True)
        for test in self._unstable:
            terminalreporter.write_sep("_", test.node_id, yellow=True)
            terminalreporter.write_line(f"{test.failure}\nIt passes alone. For {LISTED.as_posix()}:\n{test.entry}")
        for reason in self._reasons:
            terminalreporter.write_line(f"This run fails: {reason}", red=True)


def _shown(report: pytest.TestReport) -> str:
    """Return a failure as pytest shows it, with what the test has printed and logged."""
    sections = [f"--- {title}\n{text}" for title, text in report.sections]
    return "\n".join([report.longreprtext, *sections])
