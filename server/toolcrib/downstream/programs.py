"""Which files a local server's program is made of, so that an upgrade is noticed without starting it (ADR 64).

Nothing is imported or run to find out, and what is found is only compared: too many files cost a needless listing, too
few are made up for by the age of the list.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Self

from toolcrib.config.launching import module_of, path_of_program
from toolcrib.config.settings import HttpTarget, MemoryTarget, StdioTarget, Target


class Freshness(StrEnum):
    """What tells that a server's list may not be its own any more, besides ``limits.catalog_max_age_s``.

    ``FILES``: its program's files, compared at each start. ``VERSION``: nothing, because the entry names one version,
    which does not change. ``HOUR``: an hour has passed. ``AGE``: nothing.
    """

    FILES = "files"
    VERSION = "version"
    HOUR = "hour"
    AGE = "age"


_LAUNCHERS = frozenset({"bunx", "deno", "docker", "go", "npm", "npx", "pipx", "pnpm", "podman", "uv", "uvx", "yarn"})
"""Programs that run another one, which they may have to download. Their own file says nothing of that one."""

_NODE_LAUNCHERS = frozenset({"bunx", "npm", "npx", "pnpm", "yarn"})
_SUBCOMMANDS = frozenset({"dlx", "exec", "run", "tool", "x"})
_PACKAGE_OPTIONS = frozenset({"--from", "--package", "--spec"})
_OPTIONS_WITH_VALUE = frozenset({"--python", "-p", "--with", "--directory", "--project", "--index-url", "--call", "-c"})

_PINNED = re.compile(r"(?:@[\w.~-]+/)?[\w.~-]+(?:\[[\w,.-]*\])?(?:@|==)v?\d+(?:\.\d+)+[\w.+-]*|\S+@[0-9a-f]{40}")
"""A package of one version, or of one commit: ``@scope/name@1.2.3``, ``name==1.2.3``, ``git+https://host/repo@COMMIT``."""

_PINNED_IMAGE = re.compile(r"\S+@sha256:[0-9a-f]{64}")

_SCRIPTS = frozenset(".cjs .go .jar .js .jsx .mjs .mts .php .pl .py .pyz .rb .sh .ts .tsx".split())

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*w?|py", re.IGNORECASE)
_MODULE = re.compile(r"\w+(?:\.\w+)*")

_ARGUMENTS_MAX = 100
_FOLDERS_MAX = 8
_SOURCES_MAX = 500
"""Files of one package that is run from where it is developed."""
_PTH_MAX_BYTES = 64 * 1024


def may_download(target: Target) -> bool:
    """Return whether the start of a server may have to download it first."""
    return isinstance(target, StdioTarget) and _name(target) in _LAUNCHERS


@dataclass(frozen=True, slots=True)
class Program:
    """What is known of a server's program without starting it. ``files`` are those that it is made of.

    ``freshness`` is how far that goes.
    """

    freshness: Freshness
    files: tuple[Path, ...] = ()

    @classmethod
    def find(cls, target: Target) -> Self:
        """Find a server's program. Blocks."""
        if isinstance(target, HttpTarget):
            return cls(Freshness.HOUR)
        if isinstance(target, MemoryTarget):
            return cls(Freshness.VERSION)
        named = tuple(_files_in_arguments(target))
        if _name(target) in _LAUNCHERS:
            return cls(_freshness_of_launched(target, named), named)
        program = path_of_program(target) or Path(target.command)
        module = module_of(target.args) if _PYTHON.fullmatch(_name(target)) else None
        if module is None:
            return cls(Freshness.FILES, (program, *named))
        sources = tuple(_files_of_module(module, program, target)) if _MODULE.fullmatch(module) else ()
        return cls(Freshness.FILES if sources else Freshness.AGE, tuple(dict.fromkeys((program, *named, *sources))))

    def mark(self) -> str | None:
        """Return what differs once one of the files was replaced, moved or removed; None without files. Blocks."""
        if not self.files:
            return None
        return sha256(json.dumps([_state_of(file) for file in self.files]).encode()).hexdigest()


def _name(target: StdioTarget) -> str:
    name = PurePath(target.command).name.lower()
    return name.removesuffix(".exe").removesuffix(".cmd").removesuffix(".bat")


