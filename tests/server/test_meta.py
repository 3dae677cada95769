"""What may go on to a client beside a result, and what belongs to one hop."""

from typing import Any

import pytest

from toolcrib.policy.requests import meta_for_next_hop


def test_meta_goes_on_without_what_belongs_to_one_hop():
    meta = {"io.modelcontextprotocol/x": 1, "progressToken": 2, "vendor/key": 3, "io.modelcontextprotocol": 4}
    assert meta_for_next_hop(meta) == {"vendor/key": 3, "io.modelcontextprotocol": 4}


@pytest.mark.parametrize("meta", [None, {}, [], "text", 7])
def test_meta_that_is_none_is_empty(meta: Any):
    assert meta_for_next_hop(meta) == {}
