"""Finds what has changed in a root since it was last read, and reads the changed files."""

import os
import stat
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Literal

from toolcrib import __version__
from toolcrib.base.model import FileMark, SkillFile, SkillProblem
from toolcrib.base.text import one_line
from toolcrib.config.schema import LimitsSection
from toolcrib.skills.identity import PACK_FILES
from toolcrib.skills.sources.files import SKILL_FILE, UNSERVED, is_plain, place_of
from toolcrib.skills.sources.roots import Root

_SKILL_FILE = SKILL_FILE.lower()
_ENTRIES_MAX = 100_000
"""Maximum number of examined folder entries below one root."""
_TEXT_MAX = 128 * 1024 * 1024
"""Maximum total size of one root's files in bytes: on the first scan they are all in memory."""
_PROBLEMS_MAX = 100


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file with skills: its path from the root, its real path, and its mark."""

    path: str
    location: str
    mtime_ns: int
    size: int

    @property
    def real(self) -> Path:
        """Return its real path; computed on demand, because creating a path is slow and few are needed."""
        return Path(self.location)


@dataclass(frozen=True, slots=True)
class Walk:
    """The files of a root by path, in order, and what was omitted.

    ``passed`` are the folders visited and the links followed, by paths from the root: adding, removing or moving a file
    changes one of them.
    """

    files: tuple[FoundFile, ...]
    problems: tuple[SkillProblem, ...]
    passed: tuple[str, ...]


def find_files(root: Root, limits: LimitsSection) -> Walk:
    """Return the files below ``root`` that may contain skills (R161, R192).

    Shallow ones come before deep ones and real ones before those behind links, so that a limit omits the least
    important. Hidden folders and ``node_modules`` are skipped; a link counts once, at its real path.
    """
    walker = _Walker(root, limits)
    walker.run()
    files = sorted(walker.files.values(), key=lambda file: file.path)
    return Walk(tuple(files), tuple(walker.problems), tuple(walker.passed))


def is_skill_file(path: str) -> bool:
    """Return whether ``path`` is a SKILL.md, ignoring case."""
    return path.rpartition("/")[2].lower() == _SKILL_FILE


def shown_path(path: str) -> str:
    """Return a path of the root as shown in problems; the root itself is a dot."""
    return one_line(path.strip("/")) or "."


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to visit: its path from the root with a trailing slash, its real path, and its depth.

    ``parent``: the folder whose files include this folder's; None for the root or behind a link.
    """

    prefix: str
    real: str
    depth: int
    parent: "_Folder | None" = None


@dataclass(frozen=True, slots=True)
class _Link:
    """A link that may lead to a folder, or to a file with skills."""

    folder: _Folder
    name: str


OWN_FILES_CUT = "too-many-own-files"
"""The code of the problem that a skill has more files besides its SKILL.md than are listed."""

LIMITS_MET = frozenset(("too-many-files", "too-many-folders", "too-many-skills", "too-deep", OWN_FILES_CUT))
"""Codes of problems caused by limits."""


class _LimitReachedError(Exception):
    """The walk ends. The arguments are the code and the message of a problem."""


