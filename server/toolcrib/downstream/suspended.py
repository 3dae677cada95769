"""Work that may have to ask a caller without a session: it continues between the caller's requests."""

import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from hashlib import sha256

import anyio
import anyio.lowlevel
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError

from toolcrib.base.errors import ConnectionLost, DownstreamError
from toolcrib.base.handles import NewHandle, new_handle
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.policy.requests import Request

ANSWERS = ("inputResponses", "requestState")
"""The params that a retry has in addition to those of the call."""

_SAME = ("name", "uri", "arguments")
"""The params that are equal in a call and its retries; others may differ."""

_GONE_PARAMS = ("elicitationId", "task")
"""Params of questions that only the handshake era has."""

_UNKNOWN = (
    "This requestState belongs to no call of yours that waits for an answer: it was already used, it has expired, "
    "the server has gone, or it is of another call. Nothing was run again. Call without requestState to start over; "
    "check first what the earlier call has done."
)


def same_request(server: str, method: str, params: JsonObject) -> str:
    """Return a hash that a call and its retries have in common."""
    bare = {key: params[key] for key in _SAME if key in params}
    return sha256(json.dumps([server, method, bare], sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(eq=False, slots=True)
class _Question:
    """A question of a server; ``answer`` is valid once ``answered`` is set."""

    method: str
    params: JsonObject
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | MCPError = field(default_factory=dict[str, object])
    is_being_asked: bool = False


class SuspendedCall(Request):
    """One call that outlives the requests of its caller; to the server it is the request of a caller that can be asked.

    ``request`` is the caller's first request or latest retry. ``identity`` returns the result of :func:`same_request`,
    which only a retry needs. ``server`` is the called one; empty if there is none. ``scope`` belongs to the task that
    waits for it. ``lasting``: it stands for a session until it ends, so that servers of both eras can ask through it.
    """

    can_ask_now = True

    def __init__(
        self, request: Request, identity: Callable[[], str], server: str = "", *, lasting: bool = False
    ) -> None:
        super().__init__(request.session, request.method, request.params)
        self.request, self.identity, self.server, self.lasting = request, identity, server, lasting
        if request.on_progress is not None:
            self.on_progress = self._report
        self.scope = anyio.CancelScope()
        self.changed = anyio.Event()
        self._outcome: JsonObject | Exception | None = None
        self._questions: dict[str, _Question] = {}
        self._count = 0
        self.is_attended = True

    @property
    def takes_task(self) -> bool:
        """Whether its caller takes a task in the place of the result."""
        return self.request.takes_task

    @property
    def task_ttl_ms(self) -> int | None:
        """How long its caller wants a task to be kept; None: it asks for none."""
        return self.request.task_ttl_ms

    @property
    def log_level(self) -> str | None:
        """The log level of its caller."""
        return self.request.log_level

    def wants_log(self, level: str) -> bool:
        """Return whether its caller is sent log messages of a level."""
        return self.request.wants_log(level)

    def resume(self, retry: Request) -> None:
        """Continue for the caller of a retry, with its answers."""
        self.request, self.session, self.is_attended = retry, retry.session, True
        self.answer(retry.params.get("inputResponses"))

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Ask the caller by the result of its request, and wait for the answer in its next one."""
        self._count += 1
        name, question = f"question-{self._count}", _Question(method, params)
        self._questions[name] = question
        self._change()
        try:
            await question.answered.wait()
        finally:
            del self._questions[name]
        if isinstance(question.answer, MCPError):
            raise question.answer
        return question.answer

    def note_silence(self) -> None:
        """End the call of a caller that did not return in time."""
        if not self.is_attended:
            self.scope.cancel()

    async def notify(self, method: str, params: JsonObject) -> None:
        """Notify the caller, if it is waiting."""
        if self.is_attended:
            await self.request.notify(method, params)

    async def notify_tools_changed(self) -> None:
        """Notify the caller, if it is waiting."""
        if self.is_attended:
            await self.request.notify_tools_changed()

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        """Forward progress to the caller, if it is waiting."""
        if self.is_attended and self.request.on_progress is not None:
            await self.request.on_progress(progress, total, message)

    @property
    def has_ended(self) -> bool:
        """Whether there is an outcome."""
        return self._outcome is not None

    def end(self, outcome: JsonObject | Exception) -> None:
        """Record the outcome; only the first one counts."""
        if self._outcome is None:
            self._outcome = outcome
            self._change()

    def answer(self, given: object) -> None:
        """Record the caller's answers; unanswered questions are asked again."""
        answers = as_object(given)
        for name, question in self._questions.items():
            if isinstance(answers.get(name), dict):
                question.answer = _without(answers[name], ("resultType",))
                question.answered.set()

    def refuse(self, reason: str) -> None:
        """Answer all questions of the server with an error."""
        for question in self._questions.values():
            question.answer = MCPError(types.INVALID_REQUEST, reason)
            question.answered.set()

    async def next_step(self) -> JsonObject | None:
        """Wait for the result, and return it; or return None as soon as there is a question.

        Raises:
            Exception: the error that the call ended with.

        """
        while True:
            if isinstance(self._outcome, Exception):
                # Where all ends at once, the work may end before its caller: that one is told of no error.
                await anyio.lowlevel.checkpoint_if_cancelled()
                raise self._outcome
            if self._outcome is not None:
                return self._outcome
            if any(not question.answered.is_set() for question in self._questions.values()):
                return None
            await self.changed.wait()

    def interim(self, key: str) -> JsonObject:
        """Return the result that asks the caller the server's questions."""
        return {"resultType": "input_required", "inputRequests": self.input_requests(), "requestState": key}

    async def ask_through(self, request: Request, meta: JsonObject) -> bool:
        """Ask the unanswered questions through a request of the caller, each with ``meta``; return whether any was.

        What another request is asking already is left to that one.
        """
        mine = [each for each in self._questions.values() if not (each.answered.is_set() or each.is_being_asked)]
        for question in mine:
            question.is_being_asked = True
            try:
                question.answer = await request.ask(question.method, {**question.params, "_meta": meta})
            except MCPError as error:
                question.answer = error
            finally:
                question.is_being_asked = False
            question.answered.set()
        return bool(mine)

    def input_requests(self) -> JsonObject:
        """Return the unanswered questions of the server by name, as 2026-07-28 has them."""
        return {
            name: {"method": question.method, "params": _without(question.params, _GONE_PARAMS)}
            for name, question in self._questions.items()
            if not question.answered.is_set()
        }

    def _change(self) -> None:
        # Another event for the next change: a set one would make every later wait return at once.
        self.changed.set()
        self.changed = anyio.Event()


def _without(value: JsonObject, keys: Collection[str]) -> JsonObject:
    return {key: each for key, each in value.items() if key not in keys}


class SuspendedCalls:
    """The calls, of all servers, that wait for an answer of their caller, each with its expiry."""

    def __init__(self, limits: LimitsSection, new_handle: NewHandle = new_handle) -> None:
        self._limits, self._new_handle = limits, new_handle
        self._waiting: dict[str, tuple[SuspendedCall, float]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, suspended: SuspendedCall) -> str | None:
        """Suspend a call and return its unguessable key; None if there are too many."""
        self._drop_expired()
        principal = suspended.session.caller.principal
        # A share for each principal: one that never answers must leave room for others.
        if not (self._has_room() and self._has_room(principal)):
            return None
        key = self._new_handle()
        self._waiting[key] = suspended, anyio.current_time() + self._limits.answer_timeout_s
        suspended.is_attended = False
        return key

    def _has_room(self, principal: str | None = None) -> bool:
        """Make room for one more call, of a principal or at all; return whether there is any."""
        own = {
            key: suspended
            for key, (suspended, _until) in self._waiting.items()
            if principal in (None, suspended.session.caller.principal)
        }
        most = self._limits.parked_calls if principal is None else self._limits.parked_calls_per_principal
        # What has ended only waits to be told to whoever comes back for it: it leaves its place, the oldest first.
        ended = [key for key, suspended in own.items() if suspended.has_ended]
        for key in ended[: max(0, len(own) - most + 1)]:
            del self._waiting[key], own[key]
        return len(own) < most

    def end(self, server: str, reason: str) -> None:
        """End the calls of a server that nobody waits for at the moment; who comes back is told the reason."""
        for suspended, _until in self._waiting.values():
            if suspended.server == server:
                suspended.end(ConnectionLost(server, reason))
                suspended.scope.cancel()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self._waiting

    def take(self, key: object, request: Request, identity: str) -> SuspendedCall:
        """Return the call with a key to the caller who may resume it; the key is then invalid.

        Raises:
            DownstreamError: there is no such call of this caller for this request.

        """
        self._drop_expired()
        suspended, _until = self._waiting.get(key, (None, 0.0)) if isinstance(key, str) else (None, 0.0)
        # One refusal for all of these, so that keys of others cannot be probed.
        if suspended is None or suspended.session.label != request.session.label or suspended.identity() != identity:
            raise refused()
        del self._waiting[str(key)]
        return suspended

    def _drop_expired(self) -> None:
        now = anyio.current_time()
        for key in [key for key, (_suspended, until) in self._waiting.items() if until <= now]:
            self._waiting.pop(key)[0].scope.cancel()


def refused() -> DownstreamError:
    """Return the error for a retry of no suspended call."""
    return DownstreamError(types.INVALID_PARAMS, _UNKNOWN, {"reason": "invalid_request_state"})


_GIVEN_UP = "The call was cancelled, because nobody waited for it."


async def carry_out(suspended: SuspendedCall, work: Callable[[], Awaitable[JsonObject]]) -> None:
    """Do some work, and record how it ends."""
    with suspended.scope:
        try:
            suspended.end(await work())
        except Exception as error:  # barrier: work that may be suspended; raised for whoever waits for its end
            suspended.end(error)
    # Counts only if the scope was cancelled before there was an outcome.
    suspended.end(ConnectionLost(suspended.server, _GIVEN_UP))


class SuspendableWork:
    """Runs work in separate tasks, and resumes it."""

    def __init__(self, suspended_calls: SuspendedCalls, tasks: TaskGroup) -> None:
        self._suspended_calls, self._tasks = suspended_calls, tasks

    def resumes(self, request: Request) -> bool:
        """Return whether a request is a retry of a suspended call, of any caller."""
        return request.params.get("requestState") in self._suspended_calls

    async def begin(self, suspended: SuspendedCall, work: Callable[[], Awaitable[JsonObject]]) -> JsonObject:
        """Begin some work, and return its result, or the questions to its caller."""
        self._tasks.start_soon(carry_out, suspended, work)
        return await self._attend(suspended)

    async def resume(self, request: Request, identity: str) -> JsonObject:
        """Continue with the answers of a retry; return as :meth:`begin` does. ``identity`` is of :func:`same_request`.

        Raises:
            DownstreamError: there is no such call of this caller for this request.
            Exception: the error that the work ended with.

        """
        suspended = self._suspended_calls.take(request.params["requestState"], request, identity)
        suspended.resume(request)
        return await self._attend(suspended)

    async def _attend(self, suspended: SuspendedCall) -> JsonObject:
        """Wait until the work ends or has a question; a caller that leaves meanwhile cancels the work."""
        try:
            while (result := await suspended.next_step()) is None:
                if key := self._suspended_calls.add(suspended):
                    return suspended.interim(key)
                suspended.refuse("Too many calls wait for answers (limits.parked_calls).")
        except anyio.get_cancelled_exc_class():
            suspended.scope.cancel()
            raise
        return result
