"""What a model reads before anything is used, for few tools and for many: listed directly, found by search, or whole.

Tools of captured servers behind ``toolcrib serve`` over stdio, skills as by default; whole by
``gate.pass_through_tokens``. Tokens of names, descriptions and input schemas, and of the instructions. Counts do not
vary: one round is enough.
"""

import tempfile
from argparse import Namespace
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import catalog
from measuring import Finding, Target, options, say, show
from raw_client import RawClient
from surface import listed_tokens
from tokens import counter

SIZES = (2, 14, 40, 120, 1330)
FEW = 14
"""So many tools are those of two servers, as in a first config."""
WHOLE_MOST = Target(1.05, of="ratio")
"""How many times what the tools take alone a whole list may take."""
_TOOLS_MAX = 1000


def some(lists: Mapping[str, catalog.Tools], size: int) -> dict[str, catalog.Tools]:
    """Return ``size`` tools by server: the first of each server in turn, then the second, and so on."""
    keys = sorted(lists, key=lambda key: len(lists[key]))[:2] if size <= FEW else list(lists)
    while size > sum(len(lists[key]) for key in keys):
        keys = sorted(lists, key=lambda key: len(lists[key]))[: len(keys) + 1]
    turns = ((key, lists[key][place]) for place in range(_TOOLS_MAX) for key in keys if place < len(lists[key]))
    chosen: dict[str, catalog.Tools] = {}
    for key, tool in islice(turns, size):
        chosen.setdefault(key, []).append(tool)
    return chosen


def shown(folder: Path, lists: Mapping[str, catalog.Tools], limit: int) -> int:
    """Return what a model reads of a start with known servers, in tokens."""
    count, _unit = counter()
    folder.mkdir()
    config = catalog.write_config(folder, lists, {"gate": {"pass_through_tokens": limit}})
    command = catalog.toolcrib_command(config)
    catalog.index(config)
    with RawClient(command) as client:
        instructions = client.open().get("instructions", "")
        return listed_tokens(client.request("tools/list", {})["tools"], count) + count(instructions)


def measure(given: Namespace, folder: Path) -> None:
    every, note = catalog.tool_lists(given.catalog)
    count, unit = counter()
    found: list[Finding] = []
    for size in given.sizes:
        say(f"{size:,} tools ...")
        lists = some(every, min(size, sum(map(len, every.values()))))
        alone = listed_tokens([tool for tools in lists.values() for tool in tools], count)
        searched = shown(folder / f"{size}-searched", lists, 0)
        # More than the tools take: their names here have those of their servers in front.
        whole = shown(folder / f"{size}-whole", lists, 2 * alone)
        found += [
            Finding(f"{size:,} tools, found by search", unit, searched, alone, "listed directly"),
            Finding(f"{size:,} tools, listed whole", unit, whole, alone, "listed directly", WHOLE_MOST),
        ]
    show(found, note, as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=1)
    catalog.add_option(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
