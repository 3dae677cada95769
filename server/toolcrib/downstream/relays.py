"""Routes a server's requests and notifications to the caller they concern.

If more than one session may be concerned, none gets the message, and the server gets an error (ADR 28).
"""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import anyio
import mcp_types as types
from mcp import MCPError

from toolcrib.base.cache import Recent
from toolcrib.base.errors import DownstreamError
from toolcrib.base.json_decoding import replace_lone_surrogates
from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import JsonObject
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.downstream.isolation import RELATED_TASK
from toolcrib.downstream.suspended import ANSWERS
from toolcrib.policy.requests import QUESTIONS, Progress, Request, is_level, params_for_next_hop, refuse_beyond

if TYPE_CHECKING:
    from toolcrib.downstream.connection import Connection


class Deadline:
    """``seconds`` from when the call is sent, from the last sign of life, or from the last answer of its caller.

    At most ``most_s`` seconds from when it is sent.
    """

    def __init__(self, seconds: float, most_s: float) -> None:
        self._seconds, self._most_s = seconds, most_s
        self._scope: anyio.CancelScope | None = None
        self._ends_at = math.inf
        self._pauses = 0
        self._paused_until = -math.inf

    def begin(self) -> anyio.CancelScope:
        """Let the time run from now on, and return the scope that ends when it is over."""
        now = anyio.current_time()
        self._ends_at = now + self._most_s
        self._scope = anyio.CancelScope(deadline=self._deadline(now))
        return self._scope

    def restart(self) -> None:
        """Restart the deadline, unless it is paused."""
        if self._scope is not None:
            self._scope.deadline = self._deadline(anyio.current_time())

    @property
    def waited_s(self) -> float:
        """How long was waited in vain, once the time is over."""
        return self._seconds if anyio.current_time() < self._ends_at else self._most_s

    def _deadline(self, now: float) -> float:
        return min((self._paused_until if self._pauses else now) + self._seconds, self._ends_at)

    @contextmanager
    def paused(self, seconds: float) -> Generator[None]:
        """Let the time begin after the block, which takes at most so long."""
        self._pauses += 1
        self._paused_until = anyio.current_time() + seconds
        self.restart()
        try:
            yield
        finally:
            self._pauses -= 1
            self.restart()


_LAST_S = 1.0
"""Seconds that the report under way has to be delivered once the call has ended."""


class ProgressRelay:
    """Passes progress on as fast as the receiver takes it; only the latest report waits, so none pile up.

    Each report restarts the deadline.
    """

    def __init__(self, deadline: Deadline, on_progress: Progress) -> None:
        self._deadline, self._on_progress = deadline, on_progress
        self._latest: tuple[float, float | None, str | None] | None = None
        self._drained: anyio.Event | None = None

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass one report on, or leave it to whoever is still passing on the one before."""
        self._deadline.restart()
        self._latest = progress, total, message and replace_lone_surrogates(message)
        if self._drained is not None:
            return
        self._drained = anyio.Event()
        try:
            while self._latest is not None:
                report, self._latest = self._latest, None
                await self._on_progress(*report)
        finally:
            self._drained.set()
            self._drained = self._latest = None

    async def drain(self) -> None:
        """Wait a moment for what is under way: after its result, progress would reach nobody."""
        if self._drained is not None:
            with anyio.move_on_after(_LAST_S, shield=True):
                await self._drained.wait()


_LINGER_S = 60.0
"""How long a request that was given up may still be worked on: a question that comes meanwhile may be its."""

_NOTIFICATIONS_AT_ONCE = 100
"""Messages on their way to callers at a time; what comes while they take no more is left out."""

_ELICITATIONS = 256
"""Elicitations by URL of which it is remembered whose they are."""

_COMPLETE = "notifications/elicitation/complete"
_LOG = "notifications/message"
_PROGRESS = "notifications/progress"


Send = Callable[["Connection"], Awaitable[JsonObject]]
"""Sends one request on a connection and waits for its raw result."""


@dataclass(eq=False, slots=True)
class Call:
    """One request to a server on account of a caller's: open, as a block, from before the server is started for it.

    ``target`` is what it is about, by the server's own name. ``fingerprint`` is that of the definition by which a
    tool's call was decided: only a tool that is listed so is called. ``send`` sends what is more than a request with
    these params. ``questions`` are those of the server that are being answered. ``is_answered``: the server has ended
    it, with a result or an error.

    ``declares_tasks``: it may become a task, in the newer form. ``progress_token`` is that of its last request.
    ``on_progress`` takes the progress of the task ``task_id`` that it has become.
    """

    relays: "Relays"
    request: Request
    method: str
    params: JsonObject
    target: str
    fingerprint: str | None = None
    send: Send | None = None
    deadline: Deadline = field(init=False)
    is_sent: bool = field(default=False, init=False)
    is_answered: bool = field(default=False, init=False)
    questions: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope], init=False)
    declares_tasks: bool = field(default=False, init=False)
    progress_token: str = field(default="", init=False)
    on_progress: Progress | None = field(default=None, init=False)
    task_id: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.deadline = Deadline(self.relays.call_s, self.relays.call_max_s)

    def __enter__(self) -> Self:
        self.relays.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.relays.leave(self, error)

    def follow(self, task_id: str, progress_token: str) -> None:
        """Get what the server sends for a task: questions, and progress by the token of the call that became it."""
        self.task_id, self.progress_token = task_id, progress_token

    @property
    def is_retry(self) -> bool:
        """Whether it answers the questions of an earlier result."""
        return not self.params.keys().isdisjoint(ANSWERS)


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The call that a message of a server belongs to, if the transport says: streamable HTTP brings what a server sends on
account of a request on the answer to that request.
"""


