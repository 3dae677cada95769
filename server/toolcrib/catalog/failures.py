"""Remembers why servers failed: in memory for this process, and in the index for others and later starts."""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Never

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.signals import ChangeSignal
from toolcrib.catalog.index import rows_fingerprint
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import Failure, State, Status
from toolcrib.storage.rows import RowMapper
from toolcrib.storage.store import Store, damaged_rows

_FAILURE = RowMapper(Failure, ("reason", "remedy", "is_silent"))
_COLUMNS = ", ".join(("server", "config_fingerprint", *_FAILURE.columns, "since"))

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A failure, and its beginning, in seconds since the epoch."""

    failure: Failure
    since: float


class ServerFailures:
    """The current failure of each failed server; none for a server listed since.

    A failure counts at once in this process; a task writes it. ``now`` returns seconds since the epoch.
    """

    def __init__(self, settings: Settings, store: Store, now: Callable[[], float]) -> None:
        self._fingerprints = {key: rows_fingerprint(server.fingerprint) for key, server in settings.servers.items()}
        self._store, self._now = store, now
        self._known: dict[str, KnownFailure] = {}
        self._unwritten: set[str] = set()
        self._work = ChangeSignal()

    def open(self) -> None:
        """Read what earlier starts and other processes have recorded. Blocks.

        Raises:
            StoreError: the index cannot be read.

        """
        self._known = self.read()

    def read(self) -> dict[str, KnownFailure]:
        """Return the recorded failures of the servers as configured now, from any process. Blocks.

        Raises:
            StoreError: the index cannot be read.

        """
        with self._store.read() as connection, damaged_rows():
            return {
                server: KnownFailure(_FAILURE.decode(failure), since)
                for server, fingerprint, *failure, since in connection.execute(
                    f"SELECT {_COLUMNS} FROM failures ORDER BY server"  # noqa: S608 - own column names
                )
                if self._fingerprints.get(server) == fingerprint
            }

    def silent(self) -> set[str]:
        """Return the servers that did not answer when they were last started."""
        return {key for key, known in self._known.items() if known.failure.is_silent}

    def note(self, server: str, status: Status) -> None:
        """Record a server's new state: one that is ready has no failure. Never waits; on the event loop."""
        if status.failure:
            self._change(server, status.failure)
        elif status.state is State.READY:
            self._change(server, None)

    def _change(self, server: str, failure: Failure | None) -> None:
        known = self._known.pop(server, None)
        if failure:
            if known is None or known.failure != failure:
                known = KnownFailure(failure, self._now())
            self._known[server] = known
        self._unwritten.add(server)  # even without a change here: another process may have recorded something else
        self._work.event.set()

    async def keep(self) -> Never:
        """Write records as they arrive."""
        while True:
            await self._work.wait()
            await anyio.to_thread.run_sync(self.flush)

    def flush(self) -> None:
        """Write records that are not written yet. Blocks."""
        while self._unwritten:
            server = self._unwritten.pop()
            try:
                self._write(server, self._known.get(server))
            except StoreError as error:  # it is still reported in this process
                _log.warning("why %s fails could not be kept: %s %s", server, error, error.detail)

    def _write(self, server: str, known: KnownFailure | None) -> None:
        # An unchanged failure is not written again: other processes would check for changes.
        if self.read().get(server) == known:
            return

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM failures WHERE server = ?", (server,))
            if known:
                failure = _FAILURE.encode(known.failure).values()
                row = (server, self._fingerprints[server], *failure, known.since)
                connection.execute(f"INSERT INTO failures({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: S608

        self._store.change(write, owed=f"failure of {server}")
