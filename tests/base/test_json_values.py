"""Untyped JSON: how much of it there is."""

import json
import tracemalloc

import pytest

from toolcrib.base.json_values import memory_of


@pytest.mark.parametrize("item", ["{}", "[]", "1.5", '"a text"', '{"a": 1}', '"' + "x" * 1000 + '"'])
def test_the_memory_of_a_value_is_about_what_it_takes(item: str):
    text = f"[{', '.join([item] * 5000)}]"
    tracemalloc.start()
    try:
        value = json.loads(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.8 * taken < memory_of(value, 10 * taken) < 2 * taken


def test_what_is_far_too_large_is_not_counted_to_its_end():
    assert 1000 < memory_of([["x" * 100] * 1000] * 1000, 1000) < 50_000
