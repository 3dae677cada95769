"""MCP over two file descriptors, one JSON-RPC message a line: bounded, and without a thread hop a message.

Knows bytes, lines and JSON-RPC messages; never knows who is at the other end or what a message asks.
Feeds the same streams that the SDK's own stdio transports feed; POSIX pipes and sockets only (see
:func:`supports`).
"""

import json
import os
import stat
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.lowlevel
from anyio.abc import AsyncResource
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter
from pydantic_core import PydanticSerializationError, ValidationError

from toolcrib.streams.json_steps import decode_in_steps
from toolcrib.streams.sdk import ReadStream, SessionMessage

_CHUNK = 256 * 1024
_STEPWISE_FROM = 128 * 1024
"""Bytes from which on a line is decoded in steps; a shorter one does not hold up the event loop for long."""
_BURST = 32
"""Messages between two turns of other tasks: lines that have been read already need no waiting."""
_GARBAGE_KEPT = 2000
"""Bytes of a line that is no message, which ``on_garbage`` is given."""


@dataclass(frozen=True, slots=True)
class PipeBounds:
    """How much a peer may send: bytes of one line, and lines in a row that are no JSON-RPC message."""

    line_max_bytes: int
    garbage_lines: int


def supports(read_fd: int) -> bool:
    """Return whether the event loop can wait for this descriptor to be readable: a POSIX pipe, socket or terminal.

    Whatever can be written to will do for the other direction: what cannot be waited for, such as a file, never blocks.
    """
    if sys.platform == "win32":
        return False
    mode = os.fstat(read_fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(read_fd)


class MessageReader(AsyncResource):
    """The receiving half: an async iterator of messages. ``fault`` says why it ended, if not by end of file."""

    def __init__(self, fd: int, bounds: PipeBounds, on_garbage: Callable[[str], None]) -> None:
        self._fd, self._bounds, self._on_garbage = fd, bounds, on_garbage
        self._lines: deque[bytearray] = deque()
        self._partial = bytearray()
        self._garbage = 0
        self._burst = 0
        self._closed = False
        self.ended = anyio.Event()
        self.fault = ""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the peer closed its end, or broke a bound (then ``fault`` is set).

        """
        while not self._closed:
            if self._lines:
                message = await self._parse(self._lines.popleft())
                if message is not None:
                    return message
            elif self.fault or not await self._fill():
                break
        self._closed = True  # a terminal reports the end of its input once only
        self.ended.set()
        raise anyio.EndOfStream

    async def _fill(self) -> bool:
        """Read what there is into lines; return whether there may be more."""
        self._burst = 0
        try:
            await anyio.wait_readable(self._fd)
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return True
        except (OSError, anyio.ClosedResourceError):
            return False
        if not chunk:
            return False
        self._split(chunk)
        return True

    def _split(self, chunk: bytes) -> None:
        """Take the lines that end in ``chunk``, up to one that is too long, and keep the beginning of the last."""
        self._partial += chunk
        # Split only where the chunk ends a line: splitting a long line again with each of its chunks would take time
        # that grows with the square of its length.
        *whole, rest = self._partial.split(b"\n") if b"\n" in chunk else [self._partial]
        self._partial = rest
        for line in whole:
            if self._is_too_long(line):
                return
            self._lines.append(line)
        # A line without an end would otherwise grow without a bound.
        self._is_too_long(rest)

    def _is_too_long(self, line: bytearray) -> bool:
        if len(line) <= self._bounds.line_max_bytes:
            return False
        self.fault = f"sent a line of more than {self._bounds.line_max_bytes} bytes"
        self._partial.clear()
        return True

    async def _parse(self, line: bytearray) -> SessionMessage | None:
        """Return the message that a line is, or None; let other tasks run now and then."""
        self._burst += 1
        if self._burst % _BURST == 0:
            await anyio.lowlevel.checkpoint()
        try:
            message = await _decode(line)
        except ValueError:
            if line.strip():
                self._note_garbage(line)
            return None
        self._garbage = 0
        return SessionMessage(message)

    def _note_garbage(self, line: bytearray) -> None:
        self._garbage += 1
        self._on_garbage(line[:_GARBAGE_KEPT].decode("utf-8", "replace"))
        if self._garbage > self._bounds.garbage_lines:
            self.fault = f"sent {self._garbage} lines in a row that are no MCP messages"
            self._closed = True

    async def aclose(self) -> None:
        """Stop receiving. The descriptor stays its owner's."""
        self._closed = True

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class MessageWriter(AsyncResource):
    """The sending half. A message is written whole or not at all, also when its sender is cancelled."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._unsent = bytearray()
        self._waiting = anyio.Event()
        self._drained = anyio.Event()
        self._broken = False

    async def send(self, item: SessionMessage) -> None:
        """Write one message; wait while the peer does not read.

        Raises:
            anyio.BrokenResourceError: the peer is gone, or this end was closed.

        """
        while self._unsent:
            await self._drained.wait()
        self._check_open()
        self._unsent += encode(item.message) + b"\n"
        if not self._write_some():
            self._drained = anyio.Event()
            # A sender that is cancelled from here on leaves the rest to flush_forever: half a message would break the
            # stream.
            self._waiting.set()
            await self._drained.wait()
            self._check_open()

    def _check_open(self) -> None:
        if self._broken:
            raise anyio.BrokenResourceError

    def _write_some(self) -> bool:
        """Write as much as the pipe takes now; return whether that was all."""
        try:
            while self._unsent:
                sent = os.write(self._fd, self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            return False
        except OSError:
            self._break()
            raise anyio.BrokenResourceError from None
        return True

    def _break(self) -> None:
        self._broken = True
        self._unsent.clear()
        self._drained.set()

    async def flush_forever(self) -> None:
        """Write on what a full pipe left over: the one task that waits for the peer to read."""
        while True:
            await self._waiting.wait()
            self._waiting = anyio.Event()
            try:
                while not self._write_some():
                    await anyio.wait_writable(self._fd)
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._break()
                return
            self._drained.set()

    async def aclose(self) -> None:
        """Refuse further messages. The descriptor stays its owner's."""
        self._break()


async def _decode(line: bytearray) -> JSONRPCMessage:
    """Return the message that a line is; ValueError if it is none.

    Long lines are decoded in steps. So are lines that the fast decoder refuses: it does not know lone surrogates,
    which JSON may hold.
    """
    if len(line) < _STEPWISE_FROM:
        try:
            return jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            pass
    return jsonrpc_message_adapter.validate_python(await decode_in_steps(line), by_name=False)


def encode(message: JSONRPCMessage) -> bytes:
    """Return a message as compact JSON. Lone surrogates, which UTF-8 cannot hold, go out as escapes."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        document = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(document, separators=(",", ":")).encode()


@asynccontextmanager
async def message_pipe(
    read_fd: int, write_fd: int, bounds: PipeBounds, on_garbage: Callable[[str], None]
) -> AsyncGenerator[tuple[MessageReader, MessageWriter]]:
    """Open the message streams over two descriptors, which stay the caller's to close.

    Both are made non-blocking while this is open and put back afterwards.
    """
    # A dictionary, because one socket may serve both directions.
    blocking = {fd: os.get_blocking(fd) for fd in (read_fd, write_fd)}
    for fd in blocking:
        os.set_blocking(fd, False)
    reader, writer = MessageReader(read_fd, bounds, on_garbage), MessageWriter(write_fd)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.flush_forever)
            yield reader, writer
            tasks.cancel_scope.cancel()
    finally:
        for fd, was_blocking in blocking.items():
            os.set_blocking(fd, was_blocking)
