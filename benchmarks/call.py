"""A tool call through toolcrib, beside the direct call, a raw relay and FastMCP's proxy.

One SDK client calls the same SDK server in several ways, in turn: directly, through a relay without SDK or bounds,
through toolcrib under the tool's own name, through toolcrib's tool_call, and through FastMCP's proxy (left out where
fastmcp is not installed). Then with fifty callers at a time; then the CPU that the process in between takes for a call
is counted. In every way the server is spoken to in the same protocol era. With ``--transport http`` the client speaks
streamable HTTP: with the server directly, with a toolcrib that runs the server over stdio, and with one that speaks
HTTP with the server too. Beside the latter stands a relay of two HTTP connections that knows no MCP.

With ``--against DIR`` the toolcrib of another checkout is called in turn with this one, with an index of its own.
"""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import catalog
from measuring import Finding, Target, interleaved, interleaved_async, median, options, percentile, say, show
from raw_client import RawClient
from raw_http import RawHttpClient

ECHO = [sys.executable, str(catalog.SERVERS / "static.py"), "1"]
RELAY = [sys.executable, str(catalog.SERVERS / "relay.py"), *ECHO]
HTTP_RELAY = [sys.executable, str(catalog.SERVERS / "http_relay.py")]
FASTMCP = [sys.executable, str(catalog.SERVERS / "fastmcp_proxy.py"), *ECHO]
ARGUMENTS = {"text": "as long as a usual argument is"}
THROUGH = {"name": "echo__echo", "arguments": ARGUMENTS}
WARM_UP = 50
START_S = 60
MODES = {"legacy": "legacy", "modern": "auto"}
"""The protocol era in which the server is called -> the client's mode for it."""
TWICE = ", HTTP twice"
THERE = ", other checkout"
RELAY_TWICE = f"raw relay{TWICE}"
MOST = {"own name": 1.5, "tool_call": 1.6, f"own name{TWICE}": 1.5, f"tool_call{TWICE}": 1.6}
"""What a call may take, as a multiple of a direct one."""
CPU_MOST, THROUGHPUT_LEAST = 0.6, 0.95

T = TypeVar("T")
Call = Callable[[], Awaitable[Any]]
Figures = Mapping[str, float]
Rounds = Mapping[str, Sequence[float]]
"""Figures of each round."""
CpuWay = tuple[RawClient | RawHttpClient, str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class HttpWays:
    """The ways over HTTP: the URL and process that each is served by, what is called there, and how a client calls."""

    processes: dict[str, tuple[str, int, str, dict[str, Any]]]
    calls: dict[str, Call] = field(default_factory=dict[str, Call])


@dataclass(frozen=True, slots=True)
class Gateway:
    """A toolcrib in front of the server: what ends the names of its figures, and how it is started."""

    which: str
    command: list[str]
    environ: dict[str, str]

    def named(self, ways: Mapping[str, T]) -> dict[str, T]:
        """Return its ways by the names of their figures."""
        return {f"{name}{self.which}": way for name, way in ways.items()}


async def connect(
    stack: AsyncExitStack, command: list[str], mode: str, environ: dict[str, str] | None = None
) -> Client:
    """Start a server and shake hands with it over stdio; what it says on stderr is not shown."""
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environ)
    nowhere: Any = subprocess.DEVNULL  # the SDK asks for a file, and hands it to what takes this too
    client = await stack.enter_async_context(Client(stdio_client(parameters, errlog=nowhere), mode=mode))
    await client.list_tools()
    return client


async def connect_http(stack: AsyncExitStack, url: str, mode: str) -> Client:
    """Shake hands with a server over streamable HTTP."""
    client = await stack.enter_async_context(Client(url, mode=mode))
    await client.list_tools()
    return client


async def served(stack: AsyncExitStack, command: list[str]) -> str:
    """Start a server that takes its port as the last argument, and return its URL once it can be reached."""
    url, _pid = await served_process(stack, command)
    return url


