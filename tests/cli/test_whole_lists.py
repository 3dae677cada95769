"""What a person is told about listing all tools at once: by `tokens`, `doctor` and `status`."""

import json
from pathlib import Path

import pytest

from cli.command_line import Run
from fakes.menu import FakeServer, tool


@pytest.fixture
def few(run: Run, tmp_path: Path) -> Path:
    """The config of one listed server with three tools."""
    folder = tmp_path / "zoo"
    folder.mkdir()
    server = FakeServer(folder, tools=[tool("feed"), tool("wash"), tool("walk")])
    config = tmp_path / "crib.json"
    section = {"cache_dir": "cache", "state_dir": "state", "programs": {"enabled": "off"}}
    config.write_text(json.dumps({"mcpServers": {"zoo": server.entry()}, "toolcrib": section}), encoding="utf-8")
    assert run("index", "refresh", "--config", str(config))[0] == 0
    return config


def limit(config: Path, tokens: int) -> None:
    """Set ``gate.pass_through_tokens``."""
    document = json.loads(config.read_text(encoding="utf-8"))
    document["toolcrib"]["gate"] = {"pass_through_tokens": tokens}
    config.write_text(json.dumps(document), encoding="utf-8")


def test_who_has_few_tools_is_told_the_key_that_saves_tokens(run: Run, few: Path):
    found = json.loads(run("tokens", "--config", str(few), "--json")[1])
    assert found["saved"] < 0
    assert found["all_listed"] < found["pass_through_tokens"] < 2 * found["all_listed"] + 100
    assert (
        f"set toolcrib.gate.pass_through_tokens: {found['pass_through_tokens']}"
        in run("tokens", "--config", str(few))[1]
    )
    assert "gate.pass_through_tokens" in run("doctor", "--config", str(few))[1]


def test_with_the_key_the_list_costs_what_the_tools_do_and_nothing_is_proposed(run: Run, few: Path):
    limit(few, 1000)
    found = json.loads(run("tokens", "--config", str(few), "--json")[1])
    assert found["toolcrib"]["tokens"] == found["all_listed"]
    assert found["toolcrib"]["own"] == {}
    assert found["pass_through_tokens"] is None
    assert "set toolcrib.gate.pass_through_tokens" not in run("tokens", "--config", str(few))[1]


def test_the_status_says_that_all_tools_are_listed(run: Run, few: Path):
    assert json.loads(run("status", "--config", str(few), "--json")[1])["whole_list"] is False
    limit(few, 1000)
    run("tokens", "--config", str(few))
    assert json.loads(run("status", "--config", str(few), "--json")[1])["whole_list"] is True
    assert "all 3 tools, because they are few" in run("status", "--config", str(few))[1]


def test_a_list_that_takes_a_little_more_than_the_tools_for_searching_still_saves_what_a_search_takes(
    run: Run, few: Path, tmp_path: Path
):
    folder = tmp_path / "zoo" / "larger"
    folder.mkdir()
    server = FakeServer(folder, tools=[tool(f"feed_{number}", "It feeds. " * 33) for number in range(14)])
    document = json.loads(few.read_text(encoding="utf-8"))
    few.write_text(json.dumps({**document, "mcpServers": {"zoo": server.entry()}}), encoding="utf-8")
    assert run("index", "refresh", "--config", str(few))[0] == 0
    found = json.loads(run("tokens", "--config", str(few), "--json")[1])
    assert 0 < found["saved"] < found["search"]
    assert found["pass_through_tokens"] is not None
