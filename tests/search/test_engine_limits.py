"""Where the shared search stops, and what scores it gives: the limits that callers may rely on, at the limit."""

from collections.abc import Mapping, Sequence

import pytest
from plain_texts import SAID, Scope, Texts, World, bm25_of, names, reasons

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import SearchType
from toolcrib.base.text import QUERY_MAX, search_text
from toolcrib.search.documents import CACHED_MAX, Found, Request
from toolcrib.search.engine import separate
from toolcrib.search.english import stem
from toolcrib.search.ranking import Field, Ranked, Relevance

FIELDS = (Field(3, 0.4), Field(1, 0.3))


@pytest.fixture
def world() -> World:
    return World(SAID)


def ranked(said: Mapping[str, str], query: str) -> Ranked:
    """Rank texts by their words alone."""
    texts = [tuple(map(search_text, pair)) for pair in said.items()]
    return Relevance(bm25_of(texts, stem, FIELDS), stem, {}).rank(query, None, 100)


def squeezed(relevance: float) -> float:
    return relevance / (10 + relevance)


def spread(relevances: Sequence[float]) -> list[object]:
    """Return relevances as scores: below one by ten in the denominator, then from the least to the greatest."""
    low, high = squeezed(min(relevances)), squeezed(max(relevances))
    return [pytest.approx((squeezed(each) - low) / (high - low), abs=0.0051) for each in relevances]


def scores(found: Found[str]) -> list[float]:
    return [match.score for match in found.matches]


class TestScores:
    def test_they_are_relevances_squeezed_and_spread(self):
        said = {"alpha": "wood wall", "beta": "wood", "gamma": "a wall of wood and wood", "delta": "sand"}
        found = World(said).search("wood wall")
        relevances = [value for _, value in ranked(said, "wood wall").matches]
        assert scores(found) == spread(relevances)
        assert scores(found)[0] == 1
        assert scores(found)[-1] == 0
        assert all(score == round(score, 2) for score in scores(found))

    def test_a_name_that_begins_so_leads_the_best_by_words_by_a_quarter(self):
        said = {"wood_wall_one": "sand", "wood_wall_two": "sand", "other": "wood wall", "beta": "wood"}
        found = World(said).search("wood_wall")
        texts = {[*said][number]: value for number, value in ranked(said, "wood_wall").matches}
        assert reasons(found) == ["prefix", "prefix", "text", "text"]
        best = texts["other"]
        assert scores(found) == spread([1.25 * best, 1.25 * best, best, texts["beta"]])

    def test_fifty_candidates_are_scored_besides_names(self):
        said = {f"name{'x' * number}": "wood" + " sand" * number for number in range(70)}
        found = World({**said, "wood": "wall"}).search("wood", limit=200)
        assert reasons(found).count("exact_name") == 1
        assert len(found.matches) == found.count == 51
        assert scores(found)[-1] == 0

    def test_names_that_begin_so_are_of_the_fifty(self):
        said = {f"wood_{number:02}": "sand" for number in range(20)} | {f"text{number}": "wood" for number in range(60)}
        found = World(said, plain_beginnings=True).search("wood", limit=200)
        assert [reasons(found).count(reason) for reason in ("prefix", "text")] == [20, 30]


