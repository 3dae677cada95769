"""The programs from npm start here and do what the other slow tests rely on."""

import json
import subprocess
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from e2e.npm import Npm, entry
from fakes.menu import FakeServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("server", "tools"), [("everything", 13), ("filesystem", 14), ("memory", 9)])
async def test_each_server_lists_its_tools(npm: Npm, tmp_path: Path, server: str, tools: int):
    command = npm.filesystem(tmp_path) if server == "filesystem" else getattr(npm, server)()
    parameters = StdioServerParameters(**entry(command, env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}))
    async with Client(parameters, mode="legacy", cache=None) as mcp:
        assert len((await mcp.list_tools()).tools) == tools


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_calls_a_tool(npm: Npm, tmp_path: Path, era: str):
    fake = FakeServer(tmp_path)
    call = ["--method", "tools/call", "--tool-name", "echo", "--tool-args-json", '{"text": "hi"}']
    command = npm.inspector(fake.command, *fake.args, "stdio", "--protocol-era", era, *call)
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(answer.stdout)["result"]["structuredContent"] == {"text": "hi"}


def test_conformance_knows_both_eras(npm: Npm):
    listed = subprocess.run(npm.conformance("list"), capture_output=True, text=True, timeout=60, check=True).stdout
    assert "server-initialize" in listed
    assert "server-stateless" in listed
