r"""A lone surrogate, ``\ud83d`` without its other half, becomes U+FFFD; nothing else changes."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib.base.json_decoding import LoneSurrogateFilter, replace_lone_surrogates, without_lone_surrogates

texts = st.text(st.characters() | st.sampled_from('\ud83d\udc4d\\u"d8\n'), max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def mended(value: Any) -> Any:
    """Return a JSON value with U+FFFD for each lone surrogate, the plain way."""
    return json.loads(replace_lone_surrogates(json.dumps(value, ensure_ascii=False)))


@given(values)
@example({"\ud83d": ["\udc4d", 1.0, 2**70], "👍": "👍"})
def test_a_value_is_itself_unless_it_has_a_lone_surrogate(value: Any):
    got = without_lone_surrogates(value)
    assert got == mended(value)
    json.dumps(got, ensure_ascii=False).encode()
    if mended(value) == value:
        assert got is value


@given(values, st.lists(st.integers(0, 400), max_size=6), st.booleans())
@example("\ud83d", [1, 2, 3, 4, 5, 6], True)
@example("\\ud83d \\\\", [3, 4, 9], True)
def test_a_body_is_mended_however_it_is_cut_and_keeps_its_length(value: Any, cuts: list[int], as_ascii: bool):
    body = json.dumps(value, ensure_ascii=as_ascii).encode("utf-8", "surrogatepass" if as_ascii else "replace")
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    filtered = LoneSurrogateFilter()
    came = b"".join(filtered.feed(body[start:end]) for start, end in pairwise(places))
    came += filtered.end()
    assert len(came) == len(body)
    assert json.loads(came) == mended(json.loads(body))


@pytest.mark.parametrize("pair", [r"\ud83d\udc4d", r"\uD83D\uDC4D"])
@pytest.mark.parametrize("cut", range(1, 12))
def test_a_pair_stays_wherever_it_is_cut(pair: str, cut: int):
    filtered = LoneSurrogateFilter()
    text = f'"{pair}"'.encode()
    assert filtered.feed(text[:cut]) + filtered.feed(text[cut:]) + filtered.end() == text


def test_nothing_that_is_whole_is_held_back():
    filtered = LoneSurrogateFilter()
    for event in (b'data: {"a": "\\ud83d"}\n\n', b'data: "\\\\"\n\n', b'data: "\\ud83dx', b'\\u0041"\n\n'):
        assert len(filtered.feed(event)) == len(event)
