"""What a request asks to be done, what a tool does by its name, and what it costs a tool to do something else."""

import pytest

from toolcrib.search.english import stem
from toolcrib.search.query import NO_REQUESTED_ACTION, Verbs, agreement, read_verbs


@pytest.fixture(scope="module")
def verbs() -> Verbs:
    return read_verbs(stem)


def actions(verbs: Verbs, request: str) -> set[str]:
    return {action.name for action in verbs.requested(request).actions}


def done(verbs: Verbs, name: str, summary: str = "", server: str = "") -> set[str]:
    return {action.name for action in verbs.performed(name, summary, server)}


@pytest.mark.parametrize(
    ("request_", "action"),
    [
        ("delete the old branch", "delete"),
        ("please can you remove these rows", "delete"),
        ("I would like to add a comment", "create"),
        ("how do I create a channel", "create"),
        ("is there a way to rename a file", "update"),
        ("deleting stale branches", "delete"),
        ("file a bug about the login page", "create"),
        ("email my boss", "send"),
        ("commit staged files", "commit"),
        ("commit what I have", "commit"),
        ("looking for flights", "search"),
        ("get rid of the old branch", "delete"),
        ("take the broken pod down", "stop"),
        ("let the team know that we ship", "send"),
        ("open a ticket about the crash", "create"),
        ("log 3 hours on the task", "create"),
        ("merge the pull request", "merge"),
        ("order a pizza", "book"),
        ("new branch", "create"),
        ("follow the logs of a pod", "watch"),
    ],
)
def test_a_request_asks_for_what_its_first_verb_says(verbs: Verbs, request_: str, action: str):
    assert action in actions(verbs, request_)
    assert not verbs.requested(request_).is_question


@pytest.mark.parametrize(
    "question",
    [
        "which pods were restarted",
        "what changed in the last commit",
        "is the build red",
        "do we have unpaid invoices",
        "where is the config stored",
        "how long did the run take",
    ],
)
def test_a_question_only_wants_to_know(verbs: Verbs, question: str):
    asked = verbs.requested(question)
    assert asked.is_question
    assert all(action.changes_nothing for action in asked.actions)


@pytest.mark.parametrize(
    "request_",
    [
        "commit history",
        "history of commits",
        "the commit history of main",
        "order status",
        "merge requests of my team",
        "open orders",
        "uncommitted changes",
        "comments on an issue",
        "pull requests waiting for review",
        "settings of the account",
        "updates from the team",
        "time in Rome",
        "new papers about graphs",
        "the positions I hold",
    ],
)
def test_words_without_a_verb_that_name_what_is_there_only_want_to_know(verbs: Verbs, request_: str):
    assert verbs.requested(request_).is_question


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ("I need to rent a car in Rome, find me the cheapest one", {"book", "search"}),
        ("list the branches and delete the old ones", {"list", "delete"}),
    ],
)
def test_each_clause_of_a_short_request_may_be_what_is_asked(verbs: Verbs, request_: str, wanted: set[str]):
    assert wanted <= actions(verbs, request_)
    assert not verbs.requested(request_).is_question


def test_how_many_is_answered_by_what_lists_or_counts(verbs: Verbs):
    assert {"list", "count", "search"} <= actions(verbs, "how many issues are open")


def test_showing_several_things_is_listing_them_and_showing_details_is_not(verbs: Verbs):
    assert "list" in actions(verbs, "show me the accounts in my subscription")
    assert "list" in actions(verbs, "show all of it")
    assert actions(verbs, "show the details of the accounts") == {"get"}
    assert "list" not in actions(verbs, "show the account")


@pytest.mark.parametrize(
    "request_",
    [
        "",
        "the sofa is red",
        "email templates",
        "a new branch",
        "I'm recovering from an injury",
        "xyz the old reports",
        "?!",
    ],
)
def test_a_request_without_a_verb_in_front_asks_for_nothing_in_particular(verbs: Verbs, request_: str):
    assert verbs.requested(request_) == NO_REQUESTED_ACTION


@pytest.mark.parametrize(
    ("name", "summary", "server", "action"),
    [
        ("list commits", "", "", "list"),
        ("storage account create", "", "storage", "create"),
        ("monitor metrics query", "", "monitor", "search"),
        ("fetch", "", "fetch", "get"),
        ("burndown", "shows how much work is left", "", "get"),
        ("commit", "records changes to the repository", "git", "save"),
        ("commit changes", "", "git", "commit"),
        ("book hotel", "", "", "book"),
        ("branch", "list create or delete branches", "", "delete"),
        ("quarterly dividend per share", "calculate the dividend", "", "compute"),
        ("house renting", "tool that lets you find houses", "", "search"),
        ("order history", "", "", "get"),
        ("pull request status", "", "", "get"),
        ("create or update file", "", "", "update"),
    ],
)
def test_a_tool_does_what_its_name_says_or_else_its_summary(
    verbs: Verbs, name: str, summary: str, server: str, action: str
):
    assert action in done(verbs, name, summary, server)


def test_a_tool_whose_words_say_nothing_does_nothing_in_particular(verbs: Verbs):
    assert done(verbs, "calendar") == done(verbs, "branch") == done(verbs, "") == set()
    assert done(verbs, "console", "messages that the page wrote") == done(verbs, "house renting") == set()


def cost(verbs: Verbs, request: str, name: str) -> float:
    return agreement(verbs.requested(request), verbs.performed(name, "", ""))


def test_doing_the_same_or_nothing_known_costs_nothing(verbs: Verbs):
    assert cost(verbs, "remove the branch", "delete branch") == 1
    assert cost(verbs, "remove the branch", "branch") == 1
    assert cost(verbs, "the branch", "delete branch") == 1


def test_reading_for_writing_costs_most_and_another_way_of_looking_little(verbs: Verbs):
    crossed = cost(verbs, "create an issue", "list issues")
    assert crossed == cost(verbs, "list issues", "create issue")
    assert crossed < cost(verbs, "which issues are open", "create issue") < 1
    assert crossed < cost(verbs, "get the issue", "search issues") < cost(verbs, "delete it", "create issue") < 1


def test_a_question_is_answered_by_what_reads_hardly_less_by_what_works_on_what_it_is_given(verbs: Verbs):
    assert cost(verbs, "which issues are open", "search issues") == 1
    assert cost(verbs, "which issues are open", "update issue") < cost(verbs, "what is it worth", "convert money") < 1


def test_a_verb_that_may_be_meant_either_way_counts_against_no_tool_that_does_one_of_both(verbs: Verbs):
    assert cost(verbs, "pull the latest changes", "get changes") == cost(verbs, "pull the latest changes", "sync") == 1
    assert cost(verbs, "open a page", "open page") == cost(verbs, "open a ticket", "create ticket") == 1
