"""The SDK's ``Dispatcher`` over two descriptors, one JSON-RPC message per line: bounded, and fast.

Every call pays the cost of a message four times, so there is no model object, no stream and no task except the
handler's between the descriptor and the waiter (ADR 18).
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, cast

import anyio
import anyio.abc
import anyio.lowlevel
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, REQUEST_TIMEOUT, ErrorData
from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.base.json_decoding import decode_in_steps, has_more_values
from toolcrib.base.model import JsonObject
from toolcrib.jsonrpc.pipes import LineReader, LineWriter, open_pipe
from toolcrib.jsonrpc.rate_limit import PROGRESS, RateBounds, RateLimiter
from toolcrib.jsonrpc.sdk import (
    INVALID_ID,
    CallOptions,
    Channel,
    DispatchContext,
    NoBackChannelError,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    Outbound,
    ProgressFnT,
    ProgressToken,
    RequestId,
    TransportContext,
    as_request_id,
    cancelled_request_id_from_params,
    coerce_request_id,
    handler_exception_to_error_data,
    progress_token_from_params,
    run_notify_intercept,
)

_STEPWISE_FROM = 128 * 1024
"""Size in bytes from which a line is decoded in steps; a shorter one does not block the event loop for long."""


def decode(line: bytearray) -> Any:
    """Return the JSON value of a short line.

    Raises:
        ValueError: it is not valid JSON.

    """
    try:
        return from_json(line)
    except ValueError:
        pass
    try:
        # The fast decoder rejects lone surrogates, which JSON allows.
        return json.loads(line.decode())
    except RecursionError:
        raise ValueError("nested too deep") from None


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line of compact JSON. Lone surrogates, which UTF-8 cannot encode, are written as escapes.

    Raises:
        TypeError: it contains a value that JSON cannot represent.

    """
    try:
        return to_json(message, inf_nan_mode="null") + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def request(key: RequestId, method: str, params: Mapping[str, Any]) -> JsonObject:
    """Return a request. Without params the member is omitted, because JSON-RPC forbids null there."""
    head: JsonObject = {"jsonrpc": "2.0", "id": key, "method": method}
    return {**head, "params": params} if params else head


def notification(method: str, params: Mapping[str, Any] | None) -> JsonObject:
    """Return a notification."""
    head: JsonObject = {"jsonrpc": "2.0", "method": method}
    return head if params is None else {**head, "params": params}


def result(key: RequestId, value: Mapping[str, Any]) -> JsonObject:
    """Return the response to a successful request."""
    return {"jsonrpc": "2.0", "id": key, "result": value}


def refusal(key: RequestId | None, error: ErrorData) -> JsonObject:
    """Return the error response to a failed request; ``key`` is None if the request has no valid id."""
    return {"jsonrpc": "2.0", "id": key, "error": error.model_dump(by_alias=True, exclude_unset=True)}


_INVALID_REQUEST = encode(refusal(None, ErrorData(code=INVALID_REQUEST, message=INVALID_ID)))

_TRANSPORT = TransportContext(kind="stdio", can_send_request=True)

Params = Mapping[str, Any]


