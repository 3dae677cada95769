"""Searching tools in a Python program: toolcrib.ToolSearch beside plain bm25s, and FastMCP's search in memory.

Each in a process of its own, in turn: from definitions to the first answer, then each query twice, of which the second
time counts. Then functions of the program as tools: toolcrib.open beside a server of FastMCP in memory.
``--fastmcp-python`` names the Python of an environment that has FastMCP, if this one has not.
"""

import json
import os
import subprocess
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, interleaved, median, options, percentile, say, show

CONTENDERS = Path(__file__).with_name("python_contenders.py")
READY_S, AROUND = {1000: Target(0.4)}, Target(1.1, of="ratio")
CALLERS = ("toolcrib", "fastmcp")
FUNCTIONS = 300
BASELINES = {"bm25s": "plain bm25s", "fastmcp": "FastMCP in memory"}


def run(name: str, python: str, given: str) -> dict[str, Any]:
    done = subprocess.run([python, str(CONTENDERS), name], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def present(pythons: dict[str, str], given: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return which contenders are installed, and a note for each that is not."""
    few = json.dumps(
        {**given, "lists": {"shop": [{"name": "order_tea", "description": "Order tea."}]}, "queries": ["tea"]}
    )
    missing = {name: run(name, python, few).get("missing") for name, python in pythons.items()}
    notes = [f"{name} is left out: {reason}" for name, reason in missing.items() if reason]
    return [name for name, reason in missing.items() if not reason], notes


def findings(size: int, rounds: dict[str, list[dict[str, Any]]]) -> list[Finding]:
    def middle(name: str, key: str) -> float:
        return median([each[key] for each in rounds[name]])

    def share(name: str, of: float, key: str = "took_ms") -> float:
        return median([percentile(each[key], of) for each in rounds[name]])

    start = f"{size:,} tools"
    found = [
        Finding(f"{start}, search p50, beside the engine inside", "ms", share("toolcrib", 0.5),
                share("toolcrib", 0.5, "engine_ms"), "the engine", AROUND),
    ]  # fmt: skip
    for name in rounds:
        if name == "toolcrib":
            continue
        against = BASELINES[name]
        for what, unit, key in (
            ("import, CPU", "s", "imported_s"),
            ("from definitions to the first answer, CPU", "s", "ready_cpu_s"),
            ("memory for that", "MiB", "mib"),
        ):
            target = READY_S.get(size) if key == "ready_cpu_s" else None
            found.append(Finding(f"{start}, {what}", unit, middle("toolcrib", key), middle(name, key), against, target))
        found += [
            Finding(f"{start}, search p{of * 100:g}", "ms", share("toolcrib", of), share(name, of), against)
            for of in (0.5, 0.95)
        ]
    return found


def calls(names: list[str], pythons: dict[str, str], repeat: int) -> list[Finding]:
    """Measure functions of the program as tools: all of them listed, and one called."""
    say(f"{FUNCTIONS} functions ...")
    text = json.dumps({"functions": FUNCTIONS})
    rounds = interleaved(repeat, {name: partial(run, name, pythons[name], text) for name in names})

    def of(name: str, key: str) -> float:
        return median([median(each[key]) if isinstance(each[key], list) else each[key] for each in rounds[name]])

    rows = (
        (f"{FUNCTIONS} functions, to their list, CPU", "s", "ready_cpu_s", Target(0.3)),
        ("a call of one of them, p50", "ms", "took_ms", Target(0.4)),
    )
    baseline = "fastmcp" if "fastmcp" in names else "toolcrib"
    against = BASELINES.get(baseline, "itself")
    return [Finding(what, unit, of("toolcrib", key), of(baseline, key), against, to) for what, unit, key, to in rows]


def measure(asked: Namespace) -> None:
    lists, note = catalog.tool_lists(asked.catalog)
    pythons = {"toolcrib": sys.executable, "bm25s": sys.executable, "fastmcp": asked.fastmcp_python}
    found: list[Finding] = []
    names, left_out = list(pythons), list[str]()
    for size in asked.sizes:
        chosen = catalog.enlarged(lists, size)
        given = {"lists": chosen, "queries": catalog.queries(chosen, asked.queries), "semantic": asked.semantic}
        names, left_out = present(pythons, given)
        say(f"{size:,} tools ...")
        text = json.dumps(given)
        cases = {name: partial(run, name, pythons[name], text) for name in names}
        found += findings(size, interleaved(asked.repeat, cases))
    found += calls([name for name in names if name in CALLERS], pythons, asked.repeat)
    show(found, f"{note}, copied as often as needed; medians of {asked.repeat} rounds", *left_out, as_json=asked.json)


def main() -> None:
    parser = options(__doc__, repeat=5)
    catalog.add_option(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 1000], metavar="N", help="catalog sizes")
    parser.add_argument("--queries", type=int, default=60, metavar="N", help="queries a round (default: 60)")
    parser.add_argument("--semantic", action="store_true", help="compare by meaning too, if the extra is installed")
    parser.add_argument(
        "--fastmcp-python",
        default=os.environ.get("TOOLCRIB_FASTMCP_PYTHON", sys.executable),
        metavar="PYTHON",
        help="the Python that has FastMCP (default: $TOOLCRIB_FASTMCP_PYTHON, or this one)",
    )
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
