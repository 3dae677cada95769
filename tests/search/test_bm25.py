"""Fielded BM25 in memory."""

from plain_texts import bm25_of

from toolcrib.search.english import stem
from toolcrib.search.ranking import Field, FieldedBm25

FIELDS = (Field(3, 0.4), Field(2, 0.3), Field(0.5, 0.6))


def documents(*texts: str, field: int = 1) -> list[tuple[str, ...]]:
    return [tuple(text if place == field else "" for place in range(len(FIELDS))) for text in texts]


def bm25(*documents: tuple[str, ...]) -> FieldedBm25:
    return bm25_of(documents, stem, FIELDS)


def ranked(ranker: FieldedBm25, *stems: str) -> list[int]:
    scores = ranker.scores(dict.fromkeys(stems, 1.0))
    return sorted(scores, key=lambda number: -scores[number])


def test_documents_with_more_of_the_words_come_first():
    assert ranked(bm25(*documents("paint a wall", "paint", "cut wood")), "paint", "wall") == [0, 1]


def test_rare_words_count_more():
    ranker = bm25(*documents("list issues", "list users", "list files"))
    assert ranked(ranker, "list", "user")[0] == 1
    assert ranker.rarity_max == ranker.rarity("nowhere") > ranker.rarity("user") > ranker.rarity("list") > 0


def test_documents_are_kept_by_the_stems_of_their_words():
    ranker = bm25(*documents("creates connections", "connecting"))
    assert "connect" in ranker
    assert "creat" in ranker
    assert "connections" not in ranker
    assert sorted(ranker.having("connect", [0, 1])) == [0, 1]
    assert list(ranker.having("connect", [1])) == [1]
    assert list(ranker.having("nowhere", [0, 1])) == []


def test_counted_stems_are_as_good_as_a_text():
    counted = [({}, {"creat": 1, "connect": 2}, {})]
    texts = documents("creates connections, connected".replace(",", ""))
    weights = {"connect": 1.0}
    assert bm25(*texts).scores(weights) == bm25_of(counted, stem, FIELDS).scores(weights)


def test_a_word_in_the_name_counts_more_than_one_elsewhere():
    ranker = bm25(*documents("issue", field=2), *documents("issue", field=0))
    scores = ranker.scores({"issu": 1.0})
    assert scores[1] > scores[0] > 0
    assert [tuple(ranker.name(number)) for number in range(2)] == [(), ("issu",)]


def test_a_short_text_counts_more_than_a_long_one():
    scores = bm25(*documents("issue " + "other " * 50, "issue here")).scores({"issu": 1.0})
    assert scores[1] > scores[0]


def test_a_word_counts_by_its_weight():
    ranker = bm25(*documents("issue list", "list"))
    assert ranker.scores({"list": 0.5})[1] == 0.5 * ranker.scores({"list": 1.0})[1]


def test_unknown_words_and_no_documents_score_nothing():
    assert bm25().scores({"x": 1.0}) == {}
    assert bm25(*documents("a")).scores({"x": 1.0}) == {}
    assert bm25(*documents("a")).scores({}) == {}


def test_a_word_that_most_documents_have_in_a_field_counts_for_nothing_there():
    documents = [(f"name{number}", "subscription other") for number in range(30)]
    documents[7] = ("subscription", "subscription rare")
    ranked = bm25_of(documents, str, [Field(1, 0.5), Field(1, 0.5, common=0.4)])
    assert set(ranked.scores({"subscription": 1.0})) == {7}
    assert set(ranked.scores({"rare": 1.0})) == {7}
    assert not ranked.scores({"other": 1.0})
    assert [word for word in ("subscription", "rare", "other", "absent") if word in ranked] == ["subscription", "rare"]


def test_a_word_that_most_names_have_is_no_part_of_a_name():
    named = [(f"same name{number}", "text") for number in range(30)]
    ranked = bm25_of(named, str, [Field(1, 0.5, common=0.4), Field(1, 0.5)])
    assert list(ranked.name(7)) == ["name7"]


def test_in_a_few_documents_no_word_is_common():
    ranked = bm25_of([("a", "same"), ("b", "same")], str, [Field(1, 0.5), Field(1, 0.5, common=0.4)])
    assert set(ranked.scores({"same": 1.0})) == {0, 1}
