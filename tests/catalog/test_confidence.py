"""How sure an answer says it is, and what it says where it is not."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builders import (
    GUEST,
    ISSUES,
    REAL_CATALOG,
    World,
    guests_without,
    listing,
    opened,
    permitted,
    real_listing,
    record,
)

from toolcrib.base.model import SearchType
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.search.confidence import CERTAINTY, MEANINGS, NO_EVIDENCE, Evidence, explained
from toolcrib.search.documents import confidence_of

Said = Callable[[dict[str, str], str], tuple[str, str | None, str | None]]
"""Tells confidence, note and the name of the first match."""

IMPOSSIBLE = (
    "water the tomatoes on the balcony",
    "bake a birthday cake with strawberries",
    "hum a lullaby until I fall asleep",
    "shave my beard",
    "carry the groceries upstairs",
    "knit mittens for grandma",
    "feed the neighbour's goldfish",
    "polish my leather boots",
    "massage my aching shoulders",
    "change the tyre of my bicycle",
)


@pytest.fixture(scope="module")
def real_world(tmp_path_factory: pytest.TempPathFactory):
    files = sorted(REAL_CATALOG.glob("*.json"))
    if not files:
        pytest.skip("the lists of real servers are not here")
    with opened(tmp_path_factory.mktemp("cache") / "tool_cache.db") as world:
        world.listed(*map(real_listing, files))
        yield world


@pytest.mark.slow
def test_a_request_that_nothing_can_serve_is_not_answered_with_confidence(real_world: World):
    catalog = real_world.catalog()
    everything = permitted(catalog)
    results = [real_world.searcher.search(SearchRequest(query), catalog, everything) for query in IMPOSSIBLE]
    assert sum(result.confidence == "high" for result in results) <= len(IMPOSSIBLE) // 4
    assert all(result.note for result in results if result.confidence != "high")


@pytest.mark.slow
def test_a_request_in_a_tools_own_words_is_answered_with_confidence(real_world: World):
    catalog = real_world.catalog()
    everything = permitted(catalog)
    for query in (
        "search github repositories",
        "list kubernetes pods in a namespace",
        "take a screenshot of the page",
        "execute a sql query on clickhouse",
    ):
        assert real_world.searcher.search(SearchRequest(query), catalog, everything).confidence == "high", query


def test_a_weak_answer_is_labelled_and_not_cut(world: World, ask):
    world.listed(ISSUES)
    result = ask(world, "zebra giraffe elephant code")
    assert [match.document.name for match in result.matches] == ["search_code"]
    assert result.confidence == "low"
    assert result.note


def test_confidence_does_not_depend_on_the_limit(world: World, ask):
    world.listed(ISSUES)
    for query in ("open a new issue", "zebra giraffe code"):
        assert len({ask(world, query, limit=limit).confidence for limit in (1, 2, 8)}) == 1


@pytest.mark.parametrize("more", ["level", "coverage", "gap", "length"])
def test_more_evidence_never_makes_an_answer_less_sure(world: World, ask, more: str):
    world.listed(ISSUES)
    matches = ask(world, "merge").matches
    order: list[str] = [*MEANINGS][::-1]
    steps = [step / 4 for step in range(1, 5)]
    for level, coverage, gap, length in itertools.product(steps, steps, steps, (1, 2, 4, 8)):
        little = Evidence(level, coverage, gap, words=1, length=length)
        much = replace(little, length=2 * length) if more == "length" else replace(little, **{more: 1.0})
        assert little.strength <= much.strength <= 1
        less, sure = (order.index(confidence_of(matches, each, 0.1)) for each in (little, much))
        assert less <= sure


def test_where_nothing_is_known_nothing_is_said_to_be_unlikely(world: World, ask):
    world.listed(ISSUES)
    matches = ask(world, "merge").matches
    assert confidence_of(matches, NO_EVIDENCE, 0.1) == "low"
    assert confidence_of(matches, Evidence(0.1, 0.1, 0.1, 1), 0.1) == "none"
    assert confidence_of(matches, CERTAINTY, 0.1) == "high"


def test_a_clause_that_is_judged_alone_makes_a_long_request_surer(world: World, ask):
    world.listed(ISSUES)
    clause = "merge a pull request"
    rest = "Our crew meets on Tuesday and likes porridge with raisins."
    assert ask(world, f"{rest} {clause}").strength > ask(world, f"{rest[:-1]} {clause}").strength


def test_each_word_says_what_it_means():
    assert [explained(word) for word in MEANINGS] == [
        "confidence high: the first is right",
        "confidence low: likely among these, look before you call",
        "confidence none: none of these is likely",
    ]
    assert explained("low", "load").endswith("look before you load")


def test_the_documents_say_the_same_of_each_word():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    for word, meaning in MEANINGS.items():
        assert f"| `{word}` | {meaning.format(use='call')} |" in page


class TestSeveralQueries:
    """Short lines are queries of their own."""

    def test_each_line_gives_its_best_hit(self, world: World, ask):
        world.listed(ISSUES, listing("s", *(record("s", f"issue_{n}", "Issues, issues, issues.") for n in range(20))))
        result = ask(world, "issues\nmerge a pull request\nsearch code", limit=4)
        found = [match.document.public_name for match in result.matches]
        assert {"github__merge_pull_request", "github__search_code"} <= set(found)
        assert len(found) == len(set(found)) == 4

    def test_they_are_ordered_by_score_and_found_once(self, world: World, ask):
        world.listed(ISSUES)
        result = ask(world, "create issue\nlist issues\n\n create issue ", limit=8)
        assert [match.score for match in result.matches] == sorted(
            (match.score for match in result.matches), reverse=True
        )
        assert {match.document.name for match in result.matches[:2]} == {"create_issue", "list_issues"}
        assert len({match.document.name for match in result.matches}) == len(result.matches)

    def test_the_score_of_a_hit_does_not_depend_on_the_limit(self, world: World, ask):
        world.listed(ISSUES)
        query = "open a new issue\nmerges of a repository"
        scores = [
            {match.document.name: match.score for match in ask(world, query, limit=n).matches} for n in (1, 2, 3, 8)
        ]
        assert all(few.items() <= more.items() for few, more in itertools.pairwise(scores))

    def test_the_ones_without_a_likely_answer_are_named(self, world: World, ask):
        world.listed(ISSUES)
        result = ask(world, "merge pull request\nzebra")
        assert result.confidence == "low"
        assert '"zebra"' in result.note
        assert "merge" not in result.note
        assert ask(world, "zebra\ngiraffe").confidence == "none"

    def test_a_long_text_on_several_lines_is_one_query(self, world: World, ask):
        world.listed(ISSUES)
        text = "Please go through everything that has piled up over the last few weeks in the repository,\nthen merge."
        assert ask(world, text) == ask(world, text.replace("\n", " "))

    def test_a_pattern_or_a_name_is_never_split(self, world: World, ask):
        world.listed(ISSUES)
        assert ask(world, "issue\ncode", "regex").matches == ()
        assert [match.document.name for match in ask(world, "list\nissues", "exact").matches] == ["list_issues"]


def test_a_thousand_denied_tools_change_no_byte_of_any_answer(tmp_path):
    queries = [
        "open a new isue",
        "merge requsts",
        "search code\nlist things",
        "zebra",
        "number 7 issue in the repository",
        "list_issues",
    ]
    answers = []
    for count in (0, 1000):
        hidden = [
            record("hidden", f"isue_{number}", f"Isue zebra requsts number {number} list.") for number in range(count)
        ]
        with opened(tmp_path / f"{count}.db") as world:
            catalog = world.listed(listing("hidden", *hidden), ISSUES)
            some = catalog.permitted(guests_without("hidden.*").permissions(GUEST))
            results = [
                world.searcher.search(SearchRequest(query, SearchType(kind)), catalog, some)
                for query in queries
                for kind in ("fts", "exact")
            ]
            shown = [
                [(match.document.public_name, match.score, match.match_type) for match in each.matches]
                for each in results
            ]
            answers.append(repr((shown, [(each.confidence, each.note) for each in results])))
    assert answers[0] == answers[1]


GIT = {
    "git_status": "Shows the working tree status",
    "git_diff_unstaged": "Shows changes in the working directory that are not yet staged",
    "git_diff_staged": "Shows changes that are staged for commit",
    "git_diff": "Shows differences between branches or commits",
    "git_commit": "Records changes to the repository",
    "git_add": "Adds file contents to the staging area",
    "git_reset": "Unstages all staged changes",
    "git_log": "Shows the commit logs",
    "git_branch": "Lists the branches of a git repository",
}
WEATHER = {"get_forecast": "Returns the weather forecast of a city for some days"}
CLOCK = {
    "get_current_time": "Get current time in a specific timezone",
    "convert_time": "Convert time between timezones",
}


class TestFewTools:
    """What is said of a match is true also where there are only a few tools, and every word is common."""

    @pytest.fixture
    def said(self, tmp_path: Path) -> Said:
        def ask(tools: dict[str, str], query: str) -> tuple[str, str | None, str | None]:
            with opened(tmp_path / "tool_cache.db") as world:
                world.listed(listing("s", *(record("s", name, text) for name, text in tools.items())))
                found = world.search(query)
                return found.confidence, found.note, found.matches[0].document.name if found.matches else None

        return ask

    @pytest.mark.parametrize(
        ("tools", "query", "first"),
        [
            ({"alpha": "alpha thing"}, "alpha thing", "alpha"),
            ({"alpha_thing": "does it"}, "alpha", "alpha_thing"),
            (WEATHER, "forecast city", "get_forecast"),
            (WEATHER, "weather of a city", "get_forecast"),
            (CLOCK, "convert", "convert_time"),
            (CLOCK, "current time", "get_current_time"),
            (GIT, "commit logs", "git_log"),
            (GIT, "list branches", "git_branch"),
        ],
    )
    def test_the_one_that_fits_is_certain(self, tools, query, first, said):
        assert said(tools, query) == ("high", None, first)

    @pytest.mark.parametrize(("tools", "query"), [(GIT, "git"), (CLOCK, "timezone"), (GIT, "show changes")])
    def test_where_several_fit_it_says_so(self, tools, query, said):
        confidence, note, _ = said(tools, query)
        assert confidence == "low"
        assert note == "Several tools fit about equally; say what it should do, and to what."

    @pytest.mark.parametrize(
        ("tools", "query", "note"),
        [
            (WEATHER, "book a table in a restaurant of the city", "No tool has most of these words"),
            (WEATHER, "city map", "Only this tool has any of these words."),
            (GIT, "tomatoes", "No tool has any of these words"),
            (GIT, "deploy the repository to a cluster", "No tool has most of these words"),
        ],
    )
    def test_what_hardly_fits_is_not_certain(self, tools, query, note, said):
        confidence, told, _ = said(tools, query)
        assert confidence != "high"
        assert note in told