def _state_of(file: Path) -> tuple[str, str, int, int]:
    """Return the path of a file, where that leads, its size and the time of its last change; -1 if there is none."""
    with suppress(OSError, ValueError):
        state = file.stat()
        return os.fsdecode(file), os.path.realpath(file), state.st_size, state.st_mtime_ns
    return os.fsdecode(file), "", -1, -1


def _is_file(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return S_ISREG(path.stat().st_mode)
    return False


def _files_in_arguments(target: StdioTarget) -> Iterator[Path]:
    """Yield the files that arguments name, from the server's folder or one that another argument names.

    ``uv --directory FOLDER run server.py`` runs FOLDER/server.py.
    """
    place = target.cwd or Path.cwd()
    values = [value for arg in target.args[:_ARGUMENTS_MAX] for value in (arg, arg.partition("=")[2]) if value]
    folders = [place, *islice((place / value for value in values if _is_folder(place / value)), _FOLDERS_MAX)]
    yield from dict.fromkeys(
        path for value in values if value != "." for folder in folders if _is_file(path := folder / value)
    )


def _is_folder(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_dir()
    return False


def _freshness_of_launched(target: StdioTarget, named: Iterable[Path]) -> Freshness:
    if any(file.suffix in _SCRIPTS for file in named):
        return Freshness.FILES
    is_pinned = _PINNED.fullmatch(_package(target)) or any(map(_PINNED_IMAGE.fullmatch, target.args))
    return Freshness.VERSION if is_pinned else Freshness.AGE


def _package(target: StdioTarget) -> str:
    """Return the package that a launcher runs, with its version if one is named; empty if that is not plain."""
    named = _PACKAGE_OPTIONS | ({"-p"} if _name(target) in _NODE_LAUNCHERS else set[str]())
    rest = iter(target.args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if name in named:
            return value if equals else next(rest, "")
        if not arg.startswith("-") and arg not in _SUBCOMMANDS:
            return arg
        if not equals and arg in _OPTIONS_WITH_VALUE:
            next(rest, None)
    return ""


def _files_of_module(module: str, program: Path, target: StdioTarget) -> Iterator[Path]:
    """Yield the files by which a Python module is known, wherever its Python may find it.

    Of an installed one: how it begins, and the record of its distribution; of one under development, its sources.
    """
    place = target.cwd or Path.cwd()
    named = (place / entry for entry in target.env.get("PYTHONPATH", "").split(os.pathsep) if entry)
    installed = {site: _names_in(site) for site in _site_packages(program, target.env)}
    linked = (folder for site, names in installed.items() for folder in _linked_folders(site, names))
    top, *_ = module.split(".")
    for folder in dict.fromkeys((place, *named, *linked, *installed)):
        path = folder / module.replace(".", "/")
        candidates = (path.with_name(f"{path.name}.py"), path / "__init__.py", path / "__main__.py")
        beginnings = [file for file in candidates if _is_file(file)]
        yield from beginnings
        if beginnings and folder not in installed:
            yield from sorted(islice((folder / top).rglob("*.py"), _SOURCES_MAX))
    for site, names in installed.items():
        yield from (site / name / "RECORD" for name in names if _is_record_of(name, top))


def _site_packages(program: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders in which a Python looks for what is installed."""
    own, shared = program.parent.parent, Path(os.path.realpath(program)).parent.parent
    prefixes = [own, shared] if (own / "pyvenv.cfg").exists() else [shared]
    if home := env.get("HOME"):
        prefixes.append(Path(home, ".local"))
    for prefix in prefixes:
        for pattern in ("lib/python3*/*-packages", "local/lib/python3*/*-packages", "Lib/site-packages"):
            yield from sorted(prefix.glob(pattern))


def _names_in(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(path.name for path in folder.iterdir())
    return []


def _linked_folders(site: Path, names: Iterable[str]) -> Iterator[Path]:
    """Yield the folders that installed files link to: distributions that are run from where they are developed."""
    for name in names:
        if name.endswith(".pth"):
            with suppress(OSError, ValueError), (site / name).open(encoding="utf-8") as file:
                # Lines that begin otherwise are code, which nobody runs here.
                lines = file.read(_PTH_MAX_BYTES).splitlines()
                yield from (site / line for line in lines if line and not line.startswith(("#", "import ")))


def _is_record_of(name: str, module: str) -> bool:
    """Return whether a folder is that of the distribution that is named like a module."""
    distribution, is_record, _ = name.removesuffix(".dist-info").partition("-")
    return bool(is_record) and name.endswith(".dist-info") and _normalized(distribution) == _normalized(module)


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