class IncomingRequest(DispatchContext[TransportContext]):
    """The context of an incoming request or notification, and the channel to its sender while it is being handled."""

    __slots__ = ("_cancel_requested", "_dispatcher", "_is_done", "_progress_token", "_request_id", "scope")

    def __init__(
        self, dispatcher: Outbound, request_id: RequestId | None, progress_token: ProgressToken | None
    ) -> None:
        self._dispatcher, self._request_id, self._progress_token = dispatcher, request_id, progress_token
        self._cancel_requested: anyio.Event | None = None
        self._is_done = False
        self.scope = anyio.CancelScope()

    @property
    def transport(self) -> TransportContext:
        """The transport, a pipe: it allows requests in both directions."""
        return _TRANSPORT

    @property
    def message_metadata(self) -> None:
        """None: a pipe attaches no metadata to messages."""
        return None

    @property
    def request_id(self) -> RequestId | None:
        """The id as sent by the peer; None for a notification."""
        return self._request_id

    @property
    def can_send_request(self) -> bool:
        """Whether the peer can be sent requests: until this request has been handled."""
        return not self._is_done

    @property
    def cancel_requested(self) -> anyio.Event:
        """Set when the peer cancels the request."""
        if self._cancel_requested is None:
            self._cancel_requested = anyio.Event()
        return self._cancel_requested

    @property
    def is_cancelled(self) -> bool:
        """Whether the peer has cancelled the request: then it gets no answer."""
        return self._cancel_requested is not None and self._cancel_requested.is_set()

    def cancel(self) -> None:
        """Cancel the handler, because the peer has cancelled the request."""
        self.cancel_requested.set()
        self.scope.cancel()

    def close(self) -> None:
        """Close the channel: the request has been handled."""
        self._is_done = True

    async def send_raw_request(self, method: str, params: Params | None, opts: CallOptions | None = None) -> JsonObject:
        """Send the peer a request on behalf of this request.

        Raises:
            MCPError: the peer's own error, or the channel is closed.

        """
        if self._is_done:
            raise NoBackChannelError(method)
        return await self._dispatcher.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Params | None, opts: CallOptions | None = None) -> None:
        """Send the peer a notification on behalf of this request; dropped once it has been handled."""
        if not self._is_done:
            await self._dispatcher.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress of this request to the peer, if it asked for it."""
        if self._progress_token is None:
            return
        facts = {"progressToken": self._progress_token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {key: fact for key, fact in facts.items() if fact is not None})


CLOSED = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
"""The error of requests interrupted by the end of the connection."""

Outcome = JsonObject | ErrorData


@dataclass(frozen=True, slots=True)
class _Pending:
    """A request without a response yet."""

    answer: "asyncio.Future[Outcome]"
    on_progress: ProgressFnT | None


class OutgoingRequests:
    """Our outgoing requests on one connection."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._ids = count(1)
        self._pending: dict[RequestId, _Pending] = {}
        self._is_closed = False

    async def send(self, method: str, params: Params | None, opts: CallOptions) -> JsonObject:
        """Send a request and return its result.

        Raises:
            MCPError: the peer's own error; ``REQUEST_TIMEOUT``; ``CONNECTION_CLOSED``.
            ValueError: the id that ``opts`` asks for is in use.

        """
        # After the end nothing would resolve it, and its caller would wait for ever.
        if self._is_closed:
            raise _raised(CLOSED)
        request_id, key = self._id_for(opts)
        on_progress = opts.get("on_progress")
        sent: Mapping[str, Any] = params or {}
        if on_progress is not None:
            # The id doubles as the progress token, so that the waiting caller is found by it.
            meta: JsonObject = sent.get("_meta") or {}
            sent = {**sent, "_meta": {**meta, "progressToken": request_id}}
        line = encode(request(request_id, method, sent))
        # Nothing has been sent so far, so a caller cancelled before this point leaves no request behind.
        await anyio.lowlevel.checkpoint_if_cancelled()
        pending = self._pending[key] = _Pending(self._loop.create_future(), on_progress)
        try:
            await self._writer.send(line)
            outcome = await self._answer_to(request_id, pending, method, opts)
        except anyio.BrokenResourceError:
            outcome = CLOSED
        finally:
            del self._pending[key]
        if isinstance(outcome, ErrorData):
            raise _raised(outcome)
        return outcome

    def resolve(self, request_id: RequestId | None, outcome: Outcome) -> bool:
        """Deliver a response to the waiting caller; return whether there is one."""
        pending = self._find(request_id)
        # A second answer to one request, or one that comes after the wait was given up, is nobody's.
        if pending is None or pending.answer.done():
            return False
        pending.answer.set_result(outcome)
        return True

    def progress_delivery(self, params: Params) -> Coroutine[Any, Any, None] | None:
        """Return a coroutine that delivers a progress report to its caller; None if nobody wants it."""
        pending, progress = self._find(as_request_id(params.get("progressToken"))), _number(params.get("progress"))
        if pending is None or pending.on_progress is None or progress is None:
            return None
        message = params.get("message")
        return pending.on_progress(
            progress, _number(params.get("total")), message if isinstance(message, str) else None
        )

    def close(self) -> None:
        """Notify all waiting callers that no response will come."""
        self._is_closed = True
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_result(CLOSED)

    def _find(self, request_id: RequestId | None) -> _Pending | None:
        if request_id is None:
            return None
        return self._pending.get(request_id) or self._pending.get(coerce_request_id(request_id))

    def _id_for(self, opts: CallOptions) -> tuple[RequestId, RequestId]:
        """Return the id of a new request, and the key for looking up its response: a peer may echo 7 as "7"."""
        given = opts.get("request_id")
        if given is None:
            minted = next(each for each in self._ids if each not in self._pending)
            return minted, minted
        key = coerce_request_id(given)
        if key in self._pending:
            raise ValueError(f"request id {given!r} is already in flight")
        return given, key

    async def _answer_to(self, request_id: RequestId, pending: _Pending, method: str, opts: CallOptions) -> Outcome:
        """Wait for the response to a request; if the wait is given up, cancel the request at the peer."""
        cancels = opts.get("cancel_on_abandon", True)
        timeout = opts.get("timeout")
        try:
            if timeout is None:
                return await pending.answer
            with anyio.move_on_after(timeout):
                return await pending.answer
        except anyio.get_cancelled_exc_class():
            if cancels:
                self._cancel_at_peer(request_id, "caller cancelled")
            raise
        if cancels:
            self._cancel_at_peer(request_id, f"timed out after {timeout}s")
        return ErrorData(code=REQUEST_TIMEOUT, message=f"Request {method!r} timed out")

    def _cancel_at_peer(self, request_id: RequestId, reason: str) -> None:
        message = notification("notifications/cancelled", {"requestId": request_id, "reason": reason})
        with suppress(anyio.BrokenResourceError):
            self._writer.post(encode(message))


