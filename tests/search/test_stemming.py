"""Stems: the inflected forms of a word are one word to the ranking."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.text import words
from toolcrib.search.english import stem
from toolcrib.search.query import agent_noun_stems


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("connections", "connect"),
        ("connecting", "connect"),
        ("issues", "issu"),
        ("caresses", "caress"),
        ("agreed", "agre"),
        ("hopping", "hop"),
        ("located", "locat"),
        ("need", "need"),
        ("bring", "bring"),
        ("falling", "fall"),
        ("filing", "file"),
        ("happy", "happi"),
        ("relational", "relat"),
        ("adjustment", "adjust"),
        ("adoption", "adopt"),
        ("controlling", "control"),
        ("sky", "sky"),
        ("go", "go"),
        ("js", "js"),
        ("s", "s"),
    ],
)
def test_a_word_has_its_stem(word: str, expected: str):
    assert stem(word) == expected


@given(st.text(max_size=80))
def test_any_word_of_any_text_has_a_stem(text: str):
    assert all(stem(word) for word in words(text))


def test_threads_may_ask_at_once():
    asked = [f"{start}{ending}" for start in ("paint", "wall", "control") for ending in ("ings", "ed", "s")] * 200
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(stem.__wrapped__, asked)) == [stem(word) for word in asked]


@pytest.mark.parametrize(("one", "other"), [("news", "new"), ("general", "generate"), ("policy", "police")])
def test_words_that_have_nothing_in_common_but_letters_are_two(one: str, other: str):
    assert stem(one) != stem(other)


@pytest.mark.parametrize(
    ("verb", "agent"), [("watch", "watcher"), ("find", "finder"), ("scan", "scanner"), ("scrape", "scraper")]
)
def test_who_does_something_and_what_is_done_are_kindred(verb: str, agent: str):
    assert stem(agent) in agent_noun_stems(stem(verb))
    assert stem(verb) in agent_noun_stems(stem(agent))


@pytest.mark.parametrize("word", ["custom", "customer", "server", "number", "log", "folder", "s", ""])
def test_other_words_that_only_look_so_are_not(word: str):
    assert agent_noun_stems(stem(word)) == []
