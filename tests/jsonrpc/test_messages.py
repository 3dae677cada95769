"""JSON-RPC messages to a line and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.jsonrpc.dispatcher import decode, encode, result

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(ANY_TEXT, JSON, max_size=4))
def test_what_is_encoded_is_decoded(value: dict[str, object]):
    line = encode(value)
    assert line.count(b"\n") == 1
    assert decode(bytearray(line)) == value


def test_a_message_is_one_line_of_compact_json():
    line = encode(result(1, {"a": "one\ntwo\r\u2028", "b": [1, 2]}))
    assert line == b'{"jsonrpc":"2.0","id":1,"result":{"a":"one\\ntwo\\r\xe2\x80\xa8","b":[1,2]}}\n'
    assert encode(result(1, {"a": "\ud800"})) == b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"}}\n'


def test_numbers_of_any_kind_stay_json_for_others():
    value = {"n": [1.5, -0.0, 10**30, True, None]}
    assert json.loads(encode(result(1, value)))["result"] == value
    assert encode({"n": [float("nan"), float("inf")]}) == b'{"n":[null,null]}\n'


@pytest.mark.parametrize("text", [b"", b"Starting up...", b'{"a":', b"\xff\xfe", b"{} {}", b"[" * 100_000])
def test_what_is_no_json_is_refused_in_one_way(text: bytes):
    with pytest.raises(ValueError):  # noqa: PT011 - each decoder has words of its own
        decode(bytearray(text))
