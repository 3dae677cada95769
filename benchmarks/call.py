"""A tool call through toolcrib over stdio, beside the direct call and FastMCP's proxy.

One SDK client calls the same SDK server in four ways, in turn: directly, through toolcrib under the tool's own name,
through toolcrib's tool_call, and through FastMCP's proxy (left out where fastmcp is not installed). Then with fifty
callers at a time. In every way the server is spoken to in the same protocol era.
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import catalog
from measuring import Finding, Target, interleaved_async, median, options, say, show

ECHO = [sys.executable, str(catalog.SERVERS / "static.py"), "1"]
ARGUMENTS = {"text": "as long as a usual argument is"}
WARM_UP = 50
MODES = {"legacy": "legacy", "modern": "auto"}
"""The protocol era in which the server is called -> the client's mode for it."""

Call = Callable[[], Awaitable[Any]]


async def connect(stack: AsyncExitStack, command: list[str], mode: str) -> Client:
    """Start a server and shake hands with it; what it says on stderr is not shown."""
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    nowhere: Any = subprocess.DEVNULL  # the SDK asks for a file, and hands it to what takes this too
    client = await stack.enter_async_context(Client(stdio_client(parameters, errlog=nowhere), mode=mode))
    await client.list_tools()
    return client


async def ways(stack: AsyncExitStack, config: Path, era: str) -> dict[str, Call]:
    """Return the ways to call the tool, each ready to be used."""
    mode = MODES[era]
    direct = await connect(stack, ECHO, mode)
    crib = await connect(stack, catalog.toolcrib_command(config), mode)
    through = {"name": "echo__echo", "arguments": ARGUMENTS}
    calls: dict[str, Call] = {
        "direct": partial(direct.call_tool, "echo", ARGUMENTS),
        "own name": partial(crib.call_tool, "echo__echo", ARGUMENTS),
        "tool_call": partial(crib.call_tool, "tool_call", through),
    }
    if importlib.util.find_spec("fastmcp"):
        proxy = [sys.executable, str(catalog.SERVERS / "fastmcp_proxy.py"), *ECHO]
        calls["FastMCP"] = partial((await connect(stack, proxy, mode)).call_tool, "echo", ARGUMENTS)
    for name, call in calls.items():
        result = await call()
        assert not result.is_error, f"{name}: {result.content}"
    await crib.list_tools(cache_mode="refresh")  # the tool is listed now: else the client lists after every call
    return calls


async def latency(call: Call, number: int) -> float:
    """Return the median milliseconds of calls one after the other."""
    taken: list[float] = []
    for _ in range(number):
        began = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - began) * 1000)
    return median(taken)


async def throughput(call: Call, number: int, callers: int) -> float:
    """Return how many calls a second are answered to this many callers at a time."""
    left = iter(range(number))

    async def caller() -> None:
        for _ in left:
            await call()

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(callers):
            tasks.start_soon(caller)
    return number / (time.perf_counter() - began)


def findings(milliseconds: Mapping[str, float], per_second: Mapping[str, float], callers: int) -> list[Finding]:
    found = [
        Finding(f"{name}, {against}", "ms", milliseconds[name], milliseconds[against], against, Target(most, "ratio"))
        for against, most in (("direct", 1.8), ("FastMCP", 1.0))
        for name in ("own name", "tool_call")
        if against in milliseconds
    ]
    found += [
        Finding(f"{callers} callers, {name}", "calls/s", per_second[name], per_second[against], against)
        for against in ("direct", "FastMCP")
        for name in ("own name", "tool_call")
        if against in per_second
    ]
    return found


async def measure(given: Namespace, folder: Path) -> None:
    config = catalog.write_servers(folder, {"echo": ECHO}, {"servers": {"echo": {"protocol": given.era}}})
    catalog.index(config)
    async with AsyncExitStack() as stack:
        calls = await ways(stack, config, given.era)
        if "FastMCP" not in calls:
            say("fastmcp is not installed: no comparison with it")
        each_alone = {name: partial(latency, call, given.calls) for name, call in calls.items()}
        await interleaved_async(1, {name: partial(latency, call, WARM_UP) for name, call in calls.items()})
        alone = await interleaved_async(given.repeat, each_alone)
        together = await interleaved_async(
            given.repeat, {name: partial(throughput, call, given.calls, given.callers) for name, call in calls.items()}
        )
    show(
        findings(
            {name: median(each) for name, each in alone.items()},
            {name: median(each) for name, each in together.items()},
            given.callers,
        ),
        f"medians of {given.repeat} rounds of {given.calls} calls each way; {given.era} protocol era",
        as_json=given.json,
    )


def main() -> None:
    parser = options(__doc__, repeat=9)
    parser.add_argument("--calls", type=int, default=200, metavar="N", help="calls a round (default: 200)")
    parser.add_argument("--callers", type=int, default=50, metavar="N", help="callers at a time (default: 50)")
    parser.add_argument("--era", choices=MODES, default="legacy", help="the server's protocol era (default: legacy)")
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