class _Walker:
    """Walks a root, level by level; links are followed after all real folders.

    A large tree may have more folders without a skill on one level than the limit allows, and skills below them: from
    there on the walk is depth first, and ends only after a row of folders without any skill.
    """

    def __init__(self, root: Root, limits: LimitsSection) -> None:
        self.files: dict[str, FoundFile] = {}
        self.problems: list[SkillProblem] = []
        self.passed: list[str] = []
        self._limits = limits
        self._base = root.base
        self._endings = _endings(root)
        self._folders = deque([_Folder("", str(root.folder), 0)])
        self._links: deque[_Link] = deque()
        self._visited: set[str] = set()
        self._with_skill: set[str] = set()
        self._own_files = Counter[str]()
        self._too_deep: list[str] = []
        self._entries = self._empty = self._text = 0
        self._goes_down = False

    def run(self) -> None:
        try:
            while self._folders or self._links:
                if self._folders:
                    self._look_into(self._folders.pop() if self._goes_down else self._folders.popleft())
                else:
                    self._follow(self._links.popleft())
        except _LimitReachedError as limit:
            self._report("", "warning", *limit.args)
        for prefix, count in self._own_files.items():
            if count > self._limits.skill_files:
                message = f"has {count:,} files; limits.skill_files leaves {count - self._limits.skill_files:,} out"
                self._report(prefix, "warning", OWN_FILES_CUT, message)
        if self._too_deep:
            depth, count = self._limits.skill_depth, len(self._too_deep)
            message = f"{count} folders deeper than {depth} were not looked into; limits.skill_depth says how deep"
            self._report(self._too_deep[0], "info", "too-deep", message)

    def _look_into(self, folder: _Folder) -> None:
        # Several links may lead to one folder, or back up to a parent: each real folder is visited once.
        if folder.real in self._visited:
            return
        self._visited.add(folder.real)
        self.passed.append(folder.prefix)
        try:
            with os.scandir(folder.real) as found:
                entries = list(islice(found, _ENTRIES_MAX - self._entries + 1))
        except OSError as error:
            self._report(folder.prefix, "warning", "folder-unreadable", f"cannot be looked into: {error.strerror}")
            return
        self._entries += len(entries)
        if self._entries > _ENTRIES_MAX:
            message = f"there are more than {_ENTRIES_MAX} files and folders; the rest was not looked at"
            raise _LimitReachedError("too-many-files", message)
        before, files = len(self.files), 0
        # The usual spelling first: of several SKILL.md in one folder only the first counts.
        for entry in sorted(entries, key=lambda entry: (entry.name != SKILL_FILE, entry.name)):
            try:
                files += self._take(folder, entry)
            except OSError:  # deleted meanwhile
                continue
        self._count(folder, files)
        # Folders with a skill do not count here; limits.skills_per_root bounds those.
        self._empty = self._empty + 1 if len(self.files) == before else 0 if self._goes_down else self._empty
        if self._empty > self._limits.skill_folders:
            if self._goes_down:
                message = (
                    "there are more folders without a skill than limits.skill_folders; the rest was not looked into"
                )
                raise _LimitReachedError("too-many-folders", message)
            # The last folder of the queue is visited first now: the shallow ones stay ahead of the deep ones.
            self._folders.reverse()
            self._goes_down, self._empty = True, 0

    def _take(self, folder: _Folder, entry: os.DirEntry[str]) -> bool:
        """Process an entry of a folder; return whether it is a file that counts as one of an enclosing skill."""
        if entry.name.startswith(".") or entry.name in UNSERVED:
            return False
        if entry.is_symlink():
            self._links.append(_Link(folder, entry.name))
        elif entry.is_dir(follow_symlinks=False):
            self._enter(folder, entry.name, entry.path, parent=folder)
        elif entry.is_file(follow_symlinks=False):
            if self._is_wanted(entry.name):
                self._add(folder, entry.name, entry.path, entry.stat(follow_symlinks=False))
            return True
        return False

    def _count(self, folder: _Folder, files: int) -> None:
        """Count a folder's files for each skill that it belongs to."""
        holder: _Folder | None = folder
        while holder and files:
            if holder.prefix in self._with_skill:
                self._own_files[holder.prefix] += files
            holder = holder.parent

    def _follow(self, link: _Link) -> None:
        folder, name = link.folder, link.name
        self.passed.append(folder.prefix + name)
        real = Path(os.path.realpath(Path(folder.real, name)))
        try:
            status = real.stat()
        except OSError:
            self._report(folder.prefix + name, "info", "link-broken", "is a link that leads nowhere")
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        # Both names must be those of a skill file, or a link called SKILL.md could expose any other file.
        if not is_folder and not (
            stat.S_ISREG(status.st_mode) and self._is_wanted(name) and self._is_wanted(real.name)
        ):
            return
        if self._base is not None and not real.is_relative_to(self._base):
            message = "is a link that leads out of the repository, so it is not followed"
            self._report(folder.prefix + name, "warning", "link-outside", message)
        elif is_folder:
            self._enter(folder, name, str(real))
        else:
            self._add(folder, name, str(real), status)

    def _is_wanted(self, name: str) -> bool:
        # With the slash SKILL.md must be the whole name, not the end of one.
        return f"/{name}".lower().endswith(self._endings)

    def _enter(self, folder: _Folder, name: str, real: str, parent: _Folder | None = None) -> None:
        if not self._is_usable(folder, name):
            return
        if folder.depth < self._limits.skill_depth:
            self._folders.append(_Folder(f"{folder.prefix}{name}/", real, folder.depth + 1, parent))
        elif real not in self._visited:
            self._too_deep.append(folder.prefix + name)

    def _add(self, folder: _Folder, name: str, real: str, status: os.stat_result) -> None:
        path = folder.prefix + name
        if real in self.files or not self._is_usable(folder, name):
            return
        if is_skill_file(name):
            if folder.prefix in self._with_skill:
                self._report(path, "warning", "skill-file-twice", "is left out: the folder has another SKILL.md")
                return
            self._with_skill.add(folder.prefix)
        # A file over the limit is not read, so it takes no memory.
        self._text += status.st_size if status.st_size <= self._limits.skill_text_max_bytes else 0
        if len(self.files) == self._limits.skills_per_root or self._text > _TEXT_MAX:
            message = "there are more skills than limits.skills_per_root, or too large ones; the rest is left out"
            raise _LimitReachedError("too-many-skills", message)
        self.files[real] = FoundFile(path, real, status.st_mtime_ns, status.st_size)

    def _is_usable(self, folder: _Folder, name: str) -> bool:
        """Return whether ``name`` can be used in a URI and in the index; report it if not."""
        if is_plain(name):
            return True
        message = "has a name that is not plain text, so it is left out: rename it"
        self._report(folder.prefix + name, "warning", "name-unusable", message)
        return False

    def _report(self, path: str, level: Literal["warning", "info"], code: str, message: str) -> None:
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(SkillProblem(shown_path(path), 0, level, code, message))


def _endings(root: Root) -> tuple[str, ...]:
    """Return the suffixes of wanted files, in lower case: a pack may contain Agent Skills too (R109)."""
    agent_skills = (f"/{_SKILL_FILE}",)
    if root.pack is None:
        return agent_skills
    if root.pack.format is not None:
        return PACK_FILES[root.pack.format]
    return sum(PACK_FILES.values(), agent_skills)


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
