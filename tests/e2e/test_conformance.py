"""The official conformance suite against toolcrib over HTTP, with the suite's tools behind it, all of them listed."""

import re
import subprocess
from pathlib import Path

import anyio
import pytest

from e2e.conformance import SERVER, Renamed, fixture_server
from e2e.npm import Npm
from online import online

pytestmark = pytest.mark.anyio

NO_PROMPTS = "it wants prompts of its own fixture"
NO_RESOURCES = "it wants resources of its own fixture"
NO_COMPLETION = "completions are of prompts and resources, which toolcrib does not serve"
NO_LOGGING = "log messages of servers stay in toolcrib: the feature is deprecated"
NO_QUESTIONS = "servers behind toolcrib are told that the client cannot be asked in the middle of a call"

EXPECTED_FAILURES = {
    **dict.fromkeys(
        ("prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
         "prompts-get-with-image"),
        NO_PROMPTS,
    ),
    **dict.fromkeys(
        ("resources-read-text", "resources-read-binary", "resources-templates-read", "resources-subscribe",
         "resources-unsubscribe"),
        NO_RESOURCES,
    ),
    "caching": f"{NO_PROMPTS} and no resources; what it asks of tools holds",
    "completion-complete": NO_COMPLETION,
    "logging-set-level": NO_LOGGING,
    "tools-call-with-logging": NO_LOGGING,
    **dict.fromkeys(
        ("tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"),
        NO_QUESTIONS,
    ),
    **dict.fromkeys(
        (f"input-required-result-{name}" for name in (
            "basic-elicitation", "basic-sampling", "basic-list-roots", "request-state", "multiple-input-requests",
            "multi-round", "non-tool-request", "result-type", "tampered-state", "capability-check",
        )),
        NO_QUESTIONS,
    ),
}  # fmt: skip
"""What toolcrib does not do, each with the reason. Any other failure is news, and so is one of these that passes."""

MUST_PASS = {
    "2025-11-25": {"server-initialize", "server-session-lifecycle", "ping", "tools-list", "dns-rebinding-protection"},
    "2026-07-28": {"server-stateless", "tools-list", "http-header-validation", "http-custom-header-server-validation"},
}
"""Scenarios that the suite surely has: an empty run is no success."""

SUMMARY = re.compile(r"^([✓✗]) (\S+): \d+ passed, \d+ failed", re.MULTILINE)


@pytest.mark.parametrize(
    ("revision", "listing"),
    [("2025-06-18", "dynamic"), ("2025-11-25", "dynamic"), ("2025-11-25", "auto"), ("2026-07-28", "auto")],
)
async def test_every_scenario_of_a_tool_server_holds(npm: Npm, tmp_path: Path, revision: str, listing: str):
    everything_listed = {"tool_search": {"default_loading_mode": "always"}}
    servers = {SERVER: fixture_server()}
    async with online(tmp_path, servers, everything_listed, listing=listing, around=Renamed) as it:
        command = npm.conformance("server", "--url", it.url, "--suite", "all", "--spec-version", revision)
        ended = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                command, capture_output=True, text=True, timeout=55, cwd=tmp_path, check=False, errors="replace"
            )
        )
    results = {name: mark == "✓" for mark, name in SUMMARY.findall(ended.stdout)}
    assert {name for name, passed in results.items() if not passed} == results.keys() & EXPECTED_FAILURES.keys(), (
        ended.stdout
    )
    assert {name for name in MUST_PASS.get(revision, ()) if results.get(name)} == MUST_PASS.get(revision, set())
