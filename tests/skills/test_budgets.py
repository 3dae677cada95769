"""Real skills within every budget. Looks at the corpus beside the repository, where there is one."""

import re
from typing import Literal

import pytest
from sheets import corpus_sheets, injection, raw

from toolcrib.base.markdown import outline
from toolcrib.skills.text.rendering import Sheet, estimator

pytestmark = pytest.mark.slow

FEWER_STEPS = "for the others there is no room]"


@pytest.fixture(scope="module")
def sheets() -> list[Sheet]:
    found = corpus_sheets()
    if not found:
        pytest.skip("the corpus of skills is not here")
    return found


@pytest.mark.parametrize("render", [injection, raw])
@pytest.mark.parametrize("kind", ["chars", "bytes"])
@pytest.mark.parametrize("max_tokens", [200, 500, 1500, 6000])
def test_no_budget_is_exceeded(sheets: list[Sheet], max_tokens: int, kind: Literal["chars", "bytes"], render):
    estimate = estimator(kind)
    for count in (1, 3, 10):
        for start in range(0, len(sheets), count):
            batch = sheets[start : start + count]
            rendered = render(batch, max_tokens, estimate)
            assert estimate(rendered.text) <= max_tokens, [each.text.name for each in batch]
            shown = sum(outcome.included in ("full", "compressed") for outcome in rendered.outcomes)
            assert len(re.findall(r"<\s*/\s*skill", rendered.text, re.IGNORECASE)) == shown


def test_nearly_every_skill_keeps_all_its_steps_at_the_usual_budget(sheets: list[Sheet]):
    estimate = estimator("chars")
    fewer = [each for each in sheets if FEWER_STEPS in injection([each], 1500, estimate).text]
    assert len(fewer) <= len(sheets) // 100
    assert all(len(outline(each.text.body).steps) > 80 for each in fewer), [each.text.name for each in fewer]


def test_the_room_is_used(sheets: list[Sheet]):
    estimate = estimator("chars")
    used = [
        estimate(rendered.text)
        for each in sheets
        if (rendered := injection([each], 1500, estimate)).outcomes[0].included == "compressed"
    ]
    assert sum(used) / len(used) > 0.95 * 1500
