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


def test_how_many_is_answered_by_what_lists_or_counts(verbs: Verbs):
    assert {"list", "count", "search"} <= actions(verbs, "how many issues are open")


def test_showing_several_things_is_listing_them_and_showing_details_is_not(verbs: Verbs):
    assert "list" in actions(verbs, "show me the accounts in my subscription")
    assert "list" in actions(verbs, "show all of it")
    assert actions(verbs, "show the details of the accounts") == {"get"}
    assert "list" not in actions(verbs, "show the account")


@pytest.mark.parametrize("request_", ["", "the sofa is red", "commit history", "email templates", "?!"])
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
    ],
)
def test_a_tool_does_what_its_name_says_or_else_its_summary(
    verbs: Verbs, name: str, summary: str, server: str, action: str
):
    assert action in done(verbs, name, summary, server)


def test_a_tool_whose_words_say_nothing_does_nothing_in_particular(verbs: Verbs):
    assert done(verbs, "calendar") == done(verbs, "branch") == done(verbs, "") == set()


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


def test_a_question_is_answered_by_anything_that_does_not_write(verbs: Verbs):
    assert cost(verbs, "which issues are open", "search issues") == 1
    assert cost(verbs, "what is in this video", "summarize video") == 1
