"""Tasks of servers: made by a call, and followed to their end, in both forms that the protocol has had (ADR 70).

The form of 2025-11-25 is part of the protocol (Basic Utilities, Tasks): a call asks for a task, and ``tasks/result``
waits for its result. That of 2026-07-28 is the extension ``io.modelcontextprotocol/tasks`` (SEP-2663): the server makes
a task of any call of a client that declares it, and ``tasks/get`` has the result.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError

from toolcrib.base.errors import CallTimeout, ConnectionLost, DownstreamError, ToolcribError, Unavailable
from toolcrib.base.json_decoding import replace_lone_surrogates
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.calls import BecameTask, ask_by_method
from toolcrib.downstream.connection import Connection, Undelivered
from toolcrib.downstream.isolation import TASKS
from toolcrib.downstream.relays import Call, ProgressRelay
from toolcrib.policy.confirmations import InputRequired

ENDED = ("completed", "failed", "cancelled")
"""The states of a task in which it stays."""

_STATES = ("working", "input_required", *ENDED)
_POLL_S = 1.0
"""The pause between two looks at a task whose server suggests none."""
_MESSAGE_MAX = 500


@dataclass(frozen=True, slots=True)
class TaskState:
    """What a server says of a task. ``poll_s`` is the pause that it suggests before it is asked again.

    ``questions`` are those that it wants answered, by its own keys; ``result`` and ``error`` are those of a task that
    has ended. All three only in the newer form.
    """

    status: str
    message: str
    poll_s: float
    questions: JsonObject
    result: JsonObject | None
    error: JsonObject


def _state_of(told: JsonObject) -> TaskState | None:
    """Return what an answer says of a task; None if it says nothing that either form has."""
    status, message = told.get("status"), told.get("statusMessage")
    if status not in _STATES:
        return None
    poll_ms = told.get("pollIntervalMs", told.get("pollInterval"))
    result = told.get("result")
    return TaskState(
        status,
        truncate(one_line(replace_lone_surrogates(message)), _MESSAGE_MAX) if isinstance(message, str) else "",
        poll_ms / 1000 if isinstance(poll_ms, int | float) and poll_ms > 0 else _POLL_S,
        as_object(told.get("inputRequests")),
        as_object(result) if isinstance(result, dict) else None,
        as_object(told.get("error")),
    )


SendCall = Callable[[JsonObject], Awaitable[JsonObject]]


async def send_for_task(
    connection: Connection, call: Call, send: SendCall, params: JsonObject, limits: LimitsSection
) -> JsonObject:
    """Send a call of a tool on a connection whose server makes tasks; return its result, or the task that it became.

    A task is asked for where the tool runs as nothing else, or where the caller takes one.

    Raises:
        InputRequired: the tool runs as a task only, and its caller could not be asked meanwhile; nothing ran.
        DownstreamError: the server's own error.

    """
    if connection.era == "legacy":
        support, wished_ms = connection.task_tools.get(call.target), call.request.task_ttl_ms
        # What may be either is a task for those alone who asked for that one.
        if support is None or (support == "optional" and wished_ms is None):
            return await send(params)
        most_s = limits.task_ttl_s if call.request.takes_task else limits.call_max_s
        ttl_ms = min(wished_ms or math.inf, round(most_s * 1000))
        result = await send({**params, "task": {"ttl": ttl_ms}})
        told = as_object(result.get("task"))
    else:
        call.declares_tasks = call.request.takes_task
        result = told = await _declaring(call, send, params)
        if result.get("resultType") != "task":
            return result
    task_id, state = told.get("taskId"), _state_of(told)
    if not isinstance(task_id, str) or state is None:
        if result is told or "task" in result:
            raise DownstreamError(types.INTERNAL_ERROR, "The server made a task that has no id or no known status.")
        return result
    return BecameTask(ServerTask(connection, task_id, state, call.progress_token, limits))


async def _declaring(call: Call, send: SendCall, params: JsonObject) -> JsonObject:
    """Send a call without the extension where its caller does not take tasks; with it if the server insists."""
    try:
        return await send(params)
    except DownstreamError as error:
        if call.declares_tasks or not _insists(error):
            raise
    # It has checked capabilities, and run nothing. Whoever can be asked by results only could not be asked later on.
    if call.request.session.capabilities and not call.request.can_ask_now:
        raise InputRequired
    call.declares_tasks = True
    return await send(params)


def _insists(error: DownstreamError) -> bool:
    needed = as_object(as_object(as_object(error.data).get("requiredCapabilities")).get("extensions"))
    return error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY and TASKS in needed


class ServerTask:
    """One task at its server, on the connection on which it was made: on any other its id could be of another task.

    ``state`` is what the server said last; ``on_state`` is called with each new one.
    """

    def __init__(
        self,
        connection: Connection,
        task_id: str,
        state: TaskState,
        progress_token: str,
        limits: LimitsSection,
    ) -> None:
        self.connection, self.task_id, self.state = connection, task_id, state
        self.progress_token = progress_token
        self.on_state: Callable[[TaskState], None] = lambda _state: None
        self._least_poll_s = limits.task_poll_s
        self._asked = set[str]()
        self._refused = ""
        self._reports = 0

    async def end(self, call: Call) -> JsonObject:
        """Wait for its end, and return its result; whoever leaves early cancels it. ``call`` has its questions asked.

        Raises:
            DownstreamError: it failed, or was cancelled at its server.
            ConnectionLost, CallTimeout, Challenged: as for a call.
            Unavailable: its server asked for input and got none.

        """
        call.follow(self.task_id, self.progress_token)
        call.declares_tasks = self.connection.era == "modern"
        relay = ProgressRelay(call.deadline, call.request.on_progress) if call.request.on_progress is not None else None
        call.on_progress = relay
        is_over = False
        outcome: JsonObject | ToolcribError = {}
        try:
            # Errors leave the group by a variable: a group would wrap them.
            async with anyio.create_task_group() as questions:
                try:
                    outcome = await self._outcome(call, questions, relay)
                except ToolcribError as error:
                    outcome = error
                questions.cancel_scope.cancel()
            is_over = self.state.status in ENDED or isinstance(outcome, ConnectionLost)
        finally:
            if not is_over:
                self.connection.cancel_task(self.task_id, call)
        if relay:
            await relay.drain()
        if self._refused:
            server = call.relays.key
            raise Unavailable(
                server, f"The server {server!r} asked for input during the call, and got none: {self._refused}"
            )
        if isinstance(outcome, ToolcribError):
            raise outcome
        return outcome

    async def _outcome(self, call: Call, questions: TaskGroup, relay: ProgressRelay | None) -> JsonObject:
        is_legacy = self.connection.era == "legacy"
        while self.state.status not in ENDED:
            if self.state.status == "input_required":
                if is_legacy:
                    return await self._asking_result(call, questions, relay)
                self._answer_new(call, questions)
            await anyio.sleep(max(self.state.poll_s, self._least_poll_s))
            await self._look(call, relay)
        if not is_legacy and self.state.result is None and not self.state.error:
            # It had ended when it was made, and the answer to the call has no result in it.
            await self._look(call, relay)
        if self.state.status == "cancelled":
            raise DownstreamError(types.INTERNAL_ERROR, f"The server cancelled the task. {self.state.message}".rstrip())
        if is_legacy:
            return await self._bounded(call, "tasks/result")
        if self.state.status == "failed":
            error = self.state.error
            code, message = error.get("code"), error.get("message")
            raise DownstreamError(
                code if isinstance(code, int) else types.INTERNAL_ERROR,
                message if isinstance(message, str) else "The task failed.",
                error.get("data"),
            )
        if self.state.result is None:
            raise DownstreamError(types.INTERNAL_ERROR, "The server says that the task is completed, without a result.")
        return self.state.result

    async def _look(self, call: Call, relay: ProgressRelay | None) -> None:
        """Ask for the state, and report it if it is another one."""
        state = _state_of(await self._bounded(call, "tasks/get"))
        if state is None:
            raise DownstreamError(types.INTERNAL_ERROR, "The server's answer to tasks/get has no known status.")
        before, self.state = self.state, state
        if (state.status, state.message) != (before.status, before.message):
            self.on_state(state)
            if relay is not None and state.message:
                self._reports += 1
                await relay(self._reports, None, state.message)

    async def _asking_result(self, call: Call, questions: TaskGroup, relay: ProgressRelay | None) -> JsonObject:
        """Wait for the result: the questions of the older form come while that is asked for."""
        questions.start_soon(self._keep_looking, call, relay)
        result = await self._request(call, "tasks/result")
        self.state = TaskState("completed", "", _POLL_S, {}, None, {})
        return result

    async def _keep_looking(self, call: Call, relay: ProgressRelay | None) -> None:
        while True:
            await anyio.sleep(max(self.state.poll_s, self._least_poll_s))
            try:
                await self._look(call, relay)
            except ToolcribError:  # whatever it is, the result will tell
                return

    def _answer_new(self, call: Call, questions: TaskGroup) -> None:
        """Have each question asked once: its key is unique in the task, and stands in each answer until then."""
        for key, question in self.state.questions.items():
            if key not in self._asked:
                self._asked.add(key)
                questions.start_soon(self._answer, call, key, as_object(question), questions.cancel_scope)

    async def _answer(self, call: Call, key: str, question: JsonObject, scope: anyio.CancelScope) -> None:
        try:
            answer = await ask_by_method(question, partial(call.relays.ask, call))
            await self._bounded(call, "tasks/update", {"inputResponses": {key: answer}})
        except MCPError as error:
            self._refused = error.message
            scope.cancel()
        except ToolcribError:
            pass  # the next look at the task fails in the same way, or tells more

    async def _bounded(self, call: Call, method: str, more: JsonObject | None = None) -> JsonObject:
        within_s = call.relays.call_s
        with anyio.move_on_after(within_s):
            return await self._request(call, method, more)
        raise CallTimeout(
            call.relays.key,
            f"The server {call.relays.key!r} did not say within {within_s:g} s what became of a task that it had "
            "begun. It may have run: check before you repeat the call.",
        )

    async def _request(self, call: Call, method: str, more: JsonObject | None = None) -> JsonObject:
        try:
            return await self.connection.request(method, {"taskId": self.task_id, **(more or {})}, call=call)
        except Undelivered as error:  # it no longer knows our session, and with it the task
            raise ConnectionLost(call.relays.key, str(error)) from None
