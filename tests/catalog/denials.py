"""Lists of tools that speak of each other, with some of them denied; and a reader who looks for names that are left."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from builders import REAL_CATALOG, opened, replace

from fakes.menu import tool
from toolcrib.base.model import Caller, JsonObject, Tool
from toolcrib.base.names import joined_key
from toolcrib.base.text import words
from toolcrib.catalog.definitions import values_in, without_values
from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.index import ToolIndex
from toolcrib.catalog.ingest import Shaping, ingest
from toolcrib.catalog.name_detection import is_several_words
from toolcrib.catalog.snapshot import Catalog
from toolcrib.catalog.views import CatalogView, CatalogViews
from toolcrib.config.schema import LimitsSection, ServerSection, ToolExamplesSection, ToolSearchSection
from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.policy.rules import Policy, VisibilityRule

Lists = Mapping[str, Sequence[JsonObject]]

SAID = """Reads a row. Call drop_table first, then `list-runs` and db.drop_table(id), never shop__createOrder.

Use the search tool, or `search` alone; then search on. The find and list tools list what they find:
a list, a search. See https://docs.example/tools/drop_table?x=1 and **find_all_rows**.

```py
drop_table(search(1))
```
See also: read_row, drop\\_table, mcp__db__drop_table, web/search and "find_all_rows"."""

LISTS: Lists = {
    "db": [
        tool("read_row", SAID, {"id": {"type": "string", "description": "From find_all_rows, or `search`."}}),
        tool("drop_table", "Undoes what read_row and `createOrder` read."),
        tool("find_all_rows", title="Like drop_table", annotations={"title": "drop_table, but kind"}),
        tool("list-runs", "Lists. The fetch and search tools do too; search first.", {"search": "boolean"}),
    ],
    "shop": [
        tool("createOrder", SAID, {"row": {"type": "object", "properties": {"x": {"title": "As of list-runs"}}}}),
        tool(
            "search", "Search for a list with search_index; `list` it.", {"of": {"enum": ["drop_table", "list-runs"]}}
        ),
        tool("search_index", "Fills what web.search and shop:search read; then fetch."),
    ],
    "web.site": [
        tool("fetch", "Fetch it with the fetch tool or `fetch`; fetch the list.", outputSchema={"description": SAID}),
        tool("search", "Search, but not the `search` of shop.search; call the tool list."),
        tool("list", SAID, _meta={"examples": [{"args": {"next": "drop_table"}, "description": "Before fetch."}]}),
    ],
}
"""Names of one word and of several, in every place where a text may have them."""

How = Literal["hidden", "denied", "left out"]
HOWS: tuple[How, ...] = ("hidden", "denied", "left out")
"""Denied to one kind of caller, denied to everybody by name, or in no allow."""

_DATA = ("enum", "const", "default", "pattern", "type", "required", "format", "$ref", "$schema")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")


@cache
def real_lists() -> Lists:
    """Return the lists of real servers, empty where they are not at hand."""
    files = sorted(REAL_CATALOG.glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8"))["tools"] for file in files}


@dataclass(frozen=True)
class Denial:
    """What is denied, and what one caller reads of the rest."""

    denied: frozenset[tuple[str, str]]
    tools: tuple[Tool, ...]
    reading: CatalogView
    plain: ToolIndex

    @property
    def rows(self) -> list[int]:
        return [tool.row for tool in self.tools]


@contextmanager
def indexed(folder: Path, lists: Lists, policy: Policy = Policy()) -> Iterator[tuple[ToolIndex, Catalog]]:  # noqa: B008
    """Index lists under a policy, as servers are that list them."""
    with opened(folder / "tool_cache.db") as world:
        store(world.index, lists, policy)
        yield world.index, world.catalog()


def store(index: ToolIndex, lists: Lists, policy: Policy) -> None:
    """Store lists, which no catalog has yet."""
    shaping = Shaping(policy, LimitsSection(), ToolSearchSection(), ToolExamplesSection(), fits=lambda *_: True)
    for key, tools in lists.items():
        server = ServerSettings(key, StdioTarget("x", (), {}, None), ServerSection(), "f")
        replace(index, ingest(server, list(tools), shaping))


def policy_of(denied: frozenset[tuple[str, str]], lists: Lists, how: How) -> Policy:
    """Return a policy that denies just these tools."""
    globs = tuple(f"{server}.{name}" for server, name in sorted(denied))
    if how == "hidden":
        return Policy(rules=[VisibilityRule({}, deny=globs), VisibilityRule({"profile": ("admin",)}, allow=("*",))])
    if how == "denied":
        return Policy(deny=globs)
    return Policy(allow=[f"{key}.{tool['name']}" for key, tool in every(lists) if (key, tool["name"]) not in denied])


def denial(index: ToolIndex, catalog: Catalog, policy: Policy, denied: frozenset[tuple[str, str]], lists: Lists):
    """Return what a caller with no facts reads under a policy."""
    permitted = catalog.permitted(policy.permissions(Caller()))
    return Denial(
        denied, permitted.tools, CatalogViews(index, NameMaskers(tuple(lists), ())).view(catalog, permitted), index
    )


def every(lists: Lists) -> Iterator[tuple[str, JsonObject]]:
    yield from ((key, tool) for key, tools in lists.items() for tool in tools)


def some(lists: Lists, dice: random.Random) -> frozenset[tuple[str, str]]:
    """Return any tools, few or many."""
    names = sorted({(key, tool["name"]) for key, tool in every(lists)})
    return frozenset(dice.sample(names, dice.choice([1, 2, len(names) // 10 + 1, len(names) // 2])))


# -- what is left --------------------------------------------------------------------------------


class Looker:
    """Looks for names of denied tools as somebody would who knows the rule and not the code."""

    def __init__(self, denial: Denial) -> None:
        permitted = {tool.name for tool in denial.tools}
        bare = {name for _, name in denial.denied} - permitted
        several = {name for name in bare if re.search(r"[_-]|[a-z0-9][A-Z]", name)}
        qualified = {f"{server}{mark}{name}" for server, name in denial.denied for mark in ("__", ".", "/", ":")}
        plain = _any_of(bare - several)
        self._patterns = (
            re.compile(rf"(?<![A-Za-z0-9_-]){_any_of(several | qualified)}(?![A-Za-z0-9_-])"),
            re.compile(
                rf"(?<!`)`{plain}`(?!`)|[Tt]he {plain} tool\b"
                rf"|[\"']{plain}[\"'] tool\b|\btool (?:called |named )?[\"']{plain}"
            ),
        )
        self._words = {word for server, name in denial.denied for word in words(f"{server} {name} mcp")}

        names = {each for server, name in denial.denied for each in (name, f"{server}__{name}")}
        self._exactly, self._joined = names, set(map(joined_key, names)) - {""}

    def is_name(self, value: str) -> bool:
        """Return whether a value is a denied name of several words, however these are joined."""
        return is_several_words(value) and (value in self._exactly or joined_key(value) in self._joined)

    def left(self, texts: Iterator[str]) -> list[str]:
        """Return every name that is left in some texts, with what stands around it."""
        found = ((text, match) for text in texts for pattern in self._patterns for match in pattern.finditer(text))
        return [f"{match[0]!r} in {text[max(match.start() - 30, 0) : match.end() + 30]!r}" for text, match in found]

    def harmed(self, before: str, after: str) -> set[str]:
        """Return the words that a text has lost and that belong to no denied name."""
        return (Counter(words(before)) - Counter(words(after))).keys() - self._words


def _any_of(names: set[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})" if names else r"(?:\Zx)"


def read(value: Any, *, of_names: bool = False) -> Iterator[str]:
    """Yield the texts of a definition or a schema, in order, without what is data there."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from read(item)
    elif isinstance(value, dict):
        for key, member in value.items():
            if of_names or key not in _DATA:
                yield from read(member, of_names=not of_names and key in _NAMED)