class TestBeginnings:
    @pytest.mark.parametrize(("query", "is_long_enough"), [("lis", True), ("l-i", False), ("l_is", True)])
    def test_three_letters_or_digits_are_a_beginning(self, query: str, is_long_enough: bool):
        found = World(SAID, plain_beginnings=True).search(query)
        assert ("prefix" in reasons(found)) is is_long_enough

    @pytest.mark.parametrize(
        ("query", "is_name"),
        [
            ("list_f", True),
            ("list.f", True),
            ("list/f", True),
            ("list:f", True),
            ("list-f", True),
            ("listF", True),
            ("list_", True),
            ("list.", False),
            ("list", False),
            ("LIST", False),
            ("list files", False),
        ],
    )
    def test_what_is_written_like_a_name_is_the_beginning_of_one(self, query: str, is_name: bool):
        said = {**SAID, "zebra": "list files"}
        assert ("prefix" in reasons(World(said).search(f" {query} "))) is is_name

    def test_with_a_name_that_is_whole_the_others_are_not_less_sure(self, world: World):
        assert world.search("create_issue").confidence == "high"

    def test_one_name_of_several_words_away_from_the_best_by_words_is_not_sure(self):
        said = {"merge_branch": "Joins.", "merge_all": "Joins.", "other": "merge merge bra merge_b"}
        found = World(said).search("merge_")
        assert reasons(found)[:2] == ["prefix", "prefix"]
        assert found.confidence == "low"

    def test_a_beginning_alone_is_sure_only_where_it_is_written_like_a_name(self):
        said = {"merge_branch": "Joins.", "list": "Shows.", "export": "Writes."}
        assert World(said).search("merge_b").confidence == "high"
        assert (World(said).search("mer").strength, World(said).search("mer").confidence) == (0, "low")

    def test_the_note_speaks_of_the_first(self):
        said = {"create_issue": "One.", "create_item": "Two.", "zebra": "create i"}
        found = World(said).search("create_i")
        assert reasons(found) == ["prefix", "prefix", "text"]
        assert found.note == "The names of these texts only begin like this."


