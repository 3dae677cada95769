"""One tool_search in process, from the request to the rendered result, beside SQLite's plain full-text query.

For a caller who may see everything, for one from whom some tools are hidden, and by pattern; on catalogs of several
sizes. The baseline finds eight rows by the same words in the same file, ordered by FTS5's own bm25(), and shows
nothing of them.
"""

import gc
import os
import sqlite3
import tempfile
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from pathlib import Path

import anyio

import catalog
from measuring import Finding, Target, any_of, interleaved_async, median, options, percentile, say, show
from toolcrib.base.model import Caller, SearchType
from toolcrib.base.text import query_terms
from toolcrib.catalog.tool_search import SearchRequest, search_json
from toolcrib.config.loading import load
from toolcrib.config.settings import TOOL_CACHE, Settings
from toolcrib.gateway.composition import open_gateway
from toolcrib.gateway.runtime import Runtime
from toolcrib.gateway.tools import ToolUseCases
from toolcrib.policy.sessions import RunActivations, Session
from toolcrib.server.builtin.tools import answer_text

TARGETS_MS = {1000: Target(2), 8000: Target(10)}
FIRST_TARGETS_MS = {8000: Target(2000)}
GUESTS = {"policy": {"visibility": [{"when": {"profile": "guest"}, "deny": ["*delete*", "*write*"]}]}}
PATTERNS = ("(list|search)_.*file", "^create", "issue", "get_.*_by_id$", "invoice|payment")
PLAIN = "SELECT rowid FROM tools_fts WHERE tools_fts MATCH ? ORDER BY bm25(tools_fts) LIMIT 8"

Round = Callable[[], Awaitable[list[float]]]


def searches(crib: ToolUseCases, caller: Caller, kind: SearchType, queries: Iterable[str]) -> Round:
    """Return a round: the milliseconds that each query takes."""
    session = Session("benchmark", caller, RunActivations(), growing=True)

    async def run() -> list[float]:
        taken: list[float] = []
        for query in queries:
            began = time.perf_counter()
            answer = await crib.search_tools(session, SearchRequest(query, kind), "signature")
            _ = answer_text(answer), search_json(answer)
            taken.append((time.perf_counter() - began) * 1000)
        return taken

    return run


def plain_queries(connection: sqlite3.Connection, queries: Iterable[str]) -> Round:
    """Return a round of the baseline."""

    async def run() -> list[float]:
        taken: list[float] = []
        for query in queries:
            began = time.perf_counter()
            connection.execute(PLAIN, (any_of(query_terms(query)),)).fetchall()
            taken.append((time.perf_counter() - began) * 1000)
        return taken

    return run


async def measure_size(given: Namespace, settings: Settings, queries: list[str]) -> list[Finding]:
    """Return the findings for one catalog, whose index is there already."""
    async with open_gateway(settings, Runtime(), skills=False) as gateway:
        crib = gateway.tools
        with closing(sqlite3.connect(settings.tool_cache_dir / TOOL_CACHE)) as connection:
            cases = {
                "words": searches(crib, Caller(), SearchType.FTS, queries),
                "words, some tools hidden": searches(crib, Caller(profile="guest"), SearchType.FTS, queries),
                "pattern": searches(crib, Caller(), SearchType.REGEX, PATTERNS),
                "plain": plain_queries(connection, queries),
            }
            [first] = await searches(crib, Caller(), SearchType.FTS, queries[:1])()  # it makes the ranking
            await interleaved_async(1, cases)  # what is worked out once is worked out now
            gc.freeze()  # as the product does when it has started
            size = len(crib.indexer.catalog.tools)
            return [
                Finding(f"{size:,} tools, first search", "ms", first, target=FIRST_TARGETS_MS.get(size)),
                *findings(size, await interleaved_async(given.repeat, cases)),
            ]


def findings(size: int, rounds: dict[str, list[list[float]]]) -> list[Finding]:
    return [
        Finding(
            f"{size:,} tools, {name}, p{share * 100:g}",
            "ms",
            median([percentile(each, share) for each in rounds[name]]),
            None if name == "pattern" else median([percentile(each, share) for each in rounds["plain"]]),
            "plain FTS5",
            TARGETS_MS.get(size) if share == 0.95 and name != "pattern" else None,
        )
        for name in ("words", "words, some tools hidden", "pattern")
        for share in (0.5, 0.95, 0.99)
    ]


def measure(given: Namespace, folder: Path) -> None:
    lists, note = catalog.tool_lists(given.catalog)
    found: list[Finding] = []
    for size in given.sizes:
        say(f"indexing {size:,} tools ...")
        chosen = catalog.enlarged(lists, size)
        own_folder = folder / str(size)
        own_folder.mkdir()
        config = catalog.write_config(own_folder, chosen, GUESTS)
        catalog.index(config)
        settings = load(config, dict(os.environ), own_folder)
        found += anyio.run(measure_size, given, settings, catalog.queries(chosen, given.queries))
    show(found, f"{note}, copied as often as needed; medians of {given.repeat} rounds", as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=5)
    catalog.add_option(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 8000], metavar="N", help="catalog sizes")
    parser.add_argument("--queries", type=int, default=200, metavar="N", help="queries a round (default: 200)")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
