"""A skill with tools of a real server, behind a real ``toolcrib serve``: there while it is active, gone afterwards."""

import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import MCPError
from shelving import put

from e2e.crib import ERAS, JsonObject, connected, connected_over_http, serve, served_over_http, write_config
from e2e.npm import entry
from worlds import OWN_TOOLS, Client

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

GIT = [sys.executable, "-m", "mcp_server_git"]
OWN = [*OWN_TOOLS, "skill_activate", "skill_deactivate"]
REVIEW = {"git__git_log", "git__git_status"}
HANDLE = re.compile(r'"handle": "([\w-]+)"')


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config with two skills that share a tool, and one tool that is denied."""
    put(
        tmp_path / "skills",
        "git-review",
        "Reviews changes.",
        tools=["git__git_log", "git.git_status", "git__git_reset"],
    )
    put(tmp_path / "skills", "git-release", "Makes releases.", tools=["mcp__git__git_log"])
    return write_config(
        tmp_path,
        {"git": entry(GIT)},
        skills={"core_pack": False, "discover": [], "skill_dirs": ["skills"]},
        servers={"git": {"default_loading_mode": "skill", "start": "eager"}},
        policy={"deny": ["git.git_reset"]},
    )


@asynccontextmanager
async def two_clients(transport: str, era: str, config: Path) -> AsyncGenerator[tuple[Client, Client]]:
    """Connect two clients: to one server over HTTP; on stdio, where each starts its own, to two of them."""
    options = ["--listing", "dynamic" if era == "legacy" else "auto"]
    if transport == "stdio":
        command = serve(config, *options)
        async with connected(command, ERAS[era]) as one, connected(command, ERAS[era]) as other:
            yield one, other
        return
    async with (
        served_over_http(config, *options) as url,
        connected_over_http(url, ERAS[era]) as one,
        connected_over_http(url, ERAS[era]) as other,
    ):
        yield one, other


async def open_names(client: Client, arguments: JsonObject, **handle: str) -> set[str]:
    """Return the tools of git that are found; what is found can be called, and of the others none."""
    found = set(await client.found("git", search_type="regex", limit=20, **handle))
    for name in ("git__git_log", "git__git_status", "git__git_reset"):
        result = await client.call("tool_call", {"name": name, "arguments": arguments, **handle})
        assert result.get("isError", False) == (name not in found), result
        if name not in found:
            assert result["content"][0]["text"].startswith(f"Unknown tool: {name}")
    return found


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_its_tools_are_there_while_a_skill_is_active(
    config: Path, repository: Path, transport: str, era: str
) -> None:
    where = {"repo_path": str(repository)}
    async with two_clients(transport, era, config) as (client, other):
        assert await open_names(client, where) == set()
        with pytest.raises(MCPError, match="Unknown tool: git__git_log"):
            await client.call("git__git_log", where)

        text = (await client.skill("get", names=["git-review"]))["formatted_context"]
        assert "1 tool that it names: not available now." in text
        assert "git_reset" not in text
        handle = {"handle": found[1]} if (found := HANDLE.search(text)) else {}
        assert bool(handle) == (transport == "http" and era == "modern")
        assert ("- git__git_log(" in text) == (era == "modern")

        assert await open_names(client, where, **handle) == REVIEW
        listed = sorted(REVIEW) if era == "legacy" else []
        assert await client.names() == [*OWN, *listed]
        if not handle:
            assert "A start" in (await client.call("git__git_log", where))["content"][0]["text"]
        assert await open_names(other, where) == set()
        assert await other.names() == OWN

        await client.call("skill_activate", {"names": ["git-release"], **handle})
        await client.call("skill_deactivate", {"names": ["git-review"], **handle})
        assert await open_names(client, where, **handle) == {"git__git_log"}
        await client.call("skill_deactivate", {"names": ["git-release"], **handle})
        assert await open_names(client, where, **handle) == set()
        assert await client.names() == OWN
