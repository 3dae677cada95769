"""A server that prints between, before and after its messages, and answers in any order: each answer arrives."""

import sys
from pathlib import Path
from typing import Any

import pytest
from counts import count
from misbehaving import calls

from serve.served import served

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

AT_ONCE = 20
NOISY = r"""
import json, random, sys
chance = random.Random(7)
NOISE = (b"Listening ...", b"", b"{", b"[1, 2", b'"text"', b"null", b"{}", b"\xff\xfe\x00", b"\x1b[31mWARN\x1b[0m",
         b'{"jsonrpc": "2.0", "id": 987654, "result": {}}', b'{"jsonrpc": "2.0", "method": "notifications/odd"}',
         b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}', b"[" * 3000, b"x" * 20000,
         b'{"jsonrpc": "1.0", "id": 1, "result": {}}', b'{"jsonrpc": "2.0", "id": true, "result": {}}')
def noise():
    for _ in range(chance.randrange(4)):
        sys.stdout.buffer.write(chance.choice(NOISE) + b"\n")
def say(message):
    noise()
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    noise()
    sys.stdout.buffer.flush()
waiting = []
for line in sys.stdin:
    asked = json.loads(line)
    key, method = asked.get("id"), asked.get("method")
    if key is None or method is None:
        continue
    if method == "initialize":
        about = {"serverInfo": {"name": "noisy", "version": "1"}, "capabilities": {"tools": {}}}
        say({"id": key, "result": {"protocolVersion": "2025-11-25", **about}})
    elif method == "tools/list":
        say({"id": key, "result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        waiting.append((key, asked["params"]["arguments"]))
        if chance.random() < 0.3 or asked["params"]["arguments"].get("last"):
            chance.shuffle(waiting)
            for each, arguments in waiting:
                say({"id": each, "result": {"content": [], "structuredContent": arguments}})
            waiting = []
    else:
        say({"id": key, "error": {"code": -32601, "message": "Method not found"}})
"""


class Noisy:
    """A server that is a script of its own."""

    name = "noisy"

    def entry(self) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["-S", "-c", NOISY]}


async def test_every_answer_arrives_whatever_is_printed_around_it(tmp_path: Path, record_property):
    lost = heard = 0
    async with served(tmp_path, Noisy()) as crib:  # type: ignore[arg-type] - it has what is asked of a fake here
        await crib.initialize()
        for batch in range(count("interleavings") // AT_ONCE):
            wanted = {
                f"{batch}-{number}": ("noisy__echo", {"n": number, "last": number == AT_ONCE - 1})
                for number in range(AT_ONCE)
            }
            for key, (_, result) in (await calls(crib, wanted)).items():
                heard += 1
                lost += result.get("structuredContent") != wanted[key][1]
        assert "Traceback" not in crib.said
        assert len(crib.said) < 200_000
        crib.close_stdin()
        assert await crib.ended() == 0
    record_property("count", heard)
    record_property("worst", f"{lost} of {heard} answers lost")
    assert lost == 0
