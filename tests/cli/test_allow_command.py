"""toolcrib allow: what is allowed without a question; given, listed and taken back, under a running toolcrib too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from fakes.menu import tool
from toolcrib.cli import main
from worlds import MemoryServer, world

pytestmark = pytest.mark.anyio

Run = Callable[..., tuple[int, str, str]]
CONFIG: dict[str, Any] = {
    "policy": {"confirm": {"tools": ["zoo__feed"]}},
    "skills": {"core_pack": False, "permissions": [{"skill_name": "vault", "action": "confirm"}]},
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command by the config of the world in ``tmp_path``."""
    file = tmp_path / "project" / ".agents" / "skills" / "vault" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: vault\ndescription: Opens the vault.\n---\nTurn the spanner.\n")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TOOLCRIB_PARENT", "TOOLCRIB_SKILLS_ROOT"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--config", str(tmp_path / "toolcrib.json")])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def zoo(description: str = "Feeds an animal.") -> MemoryServer:
    return MemoryServer([tool("feed", description), tool("count")])


async def test_what_is_allowed_runs_and_is_given_at_once_and_is_asked_about_again_when_it_is_taken_back(tmp_path, run):
    async def allow(*arguments: str) -> str:
        code, out, err = await anyio.to_thread.run_sync(lambda: run("allow", *arguments))
        assert code == 0, err
        return out

    async with world(tmp_path, {"zoo": zoo()}, CONFIG) as w, w.client() as client:

        async def refused() -> tuple[bool, bool]:
            called, got = await client.call("zoo__feed"), await client.call("skill_get", {"names": ["vault"]})
            return "toolcrib allow" in str(called), "toolcrib allow" in str(got)

        assert await refused() == (True, True)
        assert "zoo__feed may run without asking, for local" in await allow("zoo.feed")
        assert "repo/vault is returned without asking" in await allow("vault")
        assert await refused() == (False, False)
        listed = json.loads(await allow("--json"))
        assert [(each["name"], each["kind"], each["principal"], each["holds"]) for each in listed] == [
            ("repo/vault", "skill", "local", True),
            ("zoo__feed", "tool", "local", True),
        ]
        assert "asked again" in await allow("--revoke", "zoo__feed")
        assert "asked again" in await allow("--revoke", "vault")
        assert await refused() == (True, True)
        assert "Nothing is allowed" in await allow()


async def test_a_yes_for_another_principal_is_not_mine(tmp_path, run):
    async with world(tmp_path, {"zoo": zoo()}, CONFIG) as w, w.client() as client:
        await anyio.to_thread.run_sync(lambda: run("allow", "zoo__feed", "--principal", "ann"))
        assert "toolcrib allow" in str(await client.call("zoo__feed"))


async def test_what_has_changed_since_is_listed_as_asked_about_again(tmp_path, run):
    async with world(tmp_path, {"zoo": zoo()}, CONFIG) as w:
        await anyio.to_thread.run_sync(lambda: run("allow", "zoo__feed"))
        await w.change("zoo", tool("feed", "Feeds an animal to another one."))
        _, out, _ = await anyio.to_thread.run_sync(lambda: run("allow"))
    assert "changed since" in out


@pytest.mark.parametrize("arguments", [("zoo__fed",), ("--revoke", "zoo__feed"), ("--revoke", "zoo__fed")])
async def test_what_is_not_there_or_not_allowed_is_said(tmp_path, run, arguments):
    async with world(tmp_path, {"zoo": zoo()}, CONFIG):
        code, out, err = await anyio.to_thread.run_sync(lambda: run("allow", *arguments))
    assert (code, out) == (1, "")
    assert arguments[-1] in err
