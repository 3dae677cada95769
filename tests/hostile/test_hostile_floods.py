"""Servers that send without end: what toolcrib holds stays bounded, and the others are answered."""

from pathlib import Path

import anyio
import pytest
from misbehaving import DEADLINE_S, LATE_S, calls, indexed, options_for

from fakes.menu import FakeServer
from serve.served import served

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]
MIB = 1024 * 1024


async def test_a_flood_without_a_newline_is_bounded_in_memory(tmp_path: Path, record_property):
    flooder, fine = FakeServer(tmp_path, "flooder"), FakeServer(tmp_path, "fine")
    config = {"limits": {"message_max_bytes": 8 * MIB}, "servers": options_for(flooder)}
    await indexed(tmp_path, flooder, fine, **config)
    flooder.change(flood=1024 * MIB)
    async with served(tmp_path, flooder, fine, **config) as crib:
        await crib.initialize()
        await calls(crib, {"before": ("fine__echo", {})})
        before = crib.peak_bytes
        answers = await calls(
            crib, {"flood": ("flooder__echo", {}), **{f"n{n}": ("fine__echo", {}) for n in range(50)}}
        )
        assert "sent a line of more than 8388608 bytes" in answers["flood"][1]["content"][0]["text"]
        assert answers["flood"][0] < DEADLINE_S + LATE_S
        assert all(result["structuredContent"] == {} for key, (_, result) in answers.items() if key != "flood")
        grown = crib.peak_bytes - before
        record_property("worst", f"{grown // MIB} MiB more")
        assert grown < 64 * MIB


@pytest.mark.parametrize("reads", [True, False])
async def test_a_flood_of_notifications_is_bounded_in_memory(tmp_path: Path, record_property, reads: bool):
    flooder, fine = FakeServer(tmp_path, "flooder", tools=["progress"]), FakeServer(tmp_path, "fine")
    async with served(tmp_path, flooder, fine) as crib:
        await crib.initialize()
        await calls(crib, {"before": ("fine__echo", {}), "also": ("flooder__progress", {"steps": 1})})
        before = crib.peak_bytes
        params = {"name": "flooder__progress", "arguments": {"steps": 100_000}, "_meta": {"progressToken": "p"}}
        await crib.send({"id": "flood", "method": "tools/call", "params": params})
        if reads:
            with anyio.fail_after(120):
                assert (await crib.answer("flood"))["result"]["content"][0]["text"] == "100000 steps"
        else:
            await anyio.sleep(5)
        grown = crib.peak_bytes - before
        record_property("worst", f"{grown // MIB} MiB more")
        assert grown < 64 * MIB
        assert (await calls(crib, {"after": ("fine__echo", {"n": 1})}))["after"][1]["structuredContent"] == {"n": 1}
