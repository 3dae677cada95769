"""What a program gives to public methods and cannot mean is one kind of error, which says what to give."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import toolcrib


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


# What a type checker would refuse is what these tests are about.
Search: Any = toolcrib.ToolSearch
open_: Any = toolcrib.open
INDEX: Any = toolcrib.ToolSearch([add])

DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]

SEARCHES: list[tuple[tuple[object, ...], dict[str, object], str]] = [
    ((None,), {}, "'query' is None; it has to be a str"),
    ((["a"],), {}, "'query' is of the type list"),
    (("  ",), {}, "blank"),
    (("x",), {"search_type": "foo"}, "'search_type' is 'foo'; it has to be one of 'fts', 'regex', 'exact'"),
    (("x",), {"search_type": []}, "'search_type' is"),
    (("x",), {"limit": 0}, "'limit' is 0; it has to be from 1 to 50"),
    (("x",), {"limit": 1000}, "'limit' is 1000; it has to be from 1 to 50"),
    (("x",), {"limit": "8"}, "'limit' is of the type str; it has to be a whole number"),
    (("x",), {"limit": True}, "'limit' is of the type bool"),
]

CYCLE: Any = {"command": "x"}
CYCLE |= {"a": CYCLE, "b": CYCLE, "c": [CYCLE]}


@pytest.mark.parametrize(("given", "options", "says"), SEARCHES)
def test_every_search_refuses_the_same_in_the_same_words(given: Any, options: Any, says: str):
    async def both() -> None:
        async with toolcrib.open({"toolcrib": {"skills": {"discover": []}}}, tools=[add]) as crib:
            with pytest.raises(toolcrib.BadRequest, match=says):
                await crib.search(*given, **options)
            with pytest.raises(toolcrib.BadRequest, match=says):
                await crib.skills.search(*given, **options)

    with pytest.raises(toolcrib.BadRequest, match=says):
        INDEX.search(*given, **options)
    anyio.run(both)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Search(add), "'tools' is of the type function; .* put it into one, such as \\[add\\]"),
        (lambda: Search({"name": "x"}), "'tools' is of the type dict; it has to be a list"),
        (lambda: Search({"a": add}), "'tools' is of the type dict; it has to be a list"),
        (lambda: Search("add"), "'tools' is of the type str"),
        (lambda: Search([add], server=5), "'server' is of the type int"),
        (lambda: INDEX.search("add", server=5), "'server' is of the type int"),
        (lambda: INDEX.remove(["add"]), "'name' is of the type list"),
        (lambda: INDEX.save(None), "'path' is None"),
        (lambda: Search.load(7), "'path' is of the type int"),
        (lambda: open_(tools=add), "'tools' is of the type function"),
        (lambda: open_(tools=[{"name": "x"}]), "dict is no function"),
        (lambda: open_(5), "'config' is of the type int; it has to be the path of a config file, or a dict"),
        (lambda: open_(["x"]), "'config' is of the type list"),
        (lambda: open_({5: {}}), "A key of 'config' is of the type int; it has to be a str"),
        (lambda: open_({"mcpServer": {}}), "mcpServer: did you mean mcpServers"),
        (lambda: open_({"servers": {}}), "servers: did you mean mcpServers"),
        (lambda: open_({"mcpServers": {}, "toolcribs": {}}), "toolcribs: did you mean toolcrib"),
        (lambda: open_({"files": {"command": "x"}}), "neither 'mcpServers' nor 'toolcrib'"),
        (lambda: open_(servers=[add]), "'servers' is of the type list; it has to be a dict of servers by name"),
        (lambda: open_(servers={5: [add]}), "A key of 'servers' is of the type int"),
        (lambda: open_(servers={"x": "https://x.example/?key=k"}), r'such as .* or \{"url": "https://…"\}'),
        (lambda: open_(cache=True), "'cache' is of the type bool"),
        (lambda: open_(on_event=[]), "'on_event' is of the type list"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(wrong: Callable[[], object], says: str):
    with pytest.raises(toolcrib.BadRequest, match=says) as caught:
        wrong()
    assert "key=k" not in str(caught.value)
    assert INDEX.names == ("add",)


@pytest.mark.anyio
async def test_foreign_keys_beside_ours_are_left_to_others():
    for config in ({}, {"$schema": "x"}, {"mcpServers": {}, "servers": {}, "theme": "dark"}):
        async with toolcrib.open(config, tools=[add]) as crib:
            assert [tool.name for tool in await crib.tools()] == ["local__add"]


@pytest.mark.anyio
async def test_a_call_refuses_what_is_no_name_or_no_dictionary():
    async with toolcrib.open(tools=[add]) as crib:
        wrong: list[tuple[Any, Any, str]] = [
            ("local__add", [1, 2], "'arguments' is of the type list; it has to be a dict of values by parameter"),
            ("local__add", {1: 2}, "A key of 'arguments' is of the type int"),
            (None, {}, "'name' is None"),
        ]
        for name, arguments, says in wrong:
            with pytest.raises(toolcrib.BadRequest, match=says):
                await crib.call(name, arguments)
        with pytest.raises(toolcrib.BadRequest, match="'principal' is None"):
            crib.as_(None)  # pyright: ignore[reportArgumentType]
        with pytest.raises(toolcrib.BadRequest, match="'name' is of the type int"):
            await crib.skills.get(5)  # pyright: ignore[reportArgumentType]


@pytest.mark.anyio
async def test_whatever_is_used_after_its_block_says_that_it_is_closed():
    async with toolcrib.open({"toolcrib": {"skills": {"discover": []}}}, tools=[add]) as crib:
        skills, other = crib.skills, crib.as_("ann")
        used = {"type": "tool_use", "id": "1", "name": "local__add", "input": {"a": 1}}
    late: list[Callable[[], Any]] = [
        lambda: crib.search("add"),
        lambda: crib.call("local__add", {"a": 1}),
        lambda: crib.allow("local__add"),
        crib.tools,
        lambda: crib.as_deferred_tools("anthropic"),
        lambda: crib.answer(used),
        lambda: skills.search("add"),
        lambda: skills.get("add"),
        skills.list,
        other.tools,
    ]
    for use in late:
        with pytest.raises(toolcrib.BadRequest, match=r"This crib is closed: use it inside its `async with`"):
            await use()
    for make in (crib.client, crib.asgi, lambda: crib.server, lambda: crib.as_("bob")):
        with pytest.raises(toolcrib.BadRequest, match="This crib is closed"):
            make()
    assert repr(crib) == "Crib(local; for local)"


@pytest.mark.anyio
async def test_what_open_returns_is_entered_once():
    opening = toolcrib.open(tools=[add])
    async with opening as crib:
        with pytest.raises(toolcrib.BadRequest, match=r"entered before: call toolcrib\.open again"):
            await opening.__aenter__()
        assert (await crib.call("local__add", {"a": 1})).text == "2"
    with pytest.raises(toolcrib.BadRequest, match="entered before"):
        async with opening:
            pass


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"config": {"mcpServers": {"a": {"command": "x", "env": {1: "x"}}}}},
            "'config' has a key that is of the type int",
        ),
        ({"config": {"mcpServers": {None: {}}}}, "'config' has a key that is None; keys have to be texts, as in JSON"),
        ({"servers": {"a": {"command": "x", 1: []}}}, r"'servers\['a'\]' has a key that is of the type int"),
        ({"servers": {"a": CYCLE}}, "is nested more than 64 deep"),
        ({"servers": {"a": {"x": DEEP}}}, "is nested more than 64 deep"),
    ],
)
def test_what_no_file_could_hold_is_refused(given: Any, said: str):
    with pytest.raises(toolcrib.BadRequest, match=said):
        open_(**given)


@pytest.mark.anyio
async def test_a_missing_file_is_named_without_a_command_that_a_program_has_no_use_for(tmp_path: Path):
    with pytest.raises(toolcrib.ConfigError, match=r"none\.json.*\n.*does not exist \(check the path\)"):
        async with toolcrib.open(tmp_path / "none.json"):
            pass


def test_an_error_for_a_server_without_an_answer_can_be_made_by_its_name():
    error = toolcrib.Unavailable("weather")
    assert (error.server, str(error)) == ("weather", "The server weather gave no answer.")


@pytest.mark.anyio
async def test_what_is_done_to_the_definition_of_a_tool_changes_no_crib():
    async with toolcrib.open(tools=[add]) as crib:
        for definition in ((await crib.tools())[0].definition, (await crib.search("add"))[0].definition):
            definition["inputSchema"]["properties"].clear()
        for definition in ((await crib.tools())[0].definition, (await crib.search("add"))[0].definition):
            assert {*definition["inputSchema"]["properties"]} == {"a", "b"}
