"""Search by meaning with the installed model: what it costs to load, to take tools in and to search, and its memory.

Each figure is beside the same without a model, or beside SQLite's plain full-text search, in the same run. Needs the
extra `toolcrib[semantic]`.
"""

import gc
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

import catalog
import large
from measuring import Finding, Target, any_of, interleaved, median, options, percentile, say, show
from retrieval_data import scaled
from retrieval_world import configured
from toolcrib.base.text import query_terms
from toolcrib.config.settings import Settings
from toolcrib.gateway.offline import Offline, open_offline
from toolcrib.gateway.runtime import Runtime
from toolcrib.search.static_model import StaticModel, find_model, load_model

P95_MS = {200: Target(1.5), 1000: Target(2), 8000: Target(8), 50_000: Target(30), 100_000: Target(45)}
REAL = 1330
"""Number of tools whose memory is measured: as many as the captured servers have."""
WAYS = {"with meaning": "auto", "words alone": False}
PLAIN = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT 8"


def settings_of(folder: Path, servers: Sequence[str], enabled: object) -> Settings:
    section = {"limits": large.LIMITS, "skills": {"enabled": False}, "tool_search": {"semantic": {"enabled": enabled}}}
    return configured(folder, servers, section)


# -- the model by itself -------------------------------------------------------------------------


def load() -> StaticModel:
    return load_model(find_model(None, Path(os.devnull)))


def loaded() -> dict[str, float]:
    """Return what loading the model takes in this process, and the import of numpy alone."""
    began = time.process_time()
    import_module("numpy")
    imported = time.process_time()
    load().encode(["tool"])
    return {"numpy": (imported - began) * 1000, "model": (time.process_time() - began) * 1000}


def of_model(given: Namespace, lists: Mapping[str, catalog.Tools]) -> list[Finding]:
    runs = [in_a_process("--load") for _ in range(given.repeat)]
    texts = [
        f"{key} {tool['name']} {tool.get('description', '')}"[:2000] for key, tools in lists.items() for tool in tools
    ]
    queries = catalog.queries(lists, given.queries)
    model = load()
    model.encode(texts)  # every page of the table that they need is read now
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')")
        found = interleaved(
            given.repeat,
            {
                "encode": lambda: [seconds(lambda: model.encode(texts))],
                "insert": lambda: [seconds(partial(insert, connection, texts))],
                "query": lambda: [seconds(partial(model.encode, [query])) * 1000 for query in queries],
                "match": lambda: [seconds(partial(matches, connection, query)) * 1000 for query in queries],
            },
        )
    rates = {name: len(texts) / median([took for (took,) in found[name]]) for name in ("encode", "insert")}
    p95 = {name: median([percentile(each, 0.95) for each in found[name]]) for name in ("query", "match")}
    return [
        Finding(
            "loading the model, CPU",
            "ms",
            median([run["model"] for run in runs]),
            median([run["numpy"] for run in runs]),
            "of that to import numpy",
            Target(300),
        ),
        Finding(
            "definitions encoded, a second of CPU",
            "tools",
            rates["encode"],
            rates["insert"],
            "inserted into a plain FTS5 table",
            Target(2000, is_least=True),
        ),
        Finding("encoding a query, CPU, p95", "ms", p95["query"], p95["match"], "plain FTS5 query", Target(1)),
    ]


def insert(connection: sqlite3.Connection, texts: Sequence[str]) -> None:
    connection.executemany("INSERT INTO texts VALUES (?)", [(text,) for text in texts])


def matches(connection: sqlite3.Connection, query: str) -> list[Any]:
    return connection.execute(PLAIN, (any_of(query_terms(query)),)).fetchall()


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of CPU that some work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


# -- a catalog -----------------------------------------------------------------------------------


