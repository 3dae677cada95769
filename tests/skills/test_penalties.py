"""What reported outcomes cost a skill: when, how much, whom, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.state import OUTCOME_HALF_LIFE_S, STATE_SCHEMA, Outcomes, Report, SkillOutcomes
from toolcrib.skills.penalties import PENALTY_MAX, ReportedOutcomes, penalty
from toolcrib.storage.store import Store

NOW = 1_000_000.0
KEY = ("sk_1", "d1")


@dataclass
class Reported:
    """Reported outcomes, one a second; ``now`` is the time."""

    store: Store
    now: float = NOW
    outcomes: ReportedOutcomes = field(init=False)

    def __post_init__(self) -> None:
        self.outcomes = ReportedOutcomes(SkillOutcomes(self.store), lambda: self.now, enabled=True)

    def report(self, successes: Sequence[bool], principal: str = "ann") -> None:
        for success in successes:
            self.outcomes.record(principal, Report(*KEY, success=success))

    def lost(self, principal: str = "ann") -> float:
        return self.outcomes.penalties(principal).get(KEY, 0.0)


@pytest.fixture
def reported(tmp_path: Path) -> Iterator[Reported]:
    with Store(tmp_path / "state.db", STATE_SCHEMA, fts="off") as store:
        yield Reported(store)


@pytest.mark.parametrize(
    ("successes", "lost"),
    [
        ([False] * 4, 0.0),
        ([False] * 5, PENALTY_MAX),
        ([True, True, False, False, False], 0.0),
        ([True, False, False, False, False], PENALTY_MAX),
        ([True, True, True, False, False, False, False, False], PENALTY_MAX),
    ],
    ids=["four failures", "five failures", "three of five", "four of five", "five of eight"],
)
def test_more_than_six_in_ten_failures_after_five_reports_cost_a_tenth(reported: Reported, successes, lost):
    reported.report(successes)
    assert reported.lost() == pytest.approx(lost)


def test_what_one_caller_reports_costs_nobody_else(reported: Reported):
    reported.report([False] * 50)
    assert reported.lost("bob") == 0.0


def test_it_fades_by_half_with_each_half_life_until_it_is_nothing(reported: Reported):
    reported.report([False] * 5)
    for half_lives, lost in ((1, PENALTY_MAX / 2), (2, PENALTY_MAX / 4), (5, 0.0)):
        reported.now = NOW + half_lives * OUTCOME_HALF_LIFE_S
        assert reported.lost() == pytest.approx(lost)


def test_a_success_does_not_make_old_failures_young_again(reported: Reported):
    reported.report([False] * 9)
    reported.now += OUTCOME_HALF_LIFE_S
    reported.report([True])
    assert reported.lost() == pytest.approx(PENALTY_MAX / 2)


def test_new_successes_outweigh_old_failures(reported: Reported):
    reported.report([False] * 6)
    reported.now += 3 * OUTCOME_HALF_LIFE_S
    reported.report([True] * 2)
    assert reported.lost() == 0.0


def test_without_the_flag_nothing_that_was_reported_counts(reported: Reported):
    reported.report([False] * 5)
    assert ReportedOutcomes(SkillOutcomes(reported.store), lambda: NOW, enabled=False).penalties("ann") == {}


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 4 * OUTCOME_HALF_LIFE_S)), max_size=40),
    st.floats(0, 4 * OUTCOME_HALF_LIFE_S),
)
def test_whatever_is_reported_the_loss_is_bounded_and_only_shrinks_with_time(history, later):
    known, now = Outcomes("d"), NOW
    for success, wait in history:
        now += wait
        known = known.with_report(Report("a", "d", success=success), now)
    assert 0.0 <= penalty(known, now + later) <= penalty(known, now) <= PENALTY_MAX
    if not any(not success for success, _ in history):
        assert penalty(known, now) == 0.0
