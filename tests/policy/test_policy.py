"""The policy: one pure decision, for every caller, tool and spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.model import Caller, LoadingMode, SideEffects, Tool
from toolcrib.base.names import public_name
from toolcrib.config.schema import ConfirmSection, PolicySection
from toolcrib.policy.rules import ConfirmRules, Permissions, Policy, VisibilityRule, policy_of

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
    assert not permissions.refuses("my db", "drop it", public)
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


def test_a_view_of_a_rule_sees_all_only_where_it_permits_all():
    assert Permissions((0,), ["*"], []).sees_all
    assert not Permissions((0,), ["*"], ["drop"]).sees_all
    assert not Permissions((0,), ["db.*"], []).sees_all


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
        ("db.*", "", False),
        ("*.*", "drop", False),
        ("db:?", "x", False),
        ("drop", "db.drop", False),
    ],
)
def test_the_bare_end_of_a_denied_name_is_a_denied_name_too(glob: str, name: str, denied: bool):
    assert Permissions((), ["*"], [glob]).denies_name(name) is denied


# -- servers and names, for whom something is decided before there is a tool -----------------------


@pytest.mark.parametrize(
    ("allow", "deny", "may_have"),
    [
        (["*"], [], True),
        (["*"], ["db.drop"], True),
        (["*"], ["*.drop", "drop*"], True),
        (["*"], ["gh.*"], True),
        (["*"], ["db.?", "db.??"], True),
        (["*"], ["db.????????"], True),
        (["*"], ["*"], False),
        (["*"], ["db.*"], False),
        (["*"], ["db/*"], False),
        (["*"], ["db:?*"], False),
        (["*"], ["*__*"], False),
        (["*"], ["d?__*"], False),
        (["db.read"], [], True),
        (["d*"], [], True),
        (["*.read"], [], True),
        (["gh.*", "db__*"], ["drop"], True),
        (["gh.*"], [], False),
        (["dbx.*"], [], False),
        (["db.*"], ["db__*"], False),
        ([], [], False),
    ],
)
def test_a_server_may_have_tools_for_somebody_unless_all_of_them_are_denied_or_none_is_allowed(
    allow: list[str], deny: list[str], may_have: bool
):
    policy = Policy(allow, deny)
    assert policy.permissions(NOBODY).permits_some_of("db") is may_have
    assert policy.anyone.permits_some_of("db") is may_have


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("db.*", True),
        ("db__*", True),
        ("d*", True),
        ("db.read", True),
        ("d?.read", True),
        ("*", False),
        ("*.read", False),
        ("?b.read", False),
        ("gh.*", False),
        ("dbx.read", False),
    ],
)
def test_an_allow_names_a_server_by_what_stands_before_its_first_wildcard(glob: str, names: bool):
    assert Policy(allow=["gh.read", glob]).permissions(NOBODY).names_server("db") is names
    assert Policy(allow=[glob]).permissions(NOBODY).names_server("db") is names


@pytest.mark.parametrize("glob", ["db.drop", "db/drop", "db:drop", "db__drop", "d*.drop", "db__dr?p"])
def test_whether_a_tool_is_refused_is_the_same_in_every_spelling(glob: str):
    tool = ("db", "drop", public_name("db", "drop"))
    assert not Permissions((), [glob], []).refuses(*tool)
    assert Permissions((), ["*"], [glob]).refuses(*tool)
    assert Permissions((), [glob], ["drop"]).refuses(*tool)
    assert Permissions((), ["drop"], []).refuses(*tool)


def test_of_what_has_several_names_a_deny_of_one_wins_and_an_allow_of_one_is_enough():
    names = (("read", "db__read"), ("peek", "db__peek"))
    assert Permissions((), ["db.peek"], []).permits_by("db", iter(names))
    assert not Permissions((), ["db.poke"], []).permits_by("db", iter(names))
    assert not Permissions((), ["*"], ["peek"]).permits_by("db", iter(names))
    assert not Permissions((), ["*"], ["db__read"]).permits_by("db", iter(names))
    assert Permissions((), ["*"], ["poke"]).permits_by("db", iter(names))
    assert Permissions((), ["*"], ["peek"]).denies("db", iter(names))
    assert not Permissions((), ["db.peek"], ["poke"]).denies("db", iter(names))


@pytest.mark.parametrize(
    ("policy", "name", "refused"),
    [
        (Policy(deny=["db.drop"]), "db__drop", True),
        (Policy(deny=["drop"]), "db.drop", True),
        (Policy(deny=["db.*"]), "db__anything", True),
        (Policy(deny=["db.drop"]), "drop", True),
        (Policy(deny=["gh__*_all"]), "gh__drop_all", True),
        (Policy(allow=["db.read"]), "db__write", True),
        (Policy(allow=["db.read"]), "db__read", False),
        (Policy(deny=["drop"]), "db__read", False),
        (Policy(), "db__drop", False),
        (Policy(allow=["db.read"]), "ark__write", False),
        (Policy(deny=["db.drop"]), "dropped", False),
        (
            Policy(allow=["db.read"], rules=[VisibilityRule({"tenant_id": ("red",)}, allow=("db.write",))]),
            "db__write",
            False,
        ),
        (Policy(rules=[VisibilityRule({"tenant_id": ("red",)}, deny=("db.write",))]), "db__write", False),
    ],
)
def test_a_name_is_refused_to_everyone_that_no_caller_at_all_may_use_on_any_server(
    policy: Policy, name: str, refused: bool
):
    assert policy.refuses_everyone(name, iter(["gh", "db"])) is refused


@pytest.mark.parametrize(
    ("glob", "name", "denied"),
    [
        ("drop", "drop", True),
        ("db.drop", "drop", True),
        ("db.drop", "db.drop", True),
        ("db__drop_*", "drop_table", True),
        ("*create*", "create_issue", True),
        ("*create*", "createdAt", False),
        ("*create*", "re-created", False),
        ("drop", "dropped", False),
        ("create*", "create*", False),
        ("*", "a_b", False),
        ("*__*", "a__b", False),
        ("db.*", "a_b", False),
        ("db__*", "db__a", True),
    ],
)
def test_a_word_of_a_text_is_a_denied_name_where_a_deny_is_about_some_tools_that_may_be_called_so(
    glob: str, name: str, denied: bool
):
    policy = Policy(deny=["other", glob], rules=[VisibilityRule({"tenant_id": ("red",)}, deny=("mine",))])
    assert policy.anyone.names_denied(name) is denied
    assert policy.permissions(RED).names_denied(name) is denied
    assert not policy.anyone.names_denied("mine")
    assert policy.permissions(RED).names_denied("mine")


def test_what_anyone_may_use_is_told_from_what_any_caller_may_use():
    rules = [VisibilityRule({"tenant_id": ("red",)}, deny=("x",)), VisibilityRule({"profile": ("p",)}, deny=("y",))]
    policy = Policy(rules=rules)
    callers = [NOBODY, BLUE, RED, Caller(tenant_id="red"), Caller(profile="p")]
    assert len({policy.anyone.key, *(policy.permissions(caller).key for caller in callers)}) == 5


def test_the_rules_about_a_caller_are_those_that_match_it():
    about_red = VisibilityRule({"tenant_id": ("red",)}, deny=("x",))
    about_blue = VisibilityRule({"tenant_id": ("blue",)}, allow=("y",))
    about_all = VisibilityRule({}, deny=("z",))
    policy = Policy(rules=[about_red, about_blue, about_all])
    assert policy.matching_rules(RED) == (about_red, about_all)
    assert policy.matching_rules(BLUE) == (about_blue, about_all)
    assert policy.matching_rules(NOBODY) == (about_all,)


def test_the_policy_of_a_config_says_what_the_config_says():
    section = PolicySection.model_validate(
        {
            "allow": ["db.*", "gh.*"],
            "deny": ["drop"],
            "visibility": [
                {"when": {"tenant_id": ["red", "green"], "profile": "p"}, "allow": ["db.read"]},
                {"when": {"project_id": "x"}, "deny": ["gh.write"]},
            ],
        }
    )
    policy = policy_of(section)
    names = ("db.read", "db.drop", "gh.write", "ark.board")
    assert [permits(policy, name) for name in names] == [True, False, True, False]
    assert [permits(policy, name, RED) for name in names] == [True, False, False, False]
    assert [permits(policy, name, Caller(project_id="x")) for name in names] == [True, False, False, False]
    assert [permits(policy, name, Caller(tenant_id="green")) for name in names] == [True, False, True, False]


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


@given(SOME, SOME, RULES, CALLERS, TOOLS)
def test_what_is_refused_to_a_caller_is_what_it_is_not_permitted(allow, deny, rules, caller, tool):
    permissions = Policy(allow, deny, rules).permissions(caller)
    assert permissions.refuses(*tool) is not permissions.permits(*tool)


@pytest.mark.parametrize(
    ("effects", "side_effects", "may"),
    [
        (("write",), None, True),
        (("write",), SideEffects.WRITE, True),
        (("destructive",), SideEffects.EXTERNAL, True),
        (("write",), SideEffects.READ, False),
        (("write",), SideEffects.PURE, False),
        ((), SideEffects.WRITE, False),
    ],
)
def test_what_a_server_declares_of_a_tool_matters_to_a_confirmation_only_where_it_may_do_harm(
    effects, side_effects, may
):
    tool = Tool(1, "db", "drop", "db__drop", LoadingMode.DEFERRED, side_effects, read_only=False, fingerprint="f")
    assert ConfirmRules(ConfirmSection(effects=effects)).may_concern_effects(tool) is may