def check(denial: Denial, *, words_too: bool = True) -> int:
    """Assert that nothing names what is denied and that no other word is lost; return how many tools named some.

    ``words_too`` is not for texts that put words after the name of a server which allows little: any tool of it, real
    or not, is denied then.
    """
    looker, reading, rows = Looker(denial), denial.reading, denial.rows
    whole, cards, texts = reading.described(rows), reading.cards(rows), reading.texts()
    raw = denial.plain.definitions(rows)
    assert whole.keys() == cards.keys() == texts.keys() == set(rows)
    left: list[str] = []
    for row, (definition, card) in whole.items():
        assert card == cards[row]
        said, text = {**definition, "name": ""}, texts[row]
        examples = [[example.description, dict(example.args)] for example in card.examples]
        left += looker.left(read([said, card.description, card.tags, text, examples]))
        lost = set(values_in(raw[row])) - set(values_in(definition))
        assert lost <= set(filter(looker.is_name, lost)), "no other value is lost"
        assert without_texts(without_values(raw[row], lost.__contains__)) == without_texts(definition)
        pairs = zip(read({**raw[row], "name": ""}), read(said), strict=True)
        harmed = [looker.harmed(before, after) for before, after in pairs if before != after]
        assert not (words_too and any(harmed)), harmed
    assert not left, "\n".join(left[:20])
    return sum(raw[row] != definition for row, (definition, _) in whole.items())


def without_texts(definition: JsonObject) -> Any:
    """Return a definition with every text that is no data left out: what must stay as it is."""

    def kept(value: Any, *, of_names: bool = False) -> Any:
        if isinstance(value, dict):
            return {
                key: member if key in _DATA and not of_names else kept(member, of_names=not of_names and key in _NAMED)
                for key, member in value.items()
            }
        return [kept(item) for item in value] if isinstance(value, list) else None if isinstance(value, str) else value

    return {**kept(definition), "name": definition["name"]}
