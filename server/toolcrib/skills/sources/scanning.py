"""Finds what has changed in a root since it was last read, and reads the changed files.

Knows files and their change marks; never knows a format, the index or who may see a skill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from toolcrib import __version__
from toolcrib.base.model import FileMark, SkillFile, SkillProblem
from toolcrib.config.schema import LimitsSection
from toolcrib.skills.sources.files import place_of
from toolcrib.skills.sources.roots import Root
from toolcrib.skills.sources.walking import FoundFile, find_files

ROOT_ITSELF = ""
"""The path under which the mark of the root itself is stored: its digest identifies how the root was read."""


@dataclass(frozen=True, slots=True)
class RootScan:
    """The changes in a root. ``problems`` are about the root; those of a file are in its :class:`SkillFile`.

    ``gone`` are known paths that no longer exist; ``unchanged`` counts files that were not read.
    """

    changed: tuple[SkillFile, ...]
    gone: tuple[str, ...]
    problems: tuple[SkillProblem, ...]
    unchanged: int


def scan(root: Root, known: Mapping[str, FileMark], limits: LimitsSection) -> RootScan:
    """Return the differences between ``root`` and the files ``known`` by path (R191).

    A file with the time and size of its mark is not opened. All are read again if the root is read differently than
    before (its label, its scope, what is pinned …), and all of a pack if one of its files has changed, since names are
    unique in a pack.
    """
    walk = find_files(root, limits)
    itself = _mark_of(root, limits)
    is_read_alike = known.get(ROOT_ITSELF) == itself
    fresh = [file for file in walk.files if not is_read_alike or _differs(file, known)]
    read = _read(root, fresh, limits)
    changed = [file for file in read if not is_read_alike or known.get(file.path) != file.mark]
    gone = sorted(known.keys() - {ROOT_ITSELF, *(file.path for file in walk.files)})
    if root.is_pack and len(read) < len(walk.files) and (changed or gone):
        changed = _read(root, walk.files, limits)
    unchanged = len(walk.files) - len(changed)
    if not is_read_alike:
        changed.append(SkillFile(ROOT_ITSELF, itself, (), ()))
    return RootScan(tuple(changed), tuple(gone), walk.problems, unchanged)


def read_again(root: Root, path: str, known: FileMark | None, limits: LimitsSection) -> RootScan | None:
    """Return the changes in one file of ``root`` and, in a pack, in the others; None: it is unchanged (R177)."""
    folder, name = place_of(root.folder, path)
    try:
        status = (folder / name).stat()
    except OSError:
        return RootScan((), (path,), (), 0)
    file = FoundFile(path, str(folder / name), status.st_mtime_ns, status.st_size)
    changed = _read(root, [file], limits)
    if [each.mark for each in changed] == [known]:
        return None
    return scan(root, {}, limits) if root.is_pack else RootScan(tuple(changed), (), (), 0)


def _read(root: Root, files: Sequence[FoundFile], limits: LimitsSection) -> list[SkillFile]:
    if not files:
        return []
    from toolcrib.skills.sources.reading import read_files  # noqa: PLC0415 - a start without changes needs no reader

    return read_files(root, files, limits)


def _differs(file: FoundFile, known: Mapping[str, FileMark]) -> bool:
    mark = known.get(file.path)
    return mark is None or mark.mtime_ns != file.mtime_ns or mark.size != file.size


def _mark_of(root: Root, limits: LimitsSection) -> FileMark:
    """Return a mark that changes whenever the same files would be read differently."""
    # The version counts, because another release may read the same file differently.
    reading = repr((__version__, root, limits.skill_text_max_bytes, limits.skills_per_root))
    return FileMark(0, 0, sha256(reading.encode()).hexdigest())
