"""A newcomer's way from the clone: README's first command, servers taken over, and a real host that uses them."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from e2e.npm import HOW_TO_INSTALL, find
from hosts.launching import HOSTS, Launch, Place
from hosts.running import Crib, crib, hosts_folder, installed, run

pytestmark = pytest.mark.full(group="hosts")

ROOT = Path(__file__).resolve().parents[2]
TOTAL_S = 60
"""How long all of it may take without downloads; on a busy machine the work counts, and not the waiting."""

_FIRST = re.compile(r"<!-- demo-command -->\n```sh\n(.+)\n```\n<!-- /demo-command -->")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all that is downloaded on the way."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--wheel-dir", folder, f"{ROOT}[demo]", "hatchling>=1.27"]
    subprocess.run(command, check=True, timeout=400)
    for own in folder.glob("toolcrib-*"):
        own.unlink()
    return folder


def test_a_newcomer_gets_from_a_clone_to_a_host_that_uses_its_servers_in_a_minute(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
):
    npm, folder = find(os.environ), hosts_folder(os.environ)
    if npm is None:
        pytest.skip(HOW_TO_INSTALL)
    if installed(folder, "claude-code") is None:
        pytest.skip("needs claude-code: run scripts/install-hosts")
    behind = crib(tmp_path / "newcomer", {})
    clone, host = tmp_path / "toolcrib", HOSTS["claude-code"]
    path = [str(folder / "claude-code" / "node_modules" / ".bin"), str(npm.node.parent)]

    def launch(place: Place) -> Launch:
        after = host.launch(place)
        (place.home / ".claude.json").write_text("{}")
        environ = _environ(place.home, path)
        _from_clone_to_demo(clone, {**environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)})
        _take_over_and_connect(place, behind, clone / ".venv" / "bin" / "toolcrib", environ)
        return after

    monkeypatch.setitem(HOSTS, "newcomer", replace(host, launch=launch))
    started, worked = monotonic(), _worked_s()
    seen = run("newcomer", npm, folder, behind, approved=True)
    took = min(monotonic() - started, _worked_s() - worked)
    assert (seen.exit_code, seen.model.faults) == (0, []), seen.said
    assert "tickets__list_tickets" in seen.answers["search"]
    assert seen.ran >= {"read", "call"}
    assert took < TOTAL_S


def _worked_s() -> float:
    """Return the seconds that programs have worked for us, those that they started and waited for too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environ(home: Path, path: Sequence[str]) -> dict[str, str]:
    python = str(Path(sys.base_prefix) / "bin")
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join([*path, python, "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _from_clone_to_demo(clone: Path, environ: Mapping[str, str]) -> None:
    """Make what a clone of this tree has, as it will be committed, and run README's first command in it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    found = _FIRST.search((clone / "README.md").read_text(encoding="utf-8"))
    assert found is not None, "README has its first command between its marks"
    said = _ran(["bash", "-euo", "pipefail", "-c", found[1]], environ, clone)
    assert "All steps held." in said


def _take_over_and_connect(place: Place, behind: Crib, program: Path, environ: Mapping[str, str]) -> None:
    """Do what a newcomer does, with a home in which Cursor has a server: init, connect claude-code."""
    place.write(".cursor/mcp.json", {"mcpServers": {"tickets": behind.tickets.entry()}})
    for words in (["init", "--yes"], ["connect", "claude-code", "--yes"]):
        _ran([str(program), *words], environ, place.project)
    entry = json.loads((place.home / ".claude.json").read_text())["mcpServers"]["toolcrib"]
    assert (entry["command"], entry["args"]) == (str(program), ["serve"]), "the config is found without being named"


def _ran(words: Sequence[str], environ: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(
        words, env=environ, cwd=folder, capture_output=True, text=True, check=False, timeout=3 * TOTAL_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
