from dataclasses import FrozenInstanceError

import pytest

import toolcrib
from toolcrib.base.model import SearchType
from toolcrib.library.hits import Reasons, part_with


def test_a_hit_can_be_read_by_a_person_and_not_be_changed():
    hit = toolcrib.ToolHit("send_mail", score=1.0, confidence="high", why="name: mail", definition={"name": "x" * 999})
    assert repr(hit) == "ToolHit(send_mail, score=1.0, confidence='high', why='name: mail')"
    with pytest.raises(FrozenInstanceError):
        hit.score = 0.5  # pyright: ignore[reportAttributeAccessIssue]


def test_results_can_be_members_of_sets_and_are_equal_by_all_that_they_have():
    definition = {"name": "x", "inputSchema": {"type": "object"}}
    hit, same = (toolcrib.ToolHit("x", definition={**definition}, tool=definition) for _ in range(2))
    assert {hit, same, toolcrib.ToolHit("x")} == {hit, toolcrib.ToolHit("x")}
    assert len({toolcrib.SearchResult((hit,)), toolcrib.SearchResult((same,)), toolcrib.SearchResult()}) == 2
    block = {"type": "text", "text": "12:00"}
    assert len({toolcrib.CallResult((block,)), toolcrib.CallResult(({**block},)), toolcrib.CallResult()}) == 2
    assert len({toolcrib.ToolInfo("x", "s", definition=definition), toolcrib.ToolInfo("x", "s")}) == 2


def test_a_reason_names_each_word_of_the_query_where_it_is_first_found():
    why = Reasons("creating new issues in a repository").of(
        SearchType.FTS, part_with(["create issue", "", "creates issues of a repository"])
    )
    assert why == "name: creating, issues; description: repository"


def test_a_reason_for_a_tool_without_any_of_the_words_says_so():
    assert Reasons("delete").of(SearchType.FTS, part_with(["remove"])) == "other words for the same thing"
    assert Reasons("remove").of(SearchType.EXACT, part_with(["remove"])) == "the query is its name"
    assert Reasons("re.*").of(SearchType.REGEX, part_with(["remove"])) == "the pattern matches"


def test_a_reason_does_not_name_letters_that_only_writing_leaves():
    assert Reasons("what's the weather").of(SearchType.FTS, part_with(["", "weather s"])) == "description: weather"
    assert Reasons("the").of(SearchType.FTS, part_with(["the"])) == "name: the"
