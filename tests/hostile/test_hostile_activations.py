"""Many clients at once, whose requests have the same ids: each lists what it has used, and gets its own answers."""

import random
from collections import Counter
from typing import Any

import anyio
import pytest
from counts import count

from fakes.memory import Call
from fakes.menu import tool
from worlds import BUILTINS, MemoryServer, World, text, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

TOOLS = [f"tool_{number}" for number in range(50)]
CALLS = 50
"""What each client calls."""


async def echo(call: Call) -> dict[str, Any]:
    await anyio.sleep(random.random() / 500)  # answers come in another order than calls
    return text(call.arguments["nonce"])


async def use(w: World, number: int, found: Counter[str]) -> None:
    """Call tools of its own choice, and look after each who has got what."""
    chance, used = random.Random(number), set[str]()
    async with w.client() as client:
        for turn in range(CALLS):
            name, nonce = f"zoo__{chance.choice(TOOLS[: 1 + number % 50])}", f"{number}-{turn}"
            call = client.tool_call if chance.random() < 0.5 else client.call
            answer = await call(name, {"nonce": nonce})
            used.add(name)
            found["calls"] += 1
            found["answers of others"] += answer["content"][0]["text"] != nonce
            if turn % 10 == 9:
                found["wrong lists"] += set(await client.names()) != {*BUILTINS, *used}
                found["lists"] += 1


@pytest.mark.timeout(1800)
async def test_nobody_lists_what_another_has_used_or_gets_its_answers(tmp_path, record_property):
    clients, found = count("activations") // CALLS, Counter[str]()
    zoo = MemoryServer([tool(name, "", {"nonce": "string"}) for name in TOOLS], answers=dict.fromkeys(TOOLS, echo))
    async with world(tmp_path, {"zoo": zoo}, {"gate": {"listing": "dynamic"}}) as w:
        async with anyio.create_task_group() as tasks:
            for number in range(clients):
                tasks.start_soon(use, w, number, found)
    wrong = found["answers of others"] + found["wrong lists"]
    record_property("count", found["calls"])
    record_property("worst", f"{wrong} leaks in {found['calls']} calls and {found['lists']} lists of {clients} clients")
    assert wrong == 0
    assert found["calls"] == count("activations")
