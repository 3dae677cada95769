"""Fifty clients over HTTP for half an hour: twenty servers, four of which misbehave, reloads, and servers killed.

Every five seconds the config is another and toolcrib takes it over; every seven a healthy server is killed with signal
9. Each client opens a session, calls, ends it and begins anew. A call is late when neither a result nor an error comes
before its deadline and a second, and unanswered when none comes in another minute. What toolcrib holds (memory,
threads, descriptors but for the pipes of servers that are running then and those that SQLite keeps for its next reader)
is compared once all clients have left, with what it held after a first round of the same had come and left: four
minutes, in which pools and buffers fill. ``--svg FILE`` draws memory and the 99th percentile over time, with axes and
marks.
"""

import itertools
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
from mcp import Client, MCPError

import catalog
from call import served_process
from measuring import Finding, Target, median, options, percentile, say, show
from raw_client import children

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from fakes.menu import FakeServer, Menu  # noqa: E402 - from the tests of the same checkout

HEALTHY, CONNECT_S, CALL_S, LATE_S, LOST_S = 16, 4.0, 2.0, 1.0, 60.0
FAULTS: tuple[Menu, ...] = ({"hang_at": "call"}, {"exit_at": "call"}, {"garbage": 1000}, {"storm": True})
RELOAD_EVERY_S, KILL_EVERY_S, SAMPLE_EVERY_S, PAUSE_S = 5.0, 7.0, 10.0, 1.0
CALLS_A_SESSION = 20
FIRST_ROUND_S, SETTLE_S = 240.0, 10.0
ENVIRONMENT = "MALLOC_ARENA_MAX=2"
"""As docs/howto.md says that a server for many is started: what glibc keeps of freed memory is not what is measured."""
WIDTH, HEIGHT, MARGIN = 860, 260, 44


@dataclass(frozen=True)
class Held:
    """What a process holds at one moment."""

    rss_mb: float
    descriptors: int
    threads: int

    @classmethod
    def by(cls, pid: int) -> "Held":
        """Read it (Linux)."""
        facts = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        )
        return cls(int(facts["VmRSS"].split()[0]) * 1024 / 1e6, _descriptors(pid), int(facts["Threads"]))


def _descriptors(pid: int) -> int:
    """Return how many descriptors are open, but for one end of each pipe to a child that is alive, and databases.

    SQLite does not close a database that another of its connections has locked, but keeps the descriptor for the next
    one (sqlite.org/src, os_unix.c, "Posix Advisory Locking"): as many stay as were ever open at one moment. What tells
    how many are open now is the log beside it, which each connection opens and closes.
    """
    held = [each for each in _open_in(pid) if not each.endswith(".db")]
    alive = {each for child in children(pid) for each in _open_in(child) if each.startswith("pipe:")}
    return len(held) - len(alive.intersection(held))


def _open_in(pid: int) -> list[str]:
    """Return what the descriptors of a process are of: none where it has ended."""
    found: list[str] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed while it is looked at
                found.append(str(each.readlink()))
    return found


@dataclass(frozen=True)
class Sample:
    """A moment: seconds since the begin, memory, and the 99th percentile of the calls since the moment before."""

    at_s: float
    rss_mb: float
    p99_ms: float


@dataclass(frozen=True)
class Mark:
    """Something that was done, and when, in seconds since the begin."""

    at_s: float
    kind: Literal["reload", "kill"]


@dataclass
class Soak:
    """What came of it. Latencies are milliseconds of calls to healthy servers."""

    calls: int = 0
    errors: int = 0
    late: int = 0
    unanswered: int = 0
    reloads: int = 0
    kills: int = 0
    latencies: list[float] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    began: float = 0.0

    def mark(self, kind: Literal["reload", "kill"]) -> None:
        """Note that something was done to toolcrib or a server just now."""
        self.marks.append(Mark(time.monotonic() - self.began, kind))


async def client(crowded: "Crowded", soak: Soak, chance: random.Random, leaving: anyio.Event) -> None:
    """Use toolcrib as one client after the other would, until all are to leave; each ends its session."""
    while not leaving.is_set():
        try:
            async with Client(crowded.url, mode="legacy") as session:
                for _ in range(CALLS_A_SESSION):
                    await one_call(session, chance.choice(crowded.servers), crowded.servers, soak)
                    with anyio.move_on_after(chance.uniform(0, 2 * PAUSE_S)):
                        await leaving.wait()
                    if leaving.is_set():
                        break
        except* (MCPError, OSError) as failures:
            soak.unanswered += 1
            say(f"a session failed: {failures.exceptions[0]}")
            await anyio.sleep(PAUSE_S)


