"""Which servers fail, and why: noted when it happens, kept for other processes and for later starts.

Knows what becomes of a failure; never knows how a server is started, nor who may be told.
"""

import logging
from collections.abc import Callable
from typing import Never

import anyio
import anyio.to_thread

from toolcrib.config.settings import Settings
from toolcrib.downstream.states import Failure, State, Status
from toolcrib.errors import StoreError
from toolcrib.tools.index.failures import KeptFailure, KeptFailures
from toolcrib.tools.index.rows import rows_fingerprint

_log = logging.getLogger(__name__)


class ServerFailures:
    """The failures that are known. ``now`` returns seconds since the epoch."""

    def __init__(self, settings: Settings, kept: KeptFailures, now: Callable[[], float]) -> None:
        self._fingerprints = {key: rows_fingerprint(server.fingerprint) for key, server in settings.servers.items()}
        self._kept, self._now = kept, now
        self._known: dict[str, KeptFailure] = {}
        self._unwritten: set[str] = set()
        self._work = anyio.Event()

    def open(self) -> None:
        """Read what earlier starts and other processes have noted. Blocks."""
        self._known = self.read()

    def read(self) -> dict[str, KeptFailure]:
        """Return what is kept of the configured servers, by any process. Blocks."""
        return self._kept.read(self._fingerprints)

    def silent(self) -> set[str]:
        """Return the servers that gave no answer the last time they were started."""
        return {key for key, kept in self._known.items() if kept.failure.is_silent}

    def note(self, server: str, status: Status) -> None:
        """Take in a server's new state: one that is ready fails no more. Never waits; on the loop."""
        if status.failure:
            self._change(server, status.failure)
        elif status.state is State.READY:
            self._change(server, None)

    def _change(self, server: str, failure: Failure | None) -> None:
        known = self._known.pop(server, None)
        if failure:
            if known is None or known.failure != failure:
                known = KeptFailure(failure, self._now())
            self._known[server] = known
        self._unwritten.add(server)  # even if nothing is new here: another process may have noted something else
        self._work.set()

    async def keep(self) -> Never:
        """Write what was noted, as it comes."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            await anyio.to_thread.run_sync(self.flush)

    def flush(self) -> None:
        """Write what was noted and is not written yet. Blocks."""
        while self._unwritten:
            server = self._unwritten.pop()
            try:
                self._kept.write(server, self._fingerprints[server], self._known.get(server))
            except StoreError as error:  # it is still told in this process
                _log.warning("why %s fails could not be kept: %s %s", server, error, error.detail)
