"""What a gateway takes from the program around it, in one frozen value."""

import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from toolcrib.base.clocks import steady_clock
from toolcrib.base.handles import NewHandle, new_handle

if TYPE_CHECKING:
    from toolcrib.downstream.head_start import HeadStart
    from toolcrib.downstream.transport import Connector  # imports the SDK, which a search does without


@dataclass(frozen=True, slots=True)
class Runtime:
    """Clocks, randomness, transports to servers, and a copy of every event. The defaults are those of a real process.

    ``wall_clock`` returns seconds since the epoch and is for show alone: somebody may set it at any moment. What is
    stored with a time, and expires, goes by ``lasting_clock``; what ends with the process by ``clock``, which is
    monotonic. ``thread_clock`` is a thread's CPU time, which bounds the work of one pattern.

    ``jitter`` returns a number in [0, 1). ``pause`` waits for so many seconds between two checks of the catalog's age.
    ``mirror`` gets each event as a line of JSON. ``connector`` reaches servers; None: as the config says. ``pid``
    distinguishes the sessions of this process in shared files. ``new_handle`` makes every handle that a caller gets.
    ``command`` is the command of a person that this process runs, such as ``index refresh``; empty: it serves clients.
    ``ahead`` is a server's process that was started already.
    """

    wall_clock: Callable[[], float] = time.time
    lasting_clock: Callable[[], float] = field(default_factory=steady_clock)
    clock: Callable[[], float] = time.monotonic
    thread_clock: Callable[[], float] = time.thread_time
    jitter: Callable[[], float] = random.random
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
    mirror: Callable[[str], None] | None = None
    connector: "Connector | None" = None
    pid: int = field(default_factory=os.getpid)
    new_handle: NewHandle = new_handle
    command: str = ""
    ahead: "HeadStart | None" = None
