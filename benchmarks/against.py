"""The CPU that a start, searches and calls cost the process of toolcrib, beside another checkout of it.

Both serve the same tools to the same raw client, each with a warm index of its own, in interleaved pairs. CPU is the
user's and the system's time of the served process alone, without its servers and without the client.
"""

import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from raw_client import RawClient

ECHO = [sys.executable, str(catalog.SERVERS / "static.py"), "1"]
CALL = {"name": "echo__echo", "arguments": {"text": "as long as a usual argument is"}}
WARM_UP = 20
MOST = Target(1.1, "ratio")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of toolcrib, with the config that it serves."""

    root: Path
    config: Path

    def served(self) -> RawClient:
        """Start it."""
        return RawClient(catalog.toolcrib_command(self.config), catalog.environ_of(self.root, self.config))

    def costs(self, queries: Sequence[str], calls: int) -> dict[str, float]:
        """Return the milliseconds of CPU of a start, and of the searches and the calls that follow."""
        with self.served() as client:
            client.open()
            client.request("tools/list", {})
            client.request("ping", {})  # a list may come before all is loaded
            started = client.cpu_ms()
            searched = self._each(client, "tool_search", [{"query": query} for query in queries])
            called = self._each(client, "tool_call", [CALL] * calls)
        return {
            "start until all is loaded": started,
            f"{len(queries)} warm tool_search": searched,
            f"{calls} warm tool_call": called,
        }

    @staticmethod
    def _each(client: RawClient, tool: str, requests: Sequence[dict[str, object]]) -> float:
        for arguments in requests[:WARM_UP]:
            client.call(tool, arguments)
        before = client.cpu_ms()
        for arguments in requests:
            result = client.call(tool, arguments)
            if result.get("isError"):
                raise RuntimeError(f"{tool} failed: {result}")
        return client.cpu_ms() - before


def prepared(root: Path, folder: Path, lists: dict[str, catalog.Tools]) -> tuple[Checkout, int]:
    """Return a checkout whose index knows all of the tools, and how many these are."""
    folder.mkdir()
    config = catalog.write_config(folder, lists, more={"echo": ECHO})
    checkout = Checkout(root, config)
    with checkout.served() as client:
        client.open()
        found = client.call("tool_search", {"query": "anything"})["structuredContent"]["total_deferred"]
    return checkout, found


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    say("listing every server once for each checkout ...")
    ours, indexed = prepared(catalog.ROOT, folder / "ours", lists)
    other, indexed_there = prepared(given.against, folder / "other", lists)
    queries = catalog.queries(lists, given.requests)
    runs = interleaved(
        given.repeat,
        {
            "ours": lambda: ours.costs(queries, given.requests),
            "other": lambda: other.costs(queries, given.requests),
        },
    )
    findings = [
        Finding(
            what,
            "ms of CPU",
            median([run[what] for run in runs["ours"]]),
            median([run[what] for run in runs["other"]]),
            "there",
            MOST,
        )
        for what in runs["ours"][0]
    ]
    pairs = {
        what: median([mine[what] / its[what] for mine, its in zip(runs["ours"], runs["other"], strict=True)])
        for what in runs["ours"][0]
    }
    show(
        findings,
        f"{note}; {indexed:,} indexed here, {indexed_there:,} there; medians of {given.repeat} interleaved pairs",
        "median of the pairs' ratios: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in pairs.items()),
        f"there: {given.against}",
        as_json=given.json,
    )


def main() -> None:
    parser = options(__doc__, repeat=7)
    catalog.add_option(parser)
    parser.add_argument("--against", type=Path, metavar="DIR", required=True, help="the other checkout")
    parser.add_argument("--requests", type=int, default=200, metavar="N", help="searches and calls (default: 200)")
    given = parser.parse_args()
    given.against = given.against.resolve()
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
