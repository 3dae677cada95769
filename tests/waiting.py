"""How a test waits: for a condition, until nothing is under way, or for seconds that pass when it says so.

What a test says about time, such as a deadline or an idle server, holds on the loop's own clock, which
:func:`time_passes` sets forward: what is to end by itself then ends at once, and what is not to end is seen to stay.
Clocks that the product is given, or takes from :mod:`time`, stand still meanwhile. Every bound is far away, and only
ends a test that hangs.
"""

import asyncio  # noqa: TID251 - the clock and the queue of its loop are what a test has to know
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from anyio._backends._asyncio import WorkerThread

from patience import patience_s

PATIENCE_S = patience_s(30)
"""How long something that comes at once is waited for: longer than a busy machine takes, shorter than a test may."""

DEADLINE_S = 6
"""A deadline that a test lets pass: no busy machine misses it before. Several fit into ``PATIENCE_S``."""

_LATE_S = patience_s(5)
"""How much later than it should something may end on a busy machine."""

_LOOK_S = 0.001
_STEP_S = 0.1
_SPARE_S = DEADLINE_S - 1
"""How much of a deadline a busy machine may have spent before a test lets it pass."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, in small steps, not for long."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            await anyio.sleep(0.002)


async def settled() -> None:
    """Wait until nothing is under way: no task can go on, and no worker thread of anyio has work.

    Only what comes from elsewhere, such as another process, or what is due later, can change anything then.

    Raises:
        TimeoutError: something goes on and on.

    """
    loop: Any = asyncio.get_running_loop()
    quiet, given_up_at = 0, time.monotonic() + PATIENCE_S
    while quiet < 2:  # what is sent to a socket of this process between two looks is seen by the second
        if time.monotonic() > given_up_at:
            busy = [task.get_name() for task in asyncio.all_tasks() if getattr(task, "_fut_waiter", None) is None]
            raise TimeoutError(f"never settled: {_works(loop)} worker threads have work, and these tasks go on: {busy}")
        await anyio.sleep(_LOOK_S)
        quiet = 0 if _works(loop) or loop._ready else quiet + 1


def _works(loop: Any) -> int:
    """Return how many worker threads have something to do; what one is done with has been handed to the loop."""
    workers = [each for each in threading.enumerate() if isinstance(each, WorkerThread)]
    return sum(worker.loop is loop and worker.queue.unfinished_tasks > 0 for worker in workers)


async def time_passes(seconds: float) -> None:
    """Let time pass, once nothing is under way, and wait until all that is due by then has happened, in order.

    The clock goes from one time at which something is due to the next, in steps of at least a tenth of a second.
    """
    await settled()
    loop: Any = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (now := loop.time()) < end:
        due = min((timer._when for timer in loop._scheduled if not timer._cancelled), default=end)
        _set_forward(loop, min(end, max(due, now + _STEP_S)) - now)
        await settled()


def _set_forward(loop: Any, seconds: float) -> None:
    real_time = partial(type(loop).time, loop)
    ahead = loop.time() - real_time() + seconds
    loop.time = lambda: real_time() + ahead


@asynccontextmanager
async def passing(seconds: float, once: Callable[[], Awaitable[object]] = settled) -> AsyncGenerator[None]:
    """Let time pass ``once`` the block has come so far; it has to end by that, and not before."""
    is_near = False

    async def let_pass() -> None:
        nonlocal is_near
        await once()
        await settled()
        await time_passes(max(0.0, seconds - _SPARE_S))
        is_near = True
        await time_passes(min(seconds, _SPARE_S))
        await anyio.sleep(_LATE_S)
        raise AssertionError(f"it did not end when {seconds:g} s had passed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(let_pass)
        yield
        assert is_near, f"it ended long before {seconds:g} s had passed"
        tasks.cancel_scope.cancel()
