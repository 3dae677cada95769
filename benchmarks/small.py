"""What a model reads before anything is used, for few tools and for many: listed directly, found by search, or whole.

Tools of captured servers behind ``toolcrib serve`` over stdio, skills as by default; whole by
``gate.pass_through_tokens``. By host, as each is served by its name, and as far as it shows its model tools and
instructions, which ``tests/hosts`` has from real runs; a host that was not run is taken to show all of both. Tokens of
names, descriptions and input schemas, and of the instructions. Counts do not vary: one round is enough.
"""

import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import catalog
from measuring import Finding, Target, options, say, show
from raw_client import RawClient
from surface import listed_tokens
from tokens import counter

SIZES = (2, 14, 40, 120, 1330)
FEW = 14
"""So many tools are those of two servers, as in a first config."""
FIRST = ("time", "git")
WHOLE_MOST = Target(1.05, of="ratio")
"""How many times what the tools take alone a whole list may take."""
_TOOLS_MAX = 1000
_SUMMARY = 155
"""Characters of a description that a host shows beside the names of tools."""

sys.path.insert(0, str(catalog.ROOT / "tests"))

HOSTS = {
    "any other client": ("somebody", ""),
    "cursor, not run": ("cursor-vscode", ""),
    "claude-code": ("claude-code", "claude-code"),
    "codex": ("codex-mcp-client", "codex"),
    "gemini-cli": ("gemini-cli-mcp-client", "gemini-cli"),
    "opencode": ("opencode", "opencode"),
    "copilot": ("copilot-cli", "copilot"),
    "qwen-code": ("qwen-cli-mcp-client", "qwen-code"),
    "cline": ("@cline/core", "cline"),
    "continue": ("continue-cli-client", "continue"),
}
"""The name that each host sends, and its row in ``tests/hosts/expected.py``; none for one that was not run."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of tools and instructions a host shows its model at first; the counts are tokens."""

    tools: str = "tools"
    instructions: str = "whole"

    def tokens(
        self, servers: Sequence[str], tools: Sequence[dict[str, Any]], instructions: str, count: Callable[[str], int]
    ) -> int:
        """Return what a model reads of servers with these tools, and of instructions."""
        told = {"whole": instructions, "first line": instructions.partition("\n")[0], "none": ""}[self.instructions]
        if self.tools == "tools":
            read = listed_tokens(list(tools), count)
        elif self.tools == "names":
            read = sum(count(f"{tool['name']}: {tool.get('description', '')[:_SUMMARY]}") for tool in tools)
        else:
            read = sum(map(count, servers))
        return read + count(told)


def shown_by(host: str) -> Shown:
    """Return what a host shows; one that was not run, all."""
    from hosts.expected import EXPECTED

    row = EXPECTED.get(HOSTS[host][1])
    return Shown(row.reaches, row.instructions) if row else Shown()


def some(lists: Mapping[str, catalog.Tools], size: int) -> dict[str, catalog.Tools]:
    """Return ``size`` tools by server: the first of each server in turn, then the second, and so on."""
    # The two servers of README first, else the smallest: what a first config has.
    few = sorted(lists, key=lambda key: (key not in FIRST, len(lists[key])))
    keys = few[:2] if size <= FEW else list(lists)
    while size > sum(len(lists[key]) for key in keys):
        keys = few[: len(keys) + 1]
    turns = ((key, lists[key][place]) for place in range(_TOOLS_MAX) for key in keys if place < len(lists[key]))
    chosen: dict[str, catalog.Tools] = {}
    for key, tool in islice(turns, size):
        chosen.setdefault(key, []).append(tool)
    return chosen


def told(folder: Path, lists: Mapping[str, catalog.Tools], limit: int, hosts: Sequence[str]) -> dict[str, Any]:
    """Return, by host, the tools and the instructions that it gets of a start with known servers."""
    folder.mkdir()
    section = {"gate": {"pass_through_tokens": limit}, "programs": {"enabled": "off"}}
    config = catalog.write_config(folder, lists, section)
    command = catalog.toolcrib_command(config)
    catalog.index(config)
    found: dict[str, Any] = {}
    for host in hosts:
        with RawClient(command) as client:
            instructions = client.open(HOSTS[host][0]).get("instructions", "")
            found[host] = client.request("tools/list", {})["tools"], instructions
    return found


def rows(size: int, lists: Mapping[str, catalog.Tools], folder: Path, hosts: Sequence[str]) -> Iterator[Finding]:
    """Yield what each host shows of so many tools, found by search and listed whole, beside what it shows directly."""
    count, unit = counter()
    tools = [tool for each in lists.values() for tool in each]
    searched = told(folder / f"{size}-searched", lists, 0, hosts)
    # More than the tools take: their names here have those of their servers in front.
    whole = told(folder / f"{size}-whole", lists, 2 * listed_tokens(tools, count), hosts)
    for host in hosts:
        shown = shown_by(host)
        directly = shown.tokens(list(lists), tools, "", count)
        for way, given in ("found by search", searched[host]), ("listed whole", whole[host]):
            listed, instructions = given
            read = shown.tokens(["toolcrib"], listed, instructions, count)
            target = WHOLE_MOST if way == "listed whole" and shown.tools == "tools" else None
            yield Finding(f"{size:,} tools, {host}, {way}", unit, read, directly, "listed directly", target)


def measure(given: Namespace, folder: Path) -> None:
    every, note = catalog.tool_lists(given.catalog)
    found: list[Finding] = []
    for size in given.sizes:
        say(f"{size:,} tools ...")
        lists = some(every, min(size, sum(map(len, every.values()))))
        found += rows(size, lists, folder, given.hosts)
    show(found, note, as_json=given.json)


def main() -> None:
    parser = options(__doc__, repeat=1)
    catalog.add_option(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--hosts", nargs="+", choices=HOSTS, default=list(HOSTS), metavar="HOST", help=", ".join(HOSTS))
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
