"""What the official conformance suites say of whole servers, directly and through toolcrib, side by side.

Runs the suites that ``scripts/install-node-tools`` has installed, with the servers and the ways of tests/conformance.
Checks are counted as passed of those that pass directly. Below the table stands each check that
passes directly and not through toolcrib; docs/conformance.md says of those why.
"""

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from measuring import day_and_commit, options, say

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))


async def measure(given: Namespace, folder: Path) -> AsyncGenerator[tuple[Any, dict[str, str]]]:
    """Yield a run for each server and suite directly, and then by each way, with what the suite says of lost checks."""
    from conformance.recorded import DIRECT, run_of
    from conformance.suites import SUITES, run
    from conformance.ways import FIXTURES, directly
    from e2e.npm import HOW_TO_INSTALL, find

    npm = find(os.environ)
    if npm is None:
        raise SystemExit(HOW_TO_INSTALL)
    when = day_and_commit()
    more = ("--scenario", given.scenario) if given.scenario else ()
    for server in FIXTURES:
        command = server.command(os.environ)
        if command is None or given.server not in server.name:
            continue
        for suite in SUITES:
            if given.suite not in suite.name:
                continue
            async with directly(command) as url:
                direct = await run(suite, npm, url, *more)
            yield run_of(server, suite.name, DIRECT, direct, direct, when), {}
            for way, opened in ways(server, command, folder / f"{server.name}-{suite.name}"):
                if given.way in way:
                    say(f"running {server.name}, {suite.name}, {way} ...")
                    async with opened() as url:
                        found = await run(suite, npm, url, *more)
                    said = {f"{check.scenario}: {check.id}": why for check, why in found.lost(direct).items()}
                    yield run_of(server, suite.name, way, found, direct, when), said


Opened = Callable[[], AbstractAsyncContextManager[str]]


def ways(server: Any, command: list[str], folder: Path) -> list[tuple[str, Opened]]:
    """Return the ways to a server by name: all to the first, and to the others those that their users go."""
    from conformance.ways import BY_ERA, DEFAULT, FASTMCP_PROXY, LISTED, WAYS, through, through_fastmcp
    from oauth.rig import find_fastmcp

    found: list[tuple[str, Opened]] = []
    for way in WAYS if server is BY_ERA else (DEFAULT, LISTED):
        place = folder / way.name
        place.mkdir(parents=True)
        found.append((way.name, partial(through, way, place, command)))
    if fastmcp := find_fastmcp(os.environ):
        found.append((FASTMCP_PROXY, partial(through_fastmcp, fastmcp, command)))
    return found


async def show(given: Namespace, folder: Path) -> None:
    """Print the runs as a Markdown table, or as JSON, and record them if that is asked."""
    from conformance.recorded import record

    runs = [found async for found in measure(given, folder)]
    if given.record:
        record([run for run, _ in runs])
    if given.json:
        print(json.dumps([{**asdict(run), "said": said} for run, said in runs]))
        return
    print("| server | suite | way | passed | lost |\n|---|---|---|---|---|")
    for run, _ in runs:
        print(f"| {run.server} | {run.suite} | {run.way} | {run.passed}/{run.of} | {sum(run.lost.values()) or ''} |")
    for run, said in runs:
        for check, why in said.items():
            print(f"\n{run.server}, {run.suite}, {run.way}\n  {check}\n  {why}", end="")
    print()


def main() -> None:
    given = options(__doc__, repeat=1)
    given.add_argument("--server", default="", metavar="TEXT", help="only servers whose name has this in it")
    given.add_argument("--suite", default="", metavar="TEXT", help="only suites whose name has this in it")
    given.add_argument("--way", default="", metavar="TEXT", help="only ways whose name has this in it")
    given.add_argument("--scenario", default="", metavar="NAME", help="only this scenario")
    given.add_argument("--record", action="store_true", help="write the runs down in tests and docs")
    parsed = given.parse_args()
    if parsed.record and parsed.scenario:
        given.error("--record takes whole suites: leave out --scenario")
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(show, parsed, Path(folder))


if __name__ == "__main__":
    main()
