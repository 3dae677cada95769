"""The first start with servers that were never seen before, some of them slow or hanging, and all later starts.

First: what a search finds and says once it has waited as long as it may. Then: from the start to the answer to a
search, and the CPU time of toolcrib until then, at the last starts beside the second, in turn. The hanging servers come
first in the config, the slow ones next: the worst order for all the others.
"""

import json
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from raw_client import RawClient

TOOLS = 5
"""Tools of each server."""

HANGS_S = 3600
QUERY = "find a record of healthy0"
_ROUNDS = 5
"""How many of the last starts are measured."""

_SETTLED_S = 60


@dataclass(frozen=True)
class Start:
    """One start until a search was answered."""

    wall_ms: float
    cpu_ms: float
    tools: int
    note: str


def commands(folder: Path, given: Namespace) -> Iterator[tuple[str, list[str]]]:
    """Yield the servers, those that do harm first."""
    kinds = {"hanging": (given.hanging, HANGS_S), "slow": (given.slow, given.slow_s), "healthy": (given.healthy, 0)}
    for kind, (count, seconds) in kinds.items():
        for number in range(count):
            file = folder / f"{kind}{number}.json"
            file.write_text(json.dumps({"tools": [tool(f"{kind}{number}", each) for each in range(TOOLS)]}))
            yield (
                f"{kind}{number}",
                [sys.executable, "-S", str(catalog.SERVERS / "listing.py"), str(file), str(seconds)],
            )


def tool(server: str, number: int) -> Mapping[str, Any]:
    """Return one tool of a server."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    return {"name": f"find_{number}", "description": f"Find record {number} of {server}.", "inputSchema": schema}


def searched(client: RawClient, began: float) -> Start:
    """Search, and return what came of it."""
    answer = client.call("tool_search", {"query": QUERY})["structuredContent"]
    wall_ms = (time.perf_counter() - began) * 1000
    return Start(wall_ms, client.cpu_ms(), answer["total_deferred"], answer.get("note", ""))


def first_start(command: list[str], given: Namespace) -> tuple[Start, Start]:
    """Return the first search of the first start, and one when only the hanging servers are missing."""
    all_but_hanging = TOOLS * (given.healthy + given.slow)
    began = time.perf_counter()
    with RawClient(command) as client:
        client.open()
        first = searched(client, began)
        last = first
        while last.tools < all_but_hanging and time.perf_counter() < began + _SETTLED_S:
            time.sleep(0.5)
            last = searched(client, began)
        time.sleep(max(0.0, began + 15 - time.perf_counter()))  # by then the hanging ones are known to hang
    return first, last


def later_start(command: list[str]) -> Start:
    """Return a search right after a start."""
    began = time.perf_counter()
    with RawClient(command) as client:
        client.open()
        client.request("tools/list", {})
        return searched(client, began)


def measure(given: Namespace, folder: Path) -> None:
    cache, kept = folder / "cache", folder / "kept"
    servers = dict(commands(folder, given))
    command = catalog.toolcrib_command(catalog.write_servers(folder, servers, {"limits": {}, "cache_dir": str(cache)}))
    (folder / "again").mkdir()
    again = catalog.write_servers(folder / "again", servers, {"limits": {}})

    def second() -> Start:
        """Start with the index as the first start has left it."""
        shutil.rmtree(folder / "again" / "cache", ignore_errors=True)
        shutil.copytree(kept, folder / "again" / "cache")
        return later_start(catalog.toolcrib_command(again))

    say("the first start ...")
    first, settled = first_start(command, given)
    shutil.copytree(cache, kept)
    rounds = max(1, min(_ROUNDS, given.repeat - 2))
    for number in range(2, given.repeat - rounds + 1):
        say(f"start {number} ...")
        later_start(command)
    say("the last starts, beside the second ...")
    runs = interleaved(rounds, {"second": second, "last": lambda: later_start(command)})
    wall, cpu = (
        {name: median([getattr(start, what) for start in starts]) for name, starts in runs.items()}
        for what in ("wall_ms", "cpu_ms")
    )
    last, target = f"start {given.repeat}", Target(1.15, "ratio")
    healthy = TOOLS * given.healthy
    show(
        [
            Finding("first start to the answer to a search", "s", first.wall_ms / 1000, target=Target(11.5)),
            Finding("tools that it finds", "tools", first.tools, healthy, "of healthy servers"),
            Finding(f"{last} to the answer to a search", "ms", wall["last"], wall["second"], "start 2", target),
            Finding("CPU time of toolcrib until then", "ms", cpu["last"], cpu["second"], "start 2", target),
        ],
        f"{given.healthy} healthy servers, {given.slow} that take {given.slow_s:g} s, {given.hanging} that hang; "
        f"medians of the last {rounds} starts, and of as many with the index as the first start has left it",
        f"the first search says: {first.note}",
        f"after {settled.wall_ms / 1000:.1f} s it finds {settled.tools} tools and says: {settled.note}",
        f"{last} finds {runs['last'][-1].tools} tools and says: {runs['last'][-1].note}",
        as_json=given.json,
    )


def main() -> None:
    parser = options(__doc__, repeat=20)
    parser.add_argument("--healthy", type=int, default=20, metavar="N", help="servers that answer at once")
    parser.add_argument("--slow", type=int, default=6, metavar="N", help="servers that answer late")
    parser.add_argument("--slow-s", type=float, default=6.0, metavar="S", help="how late")
    parser.add_argument("--hanging", type=int, default=4, metavar="N", help="servers that never answer")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
