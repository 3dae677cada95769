"""Requests of callers to one server: each sent once, on a live connection, bounded in number and time."""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp_types import INTERNAL_ERROR

from toolcrib.base.errors import CallTimeout, CircuitOpen, ConnectionLost, DownstreamError, LoginNeeded, Unavailable
from toolcrib.base.handles import new_handle
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.connection import Challenged, Connection, LiveList, Outdated, Undelivered
from toolcrib.downstream.failures import login_failure, login_needed
from toolcrib.downstream.relays import Call, ProgressRelay, Relays, Send
from toolcrib.downstream.states import Failure
from toolcrib.downstream.suspended import SuspendableWork, SuspendedCall, SuspendedCalls, refused, same_request
from toolcrib.policy.requests import OWN_REQUEST, QUESTIONS

if TYPE_CHECKING:
    from toolcrib.downstream.tasks import ServerTask


class Circuit:
    """Open after ``limits.circuit_failures`` failures in a row: for ``limits.circuit_pause_s``, then twice as long.

    A failure is a call without an answer. An error that the server answers with is none: it works. ``now`` is a clock
    in seconds that never jumps.
    """

    def __init__(self, server: str, limits: LimitsSection, now: Callable[[], float]) -> None:
        self._server, self._limits, self._now = server, limits, now
        self._failures = self._openings = 0
        self._reason = ""
        self._opens_at = -math.inf
        self._is_tried = False

    def check(self) -> None:
        """Do nothing where a call would be let through.

        Raises:
            CircuitOpen: the server is not to be called now.

        """
        if self._failures < self._limits.circuit_failures:
            return
        pause_s = self._opens_at - self._now()
        if pause_s <= 0 and not self._is_tried:
            return
        again = f"it is tried again in {math.ceil(pause_s)} s" if pause_s > 0 else "it is being tried right now"
        raise CircuitOpen(
            self._server,
            f"The server {self._server!r} is not called, because its last {self._failures} calls got no answer: "
            f"{again}. Nothing ran. The last one: {self._reason}",
        )

    def guarding(self) -> "Guard":
        """Let one call through, which is made in the block, and note how it ends.

        Raises:
            CircuitOpen: the server is not to be called now; nothing ran.

        """
        self.check()
        is_try = self._failures >= self._limits.circuit_failures
        self._is_tried = self._is_tried or is_try
        return Guard(self, is_try=is_try)

    def note_end(self, error: BaseException | None, *, is_try: bool) -> None:
        """Note how a call has ended that was let through: with ``error``, unless that is None."""
        if error is None or isinstance(error, DownstreamError):
            self._failures = self._openings = 0
        elif isinstance(error, CallTimeout | ConnectionLost):
            self._note_failure(str(error), is_try=is_try)
        self._is_tried = self._is_tried and not is_try

    def _note_failure(self, reason: str, *, is_try: bool) -> None:
        self._failures += 1
        self._reason = reason
        # Calls that were under way when it opened fail too; they say nothing new.
        if is_try or self._failures == self._limits.circuit_failures:
            pause_s = min(self._limits.circuit_pause_s * 2.0 ** min(self._openings, 16), self._limits.backoff_max_s)
            self._openings += 1
            self._opens_at = self._now() + pause_s


class Guard:
    """One call that was let through. A class and not a generator, because every call passes here."""

    __slots__ = ("_circuit", "_is_try")

    def __init__(self, circuit: Circuit, *, is_try: bool) -> None:
        self._circuit, self._is_try = circuit, is_try

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._circuit.note_end(error, is_try=self._is_try)


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.25
"""Pauses before a request is sent again of which the server wants to know nothing."""

Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]
SendAgain = Callable[[JsonObject], Awaitable[JsonObject]]


def asks_for_input(result: JsonObject) -> bool:
    """Return whether a result is only interim: the server asks for input, or for a later retry."""
    return result.get("resultType") == "input_required"


