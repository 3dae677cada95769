"""The index of skills on disk: what a scan changes, what stays, and what outlives a skill's removal."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import watched
from hypothesis import given, settings
from hypothesis import strategies as st
from skill_builders import DAY, EVERYBODY, NOW, Skills, file, files, opened, outside, record, text

from toolcrib.base.model import FileMark, SkillOrigin, SkillProblem, SkillScope, TaskType, ToolNote
from toolcrib.skills import index as index_module
from toolcrib.skills.index import ROW_FORMAT, SKILLS_SCHEMA, SkillChanges
from toolcrib.storage.store import DamagedRows

HERE = Path(__file__).parent
PROBLEM = SkillProblem("pdf/SKILL.md", 3, "warning", "name-not-folder", "The name is not the folder's.")
LEARNED = (
    "INSERT INTO skills(id, name, trigger, task_type, failure_modes, origin, scope_mode, tenant_id, project_id) "
    "VALUES ('sk_learned', ?, 'When it happens.', 'api', '[]', 'learned', ?, ?, ?)"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "skills.db"


@pytest.fixture
def skills(path: Path):
    with opened(path) as each:
        yield each


def test_each_format_of_rows_has_a_migration_that_forgets_the_files_of_the_one_before():
    forgetting = 0
    with closing(sqlite3.connect(":memory:")) as connection:
        for migrate in SKILLS_SCHEMA.migrations:
            migrate(connection)
            forgetting += not connection.execute("SELECT 1 FROM skill_files").fetchone()
            connection.execute("INSERT OR IGNORE INTO skill_files VALUES ('r', 'a', 0, 0, '', '[]')")
    # The first format had no row before it, and its table came empty.
    assert forgetting == ROW_FORMAT


class TestApply:
    def test_what_is_new_different_and_gone_is_counted(self, skills: Skills):
        assert skills.apply(*files(text("a"), text("b"), text("c"))) == SkillChanges(3, 0, 0)
        changed = file(record(text("b", "Another thing.")), mtime=2)
        assert skills.apply(changed, gone=["c/SKILL.md"]) == SkillChanges(0, 1, 1)
        assert skills.names() == ["a", "b"]
        assert skills.one("b").trigger == "Another thing."
        assert skills.index.count("r") == 2
        assert skills.index.check() == []

    def test_the_same_again_writes_nothing(self, skills: Skills, path: Path):
        wanted = files(text("a"), text("b"))
        skills.apply(*wanted)
        with watched(path) as written:
            assert skills.apply(*wanted) == SkillChanges()
            assert skills.apply() == SkillChanges()
            assert skills.index.forget_roots(used=["r"], now=NOW + 3599) == 0
            assert not written()

    def test_a_touched_file_moves_its_mark_only(self, skills: Skills, path: Path):
        skills.have(text("a"))
        before = outside(path, "SELECT * FROM skills")
        assert skills.apply(file(record(text("a")), mtime=5)) == SkillChanges()
        assert skills.index.marks("r") == {"a/SKILL.md": FileMark(5, 10, "digest 5")}
        assert outside(path, "SELECT * FROM skills") == before

    def test_a_skill_keeps_its_row_and_id_when_it_changes(self, skills: Skills):
        skills.have(text("a"))
        before = skills.one("a")
        skills.apply(file(record(replace(text("a"), content_hash="other")), mtime=2))
        after = skills.one("a")
        assert (after.row, after.id) == (before.row, before.id)
        assert after.content_hash == "other"

    def test_what_the_config_says_of_a_skill_changes_it_too(self, skills: Skills):
        skills.have(text("a"))
        assert skills.apply(file(record(text("a"), is_pinned=True))) == SkillChanges(0, 1, 0)
        assert skills.one("a").is_pinned

    def test_a_file_may_hold_several_skills(self, skills: Skills):
        both = [record(text(name), f"pack-{name}", path="all.skill.jsonl") for name in "ab"]
        assert skills.apply(file(*both)).added == 2
        assert skills.apply(file(both[0], mtime=2)) == SkillChanges(0, 0, 1)
        assert skills.names() == ["a"]

    def test_a_skill_that_moves_to_another_file_stays(self, skills: Skills):
        one = record(text("a"), path="one.skill.jsonl")
        skills.apply(file(one), file(path="two.skill.jsonl"))
        before = skills.one("a")
        moved = replace(one, path="two.skill.jsonl")
        assert skills.apply(file(path=one.path, mtime=2), file(moved, mtime=2)) == SkillChanges(0, 1, 0)
        assert (skills.one("a").row, skills.one("a").id) == (before.row, before.id)

    def test_problems_stay_with_their_file(self, skills: Skills):
        skills.apply(file(record(text("pdf")), problems=[PROBLEM]), file(path="bad/SKILL.md"))
        assert skills.index.problems(["x", "r"]) == [("r", PROBLEM)]
        skills.apply(gone=["pdf/SKILL.md"])
        assert skills.index.problems(["r"]) == []
        assert skills.index.marks("r").keys() == {"bad/SKILL.md"}

    def test_roots_do_not_touch_each_other(self, skills: Skills):
        skills.have(text("a"))
        skills.have(text("a"), root="other")
        skills.apply(gone=["a/SKILL.md"], root="other")
        assert skills.names() == ["a"]
        assert skills.index.count("other") == 0

    def test_what_another_process_removes_meanwhile_is_written_again(
        self, skills: Skills, path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        skills.have(text("a"), text("b"))
        real = index_module.columns_of

        def while_another_clears(*given: Any):
            monkeypatch.undo()
            with opened(path) as other:
                other.index.clear()
            return real(*given)

        monkeypatch.setattr(index_module, "columns_of", while_another_clears)
        before = skills.index.store.data_version()
        changed = file(record(text("a", "Another thing.")), mtime=2)
        assert skills.apply(changed, *files(text("b"))) == SkillChanges(2, 0, 0)
        assert skills.names() == ["a", "b"]
        assert skills.index.store.data_version() != before

    def test_text_that_sqlite_cannot_hold_spoils_one_character_only(self, skills: Skills):
        said = text("a", "Half a \ud83d character, \0 and all.", extra={"x": "\ud83d"})
        skills.apply(file(record(said)), file(record(text("b")), mtime=10**30))
        details = skills.index.details([skills.one("a").row])[skills.one("a").row]
        assert details.description == "Half a ? character, \0 and all."
        assert details.extra == {"x": "\ud83d"}
        assert skills.index.check() == []


class TestPacks:
    def pack(self, name: str, description: str = "Does one thing.", scope: SkillScope = EVERYBODY, folder: str = ""):
        made = record(text(name, description), folder, scope=scope, origin=SkillOrigin.PACK)
        return file(made, mtime=len(description))

    def test_a_pack_that_is_not_to_be_updated_gains_skills_only(self, skills: Skills):
        skills.apply(self.pack("pack.p.a", "Old."), update=False)
        found = skills.apply(self.pack("pack.p.a", "Newer."), self.pack("pack.p.b"), update=False)
        assert found == SkillChanges(1, 0, 0)
        assert skills.one("pack.p.a").trigger == "Old."
        assert skills.apply(gone=["pack.p.b/SKILL.md"], update=False) == SkillChanges(0, 0, 1)

    def test_a_file_that_was_not_taken_in_is_read_again_until_it_is(self, skills: Skills, path: Path):
        skills.apply(self.pack("pack.p.a", "Old."))
        newer = self.pack("pack.p.a", "Newer.")
        skills.apply(newer, update=False)
        assert skills.index.marks("r")[newer.path] != newer.mark
        with watched(path) as written:
            skills.apply(newer, update=False)
            assert not written()
        assert skills.apply(newer) == SkillChanges(0, 1, 0)
        assert skills.index.marks("r")[newer.path] == newer.mark

    def test_a_learned_skill_is_never_overwritten(self, skills: Skills, path: Path):
        outside(path, LEARNED, "pack.p.a", "project", "acme", None)
        hindered = self.pack("pack.p.a", scope=SkillScope("project", "acme"))
        found = skills.apply(hindered, self.pack("pack.p.a", "Other.", folder="elsewhere"))
        assert found == SkillChanges(1, 0, 0, kept=("pack.p.a",))
        assert {(skill.origin, skill.scope_mode) for skill in skills.all("acme")} == {
            (SkillOrigin.LEARNED, "project"),
            (SkillOrigin.PACK, "global"),
        }
        ((_, problem),) = skills.index.problems(["r"])
        assert (problem.level, problem.code) == ("warning", "learned-skill-kept")
        assert "pack.p.a" in problem.message

    def test_a_folder_with_the_name_of_a_learned_skill_stands_beside_it(self, skills: Skills, path: Path):
        outside(path, LEARNED, "a", "global", None, None)
        skills.have(text("a"))
        assert skills.names() == ["a", "a"]


class TestScope:
    def test_a_caller_loads_what_is_in_scope_and_nothing_else(self, skills: Skills, path: Path):
        scopes = {
            "everybody": SkillScope("global", "acme", "site"),
            "tenant": SkillScope("tenant", "acme", "site"),
            "project": SkillScope("project", "acme", "site"),
            "local": SkillScope("project"),
            "other": SkillScope("project", "other", "site"),
        }
        skills.apply(*(file(record(text(name), scope=scope)) for name, scope in scopes.items()))
        outside(path, LEARNED, "learned", "tenant", "acme", None)
        assert set(skills.names("acme", "site")) == {"everybody", "tenant", "project", "learned"}
        assert set(skills.names("acme", None)) == {"everybody", "tenant", "learned"}
        assert set(skills.names("other", "site")) == {"everybody", "other"}
        assert set(skills.names(None, None)) == {"everybody", "local"}

    def test_one_name_may_stand_in_two_scopes(self, skills: Skills):
        for tenant in ("acme", "other"):
            said = record(text("a", f"Of {tenant}."), scope=SkillScope("tenant", tenant), path=f"{tenant}.md")
            skills.apply(file(said))
        assert [skill.trigger for skill in skills.all("acme")] == ["Of acme."]

    def test_only_the_roots_asked_for_are_loaded_in_their_order_and_under_their_labels(self, skills: Skills):
        for root in ("first", "second", "third"):
            skills.have(text("b"), text("a"), root=root)
        found = skills.index.load({"second": "repo", "first": "repo-2"}, None, None)
        assert [(skill.source, skill.root, skill.folder) for skill in found] == [
            ("repo", "second", "a"),
            ("repo", "second", "b"),
            ("repo-2", "first", "a"),
            ("repo-2", "first", "b"),
        ]


class TestRoots:
    def test_a_root_is_dropped_when_nobody_used_it_for_thirty_days(self, skills: Skills):
        skills.have(text("a"))
        skills.have(text("b"), root="other")
        assert skills.index.forget_roots(used=["r"], now=NOW + 29 * DAY) == 0
        assert skills.index.forget_roots(used=["r", "never seen"], now=NOW + 31 * DAY) == 1
        assert (skills.index.count("r"), skills.index.count("other")) == (1, 0)
        assert skills.index.marks("other") == {}
        assert skills.index.forget_roots(used=[], now=NOW + 31 * DAY) == 0

    def test_use_is_noted_to_the_hour(self, skills: Skills, path: Path):
        skills.have(text("a"))
        with watched(path) as written:
            skills.index.forget_roots(used=["r"], now=NOW + 3601)
            assert written()
            skills.index.forget_roots(used=["r"], now=NOW + 3602)
            assert not written()
            skills.index.forget_roots(used=["r"], now=NOW)  # the clock was set back
            assert written()


class TestTables:
    def test_the_tables_have_the_promised_columns_and_indexes(self, skills: Skills, path: Path):
        columns = {row[1]: row for row in outside(path, "PRAGMA table_info(skills)")}
        assert columns.keys() >= {
            *("id", "scope_mode", "tenant_id", "project_id", "name", "title", "description", "trigger", "task_type"),
            *("tags", "steps", "preconditions", "failure_modes", "origin", "origin_ref", "content_hash", "created_at"),
            *("updated_at", "last_used", "use_count", "path", "body", "extra", "status"),
        }
        assert all(columns[name][3] for name in ("name", "trigger", "task_type", "failure_modes"))
        assert columns["rowid"][5] == 1
        master = "\n".join(row[0] for row in outside(path, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        assert "fts5(name, title, trigger, description, tags" in master
        assert "porter unicode61" in master
        for indexed in ("scope_mode, tenant_id, project_id", "task_type", "origin"):
            assert f"ON skills({indexed})" in master

    def test_the_full_text_follows_every_change(self, skills: Skills, path: Path):
        def matching(word: str) -> list[object]:
            query = (
                "SELECT s.name FROM skills_fts f JOIN skills s ON s.rowid = f.rowid WHERE skills_fts MATCH ? ORDER BY 1"
            )
            return [row[0] for row in outside(path, query, word)]

        skills.have(text("a", "Paints walls."), text("b", "Cuts wood.", tags=("carpentry",)))
        assert matching("painting") == ["a"]
        assert matching("tags: carpentry") == ["b"]
        skills.apply(file(record(text("a", "Fills forms.")), mtime=2), gone=["b/SKILL.md"])
        assert (matching("paint OR wood"), matching("form")) == ([], ["a"])
        skills.index.clear()
        assert matching("form") == []
        assert skills.index.check() == []

    def test_without_full_text_everything_else_works(self, path: Path):
        with opened(path, fts="off") as skills:
            assert not skills.store.fts
            skills.have(text("a", "Paints walls."))
            assert skills.names() == ["a"]
        with opened(path) as skills:
            assert outside(path, "SELECT rowid FROM skills_fts WHERE skills_fts MATCH 'wall'") != []

    @pytest.mark.parametrize("column", ["tags", "task_type", "origin", "steps", "stems"])
    def test_a_file_with_rows_that_nobody_here_wrote_is_set_aside(self, skills: Skills, path: Path, column: str):
        skills.have(text("a"))
        row = skills.one("a").row
        outside(path, f"UPDATE skills SET {column} = '{{not ours'")
        with pytest.raises(DamagedRows, match="index of skills is damaged"):
            _ = skills.all(), skills.index.details([row]), skills.index.stems([row])
        assert [each.name for each in path.parent.glob("skills.db.corrupt-*")]
        assert "the file was damaged" in str(skills.store.rebuilt)
        assert (skills.all(), skills.index.marks("r")) == ([], {})
        skills.have(text("a"))
        assert skills.names() == ["a"]

    def test_learned_skills_that_are_sound_outlive_a_file_that_is_set_aside(self, skills: Skills, path: Path):
        skills.have(text("a"))
        columns = "id, name, trigger, steps, origin, scope_mode"
        learned = f"INSERT INTO skills({columns}) VALUES (?, ?, ?, ?, 'learned', 'global')"
        outside(path, learned, "sk_1", "sound", "When it holds.", '["Hold."]')
        outside(path, learned, "sk_2", "broken", "When it breaks.", "[not ours")
        outside(path, "UPDATE skills SET tags = '{not ours' WHERE name = 'a'")
        with pytest.raises(DamagedRows):
            skills.all()
        assert skills.names() == ["sound"]
        found = skills.one("sound")
        assert (found.trigger, skills.index.details([found.row])[found.row].steps) == ("When it holds.", ("Hold.",))

    def test_damage_that_two_find_at_once_sets_one_file_aside(self, skills: Skills, path: Path):
        skills.have(text("a"))
        outside(path, "UPDATE skills SET tags = '{not ours'")
        before = skills.store.generation
        with pytest.raises(DamagedRows):
            skills.all()
        skills.store.set_aside(before, "found by another, later")
        assert skills.store.generation == before + 1
        assert skills.store.path == path


names = st.text(max_size=8)
json_values = st.dictionaries(names, st.none() | st.booleans() | st.integers(-9, 9) | names, max_size=2)
texts = st.builds(
    text,
    names,
    st.text(max_size=30),
    title=names,
    trigger=st.text(max_size=30),
    task_type=st.sampled_from(TaskType),
    tags=st.lists(names, max_size=3).map(tuple),
    steps=st.lists(names, max_size=3).map(tuple),
    preconditions=st.lists(names, max_size=2).map(tuple),
    failure_modes=st.lists(names, max_size=2).map(tuple),
    tools=st.lists(st.builds(ToolNote, names, names), max_size=2).map(tuple),
    requires=st.lists(names, max_size=2).map(tuple),
    body=st.text(max_size=60),
    frontmatter=json_values,
    extra=json_values,
    is_hidden=st.booleans(),
)


@pytest.fixture(scope="module")
def shared_skills(tmp_path_factory: pytest.TempPathFactory):
    with opened(tmp_path_factory.mktemp("cache") / "skills.db") as each:
        yield each


@settings(max_examples=40, deadline=None)
@given(said=texts)
def test_a_text_comes_back_as_it_went_in(shared_skills: Skills, said):
    shared_skills.index.clear()
    wanted = record(said, "folder")
    shared_skills.apply(file(wanted))
    (skill,) = shared_skills.all()
    assert shared_skills.index.details([skill.row, skill.row + 1]) == {skill.row: said}
    assert (skill.id, skill.name, skill.title, skill.trigger) == (wanted.id, said.name, said.title, said.trigger)
    assert (skill.tags, skill.requires, skill.task_type) == (said.tags, said.requires, said.task_type)
    assert (skill.is_hidden, skill.content_hash) == (said.is_hidden, said.content_hash)


APPLYING = """
import sys
from pathlib import Path
from skill_builders import NOW, file, opened, record, text

sys.stdin.readline()
with opened(Path(sys.argv[1])) as skills:
    for turn in range(3):
        wanted = [file(record(text(f"s{number}", f"Turn {turn}.")), mtime=turn) for number in range(20)]
        skills.apply(*wanted)
        skills.search("turn")
    print(skills.store.rebuilt)
"""


@pytest.mark.slow
def test_eight_processes_that_scan_the_same_files_agree(path: Path):
    children = [
        subprocess.Popen(
            [sys.executable, "-c", APPLYING, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=HERE,
        )
        for _ in range(8)
    ]
    for child in children:  # all at once
        child.stdin.write("\n")
        child.stdin.flush()
    assert [child.communicate(timeout=60) for child in children] == [("None\n", "")] * 8
    with opened(path) as skills:
        assert skills.store.rebuilt is None
        assert skills.index.check() == []
        assert len(skills.all()) == 20
