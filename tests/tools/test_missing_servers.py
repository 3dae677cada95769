"""What a search says of servers that may be meant but have nothing to show."""

import json
from pathlib import Path

import pytest

from toolcrib.access.policy import Policy
from toolcrib.config.loading import load
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import State, Status
from toolcrib.model import Caller
from toolcrib.tools.missing_servers import MissingServers

SERVERS = {
    "github": {"command": "x"},
    "mail-server": {"command": "x", "disabled": True},
    "maps": {"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
    "n8n": {"command": "x"},
}
DESCRIBED = {"github": {"description": "Repositories, pull requests and issues"}, "n8n": {"description": ""}}
FAILED = {"github": Status(State.FAILED, "secret reason"), "n8n": Status(State.SLEEPING)}
READY = {"github": Status(State.READY), "n8n": Status(State.READY)}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": SERVERS, "toolcrib": {"servers": DESCRIBED}}), encoding="utf-8")
    return load(path, {"HOME": str(tmp_path)}, tmp_path)


def note(settings: Settings, query: str, statuses=FAILED, *, policy: Policy | None = None, **options) -> str:
    view = (policy or Policy()).permissions(Caller())
    options = {"found": (), "any_of_them": False, **options}
    return MissingServers(settings).note(query, view, statuses, **options)


def test_a_failed_server_is_told_where_its_name_or_description_is_meant(settings):
    expected = "Not searched: server github has failed to start."
    assert note(settings, "create a GitHub issue") == expected
    assert note(settings, "merge a pull request") == expected
    assert "secret" not in note(settings, "github")


def test_a_server_that_is_starting_is_told(settings):
    starting = {**READY, "github": Status(State.STARTING)}
    assert note(settings, "github issue", starting) == "Not searched: server github is still starting."


def test_a_server_that_is_left_out_of_the_config_is_told(settings):
    assert note(settings, "send a mail") == "Not searched: server mail-server is disabled."
    assert note(settings, "show it on maps") == "Not searched: server maps is not in use."


def test_servers_that_work_or_are_not_meant_are_not_told(settings):
    assert note(settings, "create a github issue", READY) == ""
    assert note(settings, "paint the wall of the server") == ""


def test_a_server_with_hits_is_not_told_again(settings):
    assert note(settings, "github issue", found={"github"}) == ""


def test_where_there_is_nothing_at_all_every_missing_server_is_told(settings):
    assert note(settings, "paint", any_of_them=True) == (
        "Not searched: server github has failed to start; server mail-server is disabled; server maps is not in use."
    )


@pytest.mark.parametrize("deny", ["github.*", "github__*", "*"])
def test_a_server_that_the_caller_may_not_use_does_not_exist(settings, deny):
    assert note(settings, "github issue", policy=Policy(deny=[deny])) == ""


def test_a_deny_of_some_tools_hides_no_server(settings):
    assert note(settings, "github issue", policy=Policy(deny=["github.delete_*"])) != ""


def test_only_servers_that_are_allowed_are_told(settings):
    assert note(settings, "github mail", policy=Policy(allow=["github.*"])) == (
        "Not searched: server github has failed to start."
    )
