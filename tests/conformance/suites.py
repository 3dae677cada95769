"""The official conformance suites, run against an address, and what each of their checks came to."""

import json
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio.to_thread

from e2e.npm import Npm

SUITE_S = 240
_FOLDER = re.compile(r"(?:server-)?(?P<scenario>.+?)-\d{4}-\d\d-\d\dT[\d-]+Z")
_NO_CHECK = ("INFO", "SKIPPED")


@dataclass(frozen=True, slots=True)
class Suite:
    """One version of the suite and the revision that it speaks. ``name`` is what docs/conformance.md calls it."""

    name: str
    options: tuple[str, ...]
    is_first: bool = False
    """It is of the 0.1 line, which is another package."""

    def command(self, npm: Npm, url: str, *options: str) -> list[str]:
        run = npm.conformance_01 if self.is_first else npm.conformance
        return run("server", "--url", url, *self.options, *options)


SUITES = (
    Suite("0.1.16", ("--suite", "active"), is_first=True),
    Suite("0.2.0-alpha.12 at 2025-06-18", ("--suite", "all", "--spec-version", "2025-06-18")),
    Suite("0.2.0-alpha.12 at 2025-11-25", ("--suite", "all", "--spec-version", "2025-11-25")),
    Suite("0.2.0-alpha.12 at 2026-07-28", ("--suite", "all", "--spec-version", "2026-07-28")),
)


@dataclass(frozen=True, slots=True, order=True)
class Check:
    """One check of a scenario; several of one scenario may have the same id and name."""

    scenario: str
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How often each check passed, and how often it did not, with what the suite says about it."""

    passed: Counter[Check]
    failed: Counter[Check]
    reasons: dict[Check, str]

    def figures(self, direct: "Outcome") -> str:
        """Return how many checks pass of those that pass directly."""
        return f"{(self.passed & direct.passed).total()}/{direct.passed.total()}"

    def lost(self, direct: "Outcome") -> dict[Check, str]:
        """Return the checks that passed more often directly, each with what the suite says."""
        return {
            check: self.reasons.get(check, "the suite did not come to it")
            for check in sorted(direct.passed)
            if self.passed[check] < direct.passed[check]
        }


async def run(suite: Suite, npm: Npm, url: str, *options: str) -> Outcome:
    """Run a suite against an address."""
    passed, failed, reasons = Counter[Check](), Counter[Check](), dict[Check, str]()
    for scenario, told in await _told(suite.command(npm, url, *options)):
        check = Check(scenario, told["id"], told["name"])
        if told["status"] == "SUCCESS":
            passed[check] += 1
        elif told["status"] not in _NO_CHECK:
            failed[check] += 1
            reasons[check] = f"{told['status']}: {told.get('errorMessage', '')}"
    return Outcome(passed, failed, reasons)


async def statuses(command: list[str]) -> dict[str, str]:
    """Run one scenario and return the status of each of its checks, by id."""
    return {told["id"]: told["status"] for _, told in await _told(command)}


async def _told(command: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Run the suite and return all that it says of checks, each with its scenario."""
    return await anyio.to_thread.run_sync(_told_now, command)


def _told_now(command: list[str]) -> list[tuple[str, dict[str, Any]]]:
    with TemporaryDirectory(prefix="conformance-") as folder:
        ended = subprocess.run(
            [*command, "--output-dir", folder], capture_output=True, text=True, timeout=SUITE_S, cwd=folder,
            check=False, errors="replace",
        )  # fmt: skip
        found = [
            (match["scenario"], told)
            for file in sorted(Path(folder).rglob("checks.json"))
            if (match := _FOLDER.fullmatch(file.parent.name))
            for told in json.loads(file.read_text(encoding="utf-8"))
        ]
    assert found, ended.stdout + ended.stderr
    return found
