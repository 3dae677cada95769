"""Why servers could not be started, stored beside their tools, for other processes and later starts.

Knows rows only; never knows how a server is started or who is told.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from toolcrib.downstream.states import Failure
from toolcrib.storage.store import Store, damaged_rows


@dataclass(frozen=True, slots=True)
class KeptFailure:
    """A failure, and its beginning, in seconds since the epoch."""

    failure: Failure
    since: float


class KeptFailures:
    """The current failure of each failed server; none for a server listed since.

    Safe to use from several threads. Every method raises StoreError if the file cannot be read or written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, servers: Mapping[str, str]) -> dict[str, KeptFailure]:
        """Return the failures of these servers (key -> config fingerprint); those under another config are ignored."""
        query = "SELECT server, config_fingerprint, reason, remedy, is_silent, since FROM failures ORDER BY server"
        with self._store.read() as connection, damaged_rows():
            return {
                server: KeptFailure(Failure(reason, remedy, bool(is_silent)), since)
                for server, fingerprint, reason, remedy, is_silent, since in connection.execute(query)
                if servers.get(server) == fingerprint
            }

    def write(self, server: str, config_fingerprint: str, kept: KeptFailure | None) -> None:
        """Store the failure of a server, or with None delete it.

        An unchanged failure is not written again: other processes would check for changes.
        """
        if self.read({server: config_fingerprint}).get(server) == kept:
            return

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM failures WHERE server = ?", (server,))
            if kept:
                failure = kept.failure
                row = (server, config_fingerprint, failure.reason, failure.remedy, failure.is_silent, kept.since)
                connection.execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?)", row)

        self._store.change(write, owed=f"failure of {server}")
