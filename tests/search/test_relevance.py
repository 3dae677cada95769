"""What each mechanism of the ranking adds, on documents so small that it can be worked out by hand."""

from collections.abc import Collection, Mapping, Sequence

import pytest
from plain_texts import bm25_of

from toolcrib.search.confidence import NO_EVIDENCE, Evidence
from toolcrib.search.english import stem
from toolcrib.search.query import read_verbs
from toolcrib.search.ranking import Context, Field, Ranked, Relevance, boosted, supported

FIELDS = (Field(1, 0), Field(1, 0))
"""A name and a text, alike, of which length does not count."""

UNKNOWN = [f"zz{one}{other}" for one in "qxyz" for other in "abcdefgh"]
MEANT = {"create": ("make", "add"), "add": ("create",)}
MANY_WORDS = "paint red green blue wall house door table chair".split()
REPAIRED, SYNONYM, BESIDE = 0.7, 0.4, 0.35
COVERAGE, NAME_COVERAGE = 0.75, 0.9


class Shelf:
    """Documents with the ranking of them, and the scores by BM25 alone that it begins with."""

    def __init__(self, *documents: tuple[str, str]) -> None:
        self.bm25 = bm25_of(documents, str, FIELDS)
        self._relevance = Relevance(self.bm25, str, MEANT)

    def rank(self, query: str, among: Sequence[int] | None = None, count: int = 10) -> Ranked:
        return self._relevance.rank(query, None if among is None else frozenset(among), count)

    def relevances(self, query: str, among: Sequence[int] | None = None) -> Mapping[int, float]:
        return dict(self.rank(query, among).matches)

    def numbers(self, query: str, among: Sequence[int] | None = None, count: int = 10) -> list[int]:
        return [number for number, _ in self.rank(query, among, count).matches]

    def score(self, number: int, **weights: float) -> float:
        """Return the score of a document by BM25 alone, for these words."""
        return self.bm25.scores(weights)[number]

    def share(self, part: Sequence[str], whole: Sequence[str]) -> float:
        """Return how much of the rarity of ``whole`` these words have."""
        return sum(map(self.bm25.rarity, part)) / sum(map(self.bm25.rarity, whole))


def texts(*texts: str) -> list[tuple[str, str]]:
    return [("", text) for text in texts]


def alike(value: float) -> object:
    return pytest.approx(value, rel=1e-5)


class TestCoverage:
    """How much of the query a document has, and how much of its name the query has."""

    def test_a_document_with_the_whole_query_gains_three_quarters(self):
        shelf = Shelf(*texts("paint wall", "paint", "cut wood"))
        score = shelf.score(0, paint=1, wall=1)
        assert shelf.relevances("paint wall")[0] == alike(score * (1 + COVERAGE))

    def test_a_document_with_a_part_gains_by_how_rare_the_part_is(self):
        shelf = Shelf(*texts("paint wall", "paint", "wall hut", "wall tree", "cut wood"))
        gain = 1 + COVERAGE * shelf.share(["paint"], ["paint", "wall"])
        assert shelf.relevances("paint wall")[1] == alike(shelf.score(1, paint=1) * gain)
        assert shelf.relevances("paint wall")[1] > shelf.relevances("paint wall")[2]

    def test_a_word_that_stands_nowhere_is_missed_as_the_rarest_would_be(self):
        shelf = Shelf(*texts("paint wall", "cut wood"))
        gain = 1 + COVERAGE * shelf.share(["paint"], ["paint", "zzz"])
        assert shelf.relevances("paint zzz")[0] == alike(shelf.score(0, paint=1) * gain)

    def test_a_query_that_has_all_of_a_name_gains_nine_tenths(self):
        shelf = Shelf(("paint wall", ""), ("cut", ""))
        score = shelf.score(0, paint=1, wall=1)
        assert shelf.relevances("wall paint")[0] == alike(score * (1 + COVERAGE) * (1 + NAME_COVERAGE))

    def test_a_query_with_a_part_of_a_name_gains_by_how_rare_the_part_is(self):
        shelf = Shelf(("paint wall", ""), ("cut wall", ""), ("saw", ""))
        gain = (1 + COVERAGE) * (1 + NAME_COVERAGE * shelf.share(["wall"], ["wall", "paint"]))
        assert shelf.relevances("wall")[0] == alike(shelf.score(0, wall=1) * gain)

    def test_small_words_and_numbers_of_a_name_need_not_be_said(self):
        shelf = Shelf(("paint of the wall 2", ""), ("saw", ""))
        assert shelf.relevances("paint wall")[0] == alike(
            shelf.score(0, paint=1, wall=1) * (1 + COVERAGE) * (1 + NAME_COVERAGE)
        )

    def test_a_short_name_beats_a_long_one_with_the_same_words(self):
        assert Shelf(("list open issues", ""), ("list issues", "")).numbers("list issues") == [1, 0]

    def test_in_long_lists_of_documents_it_is_the_same(self):
        many = texts(*(["paint wall" if number % 3 else "paint" for number in range(400)]))
        shelf = Shelf(*many)
        for among in ([0, 1], [399], [0, 399], [398, 399]):
            found = shelf.relevances("paint wall", among=among)
            assert found.keys() == set(among)
            for number, value in found.items():
                words = {"paint": 1, "wall": 1} if number % 3 else {"paint": 1}
                gain = 1 + COVERAGE * shelf.share([*words], ["paint", "wall"])
                assert value == alike(shelf.score(number, **words) * gain), number


