"""Schemas made to be slow or large: neither taking one in nor checking arguments by it keeps anything else waiting."""

import gc
import json
import random
import resource
import socket
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from counts import count
from test_hostile_definitions import SERVER, SHAPING

from fakes.menu import FakeServer
from toolcrib.catalog.arguments import SchemaChecker
from toolcrib.catalog.ingest import ingest
from toolcrib.downstream.states import State
from worlds import MemoryServer, until, world

pytestmark = pytest.mark.hostile

MIB = 1024 * 1024
CHECK_MS = 50
"""``limits.schema_check_ms``, which a call waits at most; ten of it on a machine that does other things too."""
LAG_S, STEP_S = 0.05, 0.002
TOOLS_A_LIST = 25
SLOW = "^(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){12}x", "(?:a?){30}a{30}"
Schema = dict[str, Any]


def pattern(chance: random.Random) -> Schema:
    return {"type": "string", "pattern": chance.choice(SLOW) * chance.choice((1, 5))}


def doubling(chance: random.Random) -> Schema:
    schema: Schema = {"type": "string", "minLength": 5}
    for _ in range(chance.randrange(5, 14)):
        schema = {chance.choice(("anyOf", "oneOf", "allOf")): [schema, schema]}
    return schema


def deep(chance: random.Random) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(chance.randrange(50, 400)):
        schema = {"type": "array", "items": schema} if chance.random() < 0.5 else {"properties": {"a": schema}}
    return schema


def wide(chance: random.Random) -> Schema:
    return {"properties": {f"p{number}": {"type": "string"} for number in range(chance.randrange(100, 8000))}}


def circular(chance: random.Random) -> Schema:
    inner = {"anyOf": [{"$ref": "#/properties/a"}] * chance.randrange(1, 6)}
    return {"$ref": "#/properties/a", **inner}


def remote(chance: random.Random) -> Schema:
    return {"$ref": chance.choice(("https://evil.example/s.json", "file:///etc/passwd", "http://169.254.169.254/x#/y"))}


def many(chance: random.Random) -> Schema:
    return {"enum": [f"value {number}" for number in range(chance.randrange(100, 9000))]}


def unique(chance: random.Random) -> Schema:
    return {"type": "array", "uniqueItems": True, "contains": doubling(chance)}


KINDS: tuple[Callable[[random.Random], Schema], ...] = (
    *(pattern, doubling, deep, wide, circular, remote, many, unique),
)
VALUES: tuple[Any, ...] = ("a" * 40 + "!", [{"n": number} for number in range(900)], {"a": {"a": {}}}, 5, None)


def test_no_schema_takes_long_to_take_in_or_to_check(record_property, monkeypatch):
    asked = list[object]()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **_options: asked.append(given) or [])
    chance, worst = random.Random(7), {"taken in": 0.0, "checked": 0.0}
    checker = SchemaChecker(CHECK_MS, time.monotonic)
    checker.check("warm", {"type": "object"}, {})  # the library is loaded, in a thread, at the first check
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count("schemas")):
        schema = {"type": "object", "properties": {"a": KINDS[number % len(KINDS)](chance)}}
        schema = json.loads(json.dumps(schema))  # as it comes: nothing of it is the same object twice
        tool = {"name": f"t{number}", "description": "Does it.", "inputSchema": schema}
        began = time.thread_time()
        taken = ingest(SERVER, [tool], SHAPING)
        worst["taken in"] = max(worst["taken in"], time.thread_time() - began)
        for record in taken.records:
            began = time.thread_time()
            checker.check(record.fingerprint, record.definition["inputSchema"], {"a": chance.choice(VALUES)})
            worst["checked"] = max(worst["checked"], time.thread_time() - began)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    told = ", ".join(f"{what} in {seconds * 1000:.0f} ms" for what, seconds in worst.items())
    record_property("count", number + 1)
    record_property("worst", f"{told} of CPU, in worker threads; {grown} MiB more; {len(asked)} look-ups")
    assert asked == []
    assert grown < 64
    assert worst["checked"] < CHECK_MS / 1000 * 5
    assert worst["taken in"] < 0.5


@pytest.mark.anyio
async def test_the_event_loop_goes_on_while_schemas_are_taken_in_and_checked(tmp_path: Path, record_property):
    lists, chance, lags = (
        list(written(tmp_path)),
        random.Random(7),
        {"a list is taken in": 0.0, "a tool is called": 0.0},
    )
    fake = FakeServer(tmp_path, "git")
    servers = {"git": MemoryServer(entry=fake.entry())}
    async with world(tmp_path, servers, connector=None, clock=time.monotonic) as w, w.client() as client:
        with frozen():
            downstream = w.gateway.fleet["git"]
            for file in lists:
                fake.change(tools=str(file))
                downstream.stop()
                await until(lambda: downstream.status.state is State.SLEEPING)
                lag = await loop_lag(downstream.connection())
                lags["a list is taken in"] = max(lags["a list is taken in"], lag)
                tools = w.gateway.tools.indexer.current().tools
                assert len(tools) > TOOLS_A_LIST / 2
                for tool in tools:
                    lag = await loop_lag(client.call(tool.public_name, {"a": chance.choice(VALUES)}))
                    lags["a tool is called"] = max(lags["a tool is called"], lag)
    told = ", ".join(f"{seconds * 1000:.0f} ms while {what}" for what, seconds in lags.items())
    record_property("worst", f"the event loop waited for at most {told}")
    record_property("goal met", max(lags.values()) < LAG_S)
    assert max(lags.values()) < 5 * LAG_S


def written(folder: Path) -> Generator[Path]:
    """Write lists of tools with hostile schemas, as a server has them."""
    chance = random.Random(7)
    for start in range(0, count("schemas"), TOOLS_A_LIST):
        schemas = {f"t{number}": KINDS[number % len(KINDS)](chance) for number in range(start, start + TOOLS_A_LIST)}
        tools = [
            {"name": name, "inputSchema": {"type": "object", "properties": {"a": schema}}}
            for name, schema in schemas.items()
        ]
        file = folder / f"{start}.tools.json"
        file.write_text(json.dumps({"tools": tools}))
        yield file


@contextmanager
def frozen() -> Generator[None]:
    """Keep the garbage collector away from what the tests have loaded, as ``serve`` does with what it has."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def loop_lag(work: Awaitable[Any]) -> float:
    """Wait for ``work``; return for how long at most the event loop could do nothing else.

    By the CPU of all threads of this process: what other programs take is no lag of ours.
    """
    lags = list[float]()

    async def watch() -> None:
        began = time.process_time()
        try:
            while True:
                began = time.process_time()
                await anyio.sleep(STEP_S)
                lags.append(time.process_time() - began - STEP_S)
        finally:
            lags.append(time.process_time() - began)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.lowlevel.checkpoint()
        await work
        tasks.cancel_scope.cancel()
    return max(lags)
