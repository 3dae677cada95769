"""However toolcrib ends, nothing that it has started is left a few seconds later."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest
from counts import count

from fakes.menu import FakeServer
from serve.served import ENDINGS, Served, served

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

GONE_WITHIN_S = 6
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"ignore_eof": True},
    {"ignore_sigterm": True},
    {"fork_child": True},
    {"ignore_sigterm": True, "fork_child": True},
    # What leaves its session is found on Linux alone.
    {"ignore_sigterm": True, "detach_child": sys.platform == "linux"},
)


async def kill(crib: Served) -> None:
    crib.process.kill()


@pytest.mark.parametrize("end", [*ENDINGS, kill])
async def test_no_server_and_no_child_of_one_is_left(
    tmp_path: Path, record_property, end: Callable[[Served], Awaitable[None]]
):
    slowest = 0.0
    for again in range(count("orphans")):
        folder = tmp_path / str(again)
        folder.mkdir()
        slowest = max(slowest, await _gone_after(folder, end))
    record_property("count", again + 1)
    record_property("worst", f"{end.__name__}: the last one was gone after {slowest:.1f} s")


async def _gone_after(folder: Path, end: Callable[[Served], Awaitable[None]]) -> float:
    """Serve, end, and return after how many seconds nothing was left."""
    fakes = [FakeServer(folder, f"fake{number}", **kind) for number, kind in enumerate(KINDS)]
    async with served(folder, *fakes) as crib:
        await crib.initialize()
        for fake in fakes:
            assert not (await crib.tool(f"{fake.name}__echo"))["isError"]
        assert all(fake.survivors() for fake in fakes)
        await end(crib)
        began = monotonic()
        while left := [pid for fake in fakes for pid in fake.survivors()]:
            assert monotonic() - began < GONE_WITHIN_S, f"{len(left)} processes are left"
            await anyio.sleep(0.05)
        return monotonic() - began
