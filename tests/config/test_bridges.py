"""Entries that run mcp-remote: recognised in every spelling that people use, and nothing else is."""

import pytest

from toolcrib.config.foreign import find_bridge

URL = "https://mcp.example.com/mcp"


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("npx", ["mcp-remote", URL]),
        ("npx", ["-y", "mcp-remote@latest", URL]),
        ("npx", ["--yes", "mcp-remote@0.1.38", URL, "9696"]),
        ("npx", ["-p", "mcp-remote@latest", "mcp-remote", URL]),
        ("/usr/local/bin/npx", ["mcp-remote", URL, "--debug"]),
        ("C:\\Program Files\\nodejs\\npx.cmd", ["mcp-remote", URL]),
        ("cmd", ["/c", "npx", "mcp-remote", URL]),
        ("bunx", ["mcp-remote", URL]),
        ("pnpm", ["dlx", "mcp-remote", URL]),
        ("mcp-remote", [URL, "--allow-http", "--host", "127.0.0.1", "--auth-timeout", "60"]),
        ("npx", ["mcp-remote", "--transport", "http-only", URL]),
    ],
)
def test_the_bridge_is_recognised(command: str, args: list[str]):
    bridge = find_bridge({"command": command, "args": args, "env": {"A": "b"}, "type": "stdio"})
    assert bridge
    assert (bridge.entry, bridge.unread) == ({"url": URL}, ())


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"url": URL},
        {"command": "npx", "args": ["mcp-remote"]},
        {"command": "npx", "args": ["-y", "@scope/mcp-remote", URL]},
        {"command": "npx", "args": ["mcp-remote-other", URL]},
        {"command": "node", "args": ["mcp-remote", URL]},
        {"command": "npx", "args": "mcp-remote"},
        {"command": 1, "args": [1, None]},
    ],
)
def test_nothing_else_is(entry: dict[str, object]):
    assert find_bridge(entry) is None


def test_headers_come_along_with_the_variables_that_were_set_for_them():
    args = ["mcp-remote", URL, "--header", "Authorization:${AUTH}", "--header", "X-Org: ${ORG} a:b"]
    bridge = find_bridge({"command": "npx", "args": args, "env": {"AUTH": "Bearer ${TOKEN}"}, "disabled": True})
    assert bridge
    assert bridge.entry == {
        "url": URL,
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Org": "${ORG} a:b"},
        "disabled": True,
    }


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        (["https://h/sse"], "sse"),
        (["https://h/v1/sse/"], "sse"),
        (["https://h/sse", "--transport", "http-only"], None),
        (["https://h/mcp", "--transport=sse-only"], "sse"),
        (["https://h/mcp", "--transport", "sse-first"], "sse"),
    ],
)
def test_the_older_transport_is_known_by_name_or_by_the_address(args: list[str], kind: str | None):
    bridge = find_bridge({"command": "npx", "args": ["mcp-remote", *args]})
    assert bridge
    assert bridge.entry.get("type") == kind


def test_what_nothing_is_made_of_is_named():
    args = ["mcp-remote", URL, "--static-oauth-client-info", "{}", "--ignore-tool", "a", "--ignore-tool", "b"]
    bridge = find_bridge({"command": "npx", "args": args})
    assert bridge
    assert bridge.unread == ("--static-oauth-client-info", "--ignore-tool")
