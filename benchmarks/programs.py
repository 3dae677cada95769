"""A program over tools: its first run, checked and unchecked, and a call in it beside the same call by ``tool_call``.

All of it over stdio, by a client without an SDK, to one toolcrib in front of one server that answers at once. A program
is checked the first time that it is run, so each checked one differs in a number; the same one again is not checked.
Skips where the extra ``programs`` is not installed.
"""

import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from raw_client import RawClient

ECHO = [sys.executable, str(catalog.SERVERS / "static.py"), "1"]
CALLS = 20
FIRST_MS, UNCHECKED_MS, CHECKED_MS, INNER_MS = 250, 3, 30, 0.6
IMPORT = "from tools import echo__echo\n"


def timed(client: RawClient, name: str, arguments: dict[str, Any]) -> float:
    """Return how long a call takes, in milliseconds."""
    began = time.perf_counter()
    result = client.call(name, arguments)
    took = (time.perf_counter() - began) * 1000
    assert not result.get("isError"), result
    return took


def ran(client: RawClient, code: str) -> float:
    """Return how long a program takes, in milliseconds."""
    return timed(client, "tool_run", {"code": code})


def ways(client: RawClient, numbers: "count[int]") -> dict[str, Callable[[], float]]:
    """Return what is measured in turn, in milliseconds."""
    calls = IMPORT + f"for n in range({CALLS}):\n    await echo__echo(text='a')\n1"
    called = {"name": "echo__echo", "arguments": {"text": "a"}}
    return {
        "unchecked": lambda: ran(client, "1 + 1"),
        "with an import": lambda: ran(client, IMPORT + "1"),
        "checked": lambda: ran(client, f"{IMPORT}await echo__echo(text='{next(numbers)}')"),
        "inner": lambda: ran(client, calls) / CALLS,
        "direct": lambda: sum(timed(client, "tool_call", called) for _ in range(CALLS)) / CALLS,
    }


def measure(config: Path, given: Namespace) -> list[Finding]:
    firsts: list[float] = []
    for _ in range(max(1, given.repeat // 5)):
        with RawClient(catalog.toolcrib_command(config)) as client:
            client.open()
            client.call("tool_call", {"name": "echo__echo", "arguments": {"text": "a"}})
            firsts.append(ran(client, "1 + 1"))
    with RawClient(catalog.toolcrib_command(config)) as client:
        client.open()
        measured = ways(client, count())
        for warm in measured.values():
            warm()
        took = {name: median(values) for name, values in interleaved(given.repeat, measured).items()}
    # What a run costs without its calls is not theirs.
    inner = took["inner"] - took["with an import"] / CALLS
    return [
        Finding("first program, with the import and a worker's start", "ms", median(firsts), target=Target(FIRST_MS)),
        Finding("a program that was checked before, p50", "ms", took["unchecked"], target=Target(UNCHECKED_MS)),
        Finding("a checked program with one call, p50", "ms", took["checked"], target=Target(CHECKED_MS)),
        Finding(
            "a call in a program, p50", "ms", inner, took["direct"], "by tool_call", Target(INNER_MS, "difference")
        ),
    ]


def main() -> None:
    given = options(__doc__, repeat=15).parse_args()
    if find_spec("pydantic_monty") is None:
        say("The extra toolcrib[programs] is not installed: nothing to measure.")
        return
    with tempfile.TemporaryDirectory() as folder:
        config = catalog.write_servers(Path(folder), {"echo": ECHO}, {"programs": {"writes": "allow"}})
        catalog.index(config)
        show(measure(config, given), as_json=given.json)


if __name__ == "__main__":
    main()
