"""Permanent approvals of a person: tools that run, and skills that are returned, without asking again.

Knows principals, names and fingerprints; never knows whether a tool or skill is there, or who may use it.
Everything here may block: the event loop calls it through a worker thread.
"""

from dataclasses import dataclass
from typing import Literal

from toolcrib.storage.store import Store

_LATEST = "ON CONFLICT DO UPDATE SET fingerprint = excluded.fingerprint, given_at = excluded.given_at"

ApprovedKind = Literal["tool", "skill"]
"""What can be allowed."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A lasting yes of one principal: as long as what is named has this fingerprint, nobody is asked about it.

    ``name`` is the public name of a tool, or the ``source/folder`` of a skill.
    """

    principal: str
    kind: ApprovedKind
    name: str
    fingerprint: str


class Approvals:
    """Lasting answers, one for each principal, kind and name. Safe to use from several threads, and by processes.

    Nothing is remembered in memory: what one process takes back holds in all others at their next question. Every
    method raises StoreError where the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def __contains__(self, approval: Approval) -> bool:
        with self._store.read() as connection:
            query = "SELECT fingerprint FROM approvals WHERE principal = ? AND kind = ? AND name = ?"
            row = connection.execute(query, (approval.principal, approval.kind, approval.name)).fetchone()
        return row is not None and row[0] == approval.fingerprint

    def all(self) -> list[tuple[Approval, float]]:
        """Return every approval with the time when it was given, in seconds since the epoch, by principal and name."""
        with self._store.read() as connection:
            columns = "principal, kind, name, fingerprint, given_at"
            rows = list(connection.execute(f"SELECT {columns} FROM approvals ORDER BY principal, kind, name"))  # noqa: S608 - own constants
        return [(Approval(*row[:-1]), row[-1]) for row in rows]

    def give(self, approval: Approval, now: float) -> None:
        """Keep an approval, in the place of one with another fingerprint. ``now`` is in seconds since the epoch."""
        values = approval.principal, approval.kind, approval.name, approval.fingerprint, now
        statement = f"INSERT INTO approvals VALUES (?, ?, ?, ?, ?) {_LATEST}"  # noqa: S608 - own constants
        self._store.change(lambda connection: connection.execute(statement, values), owed=f"approval {values[:3]}")

    def take_back(self, principal: str, name: str) -> bool:
        """Forget what a principal has allowed under a name; return whether there was anything."""
        statement = "DELETE FROM approvals WHERE principal = ? AND name = ?"
        return bool(self._store.change(lambda connection: connection.execute(statement, (principal, name)).rowcount))
