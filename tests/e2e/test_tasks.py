"""A tool that runs as a task only, of a real server of 2025-11-25, called by clients and in the terminal."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from e2e.crib import connected, crib, write_config
from e2e.npm import Npm, entry

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOOL = "all__simulate-research-query"
RELATED = "io.modelcontextprotocol/related-task"


async def answer(_context: Any, _params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"interpretation": "snake"})


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_with_tasks_follows_one_and_is_asked_its_question(npm: Npm, tmp_path: Path, transport: str):
    config = write_config(tmp_path, {"all": entry(npm.everything())})
    given = {"topic": "python", "ambiguous": True}

    async with crib(transport, "legacy", config, elicitation_callback=answer) as client:
        task = (await client.call(TOOL, given, task={"ttl": 60_000}))["task"]
        named = {"taskId": task["taskId"]}
        state = await client.ask("tasks/get", named)
        result = await client.ask("tasks/result", named)
        ended = await client.ask("tasks/get", named)

    assert (state["status"], state["ttl"]) == ("working", 60_000)
    assert "python (snake)" in result["content"][0]["text"]
    assert result["_meta"] == {RELATED: named}
    assert ended["status"] == "completed"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_client_without_tasks_gets_the_result(npm: Npm, tmp_path: Path, era: str):
    config = write_config(tmp_path, {"all": entry(npm.everything())})

    async with crib("stdio", era, config) as client:
        result = await client.tool_call(TOOL, {"topic": "owls"})

    assert "# Research Report: owls" in result["content"][0]["text"]


def test_in_the_terminal_it_is_called_like_any_other(npm: Npm, tmp_path: Path):
    config = write_config(tmp_path, {"all": entry(npm.everything())})
    command = [sys.executable, "-m", "toolcrib", "call", TOOL, '{"topic": "owls"}', "--config", str(config)]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 0, ended.stderr
    assert "# Research Report: owls" in ended.stdout
    assert "Generating report" in ended.stderr


async def test_a_client_that_is_told_of_tasks_directly_is_told_of_them_through_toolcrib(npm: Npm, tmp_path: Path):
    config = write_config(tmp_path, {"all": entry(npm.everything())})

    async with connected(npm.everything(), "legacy") as direct, crib("stdio", "legacy", config) as client:
        assert direct.server_capabilities
        assert client.server_capabilities
        assert client.server_capabilities.tasks == direct.server_capabilities.tasks
