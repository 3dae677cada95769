"""Our requests to a peer, from sending to the answer, or until nobody waits for it any more.

Knows ids, answers, progress and cancellation; never knows how messages are read, or what the peer asks of us.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, ErrorData

from toolcrib.base.model import JsonObject
from toolcrib.streams.incoming import Params
from toolcrib.streams.messages import encode, notification, request
from toolcrib.streams.pipes import LineWriter
from toolcrib.streams.sdk import CallOptions, ProgressFnT, RequestId, as_request_id, coerce_request_id

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

    def settle(self, request_id: RequestId | None, outcome: Outcome) -> bool:
        """Deliver a response to the waiting caller; return whether there is one."""
        pending = self._of(request_id)
        if pending is None or pending.answer.done():
            return False
        pending.answer.set_result(outcome)
        return True

    def progress_told(self, params: Params) -> Coroutine[Any, Any, None] | None:
        """Return a coroutine that delivers a progress report to its caller; None if nobody wants it."""
        pending, progress = self._of(as_request_id(params.get("progressToken"))), _number(params.get("progress"))
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

    def _of(self, request_id: RequestId | None) -> _Pending | None:
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
        takes_back = opts.get("cancel_on_abandon", True)
        timeout = opts.get("timeout")
        try:
            if timeout is None:
                return await pending.answer
            with anyio.move_on_after(timeout):
                return await pending.answer
        except anyio.get_cancelled_exc_class():
            if takes_back:
                self._take_back(request_id, "caller cancelled")
            raise
        if takes_back:
            self._take_back(request_id, f"timed out after {timeout}s")
        return ErrorData(code=REQUEST_TIMEOUT, message=f"Request {method!r} timed out")

    def _take_back(self, request_id: RequestId, reason: str) -> None:
        message = notification("notifications/cancelled", {"requestId": request_id, "reason": reason})
        with suppress(anyio.BrokenResourceError):
            self._writer.post(encode(message))


def _raised(error: ErrorData) -> MCPError:
    return MCPError(code=error.code, message=error.message, data=error.data)


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
