"""Finds and removes what toolcrib has stored on disk for a person: a folder for each config, and the files in it.

A file is ours by its name alone, and no other is removed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from toolcrib.config.paths import (
    CONNECTIONS,
    MODELS,
    RUNNING,
    SECRETS,
    TOKENS,
    folder_of,
    user_cache_dir,
    user_cache_root,
    user_data_root,
)
from toolcrib.config.settings import SERVER_SKILLS, Settings
from toolcrib.events.server_logs import FOLDER as SERVER_LOGS
from toolcrib.gateway.instances import instance_folders
from toolcrib.server.early import FOLDER as GREETINGS
from toolcrib.storage.files import private_directory

IDLE_S = 30 * 24 * 3600.0
"""How long after its last write the cache of a config that is gone is removed, in seconds."""

NOTE = "config"
"""The file in a cache folder that says whose it is: the path of the config."""

_OWN = ("tool_cache*.db*", "skills*.db*", "state*.db*", "events.jsonl*", "program-worker*", ".gitignore", NOTE)
"""``program-worker`` is what earlier versions started workers with."""
_OWN_FOLDERS = (GREETINGS, SERVER_LOGS, TOKENS)
_SWEPT = ".swept"
_EVERY_S = 24 * 3600.0
_LOOKED_AT_MAX = 500
_PATH_MAX = 4096


def sweep_daily(settings: Settings, environ: Mapping[str, str], now: float) -> None:
    """Note whose the cache of a config is and, once a day, remove those of configs that are gone.

    Does nothing where the cache is not in the person's own cache directory. Never raises for what it meets there.
    """
    root = user_cache_root(environ)
    # A folder that the person named is the person's: nothing is noted or removed there.
    if settings.config_path is None or settings.cache_dir != user_cache_dir(environ, settings.config_path):
        return
    with suppress(OSError):
        _note(settings.cache_dir, settings.config_path)
        swept = root / _SWEPT
        if not swept.exists() or not 0 <= now - swept.stat().st_mtime < _EVERY_S:
            # Before the work, so that several starts at once do not all do it.
            swept.touch()
            os.utime(swept, (now, now))
            sweep(root, now)


def _note(folder: Path, config: Path) -> None:
    """Write down whose a cache is, unless that stands there."""
    private_directory(folder)
    # As bytes: paths need not be text.
    note, text = folder / NOTE, os.fsencode(os.path.realpath(config))
    if not note.exists() or note.read_bytes() != text:
        note.write_bytes(text)


def sweep(root: Path, now: float) -> list[Path]:
    """Remove the caches in ``root`` whose configs are gone and that were not written to lately; return them.

    A folder is taken for such a cache only where it has the name that the config noted in it gives it. Files in it that
    are not ours stay, and the folder with them.
    """
    gone: list[Path] = []
    with os.scandir(root) as entries:
        found = islice(entries, _LOOKED_AT_MAX)
        folders = [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        with suppress(OSError):
            own = list(own_files(folder))
            # A config on a disk that is not mounted seems gone, hence the wait.
            if _is_left(folder) and max(file.lstat().st_mtime for file in own) < now - IDLE_S:
                remove(own, folder)
                gone.append(folder)
    return gone


def own_files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder of a config that are ours, those in its own folders too; links are not followed.

    Raises:
        OSError: it cannot be read.

    """
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name == SERVER_SKILLS:
                yield from _files_below(Path(entry.path))
            elif entry.name in _OWN_FOLDERS:
                yield from (Path(each.path) for each in os.scandir(entry.path) if each.is_file(follow_symlinks=False))
        elif any(fnmatchcase(entry.name, pattern) for pattern in _OWN):
            yield Path(entry.path)


def remove(files: Iterable[Path], root: Path) -> None:
    """Remove files below ``root``, and the folders that are empty then, ``root`` too.

    Raises:
        OSError: one cannot be removed.

    """
    folders: set[Path] = set()
    for file in files:
        file.unlink(missing_ok=True)
        folders.update(each for each in file.parents if each.is_relative_to(root))
    # Deepest first.
    for folder in sorted(folders, reverse=True):
        with suppress(OSError):  # something that is not ours is in it
            folder.rmdir()


@dataclass(frozen=True, slots=True)
class FolderContents:
    """The files in a directory of toolcrib's: ``own`` are ours, ``others`` belong to the person."""

    root: Path
    own: tuple[Path, ...]
    others: tuple[Path, ...] = ()


def all_folders(settings: Settings | None, environ: Mapping[str, str]) -> list[FolderContents]:
    """Return the contents of each directory of a person's, those that one config names elsewhere included.

    Raises:
        OSError: a directory is there and cannot be read.

    """
    roots = [user_cache_root(environ), user_data_root(environ)]
    found = [_contents_below(root) for root in roots if root.is_dir()]
    # Where running processes tell of themselves is in the cache directory too, or not below any of them.
    found += [
        FolderContents(folder, tuple(_files_below(folder)))
        for folder in instance_folders(environ)
        if _is_apart(folder, roots)
    ]
    named = () if settings is None else (settings.cache_dir, settings.state_dir, settings.tool_cache_dir)
    # Folders below the roots were listed with them.
    elsewhere = (folder for folder in named if _is_apart(folder, roots))
    found += [FolderContents(folder, tuple(own_files(folder))) for folder in dict.fromkeys(elsewhere)]
    return [each for each in found if each.own or each.others]


def _is_apart(folder: Path, roots: Iterable[Path]) -> bool:
    """Return whether a folder is there, and below none of the others."""
    return folder.is_dir() and not any(folder.is_relative_to(root) for root in roots)


def _contents_below(root: Path) -> FolderContents:
    own: set[Path] = set()
    for entry in os.scandir(root):
        if entry.name in (MODELS, RUNNING, CONNECTIONS, SECRETS):
            own.update(_files_below(Path(entry.path)))
        elif entry.is_dir(follow_symlinks=False):
            own.update(own_files(Path(entry.path)))
        elif entry.name in (_SWEPT, ".gitignore"):
            own.add(Path(entry.path))
    return FolderContents(root, tuple(sorted(own)), tuple(sorted({*_files_below(root)} - own)))


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        # A link to a folder is not gone into, so it counts as a file.
        links = [name for name in folders if Path(parent, name).is_symlink()]
        yield from (Path(parent, name) for name in (*files, *links))


def _is_left(folder: Path) -> bool:
    """Return whether a folder is the cache of a config that is gone."""
    try:
        with (folder / NOTE).open("rb") as file:
            config = Path(os.fsdecode(file.read(_PATH_MAX)))
    except OSError:
        return False
    return config.is_absolute() and folder.name == folder_of(config) and not os.path.lexists(config)
