"""The tools and skills that an activation scope has activated: for one run, one stored session id, or not at all."""

import json
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.json_values import as_list, as_object

ACTIVE_MAX = 64
"""Maximum number of active skills per scope; beyond that the one active for longest is deactivated."""


@dataclass(frozen=True, slots=True)
class ActiveSkill:
    """One active skill. ``tools`` are the tools that its text names, spelled as its author did.

    ``label`` is what it may be called in an answer: its name, unless that may not be told.
    """

    id: str
    name: str
    source: str
    uri: str
    label: str
    tools: tuple[str, ...] = ()

    def is_called(self, name: str) -> bool:
        """Return whether ``name`` refers to this skill: its id, its name, its name with its source, or its URI."""
        plain = name.strip().removeprefix("$")
        return plain in (self.id, self.label, self.name, f"{self.source}/{self.name}", self.uri)


Active = tuple[ActiveSkill, ...]
"""The active skills of a scope, in order of activation."""


def skills_to_json(active: Active) -> str:
    """Serialize active skills for :func:`skills_from_json`."""
    return json.dumps([asdict(skill) for skill in active], ensure_ascii=False)


def skills_from_json(text: str) -> Active:
    """Return the active skills in a serialized text; empty for text of another program."""
    try:
        every = as_list(json.loads(text))
    except ValueError:
        return ()
    found: list[ActiveSkill] = []
    for raw in map(as_object, every):
        own = {name: raw.get(name) for name in ("id", "name", "source", "uri", "label")}
        if all(isinstance(value, str) for value in own.values()):
            tools = tuple(map(str, as_list(raw.get("tools"))))
            found.append(ActiveSkill(**{name: str(value) for name, value in own.items()}, tools=tools))
    # The bound holds for rows that another program has written, too.
    return tuple(found[-ACTIVE_MAX:])


@dataclass(frozen=True, slots=True)
class Activate:
    """A skill becomes active. ``exclusive``: it replaces all others (C20)."""

    skill: ActiveSkill
    exclusive: bool = False

    def apply(self, active: Active) -> Active:
        """Return the active skills with this one; it keeps its place if it was already active."""
        if self.exclusive:
            return (self.skill,)
        if any(each.id == self.skill.id for each in active):
            return tuple(self.skill if each.id == self.skill.id else each for each in active)
        return (*active, self.skill)[-ACTIVE_MAX:]


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Deactivated skills, by their ids."""

    ids: tuple[str, ...]

    def apply(self, active: Active) -> Active:
        """Return the active skills without them."""
        return tuple(each for each in active if each.id not in self.ids)


Change = Activate | Deactivate
"""What happens to the skills of a scope. It says nothing of other skills, so two who share one lose nothing."""


def changed(active: Active, changes: Iterable[Change]) -> Active:
    """Return the active skills after some changes, in this order."""
    for change in changes:
        active = change.apply(active)
    return active


class ActiveSkills:
    """The active skills of one scope: ``skills`` is a value, replaced as a whole.

    ``handle`` is what names the scope where no session does; empty where one does.
    """

    def __init__(self, handle: str = "", skills: Active = ()) -> None:
        self.skills = skills
        self.handle = handle

    def change(self, changes: Iterable[Change]) -> None:
        """Apply a change to the skills."""
        self.skills = changed(self.skills, changes)


if TYPE_CHECKING:
    from toolcrib.policy.state import StoredSessions  # which stores the values above

_KEPT_READY = 1000
"""Session ids kept in memory although no connection uses them; others are read from disk again."""

_READ_EVERY_S = 3600.0

_UNKEPT_MAX = 1000
"""Maximum number of changes that wait for a file that cannot be written."""

_log = logging.getLogger(__name__)


class RunActivations:
    """Activations of one MCP session, which end with it (R72)."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def add(self, name: str) -> bool:
        """Record an activation; return whether it is new."""
        new = name not in self.names
        self.names.add(name)
        return new

    async def change_skills(self, active: ActiveSkills, changes: Sequence[Change]) -> None:
        """Change them in the session only."""
        active.change(changes)


