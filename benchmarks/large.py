"""A very large catalog: how fast it is taken in, what a search takes meanwhile and afterwards, and what it keeps.

Servers in this process list recombined tools of captured servers. Then the index is opened anew, in a process of its
own, for the first search, for searches by postings in memory and in the file, and for the memory that a tool takes.
Times are on the clock of the wall, those of the CPU beside them. What a larger catalog would take is drawn as a line
through the two largest sizes.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

import catalog
from measuring import Finding, Target, interleaved, median, options, percentile, say, show
from retrieval_data import scaled
from retrieval_world import configured, connector
from toolcrib.base.model import Caller
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.config.settings import TOOL_CACHE, Settings
from toolcrib.gateway.composition import open_gateway
from toolcrib.gateway.offline import open_offline
from toolcrib.gateway.runtime import Runtime
from toolcrib.policy.sessions import RunActivations, Session

LIMITS = {"first_index_wait_s": 0, "tools_per_server": 100_000, "parallel_starts": 8}
RATE, MEANWHILE_MS, FIRST_MS, MEMORY_KIB = Target(3000, is_least=True), Target(300), Target(500), Target(2)
P95_MS = {200: Target(1), 1000: Target(1.5), 8000: Target(6), 50_000: Target(25), 100_000: Target(30)}
LOOK_S = 0.5
SOURCES = {"memory": 10_000_000, "FTS5": 0}
IN_THE_WAY = (
    "one process reads, checks and stores all lists, so they come no faster than one core makes them",
    "lists that come together make the table of all names anew: the time of it grows with lists times tools",
    "names and fingerprints of all tools stay in memory",
    "words that very many tools have are read whole where a request has no others",
)
"""What grows with the catalog, and so stands in the way of one several times as large."""


def session() -> Session:
    return Session("benchmark", Caller(), RunActivations(), growing=False)


def settings_of(folder: Path, servers: Sequence[str], in_memory: int | None = None) -> Settings:
    limits = LIMITS if in_memory is None else {**LIMITS, "ranked_in_memory": in_memory}
    return configured(folder, servers, {"limits": limits, "skills": {"enabled": False}})


async def index(
    settings: Settings, lists: Mapping[str, Any], queries: Sequence[str]
) -> tuple[float, float, list[float]]:
    """Have every server listed; return how long that took, the CPU's time of it, and each search meanwhile in ms."""
    took: list[float] = []
    size, asked = sum(map(len, lists.values())), session()
    began, worked = time.perf_counter(), time.process_time()
    async with open_gateway(settings, Runtime(connector=connector(lists)), skills=False) as gateway:
        crib = gateway.tools
        while len(crib.indexer.catalog.tools) < size:
            before = time.perf_counter()
            await crib.search_tools(asked, SearchRequest(queries[len(took) % len(queries)]), "signature")
            took.append((time.perf_counter() - before) * 1000)
            await anyio.sleep(LOOK_S)
        return time.perf_counter() - began, time.process_time() - worked, took