class TestOtherSpellings:
    """A word that stands nowhere is looked for as what it may be meant for."""

    def test_a_slip_counts_seven_tenths_of_the_word(self):
        shelf = Shelf(*texts("paint wall", "cut wood"))
        gain = 1 + COVERAGE * REPAIRED
        assert shelf.relevances("paimt")[0] == alike(shelf.score(0, paint=REPAIRED) * gain)

    def test_a_word_that_is_there_is_not_looked_for_in_another_spelling(self):
        assert Shelf(*texts("paint", "point")).numbers("point") == [1]

    def test_it_may_be_meant_for_the_two_words_that_most_documents_have(self):
        shelf = Shelf(*texts("paina", "pains", "pains hut", "paint", "paint tree", "paint hut"))
        assert sorted(shelf.numbers("painx")) == [1, 2, 3, 4, 5]

    def test_it_is_as_rare_as_what_it_is_meant_for(self):
        shelf = Shelf(*texts("paint wall", "paint", "paint hut", "wall"))
        gain = 1 + COVERAGE * shelf.share(["wall"], ["wall", "paint"])
        assert shelf.relevances("paimt wall")[3] == alike(shelf.score(3, wall=1) * gain)

    def test_of_words_as_common_it_is_meant_for_the_first(self):
        assert sorted(Shelf(*texts("painc", "paina", "painb")).numbers("painx")) == [1, 2]

    def test_the_right_spelling_beats_the_repaired_one(self):
        shelf = Shelf(*texts("paint", "wall"))
        assert shelf.numbers("paimt wall") == [1, 0]

    def test_two_words_written_as_one_are_both_looked_for(self):
        shelf = Shelf(*texts("paint wall", "paint", "cut wood"))
        gain = 1 + COVERAGE * REPAIRED
        found = shelf.relevances("paintwall")
        assert found[0] == alike(shelf.score(0, paint=REPAIRED, wall=REPAIRED) * gain)
        assert found.keys() == {0, 1}

    def test_both_parts_have_to_be_there(self):
        assert Shelf(*texts("paint wall", "cut wood")).numbers("painthouse") == []
        assert Shelf(*texts("paint wall", "cut wood")).numbers("housepaint") == []

    def test_a_part_has_three_letters_at_least(self):
        assert Shelf(*texts("box art", "boxes")).numbers("boxart") == [0]
        assert Shelf(*texts("at car", "boxes")).numbers("carat") == []
        assert Shelf(*texts("at car", "boxes")).numbers("atcar") == []

    def test_of_a_very_long_word_only_the_beginning_is_tried(self):
        long, longer = "b" * 37, "b" * 38
        assert Shelf(*texts(f"box {long}", "cut")).numbers(f"{long}box") == [0]
        assert Shelf(*texts(f"box {longer}", "cut")).numbers(f"{longer}box") == []

    def test_two_words_that_are_one_elsewhere_find_that_one(self):
        shelf = Shelf(*texts("paintwall", "paint", "wall", "cut wood"))
        found = shelf.relevances("paint wall")
        # each of both words is in "paintwall" to seven tenths
        assert found[0] == alike(shelf.score(0, paintwall=REPAIRED) * (1 + COVERAGE * REPAIRED))
        assert found.keys() == {0, 1, 2}

    def test_a_word_that_is_there_itself_counts_in_full_beside_the_joined_one(self):
        shelf = Shelf(*texts("paint paintwall", "wall", "paint hut"))
        shares = [shelf.share([word], ["paint", "wall"]) for word in ("paint", "wall")]
        gain = 1 + COVERAGE * (shares[0] + REPAIRED * shares[1])
        assert shelf.relevances("paint wall")[0] == alike(shelf.score(0, paint=1, paintwall=REPAIRED) * gain)

    def test_only_neighbours_are_taken_together(self):
        shelf = Shelf(*texts("paintwall", "red"))
        assert shelf.numbers("paint red wall") == [1]

    def test_a_joined_word_that_is_asked_for_itself_counts_in_full(self):
        shelf = Shelf(*texts("paintwall", "cut wood"))
        found = shelf.relevances("paintwall paint wall")
        # all three words are in it: one as it stands, and so the others in full too
        assert found[0] == alike(shelf.score(0, paintwall=1) * (1 + COVERAGE))


