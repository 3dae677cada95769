"""Finding the files that skills are read from."""

import os
from pathlib import Path
from typing import Any

import pytest
from rooting import pack_at, root_at, write

from toolcrib.config.schema import LimitsSection
from toolcrib.skills.sources.files import place_of
from toolcrib.skills.sources.roots import Root
from toolcrib.skills.sources.scanning import find_files


def paths(root: Root, **limits: Any) -> list[str]:
    return [file.path for file in find_files(root, LimitsSection(**limits)).files]


def codes(root: Root, **limits: Any) -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in find_files(root, LimitsSection(**limits)).problems]


def test_skills_are_found_at_every_depth_and_inside_each_other(tmp_path: Path):
    for path in ("SKILL.md", "b/SKILL.md", "a/SKILL.md", "a/inner/SKILL.md", "docs/x/y/SKILL.md"):
        write(tmp_path, path)
    assert paths(root_at(tmp_path)) == [
        "SKILL.md",
        "a/SKILL.md",
        "a/inner/SKILL.md",
        "b/SKILL.md",
        "docs/x/y/SKILL.md",
    ]


def test_a_found_file_has_its_place_and_its_mark(tmp_path: Path):
    file = write(tmp_path, "a/SKILL.md", "four")
    os.utime(file, ns=(1, 12_345_678_901))
    (found,) = find_files(root_at(tmp_path), LimitsSection()).files
    assert (found.real, found.mtime_ns, found.size) == (file, 12_345_678_901, 4)


def test_hidden_folders_and_those_of_package_managers_are_left_out(tmp_path: Path):
    for folder in (".git", ".hidden", "node_modules", "a/node_modules/b", "__pycache__"):
        write(tmp_path, f"{folder}/SKILL.md")
    assert paths(root_at(tmp_path)) == []
    assert codes(root_at(tmp_path)) == []


@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "SKILL.MD"])
def test_a_name_in_other_letters_is_found_too(tmp_path: Path, name: str):
    write(tmp_path, f"a/{name}")
    write(tmp_path, "a/my-skill.md")
    assert paths(root_at(tmp_path)) == [f"a/{name}"]


def test_of_two_spellings_the_right_one_is_taken(tmp_path: Path):
    for name in ("SKILL.MD", "SKILL.md", "skill.md"):
        write(tmp_path, f"a/{name}")
    if len(list((tmp_path / "a").iterdir())) < 3:
        pytest.skip("this file system does not tell small letters from capitals")
    assert paths(root_at(tmp_path)) == ["a/SKILL.md"]
    assert codes(root_at(tmp_path)) == [("skill-file-twice", "a/SKILL.MD"), ("skill-file-twice", "a/skill.md")]


def test_a_pack_has_files_of_all_formats_and_agent_skills(tmp_path: Path):
    names = ["a.skill.md", "b.skill.yaml", "b.skill.yml", "c/d.skill.json", "e.skill.jsonl", "f/SKILL.md"]
    for name in (*names, "README.md", "x.yaml", "skill.json", ".skill.md"):
        write(tmp_path, name)
    assert paths(pack_at(tmp_path)) == names
    assert paths(pack_at(tmp_path, {"format": "yaml"})) == ["b.skill.yaml", "b.skill.yml"]
    assert paths(pack_at(tmp_path, {"format": "md"})) == ["a.skill.md"]
    assert paths(root_at(tmp_path)) == ["f/SKILL.md"]


# -- links ----------------------------------------------------------------------------------------


def test_a_linked_folder_is_followed_once(tmp_path: Path):
    write(tmp_path, "elsewhere/pdf/SKILL.md")
    skills = tmp_path / "skills"
    skills.mkdir()
    for name in ("b", "a"):
        (skills / name).symlink_to(tmp_path / "elsewhere/pdf")
    (found,) = find_files(root_at(skills), LimitsSection()).files
    assert (found.path, found.real) == ("a/SKILL.md", tmp_path / "elsewhere/pdf/SKILL.md")


