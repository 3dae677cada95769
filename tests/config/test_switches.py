"""Switched off in any client's words: left out of our own config, and imported disabled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.clients.entries import VariableContext, read_entry
from toolcrib.clients.importing import DraftServer, EntryCheck, draft
from toolcrib.clients.known import client_table
from toolcrib.clients.reading import FoundServer
from toolcrib.config.editing.changes import apply_changes, enabling
from toolcrib.config.switches import switches

OFF: list[tuple[Mapping[str, Any], str]] = [
    ({"isActive": False}, "isActive is false"),
    ({"active": False}, "active is false"),
    ({"enabled": False}, "enabled is false"),
    ({"enabled": "false"}, 'enabled is "false"'),
    ({"enabled": "no"}, 'enabled is "no"'),
    ({"enabled": "off"}, 'enabled is "off"'),
    ({"enabled": "Disabled"}, 'enabled is "disabled"'),
    ({"enabled": 0}, "enabled is 0"),
    ({"enabled": 0.0}, "enabled is 0"),
    ({"enabled": "${UNSET:-false}"}, 'enabled is "false"'),
    ({"Enabled": False}, "Enabled is false"),
    ({"is_enabled": False}, "is_enabled is false"),
    ({"isenabled": "False"}, 'isenabled is "false"'),
    ({"serverEnabled": False}, "serverEnabled is false"),
    ({"disabled": "true"}, 'disabled is "true"'),
    ({"disabled": "yes"}, 'disabled is "yes"'),
    ({"disabled": 1}, "disabled is 1"),
    ({"disabled": "disabled"}, 'disabled is "disabled"'),
    ({"DISABLED": True}, "DISABLED is true"),
    ({"isDisabled": True}, "isDisabled is true"),
    ({"disable": True}, "disable is true"),
    ({"disabledByUser": True}, "disabledByUser is true"),
    ({"notEnabled": True}, "notEnabled is true"),
    ({"not_disabled": False}, "not_disabled is false"),
    ({"inactive": True}, "inactive is true"),
    ({"quarantined": True}, "quarantined is true"),
    ({"quarantined": "true"}, 'quarantined is "true"'),
    ({"blocked": True}, "blocked is true"),
    ({"blocked": "true"}, 'blocked is "true"'),
    ({"paused": True}, "paused is true"),
    ({"archived": True}, "archived is true"),
    ({"status": "disabled"}, 'status is "disabled"'),
    ({"status": "INACTIVE"}, 'status is "inactive"'),
    ({"status": "disabled by user"}, 'status is "disabled by user"'),
    ({"status": "not active"}, 'status is "not active"'),
    ({"status": False}, "status is false"),
    ({"state": "quarantined"}, 'state is "quarantined"'),
    ({"state": "stopped"}, 'state is "stopped"'),
    ({"mode": "off"}, 'mode is "off"'),
    ({"enabledState": "disabled"}, 'enabledState is "disabled"'),
    ({"off": True}, "off is true"),
    ({"skip": True}, "skip is true"),
    ({"ignore": True}, "ignore is true"),
    ({"exclude": "true"}, 'exclude is "true"'),
    ({"unavailable": True}, "unavailable is true"),
    # one level further down
    ({"options": {"enabled": False}}, "options.enabled is false"),
    ({"settings": {"isActive": "false"}}, 'settings.isActive is "false"'),
    ({"config": {"enabled": 0}}, "config.enabled is 0"),
    ({"status": {"enabled": False}}, "status.enabled is false"),
    # one that is off is enough
    ({"disabled": False, "isActive": False}, "isActive is false"),
    ({"enabled": True, "status": "disabled"}, 'status is "disabled"'),
    ({"isActive": "perhaps", "quarantined": True}, "quarantined is true"),
]

IN_USE: list[Mapping[str, Any]] = [
    {"disabled": False},
    {"disabled": "false"},
    {"disabled": "no"},
    {"disabled": 0},
    {"disabled": None},
    {"enabled": True},
    {"enabled": "true"},
    {"enabled": "${UNSET:-on}"},
    {"enabled": 1},
    {"enabled": None},
    {"isActive": True, "status": "active", "quarantined": False},
    {"notDisabled": True},
    {"status": "connected"},
    {"status": "error"},
    {"status": 0},
    {"status": {"active": 3, "stopped": 1}},
    {"status": "up to date, 3 tools"},
    {"exclude": "false"},
    {"ignored": "no"},
    {"available": "2026-01-01"},
    {"allowed": "*"},
    {"enabledBy": "alice"},
    {"activeUser": "bob"},
    {"includeStatus": False},
    {"options": {"mode": "off", "active": 3, "enabled": "openai,github"}},
    {"settings": {"state": "paused", "skip": True}},
    {"skip_quarantine": True},
    {"//disabled": True},
    {"state": {"tools": 3}},
    {"mode": "stdio"},
    {"mode": "none"},
    {"disabledReason": "disabled"},
    {"enabledAt": "2026-01-01"},
    {"autoEnabled": False},
    {"autostart": False},
    {"trust": False},
    {"env": {"ENABLED": "false", "disabled": "true"}},
    {"metadata": {"enabled": False}},
]

UNCLEAR: list[Mapping[str, Any]] = [
    {"enabled": "s3cret-word"},
    {"enabled": ""},
    {"enabled": 2},
    {"enabled": -(10**400)},
    {"enabled": 1e308},
    {"enabled": "false " * 100},
    {"disabled": "s3cret-word"},
    {"disabled": 0xFFFF_FFFF_FFFF_FFFF_FFFF},
    {"quarantined": ["s3cret-word"]},
    {"paused": {"until": "s3cret-word"}},
    {"quarantined": "s3cret-word"},
    {"status": "disabled s3cret-word"},
    {"status": "${STATE_OF_IT:-paused s3cret-word}"},
    {"status": "no longer active"},
    {"status": "turned off"},
    {"status": "disabled – by s3cret"},
    {"status": f"disabled since s3cret{'.' * 99}"},
    {"enabled": "$ENABLED"},
    {"status": "$ACTIVE"},
    {"options": {"enabled": "$ENABLED"}},
]


def _named(keys: Any) -> str:
    return str(keys)[:60] if isinstance(keys, dict) else ""


def imported(keys: Mapping[str, Any]) -> DraftServer:
    """Return what is made of an entry with these keys, of a server ``it``."""
    client = client_table().other
    read = read_entry("it", {"command": "x", **keys}, client, VariableContext(client.syntax, Path("/home"), None))
    [server] = draft([FoundServer("it", client, Path("/f"), ("mcpServers", "it"), read)], {}, EntryCheck({})).servers
    return server


@pytest.mark.parametrize(("keys", "said"), OFF, ids=_named)
def test_a_server_that_is_switched_off_is_left_out_and_it_is_told_by_what(keys: Any, said: str, load_server: Any):
    got = load_server({"command": "x", **keys})
    assert got.servers == {}
    [problem] = got.skipped
    assert (problem.path, problem.reason, problem.hint) == ("mcpServers.it", "is disabled", said)
    assert not problem.is_mistake
    assert not any(key in notice.reason for notice in got.notices for key in keys if "{" not in str(keys))


@pytest.mark.parametrize("keys", [keys for keys, _ in OFF if "${" not in str(keys)], ids=_named)
def test_a_server_that_is_switched_off_in_its_client_is_imported_disabled(keys: Any):
    server = imported(keys)
    assert server.entry == {"command": "x", "disabled": True}
    assert "it is disabled there, and here too" in server.notices


@pytest.mark.parametrize("keys", IN_USE, ids=_named)
def test_what_switches_nothing_off_leaves_the_server_in_use(keys: Any, load_server: Any):
    assert list(load_server({"command": "x", **keys}).servers) == ["it"]
    assert not imported({key: value for key, value in keys.items() if "${" not in str(value)}).entry.get("disabled")


@pytest.mark.parametrize("keys", UNCLEAR, ids=_named)
def test_a_switch_that_is_not_understood_leaves_the_server_out_and_is_named_without_its_value(
    keys: Any, load_server: Any
):
    [problem] = load_server({"command": "x", **keys}).skipped
    server = imported(keys)
    assert problem.is_mistake
    for told in (str(problem), server.obstacle):
        assert next(iter(keys)) in told
        assert "that is not understood" in told
        assert "s3cret" not in told
    assert server.entry["disabled"] is True


def test_a_switch_with_a_variable_that_is_not_set_leaves_the_server_out(load_server: Any):
    for key in ("disabled", "enabled", "status"):
        [problem] = load_server({"command": "x", key: "${NOT_SET}"}).skipped
        assert problem.reason == "the variable NOT_SET is not set"
        # Named as a word for the one or the other, a variable may still be anything.
        for name in ("NOT_SET", "ENABLED", "DISABLED", "env:ACTIVE"):
            server = imported({key: f"${{{name}}}"})
            assert (server.entry["disabled"], "not understood" in server.obstacle) == (True, True)


def test_a_server_that_is_switched_off_may_have_any_fault(load_document: Any):
    faults = [{"args": 3}, {"url": "no address"}, {"type": "ws"}, {"env": {"A": "${NOT_SET}"}}, {"excludeTools": ["a"]}]
    off = {f"off{number}": {"command": "x", "isActive": False, **each} for number, each in enumerate(faults)}
    got = load_document({"mcpServers": {"good": {"command": "x"}, "bare": {"disabled": True}, **off}})
    assert list(got.servers) == ["good"]
    assert {problem.reason for problem in got.skipped} == {"is disabled"}
    assert got.notices == ()


@pytest.mark.parametrize("value", ["false", "no", "off", 0])
def test_our_own_option_of_a_server_is_read_as_text_too(value: Any, load_server: Any):
    got = load_server({"command": "x"}, {"enabled": value})
    assert [str(problem) for problem in got.skipped] == ["mcpServers.it: is disabled"]
    assert list(load_server({"command": "x"}, {"enabled": "true"}).servers) == ["it"]


LISTED = [["it", 3, "gone"], {"it": True, "good": False, "gone": True}, "it", [{"serverName": "it"}]]
LISTED += [[{"serverCommand": ["x"]}, {"name": "it"}], {"gone": True, "it": None}]


@pytest.mark.parametrize("listed", LISTED, ids=str)
@pytest.mark.parametrize("key", ["disabledMcpServers", "disabled_servers", "excludeMCPServers"])
def test_a_list_beside_the_servers_switches_them_off(key: str, listed: Any, load_document: Any):
    servers = {"it": {"command": "x"}, "good": {"command": "y"}}
    got = load_document({"mcpServers": servers, key: listed})
    assert list(got.servers) == ["good"]
    assert [str(problem) for problem in got.skipped] == [f"mcpServers.it: is disabled ({key} names it)"]
    assert got.notices == ()


@pytest.mark.parametrize("listed", [True, 3, {"it": {"command": "x"}}, [3]], ids=str)
def test_a_list_beside_the_servers_that_is_not_understood_is_named(listed: Any, load_document: Any):
    got = load_document({"mcpServers": {"it": {"command": "x"}}, "disabledServers": listed})
    assert [(notice.reason, notice.hint) for notice in got.notices] == [
        ("toolcrib does not read disabledServers", "disabledServers: write a list of names")
    ]


ENABLED = [*({"mcpServers": {"it": {"command": "x", **keys}}} for keys, _ in OFF)]
ENABLED += [{"mcpServers": {"it": {"command": "x", **keys}}} for keys in UNCLEAR]
ENABLED += [
    {"mcpServers": {"it": {"command": "x"}}, "toolcrib": {"servers": {"it": {"enabled": "false"}}}},
    {"mcpServers": {"it": {"command": "x"}}, "disabledServers": ["it", "other"]},
    {"mcpServers": {"it": {"command": "x"}}, "disabledServers": {"it": True, "other": True}},
    {"mcpServers": {"it": {"command": "x"}}, "disabledServers": ["it"], "blockedServers": "it"},
    {"mcpServers": {"it": {"command": "x"}}, "deniedMcpServers": [{"serverName": "it"}, {"serverName": "other"}]},
    {"mcpServers": {"it": {"command": "x"}}, "toolcrib": {"server_defaults": {"enabled": False}}},
    {
        "mcpServers": {"it": {"command": "x", "isActive": False}},
        "toolcrib": {"server_defaults": {"enabled": "no"}, "servers": {"it": {"enabled": False, "start": "eager"}}},
    },
]


@pytest.mark.parametrize("document", ENABLED, ids=_named)
def test_to_enable_a_server_takes_away_all_that_switches_it_off(document: Any, tmp_path: Path, load_document: Any):
    text = apply_changes(json.dumps(document), tmp_path / "crib.json", enabling(document, "it"))
    got = load_document(json.loads(text))
    assert list(got.servers) == ["it"], got.skipped
    assert enabling(json.loads(text), "it") == []


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["off", "not"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_keys = st.text(max_size=12) | st.sampled_from(["enabled", "disabled", "status", "options", "isActive", "state"])


@given(st.dictionaries(_keys, _values, max_size=6))
def test_any_entry_can_be_read_and_one_switch_that_is_off_is_enough(entry: dict[str, Any]):
    found = switches(entry)
    assert switches({**entry, "quarantined": True}).off is not None
    assert found.keys <= entry.keys()
