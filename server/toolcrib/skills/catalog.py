"""The skills of this process: its roots, scanned and indexed, and the subset for each kind of caller.

Everything here may block: the event loop calls it through a worker thread.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from toolcrib.base.cache import Recent
from toolcrib.base.errors import Problem, StoreError, UnknownSkill
from toolcrib.base.model import Caller, FileMark, Skill, SkillOrigin, SkillProblem, SkillText
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.states import OfferedSkills
from toolcrib.policy.rules import Visibility
from toolcrib.policy.state import SkillDecisions, Use
from toolcrib.skills.index import SkillChanges, SkillIndex
from toolcrib.skills.sources.files import SKILL_FILE, SkillFolder, has_digest, place_of
from toolcrib.skills.sources.roots import Root, find_roots
from toolcrib.skills.sources.scanning import (
    OWN_FILES_CUT,
    ROOT_ITSELF,
    RootScan,
    find_files,
    read_again,
    scan,
    shown_path,
)
from toolcrib.skills.sources.servers import copies_of, copy, remove_others
from toolcrib.skills.visible import VisibleSkills
from toolcrib.storage.store import DamagedRows

_VISIBLE_MAX = 64

Scope = tuple[str | None, str | None]
"""The tenant and project that share the same skills."""

_REFRESH_S = 1.0
"""How long the result of checking the files is reused, in seconds: half the maximum lag of a listing."""
_REFRESH_PAUSE = 9
"""Minimum pause after a check, relative to its duration, so that checking never takes more than a tenth of the time."""

_Answer = TypeVar("_Answer")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChangedScopes:
    """The scopes whose list of skills has changed; ``of_servers`` are those with changes of servers' skills alone."""

    own: frozenset[Scope] = frozenset()
    of_servers: frozenset[Scope] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.own or self.of_servers)

    def with_scope(self, scope: Scope, *, of_servers: bool) -> "ChangedScopes":
        """Return these and one more."""
        if of_servers:
            return ChangedScopes(self.own, self.of_servers | {scope})
        return ChangedScopes(self.own | {scope}, self.of_servers)


@dataclass(frozen=True, slots=True)
class RootLoad:
    """The result of one scan of a root."""

    root: Root
    skill_count: int
    changes: SkillChanges


@dataclass(frozen=True, slots=True)
class SkillInputs:
    """What the skills visible to a caller depend on besides their rows: while it is unchanged, so are they.

    ``files`` are compared by time and size, ``places`` by their real paths, ``variables`` by whether they are set.
    """

    files: tuple[str, ...]
    places: tuple[str, ...]
    variables: tuple[str, ...]


