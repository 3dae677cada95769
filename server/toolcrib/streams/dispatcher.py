"""The SDK's ``Dispatcher`` over two descriptors, one JSON-RPC message per line: bounded, and fast.

Knows requests, answers, cancellation and progress, on either side of a connection; never knows what a method means.
Every call pays the cost of a message four times, so there is no model object, no stream and no task except the
handler's between the descriptor and the waiter (ADR 18).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.abc
from mcp_types import INTERNAL_ERROR, ErrorData

from toolcrib.base.json_decoding import decode_in_steps, has_more_values
from toolcrib.base.model import JsonObject
from toolcrib.streams.incoming import IncomingRequest, Params
from toolcrib.streams.messages import decode, encode, is_long, notification, refusal, result
from toolcrib.streams.outgoing import CLOSED, Outcome, OutgoingRequests
from toolcrib.streams.pace import PROGRESS, Pace, PaceBounds
from toolcrib.streams.pipes import LineReader, LineWriter, open_pipe
from toolcrib.streams.sdk import (
    CallOptions,
    Channel,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    RequestId,
    as_request_id,
    cancelled_request_id_from_params,
    coerce_request_id,
    handler_exception_to_error_data,
    progress_token_from_params,
    run_notify_intercept,
)

_GARBAGE_KEPT = 2000
"""Maximum number of bytes of an invalid line that ``on_garbage`` receives."""

_ANSWERS_WAITING = 64
"""Maximum number of answers waiting for a peer that does not read; at this number, reading from it stops."""

_LAST_WRITE_S = 0.5
"""Time to flush pending output at the end, in seconds, so that no message is left half written."""

_INLINE = "initialize"
"""Answered before the next message is read, so that messages sent right after it find the handshake completed."""


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PipeBounds:
    """Bounds on what a peer may send: bytes and values per message, consecutive invalid lines, and rate.

    ``pace`` bounds unsolicited messages: notifications, answers to nothing, and requests too if ``paces_requests``.
    ``line_limit`` is the config key of the bound on bytes.
    """

    line_max_bytes: int
    line_limit: str
    values: int
    garbage_lines: int
    pace: PaceBounds
    paces_requests: bool


@dataclass(frozen=True, slots=True)
class _Handlers:
    on_request: OnRequest
    on_notify: OnNotify
    intercept: OnNotifyIntercept | None


class LineDispatcher(Channel):
    """A connection over a pipe. Create it with :func:`open_dispatcher`; ``run`` it once.

    ``ended`` is set when the peer's input has ended; ``fault`` then gives the reason, if the peer exceeded a bound.
    """

    def __init__(
        self, reader: LineReader, writer: LineWriter, bounds: PipeBounds, on_garbage: Callable[[str], None]
    ) -> None:
        self._reader, self._writer = reader, writer
        self._bounds, self._on_garbage = bounds, on_garbage
        self._garbage = 0
        self._loop = asyncio.get_running_loop()
        self._unasked = Pace(bounds.pace, self._loop.time)
        self._progress = Pace(bounds.pace.of_progress, self._loop.time)
        self._outgoing = OutgoingRequests(writer)
        self._in_flight: dict[RequestId, IncomingRequest] = {}
        self._tasks: dict[asyncio.Task[None], anyio.CancelScope] = {}
        self._answers_waiting = 0
        self._handlers: _Handlers | None = None
        self._ended = anyio.Event()
        self._answered = set[RequestId]()

    def take_up(self, data: bytes, answered: Iterable[RequestId], unsent: bytes) -> None:
        """Continue a connection begun elsewhere: treat ``data``, read there already, as the first input from the peer.

        Requests with an id in ``answered`` are handled, but have been answered already; ``unsent``, the rest of those
        answers, is written first.
        """
        if unsent:
            with suppress(anyio.BrokenResourceError):
                self._writer.post(unsent)
        self._reader.begin_with(data)
        self._answered.update(answered)

    @property
    def ended(self) -> anyio.Event:
        """Set when no more input can arrive."""
        return self._ended

    @property
    def fault(self) -> str:
        """The violation that ended the connection; empty unless the peer exceeded a bound."""
        return self._reader.fault

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Dispatch messages to the handlers until the peer's input ends; then cancel handlers that still run."""
        self._handlers = _Handlers(on_request, on_notify, on_notify_intercept)
        self._reader.start(self._take, self._on_end)
        task_status.started()
        try:
            await self._ended.wait()
        finally:
            self._reader.end()
            with anyio.CancelScope(shield=True):
                for scope in self._tasks.values():
                    scope.cancel()
                if self._tasks:
                    await asyncio.wait(self._tasks)
                await self._writer.flush(_LAST_WRITE_S)

    # -- to the peer -----------------------------------------------------------------------------

    async def send_raw_request(self, method: str, params: Params | None, opts: CallOptions | None = None) -> JsonObject:
        """Send a request and return its result.

        Raises:
            MCPError: the peer's own error; ``REQUEST_TIMEOUT``; ``CONNECTION_CLOSED``.
            RuntimeError: called before :meth:`run`.
            ValueError: the id that ``opts`` asks for is in use.

        """
        if self._handlers is None:
            raise RuntimeError("send_raw_request was called before run()")
        return await self._outgoing.send(method, params, opts or {})

    async def notify(self, method: str, params: Params | None, opts: CallOptions | None = None) -> None:  # noqa: ARG002
        """Send a notification; it is dropped if the peer is gone."""
        with suppress(anyio.BrokenResourceError):
            await self._writer.send(encode(notification(method, params)))

    # -- from the peer ---------------------------------------------------------------------------

    def _take(self, line: bytearray) -> None:
        """Process the next line. While a long one is being decoded, subsequent lines wait."""
        if is_long(line):
            self._reader.hold()
            self._spawn(self._take_long(line), anyio.CancelScope())
            return
        try:
            message = decode(line)
        except ValueError:
            message = None
        self._dispatch(message, line)

    async def _take_long(self, line: bytearray) -> None:
        if await has_more_values(line, self._bounds.values):
            self._reader.end(f"sent a message of more than {self._bounds.values} values (limits.message_values)")
            return
        try:
            message = await decode_in_steps(line)
        except ValueError:
            message = None
        self._dispatch(message, line)
        self._reader.release()

    def _dispatch(self, message: Any, line: bytearray) -> None:
        if self._is_taken(message):
            self._garbage = 0
        elif line.strip():
            self._note_garbage(line)

    def _note_garbage(self, line: bytearray) -> None:
        self._garbage += 1
        self._on_garbage(line[:_GARBAGE_KEPT].decode("utf-8", "replace"))
        if self._garbage > self._bounds.garbage_lines:
            self._reader.end(f"sent {self._garbage} lines in a row that are not MCP messages")

    def _is_taken(self, message: Any) -> bool:
        """Dispatch a message; return whether it is a valid one (JSON-RPC 2.0, params by name only)."""
        if not isinstance(message, dict):
            return False
        members = cast("JsonObject", message)
        if members.get("jsonrpc") != "2.0":
            return False
        method = members.get("method")
        if not isinstance(method, str):
            return self._is_answer(members)
        params = members.get("params")
        if not isinstance(params, dict) and params is not None:
            return False
        named = cast("JsonObject | None", params)
        request_id = as_request_id(members.get("id"))
        if request_id is None:
            self._on_notification(method, named)
        else:
            self._on_request(request_id, method, named)
        return True

    def _is_answer(self, members: JsonObject) -> bool:
        """Deliver an answer to the request that waits for it, if any; return whether the message is an answer."""
        request_id, outcome = as_request_id(members.get("id")), members.get("result")
        if "error" in members:
            try:
                outcome = ErrorData.model_validate(members["error"], by_name=False)
            except ValueError:
                return False
        elif not isinstance(outcome, dict) or request_id is None:
            return False
        if not self._outgoing.settle(request_id, cast("Outcome", outcome)):
            self._slow_down(self._unasked)
        return True

    def _slow_down(self, pace: Pace) -> None:
        """Pause reading from a peer that sends too fast; end the connection if it does not slow down."""
        if pause := pace.pause():
            self._reader.hold()
            self._loop.call_later(pause, self._reader.release)
            if pace.is_flood:
                self._reader.end(self._bounds.pace.fault)

    def _on_notification(self, method: str, params: JsonObject | None) -> None:
        assert self._handlers is not None
        told = self._outgoing.progress_told(params or {}) if method == PROGRESS else None
        if told is None:
            self._slow_down(self._unasked)
        else:
            # Only slowed: the caller of the request waits for its answer, and bounds the time.
            self._slow_down(self._progress)
            self._spawn(_contained(told, method), anyio.CancelScope())
        if method == "notifications/cancelled":
            request_id = cancelled_request_id_from_params(params)
            if request_id is not None and (known := self._in_flight.get(coerce_request_id(request_id))):
                known.cancel()
        # Progress is delivered once: to the caller that requested it.
        if not run_notify_intercept(self._handlers.intercept, method, params) and told is None:
            notified = IncomingRequest(self, None, None)
            self._spawn(_contained(self._handlers.on_notify(notified, method, params), method), notified.scope)

    def _on_request(self, request_id: RequestId, method: str, params: JsonObject | None) -> None:
        if self._bounds.paces_requests:
            self._slow_down(self._unasked)
        asked = IncomingRequest(self, request_id, progress_token_from_params(params))
        # If a peer reuses an id, which is its mistake, both requests are answered, and the later one can be cancelled.
        self._in_flight[coerce_request_id(request_id)] = asked
        task = self._spawn(self._answer(asked, request_id, method, params), asked.scope)
        if method == _INLINE:
            self._reader.hold()
            task.add_done_callback(lambda _: self._reader.release())

    async def _answer(
        self, asked: IncomingRequest, request_id: RequestId, method: str, params: JsonObject | None
    ) -> None:
        """Handle a request and answer it, unless the peer has cancelled it meanwhile."""
        assert self._handlers is not None
        has_answer = request_id in self._answered
        self._answered.discard(request_id)
        try:
            answer = encode(result(request_id, await self._handlers.on_request(asked, method, params)))
        except anyio.get_cancelled_exc_class():
            if not (asked.is_cancelled or has_answer):
                with suppress(anyio.BrokenResourceError):
                    self._writer.post(encode(refusal(request_id, CLOSED)))
            raise
        except Exception as error:  # barrier: a request; only protocol errors are sent in detail
            answer = encode(refusal(request_id, _told(error, method)))
        finally:
            asked.close()
            key = coerce_request_id(request_id)
            if self._in_flight.get(key) is asked:
                del self._in_flight[key]
        if not (asked.is_cancelled or has_answer):
            await self._send_answer(answer)

    async def _send_answer(self, line: bytes) -> None:
        """Send an answer; stop reading from a peer while too many answers are waiting."""
        self._answers_waiting += 1
        if self._answers_waiting == _ANSWERS_WAITING:
            self._reader.hold()
        try:
            with suppress(anyio.BrokenResourceError):
                await self._writer.send(line)
        finally:
            if self._answers_waiting == _ANSWERS_WAITING:
                self._reader.release()
            self._answers_waiting -= 1

    # -- tasks and the end -----------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None], scope: anyio.CancelScope) -> "asyncio.Task[None]":
        """Run a coroutine in a task that ends before ``run`` does."""

        async def within() -> None:
            try:
                with scope:
                    await work
            finally:
                # Here rather than in a callback of the task, which would take another iteration of the loop.
                del self._tasks[task]

        task = self._loop.create_task(within())
        self._tasks[task] = scope
        return task

    def _on_end(self) -> None:
        self._ended.set()
        self._outgoing.close()


async def _contained(work: Any, method: str) -> None:
    try:
        await work
    except Exception:  # barrier: a notification; it must not end the connection
        _log.exception("the handler of %r failed", method)


def _told(error: Exception, method: str) -> ErrorData:
    """Return the error sent to a peer: the protocol's own errors as they are; any other without details."""
    told = handler_exception_to_error_data(error)
    if told is None:
        _log.error("the handler of %r failed", method, exc_info=error)
        return ErrorData(code=INTERNAL_ERROR, message="Internal error")
    return told


@contextmanager
def open_dispatcher(
    read_fd: int, write_fd: int, bounds: PipeBounds, on_garbage: Callable[[str], None]
) -> Generator[LineDispatcher]:
    """Open a connection over two descriptors, which the caller still has to close.

    ``on_garbage`` receives the beginning of every invalid line.
    """
    with open_pipe(read_fd, write_fd, bounds.line_max_bytes, bounds.line_limit) as (reader, writer):
        yield LineDispatcher(reader, writer, bounds, on_garbage)
