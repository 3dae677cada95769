"""Stems: the same words for the ranking in memory as for the full-text table."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.search import stemming
from toolcrib.search.stemming import stem, stemmer

ENDINGS = (
    "s sses ies ss ed ing eed y ational tional enci izer logi bli ousli ization ator alism iveness biliti icate ative "
    "alize iciti ical ful ness al ance er able ement ment ent ion tion sion ou ism ate iti ous ive ize e ll at bl iz"
).split()

MORE_ENDINGS = (
    "anci alli entli eli ation fulness ousness aliti iviti ical ence ant ic ible ent ly ted ized bled sion tted ssed"
).split()


def stems_of_sqlite(words: list[str]) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'porter unicode61')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
        connection.executemany("INSERT INTO t(rowid, x) VALUES (?, ?)", enumerate(words))
        return [row[0] for row in connection.execute("SELECT term FROM v ORDER BY doc")]


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
    ],
)
def test_a_word_has_its_stem(word: str, expected: str):
    assert stem(word) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.text("abcdeiouylstz", min_size=4, max_size=6), st.sampled_from(ENDINGS)), min_size=1))
def test_stems_are_those_of_the_full_text_table(pairs: list[tuple[str, str]]):
    words = [start + ending for start, ending in pairs]
    assert [stem(word) for word in words] == stems_of_sqlite(words)


def test_every_ending_after_stems_of_every_shape_is_cut_as_in_the_full_text_table():
    starts = (
        "t s o is tr oat tie ski play hop box stew trac happ fail fizz roll control conform radic sensit oper".split()
    )
    endings = (*ENDINGS, *MORE_ENDINGS)
    words = [start + ending for start in starts for ending in endings]
    words += [
        start + one + other for start in starts[-8:] for one in endings for other in ("s", "ed", "ing", "e", "ly")
    ]
    words += ["as", "is", "ies", "tied", "bled", "sing", *(f"{'ab' * half}s" for half in (31, 32)), "a" * 63 + "s"]
    assert dict(zip(words, map(stem, words), strict=True)) == dict(zip(words, stems_of_sqlite(words), strict=True))


@given(st.text(max_size=80))
def test_any_text_has_a_stem(word: str):
    assert isinstance(stem(word), str)


def test_a_stemmer_forgets_before_it_grows_too_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stemming, "_MEMORY_MAX", 3)
    remembering: Any = stemmer()
    for number in range(10):
        assert remembering(f"words{number}") == stem(f"words{number}")
        assert remembering.cache_info().currsize <= 3


def test_a_stemmer_remembers_as_many_words_as_it_may(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stemming, "_MEMORY_MAX", 3)
    asked: list[str] = []
    monkeypatch.setattr(stemming, "stem", lambda word: asked.append(word) or word)
    remembering = stemmer()
    for word in ("one", "two", "three", "one", "two", "three"):
        remembering(word)
    assert asked == ["one", "two", "three"]
