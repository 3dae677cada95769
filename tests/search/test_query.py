"""How a request is read: which of its words count, and its parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.text import QUERY_MAX
from toolcrib.search.english import stem
from toolcrib.search.query import parsed, parted, plain, read_verbs

VERBS = read_verbs(stem)
LONG = "write up a ticket about the broken login page, then post a summary of it to the team channel"


def test_small_words_do_not_count_and_others_count_alike():
    assert dict(parsed("show the open issues").terms) == {"open": 1, "issues": 1}


def test_words_that_only_say_that_something_is_wanted_count_less():
    terms = parsed("I am looking for assistance with invoices").terms
    assert terms["invoices"] == 1
    assert terms["looking"] == terms["assistance"] < 0.5


@pytest.mark.parametrize(
    ("request_", "wanted", "complement"),
    [
        ("show all comments of an issue", {"comments"}, {"issue"}),
        ("insert a row into the orders table", {"insert", "row"}, {"orders", "table"}),
        ("copy the file from the shared disk to the file server", {"copy", "file"}, {"shared", "disk", "server"}),
    ],
)
def test_what_is_wanted_counts_more_than_where_or_of_what(request_: str, wanted: set[str], complement: set[str]):
    terms = parsed(request_).terms
    assert all(terms[word] == 1 for word in wanted)
    assert all(0.5 < terms[word] < 1 for word in complement)


@pytest.mark.parametrize(
    "request_",
    [
        "search for invoices",
        "invoices of March",
        "cover the function with unit tests",
        "add a check-in reminder",
        "merge the branch into main. create release notes",
    ],
)
def test_what_follows_a_verb_alone_or_with_counts_whole_and_so_does_another_clause(request_: str):
    assert set(parsed(request_).terms.values()) == {1}


def test_a_preposition_in_a_quotation_says_nothing_of_what_follows_it():
    assert parsed('send the message "meet at noon" to the general channel').terms["message"] == 1
    assert parsed('send message "meet at noon" general channel').terms["channel"] == 1


def test_where_there_is_nothing_else_they_count_whole():
    assert dict(parsed("looking").terms) == {"looking": 1}


@pytest.mark.parametrize(
    "request_",
    ["get the file 'budget'", 'get the file "budget"', "get the file <budget>", "get the file https://budget"],
)
def test_what_is_quoted_or_stands_for_a_name_counts_less(request_: str):
    terms = parsed(request_).terms
    assert terms["file"] == 1
    assert terms["budget"] < 1


def test_a_word_that_stands_outside_too_counts_whole():
    assert parsed("find the budget 'budget'").terms["budget"] == 1


def test_numbers_and_ids_count_little():
    assert parsed("refund order 4711").terms["4711"] < parsed("refund order 4711").terms["order"] == 1
    pod = parsed("restart pod web-7f9c5d4b8-x2zrt").terms
    assert pod["web"] < pod["pod"] == pod["restart"] == 1
    assert parsed("the sha256 of a file").terms["sha"] == 1
    assert dict(parsed("4711").terms) == {"4711": 1}


def test_a_status_code_counts_as_a_word():
    assert set(parsed("I keep getting 429").terms.values()) == {1}


def test_an_apostrophe_is_no_quotation_mark():
    assert set(parsed("list Ana's issues and Tom's pages").terms.values()) == {1}


def test_a_long_request_is_taken_apart_where_something_else_begins():
    one, other = parsed(LONG).parts
    assert {"ticket", "login"} <= set(one.terms)
    assert {"post", "channel"} <= set(other.terms)
    assert "ticket" not in other.terms


@pytest.mark.parametrize("request_", ["create an issue, then close it", "list pods", ""])
def test_a_short_one_is_left_whole(request_: str):
    assert parsed(request_).parts == ()


def test_a_long_one_with_a_single_part_that_says_something_is_left_whole():
    assert parsed("delete the seventh green heavy wooden garden table chair lamp sofa door. Then go.").parts == ()


def test_every_word_of_a_plain_one_counts_alike():
    assert dict(plain("how about it").terms) == {"how": 1, "about": 1, "it": 1}


@given(st.text(max_size=3 * QUERY_MAX))
def test_any_text_is_read_and_no_work_is_unbounded(text: str):
    for query in (parsed(text), plain(text)):
        assert len(query.text) <= QUERY_MAX
        assert len(query.terms) <= 160
        assert len(query.parts) <= 6
        assert all(0 < weight <= 1 for weight in query.terms.values())
        assert not query.terms or max(query.terms.values()) == 1
        assert all(part.terms.items() <= query.terms.items() for part in query.parts)


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        ("create an issue and post a message", ["create an issue", "post a message"]),
        ("merge the pull request, then delete the branch", ["merge the pull request", "delete the branch"]),
        ("open the file, show the first lines", ["open the file", "show the first lines"]),
        ("the name and the address of a customer", []),
        ("search and replace the old name", []),
        ("latest news and updates from Boston", []),
        ("create an issue, then close it", []),
    ],
)
def test_a_short_one_is_taken_apart_where_each_part_asks_for_an_action(request_: str, parts: list[str]):
    assert [part.text for part in parted(parsed(request_), VERBS).parts] == parts


def test_a_long_one_has_the_parts_that_it_had():
    assert parted(parsed(LONG), VERBS) is parsed(LONG)