class TestSynonyms:
    """Words that mean much the same."""

    def test_one_counts_two_fifths(self):
        shelf = Shelf(*texts("add wood", "create tree"))
        assert shelf.relevances("create")[0] == alike(shelf.score(0, add=SYNONYM))

    def test_beside_the_word_itself_it_counts_a_third_of_that(self):
        shelf = Shelf(*texts("create add", "create", "add", "hut", "tree"))
        score = shelf.score(0, create=1, add=SYNONYM * BESIDE)
        assert shelf.relevances("create")[0] == alike(score * (1 + COVERAGE))

    def test_one_that_most_documents_have_does_not_count(self):
        assert Shelf(*texts(*["add"] * 9, "hut")).numbers("create") == []

    def test_a_rare_one_tells_no_more_than_the_word_that_it_stands_for(self):
        shelf = Shelf(*texts("add", "create", "create", "create", "hut", "tree"))
        share = shelf.bm25.rarity("create") / shelf.bm25.rarity("add")
        assert shelf.relevances("create")[0] == alike(shelf.score(0, add=SYNONYM * share))

    def test_it_stands_for_a_word_that_no_document_has_too(self):
        assert Shelf(*texts("add wood", "cut tree")).numbers("create") == [0]

    def test_those_of_a_word_add_up(self):
        shelf = Shelf(*texts("add make", "tree", "hut"))
        assert shelf.relevances("create")[0] == alike(shelf.score(0, add=SYNONYM, make=SYNONYM))

    def test_it_is_no_part_of_the_query_that_a_document_has(self):
        shelf = Shelf(*texts("add wall", "create"))
        gain = 1 + COVERAGE * shelf.share(["wall"], ["wall", "create"])
        assert shelf.relevances("create wall")[0] == alike(shelf.score(0, add=SYNONYM, wall=1) * gain)

    def test_a_word_of_the_query_keeps_its_weight(self):
        shelf = Shelf(*texts("add", "create"))
        gain = 1 + COVERAGE * shelf.share(["add"], ["add", "create"])
        assert shelf.relevances("create add")[0] == alike(shelf.score(0, add=1) * gain)

    def test_what_a_word_may_be_a_misspelling_of_has_synonyms_too(self):
        assert Shelf(*texts("create", "add")).numbers("creete") == [0, 1]

    def test_in_a_name_it_counts_in_part(self):
        shelf = Shelf(("add", ""), ("create", ""))
        score = shelf.score(0, add=SYNONYM)
        assert shelf.relevances("create")[0] == alike(score * (1 + NAME_COVERAGE * SYNONYM))


