"""Files as other MCP clients write them, and what each server in them is here: what tests of taking over go through.

Knows the shapes; never knows how they are read. ``HOME`` and ``PROJECT`` in a text are the folders of the test.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Expected:
    """What one server comes to. ``None`` of ``allowed`` is every tool; words of ``said`` stand in its notices.

    ``obstacle`` is a part of why it is switched off, ``lost`` of why there is nothing to take over.
    """

    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    allowed: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    obstacle: str = ""
    lost: str = ""


@dataclass(frozen=True, slots=True)
class ClientText:
    """One file of a client, at its usual place below ``home`` or ``project``; ``beside`` are other files there."""

    title: str
    client: str
    path: str
    text: str
    servers: Mapping[str, Expected]
    beside: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()


GIT = {"command": "uvx", "args": ["mcp-server-git"]}

CLIENT_TEXTS = (
    # -- Claude Code -----------------------------------------------------------------------------
    ClientText(
        "the user's servers and those of a project",
        "claude-code",
        "home/.claude.json",
        """{"numStartups": 3, "mcpServers": {"git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"],
        "env": {}}},
        "projects": {"PROJECT": {"allowedTools": [], "mcpServers": {"local": {"command": "./run.sh",
        "args": ["--root", "."]}},
        "disabledMcpServers": ["local"]}}}""",
        {
            "git": Expected(GIT),
            "local": Expected(
                {"command": "PROJECT/run.sh", "args": ["--root", "."], "cwd": "PROJECT", "disabled": True},
                said=("disabled there",),
            ),
        },
    ),
    ClientText(
        "variables with defaults, headers and a timeout in milliseconds",
        "claude-code",
        "project/.mcp.json",
        """{"mcpServers": {"api": {"type": "http", "url": "${API_URL:-https://api.example.com}/mcp",
        "headers": {"Authorization": "Bearer ${API_KEY}"}, "timeout": 90000}}}""",
        {
            "api": Expected(
                {
                    "type": "http",
                    "url": "${API_URL:-https://api.example.com}/mcp",
                    "headers": {"Authorization": "Bearer ${API_KEY}"},
                },
                {"call_timeout_s": 90},
            )
        },
    ),
    ClientText(
        "denials among its permissions, for a tool and for a server",
        "claude-code",
        "home/.claude.json",
        '{"mcpServers": {"git hub": {"command": "g"}, "web": {"type": "sse", "url": "https://h/sse"}}}',
        {
            "git hub": Expected({"command": "g"}, denied=("delete_repo", "push_*")),
            "web": Expected(
                {"type": "sse", "url": "https://h/sse", "disabled": True}, denied=("*",), said=("never to use it",)
            ),
        },
        beside={
            "home/.claude/settings.json": """{"permissions": {"deny": ["mcp__git_hub__delete_repo", "Bash(rm:*)",
            "mcp__git_hub__push_*", "mcp__web"]}}"""
        },
    ),
    ClientText(
        "switched off in other files than its servers, by project",
        "claude-code",
        "project/.mcp.json",
        '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}}}',
        {
            "a": Expected({"command": "a", "disabled": True}),
            "b": Expected({"command": "b", "disabled": True}),
            "c": Expected({"command": "c"}),
        },
        beside={
            "project/.claude/settings.local.json": '{"disabledMcpjsonServers": ["a"]}',
            "home/.claude.json": """{"projects": {"PROJECT": {"disabledMcpServers": ["b"]},
            "/other": {"disabledMcpServers": ["c"]}}}""",
        },
    ),
    ClientText(
        "servers of the person beside what a project switches off",
        "claude-code",
        "home/.claude.json",
        '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}',
        {"a": Expected({"command": "a"}), "b": Expected({"command": "b", "disabled": True})},
        beside={
            "project/.claude/settings.local.json": '{"disabledMcpjsonServers": ["a"]}',
            "home/.claude/settings.json": '{"deniedMcpServers": [{"serverName": "b"}]}',
        },
    ),
    ClientText(
        "switched off in the settings",
        "copilot-cli",
        "home/.copilot/mcp-config.json",
        '{"mcpServers": {"a": {"command": "a", "tools": ["*"]}, "b": {"command": "b", "tools": ["*"]}}}',
        {"a": Expected({"command": "a", "disabled": True}), "b": Expected({"command": "b"})},
        beside={"home/.copilot/settings.json": '{"disabledMcpServers": ["a"]}'},
    ),
    ClientText(
        "switched off in a file of nothing else",
        "gemini-cli",
        "home/.gemini/settings.json",
        '{"mcpServers": {"A": {"command": "a"}, "b": {"command": "b"}, "telemetry": {"command": "c"}},'
        ' "telemetry": {"enabled": false}}',
        {
            "A": Expected({"command": "a", "disabled": True}),
            "b": Expected({"command": "b"}),
            "telemetry": Expected({"command": "c"}),
        },
        beside={"home/.gemini/mcp-server-enablement.json": '{"a": {"enabled": false}, "b": {"enabled": true}}'},
    ),
    ClientText(
        "switched off in other words",
        "cursor",
        "home/.cursor/mcp.json",
        """{"mcpServers": {"a": {"command": "a", "isActive": false}, "b": {"command": "b", "status": "disabled"},
        "c": {"command": "c", "enabled": "perhaps"}, "d": {"command": "d", "isActive": true, "disabled": "false"}}}""",
        {
            "a": Expected({"command": "a", "disabled": True}),
            "b": Expected({"command": "b", "disabled": True}),
            "c": Expected({"command": "c", "disabled": True}, obstacle="a switch, enabled, that is not understood"),
            "d": Expected({"command": "d"}),
        },
    ),
    ClientText(
        "an unsure type and a server that toolcrib itself is",
        "claude-code",
        "project/.mcp.json",
        '{"mcpServers": {"crib": {"command": "toolcrib", "args": ["serve"]}, "odd": {"type": "ws", "url": "wss://h"}}}',
        {
            "crib": Expected(lost="starts toolcrib itself"),
            "odd": Expected(lost="cannot be used: type must be stdio, http, streamable-http or sse"),
        },
    ),
    # -- Claude Desktop --------------------------------------------------------------------------
    ClientText(
        "a plain file",
        "claude-desktop",
        "home/.config/Claude/claude_desktop_config.json",
        """{"mcpServers": {"filesystem": {"command": "npx", "args": ["-y",
        "@modelcontextprotocol/server-filesystem", "/d"]}},
        "globalShortcut": ""}""",
        {"filesystem": Expected({"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/d"]})},
    ),
    ClientText(
        "a byte order mark, Windows paths, and text that only looks like a variable",
        "claude-desktop",
        "home/.config/Claude/claude_desktop_config.json",
        '\ufeff{"mcpServers": {"db": {"command": "C:\\\\t\\\\db.exe",\n'
        '"args": ["${X}", "$Y"], "env": {"PASSWORD": "a${b}c"}}}}',
        {
            "db": Expected(
                {
                    "command": "C:\\t\\db.exe",
                    "args": ["${TOOLCRIB_DOLLAR:-$}{X}", "$Y"],
                    "env": {"PASSWORD": "a${TOOLCRIB_DOLLAR:-$}{b}c"},
                }
            )
        },
    ),
    ClientText(
        "broken JSON",
        "claude-desktop",
        "home/.config/Claude/claude_desktop_config.json",
        '{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}',
        {},
        problems=("is not JSON",),
    ),
    ClientText(
        "numbers and booleans where texts belong",
        "claude-desktop",
        "home/.config/Claude/claude_desktop_config.json",
        '{"mcpServers": {"n": {"command": "x", "args": ["--port", 80], "env": {"N": 1, "B": true, "NONE": null}}}}',
        {"n": Expected({"command": "x", "args": ["--port", "80"], "env": {"N": "1", "B": "true"}})},
    ),
    # -- Cursor ----------------------------------------------------------------------------------
    ClientText(
        "comments, a trailing comma, variables of an editor",
        "cursor",
        "home/.cursor/mcp.json",
        """{ // mine
        "mcpServers": {"gh": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${env:GH_TOKEN}"},},
        /* home */ "notes": {"command": "notes", "args": ["${userHome}/notes", "a${pathSeparator}b"]}, } }""",
        {
            "gh": Expected(
                {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${GH_TOKEN}"}}
            ),
            "notes": Expected({"command": "notes", "args": ["${HOME}/notes", "a/b"]}),
        },
    ),
    ClientText(
        "a project's workspace and its file of variables",
        "cursor",
        "project/.cursor/mcp.json",
        """{"mcpServers": {"w": {"command": "${workspaceFolder}/bin/w", "args": ["${workspaceFolderBasename}"],
        "envFile": "${workspaceFolder}/.env", "env": {"B": "own"}}}}""",
        {
            "w": Expected(
                {
                    "command": "PROJECT/bin/w",
                    "args": ["project"],
                    "env": {"A": "1", "B": "own", "C": "with space", "D": "${TOOLCRIB_DOLLAR:-$}{raw}"},
                },
                said=("the variables of ${workspaceFolder}/.env",),
            )
        },
        beside={"project/.env": "# c\nexport A=1\nB = 2 # two\nC='with space'\nD=${raw}\n\nnonsense\n"},
    ),
    ClientText(
        "a workspace that nothing names",
        "cursor",
        "home/.cursor/mcp.json",
        """{"mcpServers": {"w": {"command": "w", "args": ["${workspaceFolder}"]}, "c": {"command": "c",
        "cwd": "${workspaceFolder}"}}}""",
        {
            "w": Expected(
                {"command": "w", "args": ["${workspaceFolder}"], "disabled": True}, obstacle="${workspaceFolder}"
            ),
            "c": Expected({"command": "c"}, said=("runs in toolcrib's working directory",)),
        },
    ),
    ClientText(
        "a file of variables that is not there",
        "cursor",
        "home/.cursor/mcp.json",
        '{"mcpServers": {"w": {"command": "w", "envFile": "/nowhere/.env"}}}',
        {"w": Expected({"command": "w", "disabled": True}, obstacle="/nowhere/.env, which cannot be read")},
    ),
    # -- VS Code ---------------------------------------------------------------------------------
    ClientText(
        "questions to the person",
        "vscode",
        "home/.config/Code/User/mcp.json",
        """{"inputs": [{"type": "promptString", "id": "gh-token", "description": "GitHub token", "password": true},
        {"type": "pickString", "id": "region", "description": "Region", "options": ["eu", "us"], "default": "eu"}],
        "servers": {"gh": {"type": "http", "url": "https://h/${input:region}/mcp",
        "headers": {"Authorization": "Bearer ${input:gh-token}"}}}}""",
        {
            "gh": Expected(
                {
                    "type": "http",
                    "url": "https://h/${REGION:-eu}/mcp",
                    "headers": {"Authorization": "Bearer ${GH_TOKEN}"},
                },
            )
        },
    ),
    ClientText(
        "its settings, as they were",
        "vscode",
        "home/.config/Code/User/settings.json",
        """{"editor.tabSize": 2, // two
        "mcp": {"servers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "dev": {"watch": "**"}}}}}""",
        {"git": Expected(GIT, said=("toolcrib does not support dev",))},
    ),
    ClientText(
        "a project's servers",
        "vscode",
        "project/.vscode/mcp.json",
        """{"servers": {"git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git", "--repository",
        "${workspaceFolder}"]},
        "cmd": {"command": "x", "args": ["${command:pick}"]}, "cfg": {"command": "x",
        "env": {"A": "${config:a.b}"}}}}""",
        {
            "git": Expected({"command": "uvx", "args": ["mcp-server-git", "--repository", "PROJECT"]}),
            "cmd": Expected(
                {"command": "x", "args": ["${command:pick}"], "disabled": True}, obstacle="${command:pick}"
            ),
            "cfg": Expected(
                {"command": "x", "env": {"A": "${config:a.b}"}, "disabled": True}, obstacle="${config:a.b}"
            ),
        },
    ),
    ClientText(
        "a name given twice",
        "vscode",
        "home/.config/Code/User/mcp.json",
        '{"servers": {"a": {"command": "first"}, "a": {"command": "last"}}}',
        {"a": Expected({"command": "last"})},
        problems=("servers.a: is given twice (the last one counts",),
    ),
    # -- Codex -----------------------------------------------------------------------------------
    ClientText(
        "tools on and off, seconds, and variables that it passes on",
        "codex",
        "home/.codex/config.toml",
        """model = "m"  # which
[mcp_servers.git]
command = "uvx"
args = ["mcp-server-git"]
env_vars = ["GIT_DIR", {name = "SSH", source = "local"}]
startup_timeout_sec = 20
tool_timeout_sec = 90.5
enabled_tools = ["git_log", "git_status"]
disabled_tools = ["git_status"]
required = true
[mcp_servers.git.env]
"LANG" = "C"
""",
        {
            "git": Expected(
                {**GIT, "env": {"LANG": "C"}},
                {"connect_timeout_s": 20, "call_timeout_s": 90.5, "inherit_env": ["GIT_DIR", "SSH"]},
                allowed=("git_log", "git_status"),
                denied=("git_status", "status"),
            )
        },
    ),
    ClientText(
        "tokens by the names of variables",
        "codex",
        "home/.codex/config.toml",
        """[mcp_servers.fig]
url = "https://h/mcp"
bearer_token_env_var = "FIG"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Key" = "FIG_KEY" }
enabled = false
""",
        {
            "fig": Expected(
                {
                    "type": "http",
                    "url": "https://h/mcp",
                    "headers": {"X-Region": "eu", "X-Key": "${FIG_KEY}", "Authorization": "Bearer ${FIG}"},
                    "disabled": True,
                },
                said=("disabled there",),
            )
        },
    ),
    ClientText(
        "a rule for all tools that is not understood, and one about approval",
        "codex",
        "home/.codex/config.toml",
        """[mcp_servers.a]
command = "a"
default_tools_enabled = false
[mcp_servers.b]
command = "b"
startup_timeout_ms = 1500
default_tools_approval_mode = "prompt"
[mcp_servers.b.tools.rm]
approval_mode = "prompt"
""",
        {
            "a": Expected({"command": "a", "disabled": True}, obstacle="default_tools_enabled"),
            "b": Expected({"command": "b"}, {"connect_timeout_s": 1.5}),
        },
    ),
    ClientText(
        "broken TOML",
        "codex",
        "home/.codex/config.toml",
        "[mcp_servers.a]\ncommand = x\n",
        {},
        problems=("is not TOML",),
    ),
    # -- Gemini CLI ------------------------------------------------------------------------------
    ClientText(
        "both kinds of addresses, milliseconds, and trust",
        "gemini-cli",
        "home/.gemini/settings.json",
        """{"theme": "Dracula", "mcpServers": {"new": {"httpUrl": "https://h/mcp", "timeout": 5000, "trust": true},
        "old": {"url": "https://h/sse"}, "typed": {"url": "https://h2/mcp", "type": "http"}}}""",
        {
            "new": Expected({"type": "http", "url": "https://h/mcp"}, {"call_timeout_s": 5}),
            "old": Expected({"type": "sse", "url": "https://h/sse"}),
            "typed": Expected({"type": "http", "url": "https://h2/mcp"}),
        },
    ),
    ClientText(
        "tools kept away, and tools with arguments",
        "gemini-cli",
        "home/.gemini/settings.json",
        """{"mcpServers": {"fs": {"command": "fs", "excludeTools": ["delete_file", "write(path)"]},
        "gh": {"command": "gh", "includeTools": ["list", "get"]},
        "all": {"command": "a", "includeTools": ["get_*"]}}}""",
        {
            "fs": Expected({"command": "fs"}, denied=("delete_file", "write")),
            "gh": Expected({"command": "gh"}, allowed=("list", "get")),
            "all": Expected({"command": "a", "disabled": True}, obstacle="includeTools"),
        },
    ),
    ClientText(
        "tools kept away from all servers, alone and with a server",
        "gemini-cli",
        "home/.gemini/settings.json",
        """{"tools": {"exclude": ["drop", "mcp_fs_write", "gh__push", "run_shell_command(rm)"], "core": ["ls"]},
        "mcpServers": {"fs": {"command": "fs"}, "gh": {"command": "gh"}, "run": {"command": "run"}}}""",
        {
            "fs": Expected({"command": "fs"}, denied=("drop", "mcp_fs_write", "write", "run_shell_command")),
            "gh": Expected({"command": "gh"}, denied=("drop", "gh__push", "push", "run_shell_command")),
            "run": Expected({"command": "run"}, denied=("drop", "run_shell_command", "shell_command")),
        },
    ),
    ClientText(
        "a rule for all servers that is no list",
        "gemini-cli",
        "home/.gemini/settings.json",
        """{"excludeTools": "drop", "tools": {"exclude": [{"name": "drop"}]},
        "mcpServers": {"a": {"command": "a", "excludeTools": ["rm"]}}}""",
        {"a": Expected({"command": "a", "disabled": True}, denied=("rm",), obstacle="(excludeTools, tools.exclude)")},
    ),
    ClientText(
        "bare variables",
        "gemini-cli",
        "home/.gemini/settings.json",
        '{"mcpServers": {"a": {"command": "a", "args": ["$ROOT/x", "${ROOT}", "5$"], "env": {"KEY": "$API_KEY"}}}}',
        {"a": Expected({"command": "a", "args": ["${ROOT}/x", "${ROOT}", "5$"], "env": {"KEY": "${API_KEY}"}})},
    ),
    ClientText(
        "servers that it is told never to use",
        "gemini-cli",
        "home/.gemini/settings.json",
        """{"mcp": {"excluded": ["b"], "allowed": ["a", "b"]}, "mcpServers": {"a": {"command": "a"},
        "b": {"command": "b"}, "c": {"command": "c"}}}""",
        {
            "a": Expected({"command": "a"}),
            "b": Expected({"command": "b", "disabled": True}, denied=("*",), said=("never to use it",)),
            "c": Expected({"command": "c", "disabled": True}, denied=("*",), said=("never to use it",)),
        },
    ),
    ClientText("an empty file", "gemini-cli", "home/.gemini/settings.json", "\n", {}),
    # -- Windsurf --------------------------------------------------------------------------------
    ClientText(
        "its own key of an address, and tools switched off",
        "windsurf",
        "home/.codeium/windsurf/mcp_config.json",
        """{"mcpServers": {"jot": {"serverUrl": "https://h/mcp", "headers": {"Authorization": "Bearer ${env:JOT}"},
        "disabledTools": ["drop"], "disabled": false}}}""",
        {
            "jot": Expected(
                {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${JOT}"}},
                denied=("drop",),
            )
        },
    ),
    ClientText(
        "a token in a file",
        "windsurf",
        "home/.codeium/windsurf/mcp_config.json",
        '{"mcpServers": {"a": {"command": "a", "env": {"T": "${file:HOME/token}", "N": "${file:/nowhere/token}"}}}}',
        {
            "a": Expected(
                {"command": "a", "env": {"T": "canary-file", "N": "${file:/nowhere/token}"}, "disabled": True},
                obstacle="the file /nowhere/token, which cannot be read",
            )
        },
        beside={"home/token": "canary-file\n"},
    ),
    ClientText(
        "values of another type than the client takes",
        "windsurf",
        "home/.codeium/windsurf/mcp_config.json",
        """{"mcpServers": {"args": {"command": "a", "args": "--read-only"},
        "env": {"command": "a", "env": ["T=b"], "disabledTools": ["drop"]},
        "inner": {"command": {"path": "a", "args": "--read-only"}},
        "headers": {"serverUrl": "https://h", "headers": "A: b"},
        "options": {"serverUrl": "https://h", "requestOptions": {"headers": ["A: b"]}},
        "keys": {"command": "a", "env_keys": "TOKEN"}, "file": {"command": "a", "envFile": [".env"]},
        "token": {"serverUrl": "https://h", "bearer_token_env_var": ["T"]},
        "empty": {"command": "empty", "args": "", "env": []},
        "unset": {"command": "unset", "env": {"A": "b", "B": null}},
        "both": {"command": "a", "serverUrl": "https://h"}, "fine": {"command": "a", "args": [8080, 3.10, true]},
        "guessed": {"type": "httpStream", "serverUrl": "https://h"}, "null": {"command": "a", "args": ["b", null]},
        "name": {"command": "a", "env": {"A=canary": {}}}}}""",
        {
            "args": Expected(lost='cannot be used: args must be a list (write a list of texts: ["--port", "80"])'),
            "env": Expected(lost="; its rules about tools (disabledTools) are not taken over"),
            "inner": Expected(lost="cannot be used: args must be a list"),
            "headers": Expected(lost="cannot be used: headers must be an object"),
            "options": Expected(lost="cannot be used: headers must be an object"),
            "keys": Expected(lost="cannot be used: env_keys must be a list"),
            "file": Expected(lost="cannot be used: envFile must be text"),
            "token": Expected(lost="cannot be used: bearer_token_env_var must be text"),
            "empty": Expected({"command": "empty"}),
            "unset": Expected({"command": "unset", "env": {"A": "b"}}),
            "both": Expected(lost="cannot be used: it has a command and a url (keep one of them)"),
            "fine": Expected({"command": "a", "args": ["8080", "3.10", "true"]}),
            "guessed": Expected({"type": "http", "url": "https://h"}),
            "null": Expected(lost="cannot be used: args[1] must be text"),
            "name": Expected(lost="cannot be used: env.A… must be text"),
        },
    ),
    ClientText(
        "an address without a server",
        "windsurf",
        "home/.codeium/windsurf/mcp_config.json",
        '{"mcpServers": {"a": {"disabled": true}, "b": "uvx b", "c": {"command": {"path": 1}}}}',
        {
            "a": Expected(lost="has no command and no url"),
            "b": Expected(lost="is not an object"),
            "c": Expected(lost="cannot be used: command must be text"),
        },
    ),
    # -- opencode --------------------------------------------------------------------------------
    ClientText(
        "a command that is a list, and its own variables",
        "opencode",
        "home/.config/opencode/opencode.json",
        """{"$schema": "https://opencode.ai/config.json", "mcp": {"git": {"type": "local", "command": ["uvx",
        "mcp-server-git"],
        "environment": {"T": "{env:GIT_T}", "P": "{file:~/token}"}, "enabled": true, "timeout": 5000},
        "far": {"type": "remote", "url": "https://h/mcp", "enabled": false, "headers": {"K": "${K}"}}}}""",
        {
            "git": Expected({**GIT, "env": {"T": "${GIT_T}", "P": "canary-file"}}, {"connect_timeout_s": 5}),
            "far": Expected(
                {
                    "type": "http",
                    "url": "https://h/mcp",
                    "headers": {"K": "${TOOLCRIB_DOLLAR:-$}{K}"},
                    "disabled": True,
                },
            ),
        },
        beside={"home/token": "canary-file\n"},
    ),
    ClientText(
        "tools switched off by globs over names with their server",
        "opencode",
        "home/.config/opencode/opencode.jsonc",
        """{"tools": {"gh_delete*": false, "*_drop": false, "gh_get": true, "b*": false},
        "permission": {"gh_push": "deny", "gh_pull": "ask"},
        "mcp": {"gh": {"type": "local", "command": ["gh"]}, "big": {"type": "local", "command": ["big"]}}}""",
        {
            "gh": Expected({"command": "gh"}, denied=("delete*", "*_drop", "drop", "push")),
            "big": Expected({"command": "big"}, denied=("*_drop", "drop", "*")),
        },
    ),
    ClientText(
        "servers one level further down, as its second version has them",
        "opencode",
        "home/.config/opencode/opencode.json",
        '{"mcp": {"servers": {"a": {"type": "local", "command": ["a"], "cwd": "sub", "disabled": true}}}}',
        {"a": Expected({"command": "a", "cwd": "HOME/sub", "disabled": True})},
    ),
    # -- Goose -----------------------------------------------------------------------------------
    ClientText(
        "extensions of all kinds",
        "goose",
        "home/.config/goose/config.yaml",
        """GOOSE_MODE: auto
extensions:
  developer: {bundled: true, enabled: true, name: developer, timeout: 300, type: builtin}
  fetch:
    name: Fetch
    description: Gets pages
    type: stdio
    enabled: true
    cmd: uvx
    args: [mcp-server-fetch]
    envs: {LANG: C}
    env_keys: [FETCH_KEY]
    timeout: 300
    available_tools: [fetch]
  far:
    type: streamable_http
    uri: https://h/mcp
    headers: {Authorization: Bearer $FAR}
    enabled: false
""",
        {
            "developer": Expected(lost="is part of its client"),
            "fetch": Expected(
                {
                    "command": "uvx",
                    "args": ["mcp-server-fetch"],
                    "env": {"FETCH_KEY": "${FETCH_KEY}", "LANG": "C"},
                },
                {"description": "Gets pages", "call_timeout_s": 300},
                allowed=("fetch",),
            ),
            "far": Expected(
                {
                    "type": "http",
                    "url": "https://h/mcp",
                    "headers": {"Authorization": "Bearer ${FAR}"},
                    "disabled": True,
                }
            ),
        },
    ),
    ClientText(
        "tools that are never allowed, in another file",
        "goose",
        "home/.config/goose/config.yaml",
        "extensions:\n  gh: {enabled: true, config: {type: stdio, cmd: gh}}\n  old: {type: sse, uri: 'https://h/sse'}\n",
        {
            "gh": Expected({"command": "gh"}, denied=("delete_repo",)),
            "old": Expected({"type": "sse", "url": "https://h/sse"}),
        },
        beside={"home/.config/goose/permission.yaml": "user:\n  always_allow: []\n  never_allow: [gh__delete_repo]\n"},
    ),
    ClientText(
        "broken YAML",
        "goose",
        "home/.config/goose/config.yaml",
        "extensions: {a: {cmd: x}\n",
        {},
        problems=("is not YAML",),
    ),
    # -- Zed -------------------------------------------------------------------------------------
    ClientText(
        "servers of its own among settings with comments",
        "zed",
        "home/.config/zed/settings.json",
        """// Zed settings
{
  "theme": "One Dark",
  "context_servers": {
    "git": {"source": "custom", "command": "uvx", "args": ["mcp-server-git"], "env": {}, "timeout": 120},
    "old": {"command": {"path": "old", "args": ["-x"], "env": {"A": "b"}}, "settings": {}},
    "ext": {"source": "extension", "settings": {"key": "v"}},
    "far": {"url": "https://h/mcp", "headers": {"X": "y"}, "enabled": false, "timeout": 90000},
  },
}
""",
        {
            "git": Expected(GIT, {"call_timeout_s": 120}),
            "old": Expected({"command": "old", "args": ["-x"], "env": {"A": "b"}}),
            "ext": Expected(lost="is part of its client"),
            "far": Expected(
                {"type": "http", "url": "https://h/mcp", "headers": {"X": "y"}, "disabled": True},
                {"call_timeout_s": 90},
            ),
        },
    ),
    ClientText(
        "permissions of tools",
        "zed",
        "home/.config/zed/settings.json",
        """{"agent": {"tool_permissions": {"tools": {"mcp:gh:delete": {"default": "deny"},
        "mcp:gh:get": {"default": "allow"},
        "terminal": {"default": "deny"}}}}, "context_servers": {"gh": {"command": "gh"}}}""",
        {"gh": Expected({"command": "gh"}, denied=("delete",))},
    ),
    # -- Copilot CLI -----------------------------------------------------------------------------
    ClientText(
        "all tools, some tools, no tool",
        "copilot-cli",
        "home/.copilot/mcp-config.json",
        """{"mcpServers": {"all": {"type": "local", "command": "a", "tools": ["*"], "timeout": 30000},
        "some": {"type": "http", "url": "https://h/mcp", "tools": ["get", "list"], "headers": {"K": "$COPILOT_K"}},
        "none": {"type": "local", "command": "n", "tools": []}, "star": {"command": "s", "tools": "*"}}}""",
        {
            "all": Expected({"command": "a"}, {"call_timeout_s": 30}),
            "some": Expected(
                {"type": "http", "url": "https://h/mcp", "headers": {"K": "${COPILOT_K}"}}, allowed=("get", "list")
            ),
            "none": Expected({"command": "n"}, allowed=()),
            "star": Expected({"command": "s"}),
        },
    ),
    ClientText(
        "a key given twice inside a server",
        "copilot-cli",
        "home/.copilot/mcp-config.json",
        '{"mcpServers": {"a": {"command": "a", "tools": ["x"], "tools": ["y"]}}}',
        {"a": Expected({"command": "a"}, allowed=("y",))},
        problems=("mcpServers.a.tools: is given twice",),
    ),
    # -- Qwen Code -------------------------------------------------------------------------------
    ClientText(
        "two kinds of milliseconds",
        "qwen-code",
        "home/.qwen/settings.json",
        """{"mcpServers": {"a": {"command": "a", "cwd": "/w", "timeout": 2500, "discoveryTimeoutMs": 7000,
        "description": "An ${A}", "alwaysLoadTools": ["t"]}}}""",
        {
            "a": Expected(
                {"command": "a", "cwd": "/w"},
                {
                    "description": "An ${TOOLCRIB_DOLLAR:-$}{A}",
                    "call_timeout_s": 2.5,
                    "connect_timeout_s": 7,
                },
                said=("toolcrib does not support alwaysLoadTools",),
            )
        },
    ),
    ClientText(
        "permissions by tool",
        "qwen-code",
        "project/.qwen/settings.json",
        """{"mcpServers": {"a": {"command": "a", "toolPermissions": {"rm": "deny", "ls": "allow", "mv": false,
        "cp": "ask"}},
        "b": {"command": "b", "toolPermissions": {"x": "sometimes"}}, "c": {"command": "c", "excludeTools": "rm"}}}""",
        {
            "a": Expected({"command": "a"}, denied=("rm", "mv")),
            "b": Expected({"command": "b", "disabled": True}, obstacle="toolPermissions"),
            "c": Expected({"command": "c", "disabled": True}, obstacle="excludeTools"),
        },
    ),
    ClientText(
        "seconds where milliseconds are written",
        "claude-code",
        "project/.mcp.json",
        """{"mcpServers": {"a": {"command": "a", "timeout": 60}, "b": {"command": "b", "timeout": "90000"},
        "c": {"command": "c", "timeout": 999.5}, "d": {"command": "d", "timeout": 1000},
        "e": {"command": "e", "timeout": "soon"}, "f": {"command": "f", "timeout": -1}}}""",
        {
            "a": Expected({"command": "a"}, {"call_timeout_s": 60}, said=("its timeout of 60 is read as seconds",)),
            "b": Expected({"command": "b"}, {"call_timeout_s": 90}),
            "c": Expected({"command": "c"}, {"call_timeout_s": 999.5}, said=("timeout of 999.5 is read as seconds",)),
            "d": Expected({"command": "d"}, {"call_timeout_s": 1}),
            "e": Expected({"command": "e"}, said=("toolcrib does not support timeout",)),
            "f": Expected({"command": "f"}, said=("toolcrib does not support timeout",)),
        },
    ),
    ClientText(
        "half an hour, and numbers of milliseconds",
        "other",
        "project/times.json",
        """{"mcpServers": {"a": {"command": "a", "timeout": 1800}, "b": {"command": "b", "timeout": 30000},
        "c": {"command": "c", "timeout": "inf"}}}""",
        {
            "a": Expected({"command": "a"}, {"call_timeout_s": 1800}, said=("timeout of 1800 is read as seconds",)),
            "b": Expected({"command": "b"}, {"call_timeout_s": 30}, said=("timeout of 30000 is read as milliseconds",)),
            "c": Expected({"command": "c"}, said=("toolcrib does not support timeout",)),
        },
    ),
    # -- others, by their words ------------------------------------------------------------------
    ClientText(
        "Continue's list",
        "other",
        "project/servers.yaml",
        "mcpServers:\n  - name: git\n    command: uvx\n    args: [mcp-server-git]\n"
        "  - {url: 'https://h/mcp', requestOptions: {headers: {A: b}}}\n",
        {"git": Expected(GIT), "server-2": Expected({"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}})},
    ),
    ClientText(
        "Amp's key, and Cline's seconds",
        "other",
        "project/any.json",
        """{"amp.mcpServers": {"a": {"command": "a"}}, "amp.tools.disable": ["mcp__a__rm", "b*"],
        "mcpServers": {"c": {"command": "c", "timeout": 60, "autoApprove": ["x"], "disabled": false}}}""",
        {
            "c": Expected({"command": "c"}, {"call_timeout_s": 60}, denied=("b*",)),
            "a": Expected({"command": "a"}, denied=("mcp__a__rm", "rm", "b*")),
        },
    ),
)
