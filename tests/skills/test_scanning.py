"""What a scan finds to be new, and what it makes of it."""

import itertools
import os
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from rooting import pack_at, root_at, write, write_skill

from toolcrib.base.model import FileMark, SkillFile, SkillOrigin, SkillRecord, SkillScope
from toolcrib.config.schema import LimitsSection
from toolcrib.skills.identity import skill_id
from toolcrib.skills.sources.roots import Root
from toolcrib.skills.sources.scanning import ROOT_ITSELF, RootScan, read_again, scan

LIMITS = LimitsSection()


class Memory:
    """Keeps marks and records as an index would."""

    def __init__(self) -> None:
        self.files: dict[str, SkillFile] = {}

    def scan(self, root: Root, **limits: Any) -> RootScan:
        found = scan(root, {path: file.mark for path, file in self.files.items()}, LimitsSection(**limits))
        for path in found.gone:
            del self.files[path]
        self.files.update({file.path: file for file in found.changed})
        return found

    @property
    def records(self) -> dict[str, SkillRecord]:
        return {record.folder: record for file in self.files.values() for record in file.records}

    @property
    def codes(self) -> list[tuple[str, str]]:
        return [
            (problem.path, problem.code)
            for file in self.files.values()
            for problem in file.problems
            if problem.level == "error"
        ]


@pytest.fixture
def memory() -> Memory:
    return Memory()


def changed(found: RootScan) -> list[str]:
    return [file.path for file in found.changed if file.path != ROOT_ITSELF]


def touch(file: Path) -> None:
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def pack_skill(name: str = "", *, trigger: str = "A form is to be filled in.", extra: str = "") -> str:
    return f"{f'name: {name}' if name else ''}\ntrigger: {trigger}\nsteps: [Open it., Fill it in.]\n{extra}"


# -- agent skills ---------------------------------------------------------------------------------


def test_a_skill_is_what_its_file_says_at_the_place_where_it_lies(tmp_path: Path, memory: Memory):
    file = write_skill(tmp_path, "docs/pdf-forms")
    root = root_at(tmp_path, scope=SkillScope("tenant", "t", None))
    found = memory.scan(root)
    record = memory.records["docs/pdf-forms"]
    assert (record.text.name, record.text.description) == ("pdf-forms", "Fills in forms.")
    assert (record.source, record.path, record.origin_ref) == ("dir/test", "docs/pdf-forms/SKILL.md", "dir/test")
    assert (record.origin, record.scope, record.is_conforming) == (SkillOrigin.DIR, root.scope, True)
    assert record.id == skill_id(root.scope, root.key, record.path)
    assert not record.is_pinned
    status, data = file.stat(), file.read_bytes()
    mark = FileMark(status.st_mtime_ns, status.st_size, sha256(data).hexdigest())
    assert memory.files["docs/pdf-forms/SKILL.md"].mark == mark
    assert (found.gone, found.problems, found.unchanged) == ((), (), 0)


