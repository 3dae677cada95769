"""The calls of one server: each sent once, on a live connection that lists the tool, and bounded in number and time.

Knows deadlines and what may be sent again; never knows callers or policies, nor how a server is started.
"""

import math
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.circuit import Circuit
from toolcrib.downstream.connection import Call, Connection, Outdated, Progress, Undelivered
from toolcrib.downstream.live_list import LiveList
from toolcrib.downstream.progress import Relay
from toolcrib.errors import CallTimeout, ConnectionLost, DownstreamError
from toolcrib.model import JsonObject

Send = Callable[[Connection, Progress | None], Awaitable[JsonObject]]
"""Sends one request on a connection and waits for its raw result."""


class Calls:
    """What is called on a server. ``connection`` returns the live connection, started if it is not up.

    ``in_flight`` counts the calls under way; ``last_use`` is when the last one ended, on anyio's clock.
    """

    def __init__(
        self,
        settings: ServerSettings,
        limits: LimitsSection,
        live_list: LiveList,
        connection: Callable[[], Awaitable[Connection]],
    ) -> None:
        self._settings, self._limits, self._list, self._connection = settings, limits, live_list, connection
        self._redactor = settings.redactor
        self._clean = self._redactor.clean
        self._capacity = anyio.Semaphore(limits.calls_in_flight, fast_acquire=True)
        self._circuit = Circuit(settings.key, limits, anyio.current_time)
        self.in_flight = 0
        self.last_use = -math.inf

    def check(self) -> None:
        """Do nothing where the server may be called.

        Raises:
            CircuitOpen: it fails call after call, and is not called for a while.

        """
        self._circuit.check()

    async def run(self, call: Call, on_progress: Progress | None) -> JsonObject:
        """Call a tool on the live connection, once, within the server's deadline, which progress restarts.

        A call that surely did not reach the server is sent again, once, on a new connection with the same tool.

        Raises:
            StartFailed: the server cannot be started; nothing ran.
            CircuitOpen: it fails call after call, and is not called for a while; nothing ran.
            CallTimeout: no answer in time; the call may have run and is never repeated.
            ConnectionLost: the server went away; the call may have run.
            DownstreamError: the server's own error.
            Outdated: the server lists the tool otherwise by now; nothing ran.

        """

        async def send(connection: Connection, relay: Progress | None) -> JsonObject:
            await self._list.settle(connection)
            if self._list.tools.get(call.name) != call.fingerprint:
                raise Outdated
            return await connection.call_tool(call, relay)

        return await self.deliver(call.name, send, on_progress)

    async def request(self, method: str, params: JsonObject, on_progress: Progress | None) -> JsonObject:
        """Send any other request as :meth:`run` sends a call, and return the raw result.

        Raises:
            StartFailed, CallTimeout, ConnectionLost, DownstreamError: as for :meth:`run`.

        """

        async def send(connection: Connection, relay: Progress | None) -> JsonObject:
            return await connection.request(method, {**params}, relay)

        return await self.deliver(method, send, on_progress)

    async def deliver(self, what: str, send: Send, on_progress: Progress | None = None) -> JsonObject:
        """Have something sent, and sent again if it surely did not reach the server; ``what`` it is stands in errors.

        Raises:
            StartFailed, CallTimeout, ConnectionLost, DownstreamError, Outdated: as for :meth:`run`.

        """
        with self._circuit.guarding():
            return await self._delivered(what, send, on_progress)

    async def _delivered(self, what: str, send: Send, on_progress: Progress | None) -> JsonObject:
        try:
            return await self._answer(await self._connection(), what, send, on_progress)
        except Undelivered:
            connection = await self._connection()
        try:
            return await self._answer(connection, what, send, on_progress)
        except Undelivered as error:
            raise self._not_run(what, str(error)) from None
        except Outdated:
            raise self._not_run(what, "it has started anew, and the tool has changed") from None

    async def _answer(self, connection: Connection, what: str, send: Send, on_progress: Progress | None) -> JsonObject:
        """Send it and wait for its result, no longer than the deadline allows."""
        timeout_s, call_max_s = self._settings.options.call_timeout_s, self._limits.call_max_s
        ends_at = anyio.current_time() + call_max_s
        self.in_flight += 1
        try:
            with anyio.move_on_after(min(timeout_s, call_max_s)) as patience:
                relay = Relay(patience, timeout_s, ends_at, on_progress) if on_progress is not None else None
                async with self._capacity:
                    result = await send(connection, relay)
                if relay:
                    await relay.settle()
                # In a thread: it may be long. What is no error is passed on as it is.
                is_error = bool(result.get("isError"))
                return await anyio.to_thread.run_sync(self._redactor.cleaned, result) if is_error else result
        except ConnectionLost as error:
            raise await self._lost(connection, str(error)) from None
        except DownstreamError as error:
            raise DownstreamError(error.code, self._clean(str(error)), self._redactor.cleaned(error.data)) from None
        finally:
            self.in_flight -= 1
            self.last_use = anyio.current_time()
        waited_s = timeout_s if anyio.current_time() < ends_at else call_max_s
        raise CallTimeout(
            self._settings.key,
            f"The server {self._settings.key!r} did not answer {what!r} within {waited_s:g} s. "
            "The call may have run: check before you repeat it.",
        )

    async def _lost(self, connection: Connection, reason: str) -> ConnectionLost:
        known = self._clean(await connection.explain() or reason)
        return ConnectionLost(
            self._settings.key,
            f"The server {self._settings.key!r} went away during the call ({known}). "
            "The call may have run: check before you repeat it. The next call starts or reaches the server anew.",
        )

    def _not_run(self, what: str, reason: str) -> ConnectionLost:
        return ConnectionLost(
            self._settings.key,
            f"The server {self._settings.key!r} did not take the call of {what!r}: {self._clean(reason)}. "
            "Nothing ran; search for the tool again, then repeat the call.",
        )
