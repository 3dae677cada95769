"""The detector of calls that block the event loop: what it notices, what it lets pass, and that it is always on."""

import inspect
import os
import sqlite3
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.to_thread
import pytest

import blocking
from fakes.menu import tool
from worlds import ERAS, world

pytestmark = pytest.mark.anyio


IMPORTS = "import os, socket, sqlite3, subprocess, sys, time\n"


def product(body: str, head: str = "async def product(it)") -> Callable[..., Any]:
    """Return a function that stands where the product stands; ``body`` is an expression."""
    namespace: dict[str, Any] = {"__name__": "toolcrib.invented"}
    source = f"{IMPORTS}{head}:\n    return {body}\n"
    exec(compile(source, f"{blocking.OURS}invented.py", "exec"), namespace)
    return namespace["product"]


BLOCKING = {
    "a file is opened": "(it / 'file').read_bytes()",
    "a file is written": "(it / 'new').write_text('x')",
    "an open file is written": "os.write(os.open(it / 'file', os.O_WRONLY), b'x')",
    "a file is looked at": "(it / 'file').exists()",
    "a folder is listed": "list(it.iterdir())",
    "a file is renamed": "(it / 'file').rename(it / 'other')",
    "a folder is made": "(it / 'deeper').mkdir()",
    "a database is opened": "sqlite3.connect(it / 'x.db').close()",
    "somebody sleeps": "time.sleep(0)",
    "a process is started": "subprocess.run([sys.executable, '-V'], capture_output=True)",
    "a name is looked up": "socket.getaddrinfo('127.0.0.1', 80)",
    "a module is imported that is loaded already": "__import__('json')",
}


@pytest.mark.parametrize("what", BLOCKING)
async def test_what_blocks_is_noticed_with_who_did_it(tmp_path: Path, what: str):
    (tmp_path / "file").write_text("x")
    with blocking.watched() as calls:
        await product(BLOCKING[what])(tmp_path)
    assert calls
    assert all(call.endswith(" in toolcrib.invented:product") for call in calls)


@pytest.mark.parametrize(
    "statement",
    ["execute('SELECT 1')", "executemany('INSERT INTO t VALUES (?)', [])", "executescript('SELECT 1;')", "close()"],
)
async def test_every_statement_is_noticed(tmp_path: Path, statement: str):
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("CREATE TABLE t (x)")
    with blocking.watched() as calls:
        await product(f"it.{statement}")(connection)
    connection.close()
    [call] = calls
    assert call.startswith("SQLite: ")


async def test_what_a_test_does_itself_is_its_own_affair(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with blocking.watched() as calls:
        (tmp_path / "file").read_text()
        product("it.read_text()", "def product(it)")(tmp_path / "file")
    assert calls == []


async def test_what_is_allowed_by_name_may_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(blocking.ALLOWED, "toolcrib.invented:product.<locals>.<lambda>", "for this test")
    with blocking.watched() as calls:
        await product("(lambda: time.sleep(0))()")(None)
    assert calls == []


async def test_a_worker_thread_may_block(tmp_path: Path):
    with blocking.watched() as calls:
        await anyio.to_thread.run_sync(product("time.sleep(0)", "def product(it)"), None)
    assert calls == []


async def test_what_is_loaded_in_whatever_serves_may_be_imported_in_a_function():
    with blocking.watched() as calls:
        await product("__import__('mcp')")(None)
    assert calls == []


async def test_a_pipe_is_no_file():
    read, write = os.pipe()
    with blocking.watched() as calls:
        await product("os.write(it[1], b'x'), os.read(it[0], 1)")((read, write))
    os.close(read)
    os.close(write)
    assert calls == []


def test_where_no_loop_runs_everything_may_block():
    with blocking.watched() as calls:
        product("time.sleep(0)", "def product(it)")(None)
    assert calls == []


async def test_the_whole_suite_is_watched(request: pytest.FixtureRequest):
    assert "_nothing_blocks_the_loop" in request.fixturenames
    outer = blocking._watching[-1]
    await product("time.sleep(0)")(None)
    assert len(outer) == 1
    outer.clear()  # or this test would fail


def test_whatever_is_allowed_is_there_and_has_a_reason():
    for name, reason in blocking.ALLOWED.items():
        module, _, qualified = name.partition(":")
        owner = import_module(module)
        assert reason
        assert qualified.partition(".<locals>")[0] in _functions(owner), name


def _functions(module: ModuleType) -> set[str]:
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    return {
        inspect.unwrap(each).__qualname__
        for owner in (module, *classes)
        for _, each in inspect.getmembers(owner, inspect.isfunction)
    }


# -- what is left of it --------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_one_request_reads_at_most_once_on_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str):
    servers = {"db": [tool("read"), tool("write", params={"at": "string"}, required=["at"])]}
    everything = {"tool_search": {"always_loaded_patterns": ["db.read"]}}
    async with world(tmp_path, servers, everything, listing="auto") as w, w.client(era) as client:
        await client.call("db__read")
        await client.search("read")  # nothing is found, and the ranking is made
        for request, reads in (
            (lambda: client.found("write it"), 1),
            (lambda: client.found("write it again"), 0),
            (lambda: client.search("write it", detail="schema"), 1),
            (lambda: client.search("nothing of the kind", search_type="exact"), 0),
            (lambda: client.search("w.*e", search_type="regex", detail="schema"), 0),
            (client.tools, 0),
            (lambda: client.tool_call("db__write", {"at": "x"}), 1),
            (lambda: client.tool_call("db__write", {"at": "y"}), 0),
            (lambda: client.call("db__write", {"at": "x"}), 0),
        ):
            with blocking.watched() as calls, monkeypatch.context() as patched:
                patched.setattr(blocking, "ALLOWED", {})
                await request()
            # While a thread reads too, there is no idle connection to lend, and another is opened.
            statements = [call.split()[1] for call in calls if "Store._borrow" not in call]
            assert statements == ["BEGIN", "SELECT", "ROLLBACK"] * reads


@pytest.mark.parametrize("era", ERAS)
async def test_one_request_writes_one_event(tmp_path: Path, era: str):
    async with world(tmp_path, {"db": [tool("read")]}, listing="stable") as w, w.client(era) as client:
        await client.call("db__read")
        for request in (lambda: client.found("read"), lambda: client.call("db__read")):
            before = len(w.events)
            await request()
            assert len(w.events) == before + 1
