"""All downstreams together: which are indexed first, how many start at once, which are kept up.

Knows the set of servers and their order of business; never knows what their tools mean or who calls them.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup

from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.connection import Era
from toolcrib.downstream.lifecycle import Downstream, Surroundings
from toolcrib.downstream.start_queue import StartQueue
from toolcrib.downstream.states import ServersNow, State, Status
from toolcrib.errors import StartFailed

_KEEP_UP_PAUSE_S = 1.0
_SLOT_S = 2.0
"""How long a start keeps others waiting for their turn: one that hangs, or downloads, goes on without its slot."""

_SILENT_S = 5.0
"""After how long a first start is noted as silent: no later start waits for that server until it has answered."""

_FIRST_RETRIES_S = (15.0, 30.0, 60.0, 120.0, 240.0)
"""Pauses before a server that was never listed is tried again by itself: what failed may have been a download."""


class Fleet:
    """The configured servers by key. Make one with :func:`open_fleet`."""

    def __init__(self, servers: Mapping[str, Downstream], parallel_starts: int, tasks: TaskGroup) -> None:
        self._servers, self._tasks = servers, tasks
        self._first_listing: dict[str, anyio.Event] = {}
        self._listing: set[str] = set()
        self._silent = frozenset[str]()
        self._starts = StartQueue(parallel_starts)

    def __getitem__(self, key: str) -> Downstream:
        """Return a server; KeyError if it is not configured."""
        return self._servers[key]

    def __contains__(self, key: str) -> bool:
        return key in self._servers

    def statuses(self) -> dict[str, Status]:
        """Return every server's state."""
        return {key: server.status for key, server in self._servers.items()}

    def now(self) -> ServersNow:
        """Return every server's state, and how far those are that were never listed."""
        statuses, first = self.statuses(), set(self.listing_first)
        unlisted = {key: each for key, server in self._servers.items() if (each := server.arriving)}
        on_their_way = {key for key in unlisted if key in first or statuses[key].state is State.STARTING}
        return ServersNow(statuses, unlisted.keys(), {key: unlisted[key] for key in unlisted if key in on_their_way})

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to tell of any: none has failed, and none is on its way for the first time."""
        return not self.listing_first and not any(
            server.status.state is State.FAILED or (server.was_never_listed and server.status.state is State.STARTING)
            for server in self._servers.values()
        )

    def begin(self, unlisted: Iterable[str], stale: Iterable[str], silent: Collection[str] = ()) -> None:
        """Start in the background what has to be listed, never-listed servers first, and what is to be kept up.

        Servers in ``unlisted`` were never listed: searches and calls may wait for them (:meth:`first_listing`). Those
        that are ``silent`` too gave no answer at an earlier start: they come last, and are not :attr:`awaited`.
        """
        self._silent = frozenset(silent)
        for key in sorted(unlisted, key=self._silent.__contains__):
            self._first_listing[key] = anyio.Event()
            self._servers[key].was_never_listed = True
            self._tasks.start_soon(self._list_first, key)
        for key in stale:
            self._tasks.start_soon(self._list, key)
        for key, server in self._servers.items():
            if server.settings.options.start == "eager":
                self._tasks.start_soon(self._keep_up, key)

    @property
    def listing_first(self) -> list[str]:
        """Servers whose very first listing is under way."""
        return [key for key, listed in self._first_listing.items() if not listed.is_set()]

    @property
    def listing(self) -> set[str]:
        """Servers that are being listed, or wait for their turn."""
        return {*self._listing, *self.listing_first}

    @property
    def awaited(self) -> list[str]:
        """Those of them whose answer may be waited for."""
        return [key for key in self.listing_first if key not in self._silent]

    def prefer(self, keys: Collection[str]) -> None:
        """Let these servers be started before others that wait for their turn."""
        self._starts.prefer(keys)

    async def first_listing(self, keys: Iterable[str]) -> None:
        """Wait until none of these servers is being listed for the first time. Failed ones are not waited for."""
        for key in keys:
            if listed := self._first_listing.get(key):
                await listed.wait()

    async def try_again(self, key: str) -> None:
        """Start a server that failed before it was ever listed, unless it pauses; wait for it a little."""
        server = self._servers[key]
        if server.was_never_listed and server.status.state is State.FAILED:
            with suppress(StartFailed), anyio.move_on_after(_SILENT_S):
                await server.connection(wanted=False)

    async def list_all(self) -> dict[str, Status]:
        """List every server that nobody uses, and return what became of each."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.first_listing, list(self._first_listing))
            for key in self._servers.keys() - self._first_listing.keys():
                tasks.start_soon(self._list, key)
        return self.statuses()

    def list_again(self, keys: Iterable[str]) -> None:
        """List these servers in the background, those that are up included."""
        for key in keys:
            self._tasks.start_soon(self._list_again, key)

    async def _list_again(self, key: str) -> None:
        server = self._servers[key]
        if server.status.state is State.READY:
            with suppress(StartFailed):
                await server.list_again()
        else:
            await self._list(key)

    async def _list_first(self, key: str) -> None:
        """List a server for the first time; where that fails, nobody waits for it any longer, and it is tried again."""
        try:
            await self._list(key)
        finally:
            self._first_listing[key].set()
        for pause_s in _FIRST_RETRIES_S:
            if not self._servers[key].was_never_listed:
                return
            await anyio.sleep(pause_s)
            await self._list(key)

    async def _list(self, key: str) -> None:
        """Start a server so that it is listed; a lazy one goes to sleep again by itself."""
        server = self._servers[key]
        wanted = server.settings.options.start == "eager"
        self._listing.add(key)
        # A failure's state and reason are kept and told by the server itself.
        try:
            with suppress(StartFailed):
                async with self._starts.turn(key):
                    with anyio.move_on_after(_SLOT_S) as slot:
                        await server.connection(wanted=wanted)
                if slot.cancelled_caught:  # it goes on starting; only the wait for it has ended
                    with anyio.move_on_after(_SILENT_S - _SLOT_S) as patience:
                        await server.connection(wanted=wanted)
                    if patience.cancelled_caught:
                        server.note_silence(_SILENT_S)
                        await server.connection(wanted=wanted)
        finally:
            self._listing.discard(key)

    async def _keep_up(self, key: str) -> None:
        server = self._servers[key]
        while True:
            with suppress(StartFailed):
                async with self._starts.turn(key):
                    connection = await server.connection()
                await connection.closed.wait()
            await anyio.sleep(_KEEP_UP_PAUSE_S)


@asynccontextmanager
async def open_fleet(
    servers: Mapping[str, ServerSettings], eras: Mapping[str, Era], surroundings: Surroundings
) -> AsyncGenerator[Fleet]:
    """Run a fleet; when left, every connection is closed and every process is gone."""
    async with anyio.create_task_group() as tasks:
        downstreams = {
            key: Downstream(settings, eras.get(key), surroundings, tasks) for key, settings in servers.items()
        }
        yield Fleet(downstreams, surroundings.limits.parallel_starts, tasks)
        tasks.cancel_scope.cancel()


def failed(statuses: Mapping[str, Status]) -> dict[str, str]:
    """Return the servers that are down, with the reasons."""
    return {key: status.reason for key, status in statuses.items() if status.state is State.FAILED}