def test_a_second_scan_opens_nothing(tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch):
    for name in ("a", "b"):
        write_skill(tmp_path, name)
    memory.scan(root_at(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr("toolcrib.skills.sources.files.os.open", None)
        assert memory.scan(root_at(tmp_path)) == RootScan((), (), (), 2)


def test_only_what_has_changed_is_read(tmp_path: Path, memory: Memory):
    for name in ("a", "b", "c"):
        write_skill(tmp_path, name)
    memory.scan(root_at(tmp_path))
    write_skill(tmp_path, "b", description="Does more.")
    write_skill(tmp_path, "d")
    (tmp_path / "c/SKILL.md").unlink()
    found = memory.scan(root_at(tmp_path))
    assert (changed(found), found.gone, found.unchanged) == (["b/SKILL.md", "d/SKILL.md"], ("c/SKILL.md",), 1)
    assert sorted(memory.records) == ["a", "b", "d"]


def test_a_new_time_is_learned_with_the_same_text(tmp_path: Path, memory: Memory):
    file = write_skill(tmp_path, "a")
    memory.scan(root_at(tmp_path))
    before = memory.records["a"]
    touch(file)
    assert changed(memory.scan(root_at(tmp_path))) == ["a/SKILL.md"]
    assert memory.records["a"] == before
    assert changed(memory.scan(root_at(tmp_path))) == []


def test_a_skill_in_the_root_itself_has_the_roots_name(tmp_path: Path, memory: Memory):
    folder = tmp_path / "pdf"
    for path in ("", "pdf", "pdf/pdf", "other/pdf"):
        write_skill(folder, path)
    memory.scan(root_at(folder))
    assert {folder: record.path for folder, record in memory.records.items()} == {
        "pdf": "SKILL.md",
        "pdf/pdf": "pdf/SKILL.md",
        "pdf/pdf/pdf": "pdf/pdf/SKILL.md",
        "other/pdf": "other/pdf/SKILL.md",
    }


def test_each_copy_of_a_file_is_told_where_it_lies(tmp_path: Path, memory: Memory):
    for path in ("a/pdf", "b/pdf", "b/other"):
        write_skill(tmp_path, path, name="pdf")
    for path in ("a/none", "b/none"):
        write(tmp_path, f"{path}/SKILL.md", "No frontmatter.")
    memory.scan(root_at(tmp_path))
    assert {folder: record.path for folder, record in memory.records.items()} == {
        path: f"{path}/SKILL.md" for path in ("a/pdf", "b/other", "b/pdf")
    }
    assert len({record.id for record in memory.records.values()}) == 3
    assert [folder for folder, record in memory.records.items() if not record.is_conforming] == ["b/other"]
    assert memory.codes == [(f"{path}/none/SKILL.md", "frontmatter-missing") for path in ("a", "b")]


def test_a_broken_file_is_told_and_the_others_load(tmp_path: Path, memory: Memory):
    write_skill(tmp_path, "good")
    write(tmp_path, "bad/SKILL.md", "no frontmatter, no description")
    memory.scan(root_at(tmp_path))
    assert list(memory.records) == ["good"]
    assert [path for path, _ in memory.codes] == ["bad/SKILL.md"]


def test_a_skill_that_breaks_a_rule_loads_leniently_and_not_strictly(tmp_path: Path, memory: Memory):
    write_skill(tmp_path, "pdf", name="Other Name")
    memory.scan(root_at(tmp_path))
    assert memory.records["pdf"].is_conforming is False
    assert memory.codes == []
    memory.scan(root_at(tmp_path, is_strict=True))
    assert memory.records == {}
    assert {path for path, _ in memory.codes} == {"pdf/SKILL.md"}


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, memory: Memory):
    write(tmp_path, "a/SKILL.md", "x" * 2000)
    memory.scan(root_at(tmp_path), skill_text_max_bytes=1024)
    assert memory.codes == [("a/SKILL.md", "too-large")]
    assert changed(memory.scan(root_at(tmp_path), skill_text_max_bytes=1024)) == []
    assert changed(memory.scan(root_at(tmp_path), skill_text_max_bytes=4096)) == ["a/SKILL.md"]


def test_an_unreadable_file_is_told_once_and_tried_again(
    tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    write_skill(tmp_path, "a")

    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError

    monkeypatch.setattr("toolcrib.skills.sources.files.os.open", refuse)
    memory.scan(root_at(tmp_path))
    assert memory.codes == [("a/SKILL.md", "unreadable")]
    assert memory.scan(root_at(tmp_path)).changed == ()
    monkeypatch.undo()
    memory.scan(root_at(tmp_path))
    assert (list(memory.records), memory.codes) == (["a"], [])


@pytest.mark.parametrize(
    "change",
    [
        {"source": "repo-2"},
        {"scope": SkillScope("global")},
        {"is_strict": True},
    ],
)
def test_a_root_that_is_read_in_another_way_is_read_anew(tmp_path: Path, memory: Memory, change: dict[str, Any]):
    write_skill(tmp_path, "a")
    memory.scan(root_at(tmp_path))
    assert changed(memory.scan(root_at(tmp_path, **change))) == ["a/SKILL.md"]
    assert changed(memory.scan(root_at(tmp_path, **change))) == []


def test_a_linked_skill_is_read_at_its_real_place(tmp_path: Path, memory: Memory):
    write_skill(tmp_path / "repo/store", "pdf")
    skills = tmp_path / "repo/skills"
    (skills / "forms").mkdir(parents=True)
    (skills / "forms/SKILL.md").symlink_to("../../store/pdf/SKILL.md")
    (skills / "pdf").symlink_to("../store/pdf")
    memory.scan(root_at(skills, base=tmp_path / "repo"))
    assert [record.text.name for record in memory.records.values()] == ["pdf"]


def test_what_the_walk_left_out_is_told(tmp_path: Path, memory: Memory):
    for name in ("a", "b"):
        write_skill(tmp_path, name)
    found = memory.scan(root_at(tmp_path), skills_per_root=1)
    assert [problem.code for problem in found.problems] == ["too-many-skills"]


# -- packs ----------------------------------------------------------------------------------------


def test_a_packs_skills_stand_under_their_slugs(tmp_path: Path, memory: Memory):
    for name in ("pack.acme.fill_form", "pack.acme.fill form", "Other Skill"):
        write(tmp_path, f"{name}.skill.yaml", pack_skill(name))
    write(tmp_path, "nameless.skill.yaml", pack_skill())
    memory.scan(pack_at(tmp_path))
    assert {folder: record.text.name for folder, record in memory.records.items()} == {
        "other-skill": "Other Skill",
        "nameless": "pack.acme.nameless",
        "fill-form": "pack.acme.fill form",
        "fill-form-2": "pack.acme.fill_form",
    }
    for record in memory.records.values():
        assert (record.source, record.origin, record.origin_ref) == ("pack/acme", SkillOrigin.PACK, "acme")
        assert record.is_conforming
    assert len({record.id for record in memory.records.values()}) == 4


def test_a_name_is_given_once_in_a_pack_whenever_it_comes(tmp_path: Path, memory: Memory):
    write(tmp_path, "b.skill.yaml", pack_skill("same"))
    memory.scan(pack_at(tmp_path))
    write(tmp_path, "a.skill.yaml", pack_skill("same"))
    found = memory.scan(pack_at(tmp_path))
    assert changed(found) == ["a.skill.yaml", "b.skill.yaml"]
    assert [record.path for record in memory.records.values()] == ["a.skill.yaml"]
    assert memory.codes == [("b.skill.yaml", "name-twice")]
    (tmp_path / "a.skill.yaml").unlink()
    memory.scan(pack_at(tmp_path))
    assert [record.path for record in memory.records.values()] == ["b.skill.yaml"]
    assert memory.codes == []


def test_a_pack_that_has_not_changed_is_not_read(tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch):
    for name in "ab":
        write(tmp_path, f"{name}.skill.yaml", pack_skill(name))
    memory.scan(pack_at(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr("toolcrib.skills.sources.files.os.open", None)
        assert memory.scan(pack_at(tmp_path)) == RootScan((), (), (), 2)


def test_the_number_of_skills_in_a_pack_is_limited(tmp_path: Path, memory: Memory):
    lines = [f'{{"name": "n{number}", "trigger": "t", "steps": ["s"]}}\n' for number in range(5)]
    write(tmp_path, "a.skill.jsonl", "".join(lines))
    memory.scan(pack_at(tmp_path), skills_per_root=3)
    assert list(memory.records) == ["n0", "n1", "n2"]
    assert memory.codes == [("a.skill.jsonl", "too-many-skills")]


def test_what_a_pack_leaves_out_is_told_by_its_line(tmp_path: Path, memory: Memory):
    lines = [f'{{"name": "n{number}", "trigger": "t", "steps": ["s"]}}\n' for number in range(5)]
    write(tmp_path, "a.skill.yaml", pack_skill("n1"))
    write(tmp_path, "b.skill.jsonl", "\n" + "".join(lines))
    found = memory.scan(pack_at(tmp_path), skills_per_root=3)
    problems = [problem for file in found.changed for problem in file.problems if problem.level == "error"]
    assert [(each.path, each.line, each.code) for each in problems] == [
        ("b.skill.jsonl", 3, "name-twice"),
        ("b.skill.jsonl", 5, "too-many-skills"),
    ]


def test_what_is_pinned_is_said_by_the_config_and_by_the_core_pack_alone(tmp_path: Path, memory: Memory):
    write(tmp_path, "a.skill.yaml", pack_skill("a", extra="pinned: true"))
    write(tmp_path, "b.skill.yaml", pack_skill("b"))

    def pinned(root: Root) -> list[str]:
        memory.scan(root)
        return [name for name, record in memory.records.items() if record.is_pinned]

    assert pinned(pack_at(tmp_path)) == []
    assert pinned(pack_at(tmp_path, {"pinned_skill_names": ["b"]})) == ["b"]
    assert pinned(pack_at(tmp_path, is_core=True)) == ["a"]


def test_a_pack_may_hold_agent_skills(tmp_path: Path, memory: Memory):
    write_skill(tmp_path, "web/pdf")
    write(tmp_path, "pdf.skill.yaml", pack_skill("pdf"))
    memory.scan(pack_at(tmp_path))
    assert {folder: record.origin for folder, record in memory.records.items()} == {
        "web/pdf": SkillOrigin.DIR,
        "pdf": SkillOrigin.PACK,
    }
    assert {record.origin_ref for record in memory.records.values()} == {"acme"}


def test_an_agent_skill_keeps_its_folder_before_any_slug(tmp_path: Path, memory: Memory):
    write_skill(tmp_path, "pdf")
    write(tmp_path, "a.skill.yaml", pack_skill("pdf"))
    memory.scan(pack_at(tmp_path))
    assert {folder: record.path for folder, record in memory.records.items()} == {
        "pdf": "pdf/SKILL.md",
        "pdf-2": "a.skill.yaml",
    }


# -- one file again -------------------------------------------------------------------------------


def test_a_file_that_is_as_it_was_is_not_read_again(tmp_path: Path, memory: Memory):
    write_skill(tmp_path, "a")
    memory.scan(root_at(tmp_path))
    assert read_again(root_at(tmp_path), "a/SKILL.md", memory.files["a/SKILL.md"].mark, LIMITS) is None


def test_a_file_that_cannot_be_read_is_told_once(tmp_path: Path, memory: Memory):
    file = write_skill(tmp_path, "a")
    memory.scan(root_at(tmp_path))
    limits = LIMITS.model_copy(update={"skill_text_max_bytes": file.stat().st_size - 1})
    again = read_again(root_at(tmp_path), "a/SKILL.md", memory.files["a/SKILL.md"].mark, limits)
    assert again is not None
    assert [problem.code for each in again.changed for problem in each.problems] == ["too-large"]
    assert read_again(root_at(tmp_path), "a/SKILL.md", again.changed[0].mark, limits) is None


def test_a_file_that_has_changed_is_read_again_alone(tmp_path: Path, memory: Memory):
    write_skill(tmp_path, "b")
    file = write_skill(tmp_path, "a")
    memory.scan(root_at(tmp_path))
    touch(file)
    again = read_again(root_at(tmp_path), "a/SKILL.md", memory.files["a/SKILL.md"].mark, LIMITS)
    assert again is not None
    assert [each.path for each in again.changed] == ["a/SKILL.md"]
    assert again.changed[0].records == memory.files["a/SKILL.md"].records
    assert read_again(root_at(tmp_path), "a/SKILL.md", again.changed[0].mark, LIMITS) is None


def test_a_file_that_is_gone_is_said_to_be(tmp_path: Path):
    assert read_again(root_at(tmp_path), "a/SKILL.md", None, LIMITS) == RootScan((), ("a/SKILL.md",), (), 0)


def test_of_a_pack_all_files_are_read_again(tmp_path: Path, memory: Memory):
    file = write(tmp_path, "a.skill.yaml", pack_skill("a"))
    write(tmp_path, "b.skill.yaml", pack_skill("b"))
    memory.scan(pack_at(tmp_path))
    touch(file)
    again = read_again(pack_at(tmp_path), "a.skill.yaml", memory.files["a.skill.yaml"].mark, LIMITS)
    assert again is not None
    assert changed(again) == ["a.skill.yaml", "b.skill.yaml"]


# -- many -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_600_real_skills_take_two_seconds_at_first_and_25_milliseconds_afterwards(tmp_path: Path):
    corpus = Path(__file__).resolve().parents[2] / "../shared/skills-dev/corpus"
    if not corpus.is_dir():
        pytest.skip("the corpus of skills is not here")
    files = itertools.islice(itertools.cycle(sorted(corpus.rglob("SKILL.md"))), 600)
    for number, file in enumerate(files):
        write(tmp_path, f"{file.parent.name}-{number}/SKILL.md", file.read_text(encoding="utf-8"))
    root = root_at(tmp_path)
    began = time.process_time()
    found = scan(root, {}, LIMITS)
    cold = time.process_time() - began
    known = {file.path: file.mark for file in found.changed}
    warm: list[float] = []
    for _ in range(5):
        began = time.process_time()
        assert scan(root, known, LIMITS) == RootScan((), (), (), 600)
        warm.append(time.process_time() - began)
    assert sum(len(file.records) for file in found.changed) > 590
    assert cold < 2
    assert min(warm) < 0.025
