"""An opened crib ends with its block, however that ends, and runs wherever anyio and the SDK do (R369)."""

import gc
import random
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

import toolcrib
from library.server_objects import files
from worlds import PATIENCE_S

SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("clock")
@server.tool()
def now() -> str:
    return "12:00"
server.run()
"""
EXITING = """
import asyncio, contextlib, sys
import toolcrib

async def leave():
    await asyncio.sleep(0)
    sys.exit(3)

async def main():
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(toolcrib.open(tools=[nothing]))
        leaving = asyncio.create_task(leave())
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

def nothing():
    pass

asyncio.run(main())
"""
OPENINGS = 50
SKILLS = {"toolcrib": {"skills": {"enabled": True}}}


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def rest() -> str:
    """Rest a moment."""
    await anyio.sleep(0.02)
    return "rested"


async def use(script: Path | None) -> None:
    """Open everything once, and use it."""
    processes = {"clock": {"command": sys.executable, "args": [str(script)]}} if script else {}
    async with toolcrib.open(SKILLS, servers={"files": files(), **processes}, tools=[add, rest]) as crib:
        await crib.search("add numbers")
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(crib.call, "local__add", {"a": 1})
                tasks.start_soon(crib.call, "local__rest")
                tasks.start_soon(crib.call, "files__read_file", {"path": "x"})
            if script:
                tasks.start_soon(crib.call, "clock__now")
        async with crib.client() as client:
            await client.list_tools()


def held() -> tuple[set[str], int, set[str], set[str]]:
    """Return the open files, the tasks, the threads that are not anyio's idle ones, and the child processes."""
    gc.collect()
    files = {str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()}
    threads = {thread.name for thread in threading.enumerate() if "AnyIO worker" not in thread.name}
    tasks = Path("/proc/self/task").iterdir()
    children = {child for task in tasks for child in (task / "children").read_text().split()}
    return {name for name in files if "/proc/" not in name}, len(anyio.get_running_tasks()), threads, children


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.skipif(sys.platform != "linux", reason="open files and processes are read from /proc")
@pytest.mark.filterwarnings("error")
async def test_openings_that_are_cancelled_at_any_point_leave_nothing_behind(tmp_path: Path):
    script = tmp_path / "clock.py"
    script.write_text(SERVER)
    took: dict[bool, float] = {}
    for has_process in (False, True, False, True):
        began = anyio.current_time()
        await use(script if has_process else None)
        took[has_process] = anyio.current_time() - began
    before, draw = held(), random.Random(7)
    for number in range(OPENINGS):
        has_process = number % 10 == 0
        with anyio.move_on_after(draw.random() * took[has_process]):
            await use(script if has_process else None)
    assert held() == before


@pytest.mark.slow
def test_a_program_that_exits_in_another_task_ends_though_its_blocks_ignore_that():
    command = [sys.executable, "-c", EXITING]
    ended = subprocess.run(command, timeout=PATIENCE_S, capture_output=True, text=True, check=False)
    assert ended.returncode == 3, ended.stderr


def test_functions_and_objects_work_under_trio_as_under_asyncio():
    async def sleep() -> None:
        await anyio.sleep_forever()

    async def main() -> None:
        brief = {"toolcrib": {"servers": {"local": {"call_timeout_s": 0.05}}}}
        with anyio.fail_after(PATIENCE_S):
            async with toolcrib.open(servers={"files": files(), "sums": [add]}) as crib:
                assert (await crib.search("add numbers"))[0].name == "sums__add"
                assert (await crib.call("sums__add", {"a": 1})).text == "2"
                assert (await crib.call("files__read_file", {"path": "x"})).text == "content of x"
                async with crib.client(mode="legacy") as client:
                    assert (await client.list_tools()).tools
            async with toolcrib.open(brief, tools=[sleep]) as crib:
                with pytest.raises(toolcrib.CallTimeout):
                    await crib.call("sleep")

    anyio.run(main, backend="trio")


def test_a_server_that_is_a_process_says_under_trio_what_it_needs():
    async def main() -> None:
        async with toolcrib.open(servers={"clock": {"command": sys.executable, "args": ["-c", ""]}}) as crib:
            with anyio.fail_after(PATIENCE_S), pytest.raises(toolcrib.Unavailable, match="asyncio"):
                await crib.call("clock__now")

    anyio.run(main, backend="trio")
