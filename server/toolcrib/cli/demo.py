"""``toolcrib demo``: starts a real toolcrib with real servers behind it, and uses it as any other client would."""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

from toolcrib.base.errors import innermost
from toolcrib.base.text import characters_of, estimate_tokens
from toolcrib.events.reading import recorded
from toolcrib.programs.installed import are_installed

_SERVERS = {"time": "mcp_server_time", "git": "mcp_server_git"}
_LISTS = Path(__file__).with_name("demo_lists.json")
"""Tool lists of five more servers, written for the demo after those that people have; nothing runs behind them."""
_HIDDEN = "git__git_log"
_SKILL = "pack.core.undo-git-mistakes"
_PAGES, _UNFINISHED = 12, (4, 9)
"""Commits of the demo's repository, a page each, and those of them with something left to do."""
_PROGRAM = """import re
from tools import git__git_log, git__git_show
repo = {repo!r}
log = await git__git_log(repo_path=repo, max_count=100)
commits = re.findall(r"^Commit: '?(\\w+)", log, re.MULTILINE)
shown = await parallel([git__git_show(repo_path=repo, revision=commit) for commit in commits])
[re.search(r"\\n    (.+)", text)[1] for text in shown if "TODO" in text]
"""
_DEADLINE_S = 90
REAL_TOOLS, REAL_SERVERS, REAL_LISTED, REAL_SHOWN, WITHOUT_PROGRAMS = 1_330, 41, 766_172, 1_185, 958
"""Tools of real servers, and the tokens that they take listed, and behind toolcrib: ``benchmarks/README.md``."""


class Unexpected(Exception):
    """A step did not hold; the text says which and what was seen instead."""


def main(argv: list[str]) -> int:
    """Run the walk-through; return 0 if every step held."""
    if argv:
        print("usage: toolcrib demo", file=sys.stderr)
        return 0 if argv in (["-h"], ["--help"]) else 2
    missing = [module for module in _SERVERS.values() if importlib.util.find_spec(module) is None]
    if missing:
        print("The demo needs two small servers: pip install 'toolcrib[demo]'", file=sys.stderr)
        return 1
    held = False
    with tempfile.TemporaryDirectory(prefix="toolcrib-demo-") as folder:
        try:
            anyio.run(_walk_through, Path(folder))
            held = True
        except* (Unexpected, OSError, TimeoutError, MCPError) as problems:
            print(f"\nThe demo did not work: {innermost(problems)}", file=sys.stderr)
    return 0 if held else 1


async def _walk_through(folder: Path) -> None:
    repository = await _make_repository(folder / "repository")
    config = _write_config(folder, repository)
    with anyio.fail_after(_DEADLINE_S):
        async with _client(config) as client:
            print("toolcrib serve is running, with mcp-server-time and mcp-server-git behind it, and five tool lists:")
            print(f"{_listed()}. Nothing runs behind these five.\n")
            before = await _show_list(client, "1. What an agent is shown at first:")
            # Tools of servers have "__" in their names.
            _expect(not any("__" in name for name in before), f"only our own tools should be listed, not {before}")
            print("\n2. It looks for what it needs:")
            await _search(client, "tool_search", "commit log", 3, _HIDDEN)
            await _call(client, repository)
            after = await _show_list(client, "\n4. What it is shown now, because it has used it:")
            _expect(_HIDDEN in after, f"{_HIDDEN} should be listed after its first use")
            print("\n5. It asks for what takes many calls, by one program:")
            await _run_program(client, repository)
            print("\n6. It looks up how something is done well:")
            await _search(client, "skill_search", "undo my last commit", 2, _SKILL)
            await _get_skill(client)
            shown = await _tokens(client) + estimate_tokens(client.instructions or "")
        async with _client(_everything(config)) as everything:
            tools = (await everything.list_tools(cache_mode="refresh")).tools
            _show_savings(shown, await _tokens(everything), len(tools))
        _show_program_savings(config)
        print("\nAll steps held.")


async def _make_repository(path: Path) -> Path:
    """Make a repository with a few commits for the git server to look at."""
    # A machine may have no identity configured, and git commits nothing without one; nobody is to sign these.
    identity = ["-c", "user.name=demo", "-c", "user.email=demo@example.com", "-c", "commit.gpgsign=false"]
    await _git("init", "-q", str(path))
    for page in range(1, _PAGES + 1):
        lines = [f"Line {line} of page {page}, which says what there is to say." for line in range(1, 21)]
        todo = ["TODO: an example"] if page in _UNFINISHED else []
        (path / f"page-{page}.md").write_text("\n".join([*lines, *todo, ""]), encoding="utf-8")
        await _git("-C", str(path), "add", "-A")
        await _git("-C", str(path), *identity, "commit", "-q", "-m", _message(page))
    return path


async def _git(*arguments: str) -> None:
    await anyio.run_process(["git", *arguments], stdout=subprocess.DEVNULL)


def _message(page: int) -> str:
    return f"Add page {page} of the demo's handbook"


def _write_config(folder: Path, repository: Path) -> Path:
    arguments = {"time": ["--local-timezone", "UTC"], "git": ["--repository", str(repository)]}
    servers = {
        key: {"command": sys.executable, "args": ["-m", module, *arguments[key]]} for key, module in _SERVERS.items()
    }
    for key in json.loads(_LISTS.read_text(encoding="utf-8")):
        # Without site-packages a server starts in a moment.
        arguments = ["-S", str(Path(__file__).with_name("demo_server.py")), str(_LISTS), key]
        servers[key] = {"command": sys.executable, "args": arguments}
    config = folder / "toolcrib.json"
    section: dict[str, Any] = {
        "cache_dir": str(folder / "cache"),
        "state_dir": str(folder / "state"),
        # Without the optional model, so that it shows the same whether or not it is installed.
        "tool_search": {"semantic": {"enabled": False}},
    }
    config.write_text(json.dumps({"mcpServers": servers, "toolcrib": section}), encoding="utf-8")
    return config


