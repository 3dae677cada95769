"""Servers that were upgraded while toolcrib was not running: what is listed anew, and that nobody waits for it."""

import json
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest

from fakes.menu import FakeServer, tool
from serve.served import served
from toolcrib.downstream.states import State
from worlds import MemoryServer, World, settled, until, world

pytestmark = pytest.mark.anyio

OLD, NEW = tool("paint", "Paints a wall."), tool("sweep", "Sweeps the floor.")


class Upgraded:
    """A server whose program is a script, run by a link to Python; what it lists is decided beside it.

    With it runs a ``sentinel``, which is changed before each start: once it is listed anew, both were compared.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fake, self.sentinel = FakeServer(folder, "fake", tools=[OLD]), FakeServer(folder, "sentinel")
        self.versions = 0
        _, server, menu = self.fake.args
        self.script, self.python = folder / "script.py", folder / "python"
        self.script.write_text(SCRIPT.format(folder=str(Path(server).parent), server=server, menu=menu))
        self.python.symlink_to(sys.executable)

    @asynccontextmanager
    async def start(self, **toolcrib: Any) -> AsyncGenerator[World]:
        """Start a toolcrib with both, and wait until they were listed for the first time, or compared."""
        self.change_sentinel()
        servers = {
            "fake": MemoryServer(entry={"command": str(self.python), "args": ["-S", str(self.script)]}),
            "sentinel": MemoryServer(entry=self.sentinel.entry()),
        }
        async with world(self.folder, servers, toolcrib, connector=None) as w:
            await self.compared(w)
            yield w

    def change_sentinel(self) -> None:
        self.versions += 1
        self.sentinel.change(tools=[f"version_{self.versions}"])

    async def compared(self, w: World) -> None:
        await until(lambda: names(w, "sentinel") == [f"version_{self.versions}"])


SCRIPT = """
import runpy, sys
sys.path.insert(0, {folder!r})
sys.argv[1:] = [{menu!r}]
runpy.run_path({server!r}, run_name="__main__")
"""


def names(w: World, server: str = "fake") -> list[str]:
    return [known.name for known in w.gateway.tools.indexer.current().tools if known.server == server]


def outdated(w: World) -> dict[str, str]:
    return {event["server"]: event["reason"] for event in w.happened("list_outdated")}


def rows(w: World) -> list[Any]:
    with closing(sqlite3.connect(w.catalog_file)) as connection:
        return connection.execute("SELECT * FROM tools WHERE namespace = 'fake' ORDER BY id").fetchall()


@pytest.fixture
def upgraded(tmp_path: Path) -> Upgraded:
    return Upgraded(tmp_path)


def rewrite(it: Upgraded) -> None:
    it.script.write_text(it.script.read_text() + "# another version\n")


def touch(it: Upgraded) -> None:
    os.utime(it.script, ns=(1, 1))


def link_elsewhere(it: Upgraded) -> None:
    """Have the script be a link to another version of it, with the size and the time that it had."""
    state, text = it.script.stat(), it.script.read_text()
    version = it.folder / "version_2.py"
    version.write_text(text)
    os.utime(version, ns=(state.st_atime_ns, state.st_mtime_ns))
    it.script.unlink()
    it.script.symlink_to(version)


def change_interpreter(it: Upgraded) -> None:
    it.python.unlink()
    it.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    it.python.chmod(0o755)


UPGRADES = [rewrite, touch, link_elsewhere, change_interpreter]


@pytest.mark.slow
@pytest.mark.parametrize("upgrade", UPGRADES)
async def test_a_new_tool_of_a_changed_program_is_found_at_the_next_start(
    upgraded: Upgraded, upgrade: Callable[[Upgraded], None]
):
    async with upgraded.start() as w:
        assert names(w) == ["paint"]
    upgraded.fake.change(tools=[OLD, NEW])
    upgrade(upgraded)
    async with upgraded.start() as w, w.client() as client:
        await until(lambda: names(w) == ["paint", "sweep"])
        assert await client.found("sweep the floor") == ["fake__sweep"]
        assert outdated(w) == {"fake": "program", "sentinel": "program"}
        assert [event["tool_name"] for event in w.happened("definition_changed")].count("fake__sweep") == 1


async def test_an_unchanged_program_is_not_started_merely_to_look(upgraded: Upgraded):
    async with upgraded.start():
        pass
    upgraded.fake.change(tools=[NEW])
    async with upgraded.start() as w:
        assert outdated(w) == {"sentinel": "program"}
        assert names(w) == ["paint"]
    assert len(upgraded.fake.starts()) == 1


async def test_a_touched_program_with_the_same_list_is_looked_at_once_and_nothing_is_rewritten(upgraded: Upgraded):
    async with upgraded.start() as w:
        before = rows(w)
    touch(upgraded)
    async with upgraded.start() as w:
        await until(lambda: w.gateway.fleet["fake"].status.state is State.SLEEPING and len(upgraded.fake.starts()) == 2)
        assert outdated(w) == {"fake": "program", "sentinel": "program"}
        assert rows(w) == before
        assert {event["server"] for event in w.happened("definition_changed")} == {"sentinel"}
    async with upgraded.start() as w:
        assert outdated(w) == {"sentinel": "program"}
    assert len(upgraded.fake.starts()) == 2


async def test_of_a_program_that_vanished_it_is_said_why_and_its_tools_stay_known(upgraded: Upgraded):
    async with upgraded.start():
        pass
    upgraded.python.unlink()
    async with upgraded.start() as w, w.client() as client:
        await until(lambda: w.gateway.fleet["fake"].status.state is State.FAILED)
        assert "no such program" in w.gateway.fleet["fake"].status.reason
        assert (await client.found("paint a wall"))[0] == "fake__paint"
    upgraded.python.symlink_to(sys.executable)
    async with upgraded.start() as w:
        assert outdated(w) == {"sentinel": "program"}


async def test_nobody_waits_for_a_changed_program_that_hangs_when_it_is_listed(upgraded: Upgraded):
    async with upgraded.start():
        pass
    upgraded.fake.change(hang_at="list")
    touch(upgraded)
    async with upgraded.start() as w, w.client() as client:
        await until(lambda: w.gateway.fleet["fake"].status.state is State.STARTING)
        began = monotonic()
        assert (await client.found("paint a wall"))[0] == "fake__paint"
        await client.ask("resources/list")
        assert monotonic() - began < w.settings.toolcrib.limits.first_index_wait_s
        assert w.gateway.fleet["fake"].status.state is State.STARTING
    assert upgraded.fake.survivors() == []


async def test_a_program_that_was_replaced_while_it_runs_is_listed_once_it_is_started(upgraded: Upgraded):
    async with upgraded.start() as w, w.client() as client:
        await client.call("tool_call", {"name": "fake__paint"})
        upgraded.fake.change(tools=[OLD, NEW])
        touch(upgraded)
        # The list of what runs says nothing of the file that took the place of its own.
        await w.gateway.fleet["fake"].list_again()
        upgraded.change_sentinel()
        await w.reload({"limits": {"parallel_starts": 5}})
        await upgraded.compared(w)
        assert outdated(w) == {"sentinel": "program"}
        assert names(w) == ["paint"]
    async with upgraded.start() as w:
        await until(lambda: names(w) == ["paint", "sweep"])


@pytest.mark.slow
async def test_a_new_tool_is_found_within_ten_seconds_of_the_start_and_the_first_answer_does_not_wait(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=[OLD])
    async with served(tmp_path, fake) as crib:
        await crib.initialize()
        await crib.request("tools/list")
        while not (await crib.tool("tool_search", query="paint"))["structuredContent"]["tools"]:
            await anyio.sleep(0.05)
        crib.close_stdin()
        assert await crib.ended() == 0
    fake.change(tools=[OLD, NEW], slow_s={"spawn": 1})
    began = monotonic()
    async with served(tmp_path, fake) as crib:
        await crib.initialize()
        known = (await crib.tool("tool_search", query="paint"))["structuredContent"]["tools"]
        assert [hit["name"] for hit in known] == ["fake__paint"]
        while not (await crib.tool("tool_search", query="sweep the floor"))["structuredContent"]["tools"]:
            assert monotonic() - began < 10
            await anyio.sleep(0.05)
        crib.close_stdin()
        assert await crib.ended() == 0


# -- servers that no file tells of ---------------------------------------------------------------

HOUR_S, DAY_S = 3600.0, 86_400.0


def remote(number: int) -> MemoryServer:
    return MemoryServer([tool("x")], entry={"url": f"http://127.0.0.1:1/{number}"})


async def test_servers_reached_by_http_are_listed_once_an_hour(tmp_path: Path):
    servers = {"far": remote(0), "near": MemoryServer([tool("x")])}
    async with world(tmp_path, servers):
        pass
    servers["far"].tools = [tool("y")]
    async with world(tmp_path, servers, now=HOUR_S) as w:
        assert w.gateway.tools.indexer.outdated() == {}
    async with world(tmp_path, servers, now=HOUR_S + 1) as w:
        await until(lambda: names(w, "far") == ["y"])
        assert outdated(w) == {"far": "hour"}
    async with world(tmp_path, servers, now=2 * HOUR_S) as w:
        assert w.gateway.tools.indexer.outdated() == {}
    assert (servers["far"].starts, servers["near"].starts) == (2, 1)


async def test_of_them_four_at_a_time_are_listed_and_nobody_waits_for_those_that_hang(tmp_path: Path):
    servers = {f"s{number}": remote(number) for number in range(6)}
    async with world(tmp_path, servers):
        pass
    for server in servers.values():
        server.hangs_at = "start"
    async with world(tmp_path, servers, now=HOUR_S + 1) as w, w.client() as client:
        await until(lambda: sum(server.starts for server in servers.values()) == 10)
        assert len(await client.found("x")) == 6
        await settled()
        assert sum(server.starts for server in servers.values()) == 10


async def test_a_launcher_of_any_version_goes_by_age_and_the_status_says_so(tmp_path: Path):
    entries = {"any": ["-y", "server"], "one": ["-y", "server@1.2.3"]}
    servers = {key: MemoryServer([tool("x")], entry={"command": "npx", "args": args}) for key, args in entries.items()}
    servers["far"] = remote(0)
    async with world(tmp_path, servers) as w, w.client() as client:
        [status] = (await client.ask("resources/read", {"uri": "toolcrib://status"}))["contents"]
        told = {server["server"]: server["list_checked_by"] for server in json.loads(status["text"])["servers"]}
        assert told == {"any": "age", "one": "version", "far": "hour"}
    async with world(tmp_path, servers, now=DAY_S + 1) as w:
        await until(lambda: [server.starts for server in servers.values()] == [2, 2, 2])
        assert outdated(w) == dict.fromkeys(servers, "age")
