"""Whether a tool is found first by its own name, however it is spelt.

Knows spellings of names; never knows how anything is searched.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[^\W_A-Z]+|[A-Z]")
_SHOWN = 20

STYLES: Mapping[str, Callable[[list[str]], str]] = {
    "camelCase": lambda parts: parts[0] + "".join(part.capitalize() for part in parts[1:]),
    "snake_case": "_".join,
    "kebab-case": "-".join,
    "dotted": ".".join,
    "spaced": " ".join,
    "joined": "".join,
}


Hits = Callable[[str], list[tuple[str, str]]]
"""Takes a query and returns what is found, as (server, name), best first."""


@dataclass(frozen=True, slots=True)
class KnownItems:
    """How many searches for a tool by name put it first, and the first of those that did not: query and hit."""

    asked: int
    found: int
    missed: tuple[tuple[str, str], ...]


def known_items(
    hits: Callable[[str], list[tuple[str, str]]], lists: Mapping[str, Sequence[Mapping[str, Any]]]
) -> KnownItems:
    """Search for every tool in every spelling; any tool that the spelling fits will do."""
    asked, missed = 0, list[tuple[str, str]]()
    for server, tools in lists.items():
        for tool in tools:
            for query in spellings(server, tool["name"]):
                asked += 1
                first = next(iter(hits(query)), ("", ""))
                if plain(query) not in (plain(first[1]), plain("".join(first))):
                    missed.append((query, ".".join(first)))
    return KnownItems(asked, asked - len(missed), tuple(missed[:_SHOWN]))


def spellings(server: str, tool: str) -> Iterator[str]:
    """Yield the name as it is and in every style, with and without its server."""
    name, key = ([part.lower() for part in _PART.findall(text)] for text in (tool, server))
    made = [tool, f"{server}__{tool}", *(style(parts) for style in STYLES.values() for parts in (name, key + name))]
    yield from dict.fromkeys(made)


def plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))