async def one_call(session: Client, server: FakeServer, servers: Sequence[FakeServer], soak: Soak) -> None:
    began = time.perf_counter()
    try:
        with anyio.fail_after(CONNECT_S + CALL_S + LATE_S + LOST_S):
            result = await session.call_tool("tool_call", {"name": f"{server.name}__echo", "arguments": {"a": "b"}})
    except TimeoutError:
        soak.unanswered += 1
        return
    except MCPError:
        soak.calls, soak.errors = soak.calls + 1, soak.errors + 1
        return
    took = (time.perf_counter() - began) * 1000
    soak.calls += 1
    soak.errors += bool(result.is_error)
    soak.late += took > (CONNECT_S + CALL_S + LATE_S) * 1000
    if server in servers[:HEALTHY] and not result.is_error:
        soak.latencies.append(took)
        soak.recent.append(took)


async def reload(config: Path, pid: int, soak: Soak) -> None:
    """Change the config and have it taken over, again and again."""
    for number in itertools.count():
        await anyio.sleep(RELOAD_EVERY_S)
        change(config, number)
        os.kill(pid, signal.SIGHUP)
        soak.reloads += 1
        soak.mark("reload")


def change(config: Path, number: int) -> None:
    """Give a server a tag that it did not have."""
    written = json.loads(config.read_text(encoding="utf-8"))
    written["toolcrib"]["servers"] = {f"good{number % HEALTHY}": {"tags": {"echo": [f"word{number}"]}}}
    config.write_text(json.dumps(written), encoding="utf-8")


async def kill(servers: Sequence[FakeServer], soak: Soak, chance: random.Random) -> None:
    """Kill a healthy server now and then."""
    while True:
        await anyio.sleep(KILL_EVERY_S)
        server = chance.choice(servers[:HEALTHY])
        alive = [pid for pid in server.survivors() if _is_of(server, pid)]
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        soak.kills += bool(alive)
        if alive:
            soak.mark("kill")


def _is_of(server: FakeServer, pid: int) -> bool:
    """Return whether a process is that server, and not another one that has been given its number since."""
    try:
        return server.args[-1].encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


async def sample(pid: int, soak: Soak) -> None:
    """Note what is held and how long calls take, every few seconds."""
    soak.began = time.monotonic()
    while True:
        await anyio.sleep(SAMPLE_EVERY_S)
        recent, soak.recent = soak.recent, []
        p99 = percentile(recent, 0.99) if recent else 0.0
        soak.samples.append(Sample(time.monotonic() - soak.began, Held.by(pid).rss_mb, p99))


async def measure(given: Namespace, folder: Path) -> None:
    servers = [FakeServer(folder, f"good{number}") for number in range(HEALTHY)]
    servers += [FakeServer(folder, f"bad{number}") for number in range(len(FAULTS))]
    waits = {"connect_timeout_s": CONNECT_S, "call_timeout_s": CALL_S}
    config = catalog.write_servers(
        folder, {each.name: [each.command, *each.args] for each in servers}, {"server_defaults": waits}
    )
    catalog.index(config)
    for fake, fault in zip(servers[HEALTHY:], FAULTS, strict=True):
        fake.change(**fault)
    soak = Soak()
    async with AsyncExitStack() as stack:
        command = ["env", ENVIRONMENT, *catalog.toolcrib_command(config), "--transport", "http", "--port"]
        url, pid = await served_process(stack, command)
        crowded = Crowded(config, url, pid, servers, given.clients)
        say("a first round ...")
        before = await crowded.held_after(Soak(), min(FIRST_ROUND_S, given.minutes * 60))
        say(f"{given.clients} clients for {given.minutes:g} minutes ...")
        after = await crowded.held_after(soak, given.minutes * 60)
    if given.svg:
        given.svg.write_text(drawn(soak.samples, soak.marks), encoding="utf-8")
    show(findings(soak, before, after), notes(soak, given), as_json=given.json)


@dataclass(frozen=True)
class Crowded:
    """A toolcrib that many clients use while its config changes and its servers are killed."""

    config: Path
    url: str
    pid: int
    servers: Sequence[FakeServer]
    clients: int

    async def held_after(self, soak: Soak, seconds: float) -> Held:
        """Have the clients at work for so long; return what is held a little after they have left."""
        leaving = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reload, self.config, self.pid, soak)
            tasks.start_soon(kill, self.servers, soak, random.Random(1))
            tasks.start_soon(sample, self.pid, soak)
            async with anyio.create_task_group() as clients:
                for number in range(self.clients):
                    clients.start_soon(client, self, soak, random.Random(number), leaving)
                await anyio.sleep(seconds)
                leaving.set()
            tasks.cancel_scope.cancel()
        await anyio.sleep(min(SETTLE_S, seconds))
        return Held.by(self.pid)


