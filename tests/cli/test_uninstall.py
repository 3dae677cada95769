"""toolcrib uninstall: lists all that toolcrib has left behind, takes it away, and touches nothing else."""

import json
import os
from pathlib import Path

import pytest

from cli.command_line import Run
from cli.test_connecting import CURSOR, PROGRAM
from fakes.menu import FakeServer, tool


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Return a home in which toolcrib has a config, an index, events and a client."""
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    (home / ".cursor" / "mcp.json").write_text(CURSOR)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(Path(PROGRAM).parent))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "server").mkdir()
    entry = FakeServer(tmp_path / "server", tools=[tool("echo", "Say it again.")]).entry()
    config = tmp_path / "etc" / "toolcrib" / "toolcrib.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"mcpServers": {"zoo": entry}}))
    config.with_name("toolcrib.env").write_text("TOKEN=canary")
    assert run("index", "refresh")[0] == 0
    assert run("skills", "disable", "pack.core.undo-git-mistakes")[0] == 0
    assert run("connect", "cursor", "--yes")[0] == 0
    model = tmp_path / "cache" / "toolcrib" / "models" / "owner" / "name" / "config.json"
    model.parent.mkdir(parents=True)
    model.write_text("{}")
    for folder in (tmp_path / "run" / "toolcrib", tmp_path / "cache" / "toolcrib" / "running"):
        folder.mkdir(parents=True)
        (folder / "7-killed.lock").touch()
    script = home / ".bash_completions" / "toolcrib.sh"
    script.parent.mkdir()
    script.write_text("complete")
    return home


def everything(tmp_path: Path) -> list[Path]:
    places = (tmp_path / "home", tmp_path / "cache", tmp_path / "data", tmp_path / "run", tmp_path / "etc")
    return sorted(file for place in places for file in place.rglob("*") if file.is_file())


def test_all_that_is_left_is_listed_and_a_dry_run_changes_nothing(run: Run, home: Path, tmp_path: Path):
    before = {file: file.read_bytes() for file in everything(tmp_path)}
    code, out, err = run("uninstall", "--dry-run")
    assert (code, err) == (0, "")
    assert f"Cursor: the entry that starts toolcrib, in {home / '.cursor' / 'mcp.json'}" in out
    for name in ("tool_cache.db", "skills.db", "state.db", "models/owner/name/config.json", "connections/cursor.json"):
        assert f"{name}\n" in out
    assert f"{tmp_path / 'etc' / 'toolcrib' / 'toolcrib.json'} stays; --all removes it too" in out
    assert "canary" not in out
    assert {file: file.read_bytes() for file in everything(tmp_path)} == before


def test_every_file_is_listed_or_said_to_stay(run: Run, home: Path, tmp_path: Path):
    (tmp_path / "cache" / "toolcrib" / "mine.txt").write_text("mine")
    told = json.loads(run("uninstall", "--dry-run", "--json")[1])
    files = [file for file in everything(tmp_path) if "toolcrib" in str(file.relative_to(tmp_path))]
    assert sorted([*told["files"], *told["stays"]]) == list(map(str, files))
    assert [Path(each).name for each in told["stays"]] == ["mine.txt", "toolcrib.json", "toolcrib.env"]
    assert told["removed"] is False


@pytest.mark.sampled
@pytest.mark.parametrize("with_config", [False, True], ids=["", "with the config"])
def test_it_is_taken_away_and_clients_get_back_what_they_had(with_config: bool, run: Run, home: Path, tmp_path: Path):
    code, out, err = run("uninstall", "--yes", *(["--all"] if with_config else []))
    assert (code, err) == (0, "")
    assert "pipx uninstall toolcrib" in out
    assert (home / ".cursor" / "mcp.json").read_text() == CURSOR
    config = tmp_path / "etc" / "toolcrib"
    stays = [] if with_config else [config / "toolcrib.env", config / "toolcrib.json"]
    assert everything(tmp_path) == [*stays, home / ".cursor" / "mcp.json"]
    assert not (tmp_path / "cache" / "toolcrib").exists()
    assert not (tmp_path / "data" / "toolcrib").exists()
    assert not (tmp_path / "run" / "toolcrib").exists()
    if with_config:
        assert run("uninstall")[:2] == (0, "Nothing of toolcrib is left.\n")


def test_what_is_not_toolcribs_stays_and_is_named(run: Run, home: Path, tmp_path: Path):
    [folder] = (each for each in (tmp_path / "cache" / "toolcrib").iterdir() if each.name not in ("models", "running"))
    mine = [folder / "mine.txt", tmp_path / "data" / "toolcrib" / "mine.db"]
    for file in mine:
        file.write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("mine")
    (tmp_path / "cache" / "toolcrib" / "models" / "linked").symlink_to(elsewhere)
    _code, out, _err = run("uninstall", "--yes")
    assert all(f"{file} stays, because it is not one of toolcrib's files" in out for file in mine)
    assert all(file.exists() for file in [*mine, elsewhere / "mine.txt"])


def test_a_folder_that_the_config_names_loses_what_is_ours(run: Run, home: Path, tmp_path: Path):
    named = tmp_path / "named"
    config = tmp_path / "etc" / "toolcrib" / "toolcrib.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "toolcrib": {"cache_dir": str(named)}}))
    assert run("index", "refresh")[0] == 0
    (named / "mine.txt").write_text("mine")
    assert run("uninstall", "--yes")[0] == 0
    assert os.listdir(named) == ["mine.txt"]  # noqa: PTH208 - names


def test_nothing_is_removed_where_nobody_can_be_asked(run: Run, home: Path, tmp_path: Path):
    before = everything(tmp_path)
    code, _out, err = run("uninstall")
    assert (code, everything(tmp_path)) == (1, before)
    assert "Add --yes" in err


def test_files_stay_while_a_client_cannot_be_given_back_its_own(run: Run, home: Path, tmp_path: Path):
    file = home / ".cursor" / "mcp.json"
    again = file.read_text().replace('"mcpServers": {', '"mcpServers": {"toolcrib": {"command": "toolcrib"},', 1)
    file.write_text(again)
    before = everything(tmp_path)
    code, _out, err = run("uninstall", "--yes")
    assert (code, everything(tmp_path), file.read_text()) == (1, before, again)
    assert "Edit it manually" in err
    assert "No file was removed" in err