class TestSmallWords:
    """Words that say nothing."""

    def test_they_do_not_count_beside_others(self):
        shelf = Shelf(*texts("how about it", "paint"))
        assert shelf.numbers("how about paint") == [1]

    def test_they_count_where_nothing_else_is_found(self):
        assert Shelf(*texts("how about it", "paint")).numbers("how about zzz") == [0]

    def test_nothing_is_found_for_no_word(self):
        shelf = Shelf(*texts("paint"))
        for query in ("", "?!", "zzz"):
            assert shelf.rank(query) == Ranked((), NO_EVIDENCE)


class TestWhatIsFound:
    """How many, of which, in what order."""

    def test_a_word_is_known_that_a_document_has_in_any_form(self):
        relevance = Relevance(bm25_of([("", "paints walls")], stem, FIELDS), stem, {})
        assert relevance.knows("walls")
        assert relevance.knows("wall")
        assert relevance.knows("painting")
        assert not relevance.knows("hut")

    def test_only_those_among_which_one_may_search(self):
        shelf = Shelf(*texts("paint", "paint wall", "paint hut"))
        assert sorted(shelf.numbers("paint", among=[0, 2])) == [0, 2]
        assert shelf.rank("paint", among=[]) == Ranked((), NO_EVIDENCE)

    def test_no_more_than_asked_for(self):
        shelf = Shelf(*texts(*["paint"] * 5))
        assert shelf.numbers("paint", count=2) == [0, 1]
        assert shelf.numbers("paint", count=9) == [0, 1, 2, 3, 4]

    def test_best_first_and_equal_ones_in_order(self):
        shelf = Shelf(*texts("wall", "paint", "wall", "paint wall"))
        assert shelf.numbers("paint wall") == [3, 1, 0, 2]
        assert Shelf(*texts("wall", "paint")).numbers("paint wall") == [0, 1]

    def test_a_hundred_by_words_alone_are_weighed_whatever_the_number_asked_for(self):
        """One with the name, last of a hundred by words alone, comes first; as the hundred and first it is not seen."""
        for before, found in ((99, 99), (100, 0)):
            shelf = Shelf(*texts(*["paint paint"] * before), ("paint", ""), *texts(*["hut"] * 10))
            assert shelf.numbers("paint", count=1) == [found], before

    def test_of_those_alike_by_words_alone_the_first_are_weighed(self):
        for alike_before, is_found in ((39, True), (40, False)):
            better, equal = ["paint paint"] * 60, ["paint"] * alike_before
            shelf = Shelf(*texts(*equal, *better), ("paint", ""), *texts("paint", *["hut"] * 10))
            numbers = shelf.numbers("paint", count=100)
            assert len(numbers) == 100
            assert (numbers[0] == 60 + alike_before) is is_found
            assert {*range(60 + alike_before)} <= {*numbers}