class SkillCatalog:
    """The skills of the configured roots as of the last scan. Safe to use from several threads."""

    def __init__(
        self,
        settings: Settings,
        index: SkillIndex,
        decisions: SkillDecisions,
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        embed: Callable[[str], None] | None = None,
    ) -> None:
        """Begin without any skill; ``embed``, if there is a model, encodes the texts of a root's indexed skills."""
        self._embed = embed
        self._settings, self._index, self._decisions, self._now = settings, index, decisions, now
        # Other processes write to both: what they change there changes what is visible here.
        self._stores = index.store, decisions.store
        self._visibility = Visibility(settings.toolcrib.skills, settings.place.variables)
        self._copies = {key: copies_of(settings, server) for key, server in settings.servers.items()}
        found = find_roots(settings, self._copies)
        self._places = found.places
        self.roots, self.untrusted, self.problems = found.roots, found.untrusted, found.problems
        self._by_key = {root.rows_key: root for root in found.roots}
        self._marks: dict[str, dict[str, FileMark]] = {}
        self._problems: dict[str, tuple[SkillProblem, ...]] = {}
        self._visible = Recent[Scope, VisibleSkills](_VISIBLE_MAX)
        self._seen = Recent[Scope, tuple[int, int]](_VISIBLE_MAX)
        self._changed = ChangedScopes()
        self._subscribers: list[Callable[[ChangedScopes], None]] = []
        self._hidden: dict[str, set[str]] = {}
        self._confirmed: dict[str, set[str]] = {}
        self._generation = 0
        self._versions: list[int] = []
        self._lock, self._refreshing = threading.Lock(), threading.Lock()
        self._clock, self._next_refresh = clock, 0.0

    def refresh(self, stop: threading.Event) -> list[RootLoad]:
        """Update the index from the files of every root; an unchanged root costs no write.

        ``stop`` is checked between roots, so that a terminating program need not wait for all of them.
        """
        while True:
            generation = self._index.store.generation
            loads = self._scanned(stop)
            if stop.is_set() or generation == self._index.store.generation:
                return loads
            # Another file replaced the index meanwhile, without the rows of unchanged files.

    def _scanned(self, stop: threading.Event) -> list[RootLoad]:
        loads: list[RootLoad] = []
        for root in self.roots:
            if stop.is_set():
                break
            try:
                loads.append(self._refreshed(root))
            except Exception as error:  # barrier: one root; the others are scanned, and its indexed skills are served
                _log.exception("the skills of %s could not be scanned", root.source, exc_info=error)
        self._index.forget_roots(used=self._by_key, now=self._now())
        return loads

    def repaired(self, work: Callable[[], _Answer], stop: threading.Event) -> _Answer:
        """Return the result of ``work``; if it finds damaged rows, that of a second run, with an index made anew."""
        try:
            return work()
        except DamagedRows:  # the index has set its file aside
            self.refresh(stop)
            with self._lock:
                self._forget_visible()
            return work()

    def refresh_if_due(self, stop: threading.Event) -> None:
        """Detect what was added, changed or removed since the last check, roots included, unless that was recent.

        If another thread is checking, or the last check was within the last second, the known state is reused; an
        expensive check is repeated less often.
        """
        if self._clock() < self._next_refresh or not self._refreshing.acquire(blocking=False):
            return
        try:
            self._look(stop)
        finally:
            self._refreshing.release()

    def _look(self, stop: threading.Event) -> None:
        """Detect what was added, changed or removed, roots included. One thread at a time."""
        began = self._clock()
        found = find_roots(self._settings, self._copies)
        if [root.rows_key for root in found.roots] != [root.rows_key for root in self.roots]:
            with self._lock:
                self._by_key = {root.rows_key: root for root in found.roots}
                self.roots, self.untrusted, self.problems = found.roots, found.untrusted, found.problems
                self._places = found.places
                self._forget_visible()
        self.refresh(stop)
        now = self._clock()
        self._next_refresh = now + max(_REFRESH_S, _REFRESH_PAUSE * (now - began))

    def visible(self, caller: Caller) -> VisibleSkills:
        """Return what ``caller`` may see: rows in their scope, by SQL (R145), except hidden ones."""
        key = (caller.tenant_id, caller.project_id)
        with self._lock:
            versions = [store.data_version() for store in self._stores]
            if versions != self._versions:
                self._versions = versions
                self._forget_visible()
            with suppress(KeyError):
                return self._visible[key]
            generation = self._generation
        # Outside the lock, since it reads files; the generation tells whether the result is outdated by then.
        hidden: dict[str, set[str]] = {}
        confirmed: dict[str, set[str]] = {}
        shown: list[Skill] = []
        switched_off = self._decisions.switched_off()
        for skill in self._in_scope(caller):
            folders, asked = hidden.setdefault(skill.root, set()), confirmed.setdefault(skill.root, set())
            if self._visibility.reason(skill, switched_off) is not None:
                folders.add(_folder(skill.path))
                continue
            shown.append(skill)
            if self.must_confirm(skill):
                asked.add(_folder(skill.path))
        visible = VisibleSkills(shown, generation)
        seen = _hash_of(skill for skill in visible.skills if not skill.is_of_server), _hash_of(visible.of_servers)
        with self._lock:
            self._hidden.update(hidden)
            self._confirmed.update(confirmed)
            if generation == self._generation:
                self._visible[key] = visible
                if key in self._seen and self._seen[key] != seen:
                    is_own = self._seen[key][0] != seen[0]
                    self._changed = self._changed.with_scope(key, of_servers=not is_own)
                self._seen[key] = seen
        return visible

    def changed_scopes(self) -> ChangedScopes:
        """Return the scopes whose list of skills has changed since the last call."""
        with self._lock:
            changed, self._changed = self._changed, ChangedScopes()
        return changed

    def subscribe(self, notify: Callable[[ChangedScopes], None]) -> None:
        """Call ``notify`` on the event loop with the scopes whose list of skills has changed."""
        self._subscribers.append(notify)

    def announce(self, changed: ChangedScopes) -> None:
        """Notify subscribers that the list of skills of these scopes has changed, if there are any."""
        for notify in self._subscribers if changed else ():
            notify(changed)

    def for_person(self, caller: Caller) -> VisibleSkills:
        """Return what ``caller`` may see, including skills that their author hides from models but not from people."""
        off, reason = self._decisions.switched_off(), self._visibility.reason
        return VisibleSkills([skill for skill in self._in_scope(caller) if reason(skill, off, by_person=True) is None])

    def everything(self, caller: Caller) -> VisibleSkills:
        """Return all skills in the caller's scope, including hidden ones: for the person who enables them."""
        return VisibleSkills(self._in_scope(caller))

    def must_confirm(self, skill: Skill) -> bool:
        """Return whether a person has to confirm before the text of the skill is returned."""
        return self._visibility.may_confirm and self._visibility.must_confirm(skill)

    def withheld(self, caller: Caller) -> list[tuple[Skill, str]]:
        """Return the skills in the caller's scope that are hidden, each with the reason: for the person only."""
        switched_off = self._decisions.switched_off()
        reasons = ((skill, self._visibility.reason(skill, switched_off)) for skill in self._in_scope(caller))
        return [(skill, reason) for skill, reason in reasons if reason is not None]

    def lacking(self) -> list[Problem]:
        """Return the skills of the config's own scope hidden because an environment variable is missing (R253)."""
        context = self._settings.toolcrib.context
        own = Caller(tenant_id=context.tenant_id, project_id=context.project_id)
        missing = ((skill, self._visibility.missing(skill)) for skill in self._in_scope(own))
        return [
            Problem(f"{skill.source}/{skill.name}", f"is hidden: it needs the environment variable {', '.join(names)}")
            for skill, names in missing
            if names
        ]

    def untrusted_count(self) -> int:
        """Return how many skills of an untrusted repository are ignored (C28)."""
        return sum(len(find_files(root, self._settings.toolcrib.limits).files) for root in self.untrusted)

    def freshen(self, skills: Iterable[Skill]) -> bool:
        """Reindex files of these skills that have changed; return whether there were any (R177).

        Their contents are compared regardless of times and sizes: a checkout may restore both (C18).
        """
        limits = self._settings.toolcrib.limits
        changed, generation = False, self._index.store.generation
        for root_key, path in sorted({(skill.root, skill.path) for skill in skills}):
            root = self._by_key.get(root_key)
            if root is None or not _follows_its_file(root):
                continue
            known = self._marks.get(root_key, {}).get(path)
            if known and has_digest(root.folder, path, known.digest, limits.skill_text_max_bytes, base=root.base):
                continue
            again = read_again(root, path, known, limits)
            if again is not None:
                self._take_in(root, again)
                changed = True
        if generation != self._index.store.generation:
            self.refresh(threading.Event())
        return changed

    def inputs(self, caller: Caller) -> SkillInputs | None:
        """Return what besides rows determines the skills visible to a caller; None if that is not known for certain.

        It is not while a file differs from its rows, or if a pack is configured as a resource of a package.
        """
        if self._places is None:
            return None
        files: list[str] = []
        for root in self.roots:
            walk = find_files(root, self._settings.toolcrib.limits)
            read = {path: mark for path, mark in self._marks.get(root.rows_key, {}).items() if path != ROOT_ITSELF}
            if {file.path: (file.mtime_ns, file.size) for file in walk.files} != {
                path: (mark.mtime_ns, mark.size) for path, mark in read.items()
            }:
                return None
            files += [str(root.folder / path) for path in (*read, *walk.passed)]
        variables = {name for skill in self._in_scope(caller) for name in skill.requires}
        return SkillInputs(tuple(files), tuple(map(str, self._places)), tuple(sorted(variables)))

    def texts(self, skills: Iterable[Skill]) -> dict[int, SkillText]:
        """Return whole texts by row; deleted rows are omitted."""
        return self._index.details([skill.row for skill in skills])

    def folder_of(self, skill: Skill) -> SkillFolder | None:
        """Return the folder of a skill with a SKILL.md; None for one of a pack file or a learned one."""
        root = self._by_key.get(skill.root)
        if root is None or skill.origin is not SkillOrigin.DIR:
            return None
        folder, file_name = place_of(root.folder, skill.path)
        own = _folder(skill.path)
        start = f"{own}/" if own else ""
        with self._lock:
            apart = (*self._hidden.get(skill.root, ()), *self._confirmed.get(skill.root, ()))
        inner = tuple(sorted(each.removeprefix(start) for each in apart if each.startswith(start) and each != own))
        return SkillFolder(folder, root.base, file_name, inner, is_copy=bool(root.server))

    def remove_old_copies(self) -> None:
        """Remove the copies of skills of servers that the config does not have any more."""
        if not self._settings.in_memory:
            remove_others(self._settings.server_skills_dir, self._copies.values())

    def server_of(self, skill: Skill) -> str:
        """Return the key of the server that a skill comes from; empty if it comes from none."""
        root = self._by_key.get(skill.root)
        return root.server if root else ""

    def copy(self, server: ServerSettings, offered: OfferedSkills, stop: threading.Event) -> ChangedScopes:
        """Take in the skills of a server; return the scopes whose list has changed since the last look.

        Raises:
            StoreError: they cannot be stored.

        """
        depth = self._settings.toolcrib.limits.skill_depth
        try:
            is_changed = copy(self._copies[server.key], offered, depth)
        except OSError as error:
            raise StoreError("the skills of a server cannot be written", detail=str(error)) from None
        if is_changed:
            with self._refreshing:  # another thread may have looked before the last file was written
                self._look(stop)
            for tenant_id, project_id in self._seen:
                self.visible(Caller(tenant_id=tenant_id, project_id=project_id))
        return self.changed_scopes()

    def read_file(self, skill: Skill, path: str, limit: int) -> bytes:
        """Return a file of a skill; the SKILL.md of one without a folder is generated.

        Raises:
            UnknownSkill: there is no such file, or it has more than ``limit`` bytes.

        """
        folder = self.folder_of(skill)
        if folder is not None:
            return folder.read(path, limit)
        text = self.texts([skill]).get(skill.row)
        if path != SKILL_FILE or text is None:
            raise UnknownSkill(path)
        from toolcrib.skills.formats.pack import skill_markdown  # noqa: PLC0415 - no start waits for the formats

        return skill_markdown(text, skill.folder.rpartition("/")[2]).encode()

    def modified_ms(self, skill: Skill) -> int | None:
        """Return the modification time of a skill's file, in milliseconds since the epoch; None if it has no file."""
        mark = self._marks.get(skill.root, {}).get(skill.path)
        return mark.mtime_ns // 1_000_000 if mark else None

    def reports(self, caller: Caller, *, hidden: bool = False) -> list[tuple[str, SkillProblem]]:
        """Return the problems of files of roots in the caller's scope, each with its root's source.

        Problems in the folder of a hidden skill are only included if ``hidden`` is set.
        """
        keys = [root.rows_key for root in self.roots if _in_scope(root, caller)]
        found = [(key, problem) for key in keys for problem in self._problems.get(key, ())]
        if not hidden:
            with self._lock:
                folders = {key: {shown_path(folder) for folder in self._hidden.get(key, ())} for key in keys}
            found = [(key, each) for key, each in found if each.code != OWN_FILES_CUT or each.path not in folders[key]]
        return [(self._by_key[key].source, problem) for key, problem in (*found, *self._index.problems(keys))]

    def record_use(self, skills: Sequence[Skill]) -> None:
        """Count one use of each skill (R139). A failure to count does not prevent the use."""
        try:
            self._decisions.record_use([skill.id for skill in skills], self._now())
        except StoreError as error:
            _log.warning("the use of a skill could not be counted: %s", error.detail)

    def uses(self) -> dict[str, Use]:
        """Return how often and when each skill was last used, by id; unused skills are omitted."""
        return self._decisions.uses()

    def switch(self, skill: Skill, *, enabled: bool) -> None:
        """Enable or disable a skill permanently: even across its removal and return (R243)."""
        self._decisions.switch(skill.id, enabled=enabled)
        with self._lock:
            self._forget_visible()

    def _refreshed(self, root: Root) -> RootLoad:
        key = root.rows_key
        self._marks[key] = self._index.marks(key)
        found = scan(root, self._marks[key], self._settings.toolcrib.limits)
        self._problems[key] = found.problems
        changes = self._take_in(root, found)
        return RootLoad(root, self._index.count(key), changes)

    def _take_in(self, root: Root, found: RootScan) -> SkillChanges:
        """Apply the result of a scan to the index, and discard what was derived from its previous state."""
        key, update = root.rows_key, _follows_its_file(root)
        if not found.changed and not found.gone:
            return SkillChanges()
        changes = self._index.apply(key, found.changed, found.gone, now=self._now(), update=update)
        self._marks[key] = self._index.marks(key)
        if self._embed:
            self._embed(key)  # now, so that no search waits for it
        with self._lock:
            self._forget_visible()
        return changes

    def _in_scope(self, caller: Caller) -> list[Skill]:
        sources = {root.rows_key: root.source for root in self.roots}
        return self._index.load(sources, caller.tenant_id, caller.project_id)

    def _forget_visible(self) -> None:
        self._visible.clear()
        self._generation += 1


def _hash_of(skills: Iterable[Skill]) -> int:
    return hash(tuple((each.source, each.folder, each.name, each.description) for each in skills))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _follows_its_file(root: Root) -> bool:
    return root.pack is None or root.pack.update_existing_pack_skills


def _in_scope(root: Root, caller: Caller) -> bool:
    scope = root.scope
    if scope.mode == "global":
        return True
    same_tenant = scope.tenant_id == caller.tenant_id
    return same_tenant and (scope.mode == "tenant" or scope.project_id == caller.project_id)
