"""Names in odd keys, twice, or in other letters: what runs is what was allowed, or nothing runs."""

import json
import random

import pytest
from counts import count

from fakes.menu import tool
from online import ACCEPT, ENVELOPE, modern_headers, online
from worlds import MemoryServer

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

ALLOWED, DENIED = "zoo__feed", "zoo__kill"
SPELLINGS = (
    "name",
    "Name",
    "NAME",
    "nAme",
    "name ",
    " name",
    "n\\u0061me",
    "na\\u200bme",
    "n\u0430me",
    "tool",
    "toolName",
)
VALUES = (ALLOWED, DENIED, "zoo.kill", "ZOO__KILL", "zoo__kill\\u0000", "zoo__feed\\u0000kill", "zoo__k\\u0069ll")


def varied(chance: random.Random) -> str:
    """Return the JSON of params with several names: keys twice, in other letters, in escapes, at other places."""
    members = [f'"{chance.choice(SPELLINGS)}": "{chance.choice(VALUES)}"' for _ in range(chance.randrange(1, 4))]
    members.insert(chance.randrange(len(members) + 1), f'"name": "{chance.choice(VALUES)}"')
    if chance.random() < 0.3:
        nested = f'"{chance.choice(SPELLINGS)}": "{chance.choice(VALUES)}"'
        members.append(f'"params": {{{nested}}}, "{chance.choice(("Arguments", "ARGUMENTS"))}": {{{nested}}}')
    members.append('"arguments": {}')
    return ", ".join(members)


@pytest.mark.timeout(1800)
async def test_what_is_forwarded_is_what_was_allowed_and_what_the_head_says(tmp_path, record_property):
    """The head of a request of the newer era names the tool too: whoever decides by it must not be deceived."""
    config = {"policy": {"deny": [DENIED]}}
    zoo = MemoryServer([tool("feed"), tool("kill")])
    chance, ran, refused, wrong = random.Random(7), 0, 0, list[str]()
    async with online(tmp_path, {"zoo": zoo}, config, listing="auto") as it:
        session = await it.session()
        for number in range(count("keys")):
            params, named = varied(chance), chance.choice((ALLOWED, DENIED))
            is_modern = bool(number % 2)
            meta = f'"_meta": {json.dumps(ENVELOPE)}, ' if is_modern else ""
            body = f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {{{meta}{params}}}}}'
            headers = modern_headers("tools/call", named) if is_modern else session.headers
            before = len(zoo.calls())
            answer = await it.http.post(it.url, content=body.encode(), headers={**ACCEPT, **headers})
            new = zoo.calls()[before:]
            is_allowed = [call["name"] for call in new] == ["feed"] and (named == ALLOWED or not is_modern)
            if new and not is_allowed:
                wrong.append(body)
            assert answer.status_code < 500, body
            ran, refused = ran + len(new), refused + (not new)
    record_property("count", number + 1)
    record_property("worst", f"{len(wrong)} of {count('keys')} ran anything else; {ran} ran, {refused} were refused")
    assert wrong == []
    assert ran
    assert refused
