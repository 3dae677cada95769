"""Every handle that a caller gets is made by one function, which the program around the gateway may replace."""

import re
from itertools import count
from pathlib import Path

import pytest

from fakes.menu import tool
from online import MODERN
from toolcrib.base.handles import new_handle
from worlds import MemoryServer, text, world

pytestmark = pytest.mark.anyio


def test_a_handle_is_new_each_time_and_fits_into_a_header_and_a_url():
    handles = {new_handle() for _ in range(1000)}

    assert len(handles) == 1000
    assert all(re.fullmatch(r"[\w-]{22}", handle) for handle in handles)


async def test_the_handles_of_pages_and_of_questions_are_those_that_the_program_makes(tmp_path: Path):
    numbers = count(1)
    zoo = MemoryServer([tool("read"), tool("feed")], answers={"read": text("word " * 2000)})
    config = {"limits": {"result_max_bytes": 1024}, "policy": {"confirm": {"tools": ["zoo__feed"]}}}

    async def answer(*_given: object) -> None:
        raise AssertionError

    async with (
        world(tmp_path, {"zoo": zoo}, config, listing="auto", new_handle=lambda: f"handle-{next(numbers)}") as w,
        w.client(MODERN, elicitation_callback=answer) as client,
    ):
        page = await client.call("zoo__read", {})
        question = await client.call("zoo__feed", {})

    assert '"handle":"handle-1"' in page["content"][-1]["text"]
    assert question["requestState"] == "handle-2"
