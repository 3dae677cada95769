"""Delays what a busy machine delays, so that a race shows here and not one day somewhere else.

    pytest -n auto --delays=SEED

Every call in a worker thread begins up to 120 ms late, and its result comes up to 120 ms late; now and then the event
loop stands still for up to 300 ms. Only the tests' own process is delayed. The delays of a test are drawn from the seed
and its name; what they meet depends on the machine all the same.
"""

import asyncio  # noqa: TID251 - its loop is what is stalled
import random
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest
from anyio._backends._asyncio import AsyncIOBackend

THREAD_S = 0.12
"""The longest delay before and after a call in a worker thread, in seconds."""

STALL_S = 0.3
"""The longest time for which the loop stands still, in seconds."""

PAUSE_S = 3.0
"""The longest time between two of them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--delays", metavar="SEED", help="delay worker threads and the event loop, as a busy machine does")


def pytest_configure(config: pytest.Config) -> None:
    """Delay, in each process that runs tests."""
    seed = config.getoption("delays")
    if seed is not None:
        config.pluginmanager.register(Delays(seed))


class Delays:
    """Delays worker threads and loops while a test runs."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._next_stall = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Draw the delays of each test anew."""
        self._random = random.Random(f"{self._seed} {item.nodeid}")
        self._next_stall = time.monotonic() + self._drawn(PAUSE_S)
        loop: Any = asyncio.BaseEventLoop
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AsyncIOBackend, "run_sync_in_worker_thread", self._late(AsyncIOBackend))
            patch.setattr(loop, "_run_once", self._stalled(loop._run_once))
            return (yield)

    def _drawn(self, most: float) -> float:
        # Mostly little: a race is between two that are nearly as quick.
        return most * self._random.random() ** 3

    def _late(self, backend: type[AsyncIOBackend]) -> Any:
        run_sync = backend.run_sync_in_worker_thread

        async def run(func: Callable[..., Any], args: tuple[Any, ...], *rest: Any, **options: Any) -> Any:
            before, after = self._drawn(THREAD_S), self._drawn(THREAD_S)

            def late(*given: Any) -> Any:
                _sleep(before)
                try:
                    return func(*given)
                finally:
                    _sleep(after)

            return await run_sync(late, args, *rest, **options)

        return run

    def _stalled(self, run_once: Callable[[Any], None]) -> Callable[[Any], None]:
        def run(loop: Any) -> None:
            if time.monotonic() >= self._next_stall:
                _sleep(self._drawn(STALL_S))
                self._next_stall = time.monotonic() + self._drawn(PAUSE_S)
            run_once(loop)

        return run


def _sleep(seconds: float) -> None:
    """Sleep, unseen by tests/blocking.py."""
    threading.Event().wait(seconds)
