"""toolcrib over stdin and stdout, which then carry only the protocol.

The SDK's stdio server switches to a worker thread three times per message; ours never does, if descriptors allow it.
"""

import logging
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mcp.server import Server
from mcp.server.stdio import stdio_server

from toolcrib.base.errors import StartRefused
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import Settings
from toolcrib.jsonrpc.dispatcher import PipeBounds, open_dispatcher
from toolcrib.jsonrpc.pipes import supports
from toolcrib.jsonrpc.rate_limit import RateBounds
from toolcrib.jsonrpc.sdk import Channel, StreamDispatcher, serve_by_era
from toolcrib.server.early import EarlyExchange

_log = logging.getLogger(__name__)


def refuse_without_session(settings: Settings) -> None:
    """Refuse session scope on stdio without a session id (R79).

    Raises:
        StartRefused: ``activation_scope: session`` without a session id.

    """
    if settings.toolcrib.tool_search.activation_scope == "session" and not settings.session_id:
        raise StartRefused(
            "tool_search.activation_scope is 'session', but there is no session id. Set context.session_id in the "
            "config or TOOLCRIB_SESSION_ID in the environment, or use activation_scope 'run'."
        )


async def serve_stdio(server: Server[Any], limits: LimitsSection, begun: EarlyExchange) -> None:
    """Serve one client until it closes our stdin; ``begun`` is what was already exchanged with it."""
    async with _channel(limits, begun) as channel, server.lifespan(server) as state:
        await serve_by_era(server, channel, state)


@asynccontextmanager
async def _channel(limits: LimitsSection, begun: EarlyExchange) -> AsyncGenerator[Channel]:
    if not supports(0):
        async with stdio_server() as streams:
            yield StreamDispatcher(*streams)
        return
    bounds = PipeBounds(
        line_max_bytes=limits.request_max_bytes,
        line_limit="limits.request_max_bytes",
        values=limits.message_values,
        garbage_lines=limits.garbage_lines,
        pace=RateBounds(limits.notifications_per_s, limits.flood_s),
        paces_requests=False,  # a client may send requests as fast as they are answered
    )
    with _claimed_descriptors() as (read_fd, write_fd), open_dispatcher(read_fd, write_fd, bounds, _ignore) as channel:
        channel.take_up(begun.data, begun.ids, begun.unsent)
        yield channel
        if channel.fault:
            _log.warning("ended, because the client %s", channel.fault)


@contextmanager
def _claimed_descriptors() -> Generator[tuple[int, int]]:
    """Reserve stdin and stdout for the protocol: other output goes to stderr, other reads hit end of file."""
    sys.stdout.flush()
    read_fd, write_fd = _own(0), _own(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    try:
        # From here on a stray print or read, in any library, can touch neither side of the protocol.
        os.dup2(nowhere, 0)
        os.dup2(2, 1)
        yield read_fd, write_fd
    finally:
        sys.stdout.flush()
        os.dup2(read_fd, 0)
        os.dup2(write_fd, 1)
        for fd in (read_fd, write_fd, nowhere):
            os.close(fd)


def _own(fd: int) -> int:
    """Return a private descriptor for the file behind ``fd``.

    A terminal is reopened: a duplicate would share its mode with stderr, which must stay blocking.
    """
    return os.open(os.ttyname(fd), os.O_RDWR | os.O_NOCTTY) if os.isatty(fd) else os.dup(fd)


def _ignore(_line: str) -> None:
    """Ignore garbage from a client; the dispatcher counts it and ends the connection beyond its bound."""
