"""What docs/rollout.md tells people to do can be done, in its order, and shows what it says (R129, R241)."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from cli.command_line import Run
from fakes.menu import FakeServer, tool
from toolcrib.events.kinds import (
    DownstreamState,
    SkillGet,
    SkillSearchQuery,
    ToolActivationDenied,
    ToolCall,
    ToolSearchQuery,
)
from toolcrib.events.log import EventFile, open_event_log
from worlds import OWN_TOOLS, world

PAGE = (Path(__file__).parents[2] / "docs" / "rollout.md").read_text(encoding="utf-8")
TOOLS = [
    tool("git_status", "Show the state of the working tree.", {"repo_path": "string"}, ["repo_path"]),
    tool("git_log", "Show recent commits.", {"repo_path": "string"}, ["repo_path"]),
]
STEPS = ["plain", "always", "first", "deferred", "skills"]
LISTED = {
    "plain": {"git__git_status", "git__git_log"},
    "always": {"git__git_status", "git__git_log", "tool_search", "tool_call", "tool_call_read"},
    "first": {"tool_search", "tool_call", "tool_call_read"},
    "deferred": {"git__git_status", "tool_search", "tool_call", "tool_call_read"},
    "skills": set(OWN_TOOLS),
}
"""What a client lists at each step."""


def config_of(step: str) -> dict:
    [text] = re.findall(rf"<!-- step: {step} -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    return yaml.safe_load(text)["toolcrib"]


def commands() -> Iterator[tuple[str, str]]:
    """Yield every command of the page, with the step whose config is in use there."""
    step = ""
    for name, block in re.findall(r"<!-- step: (\w+) -->|```sh\n(.*?)```", PAGE, re.DOTALL):
        step = name or step
        yield from ((step, command) for command in block.splitlines())


def of_toolcrib(*steps: str) -> list[str]:
    return [command for step, command in commands() if step in steps and command.startswith("toolcrib ")]


def test_the_steps_come_in_this_order():
    assert re.findall(r"<!-- step: (\w+) -->", PAGE) == STEPS
    assert {program for _, command in commands() for program in [command.split()[0]]} == {"toolcrib", "grep"}


@pytest.mark.sampled
@pytest.mark.parametrize("step", STEPS)
def test_each_command_does_its_work_at_its_step(step: str, run: Run, tmp_path: Path):
    server = FakeServer(tmp_path, tools=TOOLS)
    section = {**config_of(step), "cache_dir": str(tmp_path / "cache")}
    config = tmp_path / "toolcrib.json"
    config.write_text(json.dumps({"mcpServers": {"git": server.entry()}, "toolcrib": section}), encoding="utf-8")
    assert run("index", "refresh", "--config", str(config))[0] == 0
    for command in of_toolcrib(step):
        code, out, err = run(*shlex.split(command)[1:], "--config", str(config))
        assert code == 0, (command, out, err)
        if command.startswith("toolcrib search"):
            assert out.splitlines()[0].split()[1].startswith("git__git_log(")
        if command.startswith("toolcrib skills"):
            assert "split-a-large-change" in out


@pytest.mark.sampled
@pytest.mark.anyio
@pytest.mark.parametrize("step", STEPS)
async def test_a_client_lists_at_each_step_what_the_page_says(step: str, tmp_path: Path):
    async with world(tmp_path, {"git": TOOLS}, config_of(step)) as w, w.client() as client:
        assert set(await client.names()) == LISTED[step]


def test_what_is_observed_is_read_from_the_events(tmp_path: Path):
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
    with open_event_log(EventFile(tmp_path / "events.jsonl"), clock=lambda: noon) as log:
        for name, ok in (("git__git_log", True), ("git__git_status", False), ("git__git_log", True)):
            log.emit(ToolCall(tool_name=name, ok=ok, bytes=7))
        for count, query in ((0, "brew tea"), (3, "recent commits")):
            log.emit(
                ToolSearchQuery(
                    query=query,
                    requested_search_type="fts",
                    effective_search_type="fts",
                    results_count=count,
                    search=1,
                    confidence="low",
                    hits=(),
                )
            )
            log.emit(
                SkillSearchQuery(
                    query=query, requested_search_type="fts", effective_search_type="fts", results_count=count
                )
            )
        log.emit(ToolActivationDenied(tool_name="git__push", reason="unknown"))
        log.emit(DownstreamState(server="git", state="failed", reason="It ended."))
        log.emit(DownstreamState(server="web", state="ready", reason=None))
        log.emit(SkillGet(names=["pdf", "tea"], returned_count=2, max_tokens=1500, final_tokens_est=700))
    said = []
    for _, command in commands():
        if command.startswith("grep"):
            done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
            said.append([" ".join(line.split()) for line in done.stdout.splitlines()])
    assert said == [
        ['2 "tool_name":"git__git_log"', '1 "tool_name":"git__git_status"'],
        ['1 "tool_name":"git__git_status"'],
        ['"query":"brew tea"'],
        ['1 "tool_name":"git__push","reason":"unknown"'],
        ['1 "server":"git"'],
        ['1 "names":["pdf","tea"]'],
        ['"query":"brew tea"'],
    ]
