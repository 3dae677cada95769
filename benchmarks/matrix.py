"""What passes through toolcrib, by servers and clients of several makers, each feature beside the same call directly.

Runs the cells of tests/matrix, all or some. ``--compare`` prints what differs from the recorded run, and exits with 1
if anything is lost or other that was not; ``--record`` writes the run down and docs/pass-through.md anew. ``--upgrade``
first installs the newest versions of what is tried from npm and PyPI, into a folder of their own: nothing of this
environment changes, and toolcrib itself keeps the SDK that it has.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import anyio

from measuring import day_and_commit, options, say

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

INSTALL_S = 900
_NOT_RENEWED = ("node", "zod")
"""What only carries the rest."""


def find(given: Namespace) -> Any:
    """Return the programs to try, of which the newest versions where that is asked."""
    from e2e.npm import HOW_TO_INSTALL, Npm
    from e2e.npm import find as find_npm
    from matrix.cells import Programs
    from oauth.rig import find_fastmcp

    npm = find_npm(os.environ)
    if npm is None:
        raise SystemExit(HOW_TO_INSTALL)
    if given.upgrade is None:
        return Programs(npm, find_fastmcp(os.environ))
    folder = Path(given.upgrade or Path.home() / ".cache" / "toolcrib-ci" / "newest").resolve()
    return Programs(Npm(_newest_from_npm(folder / "node")), *_newest_from_pypi(folder / "python"))


def _newest_from_npm(folder: Path) -> Path:
    wanted = json.loads((ROOT / ".ci" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    tried = ("client", "node", "sdk", "server", "server-everything")
    newest = {f"@modelcontextprotocol/{name}": "latest" for name in tried}
    newest |= {name: wanted[name] for name in _NOT_RENEWED}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": newest}), encoding="utf-8")
    say("installing the newest from npm ...")
    npm = [
        "npm",
        "install",
        "--prefix",
        str(folder),
        "--no-package-lock",
        "--no-fund",
        "--no-audit",
        "--loglevel=error",
    ]
    subprocess.run(npm, check=True, timeout=INSTALL_S, stdout=sys.stderr)
    return folder


def _newest_from_pypi(folder: Path) -> tuple[Path, Path]:
    """Return a Python with the newest FastMCP, and one with the newest SDK."""
    say("installing the newest from PyPI ...")
    environ = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    pythons: list[Path] = []
    for package in ("fastmcp", "mcp"):
        python = folder / package / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / package)], check=True, timeout=INSTALL_S)
        install = [str(python), "-m", "pip", "install", "-q", "--upgrade", package]
        subprocess.run(install, check=True, timeout=INSTALL_S, env=environ, stdout=sys.stderr)
        pythons.append(python)
    return pythons[0], pythons[1]


async def measure(given: Namespace, programs: Any) -> list[Any]:
    """Return the cells of the servers, clients and transports that are asked for."""
    from matrix.cells import CLIENTS, TRANSPORTS, cells, installed

    found: list[Any] = []
    clients = [client for client in CLIENTS if given.client in client.name]
    for server in installed(programs):
        for transport in TRANSPORTS:
            if given.server in server.name and given.transport in transport:
                say(f"running {server.name}, {transport} ...")
                found += await cells(programs, server, transport, clients)
    return found


def show(given: Namespace) -> int:
    """Run what is asked for, print it, and return the exit code."""
    from matrix.cells import versions
    from matrix.recorded import LOST, OTHER, changes, load, record, run_of, verdict

    programs = find(given)
    with tempfile.TemporaryDirectory() as data, anyio.from_thread.start_blocking_portal() as portal:
        os.environ["XDG_DATA_HOME"] = data
        cells = portal.call(measure, given, programs)
    run = run_of(day_and_commit(), versions(programs), cells)
    if given.record:
        record(run)
    if given.json:
        print(json.dumps([{**asdict(cell), "verdict": verdict(cell)} for cell in cells]))
    elif given.compare:
        before = load()
        tried = replace(before, verdicts={key: word for key, word in before.verdicts.items() if key in run.verdicts})
        print("\n".join(changes(tried, run)) or "nothing changed")
        worse = [
            key for key, word in run.verdicts.items() if word in (LOST, OTHER) and before.verdicts.get(key) != word
        ]
        return int(bool(worse))
    else:
        for cell in cells:
            print(f"{', '.join(cell.key)}: {verdict(cell)}")
            if verdict(cell) in (LOST, OTHER):
                print(f"    directly: {cell.direct}\n    through:  {cell.through}")
    return 0


def main() -> None:
    given = options(__doc__, repeat=1)
    given.add_argument("--server", default="", metavar="TEXT", help="only servers whose name has this in it")
    given.add_argument("--client", default="", metavar="TEXT", help="only clients whose name has this in it")
    given.add_argument("--transport", default="", metavar="TEXT", help="only stdio, or only HTTP")
    given.add_argument("--compare", action="store_true", help="print what differs from the recorded run")
    given.add_argument("--record", action="store_true", help="write the run down in tests and docs")
    given.add_argument(
        "--upgrade", nargs="?", const="", metavar="DIR", help="try the newest versions, installed into DIR"
    )
    parsed = given.parse_args()
    if parsed.record and parsed.upgrade is not None:
        given.error("--record takes the versions that CI installs: leave out --upgrade")
    sys.exit(show(parsed))


if __name__ == "__main__":
    main()
