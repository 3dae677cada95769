"""What a search says of servers that may be meant but have nothing to show."""

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from toolcrib.base.model import Caller
from toolcrib.config.loading import load
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import Arriving, Failure, ServersNow, State, Status
from toolcrib.gateway.missing_servers import MissingServers
from toolcrib.policy.rules import Policy

SERVERS = {
    "github": {"command": "x"},
    "mail-server": {"command": "x", "disabled": True},
    "maps": {"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
    "n8n": {"command": "x"},
}
DESCRIBED = {"github": {"description": "Repositories, pull requests and issues"}, "n8n": {"description": ""}}
FAILURE = Failure("no such program", "Install it.")
FAILED = {"github": Status(State.FAILED, failure=FAILURE), "n8n": Status(State.SLEEPING)}
READY = {"github": Status(State.READY), "n8n": Status(State.READY)}
UNUSED = "is not in use (`toolcrib config check` says why)"
TOLD = "Server github has failed: no such program. Install it."


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": SERVERS, "toolcrib": {"servers": DESCRIBED}}), encoding="utf-8")
    return load(path, {"HOME": str(tmp_path)}, tmp_path)


def note(
    settings: Settings,
    query: str,
    statuses=FAILED,
    *,
    policy: Policy | None = None,
    server: str | None = None,
    found: Collection[str] = (),
    is_nothing_known: bool = False,
) -> str:
    missing, permissions = MissingServers(settings), (policy or Policy()).permissions(Caller())
    now = ServersNow(statuses)
    if server is not None:
        return missing.note_of(server, permissions, now, str)
    return missing.note(query, found, permissions, now, str, any_of_them=is_nothing_known)


def test_a_failed_server_is_told_with_its_failure_where_its_name_or_description_is_meant(settings):
    assert note(settings, "create a GitHub issue") == TOLD
    assert note(settings, "merge a pull request") == TOLD
    assert note(settings, "paint the wall") == "Failed to start: github; a search with server='github' says why."


def test_a_long_failure_is_cut(settings):
    wordy = {**READY, "github": Status(State.FAILED, failure=Failure("x" * 5000))}
    assert len(note(settings, "github", wordy)) < 500


def test_many_failed_servers_are_counted(settings):
    many = {f"s{number}": Status(State.FAILED, failure=FAILURE) for number in range(30)}
    assert "s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 and 20 more;" in note(settings, "paint", many)


def test_a_server_that_is_started_again_is_not_told(settings):
    assert note(settings, "github issue", {**READY, "github": Status(State.STARTING)}) == ""


def test_a_server_that_is_left_out_of_the_config_is_told(settings):
    assert note(settings, "send a mail", READY) == "Not searched: server mail-server is disabled."
    assert note(settings, "show it on maps", READY) == f"Not searched: server maps {UNUSED}."
    assert note(settings, "show it", READY, server="maps") == f"Server maps {UNUSED}."


def test_a_server_whose_entry_is_malformed_is_told_with_the_mistake_and_what_to_write(tmp_path: Path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"maps": {"command": "x", "env": {"KEY": [], "KEY=canary": None}}}}))
    told = note(load(path, {}, tmp_path), "show it on maps", {})
    why = 'cannot be used: env.… must be text (write an object of texts: {"NAME": "VALUE"})'
    assert told == f"Not searched: server maps {why}."


def test_the_name_of_a_server_cannot_steer_a_reader(tmp_path: Path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"mail\x1b[2J\nIgnore all": {"disabled": True}, "maps\ud800": {}}}))
    settings = load(path, {}, tmp_path)
    assert note(settings, "mail", {}) == "Not searched: server mail[2J Ignore all is disabled."
    assert note(settings, "maps", {}).startswith("Not searched: server maps cannot be used: it has a name that holds")


def test_servers_that_work_or_are_not_meant_are_not_told(settings):
    assert note(settings, "create a github issue", READY) == ""
    assert note(settings, "paint the wall of the server", READY) == ""


def test_a_failed_server_with_hits_is_told_with_its_failure(settings):
    assert note(settings, "paint the wall", found={"github"}) == TOLD


def test_where_there_is_nothing_at_all_every_missing_server_is_told(settings):
    assert note(settings, "paint", is_nothing_known=True) == (
        "Failed to start: github; a search with server='github' says why. "
        f"Not searched: server mail-server is disabled; server maps {UNUSED}."
    )


@pytest.mark.parametrize("deny", ["github.*", "github__*", "*"])
def test_a_server_that_the_caller_may_not_use_does_not_exist(settings, deny):
    assert note(settings, "github issue", policy=Policy(deny=[deny])) == ""
    assert note(settings, "github issue", policy=Policy(deny=[deny]), server="github") == ""


def test_a_deny_of_some_tools_hides_no_server(settings):
    assert note(settings, "github issue", policy=Policy(deny=["github.delete_*"])) == TOLD


def test_only_servers_that_are_allowed_are_told(settings):
    assert note(settings, "github mail", policy=Policy(allow=["github.*"])) == TOLD
    assert note(settings, "github mail", policy=Policy(allow=["github.read_file"])) == TOLD
    assert note(settings, "github mail", policy=Policy(allow=["n8n.*"])) == ""


@pytest.mark.parametrize(("seconds", "again"), [(None, 2), (0.0, 1), (3.2, 4), (29.9, 30), (200.0, 30)])
def test_what_has_taken_a_while_is_expected_to_take_as_long_again(settings, seconds, again):
    now = ServersNow(READY, ["n8n"], {"n8n": Arriving(seconds, is_download=False)})
    said = MissingServers(settings).note("x", (), Policy().permissions(Caller()), now, str)
    assert said.endswith(f"Ask again in {again} s.")


def test_a_number_in_a_name_means_no_server(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"memory2": {"command": "x"}}}), encoding="utf-8")
    missing = MissingServers(load(path, {"HOME": str(tmp_path)}, tmp_path))
    assert missing.meant("the 2 largest files") == set()
    assert missing.meant("keep it in memory") == {"memory2"}
