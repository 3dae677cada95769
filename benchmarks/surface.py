"""What a model has to read: toolcrib's own tools, instructions and search results, beside all tools listed at once.

All of it as a client gets it from ``toolcrib serve`` over stdio, with every captured server behind it. Skips where
the captured tool lists are not there: made-up tools would prove nothing. Needs tiktoken and its vocabulary for real
counts (README.md), else estimates. Counts do not vary: one round is enough.
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, median, options, percentile, say, show
from raw_client import RawClient
from tokens import compact, counter

_READ = ("name", "description", "inputSchema")
_HITS = 5
_SURFACE_MOST = {2: 500, 5: 950}
"""How many tokens so many tools of toolcrib's own may take."""

Count = Callable[[str], int]


def listed_tokens(tools: list[dict[str, Any]], count: Count) -> int:
    """Return what a model reads of listed tools."""
    return sum(count(compact({key: tool[key] for key in _READ if key in tool})) for tool in tools)


def answers(client: RawClient, queries: list[str], detail: str) -> Iterator[dict[str, Any]]:
    """Yield the result of each search that finds as many as were asked for."""
    for query in queries:
        result = client.call("tool_search", {"query": query, "limit": _HITS, "detail": detail})
        if len(result["structuredContent"]["tools"]) == _HITS:
            yield result


def forms(results: list[dict[str, Any]], count: Count) -> Mapping[str, list[int]]:
    """Return the tokens of each answer in its two forms; a host shows the model one of them."""
    return {
        "structured": [count(compact(result["structuredContent"])) for result in results],
        "text": [count(result["content"][0]["text"]) for result in results],
    }


def findings(client: RawClient, lists: Mapping[str, catalog.Tools], number: int) -> tuple[list[Finding], str]:
    count, unit = counter()
    instructions = client.open()["instructions"]
    guidance = instructions.partition("<skill_directory>")[0]
    listed = client.request("tools/list", {})["tools"]
    every = [{**tool, "name": f"{key}__{tool['name']}"} for key, tools in lists.items() for tool in tools]
    whole, own = listed_tokens(every, count), listed_tokens(listed, count)
    names = " + ".join(tool["name"] for tool in listed)
    most = _SURFACE_MOST.get(len(listed))
    found = [
        Finding(f"tools/list: {names}", unit, own, whole, "all listed", Target(most) if most else None),
        Finding("instructions", unit, count(guidance), target=Target(250)),
        Finding("… with the directory of skills", unit, count(instructions)),
    ]
    queries = catalog.queries(lists, number)
    results = list(answers(client, queries, "signature"))
    if results:
        for form, sizes in forms(results, count).items():
            target = Target(500) if form == "structured" else None
            found += [
                Finding(f"{_HITS} hits, {form}, p50", unit, median(sizes)),
                Finding(f"{_HITS} hits, {form}, p95", unit, percentile(sizes, 0.95), target=target),
            ]
        whole_schemas = forms(list(answers(client, queries, "schema")), count)["structured"]
        found.append(Finding(f"{_HITS} hits with whole schemas, structured, p50", unit, median(whole_schemas)))
    return found, f"{len(every):,} tools of {len(lists)} servers; {len(results)} of {number} queries had {_HITS} hits"


def measure(given: Namespace, folder: Path) -> None:
    lists = catalog.captured(given.catalog)
    if not lists:
        show([], f"skipped: no tool lists in {given.catalog}", as_json=given.json)
        return
    say("listing every server once ...")
    with RawClient(catalog.toolcrib_command(catalog.write_config(folder, lists))) as client:
        found, note = findings(client, lists, given.queries)
    show(found, note, as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=1)
    catalog.add_option(parser)
    parser.add_argument("--queries", type=int, default=200, metavar="N", help="searches (default: 200)")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
