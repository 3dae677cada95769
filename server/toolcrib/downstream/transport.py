"""From a server's settings to a dispatcher of messages: over pipes, streamable HTTP, the older SSE, or in memory."""

# For the first name of a host, asyncio would import it on the loop.
import concurrent.futures.thread  # noqa: F401 # pyright: ignore[reportUnusedImport]
import math
import secrets
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.to_thread
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from toolcrib.auth.logins import Logins
from toolcrib.base.text import truncate
from toolcrib.config.launching import find_program
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import HttpTarget, MemoryTarget, ServerSettings, StdioTarget, Target
from toolcrib.downstream.failures import last_words
from toolcrib.downstream.head_start import HeadStart
from toolcrib.downstream.http import BodyBounds, Deliver, HttpChannel, HttpClient, Login
from toolcrib.downstream.process import Child, Lifeline, running
from toolcrib.downstream.programs import Program
from toolcrib.jsonrpc.dispatcher import LineDispatcher, PipeBounds, open_dispatcher, require_asyncio
from toolcrib.jsonrpc.rate_limit import RateBounds, RateLimitedStream
from toolcrib.jsonrpc.sdk import Channel, ReadStream, SessionMessage, StreamDispatcher, TransportStreams

_QUOTED_MAX = 300
_UNUSED_S = 4
"""How long a connection is kept that is not used: less than servers keep it (5 s by uvicorn and Node), so that none of
them closes it while a call is on its way."""

_Make = Callable[[Deliver | None], Awaitable[HttpClient]]


@dataclass(frozen=True, slots=True)
class Streams:
    """An open transport. ``explain`` adds what the transport knows about a failure: exit code, last words.

    ``correlates``: what the server sends on account of a request comes with it, so that it is known whose it is.
    ``program`` is the mark (:class:`Program`) of what was started; None where nothing was, or nothing is known of it.
    """

    channel: Channel
    http: bool
    explain: Callable[[], Awaitable[str]]
    correlates: bool = False
    program: str | None = None


class Connector(Protocol):
    """Opens the transport of a server; tests pass their own."""

    def __call__(self, server: ServerSettings, limits: LimitsSection) -> AbstractAsyncContextManager[Streams]:
        """Return a context manager that connects when entered and has released everything when left."""
        ...


@asynccontextmanager
async def open_streams(
    server: ServerSettings,
    limits: LimitsSection,
    lifeline: Lifeline | None = None,
    on_stderr: Callable[[str, str], None] | None = None,
    logins: Logins | None = None,
    ahead: HeadStart | None = None,
) -> AsyncGenerator[Streams]:
    """Connect to ``server`` as its settings say. With a ``lifeline``, its process does not outlive a kill of ours.

    ``on_stderr`` gets the key of the server and each line that its process writes to stderr. Without ``logins``, nobody
    is logged in anywhere. ``ahead`` is a process that was started already, which may be the server's.

    Raises:
        OSError: a program that cannot be started.
        httpx2.HTTPError: an address that cannot be reached.

    """
    on_line = partial(on_stderr, server.key) if on_stderr else None
    if ahead and (begun := ahead.taken(server.target, on_line)):
        async with _process_streams(server, begun, limits) as process:
            yield replace(process, program=ahead.program)
        return
    # Before the start: what is replaced meanwhile differs from what was started, at the next comparison.
    program = await _mark_of(server.target)
    match server.target:
        # Our pipes and process groups are those of POSIX.
        case StdioTarget() as target if sys.platform == "win32":
            parameters = StdioServerParameters(
                command=find_program(target) or target.command,
                args=list(target.args),
                env=dict(target.env),
                cwd=target.cwd,
            )
            async with stdio_client(parameters) as streams:
                yield Streams(StreamDispatcher(*streams), http=False, explain=_nothing_known, program=program)
        case StdioTarget() as target:
            require_asyncio()
            started = running(target, limits.close_timeout_s, lifeline, on_line)
            async with _process_streams(server, started, limits) as process:
                yield replace(process, program=program)
        case HttpTarget() as target:
            way = _sse_streams if target.sse else _http_streams
            mark = secrets.token_hex()
            make = partial(_client, server, limits, mark, await logins.bearer(server) if logins else None)
            async with way(target, limits, make) as (read, write):
                paced = RateLimitedStream(read, _pace(limits))

                async def explain() -> str:
                    return f"it {paced.fault}" if paced.fault else ""

                yield Streams(HttpChannel(paced, write, mark), http=True, explain=explain, correlates=not target.sse)
        case MemoryTarget() as target:
            async with target.open() as channel:
                yield Streams(channel, http=False, explain=_nothing_known)


