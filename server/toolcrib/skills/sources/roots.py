"""Where skills come from on this machine: packs, the repository, the person's own folders, and those in the config."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import MappingProxyType

from toolcrib.base.errors import Problem
from toolcrib.base.model import OF_SERVERS, ScopeMode, SkillOrigin, SkillScope
from toolcrib.config.findings import did_you_mean, join
from toolcrib.config.loading import PRESET
from toolcrib.config.schema import SkillPackConfig
from toolcrib.config.settings import Place, Settings
from toolcrib.policy.rules import policy_of
from toolcrib.skills.identity import slug

AGENT_SKILLS = ".agents/skills"
"""The folder that clients agree on, in a repository and in a home directory (R161, R162)."""

MARKERS = (".git", ".jj", ".toolcrib")
"""The entries that mark a folder as the root of a repository (R164)."""

PRESETS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "claude": ((".claude/skills",), (".claude/skills",)),
    "codex": ((AGENT_SKILLS, ".codex/skills"), (AGENT_SKILLS, ".codex/skills")),
    "copilot": ((".github/skills",), (".copilot/skills",)),
    "cursor": ((".cursor/skills",), (".cursor/skills",)),
    "gemini": ((".gemini/skills",), (".gemini/skills",)),
    "goose": ((".goose/skills",), (".config/goose/skills",)),
    "opencode": ((".opencode/skills", ".opencode/skill"), (".config/opencode/skills", ".config/opencode/skill")),
    "vscode": ((".github/skills", AGENT_SKILLS, ".claude/skills"), (".copilot/skills", AGENT_SKILLS, ".claude/skills")),
}
"""The folders of other clients, in a repository and in a home directory (C13)."""

CORE_PACK = "core"
"""The name of the pack shipped with toolcrib."""
CORE_SOURCE = f"pack/{CORE_PACK}"
"""The source of its skills."""

_SECTION = "toolcrib.skills"

NO_COPIES: Mapping[str, Path] = MappingProxyType({})
"""There are no servers with skills."""


@dataclass(frozen=True, slots=True)
class Root:
    """One folder, or pack, with skills.

    ``source`` is its label, unique in this process; ``key`` identifies it globally. ``folder`` is a real path. Links in
    it must not lead out of ``base``, a real folder too; None: they may lead anywhere. ``is_strict``: skills that break
    a rule of the format are omitted. ``pack`` is None except for packs; ``is_core``: it is the one shipped with
    toolcrib. ``server`` is the key of the server whose skills these are, empty for any other root.
    """

    source: str
    key: str
    folder: Path
    origin: SkillOrigin
    origin_ref: str
    scope: SkillScope
    is_strict: bool = False
    base: Path | None = None
    pack: SkillPackConfig | None = None
    is_core: bool = False
    server: str = ""

    @property
    def rows_key(self) -> str:
        """Return the key of its rows in the index, which differs between tenants and projects."""
        scope = self.scope
        return json.dumps([scope.mode, scope.tenant_id, scope.project_id, self.key])

    @property
    def is_pack(self) -> bool:
        """Return whether it is a pack."""
        return self.pack is not None


@dataclass(frozen=True, slots=True)
class Roots:
    """All sources of skills, in order. ``untrusted`` are not read: they belong to the repository (C28).

    ``places`` are all examined paths, existing or not: their real paths determine the roots. None if these depend on
    more, such as on how Python finds a package.
    """

    roots: tuple[Root, ...]
    untrusted: tuple[Root, ...]
    problems: tuple[Problem, ...]
    places: tuple[Path, ...] | None = field(default=(), compare=False)


def find_roots(settings: Settings, copies: Mapping[str, Path] = NO_COPIES) -> Roots:
    """Return the sources of skills of this config (R108, R161 to R164, C13).

    ``copies`` are the folders with copies of the skills of servers, by their keys, which need not exist.

    Order: the core pack, the config's packs, the repository from its root down to the working directory, the home
    directory, ``skill_dirs``, servers. A folder found twice is one root. A nonexistent one is skipped, and only
    reported if the config names it.
    """
    section, search = settings.toolcrib.skills, _Search(settings)
    if section.core_pack:
        search.add_core_pack(Path(__file__).resolve().parents[2])
    for number, pack in enumerate(section.skill_packs):
        if pack.enabled:
            search.add_pack(pack, join(_SECTION, "skill_packs", number, "path"))
    if "repo" in section.discover:
        search.add_repository((AGENT_SKILLS,))
    if "user" in section.discover:
        search.add_user((AGENT_SKILLS,))
    for number, text in enumerate(section.skill_dirs):
        search.add_named(text, join(_SECTION, "skill_dirs", number))
    if section.from_servers:
        search.add_servers(copies, settings)
    return search.found()


def repository_folders(place: Place) -> tuple[Path, ...]:
    """Return the real folders from the repository's root down to the working directory (R164).

    The root is ``place.skills_root``, else the nearest folder with a marker, else the working directory alone. The home
    directory and its parents are not repositories.
    """
    cwd, home = _real(place.cwd), None if place.home is None else _real(place.home)
    if place.skills_root is not None:
        top = _real(place.skills_root)
        chain = _down_to(cwd, top) if cwd.is_relative_to(top) else (top,)
    else:
        marked = (marker.parent for marker in _markers(place) if os.path.lexists(marker))
        chain = _down_to(cwd, next(marked, cwd))
    return tuple(folder for folder in chain if folder != home)


def _markers(place: Place) -> list[Path]:
    """Return the paths that would mark the working directory or a parent as a repository's root, nearest first."""
    cwd, home = _real(place.cwd), None if place.home is None else _real(place.home)
    own = (folder for folder in (cwd, *cwd.parents) if home is None or not home.is_relative_to(folder))
    return [folder / marker for folder in own for marker in MARKERS]


