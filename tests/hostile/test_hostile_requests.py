"""HTTP requests for another host, from another page, without a token, of another type or size: none is answered."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from counts import count

from fakes.menu import tool
from online import ACCEPT, ENVELOPE, HttpSession, bearer, events, modern_headers, online, request
from toolcrib.base.model import JsonObject

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

TOKEN = "token-ann"
CONFIG = {"http": {"tokens": [{"token": TOKEN, "subject": "ann"}]}, "limits": {"request_max_bytes": 65_536}}
HOSTS = (
    *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "169.254.169.254", "a" * 300, "[::", "@"),
    *("localhost:1/mcp?", "127.0.0.1 evil", "xn--lcalhost-tza", "0.0.0.0.nip.io", "evil.example:80@localhost"),
    *("localhost:80@evil.example", "127.0.0.1:evil.example"),
)
ORIGINS = (
    *("null", "https://evil.example", "http://localhost.evil.example", "file://", "chrome-extension://x", "http://"),
    *("https://localhost@evil.example", "http://127.0.0.1.evil.example:80", "about:blank", "javascript:0", "a b"),
    *("http://localhost:80@evil.example", "http://127.0.0.1:x.evil.example"),
)
TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json", "json")
TOKENS = (
    *("", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer token-an", "Bearer null", f"Token {TOKEN}"),
    *(f"bearer {TOKEN.upper()}", f"Bearer {TOKEN},{TOKEN}", "Bearer " + "x" * 3000, TOKEN, f"Bearer: {TOKEN}"),
)


REFUSED_AS = {
    "host": (400, 421),  # 400: what HTTP's own grammar does not allow
    "origin": (403,),
    "content-type": (400, 415),
    "authorization": (401,),
    "size": (413,),
}


def spoiled(head: Mapping[str, str], body: bytes, chance: random.Random) -> tuple[str, dict[str, str], bytes]:
    """Return what is wrong with a request, and a good one with that."""
    kind = chance.choice(("host", "origin", "content-type", "authorization", "size"))
    if kind == "size":
        return kind, {**head}, body[:-1] + b" " * chance.choice((70_000, 2_000_000)) + body[-1:]
    values = {"host": HOSTS, "origin": ORIGINS, "content-type": TYPES, "authorization": TOKENS}
    return kind, {**head, kind: chance.choice(values[kind])}, body


@pytest.mark.timeout(1800)
async def test_no_spoiled_request_reaches_anybody(tmp_path, record_property):
    chance, wrong = random.Random(7), list[Any]()
    async with online(tmp_path, {"zoo": [tool("feed")]}, CONFIG, listing="auto") as it:
        session = await it.session(TOKEN)
        good = [(head, json.dumps(asked).encode()) for head, asked in unspoiled(session)]
        for head, body in good:
            answer = await it.http.post(it.url, content=body, headers=head)
            assert (answer.status_code, "error" in events(answer)[-1]) == (200, False)
        assert len(it.world["zoo"].calls()) == len(good)
        for number in range(count("edge")):
            kind, head, body = spoiled(*good[number % 2], chance)
            answer = await it.http.post(it.url, content=body, headers=head)
            if answer.status_code not in REFUSED_AS[kind]:
                wrong.append((kind, answer.status_code, head, answer.text[:200]))
        assert wrong == []
        assert len(it.world["zoo"].calls()) == len(good)
    record_property("count", number + 1)
    record_property("worst", f"{len(wrong)} of {count('edge')} reached somebody")


def unspoiled(session: HttpSession) -> list[tuple[dict[str, str], JsonObject]]:
    """Return a call of each era that is answered: its head and its body."""
    params, head = {"name": "zoo__feed", "arguments": {}}, {**ACCEPT, **bearer(TOKEN)}
    return [
        ({**head, **session.headers}, request("tools/call", params)),
        ({**head, **modern_headers("tools/call", "zoo__feed")}, request("tools/call", {**params, "_meta": ENVELOPE})),
    ]
