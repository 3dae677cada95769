"""Values are counted before they are decoded: never fewer than there are, and what stands in a text is none."""

import json
import math
import time
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.json_decoding import ValueCount, has_more_values, is_finite

pytestmark = pytest.mark.anyio

TEXTS = st.text(st.sampled_from('a,"\\[]{}é'), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def values_in(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values_in, inner))


def empties_in(value: Any) -> int:
    inner = list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    return (isinstance(value, dict | list) and not inner) + sum(map(empties_in, inner))


@given(JSON, st.lists(st.integers(0, 60)), st.booleans())
def test_the_count_is_that_of_the_values_and_one_for_each_empty_list(value: Any, cuts: list[int], spaced: bool):
    text = json.dumps(value, separators=None if spaced else (",", ":"), ensure_ascii=False).encode()
    count = ValueCount()
    for start, end in pairwise([0, *sorted(cuts), len(text)]):
        count.add(text[start:end])
    assert count.number == values_in(value) + empties_in(value)


@given(st.binary(max_size=60))
def test_what_is_no_json_is_counted_all_the_same(text: bytes):
    assert 1 <= ValueCount().add(text) <= 1 + len(text)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("text", "more"),
    [
        (b"[]," * 3_000_000, True),
        (b'"",' * 3_000_000, True),
        (b'{"a":[' * 1_000_000, True),
        (b'"' + b"a,[{" * 3_000_000 + b'"', False),
        (b'"' + b'\\",' * 3_000_000 + b'"', False),
        (b'"' + b"\\" * 8_000_000 + b'"', False),
        (b"1," * 900_000, False),
    ],
)
async def test_large_texts_are_counted_quickly_and_in_turns(text: bytes, more: bool):
    turns: list[float] = []

    async def watch() -> None:
        while True:
            turns.append(time.thread_time())
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        data = bytearray(text)
        began = time.thread_time()
        assert await has_more_values(data, 1_000_000) == more
        assert time.thread_time() - began < 2
        tasks.cancel_scope.cancel()
    assert max((after - before for before, after in pairwise(turns)), default=0) < 0.1


async def test_a_text_that_is_too_short_for_so_many_is_not_looked_at():
    assert not await has_more_values(bytearray(b"[" * 2000), 1000)


@given(JSON)
def test_what_json_can_say_is_finite(value: Any):
    assert is_finite(value)
    assert is_finite({"Infinity": ["NaN", "\ud800", value]})


@given(JSON, st.sampled_from([math.nan, math.inf, -math.inf]))
def test_what_json_cannot_say_is_not_finite_however_deep_it_is(value: Any, number: float):
    assert not is_finite({"NaN": [value, {"\ud800": number}]})
