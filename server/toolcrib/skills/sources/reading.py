"""Parses the files of a root by their formats into records of skills."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count

from toolcrib.base.errors import UnknownSkill
from toolcrib.base.model import FileMark, SkillFile, SkillOrigin, SkillProblem, SkillRecord, SkillText
from toolcrib.config.schema import LimitsSection
from toolcrib.skills.formats.agent_skill import conformance, read_agent_skill
from toolcrib.skills.formats.pack import read_pack_file
from toolcrib.skills.identity import SLUG_MAX, skill_id, slug
from toolcrib.skills.sources.files import read_inside
from toolcrib.skills.sources.roots import Root
from toolcrib.skills.sources.scanning import FoundFile, is_skill_file

_Parsed = tuple[SkillText | None, Sequence[SkillProblem], Sequence[SkillProblem]]
"""The text of a SKILL.md, the problems of it, and the rules of the format that it breaks."""


def read_files(root: Root, files: Sequence[FoundFile], limits: LimitsSection) -> list[SkillFile]:
    """Return the content of each of the files, in order; within a pack names are unique."""
    return _Reader(root, limits).read(files)


class _Reader:
    """Creates records of files of one root; within a pack, names and folders are unique."""

    def __init__(self, root: Root, limits: LimitsSection) -> None:
        self._root, self._limits = root, limits
        self._names: set[str] = set()
        self._folders: set[str] = set()
        self._parsed: dict[tuple[str, str, str], _Parsed] = {}

    def read(self, files: Sequence[FoundFile]) -> list[SkillFile]:
        # The folders of SKILL.md files are fixed; those of a pack's other skills are generated and avoid them.
        self._folders.update(_folder(self._root, file.path) for file in files if is_skill_file(file.path))
        return [self._read(file) for file in files]

    def _read(self, file: FoundFile) -> SkillFile:
        limit = self._limits.skill_text_max_bytes
        if file.size > limit:
            message = f"is left out: it has {file.size} bytes, and limits.skill_text_max_bytes is {limit}"
            mark = FileMark(file.mtime_ns, file.size, "")
            return SkillFile(file.path, mark, (), (SkillProblem(file.path, 0, "error", "too-large", message),))
        try:
            raw = read_inside(file.real.parent, file.real.name, limit, base=self._root.base)
        except UnknownSkill:
            message = "cannot be read: look at its permissions, and at those of its folder"
            mark = FileMark(0, 0, "")  # permissions change without changing the file's time
            return SkillFile(file.path, mark, (), (SkillProblem(file.path, 0, "error", "unreadable", message),))
        mark = FileMark(file.mtime_ns, file.size, sha256(raw).hexdigest())
        if is_skill_file(file.path):
            records, problems = self._agent_skill(raw, mark.digest, file.path)
        else:
            records, problems = self._pack_file(raw, file.path)
        return SkillFile(file.path, mark, tuple(records), tuple(problems))

    def _agent_skill(self, raw: bytes, digest: str, path: str) -> tuple[list[SkillRecord], list[SkillProblem]]:
        folder = _folder(self._root, path)
        names = folder.rpartition("/")[2], path.rpartition("/")[2]
        # The same skills are often there for several hosts; a copy is parsed once, and shares its text.
        text, problems, broken = self._parsed.get((digest, *names)) or self._parse(raw, *names)
        self._parsed[digest, *names] = text, problems, broken
        problems = [replace(problem, path=path) for problem in problems]
        if text is None:
            return [], problems
        if broken and self._root.is_strict:
            return [], [*problems, *(replace(problem, path=path) for problem in broken)]
        record = self._record(text, path, folder)
        return [replace(record, is_conforming=not broken)], problems

    def _parse(self, raw: bytes, folder_name: str, file_name: str) -> _Parsed:
        limit = self._limits.skill_text_max_bytes
        text, problems = read_agent_skill(raw, folder_name=folder_name, path=file_name, max_bytes=limit)
        broken = conformance(text, folder_name, file_name) if text else []
        return text, problems, [problem for problem in broken if problem.level == "error"]

    def _pack_file(self, raw: bytes, path: str) -> tuple[list[SkillRecord], list[SkillProblem]]:
        pack = self._root.pack
        assert pack is not None
        limit = self._limits.skill_text_max_bytes
        texts, problems, lines = read_pack_file(raw, path=path, pack=pack.name, format=pack.format, max_bytes=limit)
        records: list[SkillRecord] = []
        for text in texts:
            if text.name in self._names:
                message = f"{text.name} is left out: the pack has another skill of this name"
                problems.append(SkillProblem(path, lines[text.name], "error", "name-twice", message))
            elif len(self._names) == self._limits.skills_per_root:
                message = f"{text.name} is left out: the pack has more skills than limits.skills_per_root"
                problems.append(SkillProblem(path, lines[text.name], "error", "too-many-skills", message))
                break
            else:
                self._names.add(text.name)
                records.append(self._record(text, path, self._new_folder(text.name)))
        return records, problems

    def _new_folder(self, name: str) -> str:
        """Return an unused folder for a pack's skill; two names may have the same slug."""
        plain = slug(name.removeprefix(f"pack.{self._root.origin_ref}."))
        # The number must fit into the maximum length of a slug.
        numbered = (plain if number == 1 else f"{plain[: SLUG_MAX - 8]}-{number}" for number in count(1))
        folder = next(folder for folder in numbered if folder not in self._folders)
        self._folders.add(folder)
        return folder

    def _record(self, text: SkillText, path: str, folder: str) -> SkillRecord:
        root = self._root
        is_agent_skill = is_skill_file(path)
        return SkillRecord(
            # A path never begins with a slash, so the name of a pack's skill cannot be taken for one. Identified by
            # name, the skill keeps its id when it moves to another file of the pack.
            id=skill_id(root.scope, root.key, path if is_agent_skill else f"/{text.name}"),
            text=text,
            source=root.source,
            folder=folder,
            path=path,
            origin=SkillOrigin.DIR if is_agent_skill else SkillOrigin.PACK,
            origin_ref=root.origin_ref,
            scope=root.scope,
            is_pinned=_is_pinned(root, text),
            is_conforming=True,
        )


def _folder(root: Root, path: str) -> str:
    """Return the place of a SKILL.md's skill in its root: its file's folder, or the root's own name.

    Folders with the name of the root are moved down by one level, so that places are unique.
    """
    name = root.folder.name or "root"
    segments = path.split("/")[:-1]
    return "/".join([name, *segments] if all(segment == name for segment in segments) else segments)


def _is_pinned(root: Root, text: SkillText) -> bool:
    named = root.pack is not None and text.name in root.pack.pinned_skill_names
    return named or (root.is_core and text.extra.get("pinned") is True)
