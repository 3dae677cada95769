"""The search that tools and skills share, over plain texts: it knows documents by their numbers only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.base.spellings import Spellings
from toolcrib.base.text import joined, search_text
from toolcrib.errors import BadRequest
from toolcrib.model import SearchType
from toolcrib.search.bm25 import Field
from toolcrib.search.documents import KEPT_MAX, Kind
from toolcrib.search.engine import Engine, SearchSettings, separate
from toolcrib.search.matches import Found, Match, Reason, Request


@dataclass(frozen=True, eq=False)
class Texts:
    """Some documents: a name and what is said of it, in rows that are not their numbers."""

    said: Mapping[str, str]

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.said)

    @property
    def in_order(self) -> Sequence[int]:
        return tuple(100 + number for number in range(len(self.said)))


@dataclass
class Scope:
    documents: Texts
    numbers: frozenset[int] | None = None
    emptiness: str = ""

    def document(self, number: int) -> str:
        return self.documents.names[number]

    def named(self, query: str, *, as_written: bool) -> Mapping[int, Reason]:
        same = [name for name in self.documents.names if as_written and name == query]
        called = same or self._spellings.get(joined(query), ())
        return {number: "exact_name" for number in map(self.documents.names.index, called) if self._may(number)}

    def begun(self, query: str) -> Iterable[int]:
        return filter(self._may, map(self.documents.names.index, self._spellings.beginning(query)))

    def spellings(self, number: int) -> Sequence[str]:
        return (self.documents.names[number],)

    def tie_break(self, match: Match[int]) -> tuple[int | str, ...]:
        return (self.documents.names[match.document],)

    @property
    def _spellings(self) -> Spellings[str]:
        return Spellings((joined(name), name) for name in self.documents.names)

    def _may(self, number: int) -> bool:
        return self.numbers is None or number in self.numbers


class World:
    """An engine over some texts. ``read`` has the rows whose words were asked for; ``gone`` one that is not there."""

    gone: int | None = None

    def __init__(self, said: Mapping[str, str], *, plain_beginnings: bool = False) -> None:
        self.documents, self.read = Texts(said), list[int]()
        kind = Kind("text", (Field(3, 0.4), Field(1, 0.3)), self._words, self._texts, plain_beginnings)
        self.engine: Engine[str] = Engine(kind, SearchSettings())

    def search(self, query: str, kind: str = "fts", *, limit: int = 8, among: Iterable[str] | None = None):
        numbers = None if among is None else frozenset(map(self.documents.names.index, among))
        request = Request(query, SearchType(kind), limit)
        return self.engine.search(request, Scope(self.documents, numbers))

    def _words(self, rows: Sequence[int]) -> Mapping[int, Sequence[str]]:
        self.read += rows
        pairs = zip(self.documents.in_order, self.documents.said.items(), strict=True)
        return {row: tuple(map(search_text, pair)) for row, pair in pairs if row in rows and row != self.gone}

    def _texts(self, rows: Sequence[int]) -> Mapping[int, Sequence[str]]:
        return dict(zip(rows, ((said,) for said in self.documents.said.values()), strict=True))


SAID = {
    "create_issue": "Opens a new one in a project.",
    "create_issue_comment": "Answers to one.",
    "list_issues": "Shows all issues of a project.",
    "list_files": "Shows all files of a folder.",
    "merge_branch": "Joins two branches of a project.",
    "export": "Writes a list of everything to a file.",
}


@pytest.fixture
def world() -> World:
    return World(SAID)


def names(found: Found[str]) -> list[str]:
    return [match.document for match in found.matches]


def reasons(found: Found[str]) -> list[Reason]:
    return [match.reason for match in found.matches]


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
        assert world.read == [*world.documents.in_order]

    def test_what_is_quick_is_known(self, world: World):
        def quick(query: str = "merge", kind: SearchType = SearchType.FTS) -> bool:
            return world.engine.is_quick(Request(query, kind), world.documents)

        assert not quick()
        world.search("merge")
        assert quick()
        assert quick(kind=SearchType.EXACT)
        assert not quick(kind=SearchType.REGEX)
        assert not quick("merge\nlist")
        for _ in range(KEPT_MAX):
            world.engine.search(Request("merge"), Scope(Texts(SAID)))
        assert not quick()

    def test_a_row_that_is_gone_is_a_document_without_words(self):
        world = World(SAID)
        world.gone = world.documents.in_order[0]
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


@settings(max_examples=100, deadline=None)
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