class TestEvidence:
    """What speaks for the first, comparable between queries."""

    def test_nothing_speaks_for_nothing(self):
        assert Shelf(*texts("paint")).rank("zzz").evidence == Evidence(level=0, coverage=0, gap=0, words=0)

    def test_the_level_is_one_half_where_the_relevance_is_that_of_two_of_the_rarest_words(self):
        shelf = Shelf(*texts("paint wall", "cut wood", "saw"))
        for query in ("paint", "paint wall"):
            ranked = shelf.rank(query)
            highest, much = ranked.matches[0][1], 2 * 1.17 * shelf.bm25.rarity_of_one
            assert ranked.evidence.level == alike(highest / (highest + much))

    def test_a_query_of_more_than_sixteen_words_needs_more_in_proportion(self):
        shelf = Shelf(*texts("paint wall", "cut wood", "saw"))
        for others, factor in ((15, 1), (16, 17 / 16), (31, 2)):
            ranked = shelf.rank(" ".join(["paint", *UNKNOWN[:others]]))
            rare, coverage = shelf.bm25.rarity_max, ranked.evidence.coverage
            telling = rare + coverage * (1.17 * shelf.bm25.rarity_of_one - rare)
            highest, much = ranked.matches[0][1], 2 * telling * factor
            assert ranked.evidence.level == alike(highest / (highest + much)), others

    def test_among_very_many_the_rarest_words_are_those_that_stand_nowhere(self):
        shelf = Shelf(*texts(*(["wall hut"] * 1999), "paint"))
        ranked = shelf.rank("paint")
        highest, much = ranked.matches[0][1], 2 * shelf.bm25.rarity_max
        assert ranked.evidence.level == alike(highest / (highest + much))

    def test_no_document_does_what_people_ask_for_so_where_nobody_asks_for_anything_so(self):
        assert Shelf(*texts("paint wall")).rank("paint").evidence.served == 0

    def test_the_words_are_the_largest_share_that_any_of_them_has_each_counted_the_same(self):
        shelf = Shelf(*texts("paint wall", "cut wood", "paint wood hut"))
        assert shelf.rank("paint wall").evidence.words == 1
        assert shelf.rank("paint zzz").evidence.words == alike(0.5)
        assert shelf.rank("paimt wood yyy zzz").evidence.words == alike(0.5)
        assert shelf.rank("paint wood hut yyy zzz").evidence.words == alike(0.6)

    def test_of_the_words_those_do_not_count_that_only_say_that_something_is_wanted(self):
        shelf = Shelf(*texts("paint wall", "recommend wall", "cut wood"))
        assert shelf.rank("recommend paint zzz").evidence.words == alike(0.5)
        assert shelf.rank("recommend suggestions").evidence.words == alike(0.5)
        assert shelf.rank("recommend zzz").evidence.words == 0

    def test_the_coverage_is_the_share_of_the_query_that_the_first_has(self):
        shelf = Shelf(*texts("paint wall", "cut wood"))
        assert shelf.rank("paint wall").evidence.coverage == alike(1)
        assert shelf.rank("paimt").evidence.coverage == alike(REPAIRED)
        assert shelf.rank("paint wood").evidence.coverage == alike(0.5)

    def test_the_gap_is_how_far_the_second_is_behind(self):
        shelf = Shelf(*texts("paint wall", "paint", "cut wood"))
        (_, first), (_, second) = shelf.rank("paint wall").matches
        assert shelf.rank("paint wall").evidence.gap == alike((first - second) / first)
        assert shelf.rank("wood").evidence.gap == 1
        assert Shelf(*texts("paint", "paint")).rank("paint").evidence.gap == 0

    def test_it_speaks_of_the_first_of_all_also_where_one_is_asked_for(self):
        shelf = Shelf(*texts("paint wall", "paint", "cut wood"))
        assert shelf.rank("paint wall", count=2).evidence == shelf.rank("paint wall", count=10).evidence


class TestActions:
    """What the request asks to be done, and what a document does."""

    def test_what_does_something_else_comes_after_what_does_what_is_asked(self):
        documents = texts("remove branch", "remove branch", "remove branch")
        does = {0: "list", 1: "", 2: "delete"}
        verbs = read_verbs(stem)
        actions = iter([verbs.performed(does[number], "", "") for number in does])
        bm25 = bm25_of(documents, stem, FIELDS, lambda _texts: next(actions))
        found = Relevance(bm25, stem, {}, verbs).rank("remove branch", None, 3).matches
        assert [number for number, _ in found] == [1, 2, 0]
        assert found[0][1] == found[1][1] > found[2][1]

    def test_less_speaks_for_a_first_that_does_something_else(self):
        verbs = read_verbs(stem)

        def evidence(does: str) -> Evidence:
            bm25 = bm25_of(texts("remove branch"), stem, FIELDS, lambda _texts: verbs.performed(does, "", ""))
            return Relevance(bm25, stem, {}, verbs).rank("remove branch", None, 3).evidence

        assert evidence("delete") == evidence("")
        assert evidence("list").strength < evidence("delete").strength


