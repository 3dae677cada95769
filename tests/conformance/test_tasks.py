"""The official scenarios for tasks of 2026-07-28, directly and through toolcrib (SEP-2663).

The suite leaves them out unless they are named, so docs/conformance.md does not count them.
"""

import sys
from pathlib import Path

import pytest

from conformance.suites import Suite, run
from conformance.ways import LISTED, PROXY, Way, directly, through
from e2e.npm import Npm

pytestmark = [pytest.mark.anyio, pytest.mark.full(group="conformance")]

COMMAND = [sys.executable, str(Path(__file__).with_name("tasks_server.py"))]
SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
WAITED_FOR = "sep-2663-server-returns-missing-capability-when-required"
"""A tool that runs as a task only is called for a client that knows no tasks: toolcrib waits for it (ADR 70)."""


@pytest.mark.parametrize("way", [LISTED, PROXY], ids=lambda way: way.name)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_what_passes_directly_passes_through(npm: Npm, tmp_path: Path, scenario: str, way: Way):
    suite = Suite("tasks", ("--scenario", scenario))
    async with directly(COMMAND) as url:
        direct = await run(suite, npm, url)
    async with through(way, tmp_path, COMMAND) as url:
        found = await run(suite, npm, url)

    lost = {check.id: why for check, why in found.lost(direct).items()}
    excused = lost.keys() - {"sep-2663-server-returns-missing-capability-data-shape"}
    assert direct.failed.total() == 0, direct.reasons
    assert excused == ({WAITED_FOR} if scenario == "tasks-required-task-error" else set()), lost
