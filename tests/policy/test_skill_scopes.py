"""Scopes of skills that outlive a request: in bounds, and what one principal keeps is not at the cost of another."""

import pytest

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import Caller
from toolcrib.policy.sessions import ActiveSkill, NoActivations, Session, SkillScopes

ANN, BOB = Caller("ann"), Caller("bob")
SKILLS = (ActiveSkill("id-a", "a", "repo", "skill://repo/a", "a"),)


@pytest.fixture
def scopes() -> SkillScopes:
    return SkillScopes(lambda: 0.0, 60.0)


def session(caller: Caller) -> Session:
    return Session("label", caller, NoActivations(), growing=False)


def handle_of(scopes: SkillScopes, caller: Caller) -> str:
    """Keep a scope with an active skill, and return its handle."""
    kept = session(caller)
    kept.skills = scopes.temporary()
    kept.skills.skills = SKILLS
    scopes.store(kept)
    return kept.skills.handle


def is_known(scopes: SkillScopes, caller: Caller, handle: str) -> bool:
    try:
        scopes.resume(session(caller), handle)
    except BadRequest:
        return False
    return True


def test_many_ids_of_one_principal_take_no_scope_from_another(scopes: SkillScopes):
    scopes.named(ANN, "mine").skills = SKILLS
    first = scopes.named(BOB, "0")
    for number in range(3000):
        scopes.named(BOB, str(number))
    assert scopes.named(ANN, "mine").skills == SKILLS
    assert scopes.named(BOB, "0") is not first


def test_many_handles_of_others_take_none_from_a_principal(scopes: SkillScopes):
    anns = handle_of(scopes, ANN)
    bobs = [handle_of(scopes, Caller(f"bob-{number % 12}")) for number in range(2400)]
    assert is_known(scopes, ANN, anns)
    assert not is_known(scopes, Caller("bob-0"), bobs[0])
    assert is_known(scopes, Caller("bob-0"), bobs[-12])


def test_a_handle_is_of_the_whole_caller(scopes: SkillScopes):
    handle = handle_of(scopes, ANN)
    assert not is_known(scopes, BOB, handle)
    assert not is_known(scopes, Caller("ann", "blue"), handle)
    assert is_known(scopes, ANN, handle)
