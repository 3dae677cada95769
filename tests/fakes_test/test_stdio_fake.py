"""The fake downstream speaks the protocol as the SDK's own client understands it, and misbehaves when ordered to."""

import json
import os
import signal
import subprocess
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import TextContent

from fakes.menu import FakeServer, Point, tool
from waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio
MODES = ("legacy", "auto")


def client(fake: FakeServer, mode: str = "legacy", **options) -> Client:
    return Client(StdioServerParameters(command=fake.command, args=fake.args), mode=mode, cache=None, **options)


def run(fake: FakeServer, stdin: str = "", timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [fake.command, *fake.args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


INITIALIZE = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
)


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_it_lists_and_calls_in_both_eras(tmp_path: Path, mode: str, version: str):
    fake = FakeServer(tmp_path, tools=[tool("echo", params={"text": "string"}), tool("book_flight")])
    async with client(fake, mode) as mcp:
        listed = await mcp.list_tools()
        echoed = await mcp.call_tool("echo", {"text": "hello"})
        ran = await mcp.call_tool("book_flight", {"to": "Oslo"})
        assert mcp.protocol_version == version
    assert [entry.name for entry in listed.tools] == ["echo", "book_flight"]
    assert echoed.structured_content == {"text": "hello"}
    assert ran.content == [TextContent(text='ran book_flight {"to": "Oslo"}')]
    assert len(fake.starts()) == 1
    assert [call["name"] for call in fake.calls()] == ["echo", "book_flight"]
    await until(lambda: not fake.survivors())


async def test_an_unknown_tool_is_an_error(tmp_path: Path):
    async with client(FakeServer(tmp_path)) as mcp:
        with pytest.raises(MCPError, match="Unknown tool: nothing") as caught:
            await mcp.call_tool("nothing")
    assert caught.value.code == types.INVALID_PARAMS


async def test_a_legacy_server_makes_an_auto_client_fall_back(tmp_path: Path):
    fake = FakeServer(tmp_path, eras=["legacy"], legacy_version="2024-11-05")
    async with client(fake, "auto") as mcp:
        assert mcp.protocol_version == "2024-11-05"
        assert (await mcp.call_tool("echo")).content == [TextContent(text="{}")]


async def test_a_modern_server_refuses_initialize(tmp_path: Path):
    fake = FakeServer(tmp_path, eras=["modern"])
    async with client(fake, "auto") as mcp:
        assert mcp.protocol_version == "2026-07-28"
    refused = json.loads(run(fake, INITIALIZE + "\n").stdout)
    assert refused["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


async def test_pages_add_up_to_the_whole_list(tmp_path: Path):
    fake = FakeServer(tmp_path, tools={"generate": 25}, page_size=10)
    names, cursor = [], None
    async with client(fake, "auto") as mcp:
        for _ in range(3):
            page = await mcp.list_tools(cursor=cursor)
            names += [entry.name for entry in page.tools]
            cursor = page.next_cursor
    assert cursor is None
    assert len(set(names)) == 25


@pytest.mark.parametrize("mode", MODES)
async def test_a_sleeping_call_does_not_hold_up_the_others(tmp_path: Path, mode: str):
    fake = FakeServer(tmp_path, tools=["sleep", "counter", "cancelled"])
    async with client(fake, mode) as mcp:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mcp.call_tool, "sleep", {"seconds": 600})
            await fake.reached("tools/call")
            assert (await mcp.call_tool("counter")).structured_content == {"n": 1}
            assert (await mcp.call_tool("counter")).structured_content == {"n": 2}
            tasks.cancel_scope.cancel()
        await fake.reached("notifications/cancelled")
    sleeping = fake.messages("tools/call")[0]["id"]
    assert [message["params"]["requestId"] for message in fake.messages("notifications/cancelled")] == [sleeping]


@pytest.mark.parametrize("mode", MODES)
async def test_progress_reaches_the_caller(tmp_path: Path, mode: str):
    seen = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with client(FakeServer(tmp_path, tools=["progress"]), mode) as mcp:
        await mcp.call_tool("progress", {"steps": 2}, progress_callback=on_progress)
    assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]


