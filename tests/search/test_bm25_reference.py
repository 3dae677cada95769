"""Fielded BM25 gives what its formula says: Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009."""

from collections.abc import Mapping, Sequence
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_texts import bm25_of

from toolcrib.search.ranking import Field

K1 = 1.8
VOCABULARY: Sequence[str] = "alpha beta gamma delta epsilon".split()

texts = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join)
documents = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=24)
fields = st.builds(Field, st.floats(0.1, 4), st.floats(0, 1), st.sampled_from([0.2, 0.5, 1.0]))


def rarity(having: int, size: int) -> float:
    return log(1 + (size - having + 0.5) / (having + 0.5))


def expected(texts: Sequence[Sequence[str]], fields: Sequence[Field], term: str) -> Mapping[int, float]:
    """Work out the score of one word for every document, term by term as the formula is written."""
    split = [[text.split() for text in document] for document in texts]
    if len(split) >= 20:
        for place, field in enumerate(fields):
            for word in VOCABULARY:
                share = sum(word in document[place] for document in split) / len(split)
                if field.common < 1 and share > field.common:
                    for document in split:
                        document[place] = [each for each in document[place] if each != word]
    averages = [sum(len(document[place]) for document in split) / len(split) for place in range(len(fields))]
    frequencies: dict[int, float] = {}
    for number, document in enumerate(split):
        for field, words, average in zip(fields, document, averages, strict=True):
            if term in words:
                length = 1 - field.b + field.b * len(words) / average
                frequencies[number] = frequencies.get(number, 0) + field.weight * words.count(term) / length
    rare = rarity(len(frequencies), len(split))
    return {number: rare * (K1 + 1) * value / (K1 + value) for number, value in frequencies.items()}


@settings(max_examples=80)
@given(texts=documents, fields=st.tuples(fields, fields, fields), weights=st.tuples(*[st.floats(0.1, 2)] * 2))
def test_scores_are_those_of_the_formula(
    texts: list[tuple[str, str, str]], fields: tuple[Field, Field, Field], weights: tuple[float, float]
):
    ranker = bm25_of(texts, str, fields)
    asked = dict(zip(VOCABULARY, weights, strict=False))
    wanted: dict[int, float] = {}
    for term, weight in asked.items():
        for number, score in expected(texts, fields, term).items():
            wanted[number] = wanted.get(number, 0) + weight * score
    assert ranker.scores(asked) == pytest.approx(wanted, rel=1e-5)


@settings(max_examples=30)
@given(texts=documents)
def test_a_word_is_the_rarer_the_fewer_documents_have_it(texts: list[tuple[str, str, str]]):
    ranker = bm25_of(texts, str, [Field(1, 0.5)] * 3)
    for word in VOCABULARY:
        having = [number for number, document in enumerate(texts) if word in " ".join(document).split()]
        assert sorted(ranker.having(word, range(len(texts)))) == having
        assert ranker.frequency(word) == len(having)
        assert ranker.rarity(word) == pytest.approx(rarity(len(having), len(texts)))
    assert ranker.rarity_max == pytest.approx(rarity(0, len(texts)))
    assert ranker.size == len(texts)


def test_a_word_is_common_in_a_field_from_twenty_documents_on():
    def scored(count: int) -> set[int]:
        same = [("", "same") for _ in range(count)]
        return set(bm25_of(same, str, [Field(1, 0.5), Field(1, 0.5, common=0.5)]).scores({"same": 1.0}))

    assert scored(19) == set(range(19))
    assert scored(20) == set()


def test_a_word_that_just_the_common_share_has_still_counts():
    texts = [("", "half" if number % 2 else "other") for number in range(40)]
    ranker = bm25_of(texts, str, [Field(1, 0.5), Field(1, 0.5, common=0.5)])
    assert len(ranker.scores({"half": 1.0})) == 20


def test_where_a_field_names_no_share_every_word_counts():
    assert len(bm25_of([("same",)] * 30, str, [Field(1, 0.5)]).scores({"same": 1.0})) == 30


def test_the_words_of_a_name_keep_their_order():
    ranker = bm25_of([("list open issues", "a list"), ("", "x")], str, [Field(1, 0)] * 2)
    assert [tuple(ranker.name(number)) for number in range(2)] == [("list", "open", "issues"), ()]
