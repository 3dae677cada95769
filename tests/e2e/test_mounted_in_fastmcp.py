"""A FastMCP application that mounts toolcrib asks it in the revision of its own client, without a probe."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.menu import FakeServer, tool
from serve.served import write_config

pytestmark = pytest.mark.slow

APPLICATION = """
import asyncio, json, os, sys
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

async def main(mode, command, *arguments):
    app = FastMCP("app")
    app.mount(create_proxy(StdioTransport(command=command, args=arguments, env=dict(os.environ))))
    async with Client(app, mode=mode) as client:
        names = [tool.name for tool in await client.list_tools()]
        found = await client.call_tool("tool_call", {"name": "fake__echo", "arguments": {"a": 1}})
        print(json.dumps([client.session.protocol_version, names, found.structured_content]))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_its_client_lists_and_calls_in_either_revision(tmp_path: Path, mode: str, revision: str):
    python = os.environ.get("TOOLCRIB_FASTMCP_PYTHON")
    if not python:
        pytest.skip("needs FastMCP: TOOLCRIB_FASTMCP_PYTHON=$(scripts/install-fastmcp)")
    config = write_config(tmp_path, FakeServer(tmp_path, tools=[tool("echo", "Answers with its arguments.")]))
    serve = [sys.executable, "-m", "toolcrib", "serve", "--config", str(config)]
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": "", "XDG_DATA_HOME": ""}
    done = subprocess.run(
        [python, "-c", APPLICATION, mode, *serve], env=environ, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    spoken, names, answer = json.loads(done.stdout.splitlines()[-1])
    assert (spoken, answer) == (revision, {"a": 1})
    assert {"tool_search", "tool_call"} <= set(names)
