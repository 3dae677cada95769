"""How much of a downstream's result goes on to a client, and which of its ``_meta``."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.tools.results import bounded, failure, weight

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


@pytest.mark.parametrize(
    "value", ["x" * 1000, ["x"] * 100, {"a" * 100: "b"}, {"deep": [{"deeper": ["x" * 500]}]}, 7, None]
)
def test_the_weight_of_plain_values_is_about_their_length_as_json(value: Any):
    size = len(json.dumps(value))
    assert size / 2 <= weight(value, 10**6) <= size * 2 + 8


@given(JSON)
def test_the_weight_of_any_value_is_found_and_never_less_than_its_text(value: Any):
    found = weight(value, 10**9)
    longest = max((len(text) for text in strings(value)), default=0)
    assert found >= longest


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in inside for text in strings(item)]


def test_counting_stops_soon_after_the_limit():
    visited = []

    class Counting(list):
        def __iter__(self):
            visited.append(1)
            return super().__iter__()

    weight(["x" * 100, *(Counting(["y"]) for _ in range(1000))][::-1], 50)
    assert len(visited) < 1000


def test_a_very_deep_value_is_weighed_without_recursion():
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert weight(deep, 10**6) > 100_000


@given(JSON)
def test_a_result_within_the_limit_is_the_same_object(value: Any):
    result = {"content": [], "structuredContent": value}
    size = weight(result, 10**9)
    assert bounded(result, size) == (result, size)
    assert bounded(result, size)[0] is result


def test_a_result_over_the_limit_keeps_the_text_that_fits_and_says_so():
    result = {"content": [{"type": "text", "text": letter * 600} for letter in "abcd"]}
    cut, size = bounded(result, 1024)
    assert size == 1024
    assert [text[0] for text in texts(cut)] == ["a", "b", "["]
    assert len("".join(texts(cut)[:-1])) <= 1024
    assert "larger than 1024 bytes (limits.result_max_bytes)" in texts(cut)[-1]


def test_a_cut_result_loses_what_is_not_text():
    image = {"type": "image", "data": "x" * 5000, "mimeType": "image/png"}
    cut, _ = bounded({"content": [image, {"type": "text", "text": "t"}], "structuredContent": {"n": "x" * 5000}}, 1024)
    assert texts(cut)[:-1] == ["t"]
    assert "structuredContent" not in cut


def test_a_cut_result_still_says_whether_it_is_an_error_and_keeps_a_small_meta():
    big = [{"type": "text", "text": "x" * 5000}]
    cut, _ = bounded({"content": big, "isError": True, "_meta": {"vendor/key": 1}}, 1024)
    assert (cut["isError"], cut["_meta"]) == (True, {"vendor/key": 1})


@pytest.mark.parametrize(
    "result",
    [
        {"content": [], "_meta": {"big": "x" * 5000}},
        {"content": [], "vendor": "x" * 5000},
        {"content": [{"type": "text", "text": "t", "annotations": {"big": "x" * 5000}}]},
        {"content": [{"type": "text", "text": ""}] * 5000},
        {"content": [{"type": "text", "text": "x"}] * 5000},
        {"content": [7, None, ["x" * 5000], {"type": "text", "text": 7}]},
        {"content": "x" * 5000},
        {"content": {"text": "x" * 5000}},
        {"structuredContent": ["x"] * 5000},
        {"isError": "x" * 5000},
        {f"key{number}": "x" for number in range(5000)},
    ],
    ids=lambda result: next(iter(result)),
)
def test_wherever_the_bulk_is_what_is_left_is_small(result: dict[str, Any]):
    cut, _ = bounded(result, 1024)
    assert len(json.dumps(cut)) < 4000
    assert "has been cut" in texts(cut)[-1]


@given(st.lists(st.text(max_size=300)), st.integers(1024, 4096))
def test_a_cut_result_is_never_much_over_the_limit_and_begins_as_the_whole_did(parts: list[str], limit: int):
    result = {"content": [{"type": "text", "text": part} for part in parts]}
    cut, size = bounded(result, limit)
    assert size <= limit
    if cut is not result:
        assert "".join(parts).startswith("".join(texts(cut)[:-1]))
        assert weight(cut, 10**9) <= limit + 600


def test_a_failure_is_all_text():
    assert failure("Why.") == {"content": [{"type": "text", "text": "Why."}], "isError": True}
