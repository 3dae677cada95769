"""What a person has decided outlives the cache: deleted, damaged, cleared; and ``index clear`` always works."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fakes.menu import FakeServer, tool
from toolcrib.cli import main

Run = Callable[..., tuple[int, str, str]]

SKILL = "---\nname: {name}\ndescription: Does one thing.\n---\n# {name}\n"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command in a repository with two skills, with a config that has one server."""
    for name in ("forms", "letters"):
        file = tmp_path / "project" / ".agents" / "skills" / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(SKILL.format(name=name))
    fake = FakeServer(tmp_path, tools=[tool("echo"), tool("fail")])
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TOOLCRIB_PARENT", raising=False)

    def run(*arguments: str, **toolcrib: Any) -> tuple[int, str, str]:
        section = {"cache_dir": "cache", "skills": {"core_pack": False, "discover": ["repo"]}, **toolcrib}
        file = tmp_path / "crib.json"
        file.write_text(json.dumps({"mcpServers": {"zoo": fake.entry()}, "toolcrib": section}))
        code = main([*arguments, "--config", str(file)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def skills(run: Run, **toolcrib: Any) -> tuple[list[str], list[str]]:
    """Return the names of the skills that agents get, and of those that are hidden."""
    answer = json.loads(run("skills", "list", "--json", **toolcrib)[1])
    return [each["name"] for each in answer["skills"]], [each["name"] for each in answer["hidden"]]


def delete(cache: Path, _run: Run) -> None:
    shutil.rmtree(cache)


def garble(cache: Path, _run: Run) -> None:
    for file in ("tool_cache.db", "skills.db"):
        (cache / file).write_bytes(b"no database at all\n" * 500)


def clear(_cache: Path, run: Run) -> None:
    assert run("index", "clear")[0] == 0


def empty(cache: Path, _run: Run) -> None:
    (cache / "skills.db").write_bytes(b"")


@pytest.mark.parametrize("lose", [delete, garble, clear, empty])
def test_a_skill_that_was_switched_off_stays_off_whatever_becomes_of_the_cache(
    run: Run, cache: Path, lose: Callable[[Path, Run], None]
):
    assert run("skills", "disable", "forms")[0] == 0
    lose(cache, run)
    assert skills(run) == (["letters"], ["forms"])
    assert run("skills", "enable", "forms")[0] == 0
    lose(cache, run)
    assert skills(run) == (["forms", "letters"], [])


def test_each_config_has_decisions_of_its_own(run: Run, tmp_path: Path):
    run("skills", "disable", "forms")
    assert skills(run, state_dir=str(tmp_path / "elsewhere")) == (["forms", "letters"], [])
    assert (tmp_path / "elsewhere" / "state.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o700


def test_damage_to_the_decisions_is_said_and_set_aside_and_stays_to_be_seen(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    state = tmp_path / "state" / "state.db"
    run("skills", "disable", "forms", state_dir=str(state.parent))
    state.write_bytes(b"garbage" * 1000)
    assert skills(run, state_dir=str(state.parent)) == (["forms", "letters"], [])
    [aside] = state.parent.glob("state.db.corrupt-*Z")
    assert aside.name in run("status", state_dir=str(state.parent))[1]
    assert json.loads(run("status", "--json", state_dir=str(state.parent))[1])["state_set_aside"] == [aside.name]
    assert aside.read_bytes() == b"garbage" * 1000
    [record] = caplog.records
    assert record.getMessage().startswith("state.db: the file was ")
    assert aside.name in record.getMessage()
    events = (tmp_path / "cache" / "events.jsonl").read_text().splitlines()
    [event] = [json.loads(line) for line in events if '"state_replaced"' in line]
    assert (event["file"], aside.name in event["reason"]) == ("state.db", True)


def test_where_nothing_can_be_written_no_decision_is_claimed_and_the_reason_is_logged_once(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "state").write_text("in the way")
    assert run("skills", "disable", "forms", state_dir=str(tmp_path / "state"))[0] == 1
    [record] = caplog.records
    assert "in memory" in record.getMessage()
    assert skills(run, state_dir=str(tmp_path / "state")) == (["forms", "letters"], [])


# -- index clear ---------------------------------------------------------------------------------


def test_clearing_forgets_every_tool_and_skill_and_no_more(run: Run, cache: Path):
    run("index", "refresh")
    skills(run)
    assert json.loads(run("index", "clear", "--json")[1]) == {"forgotten": 2}
    assert not [file.name for file in cache.iterdir() if ".db" in file.name]
    assert "not listed yet" in run("status")[1]


@pytest.mark.parametrize("damage", [b"", b"SQLite format 3\0 but not really", b"\xff" * 9999])
def test_a_damaged_index_is_cleared_like_any_other(run: Run, cache: Path, damage: bytes):
    cache.mkdir()
    for file in ("tool_cache.db", "skills.db"):
        (cache / file).write_bytes(damage)
    assert json.loads(run("index", "clear", "--json")[1]) == {"forgotten": 0}
    assert not [file.name for file in cache.iterdir() if ".db" in file.name]


def test_damage_that_only_a_write_reveals_stops_neither_a_start_nor_a_clear(run: Run, cache: Path):
    """A delete through the triggers says "malformed" of this one, and every check that all is well."""
    run("index", "refresh")
    with closing(sqlite3.connect(cache / "tool_cache.db")) as connection:
        connection.execute("INSERT INTO tools_fts(tools_fts) VALUES ('delete-all')")
        connection.commit()
    damaged = (cache / "tool_cache.db").read_bytes()
    assert json.loads(run("index", "clear", "--json")[1]) == {"forgotten": 2}
    (cache / "tool_cache.db").write_bytes(damaged)
    rebuilt = {"tool_search": {"rebuild_cache_on_init": True}}
    assert "zoo: 2 tools" in run("index", "refresh", **rebuilt)[1]
    assert list(cache.glob("tool_cache.db.corrupt-*Z"))


def test_a_folder_where_an_index_should_be_cannot_be_cleared_and_that_is_said(run: Run, cache: Path):
    (cache / "skills.db").mkdir(parents=True)
    code, _out, err = run("index", "clear")
    assert code == 1
    assert f"{cache / 'skills.db'} cannot be removed" in err


@pytest.mark.sampled
@pytest.mark.parametrize(
    "command",
    [
        ["allow", "zoo__echo"],
        ["skills", "disable", "forms"],
        ["skills", "enable", "forms"],
        ["index", "vocabulary", "--forget", "--all"],
        ["index", "enrich", "--remove"],
    ],
    ids=" ".join,
)
def test_a_decision_that_cannot_be_stored_is_an_error_that_names_the_file(
    run: Run, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run("index", "refresh")
    # A file stands where the folder would be: not even root can write there.
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("TOOLCRIB_STATE_DIR", str(tmp_path / "occupied"))
    code, out, err = run(*command)
    assert (code, out) == (1, "")
    assert f"Nothing was stored in {tmp_path / 'occupied' / 'state.db'}" in err
    assert "TOOLCRIB_STATE_DIR" in err
    assert json.loads(run(*command, "--json")[2])["error"]["exit_code"] == 1