def _listed() -> str:
    """Return the servers whose lists are written for the demo, with the number of their tools."""
    lists = json.loads(_LISTS.read_text(encoding="utf-8"))
    return ", ".join(f"{key} ({len(tools)})" for key, tools in lists.items())


def _everything(config: Path) -> Path:
    """Return a config that lists every tool at once: what a client without toolcrib would show its model."""
    document = json.loads(config.read_text(encoding="utf-8"))
    document["toolcrib"] |= {"tool_search": {"enabled": False}, "skills": {"enabled": False}}
    plain = config.with_name("everything.json")
    plain.write_text(json.dumps(document), encoding="utf-8")
    return plain


@asynccontextmanager
async def _client(config: Path) -> AsyncGenerator[Client]:
    """Start toolcrib as a client does; what it tells of itself while it runs stays in the demo's own folder."""
    words = ["-m", "toolcrib", "serve", "--config", str(config)]
    server = StdioServerParameters(command=sys.executable, args=words, env={"XDG_RUNTIME_DIR": str(config.parent)})
    # With a session: only there does a used tool join the list.
    async with Client(stdio_client(server), mode="legacy") as client:
        yield client


async def _show_list(client: Client, heading: str) -> list[str]:
    # Past the SDK's cache, which may lack tools that were activated since.
    names = [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
    print(heading)
    print("   tools/list -> " + ", ".join(names))
    return names


async def _search(client: Client, tool: str, query: str, limit: int, expected: str) -> None:
    """Search for ``query`` with one of the two search tools, show its hits, and expect one of them."""
    print(f'   {tool} {{"query": "{query}"}}')
    found = await client.call_tool(tool, {"query": query, "limit": limit})
    answer: Any = found.structured_content or {}
    hits = answer.get("tools", answer.get("skills", []))
    for hit in hits:
        # A tool is shown by its signature, a skill by when to use it.
        about = hit.get("description", hit.get("trigger"))
        print(f"   {hit['score']:.2f}  {hit.get('signature', hit['name'])}\n         {about}")
    _expect(any(hit["name"] == expected for hit in hits), f"the search should find {expected}: {_text(found)}")


async def _call(client: Client, repository: Path) -> None:
    arguments = {"repo_path": str(repository), "max_count": 1}
    print("\n3. It calls what it found, though it was never listed:")
    print(f'   tool_call {{"name": "{_HIDDEN}", "arguments": {json.dumps(arguments)}}}')
    found = await client.call_tool("tool_call", {"name": _HIDDEN, "arguments": arguments})
    print("   " + _text(found).strip().replace("\n", "\n   "))
    _expect(not found.is_error, "the call should succeed")
    _expect(_message(_PAGES) in _text(found), "the call should show the demo's last commit")


async def _run_program(client: Client, repository: Path) -> None:
    if not are_installed():
        print("   left out: programs cannot run here; `toolcrib status` says why")
        return
    code = _PROGRAM.format(repo=str(repository))
    print("   tool_run\n" + "".join(f"     {line}\n" for line in code.splitlines()), end="")
    ran = await client.call_tool("tool_run", {"code": code})
    print(f"   -> {_text(ran)}")
    expected = [_message(page) for page in reversed(_UNFINISHED)]
    _expect(_text(ran) == json.dumps(expected, separators=(",", ":")), f"the program should name {expected}")


async def _get_skill(client: Client) -> None:
    arguments = {"names": [_SKILL]}
    print(f"   skill_get {json.dumps(arguments)}")
    given = _text(await client.call_tool("skill_get", arguments))
    print("   " + given.strip().replace("\n", "\n   "))
    _expect("reflog" in given, "the skill should say what to do")


async def _tokens(client: Client) -> int:
    tools = (await client.list_tools(cache_mode="refresh")).tools
    seen = [tool.model_dump(by_alias=True, include={"name", "description", "input_schema"}) for tool in tools]
    return sum(estimate_tokens(json.dumps(tool, separators=(",", ":"))) for tool in seen)


def _show_savings(shown: int, everything: int, tools: int) -> None:
    print("\n7. What that costs the agent's context (estimated, four characters a token):")
    print(
        f"   {shown:,} tokens with our instructions, {everything:,} with all {tools} tools listed: "
        f"{1 - shown / everything:.0%} saved."
    )
    print(f"   Five of the lists were written for this demo. {REAL_TOOLS:,} tools of {REAL_SERVERS} real servers:")
    real = REAL_SHOWN if are_installed() else WITHOUT_PROGRAMS
    print(f"   {real:,} tokens with toolcrib, {REAL_LISTED:,} with all of them listed.")
    _expect(shown < everything, "listing less should cost less")


def _show_program_savings(config: Path) -> None:
    for event in recorded(config.parent / "cache" / "events.jsonl"):
        if event["event"] == "program_run":
            read = event["characters_read"] // characters_of(1)
            print(
                f"   The {event['calls']} calls of the program returned {read:,} tokens, which no agent had to read: "
                f"it took {read - event['tokens_saved']:,} itself."
            )
            _expect(event["tokens_saved"] > 0, "the program should cost less than its calls")


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def _expect(held: bool, otherwise: str) -> None:
    if not held:
        raise Unexpected(otherwise)