def resident_kib() -> float:
    """Return the memory of this process that is in use, as Linux has it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def once(folder: Path, in_memory: int) -> dict[str, Any]:
    """Open an index and search in it; return what is measured."""
    known_as = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    settings = settings_of(folder, known_as["servers"], in_memory)
    with tempfile.TemporaryDirectory() as nothing:
        empty = settings_of(Path(nothing), [])
        with open_offline(empty, Runtime()) as known:  # imports, and what else does not depend on the catalog
            known.finder.searcher.search(*asked_of(known, "anything"))
    base = resident_kib()
    with open_offline(settings, Runtime()) as known:
        searcher = known.finder.searcher
        taken: list[float] = []
        worked: list[float] = []
        for query in known_as["queries"]:
            before, busy = time.perf_counter(), time.process_time()
            searcher.search(*asked_of(known, query))
            taken.append((time.perf_counter() - before) * 1000)
            worked.append((time.process_time() - busy) * 1000)
        kib = (resident_kib() - base) / len(known.indexer.catalog.tools)
        return {"first": taken[0], "first_worked": worked[0], "taken": taken[1:], "worked": worked[1:], "kib": kib}


def asked_of(known: Any, query: str) -> tuple[SearchRequest, Any, Any]:
    now = known.indexer.current()
    return SearchRequest(query), now, known.gate.permitted(session(), now)


def in_a_process(folder: Path, in_memory: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--once", str(folder), "--in-memory", str(in_memory)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def indexed(given: Namespace, folder: Path, size: int) -> list[Finding]:
    """Have an index of so many tools made, unless it is kept from an earlier run; return what that took."""
    if (folder / "queries.json").is_file():
        return []
    captured, _ = catalog.tool_lists(given.catalog)
    lists = scaled(captured, size)
    queries = catalog.queries(captured, given.queries)
    gc.collect()
    gc.freeze()  # what the servers have is not ours to look through
    say(f"indexing {size:,} tools of {len(lists)} servers ...")
    took, worked, meanwhile = anyio.run(index, settings_of(folder, list(lists)), lists, queries)
    gc.unfreeze()
    (folder / "queries.json").write_text(json.dumps({"servers": list(lists), "queries": queries}), encoding="utf-8")
    what = f"{size:,} tools"
    return [
        Finding(f"{what}: indexed a second", "tools", size / took, target=RATE),
        Finding(f"{what}: indexed a second of the CPU, searches included", "tools", size / worked),
        Finding(f"{what}: slowest search meanwhile", "ms", max(meanwhile), target=MEANWHILE_MS),
    ]


def searched(given: Namespace, folder: Path, size: int) -> list[Finding]:
    """Return what searches in an index take, by each source of postings."""
    say(f"searching {size:,} tools ...")
    sources = {name: partial(in_a_process, folder, most) for name, most in SOURCES.items() if name in given.sources}
    found = [
        Finding(f"{size:,} tools: file", "KiB a tool", (folder / "cache" / TOOL_CACHE).stat().st_size / 1024 / size)
    ]
    for name, each in interleaved(given.repeat, sources).items():
        what, large = f"{size:,} tools, {name}", name == "FTS5"
        p50, p95, worked50, worked95 = (
            median([percentile(run[key], share) for run in each])
            for key in ("taken", "worked")
            for share in (0.5, 0.95)
        )
        first, worked, kib = (median([run[key] for run in each]) for key in ("first", "first_worked", "kib"))
        found += [
            Finding(f"{what}: first search", "ms", first, target=FIRST_MS if large else None),
            Finding(f"{what}: first search, CPU", "ms", worked),
            Finding(f"{what}: search, p50", "ms", p50),
            Finding(f"{what}: search, p50, CPU", "ms", worked50),
            Finding(f"{what}: search, p95", "ms", p95, target=P95_MS.get(size)),
            Finding(f"{what}: search, p95, CPU", "ms", worked95),
            Finding(f"{what}: memory", "KiB a tool", kib, target=MEMORY_KIB if large else None),
        ]
    return found


def extrapolated(beyond: int, sizes: Sequence[int], found: Mapping[int, Sequence[Finding]]) -> list[Finding]:
    """Return what so many tools would take, on a line through the two largest sizes; shares of a tool as they are."""
    small, large = sorted(sizes)[-2:]
    known = {one.what.removeprefix(f"{small:,}"): one.toolcrib for one in found[small]}
    steps = (beyond - large) / (large - small)
    drawn: list[Finding] = []
    for one in found[large]:
        what = one.what.removeprefix(f"{large:,}")
        if what in known and "memory:" not in what:  # that source is for small catalogs
            more = max(0.0, one.toolcrib - known[what]) * steps if one.unit == "ms" else 0.0
            drawn.append(Finding(f"{beyond:,} (not measured){what}", one.unit, one.toolcrib + more))
    return drawn


def measure(given: Namespace, folder: Path) -> None:
    found: dict[int, list[Finding]] = {}
    for size in given.sizes:
        place = folder / str(size)
        place.mkdir(parents=True, exist_ok=True)
        found[size] = [*indexed(given, place, size), *searched(given, place, size)]
    rows = [one for each in found.values() for one in each]
    notes = [f"each query once, nothing of it known before; medians of {given.repeat} runs"]
    if given.beyond:
        rows += extrapolated(given.beyond, given.sizes, found)
        notes += [f"in the way of {given.beyond:,} tools: {each}" for each in IN_THE_WAY]
    show(rows, *notes, as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=3)
    catalog.add_option(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 8000, 50_000, 100_000], metavar="N")
    parser.add_argument("--queries", type=int, default=200, metavar="N", help="queries a run (default: 200)")
    parser.add_argument("--sources", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--beyond", type=int, metavar="N", help="print what so many tools would take, unmeasured")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the indexes there, and use those that are there")
    parser.add_argument("--once", type=Path, help="print one measurement of this folder, for use by this script")
    parser.add_argument("--in-memory", type=int, default=0, help="likewise")
    given = parser.parse_args()
    if given.once:
        print(json.dumps(once(given.once, given.in_memory)))
        return
    if given.beyond and len(set(given.sizes)) == 1:
        parser.error("--beyond needs two sizes")
    with tempfile.TemporaryDirectory() as folder:
        measure(given, given.keep or Path(folder))


if __name__ == "__main__":
    main()
