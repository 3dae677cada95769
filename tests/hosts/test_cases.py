"""Agent hosts with few tools that are all listed, and with results longer than their models can bear (R371)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.npm import HOW_TO_INSTALL, Npm, find
from hosts import cases
from hosts.expected import EXPECTED, LOSES_THE_WAY
from hosts.launching import HOSTS
from hosts.running import Run, hosts_folder, installed, run

pytestmark = pytest.mark.full(group="hosts")

OURS = ("tool_call_read", "skill_search", "skill_get")

Started = Callable[..., Run]


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """Return what runs a host in front of a case, with the line for its approvals; it must come to its end."""
    npm, folder = find(os.environ), hosts_folder(os.environ)

    def start(name: str, case: cases.Case) -> Run:
        seen = run(
            name, _needed(npm), folder, case.behind, approved=EXPECTED[name].approved is not None, steps=case.steps
        )
        assert (seen.exit_code, seen.model.faults) == (0, []), seen.said
        return seen

    def _needed(npm: Npm | None) -> Npm:
        if npm is None:
            pytest.skip(HOW_TO_INSTALL)
        return npm

    return start


@pytest.fixture(params=HOSTS)
def name(request: pytest.FixtureRequest) -> str:
    package = HOSTS[request.param].package
    if installed(hosts_folder(os.environ), package) is None:
        pytest.skip(f"needs {package}: run scripts/install-hosts")
    return request.param


def test_few_tools_are_all_that_a_host_lists_and_are_called_by_their_own_names(
    name: str, started: Started, tmp_path: Path
):
    seen = started(name, cases.few(tmp_path / "few"))
    assert not any(ours in seen.prompt for ours in OURS)
    assert seen.ran == {"reads"}
    # One that writes runs where tool_call does.
    ways = EXPECTED[name].approved or EXPECTED[name].unasked
    assert ("ran create_ticket" in seen.answers["writes"]) == ("call" in ways)


def test_of_a_long_result_the_model_is_shown_the_beginning_and_finds_the_rest(
    name: str, started: Started, tmp_path: Path
):
    seen = started(name, cases.long(tmp_path / "long"))
    for step, first, found in (
        ("text", cases.FIRST_LINE, cases.FOUND_LINE),
        ("json", cases.FIRST_ORDER, cases.FOUND_ORDER),
    ):
        assert first in cases.plain(seen.answers[step])
        assert len(seen.answers[step]) < cases.BEARABLE
        assert (found in cases.plain(seen.answers[f"{step} found"])) == (name not in LOSES_THE_WAY)
