"""Two descriptors and what lies at their far end, on which a test does what it likes."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress

import anyio

from waiting import DEADLINE_S, PATIENCE_S, settled, time_passes, until

__all__ = [
    "DEADLINE_S",
    "PATIENCE_S",
    "close",
    "read_on",
    "read_until",
    "settled",
    "socket_pair",
    "time_passes",
    "two_pipes",
    "until",
]


@contextmanager
def two_pipes() -> Generator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the descriptors of two ends, each (to read from, to write to)."""
    (here, far_out), (far_in, out) = os.pipe(), os.pipe()
    try:
        yield (here, out), (far_in, far_out)
    finally:
        close(here, out, far_in, far_out)


@contextmanager
def socket_pair() -> Generator[tuple[tuple[int, int], tuple[int, int]]]:
    one, other = socket.socketpair()
    with one, other:
        yield (one.fileno(), one.fileno()), (other.fileno(), other.fileno())


def close(*fds: int) -> None:
    for fd in fds:
        with suppress(OSError):  # a test may have closed it, to see what happens
            os.close(fd)


async def read_on(fd: int, into: bytearray, step: int = 1 << 16) -> None:
    """Read whatever comes, a little at a time, for as long as it is let."""
    os.set_blocking(fd, False)
    while True:
        await anyio.wait_readable(fd)
        if not (chunk := os.read(fd, step)):
            return
        into += chunk


async def read_until(fd: int, ending: bytes, step: int = 1 << 16) -> bytes:
    """Read until what came ends so, and return it all."""
    received = bytearray()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_on, fd, received, step)
        await until(lambda: received.endswith(ending))
        tasks.cancel_scope.cancel()
    return bytes(received)