def _down_to(folder: Path, top: Path) -> tuple[Path, ...]:
    between = [parent for parent in folder.parents if parent.is_relative_to(top)]
    return (*reversed(between), folder)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


class _Search:
    """Collects distinct roots, and assigns their labels."""

    def __init__(self, settings: Settings) -> None:
        self.problems: list[Problem] = []
        self._trusted: list[Root] = []
        self._untrusted: list[Root] = []
        self._section = settings.toolcrib.skills
        self._context = settings.toolcrib.context
        self._home = settings.place.home
        self._repository = repository_folders(settings.place)
        self._places = [*_markers(settings.place), *filter(None, (settings.place.skills_root, self._home))]
        self._finds_packages = False

    def found(self) -> Roots:
        """Return the collected roots. A repository's folder that the config also names is trusted."""
        trusted = {root.key for root in self._trusted}
        untrusted = (root for root in self._untrusted if root.key not in trusted)
        places = None if self._finds_packages else tuple(self._places)
        return Roots(tuple(self._trusted), tuple(untrusted), tuple(self.problems), places)

    def _is_folder(self, path: Path) -> bool:
        self._places.append(path)
        return _is_folder(path)

    def add_core_pack(self, package: Path) -> None:
        """Add the pack shipped with toolcrib: inside the installed package, or beside ``server/`` in a checkout."""
        places = [package / "packs" / CORE_PACK]
        if package.parent.name == "server":
            places.append(package.parents[1] / "packs" / CORE_PACK)
        folder = next(filter(self._is_folder, places), None)
        if folder is None:
            self.problems.append(Problem(join(_SECTION, "core_pack"), "the pack that ships with toolcrib is missing"))
        else:
            self._add_pack(SkillPackConfig(name=CORE_PACK, path=str(folder), scope_mode="global"), folder, is_core=True)

    def add_pack(self, pack: SkillPackConfig, where: str) -> None:
        """Add a pack of the config; its path is absolute, or else ``package:resource``."""
        is_path = Path(pack.path).is_absolute()
        self._finds_packages = self._finds_packages or not is_path
        folder = Path(pack.path) if is_path else _resource(pack.path)
        if folder is not None and self._is_folder(folder):
            self._add_pack(pack, folder)
        else:
            self.problems.append(Problem(where, f"{pack.path} is not there", "name a folder, or package:folder"))

    def add_repository(self, names: Iterable[str]) -> None:
        """Add these folders of the repository, at every level; as untrusted ones if the repository is not trusted."""
        into = self._trusted if self._section.trust_project else self._untrusted
        for folder in (above / name for above in self._repository for name in names):
            real, base = _real(folder), self._repository[0]
            if not self._is_folder(folder):
                continue
            if real.is_relative_to(base):
                self._keep(replace(self._folder("repo", real), base=base), into)
            else:
                self.problems.append(Problem(str(folder), "leads out of the repository, so its skills are left out"))

    def add_user(self, names: Iterable[str]) -> None:
        """Add these folders of the home directory."""
        for folder in (self._home / name for name in names if self._home is not None):
            if self._is_folder(folder):
                self._keep(self._folder("user", folder), self._trusted)

    def add_named(self, text: str, where: str) -> None:
        """Add a folder named in the config, or those of a preset."""
        preset = text.removeprefix(PRESET)
        if preset == text:
            if self._is_folder(Path(text)):
                self._keep(self._folder(f"dir/{slug(Path(text).name)}", Path(text)), self._trusted)
            else:
                self.problems.append(Problem(where, f"{text} is not there, so no skills come from it"))
        elif preset in PRESETS:
            in_repository, in_home = PRESETS[preset]
            self.add_repository(in_repository)
            self.add_user(in_home)
        else:
            self.problems.append(Problem(where, "is not a preset that toolcrib knows", did_you_mean(preset, PRESETS)))

    def add_servers(self, copies: Mapping[str, Path], settings: Settings) -> None:
        """Add the skills of servers that were listed, except those of which the policy permits nobody anything."""
        folders = {key: folder for key, folder in copies.items() if self._is_folder(folder)}
        anyone = policy_of(settings.toolcrib.policy).anyone if folders else None
        for key, folder in folders.items():
            if anyone and anyone.permits_some_of(key):
                root = self._folder(f"{OF_SERVERS}{slug(key)}", folder)
                self._keep(replace(root, key=f"server:{key}:{root.key}", base=root.folder, server=key), self._trusted)

    def _add_pack(self, pack: SkillPackConfig, folder: Path, *, is_core: bool = False) -> None:
        real = _real(folder)
        root = Root(
            source=f"pack/{slug(pack.name)}",
            key=f"pack:{pack.name}:{real}",
            folder=real,
            origin=SkillOrigin.PACK,
            origin_ref=pack.name,
            scope=self._scope(pack.scope_mode),
            is_strict=self._section.validation == "strict",
            pack=pack,
            is_core=is_core,
        )
        self._keep(root, self._trusted)

    def _folder(self, source: str, folder: Path) -> Root:
        real = _real(folder)
        return Root(
            source=source,
            key=str(real),
            folder=real,
            origin=SkillOrigin.DIR,
            origin_ref="",
            scope=self._scope(self._section.scope_mode),
            is_strict=self._section.validation == "strict",
        )

    def _scope(self, mode: ScopeMode) -> SkillScope:
        return SkillScope(mode, self._context.tenant_id, self._context.project_id)

    def _keep(self, root: Root, into: list[Root]) -> None:
        """Add a root unless it is already included, with a unique label."""
        if not _is_text(root.key):
            self.problems.append(Problem(ascii(root.key), "is not a path in UTF-8, so its skills are left out"))
        elif all(root.key != other.key for other in into):
            sources = {other.source for other in (*self._trusted, *self._untrusted)}
            labels = (root.source if number == 1 else f"{root.source}-{number}" for number in count(1))
            source = next(label for label in labels if label not in sources)
            into.append(replace(root, source=source, origin_ref=root.origin_ref or source))


def _resource(text: str) -> Path | None:
    """Return the folder of ``package:resource``, without running any code of the package."""
    package, _, resource = text.partition(":")
    top, *inner = package.split(".")
    try:
        # Only of the first part: for a dotted name find_spec imports the package, which runs its code.
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec is not None else None
    return next(filter(_is_folder, (Path(place, *inner, resource.strip("/")) for place in places or ())), None)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