def index(folder: Path, size: int, given: Namespace) -> list[Finding]:
    """Have an index of so many tools made with and without vectors; keep both."""
    captured, _ = catalog.tool_lists(given.catalog)
    lists = scaled(captured, size)
    queries = catalog.queries(captured, given.queries)
    rates: dict[str, float] = {}
    for way, enabled in WAYS.items():
        say(f"indexing {size:,} tools, {way} ...")
        place = folder / way.replace(" ", "-") / str(size)
        place.mkdir(parents=True)
        gc.collect()
        rates[way] = size / anyio.run(large.index, settings_of(place, list(lists), enabled), lists, queries)[1]
        (place / "queries.json").write_text(json.dumps({"servers": list(lists), "queries": queries}), encoding="utf-8")
    what = f"{size:,} tools: taken in, a second of CPU, searches included"
    return [Finding(what, "tools", rates["with meaning"], rates["words alone"], "words alone")]


def opened(stack: ExitStack, folder: Path, way: str, size: int) -> tuple[Offline, list[str]]:
    place = folder / way.replace(" ", "-") / str(size)
    kept = json.loads((place / "queries.json").read_text(encoding="utf-8"))
    known = stack.enter_context(open_offline(settings_of(place, kept["servers"], WAYS[way]), Runtime()))
    return known, kept["queries"]


def searches(known: Offline, queries: Sequence[str]) -> list[float]:
    """Return the milliseconds of CPU that each query takes."""
    searcher = known.finder.searcher
    return [seconds(partial(searcher.search, *large.asked_of(known, query))) * 1000 for query in queries]


def searched(folder: Path, size: int, given: Namespace) -> list[Finding]:
    say(f"searching {size:,} tools ...")
    with ExitStack() as stack:
        cases: dict[str, Callable[[], list[float]]] = {}
        for way in WAYS:
            known, queries = opened(stack, folder, way, size)
            cases[way] = partial(searches, known, queries)
        interleaved(1, cases)  # what is worked out once is worked out now
        gc.freeze()
        found = interleaved(given.repeat, cases)
        gc.unfreeze()
    shares = {
        name: {way: median([percentile(each, share) for each in found[way]]) for way in WAYS}
        for name, share in (("p50", 0.5), ("p95", 0.95))
    }
    return [
        Finding(
            f"{size:,} tools: search, CPU, {name}",
            "ms",
            each["with meaning"],
            each["words alone"],
            "words alone",
            P95_MS.get(size) if name == "p95" else None,
        )
        for name, each in shares.items()
    ]


def resident_mb(folder: Path, way: str, size: int) -> float:
    """Return the memory of this process after searches in an index."""
    with ExitStack() as stack:
        known, queries = opened(stack, folder, way, size)
        searches(known, queries)
        return large.resident_kib() / 1024


def in_a_process(*options: str) -> Any:
    command = [sys.executable, __file__, *options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def memory(folder: Path, size: int, given: Namespace) -> Finding:
    cases = {way: partial(in_a_process, "--memory", str(folder), way, str(size)) for way in WAYS}
    found = {way: median(values) for way, values in interleaved(given.repeat, cases).items()}
    what = f"{size:,} tools: memory of a process that has searched"
    return Finding(what, "MB", found["with meaning"], found["words alone"], "words alone", Target(60, "difference"))


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    found = of_model(given, lists)
    for size in given.sizes:
        found += index(folder, size, given)
        found += searched(folder, size, given)
        if size == min(given.sizes, key=lambda each: abs(each - REAL)):
            found.append(memory(folder, size, given))
    notes = f"{note}, recombined; {find_model(None, Path(os.devnull)).label}; medians of {given.repeat} rounds"
    show(found, notes, as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=5)
    catalog.add_option(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 8000], metavar="N", help="catalog sizes")
    parser.add_argument("--queries", type=int, default=200, metavar="N", help="queries a round (default: 200)")
    parser.add_argument("--load", action="store_true", help="print one measurement, for use by this script")
    parser.add_argument("--memory", nargs=3, metavar=("DIR", "WAY", "SIZE"), help="likewise")
    given = parser.parse_args()
    if given.load:
        print(json.dumps(loaded()))
    elif given.memory:
        folder, way, size = given.memory
        print(json.dumps(resident_mb(Path(folder), way, int(size))))
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(given, Path(folder))


if __name__ == "__main__":
    main()
