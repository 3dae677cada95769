"""The example files start as they are written."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from e2e.crib import connected, environment
from worlds import LISTED

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment in which the commands of this Python are found, and nothing of the user's is touched."""
    scripts = Path(sys.executable).parent
    for command in ("toolcrib", "mcp-server-time", "mcp-server-git"):
        assert shutil.which(command, path=str(scripts)), f"{command} is not installed beside {sys.executable}"
    folders = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path)}
    return environment(PATH=f"{scripts}{os.pathsep}{os.environ['PATH']}", **folders)


@pytest.mark.slow
async def test_the_examples_start_and_do_what_their_comments_say(environ: dict[str, str]):
    registered = json.loads((ROOT / "mcp.json.example").read_text(encoding="utf-8"))["mcpServers"]["toolcrib"]
    command = [shutil.which(registered["command"], path=environ["PATH"]), *registered["args"]]
    async with connected(command, env=environ, cwd=ROOT) as client:
        ours = LISTED
        assert await client.names() == [*ours, "time__get_current_time"]
        assert "git__git_log" in await client.found("last commits", server="git")
        assert await client.found("git_reset", search_type="exact") == []
        assert (await client.tool_call("git__git_reset", {"repo_path": "."}))["isError"] is True
        [hit] = (await client.search("git_log", search_type="exact", detail="schema"))["tools"]
        assert hit["examples"][0]["description"] == "The last three commits"
        assert not (await client.tool_call("time__get_current_time", {"timezone": "UTC"})).get("isError")
