"""Handles of every kind, changed, guessed and in another's hands: none is good for anything."""

import random
import re
import string
from collections.abc import Callable
from typing import Any

import pytest
from counts import count
from mcp import MCPError
from mcp.client.extension import advertise

from fakes.menu import tool
from fakes.tasks import EXTENSION, TaskServer
from online import MODERN, online
from toolcrib.base.model import Caller
from worlds import Client, MemoryServer, text, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

LONG = text("word " * 2000)
CONFIG: dict[str, Any] = {
    "limits": {"result_max_bytes": 1024},
    "policy": {"confirm": {"tools": ["zoo__feed"]}},
}
TASKS = [advertise(EXTENSION)]
TOKENS = [{"token": f"token-{who}", "subject": who} for who in ("ann", "bob")]
LETTERS = string.ascii_letters + string.digits + "-_"


async def nobody(*_given: Any) -> Any:
    """Stand for a person, so that a client says that it can ask one; what it asks is answered by the test."""
    raise AssertionError


def changed(handle: str, chance: random.Random) -> str:
    """Return a handle that is not this one, but looks like it."""
    at = chance.randrange(len(handle))
    letter = chance.choice([each for each in LETTERS if each != handle[at]])
    return {
        0: handle[:at] + letter + handle[at + 1 :],
        1: handle[:at] or letter,
        2: handle + letter,
        3: handle.swapcase(),
        4: "".join(chance.choices(LETTERS, k=len(handle))),
        5: handle[::-1],
        6: f" {handle}",
        7: handle[:at] + "\x00" + handle[at:],
    }[chance.randrange(8)]


async def said(client: Client, name: str, arguments: Any, **more: Any) -> str:
    """Return the text of a refusal; ``ran``, where it is none."""
    try:
        result = await client.call(name, arguments, **more)
    except MCPError as error:
        return error.error.message
    return result["content"][0]["text"] if result.get("isError") else "ran"


async def page_handle(client: Client) -> str:
    first = await client.call("zoo__read", {})
    [handle] = re.findall(r'"handle": ?"([^"]+)"', first["content"][-1]["text"])
    return handle


Use = Callable[[Client, str], Any]


async def read_more(client: Client, handle: str) -> str:
    return await said(client, "read_more", {"handle": handle, "page": 2})


async def answer(client: Client, state: str) -> str:
    yes = {"confirm": {"action": "accept", "content": {"answer": "once"}}}
    return await said(client, "zoo__feed", {}, requestState=state, inputResponses=yes)


async def look(client: Client, task: str) -> str:
    try:
        await client.ask("tasks/get", {"taskId": task})
    except MCPError as error:
        return error.error.message
    return "ran"


@pytest.mark.timeout(1800)
async def test_no_handle_of_another_and_none_that_was_changed_is_good_for_anything(tmp_path, record_property):
    chance, tries, good, told = random.Random(7), count("handles"), 0, dict[str, set[str]]()
    zoo = MemoryServer([tool("read"), tool("feed")], answers={"read": LONG})
    async with (
        world(tmp_path, {"zoo": zoo, "lab": TaskServer()}, CONFIG, listing="auto", transport="http") as w,
        w.client(MODERN, Caller("ann"), elicitation_callback=nobody, extensions=TASKS) as ann,
        w.client(MODERN, Caller("bob"), elicitation_callback=nobody, extensions=TASKS) as bob,
    ):
        task = (await ann.call("lab__research", {}))["taskId"]
        state = (await ann.call("zoo__feed", {}))["requestState"]
        handles: dict[Use, str] = {read_more: await page_handle(ann), answer: state, look: task}
        for number in range(tries):
            use, handle = list(handles.items())[number % 3]
            is_whole = number % 10 < 2
            who = bob if is_whole else chance.choice((ann, bob))
            tried = await use(who, handle if is_whole else changed(handle, chance))
            good += tried == "ran"
            told.setdefault(use.__name__, set()).add(tried)
        assert zoo.calls("feed") == []
        assert await read_more(ann, handles[read_more]) == "ran"
        assert await look(ann, task) == "ran"
    record_property("count", number + 1)
    record_property("worst", f"{good} of {tries} were good for something")
    assert good == 0
    assert {name: len(texts) for name, texts in told.items()} == {"read_more": 1, "answer": 1, "look": 1}, told


async def test_one_principal_that_leaves_questions_unanswered_takes_no_room_of_another(tmp_path):
    limits = {"limits": {"parked_calls": 6, "parked_calls_per_principal": 3}}
    async with world(tmp_path, {"zoo": [tool("feed")]}, {**CONFIG, **limits}, listing="auto", transport="http") as w:
        async with (
            w.client(MODERN, Caller("ann"), elicitation_callback=nobody) as ann,
            w.client(MODERN, Caller("bob"), elicitation_callback=nobody) as bob,
        ):
            asked = [await ann.call("zoo__feed", {}) for _ in range(10)]
            assert [each["resultType"] for each in asked].count("input_required") == 3
            assert (await bob.call("zoo__feed", {}))["resultType"] == "input_required"


async def test_one_principal_that_reads_much_takes_no_pages_of_another(tmp_path):
    bounds = {"result_max_bytes": 1024, "results_kept_bytes": 20_000, "results_kept_total_bytes": 30_000}
    config = {"limits": bounds, "http": {"tokens": TOKENS}}
    zoo = MemoryServer([tool("read")], answers={"read": LONG})
    async with online(tmp_path, {"zoo": zoo}, config, listing="auto") as it:
        async with it.client("legacy", "token-bob") as bob, it.client("legacy", "token-ann") as ann:
            handle = await page_handle(bob)
            for _ in range(20):
                await page_handle(ann)
            assert await read_more(bob, handle) == "ran"


def refused_uris() -> list[str]:
    """Return URIs of what may not be read, or is not there, in every way to write it."""
    original = "note://secret/1"
    keys = "vault", "Vault", "%76ault", "vault%00", "../vault", "zoo%2f..%2fvault", "", "*", "v*", "vault/"
    others = original, original.upper(), "note://secret/%31", "note:/secret/1", "note://secret/../secret/1"
    return [*(f"toolcrib://servers/{key}/{original}" for key in keys), *others]


@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_no_spelling_of_an_address_reaches_what_a_caller_may_not_read(tmp_path, era):
    def server(uri: str) -> MemoryServer:
        return MemoryServer([tool("read")], offers={"resources": [{"uri": uri, "name": "note"}]})

    servers = {"vault": server("note://secret/1"), "zoo": server("note://open/1")}
    config = {"policy": {"deny": ["vault.*"]}}
    async with world(tmp_path, servers, config, listing="auto") as w, w.client(era) as client:
        for uri in refused_uris():
            with pytest.raises(MCPError) as caught:
                await client.ask("resources/read", {"uri": uri})
            assert caught.value.error.code == -32602 or "not found" in caught.value.error.message.lower(), uri
        assert "resources/read" not in w["vault"].methods()
        assert (await client.ask("resources/read", {"uri": "toolcrib://servers/zoo/note://open/1"}))["contents"]
