"""The catalog in memory: names in every spelling, and what each kind of caller may use."""

import pytest

from toolcrib.base.model import Caller, LoadingMode, Tool
from toolcrib.base.names import public_name
from toolcrib.catalog.snapshot import Catalog
from toolcrib.policy.rules import Policy, VisibilityRule


def tool(row: int, server: str, name: str, mode: LoadingMode = LoadingMode.DEFERRED) -> Tool:
    return Tool(row, server, name, public_name(server, name), mode, None, False, "f")


def catalog(*names: tuple[str, str]) -> Catalog:
    return Catalog((tool(row, *name) for row, name in enumerate(names)), generation=7)


def test_tools_stand_in_the_order_of_their_public_names():
    snapshot = catalog(("b", "x"), ("a", "z"), ("a", "y"))
    assert [each.public_name for each in snapshot.tools] == ["a__y", "a__z", "b__x"]
    assert snapshot.generation == 7
    assert snapshot.get("a__z").name == "z"
    assert snapshot.get("a.z") is None


@pytest.mark.parametrize("spelling", ["git__log", "git.log", "git/log", "git:log", "log"])
def test_a_tool_is_found_by_any_spelling(spelling: str):
    assert catalog(("git", "log"), ("svn", "blame")).find(spelling).public_name == "git__log"


@pytest.mark.parametrize("spelling", ["", "GIT__LOG", "git-log", "g.log", "nothing", "git__log "])
def test_find_does_not_guess(spelling: str):
    assert catalog(("git", "log")).find(spelling) is None


def test_a_hashed_public_name_and_the_plain_spellings_lead_to_the_same_tool():
    snapshot = catalog(("my server", "do it!"))
    (one,) = snapshot.tools
    assert snapshot.find(one.public_name) is snapshot.find("my server.do it!") is snapshot.find("do it!") is one


def test_a_bare_name_of_two_tools_names_none():
    snapshot = catalog(("git", "log"), ("svn", "log"))
    assert snapshot.find("log") is None
    assert snapshot.find("svn.log").server == "svn"


def test_a_spelling_of_two_tools_names_none():
    snapshot = catalog(("a", "b.c"), ("a.b", "c"))
    assert snapshot.find("a.b.c") is None


def test_a_public_name_comes_before_other_spellings():
    snapshot = catalog(("a", "b"), ("c", "a__b"))
    assert snapshot.find("a__b").server == "a"


def test_a_tool_that_a_caller_may_not_use_is_not_found_and_hides_no_other():
    snapshot = catalog(("git", "log"), ("svn", "log"), ("a", "b"), ("c", "a__b"))
    some = snapshot.permitted(Policy(deny=["svn.*", "a.b"]).permissions(Caller()))
    assert snapshot.find("log", some).server == "git"
    assert snapshot.find("svn__log", some) is None
    assert snapshot.find("a__b", some).server == "c"


@pytest.mark.parametrize(
    "query",
    [
        "list_issues",
        "listIssues",
        "LIST ISSUES",
        "list-issues",
        "github list issues",
        "GitHub.list_issues",
        "github__list_issues",
    ],
)
def test_a_query_can_be_a_name_in_any_case_and_with_any_separator(query: str):
    snapshot = catalog(("github", "list_issues"), ("github", "list"), ("gitlab", "listIssue"))
    assert [each.public_name for each in snapshot.exact(query)] == ["github__list_issues"]


def test_a_name_that_several_tools_have_leads_to_all_of_them():
    snapshot = catalog(("b", "getUser"), ("a", "get_user"))
    assert [each.server for each in snapshot.exact("get user")] == ["a", "b"]
    assert snapshot.spelled("get_user") == (snapshot.tools[0],)


@pytest.mark.parametrize("query", ["", "___", "!?", "\0", "\ud800", "🙂"])
def test_a_query_without_letters_is_no_name(query: str):
    assert catalog(("a", "___"), ("b", "x")).exact(query) == ()


def test_a_spelling_is_told_once():
    snapshot = catalog(("git", "log"))
    assert [len(snapshot.spelled(name)) for name in ("git__log", "git.log", "log", "LOG")] == [1, 1, 1, 0]


