"""The only module that opens skill files: it reads what is inside a skill's folder, and nothing else."""

import os
import re
import stat
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NoReturn

from toolcrib.base.cache import Recent
from toolcrib.base.errors import UnknownSkill
from toolcrib.base.text import one_line, unjoined
from toolcrib.config.schema import LimitsSection

SKILL_FILE = "SKILL.md"
"""The file that makes a folder a skill."""

UNSERVED = frozenset({"node_modules", "__pycache__"})
"""Folders besides hidden ones that are not part of a skill."""

_SEGMENT_MAX, _PATH_MAX = 255, 1024
_NOT_IN_SEGMENT = re.compile(r"[\x00-\x1f\x7f-\x9f/\\\ud800-\udfff]")
_SHOWN_MAX = 200
_DEPTH_MAX = 16
_ENTRIES_MAX = 20_000
"""Maximum number of examined entries of a skill's folder."""
_DIGESTS_MAX = 8192
_PIECE = 1 << 20

# Windows cannot open a file relative to an open folder.
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
# O_NONBLOCK: opening a FIFO would wait for a writer. O_NOCTTY: a terminal must not become our controlling terminal.
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0) | _NO_LINK


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a skill's folder, sorted, of ``total`` existing ones; ``truncated``: the list is incomplete."""

    files: tuple[str, ...]
    total: int
    truncated: bool


