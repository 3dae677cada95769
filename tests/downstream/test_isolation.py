"""Who shares a connection where a program makes requests on account of callers that it names (R354)."""

import pytest

from toolcrib.base.model import Caller
from toolcrib.config.schema import ServerSection
from toolcrib.config.settings import HttpTarget, ServerSettings, StdioTarget
from toolcrib.downstream.isolation import SHARED, Isolation, Scope
from toolcrib.policy.sessions import RunActivations, Session

PROGRAM = Isolation(one_client=False, one_principal=False, owner=("acme", "local"))
ASKED = {"elicitation": {"form": {}}}


def server(isolation: str | None = None, *, is_process: bool = True) -> ServerSettings:
    target = StdioTarget("zoo", (), {}, None) if is_process else HttpTarget("https://zoo", {}, sse=True)
    return ServerSettings("zoo", target, ServerSection.model_validate({"isolation": isolation}), "f")


def session(principal: str, tenant: str | None = "acme", **more: object) -> Session:
    return Session(principal, Caller(principal, tenant), RunActivations(), growing=False, **more)  # pyright: ignore[reportArgumentType]


def test_the_owner_uses_the_process_that_lists_a_server_and_each_other_principal_one_of_its_own():
    assert PROGRAM.scope(server(), None, session("local")) == SHARED
    assert PROGRAM.scope(server(), None, session("ann")) == Scope("acme", "ann")
    # Of another tenant it is somebody else, whatever the name.
    assert PROGRAM.scope(server(), None, session("local", "other")) == Scope("other", "local")
    assert PROGRAM.scope(server(), None, session("local", None)) == Scope("", "local")


@pytest.mark.parametrize("principal", ["local", "ann"])
def test_what_everybody_shares_by_the_config_the_others_share_too(principal: str):
    assert PROGRAM.scope(server("shared"), None, session(principal)) == SHARED


def test_a_session_of_its_own_is_the_owners_too_where_the_config_says_so():
    asks = session("local", lasting=True)
    assert PROGRAM.scope(server("session"), None, asks) == Scope("acme", "local", "local")


def test_a_server_asks_only_where_the_connection_is_one_principals():
    owner, other = session("local", capabilities=ASKED), session("ann", capabilities=ASKED)
    assert PROGRAM.scope(server(), "legacy", owner).declared == ASKED
    assert PROGRAM.scope(server(), "legacy", owner).principal == ""
    assert PROGRAM.scope(server(), "legacy", other).declared == ASKED
    for each in (owner, other):
        assert PROGRAM.scope(server("shared"), "legacy", each) == SHARED
        assert PROGRAM.scope(server(is_process=False), "legacy", each) == SHARED
