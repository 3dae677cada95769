"""The beginning of a tool's name finds that tool, where it is written like one."""

import pytest
from builders import GUEST, ISSUES, World, guests_without, listing, names, opened, record, scores

from toolcrib.base.model import SearchType, SideEffects
from toolcrib.catalog.tool_search import SearchRequest


@pytest.mark.parametrize("query", ["merge_pull", "mergePull", "github__merge_p", "GITHUB.mergep", "merge-pull-re"])
def test_it_comes_first_and_is_no_whole_name(world: World, ask, query: str):
    world.listed(ISSUES, listing("s", record("s", "pull", "Merges, merges a pull request, pulls.")))
    first = ask(world, query).matches[0]
    assert (first.document.name, first.match_type) == ("merge_pull_request", SearchType.FTS)


def test_it_comes_after_the_tool_that_is_called_so(world: World, ask):
    world.listed(listing("s", record("s", "list_issues"), record("s", "list_issue", "Shows."), record("s", "issue")))
    found = ask(world, "list_issue")
    assert names(found) == ["s__list_issue", "s__list_issues", "s__issue"]
    assert (scores(found), found.confidence) == ([1.0, 1.0, 0.0], "high")


def test_several_are_ordered_like_all_that_score_alike(world: World, ask):
    tools = [record("s", "paint_wall_blue"), record("s", "paint_wall"), record("s", "paint_wood")]
    pure = record("s", "paint_whole_house", side_effects=SideEffects.PURE)
    world.listed(listing("s", *tools, pure))
    assert names(ask(world, "paint_w")) == [
        "s__paint_whole_house",
        "s__paint_wall",
        "s__paint_wood",
        "s__paint_wall_blue",
    ]


def test_a_plain_word_is_searched_as_a_word(world: World, ask):
    world.listed(listing("s", record("s", "mailchimp_audience", "Counts."), record("s", "send_mail", "Sends a mail.")))
    assert names(ask(world, "mail")) == ["s__send_mail"]


def test_tools_that_a_caller_may_not_use_make_no_other_less_certain(tmp_path):
    found = []
    for count in (0, 30):
        hidden = [record("hidden", f"merge_pull_{number}") for number in range(count)]
        with opened(tmp_path / f"{count}.db") as world:
            catalog = world.listed(ISSUES, listing("hidden", *hidden))
            some = catalog.permitted(guests_without("hidden.*").permissions(GUEST))
            result = world.searcher.search(SearchRequest("merge_pull"), catalog, some)
            found.append([(match.document.public_name, match.score) for match in result.matches])
            assert result.confidence == "high"
    assert found[0] == found[1]