def test_what_is_there_itself_counts_and_not_the_link_to_it(tmp_path: Path):
    write(tmp_path, "z/deep/SKILL.md")
    (tmp_path / "a").symlink_to("z/deep")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/SKILL.md").symlink_to("../z/deep/SKILL.md")
    assert paths(root_at(tmp_path)) == ["z/deep/SKILL.md"]


def test_a_linked_skill_file_has_its_real_place(tmp_path: Path):
    real = write(tmp_path, "store/pdf/SKILL.md")
    root = root_at(tmp_path / "skills")
    (root.folder / "pdf").mkdir(parents=True)
    (root.folder / "pdf/SKILL.md").symlink_to(real)
    (found,) = find_files(root, LimitsSection()).files
    assert (found.path, found.real) == ("pdf/SKILL.md", real)
    assert place_of(root.folder, found.path) == (real.parent, "SKILL.md")


def test_a_link_from_a_skill_to_another_file_is_none(tmp_path: Path):
    write(tmp_path, "store/README.md")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/SKILL.md").symlink_to("../store/README.md")
    assert paths(root_at(tmp_path)) == []


def test_links_in_a_circle_end(tmp_path: Path):
    write(tmp_path, "skills/a/SKILL.md")
    (tmp_path / "skills/a/up").symlink_to("..")
    (tmp_path / "skills/self").symlink_to("self")
    (tmp_path / "skills/top").symlink_to(tmp_path)
    root = root_at(tmp_path / "skills")
    assert paths(root) == ["a/SKILL.md"]
    assert codes(root) == [("link-broken", "self")]


def test_in_a_repository_links_stay_inside(tmp_path: Path):
    write(tmp_path, "outside/pdf/SKILL.md")
    write(tmp_path, "repo/tools/web/SKILL.md")
    skills = tmp_path / "repo/.agents/skills"
    (skills / "one").mkdir(parents=True)
    (skills / "pdf").symlink_to(tmp_path / "outside/pdf")
    (skills / "web").symlink_to("../../tools/web")
    (skills / "one/SKILL.md").symlink_to(tmp_path / "outside/pdf/SKILL.md")
    root = root_at(skills, base=tmp_path / "repo")
    assert paths(root) == ["web/SKILL.md"]
    assert codes(root) == [("link-outside", "pdf"), ("link-outside", "one/SKILL.md")]


def test_what_is_no_regular_file_is_no_skill(tmp_path: Path):
    for name in ("a", "b", "c/SKILL.md"):
        (tmp_path / name).mkdir(parents=True)
    os.mkfifo(tmp_path / "a/SKILL.md")
    (tmp_path / "b/SKILL.md").symlink_to("/dev/zero")
    assert paths(root_at(tmp_path)) == []


# -- limits ---------------------------------------------------------------------------------------


def test_too_deep_is_told(tmp_path: Path):
    write(tmp_path, "1/2/SKILL.md")
    write(tmp_path, "1/2/3/SKILL.md")
    assert paths(root_at(tmp_path), skill_depth=2) == ["1/2/SKILL.md"]
    assert codes(root_at(tmp_path), skill_depth=2) == [("too-deep", "1/2/3")]


def test_folders_in_which_no_skill_comes_up_are_limited_and_shallow_ones_come_first(tmp_path: Path):
    write(tmp_path, "z/SKILL.md")
    for number in range(5):
        write(tmp_path, f"a/{number}/SKILL.md")
    for number in range(20):
        (tmp_path / f"b{number:02}/c").mkdir(parents=True)
    assert "z/SKILL.md" in paths(root_at(tmp_path), skill_folders=25)
    assert codes(root_at(tmp_path), skill_folders=7) == [("too-many-folders", ".")]
    assert codes(root_at(tmp_path), skill_folders=100) == []


