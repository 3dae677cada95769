"""Which folders skills come from, under which names, and which are left alone."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.base.model import SkillOrigin, SkillScope
from toolcrib.config.schema import ContextSection, SkillPackConfig, SkillsSection, ToolcribSection
from toolcrib.config.settings import Place, Settings
from toolcrib.skills.sources.roots import PRESETS, Root, Roots, find_roots, repository_folders

Find = Callable[..., Roots]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def repository(home: Path) -> Path:
    (home / "code" / ".git").mkdir(parents=True)
    return home / "code"


@pytest.fixture
def find(home: Path, repository: Path) -> Find:
    def run(cwd: Path = repository, context: Mapping[str, str] | None = None, **skills: Any) -> Roots:
        section = ToolcribSection(
            skills=SkillsSection(**{"core_pack": False, **skills}), context=ContextSection(**(context or {}))
        )
        place = Place(cwd=cwd, home=home)
        return find_roots(Settings("test", None, home, home, section, {}, place))

    return run


def folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def sources(roots: tuple[Root, ...]) -> dict[str, Path]:
    return {root.source: root.folder for root in roots}


def test_nothing_is_found_where_nothing_is_and_that_is_no_problem(find: Find):
    assert find() == Roots((), (), ())


def test_the_order_is_core_packs_repository_home_and_folders_of_the_config(find: Find, home: Path, repository: Path):
    own, user, pack, more = (
        folder(path)
        for path in (
            repository / ".agents/skills",
            home / ".agents/skills",
            home / "Packs/Web Work",
            home / "My Skills",
        )
    )
    packs = (SkillPackConfig(name="Web Work!", path=str(pack)),)
    found = find(core_pack=True, skill_packs=packs, skill_dirs=(str(more),)).roots
    assert [root.source for root in found] == ["pack/core", "pack/web-work", "repo", "user", "dir/my-skills"]
    assert [root.folder for root in found[1:]] == [pack, own, user, more]
    assert [root.origin for root in found] == [SkillOrigin.PACK] * 2 + [SkillOrigin.DIR] * 3
    assert [root.origin_ref for root in found] == ["core", "Web Work!", "repo", "user", "dir/my-skills"]
    assert [root.base for root in found] == [None, None, repository, None, None]
    assert [root.is_core for root in found] == [True, False, False, False, False]
    assert [root.key for root in found[1:]] == [f"pack:Web Work!:{pack}", str(own), str(user), str(more)]


def test_the_core_pack_is_for_everybody_and_the_rest_for_who_the_config_says(find: Find, home: Path):
    folder(home / ".agents/skills")
    packs = (SkillPackConfig(name="p", path=str(folder(home / "p")), scope_mode="tenant"),)
    found = find(core_pack=True, skill_packs=packs, context={"tenant_id": "t", "project_id": "p"}).roots
    assert [root.scope.mode for root in found] == ["global", "tenant", "project"]
    assert found[-1].scope == SkillScope("project", "t", "p")


def test_every_folder_from_the_root_of_the_repository_down_is_looked_at(find: Find, repository: Path):
    cwd = folder(repository / "a/b/c")
    top, middle = folder(repository / ".agents/skills"), folder(repository / "a/b/.agents/skills")
    assert sources(find(cwd).roots) == {"repo": top, "repo-2": middle}


@pytest.mark.parametrize("marker", [".git", ".jj", ".toolcrib"])
def test_a_marker_ends_the_walk(tmp_path: Path, marker: str):
    cwd = folder(tmp_path / "a/b/c")
    (tmp_path / "a" / marker).touch()
    assert repository_folders(Place(cwd)) == (tmp_path / "a", tmp_path / "a/b", cwd)


def test_without_a_marker_there_is_only_the_working_directory(tmp_path: Path):
    cwd = folder(tmp_path / "home/a/b")
    assert repository_folders(Place(cwd, home=tmp_path / "home")) == (cwd,)


def test_a_home_directory_is_no_repository_even_with_a_marker(tmp_path: Path):
    home, cwd = tmp_path / "home", folder(tmp_path / "home/a")
    folder(home / ".git")
    folder(tmp_path / ".git")
    assert repository_folders(Place(cwd, home=home)) == (cwd,)
    assert repository_folders(Place(home, home=home)) == ()


def test_the_variable_wins_over_markers(tmp_path: Path):
    cwd = folder(tmp_path / "a/b/c")
    folder(cwd / ".git")
    assert repository_folders(Place(cwd, skills_root=tmp_path / "a")) == (tmp_path / "a", tmp_path / "a/b", cwd)


def test_a_variable_that_names_another_place_names_the_repository(tmp_path: Path):
    cwd, other = folder(tmp_path / "here"), folder(tmp_path / "there")
    assert repository_folders(Place(cwd, skills_root=other)) == (other,)


def test_an_untrusted_repository_is_told_but_gives_nothing(find: Find, home: Path, repository: Path):
    folder(repository / ".agents/skills")
    folder(repository / ".claude/skills")
    user = folder(home / ".agents/skills")
    found = find(trust_project=False, skill_dirs=("preset:claude",))
    assert sources(found.roots) == {"user": user}
    assert list(sources(found.untrusted)) == ["repo", "repo-2"]


def test_a_folder_that_the_config_names_is_trusted_wherever_it_is(find: Find, repository: Path):
    own = folder(repository / ".agents/skills")
    found = find(trust_project=False, skill_dirs=(str(own),))
    assert sources(found.roots) == {"dir/skills": own}
    assert found.untrusted == ()


def test_a_folder_met_twice_is_one_root(find: Find, home: Path, repository: Path):
    own = folder(repository / ".agents/skills")
    (home / "link").symlink_to(own)
    found = find(skill_dirs=(str(own), str(home / "link"), "preset:codex"))
    assert sources(found.roots) == {"repo": own}


def test_equal_names_get_numbers(find: Find, home: Path):
    one, two, three = (folder(home / name / "skills") for name in "abc")
    packs = tuple(SkillPackConfig(name=name, path=str(one)) for name in ("Same", "same"))
    found = find(skill_packs=packs, skill_dirs=(str(one), str(two), str(three)))
    assert list(sources(found.roots)) == ["pack/same", "pack/same-2", "dir/skills", "dir/skills-2", "dir/skills-3"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_the_folders_of_that_client(find: Find, home: Path, repository: Path, name: str):
    in_repository, in_home = PRESETS[name]
    expected = [folder(repository / path) for path in in_repository] + [folder(home / path) for path in in_home]
    found = find(discover=(), skill_dirs=(f"preset:{name}",))
    assert [root.folder for root in found.roots] == expected
    assert [root.base is not None for root in found.roots] == [True] * len(in_repository) + [False] * len(in_home)


def test_a_second_folder_of_the_person_is_numbered(find: Find, home: Path):
    own, other = folder(home / ".agents/skills"), folder(home / ".claude/skills")
    assert sources(find(skill_dirs=("preset:claude",)).roots) == {"user": own, "user-2": other}


def test_a_repository_cannot_bring_in_what_lies_outside_of_it(find: Find, home: Path, repository: Path):
    folder(repository / ".agents")
    (repository / ".agents/skills").symlink_to(folder(home / "private"))
    found = find()
    assert found.roots == ()
    assert "leads out of the repository" in str(found.problems[0])


def test_what_the_config_names_and_is_not_there_is_told(find: Find, home: Path):
    packs = (
        SkillPackConfig(name="a", path=str(home / "none")),
        SkillPackConfig(name="b", path="no_such_package:skills"),
        SkillPackConfig(name="c", path="json:no_such_folder"),
        SkillPackConfig(name="d", path="__main__:x"),
        SkillPackConfig(name="off", path=str(home / "none"), enabled=False),
    )
    found = find(skill_packs=packs, skill_dirs=(str(home / "missing"), "preset:claud"))
    assert found.roots == ()
    assert [problem.path for problem in found.problems] == [
        *(f"toolcrib.skills.skill_packs[{number}].path" for number in range(4)),
        *(f"toolcrib.skills.skill_dirs[{number}]" for number in range(2)),
    ]
    assert found.problems[-1].hint == "did you mean claude?"


def test_a_pack_inside_a_package_is_found_without_running_it(
    find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder(tmp_path / "site/crib_test_pack/inner") / "__init__.py").touch()
    (tmp_path / "site/crib_test_pack/__init__.py").write_text("raise RuntimeError('was run')", encoding="utf-8")
    skills = folder(tmp_path / "site/crib_test_pack/inner/skills/web")
    monkeypatch.syspath_prepend(tmp_path / "site")
    found = find(skill_packs=(SkillPackConfig(name="it", path="crib_test_pack.inner:skills/web"),))
    assert sources(found.roots) == {"pack/it": skills}
    assert "crib_test_pack" not in sys.modules


def test_a_path_that_is_no_text_is_told_and_left_out(find: Find, home: Path):
    odd = home / "odd\udcff"
    try:
        folder(odd / "skills")
    except OSError:
        pytest.skip("this file system has names in Unicode only")
    found = find(skill_dirs=(str(odd / "skills"),))
    assert found.roots == ()
    assert "UTF-8" in str(found.problems[0])


def test_strictness_is_the_configs(find: Find, home: Path):
    folder(home / ".agents/skills")
    assert [find(validation=how).roots[0].is_strict for how in ("lenient", "strict")] == [False, True]
