"""Who shares a process of a server: over HTTP it is decided by principal and session, never by what a client writes."""

from typing import Any

import pytest

from fakes.menu import tool
from online import online
from worlds import DEADLINE_S, MemoryServer, settled, time_passes, until

pytestmark = pytest.mark.anyio

TOKENS = [
    {"token": "token-ann", "subject": "ann"},
    {"token": "token-bob", "subject": "bob"},
]
WEB = {"type": "http", "url": "http://example.invalid/mcp"}


def server(**facts: Any) -> MemoryServer:
    return MemoryServer([tool("feed")], **facts)


def config(isolation: str | None = None, **limits: int) -> dict[str, Any]:
    named = {} if isolation is None else {"servers": {"zoo": {"isolation": isolation}}}
    return {"http": {"tokens": TOKENS}, "limits": limits, **named}


def connections(zoo: MemoryServer) -> int:
    """Return how many connections to it are used: not the one that it was listed by."""
    return zoo.starts - 1


async def test_with_tokens_of_several_subjects_a_command_is_started_once_for_each_of_them(tmp_path):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, config()) as it:
        for token in ("token-ann", "token-bob", "token-ann"):
            session = await it.session(token)
            assert "result" in (await session.call("zoo__feed"))[-1]
        assert connections(zoo) == 2


async def test_callers_of_the_sessionless_era_are_kept_apart_by_their_tokens_too(tmp_path):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, config()) as it:
        for token in ("token-ann", "token-bob", "token-ann"):
            async with it.client("2026-07-28", token) as client:
                assert not (await client.call("zoo__feed")).get("isError")
        assert connections(zoo) == 2


@pytest.mark.parametrize(
    ("isolation", "entry", "expected"),
    [("shared", None, 1), ("principal", None, 2), ("session", None, 3), (None, WEB, 1), ("principal", WEB, 2)],
)
async def test_the_config_says_who_shares(tmp_path, isolation, entry, expected):
    zoo = server(**({"entry": entry} if entry else {}))
    async with online(tmp_path, {"zoo": zoo}, config(isolation)) as it:
        sessions = [await it.session(token) for token in ("token-ann", "token-bob", "token-ann")]
        for session in sessions:
            for _ in range(2):
                assert "result" in (await session.call("zoo__feed"))[-1]
        assert connections(zoo) == expected


async def test_server_defaults_say_it_for_all(tmp_path):
    zoo = server()
    section = {"server_defaults": {"isolation": "session"}}
    async with online(tmp_path, {"zoo": zoo}, section) as it:
        for session in [await it.session(), await it.session()]:
            await session.call("zoo__feed")
        assert connections(zoo) == 2


async def test_without_tokens_of_several_subjects_all_share(tmp_path):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, {"http": {"tokens": TOKENS[:1]}}) as it:
        for session in [await it.session("token-ann"), await it.session("token-ann")]:
            await session.call("zoo__feed")
        assert connections(zoo) == 1


async def test_the_end_of_a_session_lets_go_of_what_was_its_own(tmp_path):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, config("session")) as it:
        ending, staying = await it.session("token-ann"), await it.session("token-ann")
        await ending.call("zoo__feed")
        await staying.call("zoo__feed")
        await until(lambda: len(zoo._talks) == 2)
        await ending.end()
        await until(lambda: len(zoo._talks) == 1)
        assert "result" in (await staying.call("zoo__feed"))[-1]
        assert connections(zoo) == 2


async def test_a_session_s_own_server_is_never_stopped_for_being_idle(tmp_path):
    own, shared = server(), server()
    idle = {"idle_stop_s": DEADLINE_S}
    section = {"servers": {"own": {"isolation": "session", **idle}, "shared": {"isolation": "shared", **idle}}}
    async with online(tmp_path, {"own": own, "shared": shared}, {**config(), **section}) as it:
        session = await it.session("token-ann")
        await session.call("own__feed")
        await session.call("shared__feed")
        await settled()
        assert (len(own._talks), len(shared._talks)) == (1, 1)
        await time_passes(2 * DEADLINE_S)
        assert (len(own._talks), len(shared._talks)) == (1, 0)


async def test_there_are_no_more_connections_than_the_limit_says(tmp_path):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, config("session", connections_per_server=2)) as it:
        sessions = [await it.session("token-ann") for _ in range(3)]
        for session in sessions[:2]:
            assert not (await session.call("zoo__feed"))[-1]["result"].get("isError")
        refused = (await sessions[2].call("zoo__feed"))[-1]["result"]
        assert refused["isError"]
        assert "limits.connections_per_server" in refused["content"][0]["text"]
        await sessions[0].end()
        await until(lambda: len(zoo._talks) == 1)
        assert not (await sessions[2].call("zoo__feed"))[-1]["result"].get("isError")


async def test_a_principal_that_nobody_serves_makes_room_for_another(tmp_path):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, config("principal", connections_per_server=1)) as it:
        for token in ("token-ann", "token-bob"):
            session = await it.session(token)
            assert not (await session.call("zoo__feed"))[-1]["result"].get("isError")
        await until(lambda: len(zoo._talks) == 1)


async def test_a_change_that_a_connection_of_its_own_tells_is_read_by_everybody_s(tmp_path):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, config("session")) as it:
        session = await it.session("token-ann")
        await session.call("zoo__feed")
        await zoo.change(tool("feed"), tool("hide"))
        catalog = it.world.gateway.tools.indexer
        await until(lambda: [each.name for each in catalog.current().tools] == ["feed", "hide"])


@pytest.mark.parametrize("name", ["zoo__feed", "zoo__hide"])
async def test_what_has_changed_since_it_was_listed_is_called_as_it_is_now(tmp_path, name):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, config("session")) as it:
        session = await it.session("token-ann")
        zoo.tools = [tool("feed", "Feed them twice."), tool("hide")]
        await session.call("zoo__feed")  # has it listed, where the new one is not known yet
        answer = (await session.call(name))[-1]
        assert answer["result"]["content"][0]["text"] == f"ran {name.removeprefix('zoo__')} {{}}"


async def test_the_status_tells_of_a_server_by_the_connection_that_is_up(tmp_path):
    zoo = server()
    async with online(tmp_path, {"zoo": zoo}, config()) as it:
        session = await it.session("token-ann")
        fleet = it.world.gateway.tools.fleet
        await until(lambda: fleet.status("zoo").state.value == "sleeping")
        await session.call("zoo__feed")
        assert fleet.status("zoo").state.value == "ready"
        assert fleet["zoo"].status.state.value == "sleeping"