async def served_process(
    stack: AsyncExitStack, command: list[str], environ: Mapping[str, str] | None = None
) -> tuple[str, int]:
    """Do the same, and return the process's id too; ``environ`` is added to this process's environment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    env = {**os.environ, **(environ or {})}
    process = await anyio.open_process(
        [*command, str(port)], stdin=None, stdout=None, stderr=subprocess.DEVNULL, env=env
    )
    await stack.enter_async_context(process)
    stack.callback(process.terminate)
    with anyio.fail_after(START_S):
        while True:
            with suppress(OSError):
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                return f"http://127.0.0.1:{port}/mcp", process.pid
            await anyio.sleep(0.05)


async def stdio_ways(stack: AsyncExitStack, gateways: Sequence[Gateway], mode: str) -> dict[str, Call]:
    """Return the ways to call the tool over stdio."""
    direct = await connect(stack, ECHO, mode)
    relay = await connect(stack, RELAY, mode)
    calls: dict[str, Call] = {
        "direct": partial(direct.call_tool, "echo", ARGUMENTS),
        "raw relay": partial(relay.call_tool, "echo", ARGUMENTS),
    }
    for gateway in gateways:
        calls |= gateway.named(await through(await connect(stack, gateway.command, mode, gateway.environ)))
    if importlib.util.find_spec("fastmcp"):
        calls["FastMCP"] = partial((await connect(stack, FASTMCP, mode)).call_tool, "echo", ARGUMENTS)
    else:
        say("fastmcp is not installed: no comparison with it")
    return calls


async def http_ways(stack: AsyncExitStack, folder: Path, given: Namespace) -> HttpWays:
    """Return the ways to call the tool over HTTP."""
    era = given.era
    url, pid = await served_process(stack, ECHO)
    direct = await connect_http(stack, url, MODES[era])
    relay_url, relay_pid = await served_process(stack, [*HTTP_RELAY, url])
    relay = await connect_http(stack, relay_url, MODES[era])
    ways = HttpWays({"direct": (url, pid, "echo", ARGUMENTS), RELAY_TWICE: (relay_url, relay_pid, "echo", ARGUMENTS)})
    ways.calls["direct"] = partial(direct.call_tool, "echo", ARGUMENTS)
    ways.calls[RELAY_TWICE] = partial(relay.call_tool, "echo", ARGUMENTS)
    for which, server in (("", ECHO), (TWICE, url)):
        for gateway in gateways_of(folder, server, given, which):
            command = [*gateway.command, "--transport", "http", "--port"]
            crib, pid = await served_process(stack, command, gateway.environ)
            client = await connect_http(stack, crib, MODES[era])
            ways.calls.update(gateway.named(await through(client)))
            processes = {
                "own name": (crib, pid, "echo__echo", ARGUMENTS),
                "tool_call": (crib, pid, "tool_call", THROUGH),
            }
            ways.processes.update(gateway.named(processes))
    return ways


async def through(crib: Client) -> dict[str, Call]:
    """Return the two ways through toolcrib, after a call of each."""
    calls: dict[str, Call] = {
        "own name": partial(crib.call_tool, "echo__echo", ARGUMENTS),
        "tool_call": partial(crib.call_tool, "tool_call", THROUGH),
    }
    for call in calls.values():
        await call()
    await crib.list_tools(cache_mode="refresh")  # the tool is listed now: else the client lists after every call
    return calls


def gateways_of(folder: Path, server: str | list[str], given: Namespace, which: str = "") -> list[Gateway]:
    """Return this toolcrib, and that of the other checkout, in front of the server alone, which they have indexed."""
    found: list[Gateway] = []
    for name, checkout in ((which, catalog.ROOT), (f"{which}{THERE}", given.against)):
        if checkout is not None:
            own = folder / f"gateway{name}"
            own.mkdir()
            config = catalog.write_servers(own, {"echo": server}, {"servers": {"echo": {"protocol": given.era}}})
            gateway = Gateway(name, catalog.toolcrib_command(config), catalog.environ_of(checkout, config))
            catalog.index(config, gateway.environ)
            found.append(gateway)
    return found


async def latencies(call: Call, number: int) -> list[float]:
    """Return the milliseconds of each of so many calls, one after the other."""
    taken: list[float] = []
    for _ in range(number):
        began = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


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


def cpu(client: RawClient | RawHttpClient, name: str, arguments: dict[str, Any], number: int) -> float:
    """Return the microseconds of CPU that the process takes for one of so many calls."""
    before = client.cpu_ms()
    for _ in range(number):
        client.call(name, arguments)
    return (client.cpu_ms() - before) / number * 1000


def cpu_of_each(gateways: Sequence[Gateway], given: Namespace) -> Rounds:
    """Return what a call costs the bare server, and the gateways in front of it."""
    with ExitStack() as stack:
        bare = stack.enter_context(RawClient(ECHO))
        bare.open()
        ways: dict[str, CpuWay] = {"direct": (bare, "echo", ARGUMENTS)}
        for gateway in gateways:
            crib = stack.enter_context(RawClient(gateway.command, gateway.environ))
            crib.open()
            called: dict[str, CpuWay] = {
                "own name": (crib, "echo__echo", ARGUMENTS),
                "tool_call": (crib, "tool_call", THROUGH),
            }
            ways |= gateway.named(called)
        return rounds_of_cpu(ways, given)


def cpu_over_http(found: HttpWays, given: Namespace) -> Rounds:
    """Return the same over HTTP, of processes that are served already."""
    with ExitStack() as stack:
        ways: dict[str, CpuWay] = {}
        for which, (url, pid, name, arguments) in found.processes.items():
            client = stack.enter_context(closing(RawHttpClient(url, pid)))
            client.open()
            ways[which] = client, name, arguments
        return rounds_of_cpu(ways, given)


def rounds_of_cpu(ways: Mapping[str, CpuWay], given: Namespace) -> Rounds:
    """Return what a call costs in each way, once a round."""
    for client, name, arguments in ways.values():
        cpu(client, name, arguments, WARM_UP)
    return interleaved(given.repeat, {name: partial(cpu, *way, given.calls) for name, way in ways.items()})


def latency_findings(alone: Mapping[str, list[list[float]]]) -> list[Finding]:
    """Return p50 and p95 of each way beside the direct one, and beside FastMCP."""
    found: list[Finding] = []
    for which, share in (("p50", 0.5), ("p95", 0.95)):
        rounds = {name: [percentile(calls, share) for calls in each] for name, each in alone.items()}
        taken = {name: median(each) for name, each in rounds.items()}
        for name in ("raw relay", RELAY_TWICE, *MOST):
            if name in taken:
                target = Target(MOST[name], "ratio") if name in MOST else None
                found.append(Finding(f"{name}, {which}", "ms", taken[name], taken["direct"], "direct", target))
        found += [
            Finding(f"{name}, {which}", "ms", taken[name], taken["FastMCP"], "FastMCP", Target(1.0, "ratio"))
            for name in MOST
            if "FastMCP" in taken and name in taken
        ]
        found += other_findings(which, "ms", rounds)
    return found


def other_findings(kind: str, unit: str, rounds: Rounds) -> list[Finding]:
    """Return the figures of this toolcrib beside those of the other checkout, and the median of the rounds' ratios."""
    found: list[Finding] = []
    for name in MOST:
        if there := rounds.get(f"{name}{THERE}"):
            ratio = median([mine / its for mine, its in zip(rounds[name], there, strict=True)])
            found.append(Finding(f"{kind}, {name}", unit, median(rounds[name]), median(there), "there"))
            found.append(Finding(f"{kind}, {name}, round by round", "times", ratio))
    return found


