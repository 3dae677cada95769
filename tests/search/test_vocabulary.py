"""What use teaches about words: which of them are learnt, what a lesson weighs, and what there is room for."""

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.text import QUERY_MAX
from toolcrib.search.english import stem
from toolcrib.search.learned_words import (
    ENTRIES_MAX,
    HALF_LIFE_S,
    NOTHING_LEARNT,
    WEIGHT_MAX,
    Lesson,
    Vocabulary,
    learnable,
)

NOW = 1_800_000_000.0


def taught(*lessons: Lesson) -> Vocabulary:
    vocabulary = NOTHING_LEARNT
    for lesson in lessons:
        vocabulary = vocabulary.after(lesson)
    return vocabulary


def sureness(vocabulary: Vocabulary, word: str, tools: Collection[str] | None = None) -> Mapping[str, float]:
    """Return what a word means to somebody who may use these tools (None: every one)."""
    return vocabulary.sureness([word], vocabulary.last_lessons if tools is None else tools)[word]


def lesson(words: str, tool: str = "calendar__create_event", *, worth: float = 1.0, at: float = NOW) -> Lesson:
    return Lesson(tuple(words.split()), tool, worth, at)


@pytest.mark.parametrize(
    ("request_text", "learnt"),
    [
        ("Please arrange a standup for the team!", ("arrang", "standup", "team")),
        ("Besprechung fürs Team anlegen", ("besprechung", "fur", "team", "anlegen")),
        ("会议", ("会议",)),
        ("log in with hunter2 and Tr0ub4dor", ("log",)),
        ("use sk-live-AbCdEfGh as xKcdPasswd", ()),
        ("mail ann@example.com about 'the secret plan' at https://x.example/secretpath", ("mail",)),
        ("delete <project_name> now", ("delet", "now")),
        ('"my secret phrase"', ()),
        ("“my secret phrase” <customer surname> 'and another'", ()),
        ('tell"my secret"phrase', ()),
        ("please help", ()),
        ("standup" + " " * (QUERY_MAX - 20) + "correct horse", ()),
        ("abcdefghijklmnopqrstuvwxyz", ()),
        ("go to X", ()),
        ("one two three four five six seven eight nine words here", ()),
    ],
)
def test_only_plain_words_of_a_short_request_are_learnt(request_text: str, learnt: tuple[str, ...]):
    assert learnable(request_text, stem) == learnt


@given(st.text(max_size=3000))
def test_whatever_is_asked_few_short_words_are_learnt(text: str):
    words = learnable(text, stem)
    assert len(words) <= 8
    assert all(len(word) <= 20 for word in words)
    assert not any(char.isdigit() for char in "".join(words) if char.isascii())


def test_a_lesson_makes_a_word_mean_a_tool_and_the_same_again_makes_it_surer_within_a_bound():
    once, often = taught(lesson("standup")), taught(*[lesson("standup")] * 1000)
    assert sureness(once, "standup") == {"calendar__create_event": 0.5}
    assert sureness(often, "standup") == {"calendar__create_event": WEIGHT_MAX / (1 + WEIGHT_MAX)}
    assert sureness(once, "meeting") == {}


def test_a_lesson_counts_half_once_others_came_a_half_life_later_and_not_by_a_clock():
    before = taught(lesson("standup"))
    after = before.after(lesson("invoice", "books__pay", at=NOW + HALF_LIFE_S))
    assert sureness(before, "standup") == {"calendar__create_event": 0.5}
    assert sureness(after, "standup") == {"calendar__create_event": pytest.approx(1 / 3)}


def test_lessons_about_other_tools_than_one_may_use_make_none_older():
    before = taught(lesson("standup"))
    after = before.after(lesson("standup invoice", "books__pay", at=NOW + 5 * HALF_LIFE_S))
    mine = {"calendar__create_event"}
    assert sureness(after, "standup", mine) == sureness(before, "standup", mine) == {"calendar__create_event": 0.5}
    assert sureness(after, "invoice", mine) == {}


def test_a_clock_that_is_set_back_makes_no_lesson_weigh_more():
    back = taught(lesson("standup"), lesson("standup", at=NOW - 10 * HALF_LIFE_S))
    assert back.entries["standup"]["calendar__create_event"].weight == 2.0
    assert back.newest(back.last_lessons) == NOW


def test_a_flood_of_lessons_stays_within_bounds_and_what_weighs_least_goes_first():
    vocabulary = taught(*[lesson("standup")] * 3)
    for number in range(ENTRIES_MAX + 300):
        vocabulary = vocabulary.after(lesson(f"w{number}", "flood", at=NOW + number))
        assert vocabulary.size <= ENTRIES_MAX
    assert sureness(vocabulary, "standup")
    assert not sureness(vocabulary, "w0")
    assert sureness(vocabulary, f"w{ENTRIES_MAX + 299}")


def test_a_flood_about_one_tool_takes_nothing_from_what_was_taught_of_others():
    vocabulary = taught(lesson("standup retro team"))
    for number in range(2 * ENTRIES_MAX):
        vocabulary = vocabulary.after(lesson(f"w{number}", "flood", at=NOW + number))
    assert sureness(vocabulary, "standup", {"calendar__create_event"}) == {"calendar__create_event": 0.5}
    assert {word for word, tool, _ in vocabulary.pairs() if tool != "flood"} == {"standup", "retro", "team"}


def test_a_vocabulary_is_a_value_that_a_later_lesson_does_not_change():
    before = taught(lesson("standup"))
    before.after(lesson("standup"))
    assert before == taught(lesson("standup"))
