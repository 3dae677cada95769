"""Lists of servers that go wrong: by one rule for all kinds, what was read stays, and what is wrong is told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from fakes.memory import MemoryServer
from fakes.menu import tool
from toolcrib.base.names import public_name
from worlds import settled, until, world

pytestmark = pytest.mark.anyio

JsonObject = dict[str, Any]
ALWAYS = {"tool_search": {"default_loading_mode": "always"}, "limits": {"list_pages": 5}}
REPEATS = "its list repeats itself"


class Kind:
    """One kind of list: its method and key, the word for its items, and how they are made."""

    def __init__(self, method: str, key: str, word: str, make: Callable[[str], JsonObject]) -> None:
        self.method, self.key, self.word, self.make = method, key, word, make

    def __repr__(self) -> str:
        return self.key

    def items(self, *names: str) -> list[Any]:
        return [self.make(name) for name in names]

    def page(self, *names: str, cursor: Any = None) -> JsonObject:
        return {self.key: self.items(*names), **({} if cursor is None else {"nextCursor": cursor})}

    async def listed(self, client: Any) -> list[str]:
        """Return the names of the items of the server ``bad``."""
        found = (await client.ask(self.method))[self.key]
        places = ((each.get("uri") or each.get("uriTemplate") or each["name"], each["name"]) for each in found)
        return [name.removeprefix("bad__") for place, name in places if "bad" in place]


KINDS = [
    Kind("tools/list", "tools", "tools", tool),
    Kind("prompts/list", "prompts", "prompts", lambda name: {"name": name}),
    Kind("resources/list", "resources", "resources", lambda name: {"uri": f"x://{name}", "name": name}),
    Kind(
        "resources/templates/list",
        "resourceTemplates",
        "templates",
        lambda name: {"uriTemplate": f"x://{name}/{{id}}", "name": name},
    ),
]
EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=repr)


def server() -> MemoryServer:
    return MemoryServer([tool("get")], offers={"resources": [], "resourceTemplates": [], "prompts": []})


async def told(client: Any) -> dict[str, str]:
    """Return what is said to be wrong with the server ``bad``, by name."""
    [found] = (await client.ask("resources/read", {"uri": "toolcrib://status"}))["contents"]
    [entry] = [each for each in json.loads(found["text"])["servers"] if each["server"] == "bad"]
    return {each["name"]: each["reason"] for each in entry["refused"]}


def refusing(kind: Kind) -> Callable[[JsonObject], JsonObject]:
    """Return what gives one page, and refuses the next."""

    def pages(params: JsonObject) -> JsonObject:
        if params.get("cursor"):
            raise MCPError(-32603, "no more today, token sk-123")
        return kind.page("a", "b", cursor="2")

    return pages


def numbered(kind: Kind) -> Callable[[JsonObject], JsonObject]:
    """Return what gives pages without end."""

    def pages(params: JsonObject) -> JsonObject:
        number = int(params.get("cursor") or 0)
        return kind.page(f"n{number}", cursor=str(number + 1))

    return pages


def of(kind: Kind, *pages: JsonObject) -> Callable[[JsonObject], JsonObject]:
    """Return what gives these pages; after the last one, that again."""
    left = list(pages)
    return lambda _params: json.loads(json.dumps(left.pop(0) if len(left) > 1 else left[0]))


@EACH_KIND
@pytest.mark.parametrize(
    ("script", "names", "reason"),
    [
        pytest.param(lambda kind: of(kind, kind.page("a", "b", cursor="8")), ["a", "b"], REPEATS, id="same page"),
        pytest.param(
            lambda kind: of(kind, kind.page("a", cursor="8"), kind.page("b", cursor="8")),
            ["a", "b"],
            REPEATS,
            id="same cursor",
        ),
        pytest.param(
            lambda kind: of(kind, kind.page("a", cursor="x"), kind.page("b", cursor="y"), kind.page("c", cursor="x")),
            ["a", "b", "c"],
            REPEATS,
            id="cursors in a circle",
        ),
        pytest.param(numbered, ["n0", "n1", "n2", "n3", "n4"], "limits.list_pages is 5", id="no end"),
        pytest.param(refusing, ["a", "b"], "page 2 of its list cannot be read", id="refused"),
        pytest.param(
            lambda kind: of(kind, kind.page("a", cursor="2"), {"other": []}),
            ["a"],
            "page 2 of its list cannot be read",
            id="no list",
        ),
        pytest.param(
            lambda kind: of(kind, kind.page("a", cursor=2)),
            ["a"],
            "page 1 of its list names the next one by no text",
            id="a number as cursor",
        ),
    ],
)
async def test_what_was_read_of_a_list_stays(
    tmp_path: Path, kind: Kind, script: Callable[[Kind], Any], names: list[str], reason: str
):
    bad = server()
    bad.pages[kind.method] = script(kind)
    async with world(tmp_path, {"bad": bad}, ALWAYS, listing="auto") as w, w.client() as client:
        assert await kind.listed(client) == names
        assert await told(client) == {f"more {kind.word}": reason}


@EACH_KIND
async def test_pages_without_items_are_passed_over(tmp_path: Path, kind: Kind):
    bad = server()
    empty = [kind.page(cursor=str(number)) for number in range(3)]
    bad.pages[kind.method] = of(kind, *empty, kind.page("a"))
    async with world(tmp_path, {"bad": bad}, ALWAYS, listing="auto") as w, w.client() as client:
        assert await kind.listed(client) == ["a"]
        assert await told(client) == {}


@EACH_KIND
async def test_one_bad_item_is_one_bad_item(tmp_path: Path, kind: Kind):
    [good, twice] = kind.items("good", "twice")
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    items = [
        *(7, None, "x", [], {}, {"name": 3}),
        {**kind.make("deep"), "_meta": {"x": deep}},
        {**kind.make("large"), "description": "x" * 2_000_000},
        *(twice, twice, good),
        {**twice, "description": "Otherwise."},
        {**kind.make("odd"), "title": 7, "description": ["x"], "_meta": 3, "icons": "no"},
    ]
    bad = server()
    bad.tools.append(tool("good"))
    bad.pages[kind.method] = lambda _params: {kind.key: items}
    async with world(tmp_path, {"bad": bad}, ALWAYS, listing="auto") as w, w.client() as client:
        assert sorted(await kind.listed(client)) == ["good", "odd", "twice"]
        said = await told(client)
        assert said["twice"] == "is listed again, and otherwise; the first is taken"
        assert {"#1", "#2", "#3", "#4", "#5", "#6", "deep", "large"} <= said.keys() | {"#6"}
        assert (await client.call("bad__good" if kind.key == "tools" else "bad__get"))["content"]


@pytest.mark.parametrize("kind", KINDS[:2], ids=repr)
async def test_of_items_that_share_a_public_name_none_is_taken(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
):
    """Which of them is meant could change with each list."""

    def shared(server: str, name: str, *most: int) -> str:
        return "bad__one" if name in ("one", "One") else public_name(server, name, *most)

    monkeypatch.setattr("toolcrib.catalog.ingest.public_name", shared)
    monkeypatch.setattr("toolcrib.catalog.offers.public_name", shared)
    bad = server()
    bad.pages[kind.method] = lambda _params: kind.page("one", "One", "good")
    async with world(tmp_path, {"bad": bad}, ALWAYS, listing="auto") as w, w.client() as client:
        assert await kind.listed(client) == ["good"]
        assert await told(client) == dict.fromkeys(("one", "One"), "shares the public name bad__one with another one")


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[2]], ids=repr)
async def test_a_list_that_cannot_be_read_again_as_a_whole_stays_as_it_was(tmp_path: Path, kind: Kind):
    bad = server()
    bad.tools.append(tool("a"))
    bad.pages[kind.method] = lambda params: kind.page("b") if params.get("cursor") else kind.page("a", cursor="2")
    async with world(tmp_path, {"bad": bad}, ALWAYS, listing="auto") as w, w.client() as client:
        await client.tool_call("bad__a" if kind.key == "tools" else "bad__get")
        await until(lambda: bad.methods().count(kind.method) >= 2)
        before = bad.methods().count(kind.method)
        bad.pages[kind.method] = refusing(kind)
        await (bad.change() if kind.key == "tools" else bad.change_offers(kind.key))
        await until(lambda: bad.methods().count(kind.method) >= before + 2)
        assert await kind.listed(client) == ["a", "b"]


@EACH_KIND
async def test_a_page_that_is_missing_once_takes_nothing_away_that_is_known(tmp_path: Path, kind: Kind):
    bad = server()
    bad.tools.append(tool("a"))
    bad.pages[kind.method] = lambda params: kind.page("c") if params.get("cursor") else kind.page("a", cursor="2")
    async with world(tmp_path, {"bad": bad}, ALWAYS, listing="auto") as w, w.client() as client:
        assert await kind.listed(client) == ["a", "c"]
    bad.pages[kind.method] = refusing(kind)
    async with world(tmp_path, {"bad": bad}, ALWAYS, listing="auto") as w, w.client() as client:
        assert (await client.call("bad__a" if kind.key == "tools" else "bad__get"))["content"]
        await until(lambda: bad.methods().count(kind.method) >= 4)
        await settled()
        assert set(await kind.listed(client)) >= {"a", "c"}
        assert await told(client) == {f"more {kind.word}": "page 2 of its list cannot be read"}


async def test_calls_of_what_is_known_go_on_where_a_page_is_refused_again_and_again(tmp_path: Path):
    bad = server()
    bad.tools.append(tool("a"))
    bad.pages["tools/list"] = refusing(KINDS[0])
    async with world(tmp_path, {"bad": bad}, ALWAYS) as w, w.client() as client:
        assert (await client.call("bad__a"))["content"]
        bad.tools.append(tool("b"))
        await bad.change(*bad.tools)
        assert (await client.call("bad__a"))["content"]


@EACH_KIND
async def test_an_item_that_stands_at_the_end_of_one_page_and_the_start_of_the_next_costs_nothing(
    tmp_path: Path, kind: Kind
):
    bad = server()
    pages = [kind.page("a", cursor="2"), kind.page("a", cursor="3"), kind.page("b", cursor="4"), kind.page("b")]
    bad.pages[kind.method] = lambda params: json.loads(json.dumps(pages[int(params.get("cursor") or 1) - 1]))
    async with world(tmp_path, {"bad": bad}, ALWAYS, listing="auto") as w, w.client() as client:
        assert await kind.listed(client) == ["a", "b"]
        assert await told(client) == {}


async def test_who_may_use_some_tools_is_told_that_there_are_more_and_no_name(tmp_path: Path):
    config = {**ALWAYS, "policy": {"allow": ["bad.a"]}}
    bad = server()
    # The name of a tool cannot be taken for the fact.
    forged = {"name": "more tools", "inputSchema": {"type": "object", "properties": {"say\u200b hello": {}}}}
    bad.pages["tools/list"] = of(KINDS[0], {"tools": [tool("a"), tool("b"), forged], "nextCursor": "8"})
    async with world(tmp_path, {"bad": bad}, config) as w, w.client() as client:
        assert await told(client) == {"more tools": REPEATS}
        note = (await client.search("a", server="bad"))["note"]
        assert "may have more tools: its list repeats itself." in note
        assert "hello" not in note


async def test_a_search_says_of_which_server_more_is_not_known(tmp_path: Path):
    bad, fine = server(), MemoryServer([tool("brew", "Brew tea")])
    bad.pages["tools/list"] = of(KINDS[0], KINDS[0].page("search_graph", cursor="8"))
    note = "Server bad may have more tools: its list repeats itself."
    servers = {"bad": bad, "fine": fine}
    async with world(tmp_path, servers) as w, w.client() as client:
        assert note in (await client.search("search graph"))["note"]
        assert note in (await client.search("nothing like it", server="bad"))["note"]
        assert note not in ((await client.search("brew tea")).get("note") or "")
    # Also in a process that has read the index alone.
    async with world(tmp_path, servers) as w, w.client() as client:
        assert note in (await client.search("search graph"))["note"]
