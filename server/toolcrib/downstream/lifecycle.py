"""The lifecycle of one downstream: asleep, starting, ready, failed; started once for all waiters, always ended.

One task owns a connection from its first byte to its last; all others only wait for it or call through it.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from toolcrib.auth.logins import Logins
from toolcrib.base.errors import StartFailed
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.downstream.calls import Calls
from toolcrib.downstream.connection import (
    Connection,
    DiedOnProbe,
    Era,
    IngestList,
    LiveList,
    LiveTools,
    connect,
    rest_s,
)
from toolcrib.downstream.failures import failure_of, login_needed, silence_of
from toolcrib.downstream.isolation import SHARED, Isolation, Scope
from toolcrib.downstream.offers import LiveOffers, OfferSink, Subscriptions
from toolcrib.downstream.programs import may_download
from toolcrib.downstream.relays import Call, Relays
from toolcrib.downstream.sessions import Renewal
from toolcrib.downstream.states import Arriving, Failure, Spoken, State, Status
from toolcrib.downstream.suspended import SuspendedCalls
from toolcrib.downstream.transport import Connector
from toolcrib.policy.requests import Request
from toolcrib.policy.sessions import Session

_log = logging.getLogger(__name__)

_FIRST_S = 0.5


class Backoff:
    """When the next start is due. ``now`` is a clock in seconds that never jumps."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failures = 0
        self._due = -math.inf

    @property
    def pause_s(self) -> float:
        """Seconds until the next start is due; not more than 0 where it is due now."""
        return self._due - self._now()

    def note_failure(self, most_s: float, jitter: float) -> None:
        """Have the next start wait up to ``most_s`` seconds; ``jitter``, in [0, 1), spreads the last half of it."""
        self._failures += 1
        longest = min(_FIRST_S * 2.0 ** min(self._failures - 1, 16), most_s)
        self._due = self._now() + longest * (0.5 + jitter / 2)

    def note_success(self) -> None:
        """Have the next failure count as the first one."""
        self._failures = 0


UsesConnection = Callable[[Session], bool]
"""Returns whether a session uses one connection to a server."""


def _ignore_announced(_server: str, _uses: UsesConnection) -> None:
    """Ignore that a server has announced another list of tools."""


@dataclass(frozen=True, slots=True)
class DownstreamDependencies:
    """What every downstream needs of the program.

    ``ingest`` indexes a server's raw tool list, before the server counts as ready. ``compare`` takes the list of a
    connection of some callers for that connection alone, and returns what is indexed besides. ``isolation`` decides
    who shares a connection. ``suspended_calls`` has the calls of all servers that wait for answers. ``jitter`` returns
    a random number in [0, 1). ``offers`` receives resources and prompts. Without ``logins`` no server gets a token.
    ``announced`` gets the key of a server that has announced another list of tools, after that was read, and which
    sessions use the connection on which it did.
    """

    limits: LimitsSection
    connector: Connector
    ingest: IngestList
    state_changed: Callable[[str, Status], None]
    jitter: Callable[[], float]
    compare: Callable[[ServerSettings, list[Any]], Awaitable[tuple[LiveTools, LiveTools]]]
    isolation: Isolation
    suspended_calls: SuspendedCalls
    offers: OfferSink = field(default_factory=OfferSink)
    logins: Logins | None = None
    announced: Callable[[str, UsesConnection], None] = _ignore_announced


_DOWNLOAD_S = 3.0
"""An installed package has usually started by then."""

_DRAIN_S = 1.0
_SHORT_PAUSE_S = 1.0
"""A caller waits for the next start if the pause is at most this long; otherwise it gets the reason immediately."""


@dataclass(slots=True)
class _Start:
    """One attempt to start, shared by all waiters. Unless ``wanted``, the server is only listed.

    It begins when ``before`` is set, and sets ``over`` for the next one.
    """

    wanted: bool
    before: anyio.Event
    over: anyio.Event = field(default_factory=anyio.Event)
    deadline: float = math.inf
    done: anyio.Event = field(default_factory=anyio.Event)
    connection: Connection | None = None
    error: StartFailed | None = None