def throughput_findings(per_second: Figures, callers: int) -> list[Finding]:
    return [
        Finding(
            f"{callers} callers, {name}",
            "calls/s",
            per_second[name],
            per_second[against],
            against,
            Target(THROUGHPUT_LEAST, "ratio", is_least=True) if (name, against) == ("own name", "raw relay") else None,
        )
        for against in ("raw relay", RELAY_TWICE, "direct", "FastMCP")
        for name in MOST
        if against in per_second and name in per_second
    ]


def cpu_findings(rounds: Rounds) -> list[Finding]:
    microseconds = {name: median(each) for name, each in rounds.items()}
    return [
        Finding(
            f"CPU of a call, {name}",
            "us",
            microseconds[name],
            microseconds["direct"],
            "bare SDK server",
            Target(CPU_MOST, "ratio") if name in MOST else None,
        )
        for name in (RELAY_TWICE, *MOST)
        if name in microseconds
    ] + other_findings("CPU of a call", "us", rounds)


async def timed(given: Namespace, calls: Mapping[str, Call]) -> list[Finding]:
    """Return what is measured with a client: one caller, then many."""
    for name, call in calls.items():
        result = await call()
        assert not result.is_error, f"{name}: {result.content}"
    await interleaved_async(1, {name: partial(latencies, call, WARM_UP) for name, call in calls.items()})
    alone = await interleaved_async(
        given.repeat, {name: partial(latencies, call, given.calls) for name, call in calls.items()}
    )
    together = await interleaved_async(
        given.repeat, {name: partial(throughput, call, given.calls, given.callers) for name, call in calls.items()}
    )
    per_second = {name: median(each) for name, each in together.items()}
    return [*latency_findings(alone), *throughput_findings(per_second, given.callers)]


async def measure(given: Namespace, folder: Path) -> None:
    async with AsyncExitStack() as stack:
        if given.transport == "http":
            ways = await http_ways(stack, folder, given)
            found = await timed(given, ways.calls)
            if given.era == "legacy":
                found += cpu_findings(await anyio.to_thread.run_sync(cpu_over_http, ways, given))
        else:
            gateways = gateways_of(folder, ECHO, given)
            found = await timed(given, await stdio_ways(stack, gateways, MODES[given.era]))
            found += cpu_findings(await anyio.to_thread.run_sync(cpu_of_each, gateways, given))
    rounds = f"medians of {given.repeat} rounds of {given.calls} calls each way"
    show(found, f"{rounds}; {given.era} protocol era, over {given.transport}", as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=9)
    parser.add_argument("--calls", type=int, default=200, metavar="N", help="calls a round (default: 200)")
    parser.add_argument("--callers", type=int, default=50, metavar="N", help="callers at a time (default: 50)")
    parser.add_argument("--era", choices=MODES, default="legacy", help="the server's protocol era (default: legacy)")
    parser.add_argument("--transport", choices=("stdio", "http"), default="stdio", help="default: stdio")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, called in turn with this one")
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
