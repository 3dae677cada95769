"""The pack that ships with toolcrib, read as it stands in the repository."""

from pathlib import Path

from toolcrib.base.model import SkillProblem, SkillText
from toolcrib.skills.formats.pack import read_pack_file
from toolcrib.skills.identity import slug

CORE = Path(__file__).resolve().parents[2] / "packs" / "core"
FILES = sorted(path for path in CORE.rglob("*.skill.*"))


def read_all() -> list[tuple[Path, list[SkillText], list[SkillProblem]]]:
    return [(path, *read_pack_file(path.read_bytes(), path=path.name, pack="core")[:2]) for path in FILES]


def folder_of(skill: SkillText) -> str:
    return slug(skill.name.removeprefix("pack.core."))


SKILLS = [skill for _, skills, _ in read_all() for skill in skills]
