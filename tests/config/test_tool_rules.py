"""Rules about tools in entries of any client: converted by import, or the server is off, and never lost."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.base.model import Caller
from toolcrib.base.names import public_name
from toolcrib.clients.entries import VariableContext, read_entry
from toolcrib.clients.importing import DraftServer, EntryCheck, changes_of, draft
from toolcrib.clients.known import client_table
from toolcrib.clients.reading import FoundServer
from toolcrib.config.editing.changes import SetMember
from toolcrib.config.schema import PolicySection
from toolcrib.policy.rules import policy_of

TOOLS = ("get", "put", "drop")

CONVERTED: list[tuple[Mapping[str, Any], str]] = [
    # lists, by their verbs
    ({"excludeTools": ["drop", "put"]}, "get"),
    ({"excludedTools": ["drop"]}, "get put"),
    ({"tools_to_exclude": ["drop"]}, "get put"),
    ({"disabledtools": ["drop"]}, "get put"),
    ({"DISABLED_TOOLS": ["drop"]}, "get put"),
    ({"mcptoolsdisabled": ["drop"]}, "get put"),
    ({"mcpToolDenyList": ["drop"]}, "get put"),
    ({"tool-blacklist": ["drop"]}, "get put"),
    ({"hiddenTools": ["drop"]}, "get put"),
    ({"toolsNotAllowed": ["drop"]}, "get put"),
    ({"neverAllow": ["drop"]}, "get put"),
    ({"disabledFunctions": ["drop"]}, "get put"),
    ({"exclude": ["drop"]}, "get put"),
    ({"disabled": ["drop"]}, "get put"),
    ({"includeTools": ["get"]}, "get"),
    ({"enabled_tools": ["get", "put"]}, "get put"),
    ({"toolWhitelist": ["get"]}, "get"),
    ({"onlyTools": ["get"]}, "get"),
    ({"available_tools": ["get"]}, "get"),
    ({"tools": ["get"]}, "get"),
    ({"toolNames": ["get"]}, "get"),
    ({"include": ["get"]}, "get"),
    ({"includeTools": [], "tools": ["*"]}, ""),
    ({"tools": [{"name": "get"}, {"name": "drop", "enabled": False}]}, "get"),
    # lists inside of an object
    ({"tools": {"exclude": ["drop"]}}, "get put"),
    ({"tools": {"include": ["get", "drop"], "exclude": ["drop"]}}, "get"),
    ({"tools": {"allowed": ["get"]}}, "get"),
    ({"tools": {"disabled": ["drop"], "enabled": True}}, "get put"),
    ({"toolFilter": {"mode": "block", "list": ["drop"]}}, "get put"),
    ({"toolFilter": {"mode": "allow", "list": ["get"]}}, "get"),
    ({"toolFilter": {"type": "blacklist", "tools": ["drop"]}}, "get put"),
    ({"options": {"toolFilter": {"mode": "block", "list": ["drop"]}, "logEnabled": True}}, "get put"),
    ({"options": {"deny": ["drop"]}}, "get put"),
    ({"config": {"settings": {"disabledTools": ["drop"]}}}, "get put"),
    ({"filter": {"exclude": ["drop"]}}, "get put"),
    ({"permissions": {"deny": ["mcp__it__drop"]}}, "get put"),
    ({"allowed_tools": {"tool_names": ["get"]}}, "get"),
    ({"tool_configuration": {"enabled": True, "allowed_tools": ["get"]}}, "get"),
    # by tool
    ({"disabledTools": {"drop": True, "put": False}}, "get put"),
    ({"disabledTools": {"drop": "true"}}, "get put"),
    ({"disabledTools": {"drop": "deny"}}, "get put"),
    ({"enabledTools": {"get": True, "drop": False}}, "get"),
    ({"tools": {"drop": False, "get": True}}, "get put"),
    ({"tools": {"drop": {"enabled": False}, "get": {"description": "Gets.", "approval_mode": "prompt"}}}, "get put"),
    ({"tools": {"drop": {"disabled": "yes"}}}, "get put"),
    ({"tools": {"drop": {"permission": "never"}}}, "get put"),
    ({"toolPermissions": {"drop": "deny", "put": "ask"}}, "get put"),
    ({"toolConfig": {"drop": "off"}}, "get put"),
    ({"permissions": {"drop": "deny"}}, "get put"),
    ({"tools": {"*": False}}, ""),
    ({"enabledTools": {"*": True, "drop": False}}, "get put"),
    ({"tools": [{"name": "*"}, {"name": "drop", "enabled": False}]}, "get put"),
    ({"tools": {"exclude": {"drop": True}}}, "get put"),
    ({"excludeTools": {"drop": None}}, "get put"),
    ({"toolPermissions": {"drop": "rejected"}}, "get put"),
    ({"tools": {"drop": {"disabled": True, "description": "Drops."}}}, "get put"),
    ({"config": {"disabledTools": ["drop"], "command": "y"}, "disabledTools": []}, "get put"),
    ({"transports": [{"disabledTools": ["drop"]}]}, "get put"),
    ({"transports": [[{"disabledTools": ["drop"]}]]}, "get put"),
    ({"toolCalls": {"deny": ["drop"]}}, "get put"),
    # all tools
    ({"disableTools": True}, ""),
    ({"enableTools": False}, ""),
    ({"disabledTools": "*"}, ""),
    ({"tools": False}, ""),
    ({"toolPermissions": "deny"}, ""),
    # names with the server's, as clients show them
    *(
        ({"excludeTools": [name]}, "get put")
        for name in (
            "it__drop it_drop it-drop it.drop it/drop mcp__it__drop mcp_it_drop @it/drop *__drop *drop IT__drop "
            "drop(path) it__drop(path) it::drop it___drop it->drop mcp-it__drop mcp__i*__drop "
            "tool:drop drop@it mcp_drop mcp__plugin_p_it__drop tools/drop"
        ).split()
    ),
    *(({"includeTools": [name]}, "get") for name in "it__get mcp__it__get it/get".split()),
    ({"excludeTools": ["it__*"]}, ""),
    ({"excludeTools": ["mcp__it"]}, ""),
    ({"excludeTools": ["@it"]}, ""),
    ({"excludeTools": ["mcp__*"]}, ""),
    ({"disabledTools": {"it__drop": True}}, "get put"),
    ({"tools": {"mcp_it_drop": False}}, "get put"),
]
"""Keys of an entry, and which of its tools may still be called."""

NOT_UNDERSTOOD: list[Mapping[str, Any]] = [
    {"excludeTools": "drop"},
    {"excludeTools": ["drop", 3]},
    {"excludeTools": ["!get"]},
    {"excludeTools": ["^dr.*$"]},
    {"excludeTools": ["/drop/"]},
    {"excludeTools": [{"name": "drop"}]},
    {"includeTools": ["drop(path)"]},
    {"includeTools": ["*", "!drop"]},
    {"includeTools": ""},
    {"excludeToolGroups": ["danger"]},
    {"exclude_tags": ["danger"]},
    {"allowedMethods": ["get"]},
    {"enabledBuiltinTools": ["get"]},
    {"default_tools_enabled": False},
    {"disableDangerousTools": True},
    {"readOnlyTools": True},
    {"toolsOnly": True},
    {"toolset": "readonly"},
    {"toolsets": ["repos"]},
    {"toolMode": "safe"},
    {"tools": "get"},
    {"tools": {"drop": "sometimes"}},
    {"tools": {"drop": {"roles": ["admin"]}}},
    {"tools": {"default": "deny", "get": "allow"}},
    {"tools": {"disabled": True}},
    {"tools": {"patterns": ["d*"]}},
    {"toolFilter": ["drop"]},
    {"toolFilter": {"mode": "block", "list": ["drop"], "except": ["put"]}},
    {"toolFilter": {"mode": "exclusive", "list": ["get"]}},
    {"toolFilter": {"tools": ["drop"]}},
    {"allowed_tools": {"tool_names": ["get"], "read_only": True}},
    {"permissions": ["network"]},
    {"disabledTools": {"drop": {"when": "night"}}},
    {"disabledTools": {"drop": "sometimes"}},
    {"includeExcludedTools": ["get"]},
    {"noTools": ["drop"]},
    {"denyAllExcept": ["get"]},
    {"excludeAllBut": ["get"]},
    {"hideDisabledTools": True},
    {"toolsAutoDisabled": ["drop"]},
    {"autoDeny": ["drop"]},
    {"toolApproval": {"drop": "deny"}},
    {"approval": {"drop": "deny"}},
    {"trust": {"deniedTools": ["drop"]}},
    {"toolsToLoad": ["get"]},
    {"excludeTools": ["all"]},
    {"excludeTools": ["drop,put"]},
    {"excludeTools": ["d[r]op"]},
    {"excludeTools": ["regex:dr.p"]},
    {"includeTools": ["*", "-drop"]},
    {"includeTools": ["ge*"]},
    {"tools": [{"name": "drop", "enabled": False}, {"name": "drop"}]},
    {"tools": {"exclude": {"name": "drop"}}},
    {"tools": {"exclude": {"tags": ["danger"]}}},
    {"tools": {"enabled": False}},
    {"tools": {"enabled": "false"}},
    {"tools": {"all": False}},
    {"tools": {"remove": False}},
    {"tools": {"readOnly": True}},
    {"tools": {"blockDestructive": True}},
    {"tools": {"safeMode": True}},
    {"tools": {"drop": {"approval": "deny"}}},
    {"tools": {"drop": {"callable": False}}},
    {"tools": {"drop": {"load": False}}},
    {"toolPermissions": {"send_message": "maybe"}},
    {"toolPermissions": {"mode": "deny"}},
    {"permissions": {"defaultMode": "deny"}},
    {"tool_configuration": {"enabled": False}},
    {"tool_filter": {"read_only": True}},
    {"allowed_tools": {"read_only": True}},
    {"toolFilter": {"mode": "include", "tools": {"get": True}}},
    {"toolFilter": {"type": "include", "get": True}},
    {"include": {"tools": True}},
    {"actions": {"exclude": ["drop"]}},
    {"disabledCommands": ["drop"]},
    {"functionDenyList": ["drop"]},
    {"alwaysEnabledTools": ["get"]},
    {"never": ["drop"]},
    {"noTools": True},
    {"destructiveTools": False},
    {"loadTools": False},
    {"toolChoice": "none"},
    {"toolCalls": "disabled"},
    {"toolLoading": {"mode": "deny", "list": ["drop"]}},
    {"function_name_filter_list": "get"},
    {"toolApproval": {"drop": {"action": "deny"}}},
    {"toolApproval": [{"name": "drop", "action": "deny"}]},
    {"approvalDenyList": ["drop"]},
    {"tools": {"noWrites": True}},
    {"tools": {"load": False}},
    {"toolPermissions": {"get": "allow", "unlisted": "deny"}},
    {"toolPermissions": {"get": "allow", "_": "deny"}},
    {"permissions": {"write": False}},
    {"tools": {"drop": {"output": "blocked"}}},
    {"excludeTools": ["All"]},
    {"excludeTools": ["'drop'"]},
    {"excludeTools": ["it(drop)"]},
    {"excludeTools": ["Mcp(it:drop)"]},
    {"excludeTools": ["a_" * 200]},
    {"includeTools": ["g[e]t"]},
    {"security": {"deny": ["drop"]}},
    {"options": {"include": ["src"]}},
    {"tool_calls": {"drop": False}},
]
"""Keys that speak of tools in a way that nothing is made of."""

HARMLESS: list[Mapping[str, Any]] = [
    {"excludeTools": []},
    {"excludeTools": None},
    {"excludeTools": False},
    {"disabledTools": {}},
    {"disabledTools": {"drop": False}},
    {"disabledTools": ""},
    {"includeTools": None},
    {"includeTools": ["*", "get"]},
    {"includeTools": True},
    {"available_tools": []},
    {"tools": ["*"]},
    {"tools": "*"},
    {"tools": {"get": True}},
    {"tools": {"get": {"enabled": True, "timeout": 60}}},
    {"tools": {"exclude": [], "include": None}},
    {"toolPermissions": {}},
    {"toolPermissions": {"drop": "ask"}},
    {"toolPermissions": "allow"},
    {"readOnlyTools": False},
    {"enableExtraTools": True},
    {"autoApprove": ["get"]},
    {"alwaysAllow": ["get"]},
    {"alwaysAllowTools": ["get"]},
    {"autoApproveTools": ["get"]},
    {"disabledAutoApproveTools": ["drop"]},
    {"trustedTools": ["get"]},
    {"require_approval": {"never": {"tool_names": ["get"]}}},
    {"default_tools_approval_mode": "prompt"},
    {"tool_timeout_sec": 60},
    {"toolCallTimeout": 60},
    {"toolPrefix": "it"},
    {"disableToolPrefix": True},
    {"maxToolOutput": 9},
    {"trust": True},
    {"description": "tools that are denied"},
    {"env": {"DISABLED_TOOLS": "drop"}},
    {"rules": ["Use it carefully."]},
    {"filter": {"lang": "en"}},
    {"metadata": {"allow": ["network"]}},
    {"oauth": {"allowed": ["https://h"]}},
    {"readOnly": True},
    {"isActive": True},
    {"tools": {"get": {"alwaysAllow": False}}},
    {"tools": {"exclude": [], "timeout": 60}},
    {"permissions": {"ask": ["get"]}},
    {"toolsWithoutApproval": ["get"]},
    {"skipApprovalTools": True},
    {"cache_tools_list": True},
    {"directTools": ["get"]},
    {"supportsTools": True},
    {"maxTools": 40},
    {"toolCallsPerTurn": 5},
    {"toolTimeoutMillis": 5000},
    {"toolNamespace": "it"},
    {"tools_generated": True},
    {"timeouts": {"tools": 5}},
    {"metadata": {"tools": [{"name": "get"}]}},
    {"devtools": "on"},
    {"blockchain": "eth"},
    {"toolsPath": "x"},
    {"supports_parallel_tool_calls": False},
    {"toolTelemetry": {"enabled": False}},
    {"toolOptions": {"maxRetries": 3}},
    {"configSchema": {"properties": {"deniedTools": {"type": "array"}}}},
    {"user_config": {"disabled_tools": {"type": "string"}}},
    {"autoApprove": "off"},
    {"toolsListChanged": False},
    {"users": {"denied": ["ann"]}},
    {"rules": ["cursor.md"]},
    {"skipToolValidation": True},
    {"tools": {"get": {"inputSchema": {}, "annotations": {"readOnlyHint": True}}}},
    {"no_proxy": ["h"]},
    {"watch": {"ignore": ["x"]}},
    {"visibility": "public"},
    {"hideServerName": True},
    {"visibleTo": ["admin"]},
    {"sandbox": {"deny": ["/etc"]}},
]
"""Keys that forbid no tool."""


# disabled is a key of our own entries.
RULES = [keys for keys in (*(keys for keys, _ in CONVERTED), *NOT_UNDERSTOOD) if "disabled" not in keys]


def _named(keys: Any) -> str:
    return str(keys) if isinstance(keys, dict) else ""


def imported(keys: Mapping[str, Any]) -> DraftServer:
    """Return what is made of an entry with these keys, of a server ``it``."""
    client = client_table().other
    read = read_entry("it", {"command": "x", **keys}, client, VariableContext(client.syntax, Path("/home"), None))
    [server] = draft([FoundServer("it", client, Path("/f"), ("mcpServers", "it"), read)], {}, EntryCheck({})).servers
    return server


def callable_tools(server: DraftServer) -> list[str]:
    """Return which tools the config that is written for a server lets be called."""
    changes = changes_of(draft(server.found, {}, EntryCheck({})), {})
    written = {each.path[-1]: each.value for each in changes if isinstance(each, SetMember) and "policy" in each.path}
    policy = policy_of(PolicySection.model_validate(written)).permissions(Caller("local"))
    return [tool for tool in TOOLS if policy.permits("it", tool, public_name("it", tool))]


@pytest.mark.parametrize(("keys", "left"), CONVERTED, ids=_named)
def test_a_rule_of_any_client_is_converted_and_a_tool_denied_there_is_denied_here(keys: Any, left: str):
    server = imported(keys)
    assert not server.entry.get("disabled"), server.notices
    assert callable_tools(server) == left.split()


@pytest.mark.parametrize("keys", NOT_UNDERSTOOD, ids=_named)
def test_a_server_with_a_rule_that_is_not_understood_is_imported_disabled_and_the_key_is_named(keys: Any):
    server = imported(keys)
    assert server.entry["disabled"] is True
    [found] = server.found
    assert found.read.obstacle.startswith(f"restricts its tools in a way that is not understood ({next(iter(keys))}")


@pytest.mark.parametrize("keys", HARMLESS, ids=_named)
def test_a_key_that_forbids_nothing_keeps_no_tool_away(keys: Any, load_server: Any):
    server = imported(keys)
    assert not server.entry.get("disabled"), server.notices
    assert callable_tools(server) == list(TOOLS)
    assert list(load_server({"command": "x", **keys}).servers) == ["it"]


@pytest.mark.parametrize("keys", RULES, ids=_named)
def test_a_server_of_our_own_config_with_such_a_key_is_left_out_and_the_key_is_named_once(keys: Any, load_server: Any):
    got = load_server({"command": "x", **keys})
    assert got.servers == {}
    [problem] = got.skipped
    assert problem.reason.startswith(f"restricts its tools with another client's keys ({next(iter(keys))}")
    noticed = " ".join(notice.reason for notice in got.notices)
    assert not any(re.search(rf"\b{key}\b", noticed) for key in keys if not re.search(rf"\b{key}[.\[]", problem.hint))
