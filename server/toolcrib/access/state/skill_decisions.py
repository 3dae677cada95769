"""The skills that a person has disabled, and how each was used, on disk (R139, R243).

Knows ids of skills; never knows whether a skill exists, what it says or who may see it.
Everything here may block: the event loop calls it through a worker thread.
"""

import sqlite3
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from toolcrib.base.errors import StoreError
from toolcrib.storage.store import Store

_ALL = "SELECT id, is_off, use_count, last_used FROM skills"
_SWITCH = "INSERT INTO skills(id, is_off) VALUES (?, ?) ON CONFLICT DO UPDATE SET is_off = excluded.is_off"
_USE = (
    "INSERT INTO skills(id, use_count, last_used) VALUES (?, 1, ?) "
    "ON CONFLICT DO UPDATE SET use_count = use_count + 1, last_used = excluded.last_used"
)

_Row = tuple[str, int, int, float | None]


@dataclass(frozen=True, slots=True)
class Use:
    """How often a skill was used, and when last, in seconds since the epoch."""

    count: int
    last: float


class SkillDecisions:
    """Switches and use by the id of a skill, whether the skill is there or not. Safe to use from several threads.

    What is known of them is written again where the file turns out damaged in use. Every method raises StoreError
    where the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Row] = {}
        store.prepare(self._write_known)
        with suppress(StoreError):  # said by whoever asks next
            self._read()

    def version(self) -> int:
        """Return a number that changes once another process has decided something; never waits."""
        return self._store.data_version()

    def switched_off(self) -> frozenset[str]:
        """Return the ids of all skills that are switched off."""
        return frozenset(row[0] for row in self._read() if row[1])

    def uses(self) -> dict[str, Use]:
        """Return the use of all skills that were ever used, by id."""
        return {row[0]: Use(row[2], row[3] or 0.0) for row in self._read() if row[2]}

    def switch(self, skill_id: str, *, enabled: bool) -> None:
        """Enable or disable a skill, for good."""

        def switch(connection: sqlite3.Connection) -> None:
            there = connection.execute("SELECT is_off FROM skills WHERE id = ?", (skill_id,)).fetchone()
            if bool(there and there[0]) == enabled:
                connection.execute(_SWITCH, (skill_id, int(not enabled)))

        self._store.change(switch, owed=f"switch {skill_id}")
        self._read()

    def record_use(self, ids: Collection[str], now: float) -> None:
        """Count one use of each of these skills. ``now`` is in seconds since the epoch."""
        if not ids:
            return
        rows = [(skill_id, now) for skill_id in ids]

        def use(connection: sqlite3.Connection) -> list[_Row]:
            connection.executemany(_USE, rows)
            return [row for each in ids for row in connection.execute(f"{_ALL} WHERE id = ?", (each,))]

        used = self._store.change(use, owed=f"use {now} {ids}")
        self._known = {**self._known, **{row[0]: row for row in used}}

    def keep(self, connection: sqlite3.Connection, rows: Iterable[_Row]) -> None:
        """Write what was known of skills (id, whether it is off, uses, last use), but not over what is there."""
        connection.executemany("INSERT INTO skills VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def _read(self) -> Collection[_Row]:
        with self._store.read() as connection:
            self._known = {row[0]: row for row in connection.execute(_ALL)}
        return self._known.values()

    def _write_known(self, store: Store) -> None:
        known = self._known
        if known:
            with store.write() as connection:
                self.keep(connection, known.values())