class NoActivations:
    """The scope of a request without a session: nothing is stored, nothing is new."""

    names: frozenset[str] = frozenset()

    async def add(self, _name: str) -> bool:
        """Store nothing."""
        return False

    async def change_skills(self, active: ActiveSkills, changes: Sequence[Change]) -> None:
        """Change them for the request, or for as long as their handle is valid."""
        active.change(changes)


class StoredActivations:
    """Activations of one (principal, session id), kept across reconnects (R73); changes are serialised (R74).

    ``skills`` are active in it, in all sessions of this id alike. Another process may serve the same id: each change is
    made to what is kept, and what is kept then is active here.
    What cannot be read or kept is logged; the session goes on with what it has activated in this process.
    """

    def __init__(self, store: "StoredSessions", key: tuple[str, str], now: Callable[[], float]) -> None:
        self._store, self._key, self._now = store, key, now
        self._changing = anyio.Lock()
        self._read_at = -math.inf
        self._unkept: tuple[Change, ...] = ()
        self.names: set[str] = set()
        self.skills = ActiveSkills()

    async def ready(self) -> None:
        """Read what was activated under this id before; now and then again, so that the store knows it in use."""
        if self._is_read():
            return
        async with self._changing:
            # Another connection of the session may have read it while this one waited.
            if self._is_read():
                return
            # Set before the attempt, so that a store that cannot be read is not asked with every request.
            self._read_at = self._now()
            try:
                self.names |= await anyio.to_thread.run_sync(self._store.activated, *self._key, self._read_at)
                kept_skills = await anyio.to_thread.run_sync(self._store.active_skills, *self._key)
                if kept_skills is not None:  # else others took its place in the file
                    self.skills.skills = changed(kept_skills, self._unkept)
            except StoreError as error:
                _log.warning("the activations of a session cannot be read: %s", error.detail)

    async def change_skills(self, active: ActiveSkills, changes: Sequence[Change]) -> None:
        """Change which skills are active, on disk too; but only there where ``active`` is the scope of a handle."""
        if active is not self.skills:
            active.change(changes)
            return
        async with self._changing:
            known = active.skills
            # Seen at once: whoever goes on meanwhile finds the skill active.
            active.change(changes)
            # Kept with the next change if this one is cancelled or fails.
            self._unkept = (*self._unkept, *changes)[-_UNKEPT_MAX:]
            try:
                active.skills = await anyio.to_thread.run_sync(
                    self._store.change_skills, *self._key, self._unkept, self._now(), known
                )
                self._unkept = ()
            except StoreError as error:
                _log.warning("which skills are active cannot be kept: %s", error.detail)

    def _is_read(self) -> bool:
        return 0 <= self._now() - self._read_at < _READ_EVERY_S

    async def add(self, name: str) -> bool:
        """Record an activation, also on disk; return whether it is new."""
        async with self._changing:
            if name in self.names:
                return False
            # Before it is stored: a list requested meanwhile already shows it.
            self.names.add(name)
            try:
                await anyio.to_thread.run_sync(self._store.record, *self._key, name, self._now())
            except StoreError as error:
                _log.warning("an activation cannot be kept: %s", error.detail)
            return True


Activations = RunActivations | NoActivations | StoredActivations
"""The activations of one scope."""


class SharedActivations:
    """The activations of all session ids in use: one object per id, shared by its connections."""

    def __init__(self, store: "StoredSessions", now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        # One object per id: two connections of a session must not overwrite what the other activates.
        self._known: WeakValueDictionary[tuple[str, str], StoredActivations] = WeakValueDictionary()
        # Keeps the last ones alive; the dictionary alone lets go of what no connection uses.
        self._recent: deque[StoredActivations] = deque(maxlen=_KEPT_READY)

    async def resolve(self, principal: str, session_id: str) -> StoredActivations:
        """Return the activations of one session id, read from disk if no connection uses them yet."""
        key = (principal, session_id)
        stored = self._known.get(key)
        if stored is None:
            stored = self._known[key] = StoredActivations(self._store, key, self._now)
            self._recent.append(stored)
        await stored.ready()
        return stored
