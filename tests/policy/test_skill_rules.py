"""The rules about skills: of deny, allow and confirm the first that any rule says holds (R248)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from skill_builders import SKILL

from toolcrib.config.schema import SkillPermission, SkillsSection
from toolcrib.policy.rules import Visibility

ACTIONS = ("deny", "allow", "confirm")
"""In the order of their rank."""

VAULT = replace(SKILL, name="vault", folder="vault")

RULES = st.lists(
    st.builds(
        SkillPermission,
        tool=st.sampled_from(["skill_get", "skill_load", "*", "skill_search"]),
        skill_name=st.sampled_from([None, "vault", "repo/vault", "door", "Vault"]),
        action=st.sampled_from(ACTIONS),
    ),
    max_size=6,
)


@given(rules=RULES)
def test_of_all_rules_about_a_skill_a_deny_holds_before_an_allow_and_an_allow_before_a_confirmation(rules):
    about = {
        rule.action
        for rule in rules
        if rule.tool != "skill_search" and rule.skill_name in {None, "vault", "repo/vault"}
    }
    holds = next((action for action in ACTIONS if action in about), "allow")
    visibility = Visibility(SkillsSection(permissions=tuple(rules)), ())
    assert (visibility.reason(VAULT, ()) is not None) is (holds == "deny")
    assert visibility.must_confirm(VAULT) is (holds == "confirm")
