"""Validates skill files against every rule of their format, for their authors.

Knows a file or folder that somebody names; never knows the config, the index or who may see a skill.
"""

from dataclasses import dataclass
from pathlib import Path

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import SkillFile, SkillOrigin, SkillProblem, SkillScope
from toolcrib.config.schema import LimitsSection, SkillPackConfig
from toolcrib.skills.formats.pack import pack_format
from toolcrib.skills.sources.reading import read_files
from toolcrib.skills.sources.roots import Root
from toolcrib.skills.sources.scanning import ROOT_ITSELF, scan
from toolcrib.skills.sources.walking import FoundFile, is_skill_file

_LEVELS = ("error", "warning", "info")


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: paths relative to ``folder``, the skills in them, and all problems."""

    folder: Path
    files: tuple[str, ...]
    skills: tuple[str, ...]
    problems: tuple[SkillProblem, ...]

    @property
    def errors(self) -> int:
        """Return the number of errors, that is broken rules."""
        return sum(problem.level == "error" for problem in self.problems)


def check(path: Path, limits: LimitsSection) -> Checked:
    """Strictly check a SKILL.md, a pack file, or every such file below a folder.

    Raises:
        BadRequest: there is no such file at ``path``.

    """
    real = path.resolve()
    if real.is_dir():
        folder, found = real, scan(_root(real), {}, limits)
        files = [file for file in found.changed if file.path != ROOT_ITSELF]
        about_folder = found.problems
    else:
        folder, about_folder = real.parent, ()
        files = read_files(_root(folder), [_found(real)], limits) if _is_readable(real) else []
    if not files:
        raise BadRequest(_refusal(path, real))
    problems = [*about_folder, *(problem for file in files for problem in _gravest(file))]
    return Checked(
        folder,
        tuple(file.path for file in files),
        tuple(record.text.name for file in files for record in file.records),
        tuple(sorted(problems, key=_place)),
    )


def _root(folder: Path) -> Root:
    """Return the folder as a strict pack root, since a pack may contain every kind of file."""
    pack = SkillPackConfig(name=folder.name or "pack", path=str(folder))
    return Root("pack/check", str(folder), folder, SkillOrigin.PACK, pack.name, SkillScope(), is_strict=True, pack=pack)


def _is_readable(real: Path) -> bool:
    return real.is_file() and (is_skill_file(real.name) or pack_format(real.name) is not None)


def _found(real: Path) -> FoundFile:
    status = real.stat()
    return FoundFile(real.name, str(real), status.st_mtime_ns, status.st_size)


def _refusal(path: Path, real: Path) -> str:
    kinds = "a SKILL.md or a pack's file (*.skill.md, .skill.yaml, .skill.json, .skill.jsonl)"
    if real.is_dir():
        return f"There are no skills in {path}. Name {kinds}, or a folder with such files."
    return f"{path} is not {kinds}." if real.exists() else f"{path} is not there."


def _gravest(file: SkillFile) -> list[SkillProblem]:
    """Return the distinct problems of a file: warnings of the lenient reader are errors here."""
    told: dict[tuple[int, str, str], SkillProblem] = {}
    for problem in sorted(file.problems, key=_gravity):
        told.setdefault((problem.line, problem.code, problem.message), problem)
    return list(told.values())


def _gravity(problem: SkillProblem) -> int:
    return _LEVELS.index(problem.level)


def _place(problem: SkillProblem) -> tuple[str, int, int, str]:
    return problem.path, problem.line, _gravity(problem), problem.code
