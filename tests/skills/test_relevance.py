"""Which skills a task is begun with, of those that were found for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from skill_builders import opened, text

from toolcrib.base.model import SearchType, Skill
from toolcrib.search.documents import Match
from toolcrib.skills.relevance import select_skills, with_frame_matches


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> dict[str, Skill]:
    """Return sixty skills by name; every second one is of the frame ``desk``."""
    with opened(tmp_path_factory.mktemp("skills") / "skills.db") as skills:
        skills.have(*(text(f"s{number}", tags=("Desk",) if number % 2 else ()) for number in range(60)))
        return {skill.name: skill for skill in skills.all()}


def matches(known: dict[str, Skill], **scores: float) -> list[Match[Skill]]:
    return [Match(known[name], score, SearchType.FTS) for name, score in scores.items()]


DESK = frozenset({"desk"})


def test_a_frame_adds_two_tenths_and_no_score_is_above_one(known):
    found = matches(known, s0=1.0, s1=0.9, s2=0.6, s3=0.5, s4=0.35, s5=0.1)
    names = [skill.name for skill in select_skills(found, DESK, None)]
    assert names == ["s1", "s0", "s3", "s2", "s4", "s5"]


def test_a_skill_of_the_frame_that_fits_worse_than_fifty_others_is_considered(known):
    found = matches(known, **{f"s{number}": round(1 - number / 50, 2) for number in range(50)})
    of_frame = matches(known, s1=1.0, s51=0.4, s53=0.0)
    names = [skill.name for skill in select_skills(with_frame_matches(found, of_frame), DESK, None)]
    assert len(names) == len(set(names)) == 52
    # Behind what has 0.2 and more, before what has less.
    assert names.index("s38") < names.index("s51") < names.index("s42")
    assert names.index("s51") < names.index("s53")


@given(st.lists(st.integers(0, 59), unique=True), st.lists(st.integers(0, 59), unique=True))
def test_both_passes_together_have_each_skill_once_and_keep_the_scores_of_the_first(known, first, second):
    found = matches(known, **{f"s{number}": 0.5 for number in first})
    merged = with_frame_matches(found, matches(known, **{f"s{number}": 0.7 for number in second}))
    assert merged[: len(found)] == found
    assert sorted(each.document.name for each in merged) == sorted({f"s{number}" for number in (*first, *second)})
    assert {each.score for each in merged[len(found) :]} <= {0.0}
