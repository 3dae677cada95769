"""Starts take turns: so many at a time, in order, the wanted ones first, and whoever gives up loses no slot."""

import anyio
import pytest

from toolcrib.downstream.fleet import StartQueue
from waiting import settled

pytestmark = pytest.mark.anyio


class Starts:
    """Tasks at a queue; ``begun`` are the keys in the order in which they got their turn."""

    def __init__(self, slots: int) -> None:
        self.queue = StartQueue(slots)
        self.begun: list[str] = []
        self._ends: dict[str, anyio.Event] = {}

    async def start(self, key: str) -> None:
        self._ends[key] = anyio.Event()
        async with self.queue.turn(key):
            self.begun.append(key)
            await self._ends[key].wait()

    def end(self, key: str) -> None:
        self._ends[key].set()


async def test_only_so_many_have_a_turn_and_the_next_one_gets_it(anyio_backend: str):
    starts = Starts(2)
    async with anyio.create_task_group() as tasks:
        for key in "abcd":
            tasks.start_soon(starts.start, key)
        await settled()
        assert starts.begun == ["a", "b"]
        starts.end("b")
        await settled()
        assert starts.begun == ["a", "b", "c"]
        tasks.cancel_scope.cancel()


async def test_the_preferred_go_before_the_others_and_the_rest_keeps_its_order():
    starts = Starts(1)
    async with anyio.create_task_group() as tasks:
        for key in "abcdef":
            tasks.start_soon(starts.start, key)
        await settled()
        starts.queue.prefer({"e", "d"})
        for key in "adebcf":
            starts.end(key)
            await settled()
        assert "".join(starts.begun) == "adebcf"


async def test_whoever_is_cancelled_while_waiting_or_at_work_loses_no_slot():
    starts = Starts(1)
    async with anyio.create_task_group() as tasks:
        at_work, waiting = anyio.CancelScope(), anyio.CancelScope()

        async def within(scope: anyio.CancelScope, key: str) -> None:
            with scope:
                await starts.start(key)

        tasks.start_soon(within, at_work, "a")
        tasks.start_soon(within, waiting, "b")
        tasks.start_soon(starts.start, "c")
        await settled()
        waiting.cancel()
        await settled()
        at_work.cancel()
        await settled()
        assert starts.begun == ["a", "c"]
        tasks.cancel_scope.cancel()
