"""Other requests while programs compute, a program while others wait, and programs whose processes are killed.

All of it over stdio, by a client without an SDK. Eight programs may compute at a time (``programs.workers`` and
``runs_per_session`` are set so), and stand beside the same requests while none does. ``--kills N`` kills processes of
programs at random moments, each time with another program under way; ``--seed`` chooses the moments. Skips where the
extra ``programs`` is missing.
"""

import os
import random
import signal
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, median, options, percentile, say, show
from raw_client import RawClient, children, cpu_ms

SIZED = [sys.executable, str(catalog.SERVERS / "sized.py")]
EIGHT = {"programs": {"workers": 16, "runs_per_session": 8, "compute_s": 600}}
COMPUTES = "while True: pass"
WAITS = "import asyncio\nawait asyncio.sleep(60)"
CALLS = "from tools import sized__read\nfor n in range(20):\n    await sized__read(size=2000 * n)\n'whole'"
BESIDE, ALONE, NONE = Target(1.5, of="ratio"), Target(3, of="ratio"), Target(0)
HANGS_AFTER_S, WAITS_AT_MOST_S = 60, 20
BETWEEN_S = 0.003
ROUNDS = 4
COMPUTED_MS = 100


def run(client: RawClient, code: str, **more: Any) -> int:
    """Begin a program."""
    return client.begin("tools/call", {"name": "tool_run", "arguments": {"code": code, **more}})


def cancel(client: RawClient, numbers: list[int]) -> None:
    """End programs."""
    for number in numbers:
        client.notify("notifications/cancelled", {"requestId": number})


def times(work: Callable[[], object], repeat: int) -> list[float]:
    """Return how long some work takes, in milliseconds, with a moment between."""
    took: list[float] = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
        time.sleep(BETWEEN_S)
    return took


def beside(config: Path, repeat: int) -> Iterator[Finding]:
    """Yield what other requests take while eight programs compute."""
    with RawClient(catalog.toolcrib_command(config)) as client:
        client.open()
        requests: dict[str, Callable[[], object]] = {
            "a call": lambda: client.call("tool_call", {"name": "sized__read", "arguments": {"size": 1}}),
            "a search": lambda: client.call("tool_search", {"query": "read a text"}),
            "a ping": lambda: client.request("ping", {}),
        }
        quiet: dict[str, list[float]] = {name: [] for name in requests}
        busy: dict[str, list[float]] = {name: [] for name in requests}
        for _ in range(ROUNDS):
            for name, work in requests.items():
                quiet[name] += times(work, repeat)
            running = [run(client, COMPUTES) for _ in range(8)]
            wait_for(lambda: len(computing(client.pid)) == 8)
            for name, work in requests.items():
                busy[name] += times(work, repeat)
            assert not any(map(client.ended, running))
            cancel(client, running)
            wait_for(lambda: not runners(client.pid))
    for name in requests:
        p50, p99 = ((percentile(busy[name], share), percentile(quiet[name], share)) for share in (0.5, 0.99))
        yield Finding(f"{name} beside eight that compute, p50", "ms", *p50, "alone")
        yield Finding(f"{name} beside eight that compute, p99", "ms", *p99, "alone", BESIDE)


def among(config: Path, repeat: int) -> Iterator[Finding]:
    """Yield what a program takes while as many wait as may compute."""
    with RawClient(catalog.toolcrib_command(config)) as client:
        client.open()
        work = lambda: client.call("tool_run", {"code": "1 + 1"})  # noqa: E731 - as its fellows above
        times(work, 5)
        alone = times(work, repeat)
        running = [run(client, WAITS) for _ in range(3)]
        wait_for(lambda: len(runners(client.pid)) >= len(running))
        time.sleep(0.5)  # until they sleep
        beside_waiting = times(work, repeat)
        cancel(client, running)
        yield Finding("a program beside as many that wait", "ms", median(beside_waiting), median(alone), "alone", ALONE)


def killed(config: Path, kills: int, seed: int) -> Iterator[Finding]:
    """Yield what became of programs whose processes were killed, of their session, and of the processes."""
    chance = random.Random(seed)
    whole = failed = hung = done = 0
    seen: set[int] = set()
    with RawClient(catalog.toolcrib_command(config)) as client:
        client.open()
        client.call("tool_run", {"code": CALLS})
        while done < kills and not hung:
            running = [run(client, CALLS) for _ in range(2)]
            time.sleep(chance.random() * 0.06)
            found = [pid for runner in runners(client.pid) for pid in (runner, *children(runner))]
            seen.update(found)
            done += bool(found) and kill(chance.choice(found))
            answers = ended(client, running)
            hung += 2 - len(answers)
            failed += sum(bool(answer["isError"]) for answer in answers)
            whole += sum(not answer["isError"] for answer in answers)
    with suppress(TimeoutError):
        wait_for(lambda: not any(map(runs_programs, seen)))
    say(f"{whole} programs came to their end, {failed} said that their process was lost.")
    yield Finding("kills", "", done)
    yield Finding("programs that never end", "", hung, target=NONE)
    yield Finding("processes left", "", sum(map(runs_programs, seen)), target=NONE)


def ended(client: RawClient, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the results of these programs, without those that take too long."""
    end = time.monotonic() + HANGS_AFTER_S
    while None in (answers := [client.ended(number) for number in numbers]) and time.monotonic() < end:
        client.request("ping", {})
        time.sleep(0.001)
    return [answer for answer in answers if answer is not None]


def kill(pid: int) -> bool:
    """Kill a process; return whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def runners(pid: int) -> list[int]:
    """Return the processes that run programs for a gateway."""
    return [child for child in children(pid) if b"programs.runner" in _command(child)]


def computing(pid: int) -> list[int]:
    """Return those whose interpreters have computed for longer than it takes to start one."""
    interpreters = [child for runner in runners(pid) for child in children(runner)]
    return [child for child in interpreters if cpu_ms(child) > COMPUTED_MS]


def runs_programs(pid: int) -> bool:
    """Return whether a process is one that runs programs, and is not only to be waited for."""
    return any(name in _command(pid) for name in (b"programs.runner", b"monty"))


def _command(pid: int) -> bytes:
    """Return how a process was started; empty: it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for a condition, but not for long.

    Raises:
        TimeoutError: it has not come.

    """
    end = time.monotonic() + WAITS_AT_MOST_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.01)


def measure(given: Namespace, folder: Path) -> list[Finding]:
    plain = catalog.write_servers(folder, {"sized": SIZED}, {"programs": {"workers": 6}})
    catalog.index(plain)
    findings = [*among(plain, given.repeat), *killed(plain, given.kills, given.seed)]
    return [*beside(catalog.write_servers(folder, {"sized": SIZED}, EIGHT), given.repeat), *findings]


def main() -> None:
    parser = options(__doc__, repeat=300)
    parser.add_argument("--kills", type=int, default=1000, metavar="N", help="processes to kill (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments at which they are killed")
    given = parser.parse_args()
    if find_spec("pydantic_monty") is None:
        say("The extra toolcrib[programs] is not installed: nothing to measure.")
        return
    if sys.platform != "linux":
        say("Processes are found in /proc, which there is on Linux only: nothing to measure.")
        return
    with tempfile.TemporaryDirectory() as folder:
        show(measure(given, Path(folder)), as_json=given.json)


if __name__ == "__main__":
    main()
