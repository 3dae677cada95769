"""Decoding in steps gives what the decoder of the standard library gives, and lets others run meanwhile."""

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.generated import tools
from toolcrib.base.json_decoding import STEP, decode_in_steps

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=30,
)
LAYOUTS: list[dict[str, Any]] = [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}]


def decode(data: bytes | bytearray) -> Any:
    return anyio.run(decode_in_steps, data)


def is_refused(data: bytes | bytearray) -> bool:
    try:
        decode(data)
    except ValueError:
        return True
    return False


@given(JSON, st.sampled_from(LAYOUTS))
def test_it_decodes_what_json_loads_decodes(value: Any, layout: dict[str, Any]):
    data = json.dumps(value, **layout).encode()
    assert decode(data) == json.loads(data)
    assert decode(bytearray(b" \r\n\t" + data + b"\n ")) == json.loads(data)


@given(JSON, st.data())
def test_it_refuses_what_json_loads_refuses(value: Any, data: st.DataObject):
    damaged = bytearray(json.dumps(value).encode())
    position = data.draw(st.integers(0, len(damaged)))
    damaged[position : position + data.draw(st.integers(0, 2))] = data.draw(
        st.sampled_from([b"", b",", b"}", b'"', b"]1"])
    )
    try:
        expected = json.loads(damaged)
    except ValueError:
        assert is_refused(damaged)
    else:
        assert decode(damaged) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[",
        '{"a"',
        '{"a" 1}',
        '{"a":1,}',
        "{1:2}",
        "[1 2]",
        "[1,]",
        "[,]",
        "1 2",
        "{}{}",
        "nul",
        '"\n"',
        '{"a":1',
    ],
)
def test_it_refuses_what_is_not_one_whole_json_value(text: str):
    assert is_refused(text.encode())


@pytest.mark.parametrize("data", [b'"\xff"', b'"\xed\xa0\x80"', b"\xff\xfe1\x00", b'["' + b"a" * 100 + b'\xc3"]'])
def test_it_refuses_what_is_not_utf_8(data: bytes):
    assert is_refused(data)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_it_refuses_endless_nesting(opening: str):
    assert is_refused((opening * 200_000).encode())


def test_nesting_within_one_step_is_bounded_too():
    assert is_refused(b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")


@pytest.mark.parametrize("depth", [1, 3, 4, 5, 6, 100])
def test_depth_makes_no_difference(depth: int):
    value: Any = 1
    for level in range(depth):
        value = [value, []] if level % 2 else {"a": value, "b": {}}
    assert decode(json.dumps(value).encode()) == value


def test_of_a_repeated_key_the_last_value_counts():
    assert decode(b'{"a": 1, "b": 2, "a": 3}') == {"a": 3, "b": 2}


def test_it_gives_way_to_other_tasks_at_every_step():
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools(2000)}}).encode()
    turns = 0

    async def decoded() -> Any:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count_turns, tasks.cancel_scope)
            value = await decode_in_steps(data)
            tasks.cancel_scope.cancel()
        return value

    async def count_turns(until: anyio.CancelScope) -> None:
        nonlocal turns
        while not until.cancel_called:
            turns += 1
            await anyio.lowlevel.checkpoint()

    assert anyio.run(decoded) == json.loads(data)
    assert turns >= len(data) / STEP / 2 > 15
