"""Tests wait for what is under way, and time passes when they say so."""

import re
import time
from functools import partial

import anyio
import anyio.to_thread
import pytest

from waiting import DEADLINE_S, passing, settled, time_passes

pytestmark = pytest.mark.anyio


async def test_settled_waits_for_worker_threads_and_for_what_follows_from_them():
    steps: list[str] = []

    async def work() -> None:
        for step in "abc":
            await anyio.to_thread.run_sync(time.sleep, 0.05)
            steps.append(step)
            await anyio.lowlevel.checkpoint()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await settled()
        assert steps == ["a", "b", "c"]
        tasks.cancel_scope.cancel()


async def test_settled_waits_for_what_is_sent_to_a_socket_of_this_process():
    got = bytearray()

    async def echo(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            async for chunk in stream:
                await stream.send(chunk)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(listener.serve, echo))
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:

            async def read() -> None:
                async for chunk in stream:
                    got.extend(chunk)
                    if len(got) < 5:
                        await stream.send(chunk)

            tasks.start_soon(read)
            await stream.send(b"x")
            await settled()
            assert got == b"xxxxx"
            tasks.cancel_scope.cancel()


async def test_several_may_wait_for_each_other_to_settle():
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(settled)


async def test_time_that_passes_ends_what_is_due_and_nothing_else():
    ended: list[str] = []

    async def wait(name: str, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await anyio.sleep_forever()
        ended.append(name)

    began = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, "long", 3 * DEADLINE_S)
        tasks.start_soon(wait, "short", DEADLINE_S)
        await time_passes(DEADLINE_S)
        assert ended == ["short"]
        await time_passes(DEADLINE_S)
        assert ended == ["short"]
        await time_passes(DEADLINE_S)
        assert ended == ["short", "long"]
    assert time.monotonic() - began < DEADLINE_S


async def test_what_is_due_several_times_happens_as_often():
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await anyio.sleep(1)
            ticks.append(anyio.current_time())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await time_passes(DEADLINE_S + 0.5)
        assert len(ticks) == DEADLINE_S
        tasks.cancel_scope.cancel()


async def test_what_never_settles_is_named(monkeypatch):
    monkeypatch.setattr("waiting.PATIENCE_S", 0.05)

    async def go_on() -> None:
        while True:
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go_on)
        with pytest.raises(TimeoutError, match=r"0 worker threads have work, and these tasks go on: .*go_on"):
            await settled()
        tasks.cancel_scope.cancel()


async def test_time_passes_while_a_block_waits_once_a_condition_holds():
    has_begun = anyio.Event()
    async with passing(DEADLINE_S, has_begun.wait):
        with anyio.move_on_after(DEADLINE_S) as bound:
            await anyio.to_thread.run_sync(time.sleep, 0.05)
            has_begun.set()
            await anyio.sleep_forever()
    assert bound.cancelled_caught


@pytest.mark.parametrize("seconds", [0, 3 * DEADLINE_S], ids=["too early", "too late"])
async def test_a_block_has_to_end_when_its_time_has_passed(seconds, monkeypatch):
    monkeypatch.setattr("waiting._LATE_S", 0.01)

    async def block() -> None:
        async with passing(DEADLINE_S):
            with anyio.move_on_after(seconds):
                await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as failures:
        await block()
    assert re.match("it (ended long before|did not end when) 6 s had passed", str(failures.value.exceptions[0]))
