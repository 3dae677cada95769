"""``crib.skills``: found, listed and read by a program (R368)."""

from pathlib import Path
from typing import Any

import pytest

import toolcrib

pytestmark = pytest.mark.anyio

TEXT = """---
name: {name}
description: {description}
---
# How to do it

Do it with care.
"""


def folder_with(folder: Path, **skills: str) -> Path:
    for name, description in skills.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(TEXT.format(name=name, description=description))
    return folder


def config(folder: Path, **more: Any) -> dict[str, Any]:
    return {"toolcrib": {"skills": {"skill_dirs": [str(folder)], "discover": [], "core_pack": False, **more}}}


async def test_skills_are_found_listed_and_read(tmp_path: Path):
    folder = folder_with(tmp_path, pottery="Make pots of clay.", baking="Bake bread in an oven.")
    (folder / "baking" / "doughs.md").write_text("Flour and water.")
    async with toolcrib.open(config(folder)) as crib:
        found = await crib.skills.search("bread from an oven")
        assert [skill.name for skill in found][:1] == ["baking"]
        assert "Bake bread" in repr(found[0])
        assert {skill.name for skill in await crib.skills.list()} == {"baking", "pottery"}
        for _ in range(2):  # again, whole, however often
            content = await crib.skills.get("baking")
            assert "Do it with care." in content.text
            assert content.uri.endswith("/baking/SKILL.md")
            assert content.files == ("SKILL.md", "doughs.md")
        assert "Flour and water." in (await crib.skills.get("baking", file="doughs.md")).text


async def test_what_there_is_not_is_an_error_that_says_so(tmp_path: Path):
    folder = folder_with(tmp_path, baking="Bake bread in an oven.")
    async with toolcrib.open(config(folder)) as crib:
        with pytest.raises(toolcrib.UnknownSkill, match="bakin"):
            await crib.skills.get("bakin")
        with pytest.raises(toolcrib.UnknownSkill):
            await crib.skills.get("baking", file="none.md")
        with pytest.raises(toolcrib.BadRequest):
            await crib.skills.search(" ")


async def test_no_folder_is_searched_for_skills_unless_the_config_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder_with(tmp_path / ".agents" / "skills", baking="Bake bread in an oven.")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    async with toolcrib.open({"toolcrib": {}}) as crib:
        with pytest.raises(toolcrib.ToolcribError, match="Skills are disabled"):
            await crib.skills.list()


async def test_a_skill_that_needs_a_persons_yes_is_not_read_without(tmp_path: Path):
    folder = folder_with(tmp_path, baking="Bake bread in an oven.")
    async with toolcrib.open(config(folder, permissions=[{"skill_name": "baking", "action": "confirm"}])) as crib:
        with pytest.raises(toolcrib.NotConfirmed, match="baking"):
            await crib.skills.get("baking")
