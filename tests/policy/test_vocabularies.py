"""What is kept of what use has taught: by whom, of which words, within bounds."""

from functools import partial
from pathlib import Path

from policy import state_files
from toolcrib.base.model import Caller
from toolcrib.policy.rules import VisibilityRule
from toolcrib.policy.state import (
    EVERYBODY,
    LEARNERS_MAX,
    LessonFilter,
    StoredVocabularies,
    Vocabularies,
    caller_from_key,
    group_key,
    learner_key,
    with_lesson,
)
from toolcrib.search.learned_words import ENTRIES_MAX, HALF_LIFE_S, Lesson

NOW = 1_800_000_000.0
ANN, BOB = learner_key(Caller("ann")), learner_key(Caller("bob"))

opened = partial(state_files.opened, part=StoredVocabularies)


def lesson(words: str = "standup", tool: str = "calendar__create", at: float = NOW) -> Lesson:
    return Lesson(tuple(words.split()), tool, 1.0, at)


def remembered(*lessons: tuple[str, Lesson]) -> Vocabularies:
    known: Vocabularies = {}
    for each in lessons:
        known = with_lesson(known, *each)
    return known


def test_lessons_outlive_the_process_and_are_the_same_on_disk_as_in_memory(path: Path):
    first = [(ANN, lesson()), (BOB, lesson("invoice", "books__pay"))]
    second = [(ANN, lesson("standup team", at=NOW + HALF_LIFE_S / 7))]
    with opened(path) as kept:
        kept.teach(first)
    with opened(path) as kept:
        kept.teach(second)
        assert kept.all() == remembered(*first, *second)


def test_a_flood_is_bounded_on_disk_as_in_memory_and_takes_nothing_from_others(path: Path):
    flood = [(ANN, lesson(f"w{number}", at=NOW + number)) for number in range(ENTRIES_MAX + 150)]
    with opened(path) as kept:
        kept.teach([(BOB, lesson())])
        kept.teach(flood[:700])
        kept.teach(flood[700:])
        known = kept.all()
        assert known == remembered((BOB, lesson()), *flood)
        assert known[ANN].size <= ENTRIES_MAX


def test_nobodys_vocabulary_goes_because_others_learn_too(path: Path):
    with opened(path) as kept:
        for number in range(LEARNERS_MAX + 5):
            kept.teach([(learner_key(Caller(f"p{number}")), lesson(at=NOW + number))])
        kept.teach([(learner_key(Caller("p0")), lesson("invoice"))])
        known = kept.all()
    assert sorted(known) == sorted(learner_key(Caller(f"p{number}")) for number in range(LEARNERS_MAX))
    assert set(known[learner_key(Caller("p0"))].entries) == {"standup", "invoice"}


def test_what_fits_all_that_is_given_is_forgotten(path: Path):
    with opened(path) as kept:
        lessons = [(ANN, lesson("standup team")), (ANN, lesson("standup", "b")), (BOB, lesson("standup"))]
        kept.teach(lessons)
        assert kept.forget(LessonFilter([ANN], words=["standup"], tool="b")) == 1
        assert kept.forget(LessonFilter([], words=["standup"])) == 0
        assert kept.forget(LessonFilter(words=["standup"])) == 2
        assert [(word, tool) for word, tool, _ in kept.all()[ANN].pairs()] == [("team", "calendar__create")]
        assert kept.forget(LessonFilter()) == 1
        assert kept.all() == {}


def test_what_was_taught_too_long_ago_goes(path: Path):
    with opened(path) as kept:
        kept.teach([(ANN, lesson()), (ANN, lesson("late", at=NOW + 1))])
        kept.expire(NOW + 10 * HALF_LIFE_S)
        assert set(kept.all()[ANN].entries) == {"standup", "late"}
        kept.expire(NOW + 10 * HALF_LIFE_S + 1)
        assert set(kept.all()[ANN].entries) == {"late"}


def test_whatever_this_or_another_process_teaches_or_forgets_shows_in_the_version(path: Path):
    with opened(path) as here, opened(path) as there:
        before = here.version()
        assert here.version() == before
        here.teach([(ANN, lesson())])
        after = here.version()
        assert after != before
        there.forget(LessonFilter())
        assert here.version() != after


def test_a_learner_is_one_principal_of_one_tenant_project_and_profile_and_can_be_read_again():
    callers = [
        Caller("ann"),
        Caller("ann", "red"),
        Caller("ann", None, "red"),
        Caller("ann", None, None, "red"),
        Caller('a"],'),
    ]
    assert len({*map(learner_key, callers), EVERYBODY}) == 6
    assert [caller_from_key(learner_key(caller)) for caller in callers] == callers
    assert [caller_from_key(text) for text in (EVERYBODY, "not JSON", "{}", "3")] == [None] * 4


def test_those_learn_together_whom_the_same_rules_are_about():
    whens = ({"tenant_id": ("red",)}, {"tenant_id": ("red", "blue")}, {"tenant_id": ("red",), "profile": ("guest",)})
    rules = [VisibilityRule(when) for when in whens]
    groups = [group_key(some) for some in ([], *([rule] for rule in rules), rules[:2])]
    assert len(set(groups)) == 5
    assert groups[0] == EVERYBODY
    assert [caller_from_key(group) for group in groups] == [None] * 5
    assert group_key([VisibilityRule({"tenant_id": ("red",)}, deny=("more",))]) == groups[1]
