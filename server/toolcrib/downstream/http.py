"""The HTTP client under the SDK's transports: every failure of a request becomes its answer, and bodies are bounded.

Without it, one refused connection ends everything that the SDK does for that server, and whether a call ran is unknown.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any, Protocol

import anyio
import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.streamable_http import LAST_EVENT_ID, MCP_SESSION_ID
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from toolcrib.auth.challenges import Challenge, challenge_of
from toolcrib.base.errors import LoginFailed
from toolcrib.base.json_decoding import LoneSurrogateFilter, ValueCount
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.redaction import Learned, MaskedBytes
from toolcrib.base.text import truncate
from toolcrib.downstream.relays import current_call
from toolcrib.downstream.sessions import PING_S, SESSION_NOT_FOUND, names_lost_session
from toolcrib.jsonrpc.sdk import ReadStream, SessionMessage, StreamDispatcher, WriteStream

UNDELIVERED = -39_404
"""Code of a :class:`ClientFault`: the server certainly did not do what was requested."""

BROKEN = -39_405
"""Likewise: the connection broke before the answer came."""

REFUSED = -39_403
"""Likewise: the address answered 401 or 403."""

FORGOTTEN = -39_406
"""Likewise: it named our session as one that it does not know, and refused the request for it."""

WANTS_LOGIN = -39_401
"""Likewise: because it requires a login by OAuth, or one with a wider scope, which its data's ``wants_more`` says.

The ``scope`` of the data is the one that the server names, if it names any."""

_MARK = "toolcrib"
"""The member of an error's data that proves it to be ours."""

_IN_DOUBT = "session_in_doubt"
"""The member that a fault has after which a ping in the same session failed alike."""

# Faults before anything was sent: a call that meets one can safely be sent again.
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_ENCODING_SHOWN = 40
_OWN_SHOWN, _READ_MAX, _HELD_MAX = 300, 4000, 4000
_EVENT_END = re.compile(rb"\r?\n\r?\n|\r\r")
# Several schemes may stand in one header, or in several that are joined (RFC 9110, section 11.6.1).
_BEARER = re.compile(r"(?:^|,)\s*bearer\b", re.IGNORECASE)
_SESSION_WORDS = (b"session", b"not initialized")
# What servers, and proxies in front of them, answer in place of 404 without a word about the session.
_MAY_BE_LOST = frozenset({401, 403, 410, 500, 503})
# With a word about the session: what is refused so was not begun. 408, 424, 429 and all above 499 may come late.
_BEFORE_ANYTHING_RAN = frozenset({401, 403, 409, 410, 412, 422})
_TAIL_S, _TAIL_BYTES = 0.1, 4096
_REASON_S = 5.0
"""How long the body of a refusal is read: its status alone says most, and nobody else ends one that never ends."""

Deliver = Callable[[SessionMessage], None]


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """Bytes of an answer that is no event stream, whose events the SDK bounds, and values of an answer or an event."""

    max_bytes: int
    values: int


class Login(Protocol):
    """What logs requests in. Where it ``is_expected``, a refusal that says nothing of a login is for want of it too."""

    @property
    def is_expected(self) -> bool:
        """Whether the config says that there has to be one."""
        ...

    def authorize(self, request: httpx2.Request) -> str:
        """Put on a request what is known, and return that; empty if there is nothing."""
        ...

    async def renew(self, sent: str, challenge: Challenge) -> bool:
        """Have something else than what was sent, and was refused; return whether there is anything."""
        ...


class ClientFault(MCPError):
    """An error that :class:`HttpClient` answered in place of the server: what its code says is true.

    ``is_session_in_doubt``: a ping in the same session failed alike.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, is_session_in_doubt: bool = False) -> None:
        super().__init__(code, message, data)
        self.is_session_in_doubt = is_session_in_doubt


class HttpChannel(StreamDispatcher):
    """A dispatcher over HTTP. Requests that its client answers with ``mark`` in the data raise :class:`ClientFault`."""

    def __init__(
        self, read: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage], mark: str
    ) -> None:
        super().__init__(read, write)
        self._mark = mark

    async def send_raw_request(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Send a request and return the raw result."""
        try:
            return await super().send_raw_request(*arguments, **options)
        except MCPError as error:
            data = as_object(error.data)
            # A server may answer with our codes too. If that were believed, "nothing ran" would be said of a call that
            # ran, and the call would be sent again: only who knows the mark, which is never sent, can say so.
            if data.get(_MARK) != self._mark:
                raise
            rest = {name: value for name, value in data.items() if name not in (_MARK, _IN_DOUBT)}
            is_in_doubt = _IN_DOUBT in data
            raise ClientFault(error.code, error.message, rest or None, is_session_in_doubt=is_in_doubt) from None


