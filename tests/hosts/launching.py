"""How each host is told of its model and of toolcrib, is started for one prompt, and names what it offers.

Knows the hosts' own files, variables and flags; never knows what they are expected to do (``expected.py``).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosts.dialects import Call, JsonObject, Turn

PROMPT = "List the tickets of apollo."
TOPIC = "tickets"
"""What a host's own search is asked for, where it has one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host runs: an empty home and project, the model's address, the command that serves toolcrib.

    ``approved`` adds the one line of the host's own that docs/clients.md gives for its approvals.
    """

    home: Path
    project: Path
    model: str
    command: Sequence[str]
    approved: bool

    def write(self, name: str, content: JsonObject | str) -> None:
        """Write a file in the home directory, JSON unless it is text."""
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))

    def entry(self, **more: Any) -> JsonObject:
        """Return toolcrib's entry in the form that most hosts know."""
        return {"command": self.command[0], "args": list(self.command[1:]), **more}


@dataclass(frozen=True, slots=True)
class Launch:
    """A program of the host's package with its arguments, and what it needs in its environment."""

    program: str
    arguments: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Host:
    """One way to run a host. ``call`` makes a call of a tool of toolcrib's the way its model has to.

    ``own_search`` is a call of the host's own search, where our tools have to be found; ``asides`` answer its
    questions besides the conversation.
    """

    package: str
    launch: Callable[[Place], Launch]
    call: Callable[[str, JsonObject], Call]
    own_search: Call | None = None
    asides: Mapping[str, Turn] = field(default_factory=dict[str, Turn])


def prefixed(prefix: str) -> Callable[[str, JsonObject], Call]:
    """Return what calls toolcrib's tools by their names with something in front."""
    return lambda tool, arguments: Call(prefix + tool, arguments)


def claude_code(place: Place, **entry: Any) -> Launch:
    place.write(".claude.json", {"mcpServers": {"toolcrib": place.entry(**entry)}})
    allowed = ["--allowedTools", "mcp__toolcrib"] if place.approved else []
    environ = {
        "ANTHROPIC_BASE_URL": place.model,
        "ANTHROPIC_API_KEY": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Launch("claude", ["-p", PROMPT, *allowed], environ)


def codex(place: Place, model: str | None = None) -> Launch:
    chosen = "" if model is None else f"model = {json.dumps(model)}\n"
    text = f"""{chosen}model_provider = "scripted"
        [model_providers.scripted]
        name = "scripted"
        base_url = "{place.model}/v1"
        wire_api = "responses"
        env_key = "SCRIPTED_KEY"
        [mcp_servers.toolcrib]
        command = {json.dumps(place.command[0])}
        args = {json.dumps(place.command[1:])}
        required = true
        """
    if place.approved:
        text += 'default_tools_approval_mode = "approve"'
    place.write(".codex/config.toml", text)
    return Launch("codex", ["exec", "--skip-git-repo-check", PROMPT], {"SCRIPTED_KEY": "scripted"})


def codex_program(tool: str, arguments: JsonObject) -> Call:
    """Call a tool as Codex's current models do: by a program, here one that shows all of the result."""
    program = f"text(await tools.mcp__toolcrib__{tool}({json.dumps(arguments)}))"
    return Call("exec", namespace="functions", kind="program", program=program)


def codex_call(tool: str, arguments: JsonObject) -> Call:
    return Call(tool, arguments, namespace="mcp__toolcrib")


READ_ONLY_POLICY = """[[rule]]
mcpName = "toolcrib"
toolName = "*"
toolAnnotations = { readOnlyHint = true }
decision = "allow"
priority = 100
"""


def gemini_cli(place: Place) -> Launch:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "mcpServers": {"toolcrib": place.entry()},
    }
    place.write(".gemini/settings.json", settings)
    place.write(".gemini/trustedFolders.json", {str(place.project): "TRUST_FOLDER"})
    if place.approved:
        place.write(".gemini/policies/toolcrib.toml", READ_ONLY_POLICY)
    # A named model: otherwise another one is asked first which to take.
    environ = {"GOOGLE_GEMINI_BASE_URL": place.model, "GEMINI_API_KEY": "scripted", "GEMINI_MODEL": "gemini-3-pro"}
    return Launch("gemini", ["-p", PROMPT], environ)