class _RequestEnded(MCPError):
    """The request through which a caller was asked has ended before the answer came."""


class Relays:
    """Routes what one server sends. ``asks_apart``: over HTTP it has asked by a stream that belongs to no request.

    ``declared`` are the client capabilities declared to it at the handshake. ``is_exclusive``: only one client ever
    uses its connection. ``request_ids`` number what is sent, on all its connections: one whose session was lost may
    still be in use beside the next.
    """

    def __init__(
        self, server: ServerSettings, limits: LimitsSection, declared: JsonObject, *, is_exclusive: bool
    ) -> None:
        self._declared = declared
        self.key, self._clean = server.key, server.redactor.cleaned
        self._answer_s, self._hold_s = limits.answer_timeout_s, server.options.connect_timeout_s
        self.call_s, self.call_max_s = server.options.call_timeout_s, limits.call_max_s
        self._is_exclusive = is_exclusive
        self._is_http, self.asks_apart = isinstance(server.target, HttpTarget), False
        self._calls: list[Call] = []
        self._given_up: dict[str, float] = {}
        self._changed: anyio.Event | None = None
        self._owner: Request | None = None
        self._elicitations = Recent[str, Request](_ELICITATIONS)
        self._notifying = 0
        self.request_ids = count(1)

    # -- requests under way ----------------------------------------------------------------------

    def enter(self, call: Call) -> None:
        """Add a call to those under way."""
        self._calls.append(call)
        if self._is_exclusive and call.request.lasting:
            self._owner = call.request
        self._change()

    def leave(self, call: Call, error: BaseException | None) -> None:
        """Remove a call, which has ended with ``error`` unless that is None."""
        self._calls.remove(call)
        call.is_answered = error is None or isinstance(error, DownstreamError)
        if isinstance(error, DownstreamError):
            self._remember(call.request, error)
        elif error is not None and call.is_sent:
            self._given_up[call.request.session.label] = anyio.current_time() + _LINGER_S
        for question in call.questions:
            question.cancel()
        self._change()

    def _change(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _wait_for_change(self) -> None:
        """Wait until a call is added or removed."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def forget(self) -> None:
        """Reset for another connection: cancelled requests are no longer worked on."""
        self._given_up.clear()

    def _remember(self, request: Request, error: DownstreamError) -> None:
        """Note whose the elicitations are that a server requires before a request (code -32042)."""
        if error.code == types.URL_ELICITATION_REQUIRED:
            for each in as_list(as_object(error.data).get("elicitations")):
                self._note_elicitation(request, as_object(each))

    def _note_elicitation(self, request: Request, params: JsonObject) -> None:
        if isinstance(key := params.get("elicitationId"), str):
            self._elicitations[key] = request

    # -- requests of the server ----------------------------------------------------------------------

    async def on_request(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a request of the server.

        Raises:
            MCPError: with the error to answer to the server.

        """
        if method == "ping":
            return {}
        if method not in QUESTIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        refuse_beyond(self._declared, method, params)
        while True:
            # A task says which call it was, however many are under way, whosever they are.
            candidates = self._of_task(params) or await self._candidates(method)
            if not candidates:
                return await self._ask_owner(method, params)
            # One at a time for each: of a call that ends with a question, it is known that it was not its own.
            call = next((each for each in reversed(candidates) if not each.questions), candidates[-1])
            with ExitStack() as stack:
                # Any of the candidates may be the one that waits for the answer, so the deadlines of all are paused.
                for each in candidates:
                    stack.enter_context(each.deadline.paused(self._answer_s))
                try:
                    return await self.ask(call, method, params)
                except _RequestEnded:
                    if not call.is_answered:
                        raise

    async def ask(self, call: Call, method: str, params: JsonObject) -> JsonObject:
        """Ask the caller of one request, who has some time to answer.

        Raises:
            MCPError: it cannot be asked that, it is gone, or it did not answer; or its own error.

        """
        params = params_for_next_hop(params)
        refuse_beyond(call.request.session.capabilities, method, params)
        self._note_elicitation(call.request, params)
        async with self._question_of(call):
            with call.deadline.paused(self._answer_s), anyio.move_on_after(self._answer_s):
                return await call.request.ask(method, params)
            call.request.note_silence()
            raise MCPError(types.REQUEST_TIMEOUT, f"Nobody answered within {self._answer_s:g} s.")
        raise _RequestEnded(types.INVALID_REQUEST, "The request this belongs to has ended: its caller cancelled it.")

    @asynccontextmanager
    async def _question_of(self, call: Call) -> AsyncGenerator[None]:
        """End the block when the request does."""
        with anyio.CancelScope() as question:
            call.questions.add(question)
            try:
                yield
            finally:
                call.questions.discard(question)

    def _of_task(self, params: JsonObject) -> list[Call]:
        task_id = as_object(as_object(params.get("_meta")).get(RELATED_TASK)).get("taskId")
        return [call for call in self._calls if task_id and call.task_id == task_id]

    async def _candidates(self, method: str) -> list[Call]:
        """Return the requests that a question may be asked for, all of one session; none if none is under way.

        One that comes while its server is still being started for a caller who can be asked only later is held.

        Raises:
            MCPError: it cannot be told whose question it is.

        """
        call = current_call.get()
        if call is not None:
            if call not in self._calls:
                raise MCPError(types.INVALID_REQUEST, "The request this belongs to has ended.")
            return [call]
        self.asks_apart = self._is_http
        with anyio.move_on_after(self._hold_s):
            while True:
                if self._calls and not self._is_one_session():
                    raise MCPError(
                        types.INVALID_REQUEST,
                        f"{method} cannot be passed on: several clients use this connection at the moment, and nothing "
                        "says which of them is meant. With 'isolation: session' each has a connection of its own.",
                    )
                live = [call for call in self._calls if call.request.can_ask_now]
                if live or not any(call.request.session.capabilities for call in self._calls):
                    return live
                # The call that the question belongs to may be about to be suspended: then its caller can be asked.
                await self._wait_for_change()
        return []

    def _is_one_session(self) -> bool:
        """Whether all that the server may be working at is for one session."""
        if self._is_exclusive:
            return True
        now = anyio.current_time()
        self._given_up = {session: until for session, until in self._given_up.items() if until > now}
        return len(self._given_up.keys() | {call.request.session.label for call in self._calls}) == 1

    async def _ask_owner(self, method: str, params: JsonObject) -> JsonObject:
        """Ask for roots outside of any request: they are those of the connection's only client, whatever it asks."""
        if self._owner is None or method != "roots/list":
            raise MCPError(types.INVALID_REQUEST, f"{method} comes outside of any request: there is nobody to ask.")
        refuse_beyond(self._owner.session.capabilities, method, params)
        with anyio.move_on_after(self._hold_s):
            return await self._owner.ask(method, params_for_next_hop(params))
        raise MCPError(types.REQUEST_TIMEOUT, "The client did not answer.")

    # -- notifications of the server ---------------------------------------------------------------------

    async def on_notify(self, method: str, params: JsonObject) -> bool:
        """Pass a notification on; return whether it is of a kind that callers get."""
        if method == _LOG:
            await self._log(params)
        elif method == _COMPLETE:
            key = params.get("elicitationId")
            if isinstance(key, str) and key in self._elicitations:
                await self._notify(self._elicitations[key], method, params)
        elif method == _PROGRESS:
            await self._progress(params)
        else:
            return False
        return True

    async def _progress(self, params: JsonObject) -> None:
        """Pass on the progress of a task, whose token is that of a call which was answered long ago."""
        token, progress, total = (params.get(key) for key in ("progressToken", "progress", "total"))
        message = params.get("message")
        for call in self._calls:
            if call.task_id and call.on_progress and call.progress_token == token and isinstance(progress, int | float):
                total = total if isinstance(total, int | float) else None
                await call.on_progress(progress, total, message if isinstance(message, str) else None)

    async def _log(self, params: JsonObject) -> None:
        level, call = params.get("level"), current_call.get()
        if call is not None:
            request = call.request
        elif self._calls:
            request = self._calls[-1].request if self._is_one_session() else None
        else:
            request = self._owner
        if request is None or not is_level(level) or not request.wants_log(cast("str", level)):
            return
        named = params.get("logger")
        logger = f"{self.key}/{named}" if isinstance(named, str) and named else self.key
        message: JsonObject = {**params, "logger": logger, "data": self._clean(params.get("data"))}
        message.pop("_meta", None)
        await self._notify(request, _LOG, message)

    async def _notify(self, request: Request, method: str, params: JsonObject) -> None:
        if self._notifying >= _NOTIFICATIONS_AT_ONCE:
            return
        self._notifying += 1
        try:
            await request.notify(method, params)
        finally:
            self._notifying -= 1
