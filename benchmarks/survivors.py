"""What is left of toolcrib's servers after it has ended: by the end of its input, a signal, or a kill.

In each cycle toolcrib serves five fake servers of tests/fakes, which are up: one that obeys, one that does not mind the
end of its input, one that ignores SIGTERM too, and two that have forked, one of which ignores SIGTERM. Then it ends,
and what still runs six seconds later has survived. The baseline is what was there to survive.
"""

import itertools
import os
import signal
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

import catalog
from measuring import Finding, Target, options, say, show
from raw_client import RawClient

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from fakes.menu import FakeServer  # noqa: E402 - from the tests of the same checkout

GONE_WITHIN_S = 6.0
ENDINGS = {"the end of its input": None, "SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "kill -9": signal.SIGKILL}


def fakes(folder: Path) -> list[FakeServer]:
    """Return five servers, from tame to stubborn."""
    return [
        FakeServer(folder, "obeys"),
        FakeServer(folder, "ignores-eof", ignore_eof=True),
        FakeServer(folder, "ignores-term", ignore_sigterm=True),
        FakeServer(folder, "forks", fork_child=True),
        FakeServer(folder, "forks-and-ignores", fork_child=True, ignore_sigterm=True),
    ]


def cycle(folder: Path, number: signal.Signals | None) -> tuple[int, int, float]:
    """Serve, end, and return how many processes there were, how many are left, and how long the last one took."""
    servers = fakes(folder)
    commands = {fake.name: [fake.command, *fake.args] for fake in servers}
    command = catalog.toolcrib_command(catalog.write_servers(folder, commands, {"limits": {}}))
    with RawClient(command) as client:
        client.open()
        for fake in servers:
            client.call(f"{fake.name}__echo", {})
        born = [pid for fake in servers for pid in fake.survivors()]
        client.end(number)
        began = time.perf_counter()
        while (left := [pid for fake in servers for pid in fake.survivors()]) and _seconds(began) < GONE_WITHIN_S:
            time.sleep(0.02)
    gone_s = _seconds(began)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(born), len(left), gone_s


def _seconds(began: float) -> float:
    return time.perf_counter() - began


def measure(given: Namespace, folder: Path) -> None:
    findings: list[Finding] = []
    places = itertools.count()
    for name, number in ENDINGS.items():
        cycles: list[tuple[int, int, float]] = []
        for again in range(given.repeat):
            say(f"{name}: cycle {again + 1} of {given.repeat} ...")
            place = folder / str(next(places))
            place.mkdir()
            cycles.append(cycle(place, number))
        born, left = sum(each[0] for each in cycles), sum(each[1] for each in cycles)
        findings.append(Finding(f"left after {name}", "processes", left, born, "before", Target(0)))
        findings.append(Finding("… the last one was gone after", "s", max(each[2] for each in cycles)))
    show(findings, f"{given.repeat} cycles each, {GONE_WITHIN_S:g} s after the end", as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=100)
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
