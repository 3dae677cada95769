"""Files checked strictly for those who write them."""

import os
from pathlib import Path

import pytest
from rooting import write, write_skill

from toolcrib.base.errors import BadRequest
from toolcrib.config.schema import LimitsSection
from toolcrib.skills.doctor import Checked, check

GOOD = "name: pack.acme.forms\ntrigger: A form is to be filled in.\nsteps: [Open it., Fill it in.]\n"


def checked(path: Path, **limits: int) -> Checked:
    return check(path, LimitsSection(**limits))


def errors(found: Checked) -> list[tuple[str, int, str]]:
    return [(each.path, each.line, each.code) for each in found.problems if each.level == "error"]


def test_a_good_skill_has_no_errors(tmp_path: Path):
    file = write_skill(tmp_path, "pdf-forms")
    for path in (file, file.parent, tmp_path):
        found = checked(path)
        assert (found.skills, found.errors) == (("pdf-forms",), 0)
        assert [found.folder / name for name in found.files] == [file]


def test_one_file_is_checked_without_its_neighbours(tmp_path: Path):
    file = write_skill(tmp_path, "pdf-forms")
    write(tmp_path, "pdf-forms/deep/broken/SKILL.md")
    assert checked(file).files == ("SKILL.md",)
    assert errors(checked(file)) == []


def test_what_a_lenient_reader_only_warns_of_is_an_error_and_told_once(tmp_path: Path):
    found = checked(write_skill(tmp_path, "forms", name="Forms").parent)
    about_names = [each for each in found.problems if each.code.startswith("name-")]
    assert {each.level for each in about_names} == {"error"}
    assert len({each.message for each in about_names}) == len(about_names)
    assert found.skills == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("forms.skill.yaml", GOOD),
        ("forms.skill.yml", GOOD),
        ("forms.skill.md", f"---\n{GOOD}---\n"),
        ("forms.skill.json", '{"name": "pack.acme.forms", "trigger": "A form.", "steps": ["Open it."]}'),
        ("forms.skill.jsonl", '{"name": "pack.acme.forms", "trigger": "A form.", "steps": ["Open it."]}\n'),
    ],
)
def test_every_file_of_a_pack_is_read_by_its_format(tmp_path: Path, name: str, text: str):
    file = write(tmp_path, name, text)
    for path in (file, tmp_path):
        assert (checked(path).skills, checked(path).errors) == (("pack.acme.forms",), 0)


def test_a_bad_line_is_told_by_its_number_and_the_others_count(tmp_path: Path):
    good = '{"trigger": "A form.", "steps": ["Open it."]}'
    found = checked(write(tmp_path, "many.skill.jsonl", f"{good}\nnonsense\n{good}\n"))
    assert errors(found) == [("many.skill.jsonl", 2, "json-error")]
    assert len(found.skills) == 2


def test_problems_come_by_place_and_the_gravest_first(tmp_path: Path):
    write(tmp_path, "b/SKILL.md", "---\nname: B\nfoo: 1\n---\nText.\n")
    write(tmp_path, "a.skill.yaml", "trigger: t\n")
    found = checked(tmp_path)
    assert [each.path for each in found.problems] == sorted(each.path for each in found.problems)
    assert found.problems[0].level == "error"
    assert found.files == ("a.skill.yaml", "b/SKILL.md")


def test_a_name_twice_in_a_folder_is_an_error_of_the_second(tmp_path: Path):
    write(tmp_path, "a.skill.yaml", GOOD)
    write(tmp_path, "b.skill.yaml", GOOD)
    assert errors(checked(tmp_path)) == [("b.skill.yaml", 0, "name-twice")]
    assert errors(checked(tmp_path / "b.skill.yaml")) == []


def test_what_a_limit_leaves_out_is_told(tmp_path: Path):
    write_skill(tmp_path, "one")
    write_skill(tmp_path, "two")
    assert "too-many-skills" in {each.code for each in checked(tmp_path, skills_per_root=1).problems}
    large = write_skill(tmp_path, "one", description="d" * 1024)
    assert errors(checked(large, skill_text_max_bytes=1024)) == [("SKILL.md", 0, "too-large")]


def test_a_link_is_checked_at_the_place_where_it_leads(tmp_path: Path):
    file = write_skill(tmp_path, "real/pdf-forms")
    (tmp_path / "link").symlink_to(file.parent)
    assert checked(tmp_path / "link" / "SKILL.md").folder == file.parent
    assert checked(tmp_path / "link").skills == ("pdf-forms",)


def test_what_is_no_skill_is_refused_with_what_would_be_one(tmp_path: Path):
    notes = write(tmp_path, "notes.md")
    with pytest.raises(BadRequest, match=r"There are no skills in .*Name a SKILL\.md or a pack's file"):
        checked(tmp_path)
    with pytest.raises(BadRequest, match=r"notes\.md is not a SKILL\.md or a pack's file"):
        checked(notes)
    with pytest.raises(BadRequest, match=r"SKILL\.md is not there"):
        checked(tmp_path / "SKILL.md")


def test_a_pipe_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "SKILL.md")
    with pytest.raises(BadRequest, match="is not a SKILL"):
        checked(tmp_path / "SKILL.md")
