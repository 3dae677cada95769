"""What tests of servers that misbehave share: their deadlines, an index from when all was well, many calls at once."""

from pathlib import Path
from time import monotonic
from typing import Any

import anyio

from fakes.menu import FakeServer
from serve.served import Served, served

DEADLINE_S = 1.0
"""What every server has to start, and to answer a call."""
LATE_S = 20
"""By how much a busy machine may miss a deadline; what a deadline ends would take longer."""


async def indexed(tmp_path: Path, *fakes: FakeServer, **toolcrib: Any) -> None:
    """Serve the fakes once while all is well, so that their tools are known."""
    async with served(tmp_path, *fakes, **toolcrib) as crib:
        await crib.initialize()
        await crib.tool("tool_search", query="echo")
        with anyio.fail_after(60):
            while not all(fake.messages("tools/list") and not fake.survivors() for fake in fakes):
                await anyio.sleep(0.05)
        crib.close_stdin()
        assert await crib.ended() == 0


def options_for(*fakes: FakeServer) -> dict[str, Any]:
    return {fake.name: {"connect_timeout_s": DEADLINE_S, "call_timeout_s": DEADLINE_S} for fake in fakes}


async def calls(crib: Served, wanted: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, tuple[float, dict[str, Any]]]:
    """Send all these ``tools/call`` at once; return by key how long each took and its result."""
    began, answers = monotonic(), {}
    async with anyio.create_task_group() as tasks:

        async def send() -> None:
            for key, (name, arguments) in wanted.items():
                await crib.send({"id": key, "method": "tools/call", "params": {"name": name, "arguments": arguments}})

        tasks.start_soon(send)
        while len(answers) < len(wanted):
            message = await crib.receive()
            if message.get("id") in wanted:
                answers[message["id"]] = (monotonic() - began, message.get("result") or message["error"])
    return answers