def test_who_may_use_everything_sees_the_whole():
    snapshot = catalog(("a", "x"), ("b", "y"))
    everything = snapshot.permitted(Policy().permissions(Caller()))
    assert everything.whole
    assert everything.tools == snapshot.tools
    assert everything.rows == {0, 1}
    assert snapshot.permitted(Policy().permissions(Caller())) is everything


def test_a_policy_that_denies_nothing_here_still_shows_the_whole():
    snapshot = catalog(("a", "x"))
    assert snapshot.permitted(Policy(deny=["z.*"]).permissions(Caller())).whole


def test_a_caller_with_nothing_to_hide_from_is_treated_like_one_with_something():
    rules = [VisibilityRule({"profile": ("guest",)}, deny=("secret.*",))]
    guest = Policy(rules=rules).permissions(Caller(profile="guest"))
    assert not catalog(("a", "x")).permitted(guest).whole
    assert not catalog(("a", "x"), ("secret", "y")).permitted(guest).whole


def test_rows_that_the_policy_denies_are_not_part_of_the_whole():
    assert not catalog(("a", "x"), ("b", "y")).permitted(Policy(deny=["b.*"]).permissions(Caller())).whole


def test_each_kind_of_caller_has_its_own_part():
    snapshot = catalog(("a", "x"), ("b", "y"))
    policy = Policy(rules=[VisibilityRule({"tenant_id": ("acme",)}, allow=("a.*",))])
    some = snapshot.permitted(policy.permissions(Caller(tenant_id="acme")))
    assert not some.whole
    assert [each.server for each in some.tools] == ["a"]
    assert snapshot.permitted(policy.permissions(Caller())).whole


def test_deferred_tools_are_counted_for_the_caller():
    snapshot = Catalog([tool(1, "a", "x"), tool(2, "a", "y", LoadingMode.ALWAYS), tool(3, "b", "z")])
    assert snapshot.permitted(Policy().permissions(Caller())).deferred_count == 2
    assert Catalog(snapshot.tools).permitted(Policy(deny=["b.*"]).permissions(Caller())).deferred_count == 1


def test_a_part_has_the_numbers_of_what_a_search_may_find():
    snapshot = Catalog([tool(1, "a", "x"), tool(2, "a", "y", LoadingMode.ALWAYS), tool(3, "b", "z")])
    everything = snapshot.permitted(Policy().permissions(Caller()))
    assert [each.name for each in everything.tools] == ["x", "y", "z"]
    assert everything.part() is None
    assert everything.part(include_always=False) == {0, 2}
    assert everything.part(include_always=False, server="a") == {0}
    assert everything.part(server="a") is everything.part(server="a")
    assert everything.part(server="none") == frozenset()
    assert catalog(("a", "x")).permitted(Policy().permissions(Caller())).part(server="a") is None


def test_servers_that_do_not_exist_fill_no_memory():
    everything = catalog(("a", "x")).permitted(Policy().permissions(Caller()))
    for number in range(100):
        everything.part(server=f"no such {number}")
    assert len(everything._parts) == 0


def test_an_empty_catalog_is_a_catalog():
    nothing = Catalog([]).permitted(Policy().permissions(Caller()))
    assert nothing.tools == ()
    assert nothing.deferred_count == 0


def test_a_new_list_leaves_what_other_servers_have():
    before = catalog(("git", "log"), ("git", "blame"), ("svn", "log"))
    after = before.with_lists(["git"], [tool(9, "git", "diff")], ())
    assert [each.public_name for each in after.tools] == ["git__diff", "svn__log"]
    assert after.generation == before.generation + 1
    assert after.find("log").server == "svn"
    assert after.find("git.log") is None
    assert [each.row for each in after.exact("GIT diff")] == [9]
    assert [each.public_name for each in before.tools] == ["git__blame", "git__log", "svn__log"]
    assert [each.public_name for each in after.with_lists(["git"], [], ()).tools] == ["svn__log"]