async def test_a_call_changes_the_list_and_tells_a_legacy_client(tmp_path: Path):
    announced = anyio.Event()

    async def on_message(message) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            announced.set()

    fake = FakeServer(
        tmp_path, tools=["grow", "old"], list_changed_after="grow", more_tools=["new"], fewer_tools=["old"]
    )
    async with client(fake, message_handler=on_message) as mcp:
        await mcp.call_tool("grow")
        with anyio.fail_after(30):
            await announced.wait()
        assert mcp.server_capabilities.tools.list_changed
        assert [entry.name for entry in (await mcp.list_tools()).tools] == ["grow", "new"]


async def test_a_call_changes_the_list_and_tells_a_listening_modern_client(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["grow"], list_changed_after="grow", more_tools=["new"])
    async with client(fake, "auto") as mcp, mcp.listen(tools_list_changed=True) as changes:
        await mcp.call_tool("grow")
        with anyio.fail_after(30):
            await anext(changes)
        assert [entry.name for entry in (await mcp.list_tools()).tools] == ["grow", "new"]


async def test_ordered_results_and_errors_are_given(tmp_path: Path):
    result = {"content": [], "structuredContent": {"n": 1}, "isError": True, "_meta": {"vendor/key": 1}}
    error = {"code": -32050, "message": "quota", "data": {"left": 0}}
    fake = FakeServer(tmp_path, tools=["odd", "broke"], results={"odd": result}, error_on_call={"broke": error})
    async with client(fake, "auto") as mcp:
        odd = await mcp.call_tool("odd")
        with pytest.raises(MCPError, match="quota") as caught:
            await mcp.call_tool("broke")
    assert odd.is_error
    assert odd.structured_content == {"n": 1}
    assert odd.meta["vendor/key"] == 1
    assert caught.value.error.data == {"left": 0}


async def test_garbage_between_messages_is_no_json(tmp_path: Path):
    lines = run(FakeServer(tmp_path, garbage=3), INITIALIZE + "\n").stdout.splitlines()
    assert lines[:3] == ["this is not JSON 0", "this is not JSON 1", "this is not JSON 2"]
    assert json.loads(lines[3])["result"]["protocolVersion"] == "2025-11-25"


async def test_a_flood_has_no_newline(tmp_path: Path):
    flooded = run(FakeServer(tmp_path, flood=100_000))
    assert flooded.stdout == "x" * 100_000


@pytest.mark.parametrize(("point", "sent"), [("spawn", ""), ("initialize", INITIALIZE + "\n")])
async def test_it_exits_where_it_is_ordered_to_for_so_many_starts(tmp_path: Path, point: Point, sent: str):
    fake = FakeServer(tmp_path, exit_at=point, faulty_starts=1, stderr="hello")
    first, second = run(fake, sent), run(fake, sent)
    assert (first.returncode, second.returncode) == (3, 0)
    assert first.stderr == f"hello\nthe fake server exits at {point}\n"
    assert len(fake.starts()) == 2


async def test_an_old_server_dies_of_a_discover_before_initialize(tmp_path: Path):
    fake = FakeServer(tmp_path, eras=["legacy"], die_on_discover=True)
    discover = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover"})
    assert run(fake, discover + "\n").returncode == 1
    assert run(fake, f"{INITIALIZE}\n{discover}\n").returncode == 0


async def test_a_crash_ends_the_connection(tmp_path: Path):
    async with client(FakeServer(tmp_path, tools=["crash"])) as mcp:
        with pytest.raises(MCPError, match="closed"):
            await mcp.call_tool("crash")


async def test_a_hanging_server_and_its_child_survive_sigterm(tmp_path: Path):
    fake = FakeServer(tmp_path, hang_at="spawn", ignore_sigterm=True, fork_child=True)
    async with await anyio.open_process([fake.command, *fake.args], start_new_session=True) as process:
        await until(lambda: len(fake.survivors()) == 2)
        os.killpg(process.pid, signal.SIGTERM)
        process.kill()
        # A signal that ends a process is the one that it was ended by, whatever is sent to it before it is gone.
        assert await process.wait() == -signal.SIGKILL
        assert len(fake.survivors()) == 1
        os.killpg(process.pid, signal.SIGKILL)
    await until(lambda: not fake.survivors())