NO_FILES = Listing((), 0, truncated=False)
"""The listing of a skill without a folder."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """One file as read: its path in the skill, its size in bytes, its SHA-256 in hex."""

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a skill's folder, each with its digest. ``truncated``: limits omitted some (R184)."""

    files: tuple[FileDigest, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Mark:
    """Identifies unchanged contents of a file."""

    mtime_ns: int
    size: int
    # Detects a file that replaced another one with the same time and size.
    inode: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> "_Mark":
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """The folder of a skill with a SKILL.md, called ``file_name``. ``base``: the folder that links must not leave.

    ``apart`` are folders inside it that belong to skills which are hidden, or need a yes of their own: they are not
    part of this one (R181). ``is_copy``: the skill is a server's, so its files are no place to run anything from.
    """

    real: Path
    base: Path | None
    file_name: str
    apart: tuple[str, ...] = ()
    is_copy: bool = False

    def has(self, path: str) -> bool:
        """Return whether a file of the folder, given as a POSIX path, is part of the skill."""
        # As the file system may take it, which is how it is read.
        return not any(path.casefold().startswith(f"{folder.casefold()}/") for folder in self.apart)

    def list(self, limits: LimitsSection) -> Listing:
        """Return the files that are part of the skill, as :func:`list_inside` does."""
        listing = list_inside(self.real, limits, base=self.base)
        files = tuple(filter(self.has, listing.files))
        return Listing(files, listing.total - len(listing.files) + len(files), listing.truncated)

    def read(self, path: str, limit: int) -> bytes:
        """Return a file of the skill, as :func:`read_inside` does; its SKILL.md whatever its spelling on disk."""
        if not self.has(path):
            raise UnknownSkill(path)
        return read_inside(self.real, self.file_name if path == SKILL_FILE else path, limit, base=self.base)


def decoded(data: bytes) -> str | None:
    """Return the bytes of a file as text, None if they are not text."""
    # A NUL is valid UTF-8, but a file that contains one is binary.
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def is_plain(segment: str) -> bool:
    """Return whether a text can be one segment of a path, and of a URI, that leads nowhere else."""
    return 0 < len(segment) <= _SEGMENT_MAX and segment not in (".", "..") and not _NOT_IN_SEGMENT.search(segment)


def place_of(folder: Path, path: str) -> tuple[Path, str]:
    """Return the real folder of ``path``, relative to ``folder``, and the file's name in it."""
    real = Path(os.path.realpath(folder / path))
    return real.parent, real.name


def is_skill_file(path: str) -> bool:
    """Return whether a path in a skill may lead to its SKILL.md, whatever the file system makes of its spelling."""
    return unjoined(path).casefold() == SKILL_FILE.casefold()


def has_digest(folder: Path, path: str, digest: str, limit: int, *, base: Path | None = None) -> bool:
    """Return whether the file at ``path`` from ``folder`` can be read and has this SHA-256, in hex.

    ``limit`` and ``base`` are as in :func:`read_inside`.
    """
    try:
        return sha256(read_inside(*place_of(folder, path), limit, base=base)).hexdigest() == digest
    except UnknownSkill:
        return False


def read_inside(folder: Path, relative: str, limit: int, *, base: Path | None = None) -> bytes:
    """Return the bytes of the regular file ``relative``, a POSIX path, in a skill's folder (R183).

    No link below the folder is followed, nor, if ``base`` is given, one below that real folder that leads out of it,
    even if it was just created. Files omitted from listings cannot be read either.

    Raises:
        UnknownSkill: not a plain path, not inside, not a regular file, more than ``limit`` bytes, or nonexistent:
            these are indistinguishable.

    """
    return _read(folder, relative, limit, base)[0]


def list_inside(folder: Path, limits: LimitsSection, *, base: Path | None = None) -> Listing:
    """Return the regular files of a skill's folder, within the limits on their number and total size.

    Hidden files, links and leftovers of packagers are not part of a skill. SKILL.md is never omitted because of a
    limit.

    Raises:
        UnknownSkill: the folder does not exist, or not below ``base``.

    """
    found, total, truncated = _listed(folder, limits, base)
    return Listing(tuple(found), total, truncated)


class Manifests:
    """Creates manifests, and caches the digests of unchanged files. Safe to use from several threads."""

    def __init__(self) -> None:
        self._digests = Recent[tuple[Path, str], tuple[_Mark, FileDigest]](_DIGESTS_MAX)

    def read(self, folder: Path, limits: LimitsSection, *, base: Path | None = None) -> Manifest:
        """Return the manifest of a skill's folder. A file deleted meanwhile is not included.

        Raises:
            UnknownSkill: the folder does not exist, or not below ``base``.

        """
        listed, _, truncated = _listed(folder, limits, base)
        files: list[FileDigest] = []
        for path, mark in listed.items():
            with suppress(UnknownSkill):
                files.append(self._digest(folder, path, mark, base))
        return Manifest(tuple(files), truncated)

    def _digest(self, folder: Path, path: str, mark: _Mark, base: Path | None) -> FileDigest:
        key = (folder, path)
        with suppress(KeyError):
            known_mark, known = self._digests[key]
            if known_mark == mark:
                return known
        # A file that has grown since it was listed is refused like a deleted one. The stored mark is that of the bytes
        # read, which may be newer than the listing.
        data, read_mark = _read(folder, path, mark.size, base)
        made = FileDigest(path, len(data), sha256(data).hexdigest())
        self._digests[key] = (read_mark, made)
        return made


def _refuse(relative: str) -> NoReturn:
    raise UnknownSkill(one_line(relative[:_SHOWN_MAX])) from None


def _read(folder: Path, relative: str, limit: int, base: Path | None) -> tuple[bytes, _Mark]:
    segments = relative[: _PATH_MAX + 1].split("/")
    if len(relative) > _PATH_MAX or len(segments) > _DEPTH_MAX or not all(map(is_served, segments)):
        _refuse(relative)
    try:
        with _opened(folder, base) as place, ExitStack() as inner:
            for segment in segments[:-1]:
                place = inner.enter_context(place.folder(segment))  # noqa: PLW2901 - one step down
            with place.file(segments[-1]) as descriptor:
                return _bytes(descriptor, limit)
    except (OSError, ValueError):
        _refuse(relative)


def is_served(name: str) -> bool:
    """Return whether a file or folder of this name can be part of a skill."""
    return is_plain(name) and not name.startswith(".") and name not in UNSERVED


def _bytes(descriptor: int, limit: int) -> tuple[bytes, _Mark]:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        raise ValueError("not a regular file of this size")
    data = bytearray()
    # The file may grow while it is read: one byte more than allowed is requested to detect that.
    while piece := os.read(descriptor, min(_PIECE, limit + 1 - len(data))):
        data += piece
        if len(data) > limit:
            raise ValueError("it has grown")
    return bytes(data), _Mark.from_status(status)


# -- open folders ---------------------------------------------------------------------------------


class _Held:
    """An open folder. Whatever happens to its path, files opened through it are inside it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @contextmanager
    def folder(self, name: str) -> Generator["_Held"]:
        with _closing(os.open(name, _DIRECTORY, dir_fd=self._descriptor)) as descriptor:
            yield _Held(descriptor)

    @contextmanager
    def file(self, name: str) -> Generator[int]:
        with _closing(os.open(name, _FILE, dir_fd=self._descriptor)) as descriptor:
            yield descriptor

    @contextmanager
    def entries(self) -> Generator[Iterator[os.DirEntry[str]]]:
        with os.scandir(self._descriptor) as found:
            yield found


class _Named:
    """A folder on a system that opens files only by path: every path is resolved and compared."""

    def __init__(self, real: Path) -> None:
        self._real = real

    @contextmanager
    def folder(self, name: str) -> Generator["_Named"]:
        yield _Named(self._below(name))

    @contextmanager
    def file(self, name: str) -> Generator[int]:
        with _closing(os.open(self._below(name), _FILE)) as descriptor:
            yield descriptor

    @contextmanager
    def entries(self) -> Generator[Iterator[os.DirEntry[str]]]:
        with os.scandir(self._real) as found:
            yield found

    def _below(self, name: str) -> Path:
        """Return the real path of ``name``: no link, no alternate stream of a file, no device name."""
        # On Windows a colon opens an alternate stream, a trailing dot or space is dropped, and device names lead
        # elsewhere.
        real = Path(os.path.realpath(self._real / name))
        if ":" in name or name.endswith((".", " ")) or os.path.normcase(real) != os.path.normcase(self._real / name):
            raise ValueError("not a plain file or folder here")
        return real


_Place = _Held | _Named


@contextmanager
def _closing(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(folder: Path, base: Path | None) -> Generator[_Place]:
    """Open the skill's folder: directly or, if a base is given, step by step from there to its real path."""
    real = Path(os.path.realpath(folder))
    start = real if base is None else base
    steps = real.relative_to(start).parts
    with ExitStack() as stack:
        if _HAS_DESCRIPTORS:
            place: _Place = _Held(stack.enter_context(_closing(os.open(start, _DIRECTORY))))
        else:
            place = _Named(start)
        for step in steps:
            place = stack.enter_context(place.folder(step))
        yield place


# -- listings -------------------------------------------------------------------------------------


def _listed(folder: Path, limits: LimitsSection, base: Path | None) -> tuple[dict[str, _Mark], int, bool]:
    """Return the files within the limits by path, how many there are, and whether any were omitted."""
    try:
        with _opened(folder, base) as place:
            walk = _ListingWalk()
            walk.look_into(place, "", 1)
    except (OSError, ValueError):
        _refuse(SKILL_FILE)
    kept: dict[str, _Mark] = {}
    size = 0
    # SKILL.md comes first, so that no limit omits it.
    for path in sorted(walk.files, key=lambda path: (path.upper() != SKILL_FILE.upper(), path)):
        mark = walk.files[path]
        if len(kept) < limits.skill_files and size + mark.size <= limits.skill_files_max_bytes:
            kept[path] = mark
            size += mark.size
    total = len(walk.files)
    return dict(sorted(kept.items())), total, walk.is_cut or len(kept) < total


class _ListingWalk:
    """Walks a skill's folder, depth first, and collects its files."""

    def __init__(self) -> None:
        self.files: dict[str, _Mark] = {}
        self.is_cut = False
        self._entries = 0

    def look_into(self, place: _Place, prefix: str, depth: int) -> None:
        with place.entries() as found:
            # One entry more than allowed, to detect that there are more.
            entries = list(islice(found, _ENTRIES_MAX - self._entries + 1))
            self._entries += len(entries)
            self.is_cut |= self._entries > _ENTRIES_MAX
            folders = [entry.name for entry in entries if self._take(entry, prefix)]
        for name in sorted(folders):
            if depth >= _DEPTH_MAX or self._entries > _ENTRIES_MAX:
                self.is_cut = True
                break
            with suppress(OSError, ValueError), place.folder(name) as inner:
                self.look_into(inner, f"{prefix}{name}/", depth + 1)

    def _take(self, entry: os.DirEntry[str], prefix: str) -> bool:
        """Record ``entry`` if it is a file; return whether it is a folder to descend into."""
        path = prefix + entry.name
        if not is_served(entry.name) or len(path) > _PATH_MAX:
            return False
        with suppress(OSError):
            if entry.is_file(follow_symlinks=False):
                self.files[path] = _Mark.from_status(entry.stat(follow_symlinks=False))
                return False
            return entry.is_dir(follow_symlinks=False)
        return False
