"""The search that tools and skills share, over plain texts: it knows documents by their numbers only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_texts import SAID, Scope, Texts, World, names, reasons

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import SearchType
from toolcrib.search.documents import CACHED_MAX, Request
from toolcrib.search.engine import separate


@pytest.fixture
def world() -> World:
    return World(SAID)


class TestNames:
    def test_the_whole_name_comes_first_then_names_that_begin_so_then_words(self, world: World):
        found = world.search("create_issue")
        assert names(found)[:2] == ["create_issue", "create_issue_comment"]
        assert reasons(found)[:3] == ["exact_name", "prefix", "text"]
        assert [match.match_type for match in found.matches[:2]] == [SearchType.EXACT, SearchType.FTS]
        assert (found.confidence, found.note) == ("high", None)

    @pytest.mark.parametrize("query", ["merge_br", "mergeBr", "merge-br", "merge_", "MERGE/B"])
    def test_the_only_name_that_begins_like_a_name_is_certain(self, world: World, query: str):
        found = world.search(query)
        assert (names(found)[0], reasons(found)[0]) == ("merge_branch", "prefix")
        assert (found.confidence, found.note) == ("high", None)

    def test_several_names_that_begin_so_are_not_certain_and_the_note_says_why(self, world: World):
        found = world.search("create_iss")
        assert names(found)[:2] == ["create_issue", "create_issue_comment"]
        assert (found.confidence, found.note) == ("low", "The names of these texts only begin like this.")

    def test_one_match_alone_scores_one_half_however_it_was_found(self):
        world = World({"merge_branch": "Joins.", "list": "Shows."})
        assert [match.score for match in world.search("merge_br").matches] == [0.5]

    def test_a_plain_word_is_left_to_the_ranking(self, world: World):
        found = world.search("list")
        assert set(reasons(found)) == {"text"}
        assert names(found) == names(world.search("lists"))

    def test_half_a_word_that_words_do_not_find_is_the_beginning_of_a_name(self, world: World):
        found = world.search("expo")
        assert (names(found), reasons(found), found.confidence) == (["export"], ["prefix"], "low")

    def test_half_a_sentence_is_no_name(self, world: World):
        assert "prefix" not in reasons(world.search("create is"))

    def test_where_plain_beginnings_count_they_come_before_words(self):
        found = World(SAID, plain_beginnings=True).search("list")
        assert reasons(found) == ["prefix", "prefix", "text"]
        assert names(found)[-1] == "export"

    def test_two_letters_are_the_beginning_of_too_many_names(self):
        assert "prefix" not in reasons(World(SAID, plain_beginnings=True).search("li"))

    def test_what_may_not_be_found_makes_nothing_less_certain(self, world: World):
        found = world.search("create_is", among=["create_issue", "list_files"])
        assert (names(found), found.confidence) == (["create_issue"], "high")

    def test_of_very_many_names_fifty_are_scored(self):
        world = World({f"item_{number:03}": "One." for number in range(80)})
        found = world.search("item_0", limit=200)
        assert (len(found.matches), found.count) == (50, 50)
        assert names(found) == sorted(names(found))


class TestSeveralQueries:
    def test_each_line_is_a_query(self, world: World):
        found = world.search("merge branches\nshow files", limit=2)
        assert set(names(found)) == {"merge_branch", "list_files"}
        assert found.truncated

    def test_the_count_is_of_different_documents(self, world: World):
        found = world.search("merge\nmerge branch", limit=1)
        assert (len(found.matches), found.count) == (1, 1)

    def test_a_name_comes_before_an_equal_score_by_words(self, world: World):
        found = world.search("show all issues\nexport")
        assert [(match.document, match.score) for match in found.matches[:2]] == [("export", 1.0), ("list_issues", 1.0)]

    def test_the_unclear_ones_are_named(self, world: World):
        assert (
            world.search("merge branch\nzebra").note
            == 'Nothing likely for "zebra"; try other words for the same thing.'
        )

    def test_many_lines_and_long_lines_are_one_query(self):
        assert separate("a\nb\n\n a ") == ["a", "b"]
        assert len(separate("\n".join("abcdefghi"))) == 1
        assert len(separate("a\n" + "b" * 81)) == 1


class TestWhatIsMade:
    def test_words_of_some_documents_are_read_once(self, world: World):
        for query in ("merge", "list files", "export\nmerge"):
            world.search(query)
        world.search("merge", among=["export"])
        assert world.documents.read == [*world.documents.in_order]

    def test_what_is_quick_is_known(self, world: World):
        def quick(query: str = "merge", kind: SearchType = SearchType.FTS) -> bool:
            return world.engine.is_quick(Request(query, kind), world.documents)

        assert not quick()
        world.search("merge")
        assert quick()
        assert quick(kind=SearchType.EXACT)
        assert not quick(kind=SearchType.REGEX)
        assert not quick("merge\nlist")
        for _ in range(2 * CACHED_MAX):
            world.engine.search(Request("merge"), Scope(Texts(SAID)))
        assert not quick()

    def test_the_first_request_that_may_be_in_another_language_is_not_quick(self, world: World):
        def quick(query: str) -> bool:
            return world.engine.is_quick(Request(query), world.documents)

        world.search("merge")
        assert not quick("Datenbank sichern")
        assert quick("what does the merge")
        assert names(world.search("Zweig zusammenführen")) == names(world.search("branch merge"))
        assert quick("Datenbank sichern")

    def test_a_row_that_is_gone_is_a_document_without_words(self):
        world = World(SAID)
        world.documents.gone = world.documents.in_order[0]
        assert world.search("create issue").matches[0].document == "create_issue"
        assert "create_issue" not in names(world.search("opens a new one"))


def test_nothing_to_find_is_said_in_the_words_of_whoever_knows(world: World):
    found = world.engine.search(Request("merge"), Scope(Texts({}), emptiness="There are no texts."))
    assert (found.matches, found.confidence, found.note) == ((), "none", "There are no texts.")


def test_a_pattern_is_tried_on_names_and_texts(world: World):
    found = world.search("issue|^Joins", "regex", limit=20)
    assert {match.document: match.score for match in found.matches} == {
        "create_issue": 0.85,
        "create_issue_comment": 0.85,
        "list_issues": 0.85,
        "merge_branch": 0.75,
    }
    with pytest.raises(BadRequest, match="RE2"):
        world.search("(", "regex")


phrases = st.lists(st.sampled_from("create list issue file merge zebra the a\nb create_is".split(" ")), min_size=1)


@given(query=phrases.map(" ".join), kind=st.sampled_from(["fts", "exact", "regex"]), limit=st.integers(1, 6))
def test_more_than_wanted_is_counted_and_the_order_does_not_depend_on_the_limit(query: str, kind: str, limit: int):
    world = World(SAID)
    whole, some = (world.search(query, kind, limit=each) for each in (20, limit))
    keys = [(-match.score, match.reason) for match in whole.matches]
    assert [score for score, _ in keys] == sorted(score for score, _ in keys)
    assert whole.count == len(whole.matches)
    assert not whole.truncated
    if "\n" not in query:
        assert some.matches == whole.matches[:limit]
    if kind != "regex":
        assert (some.count, some.truncated) == (whole.count, whole.count > limit)
        assert (some.confidence, some.strength) == (whole.confidence, whole.strength)


class TestLosses:
    """What a document loses for a reason outside its words."""

    @staticmethod
    def search(world: World, query: str, **losses: float):
        numbers = {world.documents.names.index(name): lost for name, lost in losses.items()}
        return world.engine.search(Request(query), Scope(world.documents, losses=numbers))

    def test_it_is_taken_off_the_score_which_stays_within_its_bounds(self, world: World):
        before = {match.document: match.score for match in world.search("issues of a project").matches}
        losses = dict.fromkeys(before, 0.1)
        after = {match.document: match.score for match in self.search(world, "issues of a project", **losses).matches}
        assert after == {name: pytest.approx(max(score - 0.1, 0.0)) for name, score in before.items()}

    def test_what_the_query_names_loses_nothing(self, world: World):
        found = self.search(world, "export", export=0.5)
        assert (names(found)[0], found.matches[0].score, found.confidence) == ("export", 1.0, "high")

    def test_another_first_match_is_not_certain(self, world: World):
        assert world.search("merge branch project").confidence == "high"
        found = self.search(world, "joins two branches of a project", merge_branch=1.0)
        assert names(found)[0] != "merge_branch"
        assert found.confidence == "low"

    @given(
        st.dictionaries(st.sampled_from(sorted(SAID)), st.floats(0, 2)),
        st.sampled_from(["list", "a project", "export"]),
    )
    def test_the_matches_stay_the_same_and_in_the_order_of_their_scores(self, losses, query):
        world = World(SAID)
        found = self.search(world, query, **losses)
        scores = [match.score for match in found.matches]
        assert sorted(names(found)) == sorted(names(world.search(query)))
        assert scores == sorted(scores, reverse=True)
        assert all(0.0 <= score <= 1.0 for score in scores)


class TestLessons:
    """What use has taught about the words of a query."""

    @given(
        st.dictionaries(
            st.sampled_from(["list", "a", "project", "shelf", "export", "files", "expo"]),
            st.dictionaries(st.integers(0, len(SAID) - 1), st.floats(0.01, 0.99)),
        ),
        st.sampled_from(["list", "a project", "shelf", "export", "expo", "files of the shelf", "joins two branches"]),
    )
    def test_whatever_was_taught_an_answer_is_no_surer_and_one_that_is_sure_stays_as_it_is(self, taught, query):
        world = World(SAID)
        before = world.search(query)
        after = world.engine.search(Request(query), Scope(world.documents, taught=taught))
        assert after.strength <= before.strength
        assert set(names(before)) <= set(names(after))
        if before.confidence == "high":
            assert after == before
        else:
            assert after.confidence in {"low", before.confidence}
        scores = [match.score for match in after.matches]
        assert scores == sorted(scores, reverse=True)
        assert all(0.0 <= score <= 1.0 for score in scores)

    def test_a_name_that_begins_with_the_query_stays_before_what_only_use_has_taught(self):
        world = World(SAID)
        found = world.engine.search(Request("expo"), Scope(world.documents, taught={"expo": {0: 0.8}}))
        assert names(found) == ["export", world.documents.names[0]]
        assert reasons(found)[0] == "prefix"
