"""The policy: one pure decision, for every caller, tool and spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.model import Caller
from toolcrib.base.names import public_name
from toolcrib.policy.rules import Permissions, Policy, VisibilityRule

RED = Caller("r", tenant_id="red", profile="p")
BLUE = Caller("b", tenant_id="blue")
NOBODY = Caller()


def permits(policy: Policy, spelled: str, caller: Caller = NOBODY) -> bool:
    server, _, name = spelled.partition(".")
    return policy.permissions(caller).permits(server, name, public_name(server, name))


def test_everything_is_permitted_unless_something_is_said():
    assert permits(Policy(), "db.drop")
    assert Policy().permissions(NOBODY).unrestricted


@pytest.mark.parametrize(
    "glob", ["drop", "db.drop", "db/drop", "db:drop", "db__drop", "d*p", "*", "db?drop", "[a-d]rop"]
)
def test_a_deny_in_any_spelling_counts(glob: str):
    assert not permits(Policy(deny=[glob]), "db.drop")


@pytest.mark.parametrize("glob", ["Drop", "DB.drop", "db", "dro", "rop", "", "x.drop", "db-drop"])
def test_a_deny_that_does_not_match_a_whole_spelling_does_not_count(glob: str):
    assert permits(Policy(deny=[glob]), "db.drop")


@pytest.mark.parametrize(("glob", "counts"), [("db.*", True), ("*.drop", True), ("db__drop", True), ("drop", False)])
def test_an_allow_matches_qualified_spellings_only(glob: str, counts: bool):
    assert permits(Policy(allow=[glob]), "db.drop") is counts


def test_a_public_name_that_is_hashed_can_be_allowed_and_denied_too():
    public = public_name("my db", "drop it")
    permissions = Policy(allow=[public]).permissions(NOBODY)
    assert permissions.permits("my db", "drop it", public)
    assert not Policy(deny=[public]).permissions(NOBODY).permits("my db", "drop it", public)


def test_a_deny_wins_over_every_allow():
    rule = VisibilityRule({"tenant_id": ("red",)}, allow=("db.drop",))
    assert not permits(Policy(allow=["db.drop"], deny=["drop"], rules=[rule]), "db.drop", RED)


@pytest.mark.parametrize(
    ("when", "matches"),
    [
        ({}, True),
        ({"tenant_id": ("red",)}, True),
        ({"tenant_id": ("blue", "red")}, True),
        ({"tenant_id": ("blue",)}, False),
        ({"tenant_id": ("RED",)}, False),
        ({"tenant_id": ()}, False),
        ({"tenant_id": ("red",), "profile": ("p",)}, True),
        ({"tenant_id": ("red",), "profile": ("q",)}, False),
        ({"project_id": ("x",)}, False),
        ({"project_id": ("None",)}, False),
    ],
)
def test_a_rule_speaks_about_callers_all_of_whose_facts_it_names(when: dict, matches: bool):
    assert VisibilityRule(when).matches(RED) is matches


def test_allows_of_matching_rules_unite_and_take_the_place_of_the_general_one():
    rules = [
        VisibilityRule({"tenant_id": ("red",)}, allow=("db.read",)),
        VisibilityRule({"profile": ("p",)}, allow=("gh.*",)),
        VisibilityRule({"tenant_id": ("blue",)}, deny=("db.read",)),
    ]
    policy = Policy(allow=["db.*"], rules=rules)
    names = ("db.read", "db.write", "gh.x")
    assert [permits(policy, name, RED) for name in names] == [True, False, True]
    assert [permits(policy, name, BLUE) for name in names] == [False, True, False]
    assert [permits(policy, name) for name in names] == [True, True, False]


def test_an_empty_allow_permits_nothing_and_an_absent_one_changes_nothing():
    when = {"tenant_id": ("red",)}
    assert not permits(Policy(rules=[VisibilityRule(when, allow=())]), "db.read", RED)
    assert permits(Policy(rules=[VisibilityRule(when)]), "db.read", RED)


def test_callers_about_whom_the_same_rules_speak_share_a_view():
    policy = Policy(rules=[VisibilityRule({"tenant_id": ("red",)}, deny=("x",))])
    assert policy.known_permissions() == ()
    assert policy.permissions(RED) is policy.permissions(Caller("other", tenant_id="red"))
    assert policy.permissions(BLUE) is policy.permissions(NOBODY)
    assert policy.permissions(RED).key != policy.permissions(BLUE).key
    assert policy.known_permissions() == (policy.permissions(RED), policy.permissions(BLUE))


@pytest.mark.parametrize(
    ("policy", "sees_all"),
    [
        (Policy(), True),
        (Policy(deny=["drop"]), True),
        (Policy(allow=["db.*"]), True),
        (Policy(rules=[VisibilityRule({"tenant_id": ("blue",)}, deny=("x",))]), True),
        (Policy(rules=[VisibilityRule({"tenant_id": ("red",)}, deny=("x",))]), False),
        (Policy(deny=["y"], rules=[VisibilityRule({"tenant_id": ("blue",)}, deny=("x",))]), False),
    ],
)
def test_a_view_sees_all_that_is_indexed_where_rules_keep_nothing_from_it(policy: Policy, sees_all: bool):
    assert policy.permissions(RED).sees_all is sees_all


# -- names that must not be recorded -------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "name", "denied"),
    [
        ("drop", "drop", True),
        ("db.drop", "db.drop", True),
        ("db.drop", "drop", True),
        ("db__drop_*", "drop_table", True),
        ("db/drop", "dropped", False),
        ("db.*", "drop", False),
        ("*.*", "drop", False),
        ("db:?", "x", False),
        ("drop", "db.drop", False),
    ],
)
def test_the_bare_end_of_a_denied_name_is_a_denied_name_too(glob: str, name: str, denied: bool):
    assert Permissions((), ["*"], [glob]).denies_name(name) is denied


# -- properties ----------------------------------------------------------------------------------

GLOBS = st.sampled_from(["*", "a", "b", "s.a", "s.*", "t.*", "*.b", "t__a", "?", "s/b"])
SOME = st.lists(GLOBS, max_size=3)
FACTS = st.sampled_from(["red", "blue"])
RULES = st.lists(
    st.builds(
        VisibilityRule,
        st.dictionaries(st.sampled_from(["tenant_id", "profile"]), st.tuples(FACTS), max_size=2),
        st.none() | SOME.map(tuple),
        SOME.map(tuple),
    ),
    max_size=3,
)
CALLERS = st.builds(Caller, tenant_id=st.none() | FACTS, profile=st.none() | FACTS)
TOOLS = st.tuples(st.sampled_from(["s", "t"]), st.sampled_from(["a", "b"])).map(
    lambda tool: (*tool, public_name(*tool))
)
"""The server and name of a tool, and its public name."""


@given(SOME, SOME, RULES, CALLERS, TOOLS)
def test_what_one_caller_may_use_is_indexed_and_what_nobody_may_use_is_not(allow, deny, rules, caller, tool):
    policy = Policy(allow, deny, rules)
    if policy.permissions(caller).permits(*tool):
        assert policy.anyone.permits(*tool)
    if not policy.anyone.permits(*tool):
        assert not policy.permissions(caller).permits(*tool)


@given(st.tuples(SOME, SOME, RULES), CALLERS, TOOLS, GLOBS)
def test_one_more_deny_never_permits_more(said, caller, tool, more):
    allow, deny, rules = said
    before = Policy(allow, deny, rules).permissions(caller).permits(*tool)
    after = Policy(allow, [*deny, more], rules).permissions(caller).permits(*tool)
    assert before or not after


@given(SOME, SOME, CALLERS, TOOLS, GLOBS)
def test_one_more_allow_never_permits_less(allow, deny, caller, tool, more):
    before = Policy(allow, deny).permissions(caller).permits(*tool)
    after = Policy([*allow, more], deny).permissions(caller).permits(*tool)
    assert after or not before


@given(SOME, SOME, RULES, CALLERS, TOOLS)
def test_a_view_that_sees_all_permits_all_that_is_indexed(allow, deny, rules, caller, tool):
    policy = Policy(allow, deny, rules)
    if policy.permissions(caller).sees_all and policy.anyone.permits(*tool):
        assert policy.permissions(caller).permits(*tool)
