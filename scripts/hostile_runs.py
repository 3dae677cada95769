"""Runs the hostile tests at full count and writes the results to docs/reliability.md.

scripts/hostile --full clocks tenants

Knows how tests are run and how the page is laid out; never knows what a test does. Tests that were not run keep their
rows. The exit code is 1 if a test failed.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "hostile")]

from counts import THREATS, Threat  # noqa: E402 - from where the tests are

from patience import FULL  # noqa: E402 - likewise

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- begin, written by scripts/hostile -->", "<!-- end -->"
HEAD = (
    "name",
    "threat",
    "what is tried",
    "goal",
    "goal met",
    "count",
    "tests",
    "failures",
    "worst",
    "seconds",
    "processor",
    "date",
)


@dataclass(frozen=True)
class Outcome:
    """The results of the tests of one name. ``worst`` is the worst results they recorded, or why there are none.

    ``is_short`` is whether a test that passed recorded that it missed the goal; ``count`` is the total number of
    iterations that the tests recorded.
    """

    tests: int
    failures: int
    worst: tuple[str, ...]
    seconds: float
    is_short: bool = False
    count: int = 0

    @property
    def goal_met(self) -> str:
        """Whether the goal was met, as the page shows it: a dash if nothing was run."""
        if not self.tests and not self.failures:
            return "-"
        return "**no**" if self.failures or self.is_short else "yes"


def outcome_of(report: str) -> Outcome:
    """Return the results in a JUnit XML report of pytest; a report in which no test ran is a failure."""
    cases = list(ET.fromstring(report).iter("testcase"))  # noqa: S314 - pytest has just written it
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    told = [(each.get("name", ""), each.get("value", "")) for case in cases for each in case.iter("property")]
    worst = tuple(dict.fromkeys(value for name, value in told if name == "worst"))
    count = sum(int(value) for name, value in told if name == "count")
    seconds = sum(float(case.get("time", 0)) for case in cases)
    if len(cases) == len(skipped):
        return Outcome(0, 1, ("no test ran",), seconds)
    return Outcome(len(cases) - len(skipped), len(failed), worst, seconds, ("goal met", "False") in told, count)


def run(threat: Threat, *, full: bool) -> Outcome:
    """Run the tests of one name."""
    environment = {**os.environ, **({FULL: "1"} if full else {})}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "",
            "-o",
            "junit_family=xunit1",
            f"--junitxml={report}",
        ]
        began = time.monotonic()
        subprocess.run([*command, *threat.tests], cwd=ROOT, env=environment, check=False)
        if not report.exists():  # a test that hangs ends the process
            return Outcome(0, 1, ("pytest ended without a report",), time.monotonic() - began)
        return outcome_of(report.read_text(encoding="utf-8"))


def row(name: str, outcome: Outcome, processor: str, date: str) -> str:
    """Return one line of the page."""
    threat = THREATS[name]
    worst = "; ".join(outcome.worst) or "-"
    count = f"{outcome.count:,} {threat.unit}" if outcome.count else "-"
    cells = (
        name,
        threat.number,
        threat.what,
        threat.goal,
        outcome.goal_met,
        count,
        outcome.tests,
        outcome.failures,
        worst,
        f"{outcome.seconds:.0f}",
        processor,
        date,
    )
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def missing_rows(page: str) -> dict[str, str]:
    """Return rows for threats that the page lacks: what is tried, and that it was not run in full."""
    names = [name for name in THREATS if f"\n| {name} |" not in page]
    return {name: row(name, Outcome(0, 0, ("not run in full yet",), 0), "-", "-") for name in names}


def with_rows(page: str, rows: dict[str, str]) -> str:
    """Return the page with these rows replaced; other rows stay if their threat still exists."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    kept = {found[1]: found[0] for found in re.finditer(r"^\| (\w+) \|.*$", table, re.MULTILINE)}
    lines = {name: rows.get(name) or kept.get(name) for name in THREATS}
    head = "| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD)
    body = "\n".join(line for line in lines.values() if line)
    return f"{before}{BEGIN}\n\n{head}\n{body}\n\n{END}{after}"


def processor() -> str:
    """Return the number and model of this machine's processors."""
    named = ""
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        named = found[1] if found else ""
    return f"{os.cpu_count()} x {' '.join((named or platform.machine()).split())}"


def main(arguments: Sequence[str]) -> int:
    """Run the chosen tests, and update the page after a full run."""
    parser = argparse.ArgumentParser(prog="scripts/hostile", description="Run hostile tests by name.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(THREATS)}; none: all")
    parser.add_argument("--full", action="store_true", help="run at full count and write docs/reliability.md")
    parser.add_argument("--list", action="store_true", help="list the names and run nothing")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.names if name not in THREATS]:
        parser.error(f"no such name: {', '.join(unknown)}; there are {', '.join(THREATS)}")
    if chosen.list:
        for name, threat in THREATS.items():
            print(f"{name}: {threat.what} ({threat.few:,}, in full {threat.full:,} {threat.unit})")
        return 0
    failures = 0
    for name in chosen.names or THREATS:
        outcome = run(THREATS[name], full=chosen.full)
        failures += outcome.failures
        said = f"{outcome.tests} tests, {outcome.failures} failed, goal met: {outcome.goal_met}"
        print(f"{name}: {said}; {'; '.join(outcome.worst)}")
        if chosen.full:
            line = row(name, outcome, processor(), time.strftime("%Y-%m-%d", time.gmtime()))
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(with_rows(page, {**missing_rows(page), name: line}), encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
