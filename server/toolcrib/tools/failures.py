"""Which servers fail, and why: recorded when it happens, stored for other processes and later starts.

Knows how a failure is stored; never knows how a server is started, nor who may see it.
"""

import logging
from collections.abc import Callable
from typing import Never

import anyio
import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.config.settings import Settings
from toolcrib.downstream.states import Failure, State, Status
from toolcrib.tools.index.failures import KeptFailure, KeptFailures
from toolcrib.tools.index.rows import rows_fingerprint

_log = logging.getLogger(__name__)


class ServerFailures:
    """The known failures of servers. ``now`` returns seconds since the epoch."""

    def __init__(self, settings: Settings, kept: KeptFailures, now: Callable[[], float]) -> None:
        self._fingerprints = {key: rows_fingerprint(server.fingerprint) for key, server in settings.servers.items()}
        self._kept, self._now = kept, now
        self._known: dict[str, KeptFailure] = {}
        self._unwritten: set[str] = set()
        self._work = anyio.Event()

    def open(self) -> None:
        """Read what earlier starts and other processes have recorded. Blocks."""
        self._known = self.read()

    def read(self) -> dict[str, KeptFailure]:
        """Return the recorded failures of the configured servers, from any process. Blocks."""
        return self._kept.read(self._fingerprints)

    def silent(self) -> set[str]:
        """Return the servers that did not answer when they were last started."""
        return {key for key, kept in self._known.items() if kept.failure.is_silent}

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
                known = KeptFailure(failure, self._now())
            self._known[server] = known
        self._unwritten.add(server)  # even without a change here: another process may have recorded something else
        self._work.set()

    async def keep(self) -> Never:
        """Write records as they arrive."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            await anyio.to_thread.run_sync(self.flush)

    def flush(self) -> None:
        """Write records that are not written yet. Blocks."""
        while self._unwritten:
            server = self._unwritten.pop()
            try:
                self._kept.write(server, self._fingerprints[server], self._known.get(server))
            except StoreError as error:  # it is still reported in this process
                _log.warning("why %s fails could not be kept: %s %s", server, error, error.detail)
