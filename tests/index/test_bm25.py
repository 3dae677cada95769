"""Fielded BM25 in memory."""

from toolcrib.index.bm25 import FIELD_COUNT, FieldedBm25
from toolcrib.index.stemming import Stemmer


def documents(*texts: str, field: int = 1) -> list[tuple[str, ...]]:
    return [tuple(text if place == field else "" for place in range(FIELD_COUNT)) for text in texts]


def ranked(ranker: FieldedBm25, *words: str) -> list[int]:
    scores = ranker.scores(words)
    return sorted(scores, key=lambda number: -scores[number])


def test_documents_with_more_of_the_words_come_first():
    ranker = FieldedBm25(documents("paint a wall", "paint", "cut wood"), Stemmer())
    assert ranked(ranker, "paint", "wall") == [0, 1]


def test_rare_words_count_more():
    ranker = FieldedBm25(documents("list issues", "list users", "list files"), Stemmer())
    assert ranked(ranker, "list", "users")[0] == 1


def test_words_match_by_their_stem():
    ranker = FieldedBm25(documents("creates connections"), Stemmer())
    assert ranked(ranker, "connecting") == [0]


def test_a_word_in_the_name_counts_more_than_one_in_a_parameter():
    name, parameter = documents("issue", field=0) + documents("issue", field=4)
    scores = FieldedBm25([parameter, name], Stemmer()).scores(["issue"])
    assert scores[1] > scores[0] > 0


def test_a_short_text_counts_more_than_a_long_one():
    scores = FieldedBm25(documents("issue " + "other " * 50, "issue here"), Stemmer()).scores(["issue"])
    assert scores[1] > scores[0]


def test_unknown_words_and_no_documents_score_nothing():
    assert FieldedBm25([], Stemmer()).scores(["x"]) == {}
    assert FieldedBm25(documents("a"), Stemmer()).scores(["x"]) == {}
    assert FieldedBm25(documents("a"), Stemmer()).scores([]) == {}


def test_a_word_given_twice_counts_once():
    ranker = FieldedBm25(documents("issue list", "list"), Stemmer())
    assert ranker.scores(["issue", "issues", "issue"]) == ranker.scores(["issue"])
