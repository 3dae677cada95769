"""What is kept of skills: which a person has switched off, and how each was used."""

from functools import partial
from pathlib import Path

from builders import watched

from policy import state_files
from toolcrib.policy.state import STATE_SCHEMA, SkillDecisions, Use
from toolcrib.storage.store import Store

NOW = 1_000_000.0


opened = partial(state_files.opened, part=SkillDecisions)


def test_uses_are_counted(path: Path):
    with opened(path) as skills:
        skills.record_use(["a", "b"], NOW)
        skills.record_use(["a"], NOW + 5)
        skills.record_use([], NOW)
    with opened(path) as skills:
        assert skills.uses() == {"a": Use(2, NOW + 5), "b": Use(1, NOW)}
        assert skills.switched_off() == frozenset()


def test_a_switch_turned_back_stays_turned_back(path: Path):
    for enabled in (False, True, False):
        with opened(path) as skills:
            skills.switch("a", enabled=enabled)
        with opened(path) as skills:
            assert skills.switched_off() == (frozenset() if enabled else {"a"})


def test_switching_to_what_it_is_writes_nothing(path: Path):
    with opened(path) as skills:
        skills.switch("off", enabled=False)
        with watched(path) as written:
            skills.switch("off", enabled=False)
            skills.switch("never switched", enabled=True)
            assert not written()


def test_use_and_switch_of_one_skill_leave_each_other_alone(path: Path):
    with opened(path) as skills:
        skills.record_use(["a"], NOW)
        skills.switch("a", enabled=False)
        skills.record_use(["a"], NOW + 1)
        skills.switch("a", enabled=True)
        skills.switch("a", enabled=False)
        assert skills.uses() == {"a": Use(2, NOW + 1)}
        assert skills.switched_off() == {"a"}


def test_what_another_process_decides_is_seen(path: Path):
    with opened(path) as skills, opened(path) as other:
        before = skills.store.data_version()
        other.switch("a", enabled=False)
        assert skills.store.data_version() != before
        assert skills.switched_off() == {"a"}


def test_a_file_that_turns_out_damaged_in_use_is_written_anew_with_all_that_was_known(path: Path):
    with Store(path, STATE_SCHEMA, fts="off") as store:
        skills = SkillDecisions(store)
        skills.switch("off", enabled=False)
        skills.record_use(["a"], NOW)
        break_it(store)
        skills.record_use(["a"], NOW + 1)
        assert store.generation == 1
    assert list(path.parent.glob(f"{path.name}.corrupt-*"))
    with opened(path) as skills:
        assert skills.switched_off() == {"off"}
        assert skills.uses() == {"a": Use(2, NOW + 1)}


def break_it(store: Store) -> None:
    """Have the next change of the file find it damaged: its first page of skills is no page any more."""
    store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    [root] = store._writer.execute("SELECT rootpage FROM sqlite_master WHERE name = 'skills'").fetchone()
    with store.path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 4096)
    store._writer.execute("PRAGMA shrink_memory")
