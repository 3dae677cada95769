"""Clients that send rubbish, and ends of every kind, many times over."""

import json
import random
from pathlib import Path
from typing import Any

import anyio
import pytest
from counts import count

from fakes.menu import FakeServer
from serve.served import ENDINGS, ENVELOPE, served

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

REQUESTS: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": "f1", "method": "tools/list", "params": {}},
    {
        "jsonrpc": "2.0",
        "id": "f2",
        "method": "tools/call",
        "params": {"name": "tool_search", "arguments": {"query": "x"}},
    },
    {
        "jsonrpc": "2.0",
        "id": "f3",
        "method": "tools/call",
        "params": {"name": "fake__echo", "arguments": {"a": [1]}},
    },
    {"jsonrpc": "2.0", "id": -7, "method": "ping"},
    {"jsonrpc": "2.0", "id": "f4", "method": "server/discover", "params": {"_meta": ENVELOPE}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "f3"}},
    {"jsonrpc": "2.0", "id": "f5", "result": {}},
    {"jsonrpc": "2.0", "id": "f6", "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
]
ODD: list[Any] = [
    None,
    True,
    -1,
    0.5,
    2**70,
    1e308,
    "",
    "\ud800",
    "\x00",
    [],
    {},
    [[[[]]]],
    {"a": {"b": {}}},
    "x" * 5000,
]
PIECES = [b"", b"{", b"}", b"[", b'"', b"\\", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b",", b"null", b"1e9999"]


def damaged(chance: random.Random) -> bytes:
    """Return a request with something wrong in its structure or in its bytes."""
    request = json.loads(json.dumps(chance.choice(REQUESTS)))
    if chance.random() < 0.6:
        holder: Any = request
        while isinstance(holder, dict) and holder and chance.random() < 0.5:
            inner = chance.choice(list(holder.values()))
            holder = inner if isinstance(inner, dict) and inner else holder
            if holder is not inner:
                break
        key = chance.choice([*holder, "extra"])
        if chance.random() < 0.3:
            holder.pop(key, None)
        else:
            holder[key] = chance.choice(ODD)
    line = bytearray(json.dumps(request).encode())
    for _ in range(chance.choice([0, 0, 1, 3])):
        start = chance.randrange(len(line) + 1)
        line[start : start + chance.randrange(4)] = chance.choice(PIECES)
    return bytes(line).replace(b"\n", b" ") + b"\n"


@pytest.mark.parametrize("listing", ["dynamic", "stable"])
async def test_three_hundred_damaged_requests_do_not_bring_it_down(tmp_path: Path, listing: str):
    chance = random.Random(listing)
    async with served(tmp_path, FakeServer(tmp_path), options=["--listing", listing]) as crib:
        await crib.initialize()
        for number in range(300):
            await crib.write(damaged(chance))
            if number % 10 == 9:
                assert await crib.request("ping") == {}
        assert (await crib.tool("tool_call", name="fake__echo", arguments={"a": 1}))["structuredContent"] == {"a": 1}
        assert b"Traceback" not in b"".join(crib.lines)
        crib.close_stdin()
        assert await crib.ended() == 0


async def test_damaged_requests_before_anything_else_do_not_bring_it_down(tmp_path: Path):
    chance = random.Random(7)
    async with served(tmp_path, FakeServer(tmp_path), options=["--listing", "dynamic"]) as crib:
        for _ in range(100):
            line = damaged(chance)
            if b"initialize" not in line:
                await crib.write(line)
        await crib.initialize()
        assert await crib.request("ping") == {}


def stubborn_servers(folder: Path) -> list[FakeServer]:
    folder.mkdir()
    return [
        FakeServer(folder, "forking", fork_child=True, ignore_sigterm=True),
        FakeServer(folder, "stuck", fork_child=True, ignore_sigterm=True, hang_at="list"),
        FakeServer(folder, "plain"),
    ]


async def test_no_process_survives_any_way_to_end_it(tmp_path, record_property):
    chance = random.Random(1)

    async def cycle(folder: Path, end: Any, delay_s: float) -> None:
        fakes = stubborn_servers(folder)
        options: dict[str, Any] = {fake.name: {"start": "eager"} for fake in fakes}
        async with served(folder, *fakes, servers=options) as crib:
            await crib.initialize()
            await fakes[1].reached("tools/list")
            await anyio.sleep(delay_s)
            await end(crib)
            assert await crib.ended() == 0
        survivors = [fake.survivors() for fake in fakes]
        assert survivors == [[], [], []], f"{end.__name__} after {delay_s:.2f} s left {survivors}"

    times = count("pipes")
    record_property("count", times)
    for number in range(times):
        async with anyio.create_task_group() as tasks:
            for end in ENDINGS:
                tasks.start_soon(cycle, tmp_path / f"{number}-{end.__name__}", end, chance.random() / 4)
