"""Starts a server's process before the rest of toolcrib is loaded, for a command that waits for nothing else (ADR 71).

Imports no SDK: the process starts while that is imported.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from toolcrib.config.settings import StdioTarget, Target
from toolcrib.downstream.process import Child, open_lifeline, running
from toolcrib.downstream.programs import Program


class HeadStart:
    """A process that was started ahead, for the first connection to its server. Make one with :func:`head_start`.

    ``program`` is the mark (:class:`Program`) of what was started.
    """

    def __init__(self, target: StdioTarget, program: str | None) -> None:
        self.program = program
        self._target = target
        self._child: Child | None = None
        self._early: list[str] = []
        self._on_line: Callable[[str], None] | None = self._early.append
        self._is_over, self._has_ended = anyio.Event(), anyio.Event()

    @property
    def is_there(self) -> bool:
        """Whether the process runs, as far as is known, and nobody has taken it."""
        return self._child is not None and self._child.exit_status is None

    def taken(self, target: Target, on_line: Callable[[str], None] | None) -> AbstractAsyncContextManager[Child] | None:
        """Return the process, to be used once and ended when left; None if it is another's, used up or not running.

        ``on_line`` gets each line that it writes to stderr, those from before included.
        """
        if target != self._target or self._child is None or not self.is_there:
            return None
        child, self._child = self._child, None
        return self._used(child, on_line)

    @asynccontextmanager
    async def _used(self, child: Child, on_line: Callable[[str], None] | None) -> AsyncGenerator[Child]:
        self._on_line = on_line
        if on_line:
            for line in self._early:
                on_line(line)
        try:
            yield child
        finally:
            # The next connection starts a process of its own: no two of one server run at a time.
            self._is_over.set()
            with anyio.CancelScope(shield=True):
                await self._has_ended.wait()

    def _note(self, line: str) -> None:
        if self._on_line:
            self._on_line(line)

    async def run(self, close_timeout_s: float, *, task_status: TaskStatus[None]) -> None:
        """Run the process until it was used, or the head start is left."""
        try:
            async with (
                open_lifeline() as lifeline,
                running(self._target, close_timeout_s, lifeline, self._note) as self._child,
            ):
                task_status.started()
                await self._is_over.wait()
        except OSError:
            # The connection tries again, and reports what is wrong.
            task_status.started()
        finally:
            self._has_ended.set()

    def leave(self) -> None:
        """End the process, if nobody has used it."""
        self._child = None
        self._is_over.set()


@asynccontextmanager
async def head_start(target: StdioTarget, close_timeout_s: float) -> AsyncGenerator[HeadStart]:
    """Start a process, and end it when left, unless it has ended before.

    ``close_timeout_s`` is as for :func:`running`.
    """
    # Before the start: what is replaced meanwhile differs from what was started, at the next comparison.
    program = await anyio.to_thread.run_sync(lambda: Program.find(target).mark(), abandon_on_cancel=True)
    ahead = HeadStart(target, program)
    async with anyio.create_task_group() as tasks:
        await tasks.start(ahead.run, close_timeout_s)
        try:
            yield ahead
        finally:
            ahead.leave()
