"""One way for a Python program to search tools, measured in a process of its own: ``python_contenders.py NAME < JSON``.

Standard input has the tool lists by server and the queries; or ``functions``, how many functions to make tools of and
call. The answer is one line of JSON. Each contender imports only what it measures, so that this file runs in an
environment that has nothing else.
"""

import gc
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
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


# -- functions of the program as tools ------------------------------------------------------------------


def functions(count: int) -> list[Callable[..., Any]]:
    """Return functions as a program has them, each with parameters and a docstring."""

    def made(number: int) -> Callable[..., Any]:
        async def order(item: str, amount: int = number) -> str:
            return f"{amount} {item}"

        order.__name__ = order.__qualname__ = f"order_{number}"
        order.__doc__ = f"Order an item of shelf {number}.\n\nArgs:\n    item: What to order.\n    amount: How many."
        return order

    return [made(number) for number in range(count)]


@asynccontextmanager
async def toolcrib_functions(given: dict[str, Any]) -> AsyncGenerator[Callable[[str, dict[str, Any]], Any]]:
    import toolcrib

    async with toolcrib.open(tools=functions(given["functions"])) as crib:
        await crib.tools()
        yield lambda name, arguments: crib.call(f"local__{name}", arguments)


@asynccontextmanager
async def fastmcp_functions(given: dict[str, Any]) -> AsyncGenerator[Callable[[str, dict[str, Any]], Any]]:
    library: Any = import_module("fastmcp")
    server = library.FastMCP("functions")
    for function in functions(given["functions"]):
        server.tool(function)
    async with library.Client(server) as client:
        await client.list_tools()
        yield client.call_tool


CALLERS = {"toolcrib": toolcrib_functions, "fastmcp": fastmcp_functions}


async def measured_calls(name: str, given: dict[str, Any]) -> dict[str, Any]:
    async with CALLERS[name]({**given, "functions": 1}) as call:  # everything is imported, and has run once
        await call("order_0", {"item": "tea"})
    began = time.process_time()
    async with CALLERS[name](given) as call:
        ready_cpu_s = time.process_time() - began
        took: list[float] = []
        for number in range(2 * given["functions"]):
            start = time.perf_counter()
            await call(f"order_{number % given['functions']}", {"item": "tea"})
            took.append((time.perf_counter() - start) * 1000)
    return {"ready_cpu_s": ready_cpu_s, "took_ms": took[given["functions"] :]}


def answer() -> None:
    given = json.load(sys.stdin)
    measure = measured_calls if "functions" in given else measured
    try:
        print(json.dumps(anyio.run(measure, sys.argv[1], given)))
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))


if __name__ == "__main__":
    answer()
