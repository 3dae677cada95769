"""The rules about skills: of deny, allow and confirm the first that any rule says holds (R248)."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.access.skill_rules import Visibility
from toolcrib.config.skills_schema import SkillPermission, SkillsSection
from toolcrib.model import Skill, SkillOrigin, TaskType

ACTIONS = ("deny", "allow", "confirm")
"""In the order of their rank."""

VAULT = Skill(
    row=1,
    id="sk_1",
    name="vault",
    source="repo",
    root="root",
    folder="vault",
    path="vault/SKILL.md",
    title="",
    description="",
    trigger="",
    task_type=TaskType.UNKNOWN,
    tags=(),
    requires=(),
    origin=SkillOrigin.DIR,
    origin_ref="",
    scope_mode="project",
    content_hash="",
    is_pinned=False,
    is_hidden=False,
    is_conforming=True,
)

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
