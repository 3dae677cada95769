"""A listener on 127.0.0.1 for the one redirect that a browser makes from an authorization server (RFC 8252).

Knows a little HTTP and the expected answer; never knows what was requested. Any other request, from whatever page or
program, changes nothing.
"""

import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport] - the loop would import it while others wait
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from toolcrib.base.errors import LoginFailed
from toolcrib.jsonrpc.sdk_oauth import AuthorizationCodeResult
from toolcrib.login.answers import answer_in, state_of

_HOST, _PATH = "127.0.0.1", "/callback"
_HEAD_MAX, _HEAD_S = 16 * 1024, 5.0
_AT_ONCE = 8

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>toolcrib</title>
<p>{text} You can close this page.</p></html>"""
_HEADERS = (
    "content-type: text/html; charset=utf-8\r\ncontent-security-policy: default-src 'none'\r\n"
    "referrer-policy: no-referrer\r\ncache-control: no-store\r\nconnection: close\r\n"
)


class Listener:
    """Waits for one response at ``redirect_uri``. Create it with :func:`listening`."""

    def __init__(self, port: int) -> None:
        self.redirect_uri = f"http://{_HOST}:{port}{_PATH}"
        self._hosts = (f"{_HOST}:{port}", f"localhost:{port}")
        self._state = ""
        self._answered = anyio.Event()
        self._result: AuthorizationCodeResult | LoginFailed | None = None
        self._room = anyio.CapacityLimiter(_AT_ONCE)

    def expect(self, address: str) -> None:
        """Wait for the response to the authorization URL ``address``, and no other."""
        self._state = state_of(address)

    async def answer(self) -> AuthorizationCodeResult:
        """Return the response, once it has arrived.

        Raises:
            LoginFailed: the authorization was denied.

        """
        await self._answered.wait()
        if isinstance(self._result, AuthorizationCodeResult):
            return self._result
        raise self._result or LoginFailed("no answer came")

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        """Handle one connection."""
        async with stream, self._room:
            try:
                with anyio.move_on_after(_HEAD_S):
                    status, text = self._taken(await _head(stream))
                    page = _PAGE.format(text=text).encode()
                    head = f"HTTP/1.1 {status}\r\n{_HEADERS}content-length: {len(page)}\r\n\r\n"
                    await stream.send(head.encode() + page)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            finally:
                if self._result is not None:
                    self._answered.set()  # once the browser has its page

    def _taken(self, head: str) -> tuple[str, str]:
        """Return the status and text of the reply to a request; store the response, if it is the expected one."""
        first, *fields = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path, _, query = rest.partition(" ")[0].partition("?")
        named = {name.strip().lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        if method != "GET" or path != _PATH or named.get("host", "").lower() not in self._hosts:
            return "404 Not Found", "There is nothing here."
        if self._result is not None:
            return "409 Conflict", "The answer was already received."
        try:
            self._result = answer_in(query, self._state)
        except LoginFailed as error:
            self._result = error
            return "200 OK", "The login was denied."
        if self._result is None:
            return "400 Bad Request", "This is not the answer to toolcrib's request."
        return "200 OK", "toolcrib has received the answer."


async def _head(stream: anyio.abc.SocketStream) -> str:
    data = b""
    while b"\r\n\r\n" not in data and len(data) <= _HEAD_MAX:
        data += await stream.receive()
    return data[:_HEAD_MAX].partition(b"\r\n\r\n")[0].decode("latin-1")


@asynccontextmanager
async def listening(*ports: int) -> AsyncGenerator[Listener]:
    """Listen at the first of these ports that is free, 0 for any, until the block ends.

    Raises:
        LoginFailed: none of them is free.

    """
    for port in ports:
        try:
            listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=port)
        except OSError:
            continue
        async with listener, anyio.create_task_group() as tasks:
            waiting = Listener(listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610 - of anyio
            tasks.start_soon(listener.serve, waiting.serve)
            yield waiting
            tasks.cancel_scope.cancel()
        return
    raise LoginFailed(f"port {ports[0]} of 127.0.0.1, where the answer is expected, is used by another program")