def findings(soak: Soak, before: Held, after: Held) -> list[Finding]:
    """Return the figures."""
    halves = [
        half or [0.0]
        for half in (soak.latencies[: len(soak.latencies) // 2], soak.latencies[len(soak.latencies) // 2 :])
    ]
    p99 = [percentile(half, 0.99) for half in halves]
    return [
        Finding("calls answered", "calls", soak.calls, target=Target(1, is_least=True)),
        Finding("calls without an answer", "calls", soak.unanswered, target=Target(0)),
        Finding("calls answered late", "calls", soak.late, target=Target(0)),
        Finding("memory after all have left", "MB", after.rss_mb, before.rss_mb, "first round", Target(1.1, "ratio")),
        Finding("descriptors then", "", after.descriptors, before.descriptors, "first round", Target(4, "difference")),
        Finding("threads then", "", after.threads, before.threads, "first round", Target(4, "difference")),
        Finding("healthy call, p99 of the second half", "ms", p99[1], p99[0], "first half"),
        Finding("healthy call, p50", "ms", median(soak.latencies or [0.0])),
    ]


def notes(soak: Soak, given: Namespace) -> str:
    return (
        f"{soak.calls:,} calls answered, {soak.errors:,} of them with an error, by {given.clients} clients in "
        f"{given.minutes:g} minutes; {soak.reloads} reloads, {soak.kills} kills"
    )


# -- the picture ---------------------------------------------------------------------------------


_AXIS, _TEXT = "#8c959f", "#57606a"
_SERIES: tuple[tuple[str, str, Callable[[Sample], float]], ...] = (
    ("memory (RSS), MB", "#0969da", lambda each: each.rss_mb),
    ("p99 of healthy calls, ms", "#bc4c00", lambda each: each.p99_ms),
)
_MARKS = {"reload": "#8250df", "kill": "#cf222e"}
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_TICKS = 5
"""About so many values stand at an axis."""


def drawn(samples: Sequence[Sample], marks: Sequence[Mark] = ()) -> str:
    """Return memory (axis on the left) and the 99th percentile (right) over time as an SVG, with marks of events."""
    # To the full minute: the last sample comes some seconds before the end.
    lasted_s = 60.0 * math.ceil(max((each.at_s for each in samples), default=60.0) / 60)
    parts = [_time_axis(lasted_s), _marks(marks, lasted_s)]
    for place, (label, color, value) in enumerate(_SERIES):
        step = _step(max((value(each) for each in samples), default=1.0))
        top = step * math.ceil(max((value(each) for each in samples), default=1.0) / step) or 1
        path = " ".join(f"{_x(each.at_s, lasted_s):.1f},{_y(value(each), top):.1f}" for each in samples)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts += [_value(number, top, color, on_the_right=bool(place)) for number in range(0, top + 1, step)]
        parts.append(f'<text x="{MARGIN + place * 180}" y="20" fill="{color}">{label}</text>')
    body = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">
<title>Memory and the 99th percentile of calls over time, with reloads and kills</title>
<style>text {{ font: 12px ui-sans-serif, sans-serif; }}</style>
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>
{body}
</svg>
"""


def _x(at_s: float, lasted_s: float) -> float:
    return MARGIN + at_s / lasted_s * (WIDTH - 2 * MARGIN)


def _y(value: float, top: float) -> float:
    return HEIGHT - MARGIN - value / top * (HEIGHT - 2 * MARGIN)


def _step(most: float) -> int:
    """Return a round distance of the values at an axis that ends at ``most``."""
    return next((step for step in _STEPS if most / step <= _TICKS), _STEPS[-1])


def _time_axis(lasted_s: float) -> str:
    bottom, minutes = HEIGHT - MARGIN, lasted_s / 60
    step = _step(minutes)
    lines = [f'<line x1="{MARGIN}" y1="{bottom}" x2="{WIDTH - MARGIN}" y2="{bottom}" stroke="{_AXIS}"/>']
    for number in range(0, math.floor(minutes) + 1, step):
        x = _x(number * 60, lasted_s)
        unit = " min" if number else ""
        lines.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}" stroke="{_AXIS}"/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="{_TEXT}">{number}{unit}</text>')
    return "\n".join(lines)


def _value(number: int, top: int, color: str, *, on_the_right: bool) -> str:
    x, anchor = (WIDTH - MARGIN + 6, "start") if on_the_right else (MARGIN - 6, "end")
    return f'<text x="{x}" y="{_y(number, top) + 4:.1f}" text-anchor="{anchor}" fill="{color}">{number}</text>'


def _marks(marks: Sequence[Mark], lasted_s: float) -> str:
    """Return a tick above the axis of time for each event, and what the ticks mean."""
    bottom, lines = HEIGHT - MARGIN, list[str]()
    for place, (kind, color) in enumerate(_MARKS.items()):
        mine = [each for each in marks if each.kind == kind]
        low = bottom - 8 * place
        for each in mine:
            x = f"{_x(each.at_s, lasted_s):.1f}"
            lines.append(f'<line x1="{x}" y1="{low}" x2="{x}" y2="{low - 6}" stroke="{color}"/>')
        text = f"{kind}s: {len(mine)}"
        x = WIDTH - MARGIN - 80 * (len(_MARKS) - 1 - place)
        lines.append(f'<text x="{x}" y="20" text-anchor="end" fill="{color}">{text}</text>')
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, repeat=1)
    parser.add_argument("--minutes", type=float, default=30, metavar="N", help="how long (default: 30)")
    parser.add_argument("--clients", type=int, default=50, metavar="N", help="clients at a time (default: 50)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw memory and latency over time into this file")
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
