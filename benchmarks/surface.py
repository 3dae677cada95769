"""What a model has to read: toolcrib's own tools, instructions and search results, beside all tools listed at once.

All of it as a client gets it from ``toolcrib serve`` over stdio, with every captured server behind it. Skips where
the captured tool lists are not there: made-up tools would prove nothing. Needs tiktoken and its vocabulary for real
counts (README.md), else estimates. Counts do not vary: one round is enough. Where the extra ``programs`` is installed,
``tool_run`` is among the tools, and the row names it.
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, median, options, percentile, say, show
from raw_client import RawClient
from retrieval_data import load
from tokens import compact, counter

_READ = ("name", "description", "inputSchema")
_HITS = 5
_SURFACE_MOST = {3: 500, 4: 690, 6: 1000, 7: 1190}
"""How many tokens so many tools of toolcrib's own may take."""
REQUESTS = catalog.ROOT.parent / "shared" / "retrieval-dev"
"""Sets of requests that people made, in the form of retrieval.py."""

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


def asked(folder: Path, lists: Mapping[str, catalog.Tools], number: int) -> list[str]:
    """Return the requests of every set in a folder, else as many queries as are wanted, made for the catalog."""
    sets = [load(file) for file in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    return [query.text for one in sets for query in one.queries] or catalog.queries(lists, number)


def findings(client: RawClient, lists: Mapping[str, catalog.Tools], given: Namespace) -> tuple[list[Finding], str]:
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
    queries = asked(given.requests, lists, given.queries)
    results = list(answers(client, queries, "signature"))
    if results:
        found += list(of_answers(results, count, unit))
        whole = forms(list(answers(client, queries[: given.queries], "schema")), count)["text"]
        found.append(Finding(f"{_HITS} hits with whole schemas, text, p50", unit, median(whole)))
    asked_for = f"{len(results):,} of {len(queries):,} requests had {_HITS} hits"
    return found, f"{len(every):,} tools of {len(lists)} servers; {asked_for}"


def of_answers(results: list[dict[str, Any]], count: Count, unit: str) -> Iterator[Finding]:
    """Yield what answers take as text, beside their structured form, which some hosts would show instead or besides.

    The structured form repeats the query, however long that is; its own target is about the rest.
    """
    sizes = forms(results, count)
    text, structured = sizes["text"], sizes["structured"]
    queries = [count(compact(result["structuredContent"]["query"])) for result in results]
    rest = [whole - query for whole, query in zip(structured, queries, strict=True)]
    for what, figure, most in (
        ("p50", median, None),
        ("p95", partial(percentile, share=0.95), Target(320)),
        ("most", max, Target(360)),
    ):
        yield Finding(f"{_HITS} hits, text, {what}", unit, figure(text), figure(structured), "structured", most)
    yield Finding(f"{_HITS} hits, structured but for the query, p95", unit, percentile(rest, 0.95), target=Target(500))


def measure(given: Namespace, folder: Path) -> None:
    lists = catalog.captured(given.catalog)
    if not lists:
        show([], f"skipped: no tool lists in {given.catalog}", as_json=given.json)
        return
    say("listing every server once ...")
    with RawClient(catalog.toolcrib_command(catalog.write_config(folder, lists))) as client:
        found, note = findings(client, lists, given)
    show(found, note, as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=1)
    catalog.add_option(parser)
    parser.add_argument("--queries", type=int, default=200, metavar="N", help="searches (default: 200)")
    parser.add_argument(
        "--requests",
        type=Path,
        default=REQUESTS,
        metavar="DIR",
        help="sets of requests to search for instead, *.json (default: ../shared/retrieval-dev, if it is there)",
    )
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
