"""Homes as people have them: files of several clients that agree, disagree, repeat themselves, and are broken.

Knows the shapes; never knows how they are read. ``HOME`` in a text is the folder of the test.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Home:
    """Files by their paths below the home; ``cwd``, below it too, is where the person runs toolcrib."""

    title: str
    files: Mapping[str, str]
    cwd: str = ""


OF_A_DESKTOP = Home(
    "editors, run in the home itself",
    {
        ".claude.json": """{"numStartups": 12, "mcpServers": {
  "everything": {"type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]},
  "github": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer canary-one"}},
  "notes": {"command": "notes-server", "args": ["--root", "${HOME}/notes", "${command:pick}"]}},
 "projects": {"HOME/work": {"mcpServers": {"db": {"command": "./db.sh", "args": ["."]}},
  "disabledMcpServers": ["db"]}}}""",
        ".claude/settings.json": '{"permissions": {"deny": ["mcp__everything__longRunningOperation"]}}',
        ".mcp.json": '{"mcpServers": {"cloned": {"command": "cloned"}}}',
        ".cursor/mcp.json": """{
  // tried and switched off
  "mcpServers": {
    "everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"], "disabled": true},
    "github": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer canary-two"}}, // the account of work
    "linear": {"url": "https://mcp.linear.example/sse"},
    "my notes": {"command": "${workspaceFolder}/notes"},
  }
}""",
        ".config/Code/User/mcp.json": """{"inputs": [
  {"type": "promptString", "id": "api-key", "description": "Key", "password": true},
  {"type": "promptString", "id": "region", "description": "Region", "default": "eu"}],
 "servers": {"search": {"type": "http", "url": "https://${input:region}.h/mcp",
  "headers": {"X-Key": "${input:api-key}"}}, "env": {"command": "python3", "envFile": "${userHome}/.env"},
  "env2": {"command": "python3", "envFile": "HOME/.env"}}}""",
        ".env": "export PLAIN=1\nAPI_KEY='canary of # more'\nPEM=\"-----BEGIN\ncanary-lines\n-----END\"\n",
        ".codeium/windsurf/mcp_config.json": """{"mcpServers": {"old": {"serverUrl": "https://h/v1/sse",
  "headers": {"X-Token": "${file:HOME/token}"}}, "gone": {"command": "HOME/bin/gone", "disabledTools": ["rm"]}}}""",
        "token": "canary-file\n",
    },
)

OF_A_TERMINAL = Home(
    "command lines, run in a project",
    {
        ".codex/config.toml": """model = "m"
[mcp_servers.everything]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-everything"]
enabled = false
[mcp_servers.everything.env]
API_TOKEN = "canary-codex"
[mcp_servers.figma]
url = "https://figma.h/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
startup_timeout_sec = 20
[mcp_servers.shell]
command = "bash"
args = ["-c", "echo ~/x $HOME"]
enabled_tools = ["run"]
""",
        ".gemini/settings.json": """{"theme": "x", "mcp": {"excluded": ["never"]}, "mcpServers": {
  "everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"],
   "env": {"API_TOKEN": "$API_TOKEN"}, "excludeTools": ["echo"]},
  "never": {"command": "bash"}, "far": {"url": "https://far.h/stream"}, "near": {"httpUrl": "https://near.h/mcp"}}}""",
        ".qwen/settings.json": """{"mcpServers": {"never": {"command": "bash"}, "a__b": {"command": "python3",
  "toolPermissions": {"x": "sometimes"}}, "key": {"httpUrl": "https://k.h/mcp?api_key=canary-query"}}}""",
        ".copilot/mcp-config.json": """{"mcpServers": {"shell": {"type": "local", "command": "bash",
  "args": ["-c", "echo ~/x $HOME"], "tools": ["run", "walk"]}, "none": {"command": "bash", "args": ["x"],
  "tools": []}}}""",
        ".config/opencode/opencode.json": """{"mcp": {
  "gh": {"type": "local", "command": ["docker", "run", "-e", "TOKEN=canary-docker", "img"], "enabled": false},
  "file": {"type": "local", "command": ["python3"], "environment": {"SEED": "{file:~/seed}"}, "timeout": 5000}}}""",
        "seed": "canary seed",
        ".config/goose/config.yaml": """extensions:
  developer: {type: builtin, name: developer, enabled: true}
  fetch: {type: stdio, cmd: uvx, args: [mcp-server-fetch], env_keys: [FETCH_KEY], enabled: true, name: fetch}
""",
        ".config/zed/settings.json": """// Zed
{"context_servers": {"gh": {"command": "docker", "args": ["run", "-e", "TOKEN=canary-docker", "img"]},
  "ext": {"source": "extension", "settings": {}},}}""",
        "work/.mcp.json": '{"mcpServers": {"of the project": {"command": "python3"}}}',
    },
    cwd="work",
)

OF_LONG_USE = Home(
    "broken, doubled and of other systems",
    {
        ".claude.json": '{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]',
        ".config/Claude/claude_desktop_config.json": '\ufeff{"mcpServers": {"db": {"command": "C:\\\\t\\\\db.exe"},\n'
        '"wiki": {"command": "npx", "args": ["-y", "mcp-remote", "https://w.h/sse", "--header", "X-Key:${K}"],'
        ' "env": {"K": "canary-bridge"}}, "line": {"command": "python3 -m server"}, "b": "uvx b",'
        ' "odd": {"command": "python3", "args": ["$Y", "${X}", "${a-b}"], "env": {"MY_PASSWORD": "canary${x-y}z"}}}}',
        ".config/Code/User/settings.json": """{"mcp": {"servers": {"git": {"command": "uvx",
  "args": ["mcp-server-git"], "dev": {"watch": "**"}}}}}""",
        ".cursor/mcp.json": """{"mcpServers": {"a": {"command": "python3", "env": {"K": "first"}},
  "a": {"command": "python3", "cwd": "${workspaceFolder}", "env": {"K": "last"}},
  "toolcrib": {"command": "toolcrib", "args": ["serve"]},
  "wss": {"url": "wss://h/x"}, "café": {"command": "python3", "args": ["café"], "timeout": 5}, "nul": null}}""",
        ".codeium/windsurf/mcp_config.json": """{"mcpServers": {"cafe": {"command": "python3", "args": ["café"],
  "disabled": true}, "file": {"command": "python3", "env": {"T": "${file:/nowhere}"}}}}""",
        ".gemini/settings.json": "\n",
        ".qwen/settings.json": '{"mcpServers": []}',
    },
)

CLIENT_HOMES = (OF_A_DESKTOP, OF_A_TERMINAL, OF_LONG_USE)
