"""The tool lists of real servers, as they sent them: each tool is indexed, or refused by its name."""

import json
from pathlib import Path

import pytest

from fakes.menu import FakeServer
from toolcrib.cli import main

CATALOG = Path(__file__).parents[3] / "shared" / "catalog"


@pytest.fixture
def lists() -> dict[str, Path]:
    found = {file.stem: file for file in sorted(CATALOG.glob("*.json"))}
    if not found:
        pytest.skip(f"there are no tool lists of real servers in {CATALOG}")
    return found


@pytest.mark.slow
def test_no_tool_of_a_real_server_is_lost_silently(
    lists: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    servers = {name: FakeServer(tmp_path, name, tools=str(file)).entry() for name, file in lists.items()}
    config = tmp_path / "toolcrib.json"
    config.write_text(json.dumps({"mcpServers": servers, "toolcrib": {"cache_dir": "cache", "state_dir": "state"}}))
    assert main(["index", "refresh", "--json", "--config", str(config)]) == 0
    listed = {server["server"]: server for server in json.loads(capsys.readouterr().out)}
    for name, file in lists.items():
        tools = [tool["name"] for tool in json.loads(file.read_text(encoding="utf-8"))["tools"]]
        refused = [each["name"] for each in listed[name]["refused"]]
        assert listed[name]["tools"] + len(refused) == len(tools), name
        assert set(refused) <= set(tools)
        assert all(each["reason"] for each in listed[name]["refused"])
    assert sum(server["tools"] for server in listed.values()) > 1000