def _raised(error: ErrorData) -> MCPError:
    return MCPError(code=error.code, message=error.message, data=error.data)


def _number(value: Any) -> float | None:
    # A bool is an int in Python, but no number in JSON.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


_MALFORMED = ErrorData(
    code=INTERNAL_ERROR, message="the answer is malformed: neither a result nor an error of JSON-RPC"
)
"""The error of requests whose answer is none: nothing else will come, so nobody has to wait for their timeout."""

_ENDS = 256
"""Number of bytes at both ends of a line in which the id of an answer is searched."""


@cache
def _answer_patterns() -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    """Return what an answer begins with, with its id or without, and what it ends with if the id is last."""
    return (
        re.compile(
            rb"""\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"id"\s*+:\s*+(\d{1,15}+|"[^"\\]{1,100}+")\s*+,\s*+
            (?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"(?:result|error)[\"]""",
            re.VERBOSE,
        ),
        re.compile(rb"""\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"(?:result|error)[\"]"""),
        re.compile(
            rb""",\s*+"id"\s*+:\s*+(\d{1,15}+|"[^"\\]{1,100}+")\s*+(?:,\s*+"jsonrpc"\s*+:\s*+"2\.0"\s*+)?\}\s*+\Z"""
        ),
    )


def _answered_by(line: bytearray) -> RequestId | None:
    """Return the id of the request that a line answers which no decoder takes: too deep, a number too long, cut off.

    It is found where servers write it, in the outermost object: before the result or error, or at the very end.
    """
    with_id, without_id, end = _answer_patterns()
    found = with_id.match(line[:_ENDS])
    if found is None and without_id.match(line[:_ENDS]):
        found = end.search(line[-_ENDS:])
    return None if found is None else as_request_id(json.loads(found[1]))


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
    pace: RateBounds
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
        self._unasked = RateLimiter(bounds.pace, self._loop.time)
        self._progress = RateLimiter(bounds.pace.of_progress, self._loop.time)
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
        # Decoding a long line at once would keep the event loop from everybody else.
        if len(line) >= _STEPWISE_FROM:
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
            if message is None and (request_id := _answered_by(line)) is not None:
                self._outgoing.resolve(request_id, _MALFORMED)

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
        if request_id is None and "id" in members:
            # Taken for a notification, it would leave its sender waiting for an answer without end.
            self._spawn(self._send_answer(_INVALID_REQUEST), anyio.CancelScope())
            return False
        if request_id is None:
            self._on_notification(method, named)
        else:
            self._on_request(request_id, method, named)
        return True

    def _is_answer(self, members: JsonObject) -> bool:
        """Deliver an answer to the request that waits for it, if any; return whether the message is an answer."""
        request_id, outcome = as_request_id(members.get("id")), members.get("result")
        # Some servers send both members, one of them null, as JSON-RPC 1.0 did.
        if members.get("error") is not None:
            try:
                outcome = ErrorData.model_validate(members["error"], by_name=False)
            except ValueError:
                outcome = None
        elif request_id is None:
            return False
        if not isinstance(outcome, (dict, ErrorData)):
            self._outgoing.resolve(request_id, _MALFORMED)
            return False
        if not self._outgoing.resolve(request_id, cast("Outcome", outcome)):
            self._slow_down(self._unasked)
        return True

    def _slow_down(self, pace: RateLimiter) -> None:
        """Pause reading from a peer that sends too fast; end the connection if it does not slow down."""
        if pause := pace.pause():
            self._reader.hold()
            self._loop.call_later(pause, self._reader.release)
            if pace.is_flood:
                self._reader.end(self._bounds.pace.fault)

    def _on_notification(self, method: str, params: JsonObject | None) -> None:
        assert self._handlers is not None
        delivery = self._outgoing.progress_delivery(params or {}) if method == PROGRESS else None
        if delivery is None:
            self._slow_down(self._unasked)
        else:
            # Only slowed: the caller of the request waits for its answer, and bounds the time.
            self._slow_down(self._progress)
            self._spawn(_contained(delivery, method), anyio.CancelScope())
        if method == "notifications/cancelled":
            request_id = cancelled_request_id_from_params(params)
            if request_id is not None and (known := self._in_flight.get(coerce_request_id(request_id))):
                known.cancel()
        # Progress is delivered once: to the caller that requested it.
        if not run_notify_intercept(self._handlers.intercept, method, params) and delivery is None:
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
            answer = encode(refusal(request_id, _error_for_peer(error, method)))
        finally:
            asked.close()
            key = coerce_request_id(request_id)
            # The id may have been reused meanwhile: then the entry is that of the later request.
            if self._in_flight.get(key) is asked:
                del self._in_flight[key]
        if asked.is_cancelled or has_answer:
            return
        if self._writer.is_free:
            with suppress(anyio.BrokenResourceError):
                self._writer.post(answer)
        else:
            await self._send_answer(answer)

    async def _send_answer(self, line: bytes) -> None:
        """Send an answer to a peer that is not reading; stop reading from it while too many answers are waiting."""
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


def _error_for_peer(error: Exception, method: str) -> ErrorData:
    """Return the error sent to a peer: the protocol's own errors as they are; any other without details."""
    protocol_error = handler_exception_to_error_data(error)
    if protocol_error is None:
        _log.error("the handler of %r failed", method, exc_info=error)
        return ErrorData(code=INTERNAL_ERROR, message="Internal error")
    return protocol_error


def require_asyncio() -> None:
    """Do nothing where pipes can be read.

    Raises:
        OSError: the program runs under another event loop than asyncio's.

    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise OSError("the program does not run under asyncio, which reading its pipes needs") from None


@contextmanager
def open_dispatcher(
    read_fd: int, write_fd: int, bounds: PipeBounds, on_garbage: Callable[[str], None]
) -> Generator[LineDispatcher]:
    """Open a connection over two descriptors, which the caller still has to close.

    ``on_garbage`` receives the beginning of every invalid line.
    """
    with open_pipe(read_fd, write_fd, bounds.line_max_bytes, bounds.line_limit) as (reader, writer):
        yield LineDispatcher(reader, writer, bounds, on_garbage)