class TestSeveralQueries:
    def test_eight_lines_of_eighty_characters_are_eight_queries(self):
        assert separate("\n".join("abcdefgh")) == list("abcdefgh")
        assert separate("\n".join("abcdefghi")) == ["\n".join("abcdefghi")]
        assert separate(f"a\n{'b' * 80}") == ["a", "b" * 80]
        assert separate(f"a\n{'b' * 81}") == [f"a\n{'b' * 81}"]

    def test_one_line_is_one_query_and_a_line_twice_is_one(self):
        assert separate("a b") == ["a b"]
        assert separate("a\na") == ["a\na"]
        assert separate(" a \n\n b ") == ["a", "b"]

    def test_only_as_many_characters_count_as_of_one_query(self):
        long = "a\n" * QUERY_MAX
        assert separate(long) == ["a\n" * (QUERY_MAX // 2)]
        assert separate("x" * (QUERY_MAX + 1)) == ["x" * QUERY_MAX]
        assert World(SAID).search("export\n" + " " * QUERY_MAX + "list files").matches[1:] == ()

    def test_it_is_as_sure_as_its_weakest(self, world: World):
        one, other = world.search("merge branches"), world.search("folder zebra")
        both = world.search("merge branches\nfolder zebra")
        assert one.strength != other.strength
        assert both.strength == min(one.strength, other.strength)

    def test_each_in_turn_gives_its_next(self):
        said = {"one": "wood wood", "two": "wood", "three": "sand sand", "four": "sand", "five": "iron"}
        found = World(said).search("wood\nsand", limit=3)
        assert set(names(found)) == {"one", "three", "two"}
        assert (found.count, found.truncated) == (4, True)

    def test_what_two_of_them_find_has_its_better_score(self):
        said = {"one": "wood wall", "two": "wood", "three": "wall wall", "four": "wall"}
        parts = [
            dict(zip(names(each), scores(each), strict=True)) for each in map(World(said).search, ("wood", "wall"))
        ]
        both = World(said).search("wood\nwall")
        for name, score in zip(names(both), scores(both), strict=True):
            assert score == max(part.get(name, 0) for part in parts), name
        assert scores(both) == sorted(scores(both), reverse=True)

    def test_with_nothing_to_find_the_note_says_that_alone(self):
        found = World(SAID).engine.search(Request("merge\nlist"), Scope(Texts({}), emptiness="There are no texts."))
        assert found.note == "There are no texts."

    def test_where_all_are_clear_there_is_no_note(self, world: World):
        assert world.search("export\nmerge_branch").note is None

    def test_a_pattern_and_a_name_are_one_query(self, world: World):
        assert world.search("list_files\nexport", "regex").matches == ()
        assert world.search("list_files\nexport", "exact").matches == ()


class TestNames:
    def test_only_as_written_where_some_are_written_so(self):
        said = {"listFiles": "a", "list_files": "b"}
        assert names(World(said).search("list_files", "exact")) == ["list_files"]
        assert sorted(names(World(said).search("LIST-FILES", "exact"))) == ["listFiles", "list_files"]

    def test_in_a_search_by_words_every_spelling_of_the_name_counts(self):
        found = World({"listFiles": "a", "list_files": "b", "other": "list"}).search("list_files")
        assert dict(zip(names(found), reasons(found), strict=True)) == {
            "listFiles": "exact_name",
            "list_files": "exact_name",
            "other": "text",
        }

    def test_of_a_longer_query_the_first_characters_are_the_name(self):
        name = "n" * QUERY_MAX
        assert names(World({name: "a"}).search(f"{name}x", "exact")) == [name]

    def test_a_name_is_not_scored_once_more_by_words(self):
        found = World({"export": "export export", "other": "export"}).search("export")
        assert names(found) == ["export", "other"]
        assert scores(found) == [1.0, 0.5]


class TestWhatIsQuick:
    def test_fifteen_hundred_documents_are(self):
        for count, is_quick in ((1500, True), (1501, False)):
            world = World({f"n{number}": "wood" for number in range(count)})
            world.search("wood")
            assert world.engine.is_quick(Request("wood"), world.documents) is is_quick

    def test_a_name_is_looked_up_quickly_whatever_has_been_made(self, world: World):
        assert world.engine.is_quick(Request("merge", SearchType.EXACT), world.documents)

    def test_a_request_of_five_hundred_and_twelve_characters_is(self, world: World):
        world.search("merge")
        for length, is_quick in ((512, True), (513, False)):
            assert world.engine.is_quick(Request("merge".ljust(length)), world.documents) is is_quick

    def test_what_slips_are_looked_up_in_is_there_by_then(self, world: World, monkeypatch: pytest.MonkeyPatch):
        world.search("merge")
        monkeypatch.setattr("toolcrib.search.postings.Lexicon.learn", None)
        assert world.search("mergd").matches

    def test_as_many_sets_of_documents_are_kept_as_told(self, world: World):
        world.search("merge")
        for _ in range(CACHED_MAX - 1):
            world.engine.search(Request("merge"), Scope(Texts(SAID)))
        assert world.engine.is_quick(Request("merge"), world.documents)


class TestPatterns:
    def test_texts_are_looked_at_only_where_too_few_names_match(self):
        said = {"list_files": "a", "list_users": "b", "other": "list"}
        assert names(World(said).search("list", "regex", limit=2)) == ["list_files", "list_users"]
        assert names(World(said).search("list", "regex", limit=3)) == ["list_files", "list_users", "other"]

    def test_of_a_row_that_is_gone_only_the_name_is_tried(self, world: World):
        world.documents.gone = world.documents.in_order[1]
        assert names(world.search("Answers|create_issue_c", "regex")) == ["create_issue_comment"]
        assert names(world.search("Answers", "regex")) == []

    def test_only_what_may_be_found_is_tried(self, world: World):
        assert names(world.search("list|a list", "regex", among=["export", "list_files"])) == ["list_files", "export"]

    def test_the_kind_of_match_is_told(self, world: World):
        found = world.search("list_files", "regex")
        assert [(match.score, match.match_type) for match in found.matches] == [(0.95, SearchType.REGEX)]
        assert found.confidence == "high"
        assert world.search("everything to a", "regex").confidence == "low"

    def test_a_long_one_is_refused(self, world: World):
        world.search("x" * 256, "regex")
        with pytest.raises(BadRequest, match="257 characters; at most 256"):
            world.search("x" * 257, "regex")
