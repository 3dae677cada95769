"""Which capabilities of the dictionary the tools of a folder show: how many, and draws of them to be judged by eye.

`--catalog DIR` is a folder of tool lists: JSON files with `tools`. What is drawn depends on `--seed` alone.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from toolcrib.base.text import search_text, split_summary
from toolcrib.search.capabilities import Capabilities, Shown, shipped


def tools_of(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each tool of the lists in a folder, with the name of its list."""
    for path in sorted(folder.glob("**/*.json")):
        held = json.loads(path.read_text(encoding="utf-8"))
        listed = held.get("tools") if isinstance(held, dict) else None
        for tool in listed or ():
            yield tool.get("server", path.stem), tool


def shown_by(server: str, tool: dict[str, Any], known: Capabilities) -> list[Shown]:
    """Return the capabilities that a tool shows."""
    summary, body = split_summary(tool.get("description") or "")
    schema = tool.get("inputSchema") or tool.get("parameters") or {}
    parameters = " ".join(schema.get("properties") or ())
    texts = map(search_text, (body, parameters))
    return known.shown(search_text(tool["name"]), search_text(summary), search_text(server), [*texts])


def main() -> None:
    """Print the shares, and the draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--catalog", type=Path, required=True, help="folder of tool lists")
    parser.add_argument("--draws", type=int, default=0, help="how many matches to print")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", action="store_true", help="print tools that show nothing instead")
    asked = parser.parse_args()
    known = shipped()
    drawn: list[str] = []
    bare: list[str] = []
    counted = Counter[int]()
    for server, tool in tools_of(asked.catalog):
        found = shown_by(server, tool, known)
        counted[len(found)] += 1
        summary = split_summary(tool.get("description") or "")[0][:110].replace("\n", " ")
        what = f"{server} . {tool['name']} — {summary}"
        drawn += [f"{each.capability.name:<42} <= {what}" for each in found]
        bare += [] if found else [what]
    total = sum(counted.values())
    print(f"{len(known.every)} capabilities; {total} tools, {total - counted[0]} show one, {len(drawn)} matches")
    chosen = bare if asked.without else drawn
    for line in Random(asked.seed).sample(chosen, min(asked.draws, len(chosen))):
        print(line)


if __name__ == "__main__":
    main()
