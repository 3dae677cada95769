"""A value as text: the JSON that any program would write, cut where no more of it is shown."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.programs.values import rendered

KEYS = st.text() | st.integers() | st.booleans() | st.none()
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
JSON = st.recursive(PLAIN, lambda each: st.lists(each) | st.dictionaries(KEYS, each), max_leaves=30)


@given(value=JSON, most=st.integers(0, 200))
def test_a_value_is_its_json_or_the_beginning_of_it(value, most):
    whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    shown = rendered(value, most)
    assert shown.text == whole[:most]
    assert (shown.size, shown.is_counted) == (len(whole), True)


@pytest.mark.parametrize("times", [25, 200])
def test_what_holds_itself_many_times_is_counted_up_to_a_limit(times):
    value: object = "xyz"
    for _ in range(times):
        value = [value, value]
    shown = rendered(value, 1000)
    assert len(shown.text) == 1000
    assert not shown.is_counted
    assert shown.size >= 250_000


def test_a_number_too_large_to_be_written_is_told_by_its_size():
    large = 10**5000
    assert rendered([large, {large: large}], 200).text == (
        '["an integer of 16610 bits",{"an integer of 16610 bits":"an integer of 16610 bits"}]'
    )


def test_what_is_nested_too_deeply_is_told_from_what_is_large():
    value: object = 1
    for _ in range(10_000):
        value = [value]
    with pytest.raises(RecursionError):
        rendered(value, 100)
