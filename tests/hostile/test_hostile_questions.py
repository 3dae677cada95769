"""Servers that ask, while clients go, servers end and change their era, and the config is loaded again: many times."""

from typing import Any

import pytest
from counts import count
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from gate.questions import QuestionMachine

pytestmark = pytest.mark.hostile


@pytest.mark.timeout(3600)
def test_each_question_goes_to_its_caller_and_ends(record_property: Any):
    runs = count("questions")
    settled = settings(
        max_examples=runs,
        stateful_step_count=25,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(QuestionMachine, settings=settled)
    record_property("count", runs)
    record_property("worst", f"0 of {runs} runs with a question that went astray, or never ended")
