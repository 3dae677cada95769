"""The official conformance suites against one whole server, directly and through toolcrib.

Every check that passes directly passes through, but for those that docs/conformance.md names, each with its reason.
"""

from pathlib import Path

import pytest

from conformance.explained import ANY, Explained, explained, figures
from conformance.suites import SUITES, Outcome, Suite, run
from conformance.ways import WAYS, Way, directly, through
from e2e.npm import Npm

pytestmark = pytest.mark.anyio

DIRECT = {
    "0.1.16": 40,
    "0.2.0-alpha.12 at 2025-06-18": 56,
    "0.2.0-alpha.12 at 2025-11-25": 84,
    "0.2.0-alpha.12 at 2026-07-28": 152,
}
"""Checks of a server that offers everything: what a server leaves out, the suites pass over."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
async def test_what_passes_directly_passes_through(npm: Npm, tmp_path: Path, suite: Suite, way: Way):
    async with directly() as url:
        direct = await run(suite, npm, url)
    assert (direct.passed.total(), direct.failed.total()) == (DIRECT[suite.name], 0), direct.reasons
    async with through(way, tmp_path) as url:
        found = await run(suite, npm, url)
    rows = [row for row in explained() if row.is_about(suite, way.name)]
    assert unexplained(found, direct, rows) == {}
    assert stale(found, direct, rows) == []
    said = figures()
    here = (direct.figures(direct), found.figures(direct))
    assert (said[suite.name, "direct"], said[suite.name, way.name]) == here


def unexplained(found: Outcome, direct: Outcome, rows: list[Explained]) -> dict[str, str]:
    """Return the checks that are lost, and that no row is about, with what the suite says."""
    return {
        f"{check.scenario}: {check.id} ({check.name})": why
        for check, why in found.lost(direct).items()
        if not any(row.explains(check) for row in rows)
    }


def stale(found: Outcome, direct: Outcome, rows: list[Explained]) -> list[Explained]:
    """Return the rows about a check that is not lost, or that the suite which they name does not have."""
    lost = found.lost(direct)
    about = [row for row in rows if row.suite != ANY or any(map(row.explains, direct.passed))]
    return [row for row in about if not any(map(row.explains, lost))]


def test_every_reason_is_about_a_suite_and_a_way_that_are_tried():
    suites, ways = {suite.name for suite in SUITES} | {ANY}, {way.name for way in WAYS} | {ANY}
    rows = explained()
    assert [row for row in rows if row.suite not in suites or row.way not in ways or len(row.why) < 20] == []
    assert len({(row.scenario, row.check, row.suite, row.way) for row in rows}) == len(rows)
