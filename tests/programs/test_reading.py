"""Programs that are read at the same time, each in a thread of its own."""

import ast
import gc
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from toolcrib.programs.source import read

PROGRAM = "\n".join(f"x{number} = [(({number} + 1) * 2), {{'a': [1, 2, (3, 4)]}}]" for number in range(30))
AT_ONCE = 4


@pytest.fixture
def _switches_inside() -> Generator[None]:
    """Have the garbage collector run often, and let other threads go on each time: also in the middle of a parse."""

    def pause(*_event: object) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(pause)
    gc.set_threshold(20)
    yield
    gc.callbacks.remove(pause)
    gc.set_threshold(*before)


@pytest.mark.usefixtures("_switches_inside")
def test_programs_read_at_once_are_each_read():
    work = partial(read, PROGRAM, 10_000)
    alone = work()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert [each.result() for each in [threads.submit(work) for _ in range(20)]] == [alone] * 20


def test_no_two_programs_are_parsed_at_once(monkeypatch: pytest.MonkeyPatch):
    work = partial(read, PROGRAM, 10_000)
    running, most = list[int](), list[int]()

    def parse(*given: Any, parse: Callable[..., Any] = ast.parse, **named: Any) -> Any:
        running.append(1)
        most.append(len(running))
        time.sleep(0.002)
        running.pop()
        return parse(*given, **named)

    monkeypatch.setattr(ast, "parse", parse)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for each in [threads.submit(work) for _ in range(8)]:
            each.result()
    assert set(most) == {1}
