"""What the official conformance suites say of one whole server, directly and through toolcrib, side by side.

Runs the suites that ``scripts/install-node-tools`` has installed, with the server and the ways of tests/conformance.
Checks are counted as passed of those that pass directly. Below the table stands each check that
passes directly and not through toolcrib; docs/conformance.md says of those why.
"""

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import anyio

from measuring import options, say

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))


@dataclass(frozen=True, slots=True)
class Row:
    """One suite against one server; ``lost`` are checks that pass directly, with what the suite says of them."""

    suite: str
    way: str
    figures: str
    lost: dict[str, str]


async def measure(given: Namespace, folder: Path) -> AsyncGenerator[Row]:
    """Yield a row for each suite directly, and then for each way through."""
    from conformance.suites import SUITES, run
    from conformance.ways import WAYS, directly, through
    from e2e.npm import HOW_TO_INSTALL, find

    npm = find(os.environ)
    if npm is None:
        raise SystemExit(HOW_TO_INSTALL)
    more = ("--scenario", given.scenario) if given.scenario else ()
    for suite in SUITES:
        if given.suite not in suite.name:
            continue
        async with directly() as url:
            direct = await run(suite, npm, url, *more)
        yield Row(suite.name, "direct", direct.figures(direct), {})
        for way in WAYS:
            if given.way in way.name:
                say(f"running {suite.name}, {way.name} ...")
                place = folder / f"{suite.name}-{way.name}".replace(" ", "-")
                place.mkdir()
                async with through(way, place) as url:
                    found = await run(suite, npm, url, *more)
                lost = {
                    f"{check.scenario}: {check.id} ({check.name})": why for check, why in found.lost(direct).items()
                }
                yield Row(suite.name, way.name, found.figures(direct), lost)


async def show(given: Namespace, folder: Path) -> None:
    """Print the rows as a Markdown table, or as JSON."""
    rows = [row async for row in measure(given, folder)]
    if given.json:
        fields = ("suite", "way", "figures", "lost")
        print(json.dumps([{name: getattr(row, name) for name in fields} for row in rows]))
        return
    print("| suite | way | passed | lost |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.suite} | {row.way} | {row.figures} | {len(row.lost) or ''} |")
    for row in rows:
        for check, why in row.lost.items():
            print(f"\n{row.suite}, {row.way}\n  {check}\n  {why}", end="")
    print()


def main() -> None:
    given = options(__doc__, repeat=1)
    given.add_argument("--suite", default="", metavar="TEXT", help="only suites whose name has this in it")
    given.add_argument("--way", default="", metavar="TEXT", help="only ways whose name has this in it")
    given.add_argument("--scenario", default="", metavar="NAME", help="only this scenario")
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(show, given.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
