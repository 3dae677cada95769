"""Twenty servers, six of which misbehave: what that does to the calls of the other fourteen, and to those of the six.

The six change with the round, so that all faults have their turn. The baseline is the same load on the same servers
while all of them behave. Eight callers use the healthy ones without a pause, six more a bad one each. The CPU time that
the bad ones eat is theirs, not toolcrib's, but on two cores it is taken from everybody.
"""

import itertools
import os
import random
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

import catalog
from measuring import Finding, Target, median, options, percentile, say, show
from raw_client import CLIENT

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from fakes.menu import FakeServer, Menu  # noqa: E402 - from the tests of the same checkout
from serve.served import Served, started  # noqa: E402

HEALTHY, BAD, CALLERS = 14, 6, 8
CONNECT_S, CALL_S, LATE_S = 2.0, 1.0, 1.0
PAUSE_S = 0.05
DEADLINE_S = CONNECT_S + CALL_S
"""What a call may take that has to start its server."""

FAULTS: dict[str, Menu] = {
    "hangs when started": {"hang_at": "spawn"},
    "hangs at discover": {"hang_at": "discover"},
    "hangs at initialize": {"hang_at": "initialize", "eras": ["legacy"]},
    "hangs at tools/list": {"hang_at": "list"},
    "hangs at calls": {"hang_at": "call"},
    "prints garbage": {"garbage": 3000},
    "floods": {"flood": 1 << 30},
    "has endless pages": {"cursor_loop": "fresh"},
    "sends notifications without end": {"storm": True},
    "crashes in calls": {"exit_at": "call"},
    "exits at once": {"exit_at": "spawn"},
    "answers under wrong ids": {"wrong_ids": True},
}


@dataclass
class Load:
    """What came of the calls: seconds each, by kind of server; and the CPU seconds that the bad ones took."""

    healthy: list[float] = field(default_factory=list)
    bad: list[float] = field(default_factory=list)
    unanswered: int = 0
    wrong: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0


class Caller:
    """Makes calls over one connection, many at a time."""

    def __init__(self, crib: Served) -> None:
        self._crib, self._ids, self._sending = crib, itertools.count(1), anyio.Lock()
        self._waiting: dict[str, tuple[anyio.Event, list[Any]]] = {}

    async def receive(self) -> None:
        """Hand out answers as they come, without end."""
        while True:
            message = await self._crib.receive()
            if waiting := self._waiting.get(str(message.get("id"))):
                waiting[1].append(message)
                waiting[0].set()

    async def call(self, server: str) -> tuple[float, bool] | None:
        """Call a server; return how long it took and whether it was an error; None where there was no answer."""
        key, began = f"n{next(self._ids)}", time.perf_counter()
        event, answers = self._waiting[key] = anyio.Event(), []
        params = {"name": f"{server}__echo", "arguments": {"key": key}}
        async with self._sending:
            await self._crib.send({"id": key, "method": "tools/call", "params": params})
        with anyio.move_on_after(DEADLINE_S + 10 * LATE_S):
            await event.wait()
        del self._waiting[key]
        if not answers:
            return None
        result = answers[0].get("result", {"isError": True})
        is_error = bool(result.get("isError")) or result.get("structuredContent") != {"key": key}
        return time.perf_counter() - began, is_error


async def loaded(folder: Path, config: Path, servers: Sequence[FakeServer], calls: int) -> Load:
    """Put the load on a toolcrib of its own."""
    load = Load()
    good, others = servers[:HEALTHY], servers[HEALTHY:]
    async with started(catalog.toolcrib_command(config), folder) as crib:
        await crib.request("initialize", CLIENT)
        caller = Caller(crib)
        async with anyio.create_task_group() as around:
            around.start_soon(caller.receive)
            for fake in good:  # started before anything is counted
                await caller.call(fake.name)
            began = time.perf_counter()
            meter = Meter(others)
            async with anyio.create_task_group() as background:
                background.start_soon(meter.run)
                for fake in others:
                    background.start_soon(use_one, caller, fake.name, load)
                async with anyio.create_task_group() as callers:
                    left = iter(range(calls))
                    for number in range(CALLERS):
                        callers.start_soon(use_any, caller, good, left, load, number)
                load.wall_s = time.perf_counter() - began
                background.cancel_scope.cancel()
            load.cpu_s = meter.seconds
            around.cancel_scope.cancel()
        crib.close_stdin()
        await crib.ended()
    return load


