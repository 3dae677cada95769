"""What a tool costs to be taken in, stage by stage: its record, its row and its stems, as CPU time of one thread.

Tools of captured servers, recombined as for `large.py`. Each measurement is a process of its own, which takes the
lists in several times and reports the fastest: what else the machine does can only add to it. With `--against`,
another checkout does the same in turn.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, interleaved, median, options, say, show
from retrieval_data import scaled
from toolcrib.catalog.arguments import SchemaChecker
from toolcrib.catalog.index import TOOLS_SCHEMA, ToolIndex
from toolcrib.catalog.ingest import Shaping, ingest
from toolcrib.config.loading import load
from toolcrib.storage.store import Store

STAGES = ("checked and shaped", "its row", "its stems")
ROUNDS = 4
TARGET = Target(1_000_000 / 3000)
"""With this a core takes in 3,000 tools a second."""


def once(folder: Path) -> list[float]:
    """Return what each stage takes for a tool of the lists in ``folder``, in microseconds."""
    lists: dict[str, Any] = json.loads((folder / "lists.json").read_text(encoding="utf-8"))
    settings = load(folder / "mcp.json", {"HOME": str(folder)}, folder)
    shaping = Shaping.from_settings(settings, SchemaChecker(50, time.monotonic).fits)
    gc.freeze()  # what the servers have is not ours to look through
    rounds = [_round(lists, settings, shaping) for _ in range(ROUNDS)]
    size = sum(map(len, lists.values()))
    return [min(stage) / size * 1_000_000 for stage in zip(*rounds, strict=True)]


def _round(lists: dict[str, Any], settings: Any, shaping: Shaping) -> list[float]:
    taken: list[float] = []

    def timed(work: Callable[[], Any]) -> Any:
        gc.collect()
        began = time.process_time()
        made = work()
        taken.append(time.process_time() - began)
        return made

    ingests = timed(lambda: [ingest(settings.servers[key], tools, shaping) for key, tools in lists.items()])
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "tools.db", TOOLS_SCHEMA) as store:
        index = ToolIndex(store)
        timed(lambda: [index.replace(each, config_fingerprint="x", now=0.0, era=None) for each in ingests])
        timed(index.stems.fill)
    return taken


def in_a_process(folder: Path, source: Path) -> list[float]:
    command = [sys.executable, __file__, "--once", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(source / "server")}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)


def measure(given: Namespace, folder: Path) -> None:
    captured, note = catalog.tool_lists(given.catalog)
    lists = scaled(captured, given.size)
    catalog.write_servers(folder, {key: ["in-memory"] for key in lists}, {"limits": {"tools_per_server": given.size}})
    (folder / "lists.json").write_text(json.dumps(lists), encoding="utf-8")
    say(f"{given.size:,} tools of {len(lists)} servers ...")
    sources = {"here": catalog.ROOT, **({"there": given.against.resolve()} if given.against else {})}
    runs = interleaved(given.repeat, {name: partial(in_a_process, folder, source) for name, source in sources.items()})
    medians = {name: [median(stage) for stage in zip(*each, strict=True)] for name, each in runs.items()}
    found: list[Finding] = []
    for place, stage in enumerate((*STAGES, "in all")):
        here, there = (
            sum(medians[name]) if place == len(STAGES) else medians[name][place]
            for name in ("here", next(reversed(runs)))
        )
        baseline = (there, str(given.against)) if given.against else (None, "")
        target = TARGET if place == len(STAGES) else None
        found.append(Finding(f"a tool: {stage}", "µs", here, *baseline, target))
    show(found, f"{note}, recombined; CPU time, medians of {given.repeat} processes", as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=5)
    catalog.add_option(parser)
    parser.add_argument("--size", type=int, default=3000, metavar="N", help="how many tools (default: 3000)")
    parser.add_argument("--against", type=Path, metavar="DIR", help="the other checkout")
    parser.add_argument("--once", type=Path, help="print one measurement of this folder, for use by this script")
    given = parser.parse_args()
    if given.once:
        print(json.dumps(once(given.once)))
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
