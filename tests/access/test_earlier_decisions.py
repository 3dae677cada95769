"""Decisions of an earlier version, which stood in the disposable indexes: taken over once, and lost in no order."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from toolcrib.catalog import index as tool_tables
from toolcrib.catalog.index import EARLIER_ACTIVATIONS, TOOLS_SCHEMA, ToolIndex
from toolcrib.policy import state as earlier_module
from toolcrib.policy.state import Earlier, KeptBounds, State, Use, open_state
from toolcrib.skills import index as skill_tables
from toolcrib.skills.index import EARLIER_DECISIONS, SKILLS_SCHEMA, SkillIndex
from toolcrib.storage.store import Schema, Store

HERE = Path(__file__).parent
EARLIER_SKILLS = Schema(skill_tables.APPLICATION_ID, SKILLS_SCHEMA.migrations[:2])
EARLIER_TOOLS = Schema(tool_tables.APPLICATION_ID, TOOLS_SCHEMA.migrations[:2])
SKILL = "INSERT INTO skills(id, name, trigger, status, use_count, last_used) VALUES (?, ?, '', ?, ?, ?)"


class Place:
    """A cache directory that an earlier version has left, and a data directory."""

    def __init__(self, folder: Path) -> None:
        self.tools, self.skills = folder / "cache" / "tool_cache.db", folder / "cache" / "skills.db"
        self.state = folder / "data" / "state.db"

    def decide(self) -> None:
        """Let a person decide what they have decided before the update."""
        with Store(self.skills, EARLIER_SKILLS) as store:
            SkillIndex(store)
            with store.write() as connection:
                connection.execute(SKILL, ("sk_off", "off", "disabled", 0, None))
                connection.execute(SKILL, ("sk_used", "used", "enabled", 3, 30.0))
                connection.execute(SKILL, ("sk_plain", "plain", "enabled", 0, None))
                connection.execute(SKILL, ("sk_gone", "gone", "disabled", 1, 10.0))
                connection.execute("DELETE FROM skills WHERE id = 'sk_gone'")
        with Store(self.tools, EARLIER_TOOLS) as store, store.write() as connection:
            connection.execute("INSERT INTO activations VALUES ('ann', 'one', 's__a', 5.0)")

    @contextmanager
    def opened(self) -> Iterator[State]:
        earlier = Earlier((self.tools, EARLIER_ACTIVATIONS), (self.skills, EARLIER_DECISIONS))
        bounds = KeptBounds(9, 9, 1e9)
        with open_state(self.state, bounds, earlier, clock=lambda: 100.0, told=lambda _reason: None) as state:
            yield state

    def open_indexes(self) -> None:
        """Open both indexes as this version does, which migrates them."""
        with Store(self.tools, TOOLS_SCHEMA) as tools, Store(self.skills, SKILLS_SCHEMA) as skills:
            ToolIndex(tools)
            assert SkillIndex(skills).check() == []

    def tables(self) -> set[str]:
        """Return the tables and triggers of an earlier version that are still there."""
        found: set[str] = set()
        for file in (self.tools, self.skills):
            with closing(sqlite3.connect(file)) as connection:
                names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
                found |= names & {"activations", "skill_memory", "skills_remembered", "skills_recalled"}
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.decide()
    return place


def assert_kept(state: State) -> None:
    assert state.skills.switched_off() == {"sk_off", "sk_gone"}
    assert state.skills.uses() == {"sk_used": Use(3, 30.0), "sk_gone": Use(1, 10.0)}
    assert state.sessions.activated("ann", "one", 100.0) == {"s__a"}


def test_they_are_taken_over_and_gone_from_where_they_were(place: Place):
    with place.opened() as state:
        assert state.has_all
        assert_kept(state)
        place.open_indexes()
        assert place.tables() == set()
    with place.opened() as state:
        assert_kept(state)


def test_an_index_that_is_opened_first_loses_none(place: Place):
    place.open_indexes()
    assert place.tables() == {"activations", "skill_memory"}
    with place.opened() as state:
        assert_kept(state)
    assert place.tables() == set()
    place.open_indexes()


def test_a_new_index_has_nothing_of_an_earlier_version(tmp_path: Path):
    place = Place(tmp_path)
    with place.opened() as state:
        assert state.skills.switched_off() == frozenset()
        place.open_indexes()
    assert place.tables() == set()


def test_they_are_taken_over_once(place: Place):
    with place.opened() as state:
        state.skills.switch("sk_off", enabled=True)
        state.skills.record_use(["sk_used"], 50.0)
    for file in (place.tools, place.skills):
        for each in file.parent.glob(f"{file.name}*"):
            each.unlink()
    place.decide()  # somebody has put old files back
    with place.opened() as state:
        assert state.skills.switched_off() == {"sk_gone"}
        assert state.skills.uses()["sk_used"] == Use(4, 50.0)


@pytest.mark.parametrize("file", ["tools", "skills"])
def test_a_start_that_ends_before_they_have_left_the_old_file_is_gone_on_with(
    place: Place, file: str, monkeypatch: pytest.MonkeyPatch
):
    with closing(sqlite3.connect(getattr(place, file), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("toolcrib.storage.opening._BUSY_TIMEOUT_S", 0.01)
        with place.opened() as state:
            assert_kept(state)
            state.skills.switch("sk_off", enabled=True)
    assert place.tables() != set()
    with place.opened() as state:
        assert state.skills.switched_off() == {"sk_gone"}
    assert place.tables() == set()


def test_a_file_that_cannot_be_read_for_the_moment_is_read_at_the_next_start(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with closing(sqlite3.connect(place.skills, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr("toolcrib.storage.opening._BUSY_TIMEOUT_S", 0.01)
        with place.opened() as state:
            assert state.skills.switched_off() == frozenset()
            state.skills.switch("sk_used", enabled=False)
        assert "the next start goes on" in caplog.text
    with place.opened() as state:
        assert state.skills.switched_off() == {"sk_off", "sk_gone", "sk_used"}
        assert state.sessions.activated("ann", "one", 100.0) == {"s__a"}


def test_where_they_can_only_be_kept_in_memory_they_stay_where_they_are(place: Place):
    place.state.parent.write_text("in the way")
    for _ in range(2):
        with place.opened() as state:
            assert not state.has_all
            assert_kept(state)
            place.open_indexes()
    place.state.parent.unlink()
    with place.opened() as state:
        assert_kept(state)
    assert place.tables() == set()


def test_a_damaged_index_takes_nothing_with_it_but_what_was_in_it(place: Place, caplog: pytest.LogCaptureFixture):
    content = bytearray(place.skills.read_bytes())
    content[200:] = b"\xff" * (len(content) - 200)
    place.skills.write_bytes(content)
    with place.opened() as state:
        assert state.skills.switched_off() == frozenset()
        assert state.sessions.activated("ann", "one", 100.0) == {"s__a"}
        place.open_indexes()
    assert "skills.db is damaged" in caplog.text
    assert not list(place.state.parent.glob("*.corrupt-*"))


def test_a_file_of_another_program_is_left_alone(tmp_path: Path):
    place = Place(tmp_path)
    place.tools.parent.mkdir()
    with closing(sqlite3.connect(place.tools)) as connection:
        connection.execute("CREATE TABLE activations (x)")
    with place.opened():
        pass
    assert place.tools.exists()
    with closing(sqlite3.connect(place.tools)) as connection:
        assert connection.execute("SELECT count(*) FROM activations").fetchone() == (0,)


def test_an_unforeseen_failure_while_copying_leaves_everything_as_it_was(place: Place, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        patched.setattr(earlier_module, "_set_mark", lambda *_given: 1 / 0)
        with pytest.raises(ZeroDivisionError), place.opened():
            pass
    with place.opened() as state:
        assert_kept(state)


STARTING = """
import json, sys
from pathlib import Path
from test_earlier_decisions import Place

place = Place(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with place.opened() as state:
    uses = {key: use.count for key, use in state.skills.uses().items()}
    off, activated = state.skills.switched_off(), state.sessions.activated("ann", "one", 100.0)
    place.open_indexes()
print(json.dumps([uses, sorted(off), sorted(activated)]))
"""


@pytest.mark.slow
def test_processes_that_start_together_take_them_over_once_and_all_have_them(place: Place):
    paths = (HERE, HERE.parent / "store", HERE.parent / "tools")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", STARTING, str(place.state.parent.parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:  # all at once
        child.stdin.write("\n")
        child.stdin.flush()
    outputs = [child.communicate(timeout=60) for child in children]
    assert [errors for _, errors in outputs] == [""] * 4
    expected = [{"sk_used": 3, "sk_gone": 1}, ["sk_gone", "sk_off"], ["s__a"]]
    assert [json.loads(said) for said, _ in outputs] == [expected] * 4
    assert place.tables() == set()
