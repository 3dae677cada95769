"""The token that a client shows to toolcrib goes no further: no server is sent it, in a head or in a message."""

import json
import random

import pytest
from counts import count

from fakes.http_server import http_server
from fakes.menu import tool
from online import ACCEPT, ENVELOPE, modern_headers, online, request
from worlds import MemoryServer

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

TOKEN = "canary-0f9d8c7b6a5948372615-token"
CONFIG = {"http": {"tokens": [{"token": TOKEN, "subject": "ann"}]}}
PLACES = ("cookie", "x-api-key", "x-forwarded-authorization", "proxy-authorization")


@pytest.mark.timeout(1800)
async def test_no_server_is_sent_the_token_of_a_client(tmp_path, record_property):
    """What a client writes into arguments or ``_meta`` is its own word to the server, and is no place of a token."""
    zoo, chance = MemoryServer([tool("feed")], offers={"resources": [{"uri": "a:b", "name": "b"}]}), random.Random(7)
    asked = [
        ("tools/call", {"name": "zoo__feed", "arguments": {"a": 1}}),
        ("tools/call", {"name": "tool_call", "arguments": {"name": "zoo__feed", "arguments": {}}}),
        ("resources/read", {"uri": "toolcrib://servers/zoo/a:b"}),
        ("tools/list", {}),
    ]
    async with online(tmp_path, {"zoo": zoo}, CONFIG, listing="auto") as it:
        session = await it.session(TOKEN)
        for number in range(count("passthrough")):
            method, params = chance.choice(asked)
            more = dict.fromkeys(chance.sample(PLACES, chance.randrange(4)), TOKEN)
            head = {"authorization": f"Bearer {TOKEN}", **more, **ACCEPT}
            if number % 2:
                body = request(method, {"_meta": ENVELOPE, **params}, number)
                head |= modern_headers(method, params.get("name") or params.get("uri"))
            else:
                body, head = request(method, params, number), head | session.headers
            answer = await it.http.post(f"{it.url}?access_token={TOKEN}", json=body, headers=head)
            assert answer.status_code == 200, answer.text
    sent = json.dumps(zoo.received)
    record_property("count", number + 1)
    record_property("worst", f"{sent.count(TOKEN)} of {count('passthrough')} were passed on")
    assert len(zoo.received) > count("passthrough") / 4
    assert TOKEN not in sent


async def test_nor_is_one_that_is_reached_over_http(tmp_path):
    with http_server() as server:
        entry = MemoryServer(entry={"url": server.url})
        async with online(tmp_path, {"web": entry}, CONFIG, listing="auto", connector=None, wait=False) as it:
            async with it.client("legacy", TOKEN) as client:
                await client.tool_call("web__echo", {"text": "a"})
        assert len(server.headers) > 1
        assert TOKEN not in json.dumps(server.headers)