async def answer_questions(result: JsonObject, ask: Ask, send: SendAgain, *, most: int) -> JsonObject:
    """Return the result that a request comes to in the end.

    ``result`` is the first one. ``ask`` asks the caller; ``send`` sends the request again with answers.

    Raises:
        MCPError: a question was refused, or the server goes on asking after ``most`` rounds.

    """
    pause_s = _FIRST_PAUSE_S
    for _ in range(most):
        if not asks_for_input(result):
            return result
        retry = {"requestState": result["requestState"]} if "requestState" in result else {}
        if questions := as_object(result.get("inputRequests")):
            retry["inputResponses"] = await _answers(questions, ask)
            pause_s = _FIRST_PAUSE_S
        else:
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        result = await send(retry)
    if not asks_for_input(result):
        return result
    raise MCPError(types.INTERNAL_ERROR, f"it asked {most} times and was not done (limits.input_rounds).")


async def _answers(questions: JsonObject, ask: Ask) -> JsonObject:
    """Ask all of them at once; the first that is refused ends them all."""
    answers: JsonObject = {}
    refusals: list[MCPError] = []

    async def ask_one(tasks: anyio.abc.TaskGroup, name: str) -> None:
        question = as_object(questions[name])
        try:
            answers[name] = await ask_by_method(question, ask)
        except MCPError as error:
            refusals.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for name in questions:
            tasks.start_soon(partial(ask_one, tasks, name))
    if refusals:
        raise refusals[0]
    return answers


async def ask_by_method(question: JsonObject, ask: Ask) -> JsonObject:
    """Return the answer to one question of a result.

    Raises:
        MCPError: nobody can be asked that; or as ``ask`` does.

    """
    method = question.get("method")
    if method not in QUESTIONS:
        raise MCPError(types.METHOD_NOT_FOUND, f"it cannot be asked {method!r}.")
    params = as_object(question.get("params"))
    if params.get("mode") == "url":  # 2026-07-28 has no name for it any more; the handshake era requires one
        params = {"elicitationId": new_handle(), **params}
    return await ask(str(method), params)


SendForTask = Callable[..., Awaitable[JsonObject]]


def _load_send_for_task() -> SendForTask:
    # In a thread, since it reads files; for servers that make tasks alone, which are few.
    from toolcrib.downstream.tasks import send_for_task  # noqa: PLC0415

    return send_for_task


class BecameTask(dict[str, Any]):
    """Stands in the place of the result of a call that has become a task: that result is still to be waited for."""

    def __init__(self, task: "ServerTask") -> None:
        self.task = task