def opencode(place: Place) -> Launch:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{place.model}/v1", "apiKey": "scripted"},
        "models": {"scripted": {"name": "scripted"}},
    }
    config = {
        "model": "scripted/scripted",
        "provider": {"scripted": provider},
        "mcp": {"toolcrib": {"type": "local", "command": list(place.command)}},
    }
    place.write(".config/opencode/opencode.json", config)
    return Launch(
        "opencode", ["run", PROMPT], {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    )


def copilot(place: Place) -> Launch:
    entry = place.entry(type="local", tools=["*"])
    place.write(".copilot/mcp-config.json", {"mcpServers": {"toolcrib": entry}})
    environ = {
        "COPILOT_PROVIDER_BASE_URL": f"{place.model}/v1",
        "COPILOT_PROVIDER_API_KEY": "scripted",
        "COPILOT_MODEL": "gpt-5.4",
        "COPILOT_OFFLINE": "true",
    }
    allowed = ["--allow-tool=toolcrib"] if place.approved else []
    return Launch("copilot", ["-p", PROMPT, *allowed], environ)


def qwen_code(place: Place) -> Launch:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "mcpServers": {"toolcrib": place.entry(**({"trust": True} if place.approved else {}))},
    }
    place.write(".qwen/settings.json", settings)
    environ = {"OPENAI_BASE_URL": f"{place.model}/v1", "OPENAI_API_KEY": "scripted", "OPENAI_MODEL": "qwen3-coder-plus"}
    return Launch("qwen", [PROMPT], environ)


def qwen_call(tool: str, arguments: JsonObject) -> Call:
    """Call a tool as Qwen Code's own search says: through a ``tool_call`` of the host's."""
    return Call("tool_call", {"name": f"mcp__toolcrib__{tool}", "arguments": arguments})


def cline(place: Place) -> Launch:
    settings = {"provider": "openai-compatible", "apiKey": "scripted", "model": "scripted"}
    provider = {"settings": {**settings, "baseUrl": f"{place.model}/v1"}, "tokenSource": "manual"}
    provider["updatedAt"] = "2026-01-01T00:00:00.000Z"
    providers = {"version": 1, "lastUsedProvider": "openai-compatible", "providers": {"openai-compatible": provider}}
    place.write(".cline/data/settings/providers.json", {**providers, "modes": {}})
    entry = {"transport": {"type": "stdio", **place.entry()}, "timeout": 60}
    place.write(".cline/data/settings/cline_mcp_settings.json", {"mcpServers": {"toolcrib": entry}})
    # Without this it leaves a program behind that serves later sessions.
    return Launch("cline", [PROMPT], {"CLINE_SESSION_BACKEND_MODE": "local"})


def continue_cli(place: Place) -> Launch:
    model = {"name": "scripted", "provider": "openai", "model": "gpt-4.1", "apiKey": "scripted"}
    config = {
        "name": "scripted",
        "version": "1.0.0",
        "schema": "v1",
        "models": [{**model, "apiBase": f"{place.model}/v1"}],
        "mcpServers": [{"name": "toolcrib", **place.entry()}],
    }
    place.write(".continue/config.yaml", config)
    arguments = ["--config", str(place.home / ".continue" / "config.yaml"), "-p", PROMPT]
    return Launch("cn", arguments, {"CONTINUE_TELEMETRY_ENABLED": "0"})


CLAUDE = prefixed("mcp__toolcrib__")
CODEX_FILTER = f"text(ALL_TOOLS.filter(t => /{TOPIC}/i.test(t.name + t.description)).map(t => t.name))"

HOSTS: Mapping[str, Host] = {
    "claude-code": Host(
        "claude-code", claude_code, CLAUDE, own_search=Call("ToolSearch", {"query": TOPIC, "max_results": 5})
    ),
    "claude-code-always-load": Host("claude-code", lambda place: claude_code(place, alwaysLoad=True), CLAUDE),
    "codex": Host(
        "codex", codex, codex_program, Call("exec", namespace="functions", kind="program", program=CODEX_FILTER)
    ),
    "codex-gpt-5.5": Host(
        "codex",
        lambda place: codex(place, "gpt-5.5"),
        codex_call,
        Call("tool_search", {"query": TOPIC}, kind="search"),
    ),
    "codex-gpt-4.1": Host("codex", lambda place: codex(place, "gpt-4.1"), codex_call),
    "gemini-cli": Host("gemini-cli", gemini_cli, prefixed("mcp_toolcrib_")),
    "opencode": Host("opencode", opencode, prefixed("toolcrib_")),
    "copilot": Host("copilot", copilot, prefixed("toolcrib-")),
    "qwen-code": Host(
        "qwen-code",
        qwen_code,
        qwen_call,
        own_search=Call("tool_search", {"query": TOPIC}),
        asides={"respond_in_schema": Call("respond_in_schema", {"shouldBlock": False})},
    ),
    "cline": Host("cline", cline, prefixed("toolcrib__")),
    "continue": Host("continue", continue_cli, prefixed("")),
}
"""Every host that is run, by package and by what makes a difference: a setting, or which model it asks."""
