"""What a client is told of servers that cannot be searched now: not listed yet, failed, or of no concern to it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.menu import tool
from toolcrib.downstream.transport import Streams
from worlds import Client, MemoryServer, World, settled, time_passes, until, world

pytestmark = pytest.mark.anyio

FILES = [tool("read_file", "Read a file.")]
ZOO = [tool("feed", "Feed the animals of the zoo.")]
AT_ONCE = {"limits": {"first_index_wait_s": 0}}
FOREVER = {"limits": {"first_index_wait_s": 3600}}
MISSING = FileNotFoundError(2, "No such file or directory", "zoo-server")
FAILURE = "no such program or folder: 'zoo-server'. Install it, or correct command and cwd in its config entry."


@dataclass(eq=False)
class HeldServer(MemoryServer):
    """One that starts when it is released."""

    released: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Streams]:
        await self.released.wait()
        async with super().streams() as streams:
            yield streams


def hanging() -> MemoryServer:
    return MemoryServer(ZOO, hangs_at="tools/list")


def broken() -> MemoryServer:
    return MemoryServer(ZOO, start_error=MISSING)


async def note(client: Client, query: str, **arguments: Any) -> str:
    return (await client.search(query, **arguments)).get("note", "")


async def is_listed(w: World, *servers: str) -> None:
    await until(lambda: set(servers) <= {event["server"] for event in w.happened("downstream_state") if ready(event)})


def ready(event: dict[str, Any]) -> bool:
    return event["state"] == "ready"


def started(w: World) -> list[str]:
    """Return the servers in the order in which they were started."""
    return [event["server"] for event in w.happened("downstream_state") if event["state"] == "starting"]


# -- while servers are being listed for the first time -------------------------------------------


@pytest.mark.usefixtures("just_started")
async def test_the_note_says_in_numbers_what_is_listed_what_is_not_and_when_to_ask_again(tmp_path):
    servers = {"files": FILES, "zoo": hanging(), "ark": hanging()}
    async with world(tmp_path, servers, AT_ONCE, wait=False) as w, w.client() as client:
        await is_listed(w, "files")
        await until(lambda: len(started(w)) == 3)
        assert await note(client, "read a file") == (
            "1 of 3 servers are listed. Not listed yet, 2: zoo (starting, 0 s so far), ark (starting, 0 s so far). "
            "Ask again in 1 s."
        )


@pytest.mark.usefixtures("just_started")
async def test_servers_that_wait_for_their_turn_are_told_too_and_those_that_are_meant_first(tmp_path):
    config = {"limits": {"first_index_wait_s": 0, "parallel_starts": 1}}
    servers = {f"s{number}": hanging() for number in range(12)} | {"zoo": hanging()}
    async with world(tmp_path, servers, config, wait=False) as w, w.client() as client:
        await until(lambda: len(started(w)) == 1)
        told = await note(client, "feed the zoo")
    assert "0 of 13 servers are listed. Not listed yet, 13: zoo (waiting for its turn), s0 (starting, 0 s" in told
    assert "s8 (waiting for its turn) and 3 more. Ask again in 2 s." in told


@pytest.mark.usefixtures("just_started")
async def test_a_start_of_a_launcher_that_takes_a_while_is_called_a_download(tmp_path, monkeypatch):
    monkeypatch.setattr("toolcrib.downstream.lifecycle._DOWNLOAD_S", 0.0)
    zoo = MemoryServer(ZOO, hangs_at="tools/list", entry={"command": "npx", "args": ["-y", "zoo-server"]})
    async with world(tmp_path, {"zoo": zoo}, AT_ONCE, wait=False) as w, w.client() as client:
        await until(lambda: started(w) == ["zoo"])
        assert "zoo (downloading, 0 s so far)" in await note(client, "feed")


async def test_when_everything_is_listed_nothing_is_said(tmp_path):
    async with world(tmp_path, {"files": FILES, "zoo": ZOO}) as w, w.client() as client:
        assert await note(client, "read a file") == ""


async def test_a_server_that_the_query_seems_to_mean_is_started_before_the_others(tmp_path):
    first = HeldServer(FILES)
    config = {
        "limits": {"first_index_wait_s": 0, "parallel_starts": 1},
        "servers": {"ark": {"description": "Ships"}},
    }
    servers = {"first": first, "second": FILES, "ark": FILES, "zoo": ZOO}
    async with world(tmp_path, servers, config, wait=False) as w, w.client() as client:
        await until(lambda: started(w) == ["first"])
        await client.search("sail a ship")
        await client.search("feed the animals in the zoo")
        first.released.set()
        await is_listed(w, "first", "second", "ark", "zoo")
        assert started(w) == ["first", "zoo", "ark", "second"]


@pytest.mark.usefixtures("just_started")
async def test_a_call_of_a_server_that_is_on_its_way_says_so_for_any_name(tmp_path):
    async with world(tmp_path, {"zoo": hanging()}, AT_ONCE, wait=False) as w, w.client() as client:
        for name in ("zoo__feed", "zoo.nothing"):
            [block] = (await client.tool_call(name))["content"]
            assert block["text"] == (
                "Server zoo is not listed yet (starting, 0 s so far). Ask again in 1 s. Nothing ran."
            )


@pytest.mark.usefixtures("just_started")
async def test_a_server_that_is_asked_for_and_on_its_way_says_so(tmp_path):
    async with world(tmp_path, {"zoo": hanging(), "files": FILES}, AT_ONCE, wait=False) as w, w.client() as client:
        told = await note(client, "feed", server="zoo")
    assert told == "Server zoo is not listed yet (starting, 0 s so far). Ask again in 1 s."


# -- those that gave no answer at an earlier start -----------------------------------------------


ALWAYS = {**FOREVER, "tool_search": {"always_loaded_patterns": ["*read*"]}}


async def silent_once(folder: Path, servers: dict[str, Any]) -> None:
    """Run a world in which ``zoo`` gives no answer, and end it long before that is an error."""
    async with world(folder, servers, ALWAYS, wait=False) as w:
        await is_listed(w, *(key for key in servers if key != "zoo"))
        while not any("it had not answered" in event["reason"] for event in w.happened("downstream_state")):
            await time_passes(1)


async def test_one_that_hung_at_an_earlier_start_is_not_waited_for(tmp_path):
    servers = {"zoo": hanging(), "files": FILES}
    await silent_once(tmp_path, servers)
    async with world(tmp_path, servers, ALWAYS, wait=False) as w, w.client() as client:
        assert await client.found("read a file", include_always_loaded=True) == ["files__read_file"]
        assert "files__read_file" in await client.names()
        assert "zoo (" in await note(client, "read a file")


async def test_one_that_hung_at_an_earlier_start_is_started_after_all_others(tmp_path):
    servers: dict[str, Any] = {"zoo": hanging()}
    await silent_once(tmp_path, servers)
    servers |= {"ark": FILES, "files": FILES}
    async with world(tmp_path, servers, {**ALWAYS, "limits": {"parallel_starts": 1}}, wait=False) as w:
        await is_listed(w, "ark", "files")
        await until(lambda: "zoo" in started(w))
        assert started(w) == ["ark", "files", "zoo"]


async def test_once_it_has_answered_it_is_waited_for_again(tmp_path):
    zoo = hanging()
    await silent_once(tmp_path, {"zoo": zoo})
    zoo.hangs_at = None
    async with world(tmp_path, {"zoo": zoo}):
        pass
    held = HeldServer(ZOO, entry={"command": "another"})
    async with world(tmp_path, {"zoo": held}, FOREVER, wait=False) as w, w.client() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_waiting, held)
            assert await client.found("feed") == ["zoo__feed"]


async def until_waiting(held: HeldServer) -> None:
    """Let a server go on once everybody waits for it."""
    await settled()
    held.released.set()


# -- those that have failed ----------------------------------------------------------------------


async def test_a_failed_server_is_named_whatever_was_asked_for(tmp_path):
    async with world(tmp_path, {"zoo": broken(), "files": FILES}) as w, w.client() as client:
        assert await note(client, "read a file") == "Failed to start: zoo; a search with server='zoo' says why."


async def test_one_that_is_meant_is_told_with_the_reason_and_what_to_do(tmp_path):
    async with world(tmp_path, {"zoo": broken(), "files": FILES}) as w, w.client() as client:
        assert (await note(client, "feed the zoo")).endswith(f"Server zoo has failed: {FAILURE}")


async def test_a_search_of_a_failed_server_is_answered_with_that(tmp_path):
    async with world(tmp_path, {"zoo": broken(), "files": FILES}) as w, w.client() as client:
        assert await note(client, "anything", server="zoo") == f"Server zoo has failed: {FAILURE}"


@pytest.mark.parametrize("door", ["tool_call", "call"])
async def test_a_call_of_a_failed_server_is_answered_with_that(tmp_path, door):
    async with world(tmp_path, {"zoo": broken()}) as w, w.client() as client:
        result = await getattr(client, door)("zoo__feed")
        assert result["isError"]
        assert result["content"][0]["text"] == f"Server zoo has failed: {FAILURE} Nothing ran."


async def test_hits_of_a_failed_server_come_with_the_reason(tmp_path):
    server = MemoryServer(ZOO)
    async with world(tmp_path, {"zoo": server}) as w, w.client() as client:
        server.start_error = MISSING
        await client.call("zoo__feed")
        answer = await client.search("feed")
    assert [hit["status"] for hit in answer["tools"]] == ["failed"]
    assert answer["note"] == f"Server zoo has failed: {FAILURE}"


@pytest.mark.parametrize("way", ["call", "search"])
async def test_a_server_that_was_mended_works_as_soon_as_it_is_asked_for(tmp_path, way):
    server = broken()
    async with world(tmp_path, {"zoo": server}) as w, w.client() as client:
        server.start_error = None
        if way == "call":
            assert not (await client.tool_call("zoo__feed")).get("isError")
        else:
            assert await client.found("feed", server="zoo") == ["zoo__feed"]
        assert await note(client, "feed") == ""


# -- who may know --------------------------------------------------------------------------------


@pytest.mark.parametrize("deny", ["zoo.*", "zoo__*"])
@pytest.mark.parametrize("make", [broken, hanging])
async def test_a_denied_server_that_is_missing_is_as_one_that_is_not_there(tmp_path, deny, make):
    async def answers(folder: str, servers: dict[str, Any]) -> list[str]:
        (tmp_path / folder).mkdir()
        config = {"policy": {"deny": [deny]}, **FOREVER}
        async with world(tmp_path / folder, {**servers, "files": FILES}, config, wait=False) as w, w.client() as client:
            said = [await client.search("feed the zoo"), await client.search("feed", server="zoo")]
            said += [await client.tool_call("zoo__feed"), repr(await client.tried("zoo__feed"))]
            return [json.dumps(each) for each in said]

    assert await answers("with", {"zoo": make()}) == await answers("without", {})


async def test_a_server_of_which_only_one_tool_is_allowed_is_waited_for_and_told(tmp_path):
    config = {"policy": {"allow": ["zoo.feed", "files.*"]}}
    async with world(tmp_path, {"zoo": ZOO, "files": FILES}, config, wait=False) as w, w.client() as client:
        assert await client.found("feed") == ["zoo__feed"]
    another = MemoryServer(ZOO, start_error=MISSING, entry={"command": "another"})
    async with world(tmp_path, {"zoo": another}, config) as w, w.client() as client:
        assert "Server zoo has failed" in await note(client, "feed the zoo")


async def test_a_reason_names_no_tool_that_the_caller_may_not_use(tmp_path):
    failing = MemoryServer(ZOO, start_error=OSError("secret_drop cannot be opened"))
    config = {"policy": {"deny": ["secret_drop"]}}
    async with world(tmp_path, {"zoo": failing}, config) as w, w.client() as client:
        told = await note(client, "feed", server="zoo")
        [block] = (await client.tool_call("zoo__feed"))["content"]
    for text in (told, block["text"]):
        assert "[denied] cannot be opened" in text
        assert "secret_drop" not in text


PURPOSES = {"servers": {"zoo": {"description": "Animals and their keepers"}}}


class TestNothingLikely:
    """Where none of what was found is likely, the answer says what there is."""

    async def test_the_servers_are_named_with_what_the_config_says_they_are_for(self, tmp_path):
        async with world(tmp_path, {"files": MemoryServer(FILES), "zoo": MemoryServer(ZOO)}, PURPOSES) as w:
            async with w.client() as client:
                answer = await client.search("teleport")
        assert answer["confidence"] == "none"
        assert answer["note"].endswith("There are tools of: files, zoo (Animals and their keepers).")

    async def test_a_server_of_which_nothing_is_permitted_is_not_named(self, tmp_path):
        config = {**PURPOSES, "policy": {"deny": ["zoo.*"]}}
        async with world(tmp_path, {"files": MemoryServer(FILES), "zoo": MemoryServer(ZOO)}, config) as w:
            async with w.client() as client:
                answer = await client.search("teleport")
        assert answer["note"].endswith("There are tools of: files.")
        assert "zoo" not in json.dumps(answer)

    async def test_where_something_likely_was_found_nothing_is_said_of_the_others(self, tmp_path):
        async with world(tmp_path, {"files": MemoryServer(FILES), "zoo": MemoryServer(ZOO)}) as w:
            async with w.client() as client:
                assert "There are tools of" not in await note(client, "read a file")
