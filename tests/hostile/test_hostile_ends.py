"""However toolcrib ends, nothing that it has started is left a few seconds later."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest

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
)


async def kill(crib: Served) -> None:
    crib.process.kill()


@pytest.mark.parametrize("end", [*ENDINGS, kill])
async def test_no_server_and_no_child_of_one_is_left(tmp_path: Path, end: Callable[[Served], Awaitable[None]]):
    fakes = [FakeServer(tmp_path, f"fake{number}", **kind) for number, kind in enumerate(KINDS)]
    async with served(tmp_path, *fakes) as crib:
        await crib.initialize()
        for fake in fakes:
            assert not (await crib.tool(f"{fake.name}__echo"))["isError"]
        assert all(fake.survivors() for fake in fakes)
        await end(crib)
        began = monotonic()
        while left := [pid for fake in fakes for pid in fake.survivors()]:
            assert monotonic() - began < GONE_WITHIN_S, f"{len(left)} processes are left"
            await anyio.sleep(0.05)
