"""Known hosts get what suits them; of whoever is unknown nothing is assumed; the config has the last word."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from fakes.menu import tool
from toolcrib.policy.client_profiles import ClientProfiles
from worlds import MemoryServer, configured

SENT = {
    "claude-code": "dynamic",
    "codex-mcp-client": "stable",
    "gemini-cli-mcp-client": "stable",
    "gemini-cli-mcp-client-toolcrib": "stable",
    "opencode": "stable",
    "copilot-cli": "stable",
    "qwen-cli-mcp-client-toolcrib": "stable",
    "continue-cli-client": "stable",
    "@cline/core": "stable",
}
"""Names as the hosts send them."""

DB = {"db": MemoryServer([tool("read")])}


def hosts(folder: Path, transport: str = "stdio", servers: Any = DB, **toolcrib: Any) -> ClientProfiles:
    return ClientProfiles(configured(folder, servers, toolcrib), transport)


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(("client", "listing"), SENT.items())
def test_a_known_host_gets_text_alone_and_the_list_that_suits_it(tmp_path, client, listing, transport):
    served = hosts(tmp_path, transport).profile(client)
    assert (served.structured, served.listing) == (False, listing)
    assert "nothing is known" not in served.listing_reason + served.structured_reason


@pytest.mark.parametrize("client", ["", "mcp", "somebody", "Claude-Code", "my-claude-code", "opencode2"])
def test_of_others_nothing_is_known_and_they_get_both_forms_and_the_list_of_the_protocol_that_they_choose(
    tmp_path, client
):
    served = hosts(tmp_path).profile(client)
    assert (served.structured, served.listing, served.prefers_session) == (True, "auto", False)
    assert served.listing_reason == served.structured_reason == "this client is unknown"


def test_over_http_it_is_the_same_with_tokens_and_without(tmp_path):
    tokens = {"tokens": [{"token": "t" * 40, "subject": "ann"}]}
    for more in ({}, {"http": tokens}):
        assert hosts(tmp_path, "http", **more).profile("somebody").listing == "auto"
        assert hosts(tmp_path, "http", **more).profile("claude-code").prefers_session


@pytest.mark.parametrize("listing", ["dynamic", "stable", "auto"])
@pytest.mark.parametrize("client", ["opencode", "claude-code", "somebody"])
def test_a_list_that_is_written_by_hand_is_the_one_that_everybody_gets(tmp_path, client, listing):
    served = hosts(tmp_path, gate={"listing": listing}).profile(client)
    assert (served.listing, served.listing_reason) == (listing, "set by gate.listing or --listing")


def test_what_is_said_of_a_client_by_name_goes_before_what_is_said_of_all(tmp_path):
    by_name = {"some*": {"structured": "always", "listing": "stable"}, "somebody": {"listing": "auto"}}
    found = hosts(tmp_path, results={"structured": "never", "hosts": by_name}, gate={"listing": "dynamic"})
    served = found.profile("somebody")
    assert (served.structured, served.listing) == (True, "stable")
    assert served.listing_reason == served.structured_reason == 'set by results.hosts["some*"]'
    assert (found.profile("other").structured, found.profile("other").listing) == (False, "dynamic")


def test_a_client_that_is_named_half_keeps_the_rest_of_what_is_known_of_it(tmp_path):
    served = hosts(tmp_path, results={"hosts": {"claude-code": {"listing": "stable"}}}).profile("claude-code")
    assert (served.structured, served.listing) == (False, "stable")
    served = hosts(tmp_path, results={"structured": "always"}).profile("claude-code")
    assert (served.structured, served.listing) == (True, "dynamic")


@pytest.mark.parametrize("section", [{"servers": {}}, {"tool_search": {"enabled": False}}])
def test_where_nothing_can_be_activated_the_list_is_constant_whatever_is_said(tmp_path, section):
    by_name = {"results": {"hosts": {"*": {"listing": "dynamic"}}}, "gate": {"listing": "dynamic"}}
    served = hosts(tmp_path, **by_name, **section).profile("claude-code")
    assert served.listing == "stable"


def test_no_two_rows_of_the_table_are_about_one_client(tmp_path):
    table = hosts(tmp_path).table
    assert [sum(fnmatchcase(client, host.clients) for host in table) for client in SENT] == [1] * len(SENT)
    assert {host.product for host in table if not any(fnmatchcase(client, host.clients) for client in SENT)} == set()


def test_a_known_host_gets_of_a_result_what_it_shows_its_model_and_never_more_than_a_tenth_of_a_context(tmp_path):
    found = hosts(tmp_path, results={"hosts": {"opencode": {"max_tokens": 700}}})
    for host in found.table:
        assert 1000 < host.result_tokens <= 20_000
    assert found.profile("claude-code").result_tokens == 12_000
    assert found.profile("opencode").result_tokens == 700
    assert found.profile("somebody").result_tokens is None
    assert hosts(tmp_path, tool_search={"enabled": False}).profile("claude-code").result_tokens is None
