"""What a serving process tells of itself: who asks, what they used, what its servers do; never a secret."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import pytest
from shelving import put, repo

from fakes.memory import text
from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.cli.top import running_lines
from toolcrib.gateway.instances import (
    SESSIONS_MAX,
    InstanceFile,
    Process,
    RunningInstance,
    describe_instance,
    keep_instance_file,
    parse_instance,
)
from worlds import DEADLINE_S, ERAS, MemoryServer, World, settled, time_passes, until, world

pytestmark = pytest.mark.anyio

TOOLS = [tool("feed", "Feed an animal."), tool("hide", "Hide an animal.")]
OFF = {"skills": {"enabled": False}}
HANDLE = re.compile(r'"handle": "([\w-]+)"')
PROCESS = Process(pid=7, began=1_800_000_000.0, transport="stdio")


def _told(w: World) -> RunningInstance:
    """Return what is told, as whoever reads the file gets it."""
    found = parse_instance(json.loads(json.dumps(describe_instance(PROCESS, w.serving.snapshot()).as_json)))
    assert found is not None
    return found


@pytest.mark.parametrize("era", ERAS)
async def test_it_tells_who_asks_what_they_did_and_what_the_servers_do(tmp_path, era):
    dead = MemoryServer(start_error=OSError("no such program"))
    async with world(tmp_path, {"zoo": TOOLS, "dead": dead}, OFF, listing="auto") as w, w.client(era) as client:
        await client.search("feed")
        w.clock.now += 60
        await client.tool_call("zoo__feed")
        await client.tool_call("zoo__feed", 7)
        crib = _told(w)
        called = w.happened("tool_call")[0]
    [session] = crib.sessions
    assert (session.label, session.client, session.listing) == (called["session"], "mcp", "auto")
    assert (session.searches, session.calls, session.failed) == (1, 2, 1)
    assert session.active - session.began == 60
    assert session.activated == (("zoo__feed",) if era == "legacy" else ())
    assert {server.key: server.state for server in crib.servers} == {"zoo": "ready", "dead": "failed"}
    assert [server.reason for server in crib.servers if server.key == "dead"] == ["no such program"]
    assert (crib.pid, crib.transport, crib.session_count) == (7, "stdio", 1)
    assert crib.config.endswith(".json")


async def test_programs_are_told_with_what_they_saved(tmp_path):
    server = MemoryServer(TOOLS, answers={"feed": text("fed " * 2_000)})
    code = "from tools import zoo__feed\nlen(await zoo__feed())"
    async with world(tmp_path, {"zoo": server}, {**OFF, "programs": {"writes": "allow"}}) as w, w.client() as client:
        assert not any("1 program" in line for line in running_lines([_told(w)], w.clock.now))
        await client.call("tool_run", {"code": code})
        saved = 2_000 - -(-(len(code) + len("8000")) // 4)
        assert [(each.calls, each.programs, each.tokens_saved) for each in _told(w).sessions] == [(1, 1, saved)]
        [line] = [line for line in running_lines([_told(w)], w.clock.now) if "1 program" in line]
        await client.call("tool_run", {"code": "1"})
        await client.call("tool_run", {"code": "nothing that parses"})
        assert [each.programs for each in _told(w).sessions] == [2]
    assert f"1 call, 1 program: about {saved:,} tokens saved; asked" in line


async def test_skills_that_a_session_was_given_are_told(tmp_path):
    async with world(tmp_path, {"zoo": TOOLS}, {"skills": {}}) as w, w.client() as client:
        found = await client.skill("list")
        name = found["skills"][0]["name"]
        await client.skill("get", names=[name])
        [session] = _told(w).sessions
    assert session.skills == (name,)


SCOPED = {"skills": {"core_pack": False}, "servers": {"zoo": {"default_loading_mode": "skill"}}}


@pytest.mark.sampled
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ERAS)
async def test_active_skills_are_told_with_their_tools_until_they_are_let_go(tmp_path, transport, era):
    put(repo(tmp_path), "feeding", tools=["zoo__feed", "ark__board", "zoo__fly"])
    servers = {"zoo": TOOLS, "ark": [tool("board")]}
    async with world(tmp_path, servers, SCOPED, listing="auto", transport=transport) as w, w.client(era) as client:
        given = await client.skill("get", names=["feeding"])
        handle = {"handle": found[1]} if (found := HANDLE.search(given["formatted_context"])) else {}
        [session] = _told(w).sessions
        assert {each.name: each.tools for each in session.active_skills} == {
            "feeding": {"ark__board": "deferred", "zoo__feed": "ready"}
        }
        [shown, *_] = [line for line in running_lines([_told(w)], w.clock.now) if "active:" in line]
        assert shown.strip() == "active: feeding, with zoo__feed (ready), ark__board (deferred)"
        await client.call("skill_deactivate", {"names": ["feeding"], **handle})
        [session] = _told(w).sessions
    assert session.active_skills == ()


async def test_a_session_that_has_ended_is_told_no_more_and_the_latest_stand_first(tmp_path):
    async with world(tmp_path, {"zoo": TOOLS}, OFF) as w:
        async with w.client(caller=Caller("ana")) as ana:
            await ana.tools()
            w.clock.now += 1
            async with w.client(caller=Caller("bo")) as bo:
                await bo.tools()
                assert [session.label.partition("-")[0] for session in _told(w).sessions] == ["bo", "ana"]
        await until(lambda: not _told(w).sessions)


async def test_no_more_sessions_are_told_than_somebody_would_read(tmp_path):
    async with world(tmp_path, {"zoo": TOOLS}, OFF, listing="stable") as w, anyio.create_task_group() as tasks:
        for number in range(SESSIONS_MAX + 2):
            client = await tasks.start(_connected, w, f"c{number}")
            await client.tools()
        crib = _told(w)
        tasks.cancel_scope.cancel()
    assert (len(crib.sessions), crib.session_count) == (SESSIONS_MAX, SESSIONS_MAX + 2)


async def _connected(w: World, principal: str, *, task_status) -> None:
    async with w.client(caller=Caller(principal)) as client:
        task_status.started(client)
        await anyio.sleep_forever()


async def test_no_secret_and_no_argument_is_told(tmp_path):
    secret = "s3cret-token-value"
    server = MemoryServer(TOOLS, entry={"command": "in-memory", "env": {"TOKEN": secret}})
    async with world(tmp_path, {"zoo": server}, OFF) as w, w.client() as client:
        await client.search(f"feed {secret} ARGUMENT")
        await client.tool_call("zoo__feed", {"note": "ARGUMENT"})
        server.start_error = OSError(f"cannot log in with {secret}")
        await w["zoo"].hang_up()
        await client.tried("zoo__feed")
        text = json.dumps(describe_instance(PROCESS, w.serving.snapshot()).as_json)
    assert "cannot log in" in text
    assert secret not in text
    assert "ARGUMENT" not in text


async def test_it_is_written_anew_when_something_has_changed_and_not_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr("toolcrib.gateway.instances._FIRST_REPORT_S", 0.0)
    monkeypatch.setattr("toolcrib.gateway.instances._REPORT_EVERY_S", 0.0)
    written: list[RunningInstance] = []

    class File(InstanceFile):
        def __init__(self) -> None:
            pass

        def write(self, text: str) -> None:
            crib = parse_instance(json.loads(text))
            assert crib
            written.append(crib)

    @contextmanager
    def opened() -> Generator[InstanceFile]:
        yield File()

    async with world(tmp_path, {"zoo": TOOLS}, OFF) as w, anyio.create_task_group() as tasks:
        tasks.start_soon(
            keep_instance_file, opened, lambda: describe_instance(PROCESS, w.serving.snapshot()), w.gateway.changed
        )
        async with w.client() as client:
            await client.tool_call("zoo__feed")
            await until(lambda: bool(written and written[-1].sessions and written[-1].sessions[0].calls))
            await settled()
            count = len(written)
            await time_passes(DEADLINE_S)
            assert len(written) == count
        await until(lambda: not written[-1].sessions)
        tasks.cancel_scope.cancel()
    assert written[-1].memory_bytes is None or written[-1].memory_bytes > 2**20


@pytest.mark.parametrize("document", [None, [], {}, {"pid": 1}, {"pid": "x"}, "text"])
def test_what_another_version_wrote_is_passed_over(document):
    assert parse_instance(document) is None