class TestParts:
    """Long requests that ask for several things."""

    def with_bonus(self, shelf: Shelf, *parts: str) -> dict[int, float]:
        """Return what each document found for all of these parts has, if each part lifts its own twenty best."""
        whole = dict(shelf.rank(" ".join(parts), count=100).matches)
        of_parts = [dict(shelf.rank(part, among=[*whole], count=20).matches) for part in parts]
        shares = [{number: value / max(each.values()) for number, value in each.items()} for each in of_parts if each]
        most = max(whole.values())
        raised = {
            number: value + 0.3 * most * max((each.get(number, 0) for each in shares), default=0)
            for number, value in whole.items()
        }
        least = sorted(raised.values())[-min(len(parts), len(raised))]
        for each in of_parts:
            for first in [*each][:1]:
                raised[first] = max(raised[first], least)
        return raised

    @pytest.mark.parametrize(
        "documents",
        [
            [*(" ".join(MANY_WORDS[less:]) for less in range(5)), "post letter", "hut"],
            [
                "post wall",
                "paint letter",
                "post letter wall",
                " ".join(MANY_WORDS),
                "chair",
                "table door",
                "hut",
                "tree",
            ],
            [*["post letter red"] * 25, *["letter"] * 3, " ".join(MANY_WORDS), "paint house", *["hut"] * 9],
            [*(" ".join(MANY_WORDS[less:]) for less in range(7)), "letter", "hut"],
            ["paint letter", "hut", "tree"],
            ["paint wall red", "chair", "hut"],
        ],
        ids=["one for a part", "some for both", "many for a part", "a weak one", "fewer than parts", "none for a part"],
    )
    def test_what_a_part_is_best_answered_by_gains_up_to_three_tenths_of_the_best(self, documents: list[str]):
        shelf, parts = Shelf(*texts(*documents)), (" ".join(MANY_WORDS), "post letter")
        found = dict(shelf.rank(", then ".join(parts), count=100).matches)
        assert found == {number: alike(value) for number, value in self.with_bonus(shelf, *parts).items()}

    def test_the_best_for_each_part_is_among_the_first(self):
        shelf = Shelf(*texts(*(" ".join(MANY_WORDS[less:]) for less in range(5)), "post letter", "hut"))
        asked = "paint the red green blue wall house door table chair, then post the letter"
        assert 5 in shelf.numbers(asked)[:3]
        in_one = asked.replace(", then", " and")
        assert shelf.relevances(asked)[5] > shelf.relevances(in_one)[5]

    def test_of_a_long_request_what_speaks_for_the_first_is_taken_from_a_part_that_it_is_best_for_too(self):
        shelf = Shelf(*texts("paint wall red", "cut wood", "hut"))
        part, others = "paint the red wall", f"then {' '.join(UNKNOWN[:8])}"
        alone, together = shelf.rank(part).evidence, shelf.rank(f"{part}, {others}").evidence
        assert together.coverage == alike(1)
        assert together.level == alike(alone.level)
        in_one = shelf.rank(f"{part} {others}".replace("then ", "")).evidence
        assert in_one.coverage < 0.5
        assert in_one.level < together.level

    def test_a_part_that_another_is_best_for_says_nothing_of_the_first(self):
        shelf = Shelf(*texts(" ".join((*MANY_WORDS, "post letter")), "post post letter letter", "hut"))
        part = " ".join((*MANY_WORDS[1:], *UNKNOWN[:2]))
        asked = shelf.rank(f"{part}, then post the letter")
        assert asked.matches[0][0] == 0
        whole = shelf.rank(f"{part} post the letter").evidence
        assert asked.evidence.coverage == alike(whole.coverage)
        assert whole.coverage < 1