class Downstream:
    """One configured server. ``tasks`` will own its connections.

    ``was_never_listed``: nothing is known of it yet, so its start may have to download it first. ``scope`` says whose
    connections they are; ``calls`` are made on the live one.
    """

    def __init__(
        self,
        settings: ServerSettings,
        era: Era | None,
        dependencies: DownstreamDependencies,
        tasks: anyio.abc.TaskGroup,
        scope: Scope = SHARED,
    ) -> None:
        self.settings = settings
        self.scope = scope
        self.status = Status(State.SLEEPING, since=anyio.current_time())
        self.was_never_listed = False
        announced = partial(dependencies.announced, settings.key, self._is_used_by)
        self._list = LiveList(settings, dependencies.ingest, dependencies.limits.list_pages, era, announced)
        self._dependencies, self._tasks = dependencies, tasks
        self._clean = settings.redactor.clean
        self._renewal = Renewal(anyio.current_time)
        self._owned, self._last_over = 0, anyio.Event()
        self._last_over.set()
        self._has_left, self._drain_s = False, _DRAIN_S
        self._start: _Start | None = None
        self._backoff = Backoff(anyio.current_time)
        self.offers = LiveOffers(settings, dependencies.offers, dependencies.limits)
        is_exclusive = dependencies.isolation.is_exclusive(scope)
        self._relays = Relays(settings, dependencies.limits, scope.declared, is_exclusive=is_exclusive)
        self.calls = Calls(
            settings,
            dependencies.limits,
            live_list=self._list,
            relays=self._relays,
            suspended_calls=dependencies.suspended_calls,
            tasks=tasks,
            connection=self.connection,
            note_login=self._note_login,
        )
        self.subscriptions = Subscriptions(self.calls, self.connection, self._live_connection)

    @property
    def era(self) -> Era | None:
        """The era of its last connection; None if unknown."""
        return self._list.era

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress on it."""
        return self._is_unused and self.status.state is not State.STARTING

    @property
    def asks_apart(self) -> bool:
        """Whether the server, over HTTP, has asked by a stream that does not say which request it is about."""
        return self._relays.asks_apart

    @property
    def starts_for_call(self) -> bool:
        """Whether it is being started, and not only to be listed."""
        return self._start is not None and self._start.connection is None and self._start.wanted

    def change(self, dependencies: DownstreamDependencies) -> None:
        """Switch to another environment."""
        self._dependencies = dependencies
        self.offers.change(dependencies.offers)

    def leave(self) -> None:
        """Close the connection permanently, once the calls in progress have ended."""
        self._has_left, self._drain_s = True, self._dependencies.limits.call_max_s
        self.stop()

    def stop(self) -> None:
        """Release the connection: calls in progress get a moment to end, and the next call starts a new one."""
        start = self._start
        if start is None:
            return
        start.wanted = False
        self._end(start)
        if start.connection is not None:
            start.connection.retired.set()

    @property
    def live(self) -> LiveTools:
        """The tools of the last list of a live connection."""
        return self._list.tools

    def open_call(
        self,
        request: Request,
        method: str = "",
        params: JsonObject | None = None,
        *,
        target: str = "",
        fingerprint: str | None = None,
    ) -> Call:
        """Return a call on account of a request, to be opened by ``with`` before the server is started for it."""
        return Call(self._relays, request, method, params or {}, target or method, fingerprint)

    async def connection(self, *, wanted: bool = True) -> Connection:
        """Return the live connection; start the server first if it is not up.

        ``wanted`` false is for indexing: a lazy server goes to sleep again once it has been listed.

        Raises:
            StartFailed: it cannot be started; the text says why, and when the next try is due.

        """
        start = self._current()
        if start is None:
            await self._wait_for_turn()
            start = self._current()
        if self._has_left:
            key = self.settings.key
            raise StartFailed(key, f"The server {key!r} was changed or removed in the config. Nothing ran.")
        if start is None:
            start = self._start = _Start(wanted, self._last_over)
            self._last_over = start.over
            self._tasks.start_soon(self._own, start)
        # A call may join a start that was only for listing: the server then stays up.
        start.wanted = start.wanted or wanted
        if start.connection is None:
            await start.done.wait()
        if start.connection is None:
            # Where all ends at once, a start may end before those who wait for it: they are told of no error.
            await anyio.lowlevel.checkpoint_if_cancelled()
            assert start.error is not None
            raise start.error
        return start.connection

    def _current(self) -> _Start | None:
        """Return the start under way or the live one; none if the connection has ended meanwhile."""
        start = self._start
        if start is not None and start.connection is not None and start.connection.is_over:
            self._end(start)
        return self._start

    async def _wait_for_turn(self) -> None:
        """Wait briefly after failures; refuse immediately during a longer pause, or if a login is required."""
        if self.status.state is State.NEEDS_LOGIN:
            if self._dependencies.logins and await self._dependencies.logins.has_changed(self.settings):
                return
            if self._backoff.pause_s > 0:
                raise self._start_failed()
        pause = self._backoff.pause_s
        if pause > _SHORT_PAUSE_S:
            raise self._start_failed()
        if pause > 0:
            await anyio.sleep(pause)

    async def notify(self, method: str) -> None:
        """Forward a notification of its client to the server, if it is running."""
        if (start := self._current()) and start.connection:
            await start.connection.notify(method)

    @property
    def _is_unused(self) -> bool:
        return not self.calls.in_flight and not self.subscriptions.are_needed

    def _live_connection(self) -> Connection | None:
        start = self._current()
        return start and start.connection

    async def _own(self, start: _Start) -> None:
        """Own one connection for its whole life."""
        # A new start waits until the last connection is released: no two processes of a server run at a time.
        await start.before.wait()
        start.deadline = anyio.current_time() + self._start_timeout_s
        self._owned += 1
        try:
            try:
                await self._live(start, self._eras())
            except* DiedOnProbe:
                if self._start is start:
                    await self._live(start, ("legacy",))
        except* Exception as failures:  # barrier: a server's task; one bad server never takes others down
            self._fail(start, failure_of(failures, self.settings))
        finally:
            self._owned -= 1
            self._hand_over(start)

    def _hand_over(self, start: _Start) -> None:
        """Let the next start begin, to which the state of the server belongs from now on."""
        if start.over.is_set():
            return
        self._end(start)
        if self.status.state in (State.STARTING, State.READY):
            # It was stopped during its start, the fleet is closed, or why the server went away was not known in time:
            # whoever reads the events would take it for one that is up.
            self._set(State.SLEEPING)
        self.offers.first.set()
        start.over.set()
        if self.subscriptions.are_needed:
            self._tasks.start_soon(self.subscriptions.revive)

    def _eras(self) -> Sequence[Era]:
        """Return the eras to try: the configured one, or both, beginning with the one in which all can be asked."""
        if self.settings.options.protocol != "auto":
            return (self.settings.options.protocol,)
        is_legacy = self.scope.prefers == "legacy" or self._list.era == "legacy"
        return ("legacy", "modern") if is_legacy else ("modern", "legacy")

    async def _live(self, start: _Start, eras: Sequence[Era]) -> None:
        """Connect, list, serve, and release; every wait except that for the end of the connection has a deadline."""
        limit = "limits.first_start_timeout_s" if self._may_download else "its connect_timeout_s"
        silent = f"it did not answer within {self._start_timeout_s:g} s ({limit})"
        self._set(State.STARTING)
        if self._owned == 1:
            # A new connection has nothing to do with requests that were given up on the last one.
            self._relays.forget()
        with anyio.CancelScope(deadline=start.deadline) as bounded:
            async with self._dependencies.connector(self.settings, self._dependencies.limits) as streams:
                try:
                    async with connect(streams, eras, self._relays, self.scope.declared, self._renewal) as connection:
                        connection.announcements.on_updated = self.subscriptions.notify_listeners
                        await self._list.read(connection)
                        self.was_never_listed = False
                        # The start is over; from here on each request has a deadline of its own.
                        bounded.deadline = math.inf
                        await self._serve(start, connection, self._spoken(connection, eras))
                        bounded.deadline = anyio.current_time() + self._dependencies.limits.close_timeout_s
                        known = await streams.explain() if connection.closed.is_set() else ""
                        if self.status.state is not State.NEEDS_LOGIN and not start.over.is_set():
                            self._set(State.SLEEPING, self._clean(known))
                except* DiedOnProbe:
                    raise
                except* Exception as failures:  # barrier: a server's task; reported with what the streams know
                    self._fail(start, failure_of(failures, self.settings, await streams.explain()))
                finally:
                    if bounded.cancel_called and self._start is start:
                        with anyio.CancelScope(shield=True):
                            self._fail(start, silence_of(self.settings, silent, await streams.explain()))
        if bounded.cancelled_caught:
            self._fail(start, silence_of(self.settings, silent))

    @property
    def arriving(self) -> Arriving | None:
        """Progress of the first listing of a server that was never listed; None for any other."""
        if not self.was_never_listed:
            return None
        if self.status.state is not State.STARTING:
            return Arriving(None, is_download=False)
        seconds = anyio.current_time() - self.status.since
        return Arriving(seconds, is_download=seconds >= _DOWNLOAD_S and may_download(self.settings.target))

    @property
    def _may_download(self) -> bool:
        """Whether the next start may take longer than others."""
        longer = self._dependencies.limits.first_start_timeout_s > self.settings.options.connect_timeout_s
        return self.was_never_listed and longer and isinstance(self.settings.target, StdioTarget)

    @property
    def _start_timeout_s(self) -> float:
        limits, options = self._dependencies.limits, self.settings.options
        return limits.first_start_timeout_s if self._may_download else options.connect_timeout_s

    async def list_again(self) -> None:
        """List the live connection's tools once more.

        Raises:
            StartFailed: it went away, or its list cannot be read.

        """
        await self._list.read_again(await self.connection())

    def _is_used_by(self, session: Session) -> bool:
        isolation = self._dependencies.isolation
        if isolation.one_client or (self.scope.session and self.scope.session == session.label):
            return True
        return isolation.scope(self.settings, self.era, session) == self.scope

    def _spoken(self, connection: Connection, tried: Sequence[Era]) -> Spoken:
        """Return what is spoken on a connection, and why; ``tried`` are the eras in the order in which they were."""
        if self.settings.options.protocol != "auto":
            reason = f"set by servers.{self.settings.key}.protocol"
        elif connection.era != tried[0] or len(tried) == 1:
            reason = "the server speaks no other"
        elif connection.era == "modern":
            reason = "the newest"
        elif self.scope.prefers == "legacy":
            reason = "in it the server can ask its client"
        else:
            reason = "the server spoke no other when it was listed"
        return Spoken(connection.session.protocol_version or "", reason)

    async def _serve(self, start: _Start, connection: Connection, spoken: Spoken) -> None:
        """Let callers use the connection until it ends or is no longer wanted."""
        self._backoff.note_success()
        self.calls.last_use = anyio.current_time()
        start.connection = connection
        start.done.set()
        self._set(State.READY, spoken=spoken)
        if not start.wanted:
            await self.offers.read(connection)
        # From the first, or meanwhile. It may have been stopped since; a call that had joined goes on all the same.
        if start.wanted or connection.is_used:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.offers.follow, connection)
                tasks.start_soon(self.subscriptions.renew, connection)
                tasks.start_soon(self._refresh, connection)
                tasks.start_soon(self._retire, connection, tasks.cancel_scope)
                if self._may_sleep:
                    tasks.start_soon(self._sleep_when_idle, start, tasks.cancel_scope)
                await connection.closed.wait()
                tasks.cancel_scope.cancel()
        if connection.is_lost:
            await self._part(start, connection)
        self._end(start)

    async def _part(self, start: _Start, connection: Connection) -> None:
        """Hand over, and let the calls under way end in the session that was lost to others."""
        self._hand_over(start)
        with anyio.move_on_after(self._dependencies.limits.call_max_s):
            await connection.wait_until_unused()

    async def _refresh(self, connection: Connection) -> None:
        """List again soon after the server announces a change, with a bounded share of the time."""
        pause_s = rest_s()
        while True:
            await connection.announcements.list_changed.wait()
            await anyio.sleep(pause_s)
            connection.announcements.list_changed = anyio.Event()
            began = anyio.current_time()
            try:
                if not connection.is_listed:  # else a call could not wait, and had the list read
                    await self._list.read_again(connection)
                self._set(State.READY, spoken=self.status.spoken)
            except StartFailed as error:
                self._set(State.READY, str(error), spoken=self.status.spoken)
            pause_s = rest_s(anyio.current_time() - began)

    async def _retire(self, connection: Connection, serving: anyio.CancelScope) -> None:
        """Close a connection that accepts no more calls, once those in progress were notified."""
        await connection.retired.wait()
        if not connection.is_lost:
            with anyio.move_on_after(self._drain_s):
                await connection.wait_until_unused()
        serving.cancel()

    @property
    def _may_sleep(self) -> bool:
        """Whether it is stopped when idle; a server of one session lasts as long as the session."""
        options = self.settings.options
        is_own = options.isolation == "session" and self._dependencies.isolation.is_exclusive(self.scope)
        return bool(options.idle_stop_s) and options.start == "lazy" and not is_own

    async def _sleep_when_idle(self, start: _Start, serving: anyio.CancelScope) -> None:
        idle_s = self.settings.options.idle_stop_s
        while not self._is_unused or anyio.current_time() < self.calls.last_use + idle_s:
            await anyio.sleep_until(max(self.calls.last_use, anyio.current_time() - idle_s / 2) + idle_s)
        # In this order: nobody is given a connection that is about to be closed.
        self._end(start)
        serving.cancel()

    def note_silence(self, seconds: float) -> None:
        """Report that the first start of a server takes long, if it does."""
        if self.was_never_listed and self.status.state is State.STARTING:
            silence = silence_of(self.settings, f"it had not answered {seconds:g} s after it was started")
            self.status = replace(self.status, reason=silence.reason, failure=silence)
            self._dependencies.state_changed(self.settings.key, self.status)

    def _end(self, start: _Start) -> None:
        """Make the next caller start again, and wake all who still wait for this start."""
        if self._start is start:
            self._start = None
        if not start.done.is_set():
            # Set before the event, because whoever waits for the start reads it next.
            start.error = self._start_failed()
            start.done.set()

    def _fail(self, start: _Start, failure: Failure) -> None:
        """Record why a start or a connection failed; the first failure of the latest one counts."""
        is_cancelled = anyio.current_effective_deadline() == -math.inf
        if is_cancelled or self._start is not start:
            # What is closed with all else has not failed, however it ends.
            _log.debug("the end of a connection to %s: %s", self.settings.key, self._clean(failure.reason))
            return
        self._note_failure(failure)
        self._end(start)

    def _note_failure(self, failure: Failure) -> None:
        self._backoff.note_failure(self._dependencies.limits.backoff_max_s, self._dependencies.jitter())
        told = replace(failure, reason=self._clean(failure.reason))
        self._set(State.NEEDS_LOGIN if failure.needs_login else State.FAILED, told.reason, told)

    def _note_login(self, connection: Connection, failure: Failure) -> None:
        """Record that the running server requires a login, unless another connection is in use by now."""
        start = self._start
        if start is not None and start.connection is connection:
            self._note_failure(failure)
            self._end(start)
            connection.lose()

    def _start_failed(self) -> StartFailed:
        key, failure = self.settings.key, self.status.failure or Failure(self.status.reason or "it was stopped")
        if failure.needs_login:
            return login_needed(self.settings, failure)
        pause_s = math.ceil(max(1.0, self._backoff.pause_s))
        again = f"A call in {pause_s} s tries again; other servers are not affected."
        return StartFailed(key, f"The server {key!r} could not be started: {failure} {again}")

    def _set(
        self, state: State, reason: str = "", failure: Failure | None = None, spoken: Spoken | None = None
    ) -> None:
        status = Status(state, reason, anyio.current_time(), failure, spoken)
        if status != self.status:
            self.status = status
            self._dependencies.state_changed(self.settings.key, status)