class HttpClient(httpx2.AsyncClient):
    """A client for one server.

    ``shown_url`` stands in texts, ``bounds`` limit what the server answers. ``mark``, a secret of this process, is in
    the data of each error that the client itself answers. ``deliver`` takes the answers of transports on which they do
    not come as responses. ``login`` logs requests in, if the server may require a login; the secrets in ``learned`` are
    removed from everything that the server answers.
    """

    def __init__(
        self,
        shown_url: str,
        bounds: BodyBounds,
        mark: str,
        deliver: Deliver | None = None,
        login: Login | None = None,
        learned: Learned | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._shown_url, self._bounds, self._mark = shown_url, bounds, mark
        self._deliver, self._login = deliver, login
        self._learned = learned or Learned()
        self._pings = count(1)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. A message that gets no proper response gets a JSON-RPC error that says why.

        Raises:
            httpx2.TransportError: a request that carries no message failed.

        """
        if LAST_EVENT_ID in request.headers and (call := current_call.get()) is not None:
            # The server has ended the stream of a call that goes on, and wants its client to poll (SEP-1699).
            await call.request.end_stream()
        # A few hundred compressed bytes can be a million: nothing is decoded, so what is counted is what there is.
        request.headers["accept-encoding"] = "identity"
        try:
            response = await self._logged_in(request, options)
        except httpx2.TransportError as error:
            reason = self._reason(error)
            if request.method != "POST":
                raise type(error)(reason) from error
            return self._answer(request, UNDELIVERED if isinstance(error, _NEVER_SENT) else BROKEN, reason)
        except LoginFailed as error:
            reason = f"its login could not be refreshed: {error}"
            if request.method != "POST":
                raise httpx2.ConnectError(reason) from error
            return self._answer(request, UNDELIVERED, reason)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        kind = _Events if self._has_events(request, response) else _Body
        response.stream = kind(response.stream, self._bounds, MaskedBytes(self._learned))
        if request.method == "POST" and kind is _Body:
            response.stream = _Identified(response.stream, request)
        if request.method == "POST" and response.status_code >= HTTPStatus.BAD_REQUEST:
            return await self._explained(request, response)
        return response if _is_plain(response) else await self._unreadable(request, response)

    def _has_events(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Whether a body is read event by event. Any other is read whole, whatever it is called.

        On the older transport answers do not come as responses, so what a POST gets is read whole too.
        """
        may_have = request.method == "GET" or (request.method == "POST" and self._deliver is None)
        return may_have and response.is_success and _is_event_stream(response)

    async def _logged_in(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Send a request with the login of the server; once more with a renewed one, where it was refused for that.

        Raises:
            LoginFailed: it was refused, and whether the login is valid is unknown.

        """
        if self._login is None:
            return await super().send(request, **options)
        sent = self._login.authorize(request)
        response = await super().send(request, **options)
        challenge = challenge_of(response)
        if challenge is None:
            return response
        try:
            if not await self._login.renew(sent, challenge):
                return response
        except LoginFailed:
            await response.aclose()
            raise
        await response.aclose()
        self._login.authorize(request)
        return await super().send(request, **options)

    async def _explained(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return a refusal as it is if it is a JSON-RPC error, else one made of its status; know a lost session."""
        body = await _body(response)
        has_session = _has_session(request)
        if has_session and _has_lost_session(response.status_code, body):
            return self._answer(request, UNDELIVERED, "it no longer knows our session")
        was_sent = "authorization" in request.headers
        is_expected = self._login is not None and (self._login.is_expected or was_sent)
        code = code_of(response, is_expected=is_expected)
        own = _own_error(body)
        said = own.message if own else body[:_READ_MAX].decode(errors="replace")
        if has_session and (answer := await self._lost_answer(request, response, code, said, own)):
            return answer
        if code != WANTS_LOGIN and self._deliver is None and own:
            return response
        challenge = challenge_of(response) if code == WANTS_LOGIN else None
        return self._answer(request, code, status_text(response), self._wanted(challenge) if challenge else None)

    async def _lost_answer(
        self, request: httpx2.Request, response: httpx2.Response, code: int, said: str, own: types.ErrorData | None
    ) -> httpx2.Response | None:
        """Return the answer to a request that was refused for its session, or may have been; None for any other.

        ``said`` is what the server says, ``own`` the error of JSON-RPC that it is, if it is one.
        """
        status = response.status_code
        # Where a login can be had, the want of one is told first; the next call begins a new session as well.
        if (code == WANTS_LOGIN and self._login is not None) or not _is_request(request):
            return None
        is_named = names_lost_session(said)
        is_sure = is_named and own is not None and own.code == SESSION_NOT_FOUND
        if not is_sure and not ((is_named or status in _MAY_BE_LOST) and await self._ping_gets(status, request)):
            return None
        text = status_text(response) if own is None else f"{status_text(response)}: {truncate(said, _OWN_SHOWN)}"
        if is_named and status in _BEFORE_ANYTHING_RAN:
            return self._answer(request, FORGOTTEN, text)
        return self._answer(request, code, text, {_IN_DOUBT: True})

    async def _ping_gets(self, status: int, request: httpx2.Request) -> bool:
        """Whether a ping in the session of a refused request gets the same status."""
        message = types.JSONRPCRequest(jsonrpc="2.0", id=f"toolcrib-ping-{next(self._pings)}", method="ping")
        content = message.model_dump_json(by_alias=True, exclude_none=True)
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        ping = self.build_request("POST", request.url, headers=headers, content=content)
        with anyio.move_on_after(PING_S), suppress(httpx2.TransportError):
            # Not read: it may be a stream.
            pong = await super().send(ping, stream=True)
            await pong.aclose()
            return pong.status_code == status
        return False

    def _wanted(self, challenge: Challenge) -> JsonObject:
        """Return the facts of a challenge for the caller, redacted: a server may put anything into the scope."""
        scope = {"scope": self._learned.clean(challenge.scope)} if challenge.scope else {}
        return {**scope, "wants_more": challenge.wants_more}

    async def _unreadable(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Refuse a body in an encoding that was not accepted (RFC 9110, section 12.5.3)."""
        await response.aclose()
        encoding = truncate(response.headers["content-encoding"], _ENCODING_SHOWN)
        reason = f"its answer is encoded ({encoding!r}), although toolcrib asked for none of that"
        if request.method != "POST":
            raise httpx2.RemoteProtocolError(reason, request=request)
        return self._answer(request, types.INTERNAL_ERROR, reason)

    def _answer(self, request: httpx2.Request, code: int, text: str, data: JsonObject | None = None) -> httpx2.Response:
        """Return the response that makes the SDK's transport answer the request with an error."""
        message = as_object(json.loads(request.content))
        detail = types.ErrorData(code=code, message=text, data={_MARK: self._mark, **(data or {})})
        error = types.JSONRPCError(jsonrpc="2.0", id=message.get("id"), error=detail)
        if self._deliver is not None:
            # Notifications, and answers of ours to the server, are not answered.
            if _is_request(request):
                self._deliver(SessionMessage(error))
            # On this transport answers come by the event stream, and a POST is only accepted.
            return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
        headers, body = {"content-type": "application/json"}, error.model_dump_json(by_alias=True)
        return httpx2.Response(HTTPStatus.SERVICE_UNAVAILABLE, headers=headers, text=body, request=request)

    def _reason(self, error: httpx2.TransportError) -> str:
        cause = str(error) or type(error).__name__
        if isinstance(error, _NEVER_SENT):
            return f"cannot connect to {self._shown_url} ({cause})"
        return f"the connection to {self._shown_url} broke ({cause})"


class _Body(httpx2.AsyncByteStream):
    """A response body that the SDK can decode, without secrets, and that fails when it grows too large."""

    def __init__(self, stream: httpx2.AsyncByteStream, bounds: BodyBounds, masked: MaskedBytes) -> None:
        self._stream, self._bounds, self._masked = stream, bounds, masked
        self._chunks: AsyncIterator[bytes] | None = None
        self._size = 0
        self._values = ValueCount()

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        characters = LoneSurrogateFilter()
        self._chunks = aiter(self._stream)
        async for chunk in self._chunks:
            self._check(chunk)
            yield characters.feed(self._masked.feed(chunk))
        yield characters.feed(self._masked.end())
        yield characters.end()

    def _check(self, chunk: bytes) -> None:
        """Count on.

        Raises:
            httpx2.StreamError: there is too much of it, which the SDK makes an answer of.

        """
        self._size += len(chunk)
        if self._size > self._bounds.max_bytes:
            raise httpx2.StreamError(
                f"an answer of more than {self._bounds.max_bytes} bytes (limits.message_max_bytes)"
            )
        if self._values.add(chunk) > self._bounds.values:
            raise httpx2.StreamError(f"an answer of more than {self._bounds.values} values (limits.message_values)")

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Identified(httpx2.AsyncByteStream):
    """The body of an answer to ``request``. An error that names none is the answer to it; the SDK would wait on."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: httpx2.Request) -> None:
        self._stream, self._request = stream, request

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        held, chunks = b"", aiter(self._stream)
        async for chunk in chunks:
            held += chunk
            if len(held) > _HELD_MAX:
                # Too long for an error: it is passed on as it comes.
                yield held
                break
        else:
            yield self._identified(held)
            return
        async for chunk in chunks:
            yield chunk

    def _identified(self, body: bytes) -> bytes:
        if b'"error"' not in body:
            return body
        try:
            answer = as_object(json.loads(body))
        except (ValueError, RecursionError):
            return body
        if "error" not in answer or answer.get("id") is not None:
            return body
        return json.dumps({**answer, "id": as_object(json.loads(self._request.content)).get("id")}).encode()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Events(_Body):
    """An event stream, of which an event fails that holds too much. The SDK itself counts an event's bytes."""

    def _check(self, chunk: bytes) -> None:
        for number, part in enumerate(_EVENT_END.split(chunk)):
            # An end that two chunks share is missed: then the next event is counted with this one.
            if number:
                self._values = ValueCount()
            if self._values.add(part) > self._bounds.values:
                raise httpx2.SSEError(f"an event of more than {self._bounds.values} values (limits.message_values)")

    async def aclose(self) -> None:
        """Let go of it; at its end, if that is near, because only behind a whole response a connection is used again.

        The SDK stops at the answer.
        """
        try:
            if self._chunks is not None:
                with anyio.move_on_after(_TAIL_S), suppress(httpx2.TransportError):
                    await _pass_over(self._chunks)
        finally:
            await super().aclose()


async def _pass_over(chunks: AsyncIterator[bytes]) -> None:
    """Read what is left, unless it is much."""
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > _TAIL_BYTES:
            return


def _is_event_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")


def _is_plain(response: httpx2.Response) -> bool:
    return response.headers.get("content-encoding", "identity").strip().lower() in ("", "identity")


async def _body(response: httpx2.Response) -> bytes:
    """Return the whole body; nothing of one that is encoded, is too large, takes too long or breaks off."""
    try:
        with anyio.move_on_after(_REASON_S):
            return await response.aread() if _is_plain(response) else b""
    except (httpx2.StreamError, httpx2.TransportError):
        pass
    finally:
        await response.aclose()
    return b""


def _own_error(body: bytes) -> types.ErrorData | None:
    try:
        message = jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValidationError:
        return None
    return message.error if isinstance(message, types.JSONRPCError) else None


def _is_request(request: httpx2.Request) -> bool:
    """Whether what was posted is a request, and neither a notification nor an answer."""
    message = as_object(json.loads(request.content))
    return "method" in message and "id" in message


def _has_session(request: httpx2.Request) -> bool:
    """Whether a request is part of a session: named in a header, or on the older transport in the address."""
    return MCP_SESSION_ID in request.headers or b"session" in request.url.query.lower()


def _has_lost_session(status: int, body: bytes) -> bool:
    """Whether a request failed for its session only. 404 is what the specification asks for; many servers say 400."""
    names_session = any(words in body.lower() for words in _SESSION_WORDS)
    return status == HTTPStatus.NOT_FOUND or (status == HTTPStatus.BAD_REQUEST and names_session)


def code_of(response: httpx2.Response, *, is_expected: bool = False) -> int:
    """Return the JSON-RPC error code for a status (2025-11-25 basic/authorization: a challenge names its scheme).

    ``is_expected``: the config says that the server wants a login, or it was sent one, so that it need not say so.
    """
    match response.status_code:
        case HTTPStatus.NOT_FOUND:
            return types.METHOD_NOT_FOUND
        case HTTPStatus.UNAUTHORIZED if is_expected or _names_bearer(response):
            return WANTS_LOGIN
        case HTTPStatus.FORBIDDEN if challenge_of(response) is not None:
            return WANTS_LOGIN
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return REFUSED
        case _:
            return types.INTERNAL_ERROR


def status_text(response: httpx2.Response) -> str:
    """Return a status for people."""
    text = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
    if code_of(response) != WANTS_LOGIN:
        return text
    more = challenge.wants_more if (challenge := challenge_of(response)) else False
    return f"{text} (the scope of its login is insufficient)" if more else f"{text} (it requires a login by OAuth)"


def _names_bearer(response: httpx2.Response) -> bool:
    return _BEARER.search(response.headers.get("www-authenticate", "")) is not None
