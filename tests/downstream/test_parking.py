"""Calls that are parked until their caller comes back with an answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.parking import Parked, Parking
from toolcrib.errors import DownstreamError

pytestmark = pytest.mark.anyio

ASKER: Any = SimpleNamespace(session="s", principal="p")


async def test_a_call_that_has_ended_with_its_question_is_not_taken_up_any_more():
    parking, parked = Parking(LimitsSection()), Parked(ASKER, lambda: "request")
    key = parking.keep(parked)
    parked.scope.cancel()
    with pytest.raises(DownstreamError, match="expired"):
        parking.take(key, ASKER, "request")
    assert len(parking) == 0
