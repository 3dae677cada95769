"""Programs that are read at the same time, each in a thread of its own."""

import ast
import gc
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from toolcrib.programs.source import NotRunnable, read

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


def taken(code: str) -> float:
    """Return the seconds of this thread that it takes to read a program, which may be refused."""
    began = time.thread_time()
    with suppress(NotRunnable):
        read(code, 40_000)
    return time.thread_time() - began


HOSTILE = (
    "from tools import t\n" + "a=a\n" * 4000 + "a.x;" * 4000,
    "v0=1\n" + "".join(f"v{n + 1}=v{n}\n" for n in range(1400)) + "v1400.x\n" * 1400,
    "import pathlib\n" + "".join(f"import os as o{n}\n" for n in range(1000)) + "a.b\n" * 3000,
    "from tools import t\n" + "a = await t()\n" * 16 + "for a in a: a.x\n" * 1900,
    "".join(f"{' ' * n}try: pass\n{' ' * n}except E as e:\n" for n in range(90)) + " " * 90 + "e.x;" * 4000,
)


@pytest.mark.slow
@pytest.mark.parametrize("code", HOSTILE, ids=range(len(HOSTILE)))
def test_no_program_takes_much_longer_to_be_read_than_others_of_its_size(code):
    plain = "rows.append({'a': 1})\n" * (len(code) // 22)
    assert min(taken(code) for _ in range(3)) < 25 * min(taken(plain) for _ in range(3))
