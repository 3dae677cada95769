"""One principal has ten times as many calls under way as it may: it is refused, and another one notices nothing."""

import time
from collections import Counter
from typing import Any

import anyio
import httpx2
import pytest
from counts import count

from fakes.memory import Call
from fakes.menu import tool
from online import ACCEPT, ENVELOPE, Online, bearer, events, modern_headers, online, request
from worlds import MemoryServer, text, until

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

MAY, TIMES = 8, 10
"""How many calls a principal may have under way, and how many times as many one of them has."""
TOKENS = [{"token": f"token-{who}", "subject": who} for who in ("ann", "bob")]
LIMITS = {"pending_calls": MAY, "pending_calls_per_principal": MAY}


async def slow(_call: Call) -> dict[str, Any]:
    await anyio.sleep(0.2)
    return text("slept")


async def flood(it: Online, http: httpx2.AsyncClient, found: Counter[str]) -> None:
    """Call again and again, whatever the answer is."""
    params = {"_meta": ENVELOPE, "name": "zoo__sleep", "arguments": {}}
    head = {**ACCEPT, **bearer("token-ann"), **modern_headers("tools/call", "zoo__sleep")}
    while True:
        await anyio.sleep(0.5)
        answer = await http.post(it.url, json=request("tools/call", params), headers=head)
        said = events(answer)[-1] if answer.status_code == 200 else {}
        refused = said.get("result", {}).get("isError") or "error" in said or answer.status_code in (429, 503)
        found["refused" if refused else "answered"] += 1


@pytest.mark.timeout(1800)
async def test_another_principal_gets_every_answer(tmp_path, record_property):
    found, taken = Counter[str](), list[float]()
    zoo = MemoryServer([tool("sleep"), tool("feed")], answers={"sleep": slow})
    config = {"http": {"tokens": TOKENS}, "limits": LIMITS, "servers": {"zoo": {"isolation": "shared"}}}
    bounds = httpx2.Limits(max_connections=MAY * TIMES)
    async with (
        online(tmp_path, {"zoo": zoo}, config, listing="auto") as it,
        httpx2.AsyncClient(timeout=60, limits=bounds) as http,
        it.client("legacy", "token-bob") as session,
        it.client("auto", "token-bob") as client,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(MAY * TIMES):
            tasks.start_soon(flood, it, http, found)
        await until(lambda: found["refused"] > found["answered"] > 0)
        for number in range(count("overload")):
            began = time.perf_counter()
            result = await (session, client)[number % 2].tried("zoo__feed", {"number": number})
            taken.append(time.perf_counter() - began)
            found["errors of others"] += not isinstance(result, dict) or bool(result.get("isError"))
        tasks.cancel_scope.cancel()
    p99 = sorted(taken)[int(len(taken) * 0.99)] * 1000
    told = f"{found['errors of others']} of {len(taken)} calls of the other failed, p99 {p99:.0f} ms"
    record_property("count", len(taken))
    record_property("worst", f"{told}; of the one {found['answered']} were answered, {found['refused']} refused")
    assert found["errors of others"] == 0
    assert found["refused"] > found["answered"]
