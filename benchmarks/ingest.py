"""How long the event loop stands still while a server's large tool list arrives and is taken in.

The worst delay of a task that wants to run every millisecond: while toolcrib reads, checks, stores and offers the
list, beside the SDK's own stdio client and its typed list_tools. Each measurement is a process of its own.
"""

import gc
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from toolcrib.base.model import Caller
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.config.loading import load
from toolcrib.config.settings import StdioTarget
from toolcrib.gateway.composition import open_gateway
from toolcrib.gateway.runtime import Runtime
from toolcrib.policy.sessions import RunActivations, Session

TARGETS_MS = {4: Target(50), 25: Target(150)}
TICK_S = 0.001


async def worst_delay_ms(work: Callable[[], Awaitable[int]]) -> tuple[float, int]:
    """Return by how much the slowest tick came too late while ``work`` ran, and what it returned."""
    worst, result = 0.0, 0

    async def tick() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await anyio.sleep(TICK_S)
            worst = max(worst, time.perf_counter() - before - TICK_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        result = await work()
        tasks.cancel_scope.cancel()
    return worst * 1000, result


async def once_toolcrib(config: Path) -> None:
    """Print the worst delay while a server is listed for the first time, and how many tools were found then."""
    settings = load(config, dict(os.environ), config.parent)
    session = Session("benchmark", Caller(), RunActivations(), growing=True)
    async with open_gateway(settings, Runtime(), skills=False) as gateway:
        crib = gateway.tools

        async def listed() -> int:
            return (await crib.search_tools(session, SearchRequest("anything"), "signature")).total_deferred

        print(*await worst_delay_ms(listed))


async def once_sdk(config: Path) -> None:
    """Print the worst delay while the SDK's client lists the same server, and how many tools it got."""
    server = load(config, dict(os.environ), config.parent).servers["large"].target
    assert isinstance(server, StdioTarget)
    async with Client(StdioServerParameters(command=server.command, args=list(server.args)), mode="legacy") as client:

        async def listed() -> int:
            return len((await client.list_tools()).tools)

        print(*await worst_delay_ms(listed))


ONCE = {"toolcrib": once_toolcrib, "sdk": once_sdk}


def in_a_process(name: str, folder: Path) -> tuple[float, int]:
    """Run one of :data:`ONCE` in a fresh process, with nothing indexed yet."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        done = subprocess.run(
            [sys.executable, __file__, "--once", name, "--config", str(folder / "mcp.json")],
            env={**os.environ, "TOOLCRIB_CACHE_DIR": cache},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    delay, count = done.stdout.split()
    return float(delay), int(count)


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    found: list[Finding] = []
    for megabytes in given.sizes:
        tools = catalog.of_bytes(lists, megabytes * 1_000_000)
        catalog.write_config(folder, {"large": tools}, {"cache_dir": None})
        say(f"{megabytes} MB, {len(tools):,} tools ...")
        runs = interleaved(given.repeat, {name: partial(in_a_process, name, folder) for name in ONCE})
        assert all(count == len(tools) for each in runs.values() for _, count in each), "not all tools arrived"
        delays = {name: median([delay for delay, _ in each]) for name, each in runs.items()}
        what = f"{megabytes} MB, {len(tools):,} tools: loop stands still"
        found.append(
            Finding(what, "ms", delays["toolcrib"], delays["sdk"], "SDK client, typed", TARGETS_MS.get(megabytes))
        )
    show(found, f"{note}, repeated under other names; medians of {given.repeat} runs", as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=5)
    catalog.add_option(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 25], metavar="MB", help="sizes of the list")
    parser.add_argument("--once", choices=ONCE, help="print one measurement of --config, for use by this script")
    parser.add_argument("--config", type=Path)
    given = parser.parse_args()
    if given.once:
        gc.freeze()  # as the product does when it has started
        anyio.run(ONCE[given.once], given.config)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
