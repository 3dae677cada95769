"""Damaged JSON-RPC over HTTP: toolcrib goes on, answers the next request at once, and tells nothing of its inside."""

import json
import random
import time

import httpx2
import pytest
from counts import count

from fakes.menu import tool
from online import ACCEPT, ENVELOPE, modern_headers, online, request

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

VALID = [
    request("tools/list"),
    request("tools/call", {"name": "tool_search", "arguments": {"query": "feed"}}),
    request("tools/call", {"name": "zoo__feed", "arguments": {"a": [1, {"b": None}]}}),
    request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}),
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    request("resources/read", {"uri": "toolcrib://status"}),
]
PIECES = (b"[", b"]", b"{", b"}", b'"', b",", b":", b"null", b"\x00", b"\xff\xfe", b"\\ud800", b"1e999", b"-", b"/*")
WHOLE = (
    b"",
    b"[]",
    b"{}",
    b"null",
    b"1e999",
    b"NaN",
    b"[" * 5000,
    b'{"a":' * 3000,
    b'"' + b"x" * 70_000,
    b'[{"jsonrpc":"2.0"}]' * 3,
    b"\xef\xbb\xbf{}",
    b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
)
LONGEST = 8192
"""Characters of a refusal, which may quote the beginning of what was sent, to who sent it."""

INSIDE = ("Traceback", 'File "', "site-packages", "/toolcrib/")


def damaged(chance: random.Random) -> bytes:
    """Return a body that was one of ours once."""
    if chance.random() < 0.1:
        return chance.choice(WHOLE)
    body = bytearray(json.dumps(chance.choice(VALID)).encode())
    for _ in range(chance.randrange(1, 6)):
        start = chance.randrange(len(body) + 1)
        match chance.randrange(4):
            case 0:
                body[start:start] = chance.choice(PIECES) * chance.choice((1, 1, 1, 50))
            case 1:
                del body[start : start + chance.randrange(1, 20)]
            case 2:
                body[start : start + 1] = bytes([chance.randrange(256)])
            case _:
                body[start:start] = body[: chance.randrange(len(body) + 1)]
    return bytes(body)


@pytest.mark.timeout(3000)
async def test_no_body_brings_it_down_or_makes_the_next_one_wait(tmp_path, record_property):
    chance, slowest = random.Random(7), 0.0
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="auto") as it:
        session = await it.session()
        for number in range(count("bodies")):
            headers = session.headers if number % 2 else modern_headers(chance.choice(("tools/list", "tools/call")))
            body = damaged(chance)
            answer = await it.http.post(it.url, content=body, headers={**ACCEPT, **headers})
            assert answer.status_code < 500, body
            assert answer.status_code != 400 or len(answer.text) < LONGEST, body[:200]
            assert not [told for told in INSIDE if told in answer.text], (body, answer.text)
            if number % 10 == 0:
                began = time.perf_counter()
                asked = await it.modern("tools/list")
                slowest = max(slowest, time.perf_counter() - began)
                assert asked.status_code == 200, body
        assert await session.names()
    record_property("count", number + 1)
    record_property("worst", f"the next answer after {slowest * 1000:.0f} ms")
    record_property("goal met", slowest < 0.1)
    assert slowest < 5  # a bound against hanging, on a busy machine; the figure is in the report


async def test_a_body_that_is_cut_off_is_answered_as_one_that_is_damaged(tmp_path):
    whole = json.dumps(request("tools/list", {"_meta": ENVELOPE})).encode()
    async with online(tmp_path, {"zoo": [tool("feed")]}, listing="auto") as it:
        for cut in range(len(whole)):
            headers = {**ACCEPT, **modern_headers("tools/list")}
            answer: httpx2.Response = await it.http.post(it.url, content=whole[:cut], headers=headers)
            assert answer.status_code == 400, cut