@asynccontextmanager
async def _http_streams(target: HttpTarget, limits: LimitsSection, make: _Make) -> AsyncGenerator[TransportStreams]:
    client = await make(None)
    async with (
        client,
        streamable_http_client(target.url, http_client=client, max_sse_event_size=limits.message_max_bytes) as streams,
    ):
        yield streams


@asynccontextmanager
async def _sse_streams(target: HttpTarget, _limits: LimitsSection, make: _Make) -> AsyncGenerator[TransportStreams]:
    """Connect the older way. What comes by the event stream is joined with the faults of what was posted."""
    # Without a bound, because faults are delivered from inside a request, which must not wait here.
    joined, received = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    client = await make(joined.send_nowait)

    def made(*_arguments: Any, **_options: Any) -> HttpClient:
        return client

    async with (
        joined,
        received,
        sse_client(target.url, httpx_client_factory=made) as (read, write),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_pump, read, joined)
        yield received, write
        tasks.cancel_scope.cancel()


async def _client(
    server: ServerSettings, limits: LimitsSection, mark: str, login: Login | None, deliver: Deliver | None
) -> HttpClient:
    """Return a client for the server, made in a worker thread: the system's certificates are read for it."""
    assert isinstance(server.target, HttpTarget)
    bounds = BodyBounds(limits.message_max_bytes, limits.message_values)
    # A read may take as long as the longest call; who makes a call keeps its own deadline.
    timeout = httpx2.Timeout(server.options.connect_timeout_s, read=limits.call_max_s)
    # Calls that are under way at a time each keep their connection; two more hold streams of the server's own.
    most = limits.calls_in_flight + 2
    pool = httpx2.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=_UNUSED_S)
    make = partial(
        *(HttpClient, server.target.public_url, bounds, mark, deliver, login, server.learned),
        headers=dict(server.target.headers),
        timeout=timeout,
        limits=pool,
    )
    return await anyio.to_thread.run_sync(make)


async def _pump(
    read: ReadStream[SessionMessage | Exception], joined: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    async with joined:
        async for item in read:
            await joined.send(item)


@asynccontextmanager
async def _process_streams(
    server: ServerSettings, started: AbstractAsyncContextManager[Child], limits: LimitsSection
) -> AsyncGenerator[Streams]:
    clean = server.redactor.clean
    first_garbage: list[str] = []

    def note_garbage(line: str) -> None:
        if not first_garbage:
            first_garbage.append(_quoted(clean(line)))

    bounds = PipeBounds(
        line_max_bytes=limits.message_max_bytes,
        line_limit="limits.message_max_bytes",
        values=limits.message_values,
        garbage_lines=limits.garbage_lines,
        pace=_pace(limits),
        paces_requests=True,
    )
    async with started as child:
        with open_dispatcher(child.read_fd, child.write_fd, bounds, note_garbage) as channel:

            async def explain() -> str:
                said = await _state_of(channel, child)
                if words := clean(" / ".join(last_words(child.stderr))):
                    said.append(f"its last output on stderr: {_quoted(words[-_QUOTED_MAX:])}")
                if first_garbage:
                    said.append(f"it printed {first_garbage[0]} on stdout, where only MCP messages may go")
                return "; ".join(said)

            yield Streams(channel, http=False, explain=explain)


async def _state_of(channel: LineDispatcher, child: Child) -> list[str]:
    """Return what happened to a process and its output."""
    if channel.ended.is_set():
        await child.wait_for_exit()
    said = [f"it {channel.fault}"] if channel.fault else []
    match child.exit_status:
        case None:
            pass
        case status if status < 0:
            said.append(f"it was ended by signal {-status}")
        case status:
            said.append(f"it exited with status {status}")
    return said


def _pace(limits: LimitsSection) -> RateBounds:
    return RateBounds(limits.notifications_per_s, limits.flood_s)


def _quoted(text: str) -> str:
    """Return untrusted text for one line of ours: control characters escaped, not too long."""
    return repr(truncate(text, _QUOTED_MAX))


async def _nothing_known() -> str:
    return ""


async def _mark_of(target: Target) -> str | None:
    if not isinstance(target, StdioTarget):
        return None
    # The deadline of the start holds, even if a file system does not answer.
    return await anyio.to_thread.run_sync(lambda: Program.find(target).mark(), abandon_on_cancel=True)
