"""Two tenants use one server that counts for whoever talks to it: neither ever meets the other's values."""

import random
from collections import Counter
from typing import Any

import anyio
import pytest
from counts import count

from fakes.memory import Call
from fakes.menu import tool
from online import Online, online
from worlds import MemoryServer, text

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

TENANTS = ("ann", "bob")
TOKENS = [{"token": f"token-{who}", "subject": who, "tenant_id": who} for who in TENANTS]


class CountingServer(MemoryServer):
    """A server with a state of its own for each process: what was put into it, in order."""

    def __init__(self) -> None:
        super().__init__([tool("put", "Keep a value.", {"value": "string"})], answers={"put": self.put})
        self.seen: dict[Any, list[str]] = {}

    async def put(self, call: Call) -> dict[str, Any]:
        values = self.seen.setdefault(call.tell.__self__, [])  # type: ignore[attr-defined] - the connection
        values.append(call.arguments["value"])
        await anyio.lowlevel.checkpoint()
        return text(" ".join(values))


async def calls_of(it: Online, who: str, era: str, times: int, found: Counter[str]) -> None:
    mine: list[str] = []
    async with it.client(era, f"token-{who}") as client:
        for number in range(times):
            mine.append(f"{who}-{era}-{number}")
            answer = await client.call("bank__put", {"value": mine[-1]})
            values = answer["content"][0]["text"].split()
            found["answers"] += 1
            found["of others"] += sum(not value.startswith(f"{who}-") for value in values)
            found["lost"] += [value for value in values if value.startswith(f"{who}-{era}-")] != mine
            await anyio.sleep(random.random() / 1000)


@pytest.mark.timeout(600)
async def test_values_of_two_tenants_never_mix(tmp_path, record_property):
    times, found = count("tenants") // 4, Counter[str]()
    async with online(tmp_path, {"bank": CountingServer()}, {"http": {"tokens": TOKENS}}, listing="auto") as it:
        async with anyio.create_task_group() as tasks:
            for who in TENANTS:
                for era in ("legacy", "2026-07-28"):
                    tasks.start_soon(calls_of, it, who, era, times, found)
    record_property("count", found["answers"])
    record_property("worst", f"{found['of others']} values of another tenant in {found['answers']} answers")
    assert found == Counter({"answers": 4 * times, "of others": 0, "lost": 0})
