"""What is kept of reported outcomes: by whom, of which text, with a weight that fades."""

from functools import partial
from pathlib import Path

from policy import state_files
from toolcrib.policy.state import OUTCOME_HALF_LIFE_S, Outcomes, Report, SkillOutcomes

NOW = 1_000_000.0
WORKED, FAILED = Report("a", "d1", success=True), Report("a", "d1", success=False, note="It hung.")


opened = partial(state_files.opened, part=SkillOutcomes)


def test_reports_are_counted_for_each_principal_and_outlive_the_process(path: Path):
    with opened(path) as outcomes:
        outcomes.record("ann", FAILED, NOW)
        outcomes.record("ann", FAILED, NOW)
        outcomes.record("bob", WORKED, NOW)
    with opened(path) as outcomes:
        assert outcomes.by_principal("ann") == {"a": Outcomes("d1", 2, 0.0, 2.0, NOW, NOW, "It hung.")}
        assert outcomes.by_principal("bob") == {"a": Outcomes("d1", 1, 1.0, 0.0, 0.0, NOW, "")}
        assert outcomes.by_principal("eve") == {}
        assert list(outcomes.by_skill("a")) == ["ann", "bob"]


def test_a_report_counts_half_after_a_half_life(path: Path):
    with opened(path) as outcomes:
        outcomes.record("ann", FAILED, NOW)
        outcomes.record("ann", WORKED, NOW + OUTCOME_HALF_LIFE_S)
        [known] = outcomes.by_principal("ann").values()
    assert (known.reports, known.successes, known.failures) == (2, 1.0, 0.5)
    assert (known.last_failure, known.note) == (NOW, "It hung.")


def test_a_clock_that_is_set_back_makes_no_report_weigh_more(path: Path):
    with opened(path) as outcomes:
        outcomes.record("ann", FAILED, NOW)
        outcomes.record("ann", FAILED, NOW - OUTCOME_HALF_LIFE_S)
        assert outcomes.by_principal("ann")["a"].failures == 2.0


def test_another_text_of_the_skill_begins_anew(path: Path):
    with opened(path) as outcomes:
        outcomes.record("ann", FAILED, NOW)
        outcomes.record("ann", Report("a", "d2", success=True), NOW)
        assert outcomes.by_principal("ann") == {"a": Outcomes("d2", 1, 1.0, 0.0, 0.0, NOW, "")}


def test_of_very_many_skills_those_reported_on_last_are_remembered(path: Path):
    with opened(path) as outcomes:
        outcomes.record("bob", WORKED, NOW)
        for number in range(1001):
            outcomes.record("ann", Report(f"s{number}", "d", success=True), NOW + number)
        assert outcomes.by_principal("ann").keys() == {f"s{number}" for number in range(1, 1001)}
        assert outcomes.by_principal("bob").keys() == {"a"}


def test_what_is_too_old_to_count_is_forgotten(path: Path):
    with opened(path) as outcomes:
        outcomes.record("ann", FAILED, NOW)
        outcomes.expire(NOW + 10 * OUTCOME_HALF_LIFE_S)
        assert outcomes.by_principal("ann")
        outcomes.expire(NOW + 10 * OUTCOME_HALF_LIFE_S + 1)
        assert not outcomes.by_principal("ann")
