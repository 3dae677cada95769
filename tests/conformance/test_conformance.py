"""The official conformance suites against whole servers, directly and through toolcrib (R345).

Each run comes out as it is recorded, and each check that passes directly passes through, but for those with a reason.
``benchmarks/conformance.py`` runs everything; here are the runs that differ most in what they exercise.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance.recorded import DIRECT, PAGE, is_explained, reasons, recorded, rendered, run_of
from conformance.suites import SUITES, run
from conformance.ways import (
    BY_ERA,
    DEFAULT,
    FASTMCP,
    FASTMCP_PROXY,
    FIXTURES,
    LEGACY_SERVER,
    LISTED,
    PROXY,
    SDK,
    WAYS,
    Fixture,
    Way,
    directly,
    through,
)
from e2e.npm import Npm
from oauth.rig import HOW_TO_INSTALL_FASTMCP

NAMES = [suite.name for suite in SUITES]
DIRECTLY = {BY_ERA.name: [40, 56, 84, 152], SDK.name: [40, 56, 84, 152], FASTMCP.name: [39, 56, 81, 144]}
"""Checks that pass directly, by suite: what a server leaves out, the suites pass over."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What is run here of one server: a suite by some ways, beside the same directly."""

    server: Fixture
    suite: int
    ways: Sequence[Way]

    def __str__(self) -> str:
        return f"{self.server.name}, {SUITES[self.suite].name}"


TRIED = [
    *(Tried(BY_ERA, suite, [LISTED, PROXY, LEGACY_SERVER]) for suite in range(4)),
    *(Tried(SDK, suite, [DEFAULT]) for suite in (0, 1)),
    *(Tried(SDK, suite, [DEFAULT, LISTED]) for suite in (2, 3)),
    *(Tried(FASTMCP, suite, [DEFAULT]) for suite in (2, 3)),
]
ALWAYS = {(SDK.name, 0), (SDK.name, 3)}
"""The oldest and the newest suite at one server: these run for every change, the others with their group."""


def marked(tried: Tried) -> Any:
    marks = () if (tried.server.name, tried.suite) in ALWAYS else pytest.mark.full(group="conformance")
    return pytest.param(tried, marks=marks)


@pytest.mark.anyio
@pytest.mark.parametrize("tried", [marked(tried) for tried in TRIED], ids=str)
async def test_what_passes_directly_passes_through(npm: Npm, tmp_path: Path, tried: Tried):
    command, suite = tried.server.command(os.environ), SUITES[tried.suite]
    if command is None:
        pytest.skip(HOW_TO_INSTALL_FASTMCP)
    expected = recorded()
    async with directly(command) as url:
        for _ in range(3):
            # A server may ask on a stream that its client, the suite, is just opening: the question is lost, and the
            # two wait for each other. That says nothing of what is between them.
            direct = await run(suite, npm, url)
            found = {DIRECT: run_of(tried.server, suite.name, DIRECT, direct, direct)}
            if found[DIRECT].result == expected[tried.server.name, suite.name, DIRECT].result:
                break
    for way in tried.ways:
        folder = tmp_path / way.name
        folder.mkdir()
        async with through(way, folder, command) as url:
            outcome = await run(suite, npm, url)
        found[way.name] = run_of(tried.server, suite.name, way.name, outcome, direct)
    assert {name: one.result for name, one in found.items()} == {
        name: expected[tried.server.name, suite.name, name].result for name in found
    }, direct.reasons


def test_every_server_and_suite_is_recorded_by_every_way_that_the_page_compares():
    ways = [DIRECT, DEFAULT.name, LISTED.name, FASTMCP_PROXY]
    runs = recorded()
    assert [
        key for server in FIXTURES for suite in NAMES for way in ways if (key := (server.name, suite, way)) not in runs
    ] == []
    assert {
        server.name: [runs[server.name, suite, DIRECT].passed for suite in NAMES] for server in FIXTURES
    } == DIRECTLY


def test_every_lost_check_has_a_reason_and_every_reason_lost_checks():
    why = reasons()
    lost = [(run, check) for run in recorded().values() if is_explained(run) for check in run.lost]
    assert [(run.key, check) for run, check in lost if not any(reason.explains(run, check) for reason in why)] == []
    assert [reason for reason in why if not any(reason.explains(run, check) for run, check in lost)] == []
    names = ({server.name for server in FIXTURES}, {*NAMES}, {way.name for way in WAYS})
    given = [(reason.servers, reason.suites, reason.ways) for reason in why]
    assert [one for each in given for one, known in zip(each, names, strict=True) if not known.issuperset(one)] == []


def test_the_page_says_what_is_recorded():
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page, [*recorded().values()], reasons())


def test_by_default_only_what_needs_a_listed_tool_is_lost_besides_what_is_lost_with_all_listed():
    runs = recorded()
    listed = {
        (server, suite, check) for (server, suite, way), run in runs.items() if way == LISTED.name for check in run.lost
    }
    more = {
        check.partition(": ")[0]
        for (server, suite, way), run in runs.items()
        if way == DEFAULT.name
        for check in run.lost
        if (server, suite, check) not in listed
    }
    assert more == {"json-schema-2020-12", "http-custom-header-server-validation"}
