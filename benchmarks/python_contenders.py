"""One way for a Python program to search tools, measured in a process of its own: ``python_contenders.py NAME < JSON``.

Standard input has the tool lists by server and the queries; the answer is one line of JSON. Each contender imports only
what it measures, so that this file runs in an environment that has nothing else.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from inspect import isawaitable
from pathlib import Path
from typing import Any

import anyio

Search = Callable[[str], object]
"""Searches, or returns an awaitable that does."""

LIMIT = 8


def resident_mib() -> float:
    """Return the memory of this process that is in use, as Linux has it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def every_tool(given: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(server, tool) for server, tools in given["lists"].items() for tool in tools]


def text_of(server: str, tool: dict[str, Any]) -> str:
    """Return what a plain search has of a tool: its names, its description, and those of its parameters."""
    properties = tool.get("inputSchema", {}).get("properties", {})
    described = (
        f"{name} {value.get('description', '') if isinstance(value, dict) else ''}"
        for name, value in properties.items()
    )
    return f"{server} {tool['name']} {tool.get('description', '')} {' '.join(described)}".replace("_", " ")


# -- the contenders: import, then ready, then a search -----------------------------------------------


def toolcrib_search(given: dict[str, Any]) -> Callable[[], Any]:
    import toolcrib

    _ = toolcrib.ToolSearch

    def ready() -> Search:
        index = toolcrib.ToolSearch(semantic=given["semantic"])
        for server, tools in given["lists"].items():
            index.add(tools, server=server)
        return lambda query: index.search(query, limit=LIMIT)

    return ready


def bm25s(given: dict[str, Any]) -> Callable[[], Any]:
    library: Any = import_module("bm25s")

    def ready() -> Search:
        quiet: dict[str, Any] = {"show_progress": False}
        limit = min(LIMIT, len(every_tool(given)))
        index = library.BM25()
        index.index(library.tokenize([text_of(*each) for each in every_tool(given)], stopwords="en", **quiet), **quiet)
        return lambda query: index.retrieve(library.tokenize(query, stopwords="en", **quiet), k=limit, **quiet)

    return ready


def fastmcp(given: dict[str, Any]) -> Callable[[], Any]:
    library: Any = import_module("fastmcp")
    transforms: Any = import_module("fastmcp.server.transforms.search")
    tools: Any = import_module("fastmcp.tools")

    class Listed(tools.Tool):
        """A tool that is only listed."""

    async def ready() -> Search:
        server = library.FastMCP("listed", transforms=[transforms.BM25SearchTransform(max_results=LIMIT)])
        for name, tool in every_tool(given):
            schema = tool.get("inputSchema") or {"type": "object"}
            description = tool.get("description")
            server.add_tool(Listed(name=f"{name}__{tool['name']}", description=description, parameters=schema))
        client = library.Client(server)
        await client.__aenter__()  # the end of the process ends it
        return lambda query: client.call_tool("search_tools", {"query": query})

    return ready


CONTENDERS = {"toolcrib": toolcrib_search, "bm25s": bm25s, "fastmcp": fastmcp}


# -- measuring ------------------------------------------------------------------------------------------


def inside(timings: list[float]) -> None:
    """Have each search of the engine write down the milliseconds that it takes."""
    from toolcrib.catalog.tool_search import Searcher

    search = Searcher.search

    def timed(*given: Any) -> Any:
        began = time.perf_counter()
        found = search(*given)
        timings.append((time.perf_counter() - began) * 1000)
        return found

    Searcher.search = timed  # pyright: ignore[reportAttributeAccessIssue]


async def done(answer: Any) -> Any:
    return await answer if isawaitable(answer) else answer


async def measured(name: str, given: dict[str, Any]) -> dict[str, Any]:
    began = time.process_time()
    ready = CONTENDERS[name](given)
    imported_s = time.process_time() - began
    gc.collect()
    before_mib, began, worked = resident_mib(), time.perf_counter(), time.process_time()
    search: Search = await done(ready())
    await done(search(given["queries"][0]))
    ready_s, ready_cpu_s = time.perf_counter() - began, time.process_time() - worked
    gc.collect()
    held_mib = resident_mib() - before_mib
    engine: list[float] = []
    if name == "toolcrib":
        inside(engine)
    for query in given["queries"]:  # what is worked out once is worked out now
        await done(search(query))
    engine.clear()
    took: list[float] = []
    for query in given["queries"]:
        began = time.perf_counter()
        await done(search(query))
        took.append((time.perf_counter() - began) * 1000)
    return {
        "imported_s": imported_s,
        "ready_s": ready_s,
        "ready_cpu_s": ready_cpu_s,
        "mib": held_mib,
        "took_ms": took,
        "engine_ms": engine,
    }


def answer() -> None:
    given = json.load(sys.stdin)
    try:
        print(json.dumps(anyio.run(measured, sys.argv[1], given)))
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))


if __name__ == "__main__":
    answer()
