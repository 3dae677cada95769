"""A newcomer's way: the servers of one client taken over, toolcrib connected to another, and the real host uses it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from e2e.npm import HOW_TO_INSTALL, find
from hosts.launching import HOSTS, Launch, Place
from hosts.running import Crib, crib, hosts_folder, installed, run

pytestmark = [pytest.mark.slow, pytest.mark.hosts]

TOTAL_S = 60
"""How long all of it may take, the host included, without downloads."""


def test_the_servers_of_one_client_are_used_by_another_through_the_entry_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    npm, folder = find(os.environ), hosts_folder(os.environ)
    if npm is None:
        pytest.skip(HOW_TO_INSTALL)
    if installed(folder, "claude-code") is None:
        pytest.skip("needs claude-code: run scripts/install-hosts")
    behind = crib(tmp_path / "newcomer", {})
    host = HOSTS["claude-code"]

    def launch(place: Place) -> Launch:
        after = host.launch(place)
        (place.home / ".claude.json").write_text("{}")
        _take_over_and_connect(
            place, behind, [str(folder / "claude-code" / "node_modules" / ".bin"), str(npm.node.parent)]
        )
        return after

    monkeypatch.setitem(HOSTS, "newcomer", replace(host, launch=launch))
    started = monotonic()
    seen = run("newcomer", npm, folder, behind, approved=True)
    assert (seen.exit_code, seen.model.faults) == (0, []), seen.said
    assert "tickets__list_tickets" in seen.answers["search"]
    assert seen.ran >= {"read", "call"}
    assert monotonic() - started < TOTAL_S


def _take_over_and_connect(place: Place, behind: Crib, path: list[str]) -> None:
    """Do what a newcomer does, with a home in which Cursor has a server: init, connect claude-code."""
    place.write(".cursor/mcp.json", {"mcpServers": {"tickets": behind.tickets.entry()}})
    program = str(Path(sys.executable).parent)
    environ = {
        "HOME": str(place.home),
        "PATH": os.pathsep.join([*path, program, "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
    }
    for words in (["init", "--yes"], ["connect", "claude-code", "--yes"]):
        done = subprocess.run(
            [sys.executable, "-m", "toolcrib", *words], env=environ, cwd=place.project, capture_output=True, text=True,
            check=False, timeout=TOTAL_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    entry = json.loads((place.home / ".claude.json").read_text())["mcpServers"]["toolcrib"]
    assert entry["args"] == ["serve"], "the config is found without being named"