class TestLessons:
    """What use has taught, in a ranking that stands."""

    SAID = Evidence(level=0.6, coverage=0.9, gap=0.1, words=0.5)

    def boosted(self, matches: Mapping[int, float], **lessons: Mapping[int, float]) -> Ranked:
        evidence = self.SAID if matches else NO_EVIDENCE
        return boosted(Ranked(tuple(matches.items()), evidence), lessons, {"paint": 3.0, "wall": 1.0}.__getitem__)

    def test_a_document_gains_four_tenths_of_the_best_for_as_much_of_the_query_as_was_taught_for_it(self):
        ranked = self.boosted({0: 20.0, 1: 10.0, 2: 8.0}, paint={1: 0.5}, wall={1: 0.8, 2: 0.9})
        share = (0.5 * 3 + 0.8 * 1) / 4
        assert ranked.matches == ((0, 20), (1, alike(10 + 0.4 * share * 20)), (2, 8))
        assert ranked.evidence == self.SAID

    def test_what_was_taught_for_less_than_three_tenths_of_it_is_as_it_was(self):
        before = {0: 20.0, 1: 19.0}
        assert self.boosted(before, paint={}, wall={1: 0.99}).matches == tuple(before.items())
        assert self.boosted(before, paint={1: 0.4}, wall={}).matches[0] == (1, alike(19 + 0.4 * 0.3 * 20))

    def test_what_the_texts_say_speaks_for_no_other_document_that_comes_first(self):
        ranked = self.boosted({0: 20.0, 1: 19.0}, paint={1: 0.9})
        assert [number for number, _ in ranked.matches] == [1, 0]
        assert ranked.evidence == Evidence(level=0, coverage=0, gap=0, words=0.5)

    def test_where_no_text_matches_what_was_taught_is_found_without_evidence(self):
        ranked = self.boosted({}, paint={5: 0.5, 4: 0.5})
        assert ranked == Ranked(((4, 0.2), (5, 0.2)), NO_EVIDENCE)


class TestContext:
    """What is said about groups of documents, in a ranking that stands: even and odd numbers are two groups."""

    SAID = Evidence(level=0.6, coverage=0.9, gap=0.1, words=0.5)
    MEMBERS: Mapping[str, Sequence[int]] = {"even": range(0, 20, 2), "odd": range(1, 20, 2)}

    def supported(
        self, matches: Mapping[int, float], among: Collection[int] | None = None, *, even: str = "", odd: str = ""
    ) -> Ranked:
        stems = {"even": frozenset(even.split()), "odd": frozenset(odd.split())}
        context = Context(stems, self.MEMBERS, lambda number: "odd" if number % 2 else "even")
        ranked = Ranked(tuple(matches.items()), self.SAID if matches else NO_EVIDENCE)
        rarities = {"paint": 3.0, "wall": 1.0}
        return supported(ranked, context, frozenset(rarities), rarities.__getitem__, among)

    def test_a_document_gains_a_tenth_of_the_best_for_as_much_of_the_query_as_is_said_about_its_group(self):
        ranked = self.supported({0: 20.0, 1: 10.0, 3: 8.0}, odd="wall tile")
        assert ranked.matches == ((0, 20), (1, alike(10 + 0.1 * 0.25 * 20)), (3, alike(8 + 0.1 * 0.25 * 20)))
        assert ranked.evidence == self.SAID

    def test_where_nothing_of_the_query_is_said_about_any_group_all_is_as_it_was(self):
        before = Ranked(((0, 20.0), (1, 10.0)), self.SAID)
        assert self.supported(dict(before.matches), even="tile", odd="roof") == before

    def test_what_the_texts_say_speaks_for_no_other_document_that_comes_first(self):
        ranked = self.supported({0: 20.0, 1: 19.0}, odd="paint wall")
        assert [number for number, _ in ranked.matches[:2]] == [1, 0]
        assert ranked.evidence == Evidence(level=0, coverage=0, gap=0, words=0.5)

    def test_five_of_a_group_are_found_about_which_most_of_the_query_is_said(self):
        ranked = self.supported({}, odd="paint", even="wall")
        assert ranked.matches == tuple((number, alike(0.075)) for number in (1, 3, 5, 7, 9))
        assert ranked.evidence == NO_EVIDENCE

    def test_only_those_are_found_that_the_search_may_find(self):
        ranked = self.supported({}, among=(2, 9, 11), odd="paint wall")
        assert [number for number, _ in ranked.matches] == [9, 11]

    def test_one_that_is_found_by_its_own_words_keeps_what_they_are_worth(self):
        ranked = self.supported({1: 20.0}, odd="paint")
        assert ranked.matches[0] == (1, alike(20 + 0.1 * 0.75 * 20))