class Calls:
    """The calls of one server.

    ``connection`` returns the live one, and starts the server first if it is not up. ``note_login`` is called when the
    server requires a login. ``circuit`` says whether it may be called. ``in_flight`` counts the calls under way;
    ``last_use`` is when the last one ended, on anyio's clock.
    """

    def __init__(
        self,
        settings: ServerSettings,
        limits: LimitsSection,
        *,
        live_list: LiveList,
        relays: Relays,
        suspended_calls: SuspendedCalls,
        tasks: TaskGroup,
        connection: Callable[[], Awaitable[Connection]],
        note_login: Callable[[Connection, Failure], None],
    ) -> None:
        self._settings, self._limits = settings, limits
        self._live_list, self._relays = live_list, relays
        self._connection, self._note_login = connection, note_login
        self._redactor = settings.redactor
        self._clean = self._redactor.clean
        # Calls beyond the limit wait here, within their own deadlines.
        self._capacity = anyio.Semaphore(limits.calls_in_flight, fast_acquire=True)
        self._suspendable = SuspendableWork(suspended_calls, tasks)
        self._send_for_task: SendForTask | None = None
        self.circuit = Circuit(settings.key, limits, anyio.current_time)
        self.in_flight = 0
        self.last_use = -math.inf

    async def run(self, call: Call) -> JsonObject:
        """Send an open call on the live connection, once, within the server's deadline, and return the raw result.

        Progress restarts the deadline, and so does each answer to a question of the server. A request that surely did
        not reach it is sent again, once, on a new connection with the same tool.

        A call that becomes a task is waited for, too, unless its caller takes tasks: then the result is a
        :class:`BecameTask`.

        Raises:
            StartFailed: the server cannot be started; nothing ran.
            CircuitOpen: it fails call after call, and is not called for a while; nothing ran.
            CallTimeout: no answer in time; the call may have run and is never repeated.
            ConnectionLost: the server went away; the call may have run.
            DownstreamError: the server's own error, or a retry of what was never asked.
            Unavailable: the server asked for input and got none.
            LoginNeeded: the server wants a login; nothing ran.
            Outdated: the server lists the tool otherwise by now; nothing ran.

        """
        request = call.request
        if request.lasting:
            return await self._end(call)
        identity = partial(same_request, self._settings.key, call.method, call.params)
        if self._suspendable.resumes(request):
            return await self._suspendable.resume(request, identity())
        if self._live_list.era == "modern" or not request.session.capabilities:
            return await self._end(call)
        # In its own task, which outlives the caller's request if the server asks something.
        suspended = SuspendedCall(request, identity, self._settings.key)
        return await self._suspendable.begin(suspended, partial(self._run_suspended, replace(call, request=suspended)))

    async def _run_suspended(self, call: Call) -> JsonObject:
        with call:
            return await self._end(call)

    async def _end(self, call: Call) -> JsonObject:
        """Send the request, and wait for the end of the task that it becomes, if its caller takes none."""
        result = await self._deliver(call)
        if isinstance(result, BecameTask) and not call.request.takes_task:
            with anyio.move_on_after(self._limits.call_max_s):
                return await self.finish(result.task, call)
            raise CallTimeout(
                self._settings.key,
                f"A task of the server {self._settings.key!r} did not end within {self._limits.call_max_s:g} s "
                "(limits.call_max_s), and was cancelled. It may have done part of its work: check before you repeat "
                "the call.",
            )
        return result

    async def finish(self, task: "ServerTask", call: Call) -> JsonObject:
        """Wait for the end of a task, on account of an open call; return the raw result. Leaving early cancels it.

        Raises:
            CallTimeout, ConnectionLost, DownstreamError, Unavailable, LoginNeeded: as for :meth:`run`.

        """
        # Counted all the time, also between two looks: its server is not idle.
        self.in_flight += 1
        try:
            with task.connection.in_use():
                result = await task.end(call)
            is_error = bool(result.get("isError"))
            return await anyio.to_thread.run_sync(self._redactor.cleaned, result) if is_error else result
        except (ConnectionLost, Challenged, DownstreamError) as error:
            raise await self._told(task.connection, error) from None
        finally:
            self.in_flight -= 1
            self.last_use = anyio.current_time()

    async def deliver(self, method: str, send: Send) -> JsonObject:
        """Send a request of no caller, and resend it if it certainly did not reach the server.

        Raises:
            StartFailed, CallTimeout, ConnectionLost, DownstreamError: as for :meth:`run`; ``method`` is in them.

        """
        with Call(self._relays, OWN_REQUEST, method, {}, method, send=send) as call:
            return await self._deliver(call)

    # -- sending ---------------------------------------------------------------------------------

    async def _deliver(self, call: Call) -> JsonObject:
        with self.circuit.guarding():
            try:
                return await self._answer(await self._connection(), call)
            except Undelivered:
                connection = await self._connection()
            try:
                return await self._answer(connection, call)
            except Undelivered as error:
                raise self._not_run(call, str(error)) from None
            except Outdated:
                raise self._not_run(call, "it has restarted, and the tool has changed") from None

    async def _answer(self, connection: Connection, call: Call) -> JsonObject:
        """Send the request and wait for its result, no longer than the deadline allows."""
        self.in_flight += 1
        try:
            with call.deadline.begin(), connection.in_use():
                try:
                    self._capacity.acquire_nowait()
                except anyio.WouldBlock:
                    await self._capacity.acquire()
                try:
                    result = await self._rounds(connection, call)
                finally:
                    self._capacity.release()
                # In a thread: it may be long. What is no error is passed on as it is.
                is_error = bool(result.get("isError"))
                return await anyio.to_thread.run_sync(self._redactor.cleaned, result) if is_error else result
        except (ConnectionLost, Challenged, DownstreamError) as error:
            raise await self._told(connection, error) from None
        finally:
            self.in_flight -= 1
            self.last_use = anyio.current_time()
        waited_s = call.deadline.waited_s
        raise CallTimeout(
            self._settings.key,
            f"The server {self._settings.key!r} did not answer {call.target!r} within {waited_s:g} s. "
            "The call may have run: check before you repeat it.",
        )

    async def _told(self, connection: Connection, error: ConnectionLost | Challenged | DownstreamError) -> Exception:
        """Return the error that a caller gets for one of a connection."""
        if isinstance(error, ConnectionLost):
            # Where all ends at once, a connection may be closed before its caller: that one is told of no error.
            await anyio.lowlevel.checkpoint_if_cancelled()
            return await self._lost(connection, str(error))
        if isinstance(error, Challenged):
            return self._challenged(connection, error)
        return DownstreamError(error.code, self._clean(str(error)), self._redactor.cleaned(error.data))

    async def _rounds(self, connection: Connection, call: Call) -> JsonObject:
        """Send the request, unless the server would misinterpret it.

        If its caller can be asked at once, it is sent as often as the server asks by its results.
        """
        if connection.is_lost:  # since the call was given it
            raise Undelivered("its connection was given up")
        if call.fingerprint is not None:
            if not connection.is_listed:
                await self._live_list.catch_up(connection)
            if self._live_list.tools.get(call.target) != call.fingerprint:
                raise Outdated
        if call.is_retry and connection.era == "legacy":
            raise refused()  # the server knows no retries, and would run it again
        if call.send:
            return await call.send(connection)
        request = call.request
        relay = ProgressRelay(call.deadline, request.on_progress) if request.on_progress is not None else None
        if request.log_level is not None:
            with suppress(MCPError):  # without its messages, then
                await connection.want_log(request.log_level)
        send = await self._sending(connection, call, relay)
        result = await send(call.params)
        if request.lasting and asks_for_input(result):
            result = await self._further_rounds(result, call, send)
        if relay:
            await relay.drain()
        return result

    async def _sending(self, connection: Connection, call: Call, relay: ProgressRelay | None) -> SendAgain:
        """Return what sends the request with some params; a call that may become a task is sent as one."""
        send = partial(connection.request, call.method, on_progress=relay, call=call)
        if not connection.makes_tasks or call.method != "tools/call":
            return send
        if self._send_for_task is None:
            self._send_for_task = await anyio.to_thread.run_sync(_load_send_for_task)
        return partial(self._send_for_task, connection, call, send, limits=self._limits)

    async def _further_rounds(
        self, result: JsonObject, call: Call, send: Callable[[JsonObject], Awaitable[JsonObject]]
    ) -> JsonObject:
        async def again(answers: JsonObject) -> JsonObject:
            try:
                return await send({**call.params, **answers})
            except Undelivered as error:  # of what was sent before, it is not known what it did
                raise ConnectionLost(self._settings.key, str(error)) from None

        try:
            return await answer_questions(
                result, partial(self._relays.ask, call), again, most=self._limits.input_rounds
            )
        except MCPError as error:
            raise self._not_answered(error.message) from None

    def _challenged(self, connection: Connection, challenged: Challenged) -> DownstreamError | LoginNeeded:
        """Return the error for a caller when the server requires a login."""
        failure = login_failure(self._settings, str(challenged), challenged.data)
        if failure.needs_login:
            # Of a login that does not reach this tool, the other tools and calls go on.
            if not as_object(challenged.data).get("wants_more"):
                self._note_login(connection, failure)
            return login_needed(self._settings, failure)
        return DownstreamError(INTERNAL_ERROR, f"{self._clean(failure.reason)}. {failure.remedy}")

    def _not_answered(self, reason: str) -> Unavailable:
        return Unavailable(
            self._settings.key,
            f"The server {self._settings.key!r} asked for input during the call, and got none: {reason}",
        )

    async def _lost(self, connection: Connection, reason: str) -> ConnectionLost:
        known = self._clean(await connection.explain() or reason)
        return ConnectionLost(
            self._settings.key,
            f"The server {self._settings.key!r} went away during the call ({known}). "
            "The call may have run: check before you repeat it. The next call restarts or reconnects to it.",
        )

    def _not_run(self, call: Call, reason: str) -> ConnectionLost:
        return ConnectionLost(
            self._settings.key,
            f"The server {self._settings.key!r} rejected the call of {call.target!r}: {self._clean(reason)}. "
            "Nothing ran; search for the tool again, then repeat the call.",
        )
