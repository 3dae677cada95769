"""Roots and skill files of a test's own."""

from pathlib import Path
from typing import Any

from toolcrib.base.model import SkillOrigin, SkillScope
from toolcrib.config.schema import SkillPackConfig
from toolcrib.skills.sources.roots import Root


def root_at(folder: Path, **changes: Any) -> Root:
    """Return a root for Agent Skills in ``folder``."""
    values: dict[str, Any] = {
        "source": "dir/test",
        "key": str(folder),
        "folder": folder,
        "origin": SkillOrigin.DIR,
        "origin_ref": "dir/test",
        "scope": SkillScope(),
    }
    return Root(**{**values, **changes})


def pack_at(folder: Path, config: dict[str, Any] | None = None, **changes: Any) -> Root:
    """Return a root for a pack named ``acme`` in ``folder``."""
    pack = SkillPackConfig(**{"name": "acme", "path": str(folder), **(config or {})})
    return root_at(
        folder,
        **{"source": "pack/acme", "origin": SkillOrigin.PACK, "origin_ref": "acme", "pack": pack, **changes},
    )


def write(folder: Path, path: str, text: str = "x") -> Path:
    """Write a file below ``folder``."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def write_skill(folder: Path, path: str, name: str | None = None, description: str = "Fills in forms.") -> Path:
    """Write a SKILL.md into the folder ``path`` below ``folder``; its name is that of its folder."""
    name = name or Path(path).name or folder.name
    text = f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n\n1. Open it.\n2. Fill it in.\n"
    return write(folder, f"{path}/SKILL.md" if path else "SKILL.md", text)