async def use_any(caller: Caller, servers: Sequence[FakeServer], left: Iterator[int], load: Load, number: int) -> None:
    """Call healthy servers at random, one after the other, as long as calls are left."""
    chance = random.Random(number)
    for _ in left:
        answer = await caller.call(chance.choice(servers).name)
        if answer is None:
            load.unanswered += 1
        else:
            load.healthy.append(answer[0])
            load.wrong += answer[1]


async def use_one(caller: Caller, server: str, load: Load) -> None:
    """Call one server again and again, with a short pause; until cancelled, which ends no call."""
    while True:
        with anyio.CancelScope(shield=True):
            await _count(caller, server, load)
        await anyio.sleep(PAUSE_S)


async def _count(caller: Caller, server: str, load: Load) -> None:
    answer = await caller.call(server)
    if answer is None:
        load.unanswered += 1
    else:
        load.bad.append(answer[0])


class Meter:
    """Reads now and then how much CPU time the processes of some servers have taken (Linux)."""

    def __init__(self, servers: Sequence[FakeServer]) -> None:
        self._servers = servers
        self._seen: dict[int, float] = {}

    @property
    def seconds(self) -> float:
        """Return what they have taken so far."""
        return sum(self._seen.values())

    async def run(self) -> None:
        """Read, without end."""
        while True:
            self._read()
            await anyio.sleep(0.25)

    def _read(self) -> None:
        for pid in (pid for fake in self._servers for pid in fake.starts()):
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
                self._seen[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(given: Namespace, folder: Path) -> None:
    options_for_all = {"connect_timeout_s": CONNECT_S, "call_timeout_s": CALL_S}
    findings: list[Finding] = []
    sixes = [list(FAULTS)[place : place + BAD] for place in range(0, len(FAULTS), BAD)]
    bad_loads: list[Load] = []
    base_loads: list[Load] = []
    for number, six in enumerate(sixes * given.repeat):
        place = folder / str(number)
        place.mkdir()
        servers = [FakeServer(place, f"good{each}") for each in range(HEALTHY)]
        servers += [FakeServer(place, f"bad{each}") for each in range(BAD)]
        commands = {fake.name: [fake.command, *fake.args] for fake in servers}
        section = {"limits": {"first_index_wait_s": 60}, "server_defaults": options_for_all}
        config = catalog.write_servers(place, commands, section)
        catalog.index(config)
        calls = given.calls // len(sixes)
        say(f"all behave ({number + 1}) ...")
        base_loads.append(anyio.run(loaded, place, config, servers, calls))
        for fake, fault in zip(servers[HEALTHY:], six, strict=True):
            fake.change(**FAULTS[fault])
        say(f"{', '.join(six)} ...")
        bad_loads.append(anyio.run(loaded, place, config, servers, calls))
    findings += found(bad_loads, base_loads)
    walls = sum(load.wall_s for load in bad_loads)
    share = sum(load.cpu_s for load in bad_loads) / walls / (os.cpu_count() or 1)
    show(
        findings,
        f"{sum(len(load.healthy) for load in bad_loads):,} calls of healthy servers, "
        f"{sum(len(load.bad) for load in bad_loads):,} of bad ones; these took {share:.0%} of the machine's CPU time",
        as_json=given.json,
    )


def found(bad: Sequence[Load], base: Sequence[Load]) -> list[Finding]:
    """Return the figures of all rounds; of percentiles the median."""
    late = max((seconds for load in bad for seconds in load.bad), default=0.0)
    p50, p99 = (
        [median([percentile(load.healthy, share) * 1000 for load in loads]) for loads in (bad, base)]
        for share in (0.5, 0.99)
    )
    cpu = [sum(load.cpu_s for load in loads) for loads in (bad, base)]
    return [
        Finding("calls without an answer", "calls", sum(load.unanswered for load in bad), target=Target(0)),
        Finding("healthy calls with a wrong answer", "calls", sum(load.wrong for load in bad), target=Target(0)),
        Finding("slowest answer for a bad server", "s", late, DEADLINE_S, "deadline", Target(LATE_S, "difference")),
        Finding("healthy call, p50", "ms", p50[0], p50[1], "all behave"),
        Finding("healthy call, p99", "ms", p99[0], p99[1], "all behave", Target(3, "ratio")),
        Finding("CPU time of the six", "s", cpu[0], cpu[1], "all behave"),
    ]


def main() -> None:
    parser = options(__doc__, repeat=1)
    parser.add_argument("--calls", type=int, default=5000, metavar="N", help="calls of healthy servers (default: 5000)")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
