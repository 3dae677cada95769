"""Why a server failed is remembered and told: in this process, in any other, and at a later start."""

import json
from datetime import datetime
from typing import Any

import anyio
import pytest

from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.cli import main
from worlds import Client, MemoryServer, until, world

pytestmark = pytest.mark.anyio

TOOLS = [tool("feed")]
MISSING = FileNotFoundError(2, "No such file or directory", "zoo-server")
REASON = "no such program or folder: 'zoo-server'"
REMEDY = "Install it, or correct command and cwd in its config entry."


def broken(error: Exception = MISSING) -> MemoryServer:
    return MemoryServer(TOOLS, start_error=error)


async def told(client: Client, key: str = "zoo") -> dict[str, Any]:
    """Return what ``toolcrib://status`` tells of one server."""
    [found] = (await client.ask("resources/read", {"uri": "toolcrib://status"}))["contents"]
    [server] = [each for each in json.loads(found["text"])["servers"] if each["server"] == key]
    return server


# -- status --------------------------------------------------------------------------------------


async def test_status_tells_the_reason_and_what_to_do(tmp_path):
    async with world(tmp_path, {"zoo": broken()}) as w, w.client() as client:
        server = await told(client)
    assert server["state"] == "failed"
    assert (server["failure"]["reason"], server["failure"]["remedy"]) == (REASON, REMEDY)


async def test_a_server_that_works_has_no_failure(tmp_path):
    async with world(tmp_path, {"zoo": TOOLS}) as w, w.client() as client:
        assert (await told(client))["failure"] is None


async def test_a_later_start_knows_before_it_has_tried(tmp_path):
    server = broken()
    async with world(tmp_path, {"zoo": server}) as w:
        noted_at = w.clock.now
    server.start_error, server.hangs_at = None, "start"
    async with world(tmp_path, {"zoo": server}, now=3600, wait=False) as w, w.client() as client:
        await until(lambda: server.starts == 2)
        failure = (await told(client))["failure"]
    assert (failure["reason"], failure["remedy"]) == (REASON, REMEDY)
    assert abs(datetime.fromisoformat(failure["since"]).timestamp() - noted_at) < 60


async def test_a_success_clears_the_failure_for_good(tmp_path):
    server = broken()
    async with world(tmp_path, {"zoo": server}):
        pass
    server.start_error = None
    async with world(tmp_path, {"zoo": server}) as w, w.client() as client:
        assert (await told(client))["failure"] is None
    server.hangs_at = "start"
    async with world(tmp_path, {"zoo": server}) as w, w.client() as client:
        assert (await told(client))["failure"] is None


async def test_a_failure_under_another_config_is_forgotten(tmp_path):
    async with world(tmp_path, {"zoo": broken()}):
        pass
    mended = MemoryServer(TOOLS, entry={"command": "in-memory", "args": ["--other"]}, hangs_at="start")
    async with world(tmp_path, {"zoo": mended}, wait=False) as w, w.client() as client:
        assert (await told(client))["failure"] is None


async def test_what_has_not_changed_is_not_written_again(tmp_path):
    server = broken()
    async with world(tmp_path, {"zoo": server}):
        pass
    file = tmp_path / "cache" / "tool_cache.db"
    before = file.read_bytes()
    async with world(tmp_path, {"zoo": server}):
        assert server.starts == 2
    assert file.read_bytes() == before


def test_the_command_line_tells_what_another_process_has_seen(tmp_path, capsys):
    async def serve() -> None:
        async with world(tmp_path, {"zoo": broken()}):
            pass

    anyio.run(serve)
    config = ["--config", str(tmp_path / "toolcrib.json")]
    assert main(["status", *config, "--json"]) == 0
    [server] = json.loads(capsys.readouterr().out)["servers"]
    assert (server["failure"]["reason"], server["failure"]["remedy"]) == (REASON, REMEDY)
    assert main(["status", *config]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"wrong    zoo: {REASON} (since 2027-01-15T0")
    assert second.strip().startswith(REMEDY)


# -- who may know --------------------------------------------------------------------------------


async def test_no_secret_is_kept(tmp_path):
    server = broken(OSError("login with s3cr3t-token refused"))
    server.entry = {"command": "in-memory", "env": {"TOKEN": "s3cr3t-token"}}
    async with world(tmp_path, {"zoo": server}) as w, w.client() as client:
        assert "login with" in (await told(client))["failure"]["reason"]
        said = json.dumps([w.said, w.events])
    assert "s3cr3t" not in said
    for file in (tmp_path / "cache").iterdir():
        assert b"s3cr3t" not in file.read_bytes(), file


async def test_a_failure_names_no_tool_that_the_caller_may_not_use(tmp_path):
    config = {"policy": {"visibility": [{"when": {"profile": "guest"}, "deny": ["secret_drop"]}]}}
    server = MemoryServer([*TOOLS, tool("secret_drop")])
    async with world(tmp_path, {"zoo": server}, config) as w:
        server.start_error = OSError("secret_drop cannot be opened")
        async with w.client(caller=Caller("bo", profile="guest")) as client:
            await client.tried("zoo__feed")
            assert (await told(client))["failure"]["reason"] == "[denied] cannot be opened"