def test_skills_below_more_folders_than_the_limit_are_found(tmp_path: Path):
    wanted = [f"{owner:02}/{name}/SKILL.md" for owner in range(30) for name in ("one", "two")]
    for path in wanted:
        write(tmp_path, path)
        (tmp_path / path).with_name("references").mkdir()
    assert paths(root_at(tmp_path), skill_folders=4) == wanted
    assert codes(root_at(tmp_path), skill_folders=4) == []


def test_the_number_of_skills_is_limited(tmp_path: Path):
    for number in range(4):
        write(tmp_path, f"{number}/SKILL.md")
    assert paths(root_at(tmp_path), skills_per_root=3) == [f"{number}/SKILL.md" for number in range(3)]
    assert codes(root_at(tmp_path), skills_per_root=3) == [("too-many-skills", ".")]
    assert codes(root_at(tmp_path), skills_per_root=4) == []


@pytest.mark.parametrize(("bound", "code"), [("_ENTRIES_MAX", "too-many-files"), ("_TEXT_MAX", "too-many-skills")])
def test_entries_and_texts_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, code: str):
    write(tmp_path, "a/SKILL.md", "long")
    monkeypatch.setattr(f"toolcrib.skills.sources.scanning.{bound}", 1)
    write(tmp_path, "b/SKILL.md", "long")
    assert codes(root_at(tmp_path)) == [(code, ".")]


def test_problems_are_limited_too(tmp_path: Path):
    for number in range(150):
        (tmp_path / f"{number}").symlink_to("nowhere")
    assert len(codes(root_at(tmp_path))) == 100


def test_a_name_that_is_no_text_is_told(tmp_path: Path):
    try:
        write(tmp_path, "a\udcff/SKILL.md")
    except OSError:
        pytest.skip("this file system has names in Unicode only")
    write(tmp_path, "back\\slash/SKILL.md")
    assert paths(root_at(tmp_path)) == []
    assert codes(root_at(tmp_path)) == [("name-unusable", "a"), ("name-unusable", "back\\slash")]


def test_a_folder_that_cannot_be_looked_into_is_told(tmp_path: Path):
    assert codes(root_at(tmp_path / "none")) == [("folder-unreadable", ".")]


# -- files beside a SKILL.md ----------------------------------------------------------------------


def test_a_skill_with_more_files_than_are_listed_is_told_with_the_limit(tmp_path: Path):
    for path in (
        "a/SKILL.md",
        "a/1.txt",
        "a/deep/2.txt",
        "a/inner/SKILL.md",
        "b/SKILL.md",
        "b/3.txt",
        "4.txt",
        "5.txt",
    ):
        write(tmp_path, path)
    [problem] = find_files(root_at(tmp_path), LimitsSection(skill_files=3)).problems
    assert (problem.code, problem.path, problem.level) == ("too-many-own-files", "a", "warning")
    assert problem.message == "has 4 files; limits.skill_files leaves 1 out"
    assert codes(root_at(tmp_path), skill_files=4) == []
    write(tmp_path, "SKILL.md")
    assert codes(root_at(tmp_path), skill_files=8) == [("too-many-own-files", ".")]


def test_what_is_no_file_of_a_skill_is_not_counted(tmp_path: Path):
    for path in ("a/SKILL.md", "a/1.txt", "a/.git/2.txt", "a/node_modules/3.txt", "a/.env", "b/4.txt", "b/5.txt"):
        write(tmp_path, path)
    (tmp_path / "a/link.txt").symlink_to(tmp_path / "b/4.txt")
    (tmp_path / "a/linked").symlink_to(tmp_path / "b")
    assert codes(root_at(tmp_path), skill_files=2) == []
    assert codes(root_at(tmp_path), skill_files=1) == [("too-many-own-files", "a")]


def test_the_files_of_a_skill_behind_a_link_are_counted(tmp_path: Path):
    for path in ("elsewhere/SKILL.md", "elsewhere/1.txt"):
        write(tmp_path, path)
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills/a").symlink_to(tmp_path / "elsewhere")
    assert codes(root_at(tmp_path / "skills"), skill_files=1) == [("too-many-own-files", "a")]
