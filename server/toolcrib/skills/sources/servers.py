"""Copies of the skills of servers: a folder for each server in the cache, read like any other root (ADR 69).

What a server names is a URI, never a path: a file is written below the folder of its own server, or not at all.
See R291 to R294.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.states import OfferedSkills
from toolcrib.skills.identity import parse_uri
from toolcrib.skills.sources.files import SKILL_FILE, is_served
from toolcrib.storage.files import private_directory

_NAME_LENGTH = 24
_TEMPORARY = ".new-"
_PATH_MAX = 512
"""Maximum length of the path of a file below the folder of its server."""


def copies_of(settings: Settings, server: ServerSettings) -> Path:
    """Return the folder of a server's skills; it depends on its entry, since another program has other skills."""
    name = sha256(f"{server.key}\0{server.fingerprint}".encode()).hexdigest()[:_NAME_LENGTH]
    return settings.server_skills_dir / name


def remove_others(parent: Path, folders: Iterable[Path]) -> None:
    """Remove the copies in ``parent`` other than these ``folders``. Blocks; what cannot be removed stays."""
    used = {folder.name for folder in folders}
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name not in used and len(entry.name) == _NAME_LENGTH and entry.is_dir(follow_symlinks=False):
                _remove(Path(entry.path), list(_files_in(Path(entry.path))))
                Path(entry.path).rmdir()


def copy(folder: Path, offered: OfferedSkills, depth: int) -> bool:
    """Make the folder have these skills, at most ``depth`` folders deep, and no others if they are all. Blocks.

    Return whether anything differs. Unchanged files stay untouched.

    Raises:
        OSError: the folder cannot be written.

    """
    wanted = _by_path(offered, depth)
    if not wanted and not folder.exists():
        return False
    private_directory(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    known = set(_files_in(folder))
    # Before anything is written: a file may take the place of a folder.
    is_changed = offered.is_complete and _remove(folder, known - wanted.keys())
    for path, data in wanted.items():
        # Of two names that this file system does not tell apart, or a file and a folder of one name, one stays.
        with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            is_changed |= _write(folder / path, data)
    return is_changed


def _by_path(offered: OfferedSkills, depth: int) -> Mapping[str, bytes]:
    """Return the files to write by their paths; what leads anywhere else has none."""
    found: dict[str, bytes] = {}
    for skill in offered.skills:
        own = parse_uri(skill.uri)
        if own is None or own[-1] != SKILL_FILE or not 1 < len(own) <= depth + 1:
            continue
        base = own[:-1]
        for uri, data in skill.files.items():
            path = parse_uri(uri)
            if path is None or path[: len(base)] != base or len(path) == len(base):
                continue
            joined = "/".join(path)
            if all(map(is_served, path)) and len(joined) <= _PATH_MAX:
                found[joined] = data
    return found


def _files_in(folder: Path) -> Iterator[str]:
    for place, _folders, names in os.walk(folder):
        for name in names:
            yield Path(place, name).relative_to(folder).as_posix()


def _remove(folder: Path, paths: Collection[str]) -> bool:
    for path in paths:
        with suppress(FileNotFoundError):
            (folder / path).unlink()
    for place, _folders, _names in os.walk(folder, topdown=False):
        with suppress(OSError):  # it is not empty
            if Path(place) != folder:
                Path(place).rmdir()
    return bool(paths)


def _write(path: Path, data: bytes) -> bool:
    with suppress(OSError):
        if path.stat().st_size == len(data) and path.read_bytes() == data:
            return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Renamed into its place: whoever reads meanwhile gets the whole file, of either version.
    new = path.with_name(f"{_TEMPORARY}{os.getpid()}")
    try:
        new.write_bytes(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return True
