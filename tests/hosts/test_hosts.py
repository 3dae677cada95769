"""Agent hosts find and call a tool through toolcrib, each in its own way, as ``expected.py`` says.

A host that is not installed is skipped with the reason; ``scripts/install-hosts`` installs all of them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import anyio
import pytest

from e2e.npm import HOW_TO_INSTALL, find
from hosts.expected import BOTH, EVERYTHING, EXPECTED, STRUCTURED, TEXT, TODAY, Expected
from hosts.launching import HOSTS
from hosts.reading import Sent, ask, client_of, forms, reached, structured_of, text_of, told, was_found
from hosts.running import Run, crib, hosts_folder, installed, run
from toolcrib.config.loading import load
from toolcrib.policy.client_profiles import ClientProfiles

pytestmark = pytest.mark.full(group="hosts")

Runs = Callable[..., Run]

TOOLCRIBS = {"today": TODAY, "everything": EVERYTHING}

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "hosts.py"


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return what runs a host, once for each line of approval and each toolcrib; it must come to its end."""
    npm, folder = find(os.environ), hosts_folder(os.environ)

    @cache
    def started(name: str, toolcrib: str, *, approved: bool) -> Run:
        package = HOSTS[name].package
        if npm is None:
            pytest.skip(HOW_TO_INSTALL)
        if installed(folder, package) is None:
            log = folder / package / "npm.log"
            pytest.skip(log.read_text() if log.exists() else f"needs {package}: run scripts/install-hosts")
        behind = crib(tmp_path_factory.mktemp("hosts") / name, dict(TOOLCRIBS[toolcrib].config))
        return run(name, npm, folder, behind, approved=approved)

    def ended(name: str, toolcrib: str = "today", *, approved: bool) -> Run:
        seen = started(name, toolcrib, approved=approved)
        assert (seen.exit_code, seen.model.faults) == (0, []), seen.said
        return seen

    return ended


@pytest.fixture(params=HOSTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def expected(name: str) -> Expected:
    return EXPECTED[name]


@pytest.fixture
def seen(name: str, expected: Expected, runs: Runs) -> Run:
    """Return the run in which most is allowed."""
    return runs(name, approved=expected.approved is not None)


@pytest.fixture(params=TOOLCRIBS)
def toolcrib(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Sent:
    return anyio.run(ask, crib(tmp_path_factory.mktemp("hosts") / "nobody", {}).command)


def test_our_tools_or_our_name_reach_the_model(seen: Run, expected: Expected, sent: Sent):
    assert reached(seen, sent) == expected.reaches


def test_the_instructions_are_shown_as_far_as_the_table_says(seen: Run, expected: Expected, sent: Sent):
    assert told(seen, sent) == expected.instructions


def test_an_answer_is_shown_once_in_each_form_and_with_little_around_it(
    name: str, expected: Expected, runs: Runs, sent: Sent, toolcrib: str
):
    seen = runs(name, toolcrib, approved=expected.approved is not None)
    shown, expected_forms = seen.answers["search"], expected.forms(TOOLCRIBS[toolcrib])
    assert forms(shown, sent) == dict.fromkeys(expected_forms, 1)
    sizes = {"text": len(text_of(sent.search)), "structured": len(structured_of(sent.search))}
    assert len(shown) <= sum(sizes[form] for form in expected_forms) + expected.wrap


def test_a_read_only_tool_runs_unasked_in_the_ways_that_the_table_says(name: str, expected: Expected, runs: Runs):
    seen = runs(name, approved=False)
    assert seen.ran - {"own name"} == expected.unasked
    assert ("ran list_tickets" in seen.answers["read"]) == ("read" in expected.unasked)
    assert any(asked.tools for asked in seen.model.aside) == expected.judged


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if expected.approved])
def test_a_read_only_tool_runs_with_the_line_of_the_documentation(name: str, expected: Expected, seen: Run):
    assert seen.ran - {"own name"} == expected.approved
    assert not any(asked.tools for asked in seen.model.aside)


def test_the_head_of_the_prompt_is_the_same_through_the_whole_run_unless_a_list_is_to_grow_there(
    name: str, expected: Expected, runs: Runs, toolcrib: str
):
    seen = runs(name, toolcrib, approved=expected.approved is not None)
    assert (len(set(seen.heads)) > 1) == expected.head_changes(TOOLCRIBS[toolcrib])


def test_a_used_tool_can_be_called_by_its_own_name_where_the_host_follows_the_list(
    name: str, expected: Expected, runs: Runs, toolcrib: str
):
    seen = runs(name, toolcrib, approved=expected.approved is not None)
    assert ("own name" in seen.ran) == expected.own_name(TOOLCRIBS[toolcrib])


def test_toolcribs_own_table_knows_the_host_by_the_name_it_sends_and_says_the_same(
    name: str, seen: Run, expected: Expected
):
    hosts = ClientProfiles(load(seen.folder / "toolcrib.json", {"HOME": str(seen.folder)}, seen.folder), "stdio")
    [host] = [host for host in hosts.table if fnmatchcase(client_of(seen), host.clients)]
    shows = {TEXT: "text", STRUCTURED: "structured", BOTH: "both"}[expected.shows]
    assert (host.grown_list, host.shows_text_alone) == (expected.follows, True)
    assert host.shows == shows or name == "codex", "there a program of the model's own chooses"
    assert (installed(hosts_folder(os.environ), seen.host.package) or "").endswith(f"@{host.version}")


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if expected.own_search])
def test_a_search_of_the_hosts_own_finds_us_by_the_name_of_a_server(seen: Run, sent: Sent):
    assert was_found(seen, sent)


def test_the_benchmark_shows_what_was_seen_of_a_host(runs: Runs):
    seen = runs("codex-gpt-4.1", approved=False)
    command = [sys.executable, str(BENCHMARK), "--json", "--hosts", "codex-gpt-4.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    [row] = json.loads(done.stdout)["findings"]
    assert (row["reaches"], row["instructions"], row["unasked"]) == ("tools", "whole", "tool_call_read")
    assert row["skill"] == pytest.approx(len(seen.answers["skill"]), abs=4), "the time in it differs"
