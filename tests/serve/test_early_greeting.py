"""The second start of a process greets before anything heavy is loaded, as the first one did, and loses nothing.

Whether it is early is seen by holding back the import of the SDK until a file is there.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.menu import FakeServer, tool
from serve.served import ENDINGS, INITIALIZE, PATIENCE_S, Served, command, started, write_config

HELD = """
import importlib.abc, os, sys, time

class Held(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("anyio", "mcp", "pydantic") and "serve" in sys.argv:
            while not os.path.exists(os.environ["GO"]):
                time.sleep(0.005)

sys.meta_path.insert(0, Held())
"""


class Starts:
    """Starts of one config by one client; ``go`` is the file that lets the SDK be imported."""

    def __init__(self, folder: Path, **toolcrib: Any) -> None:
        self.folder, self.go = folder, folder / "go"
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(HELD)
        skill = folder / "skills" / "pour-tea" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: pour-tea\ndescription: Pour tea for guests.\n---\nPour it slowly.\n")
        self.skill = skill
        section = {"skills": {"discover": [], "core_pack": False, "skill_dirs": ["skills"]}, **toolcrib}
        self.kitchen = FakeServer(folder, "kitchen")
        self.config = write_config(folder, self.kitchen, **section)

    def open(self, *options: str, held: bool = False, first: bytes = b"", **more: str):
        self.go.unlink() if held else self.go.touch()
        path = os.pathsep.join(filter(None, [str(self.folder / "site"), os.environ.get("PYTHONPATH")]))
        about: dict[str, Any] = {"PYTHONPATH": path, "GO": str(self.go), **more}
        begun = first or GREETING if held else first
        return started(command(self.config, *options), self.folder, first=begun, **about)

    async def settle(self) -> bytes:
        """Start until everything is listed and a greeting is kept; return the line that it was."""
        async with self.open() as crib:
            await greeted(crib)
            await crib.tool("tool_search", query="echo")
            await ended(crib)
        async with self.open() as crib:
            line = await greeted(crib)
            await ended(crib)
        return line

    @property
    def kept(self) -> list[Path]:
        return sorted((self.folder / "cache" / "greetings").glob("*.json"))

    def falsify(self, text: str, other: str) -> None:
        """Have the only thing that is kept say something else."""
        [kept] = self.kept
        kept.write_text(kept.read_text().replace(text, other))


def line_of(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


GREETING = line_of(id=1, method="initialize", params=INITIALIZE)
"""Sent before the process runs, so that it finds it however busy the machine is."""


async def ended(crib: Served) -> None:
    crib.close_stdin()
    assert await crib.ended() == 0


async def greeted(crib: Served, **params: Any) -> bytes:
    """Shake hands and return the line that it answered."""
    await crib.send({"id": 1, "method": "initialize", "params": {**INITIALIZE, **params}})
    await crib.answer(1)
    return crib.lines[-1]


async def greeted_early(crib: Served) -> bytes:
    """Return the answer to what was sent before the process ran."""
    await crib.answer(1)
    return crib.lines[-1]


async def listed(crib: Served) -> list[str]:
    await crib.send({"id": 2, "method": "tools/list"})
    return [tool["name"] for tool in (await crib.answer(2))["result"]["tools"]]


def answers_to(crib: Served, key: int) -> int:
    return sum(json.loads(line).get("id") == key for line in crib.lines)


@pytest.mark.slow
@pytest.mark.anyio
async def test_it_greets_before_the_sdk_is_loaded_and_with_the_same_bytes(tmp_path):
    starts = Starts(tmp_path)
    before = await starts.settle()
    assert b"pour-tea" in before
    async with starts.open(held=True) as crib:
        assert await greeted_early(crib) == before
        starts.go.touch()
        assert "tool_search" in await listed(crib)
        await ended(crib)
    assert answers_to(crib, 1) == 1
    assert crib.said == ""


@pytest.mark.slow
@pytest.mark.anyio
async def test_it_lists_before_the_sdk_is_loaded_and_with_the_same_bytes(tmp_path):
    starts = Starts(tmp_path, tool_search={"default_loading_mode": "always"})
    await starts.settle()
    async with starts.open() as crib:
        await greeted(crib)
        assert "kitchen__echo" in await listed(crib)
        before = crib.lines[-1]
        await ended(crib)
    async with starts.open(held=True) as crib:
        await greeted_early(crib)
        await crib.send({"method": "notifications/initialized"})
        await listed(crib)
        assert crib.lines[-1] == before
        starts.go.touch()
        await crib.send({"id": 3, "method": "ping"})
        assert (await crib.answer(3))["result"] == {}
        await ended(crib)
    assert [answers_to(crib, key) for key in (1, 2)] == [1, 1]
    assert crib.said == ""


@pytest.mark.slow
@pytest.mark.anyio
async def test_few_tools_are_listed_whole_before_the_sdk_is_loaded_too(tmp_path):
    starts = Starts(tmp_path, gate={"pass_through_tokens": 5000})
    await starts.settle()
    async with starts.open() as crib:
        assert b"tool_search" not in await greeted(crib)
        names = await listed(crib)
        assert "kitchen__echo" in names
        assert "tool_search" not in names
        before = crib.lines[-1]
        await ended(crib)
    async with starts.open(held=True) as crib:
        assert b"tool_search" not in await greeted_early(crib)
        await crib.send({"method": "notifications/initialized"})
        await listed(crib)
        assert crib.lines[-1] == before
        starts.go.touch()
        await crib.send({"id": 3, "method": "ping"})
        assert (await crib.answer(3))["result"] == {}
        await ended(crib)
    assert crib.said == ""


ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INITIALIZE["clientInfo"],
    "io.modelcontextprotocol/clientCapabilities": {},
}
PROBE = line_of(id=0, method="server/discover", params={"_meta": ENVELOPE})


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_client_without_a_session_lists_before_the_sdk_is_loaded_too(tmp_path):
    starts = Starts(tmp_path)
    await starts.settle()
    listing = line_of(id=1, method="tools/list", params={"_meta": ENVELOPE})
    lines: list[list[bytes]] = []
    for held in (False, True):
        async with starts.open(held=held, first=PROBE) as crib:
            await crib.answer(0)
            await crib.write(listing)
            await crib.answer(1)
            lines.append(crib.lines)
            starts.go.touch()
            await ended(crib)
    assert lines[0] == lines[1]
    assert b"tool_search" in lines[0][1]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_client_whose_probe_names_the_era_of_growing_lists_is_answered_and_greeted_early(tmp_path):
    starts = Starts(tmp_path)
    await starts.settle()
    info = {"name": "claude-code", "version": "2"}
    envelope = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": info}
    probe = line_of(id=0, method="server/discover", params={"_meta": envelope})
    lines: list[list[bytes]] = []
    for held in (False, True):
        async with starts.open(held=held, first=probe) as crib:
            probed = (await crib.answer(0))["result"]
            assert probed["supportedVersions"][-1] == "2025-11-25"
            assert "pour-tea" in probed["instructions"]
            await greeted(crib, clientInfo=info)
            await listed(crib)
            lines.append(crib.lines)
            starts.go.touch()
            await ended(crib)
    assert lines[0] == lines[1]


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_a_session_has_activated_before_is_listed_by_the_ordinary_way(tmp_path):
    starts = Starts(tmp_path, tool_search={"activation_scope": "session"})
    named: dict[str, Any] = {"TOOLCRIB_SESSION_ID": "mine"}
    async with starts.open(**named) as crib:
        await greeted(crib)
        await crib.tool("tool_call", name="kitchen__echo", arguments={"text": "x"})
        await ended(crib)
    async with starts.open(**named) as crib:
        await greeted(crib)
        await ended(crib)
    async with starts.open(held=True, **named) as crib:
        await greeted_early(crib)
        starts.go.touch()
        assert "kitchen__echo" in await listed(crib)
        await ended(crib)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_list_that_is_no_unicode_is_not_lost(tmp_path):
    starts = Starts(tmp_path)
    await starts.settle()
    starts.falsify("Find tools", "\\ud800")
    async with starts.open(first=GREETING) as crib:
        await crib.send({"method": "notifications/initialized"})
        assert "tool_search" in await listed(crib)
        await ended(crib)
    assert answers_to(crib, 1) == 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_list_that_turns_out_wrong_is_taken_back(tmp_path):
    starts = Starts(tmp_path)
    await starts.settle()
    starts.falsify("tool_search", "tool_starch")
    async with starts.open(first=GREETING) as crib:
        await greeted_early(crib)
        await crib.send({"method": "notifications/initialized"})
        assert "tool_starch" in await listed(crib)
        with anyio.fail_after(30):
            while b"notifications/tools/list_changed" not in crib.lines[-1]:
                await crib.receive()
        await crib.send({"id": 3, "method": "tools/list"})
        assert "tool_search" in str(await crib.answer(3))
        await ended(crib)
    assert "would be told something else" in crib.said


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("pieces", [1, 2, 40])
async def test_nothing_that_is_sent_right_behind_is_lost(tmp_path, pieces):
    starts = Starts(tmp_path)
    await starts.settle()
    messages = (
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "ping"},
    )
    data = b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)
    size = -(-len(data) // pieces)
    async with starts.open() as crib:
        for begin in range(0, len(data), size):
            await crib.write(data[begin : begin + size])
            await anyio.lowlevel.checkpoint()
        assert (await crib.answer(3))["result"] == {}
        while answers_to(crib, 2) == 0:
            await crib.receive()
        await ended(crib)
    assert [answers_to(crib, key) for key in (1, 2, 3)] == [1, 1, 1]


async def with_a_long_list(folder: Path) -> Starts:
    """Return starts that answer early with a list that fits into no pipe."""
    config = {"tool_search": {"default_loading_mode": "always"}, "servers": {"kitchen": {"start": "eager"}}}
    starts = Starts(folder, **config)
    starts.kitchen.change(tools=[tool("echo"), *(tool(f"tool_{number}", "Long. " * 1000) for number in range(60))])
    await starts.settle()
    assert starts.kept[0].stat().st_size > 320_000
    return starts


LISTING = line_of(method="notifications/initialized") + line_of(id=2, method="tools/list")


@pytest.mark.slow
@pytest.mark.anyio
async def test_it_can_be_ended_while_a_client_does_not_read_the_list_that_it_was_given(tmp_path):
    starts = await with_a_long_list(tmp_path)
    for end in ENDINGS:
        before = len(starts.kitchen.starts())
        async with starts.open(first=GREETING + LISTING) as crib:
            with anyio.fail_after(PATIENCE_S):
                while len(starts.kitchen.starts()) == before:
                    await anyio.sleep(0.01)
            await end(crib)
            assert await crib.ended() == 0
        assert crib.said == ""


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("held", [True, False])
async def test_a_client_may_write_all_that_it_asks_before_it_reads_the_list_that_it_was_given(tmp_path, held):
    starts = await with_a_long_list(tmp_path)
    call = {"name": "kitchen__echo", "arguments": {"text": "x" * 300_000}}
    async with starts.open(held=held, first=GREETING) as crib:
        os.set_blocking(crib.to_it, False)
        await crib.write(LISTING)
        starts.go.touch()
        with anyio.fail_after(PATIENCE_S):
            await crib.write(line_of(id=3, method="tools/call", params=call))
        assert call["arguments"]["text"] in str(await crib.answer(3))
        assert [answers_to(crib, key) for key in (1, 2, 3)] == [1, 1, 1]
        await ended(crib)
    assert crib.said == ""


@pytest.mark.slow
@pytest.mark.anyio
async def test_another_client_and_another_first_request_go_the_ordinary_way(tmp_path):
    starts = Starts(tmp_path)
    before = await starts.settle()
    async with starts.open() as crib:
        line = await greeted(crib, protocolVersion="2025-06-18")
        assert json.loads(line)["result"]["protocolVersion"] == "2025-06-18"
    async with starts.open() as crib:
        await crib.send({"id": 5, "method": "ping"})
        assert (await crib.answer(5))["result"] == {}
        assert await greeted(crib) == before


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_changed_skill_is_told_at_once_and_kept_for_the_next_start(tmp_path):
    starts = Starts(tmp_path)
    await starts.settle()
    starts.skill.write_text(starts.skill.read_text().replace("for guests", "for friends"))
    async with starts.open() as crib:
        after = await greeted(crib)
        assert b"Pour tea for friends" in after
        await ended(crib)
    async with starts.open(held=True) as crib:
        assert await greeted_early(crib) == after
        starts.go.touch()
        await ended(crib)


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_a_session_has_used_counts_at_the_next_start(tmp_path):
    starts = Starts(tmp_path)
    other = starts.skill.parent.with_name("brew-tea") / "SKILL.md"
    other.parent.mkdir()
    other.write_text("---\nname: brew-tea\ndescription: Brew tea.\n---\nWait.\n")
    before = await starts.settle()
    async with starts.open() as crib:
        await greeted(crib)
        await crib.tool("skill_get", names=["pour-tea"])
        await ended(crib)
    async with starts.open(held=True) as crib:
        after = await greeted_early(crib)
        starts.go.touch()
        await ended(crib)
    assert before.index(b"brew-tea") < before.index(b"pour-tea")
    assert after.index(b"pour-tea") < after.index(b"brew-tea")


@pytest.mark.slow
@pytest.mark.anyio
async def test_an_answer_that_turns_out_wrong_is_said_and_not_given_again(tmp_path):
    starts = Starts(tmp_path)
    right = await starts.settle()
    starts.falsify("Pour tea", "Spill tea")
    async with starts.open(first=GREETING) as crib:
        assert b"Spill tea" in await greeted_early(crib)
        with anyio.fail_after(30):
            while "would be told something else" not in crib.said:
                await anyio.sleep(0.02)
        await ended(crib)
    async with starts.open() as crib:
        assert await greeted(crib) == right


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_greeting_is_private_and_holds_no_secret(tmp_path):
    starts = Starts(tmp_path, context={"profile": "${PROFILE}"})
    async with starts.open(PROFILE="very-secret-value") as crib:
        await greeted(crib)
        await crib.tool("tool_search", query="echo")
        await ended(crib)
    [kept] = starts.kept
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert "very-secret-value" not in kept.read_text()


@pytest.mark.slow
@pytest.mark.anyio
async def test_few_greetings_are_kept(tmp_path):
    starts = Starts(tmp_path)
    await starts.settle()
    for number in range(40):
        (starts.kept[0].parent / f"{number}.json").write_text("{}")
    async with starts.open("--log-level", "error") as crib:
        await greeted(crib)
        await ended(crib)
    assert len(starts.kept) == 32


def test_nothing_but_the_standard_library_is_imported_for_it():
    shown = "import sys; before = set(sys.modules); import toolcrib.server.early; print(*sys.modules.keys() - before)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in done.stdout.split()}
    assert packages - sys.stdlib_module_names == {"toolcrib"}
    ours = {name for name in done.stdout.split() if name.startswith("toolcrib")}
    assert ours == {"toolcrib", *(f"toolcrib.{name}" for name in ("config", "config.paths", "server", "server.early"))}
