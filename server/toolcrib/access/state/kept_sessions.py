"""The activations of session ids and their active skills on disk, bounded in number and in age (R73).

Knows sessions as rows, and names of tools and skills as values; never knows whether any of these exists now.
Everything here may block: the event loop calls it through a worker thread.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolcrib.access.active_skills import Active, Change, active_of, changed, json_of
from toolcrib.storage.store import Store

_TOUCH_AFTER_S = 3600.0
"""A time of last use is moved only when it is this old: most connections of a session write nothing."""

_SESSION = "SELECT id FROM sessions WHERE principal = ? AND session_id = ?"


@dataclass(frozen=True, slots=True)
class KeptBounds:
    """Most session ids of one principal, and most activations of one session id; beyond them the oldest go.

    ``age_s``: a session that was not used for so long is forgotten.
    """

    sessions: int
    activations: int
    age_s: float


class KeptSessions:
    """Activations by principal and session id. Safe to use from several threads.

    Times are in seconds since the epoch. Every method raises StoreError where the file cannot be read or written.
    """

    def __init__(self, store: Store, bounds: KeptBounds) -> None:
        self._store, self._bounds = store, bounds

    def activated(self, principal: str, session_id: str, now: float) -> set[str]:
        """Return the public names that a caller's session has activated, and note that it is in use, to the hour."""
        key = principal, session_id
        with self._store.read() as connection:
            query = "SELECT id, last_used FROM sessions WHERE principal = ? AND session_id = ?"
            session, last_used = connection.execute(query, key).fetchone() or (None, now)
            query = "SELECT name FROM activations WHERE session = ?"
            names = {row[0] for row in connection.execute(query, (session,))}
        if now - last_used >= _TOUCH_AFTER_S:
            statement = "UPDATE sessions SET last_used = ? WHERE principal = ? AND session_id = ?"
            self._store.change(lambda connection: connection.execute(statement, (now, *key)), owed=f"touch {key}")
        return names

    def record(self, principal: str, session_id: str, name: str, now: float) -> None:
        """Keep an activation under a caller and a session id."""

        def record(connection: sqlite3.Connection) -> None:
            self.keep(connection, [(principal, session_id, name, now)])

        self._store.change(record, owed=f"activation {principal, session_id, name}")

    def active_skills(self, principal: str, session_id: str) -> Active | None:
        """Return the skills that are active in a caller's session, in order; None if nothing is kept of it."""
        with self._store.read() as connection:
            return _active_skills(connection, principal, session_id)

    def change_skills(
        self, principal: str, session_id: str, changes: Sequence[Change], now: float, known: Active = ()
    ) -> Active:
        """Change which skills are active in a caller's session; return those that are now.

        What another process has changed meanwhile stays: a change is made to what is kept, in one transaction, or to
        those that are ``known`` to be active if nothing is kept of the session any more.
        """
        key = principal, session_id
        before = self.active_skills(*key)
        if before is not None and changed(before, changes) == before:
            return before

        def change(connection: sqlite3.Connection) -> Active:
            kept = _active_skills(connection, *key)
            after = changed(known if kept is None else kept, changes)
            connection.execute(
                "INSERT INTO sessions(principal, session_id, last_used, skills) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET skills = excluded.skills",
                (*key, now, json_of(after)),
            )
            self._forget_oldest(connection, *key)
            return after

        return self._store.change(change, owed=f"active skills {key} {changes}")

    def keep(self, connection: sqlite3.Connection, rows: Iterable[tuple[str, str, str, float]]) -> None:
        """Write activations as (principal, session id, name, time of last use), within the bounds."""
        for principal, session_id, name, last_used in rows:
            key = principal, session_id
            connection.execute(
                "INSERT INTO sessions(principal, session_id, last_used) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (*key, last_used),
            )
            statement = f"INSERT INTO activations(session, name) VALUES (({_SESSION}), ?) ON CONFLICT DO NOTHING"  # noqa: S608
            if connection.execute(statement, (*key, name)).rowcount:
                self._forget_oldest(connection, *key)

    def _forget_oldest(self, connection: sqlite3.Connection, principal: str, session_id: str) -> None:
        connection.execute(
            f"DELETE FROM activations WHERE session = ({_SESSION}) AND id NOT IN "  # noqa: S608 - own constants
            f"(SELECT id FROM activations WHERE session = ({_SESSION}) ORDER BY id DESC LIMIT ?)",
            (principal, session_id, principal, session_id, self._bounds.activations),
        )
        connection.execute(
            "DELETE FROM sessions WHERE principal = ? AND id NOT IN "
            "(SELECT id FROM sessions WHERE principal = ? ORDER BY last_used DESC, id DESC LIMIT ?)",
            (principal, principal, self._bounds.sessions),
        )

    def expire(self, now: float) -> None:
        """Forget sessions that were not used for too long."""
        statement, older_than = "DELETE FROM sessions WHERE last_used < ?", now - self._bounds.age_s
        self._store.change(lambda connection: connection.execute(statement, (older_than,)))


def _active_skills(connection: sqlite3.Connection, principal: str, session_id: str) -> Active | None:
    query = "SELECT skills FROM sessions WHERE principal = ? AND session_id = ?"
    row = connection.execute(query, (principal, session_id)).fetchone()
    return active_of(row[0]) if row else None
