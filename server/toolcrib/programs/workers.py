"""The worker processes that run programs: the one door to ``pydantic_monty``, which is imported when one is needed.

A worker is an interpreter of Python in a process of its own, which has nothing of this machine: no files, no network,
no environment. Its turns run in threads, since a computation that is to end is ended by ending its worker (ADR 83).
"""

import os
import shlex
import shutil
import signal
import sys
import sysconfig
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from toolcrib.base.errors import ToolcribError
from toolcrib.base.text import one_line, truncate
from toolcrib.config.schema import ProgramsSection

if TYPE_CHECKING:
    import pydantic_monty

_T = TypeVar("_T")

_RECURSION_MAX = 400
"""Depth of calls in a program: a worker's stack holds some thousands."""
_SUSPENSIONS_PER_CALL = 8
"""Turns that one call of a program may take: the call itself, waiting for it, names and sleeps beside it."""
_SUSPENSIONS = 1000
_ANSWERS_AFTER_S: Final = 2.0
"""How long a worker may take beyond its computing time to say so, before it is killed."""
_MESSAGE_MAX = 500
_PROCESSES_MAX = 256
"""What the pool itself allows: its places are counted here, where a reload may change their number."""
_FIRST = "<python-input-0>"
_WORDED = {
    "TimeoutError: feed time limit exceeded": "it computed for too long (programs.compute_s)",
    "MemoryError": "it used too much memory (programs.memory_bytes)",
    "RuntimeError: suspension limit": "it made too many calls at once (programs.calls): limit",
    "RuntimeError": "ToolError",
}
_SLEEP = "system.sleep"
_SLEEPS = frozenset((_SLEEP, "system.async_sleep"))


class ProgramFailed(Exception):
    """A program ended with an error of its own; ``line`` is that of its text, 0 where it is unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class TypesRefused(Exception):
    """The checker has something to say about a program; nothing ran. ``rendered`` is its JSON."""

    def __init__(self, rendered: str) -> None:
        super().__init__("refused")
        self.rendered = rendered


class WorkerLost(ToolcribError):
    """A worker ended in the middle of a program: it was killed, or used more than it may."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call of a program that its host answers by ``number``; a sleep has a name of the interpreter's own."""

    number: int
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def sleeps_s(self) -> float | None:
        """How long the program wants to sleep; None: it is another call."""
        return _seconds(self.args) if self.name in _SLEEPS else None


def _seconds(args: tuple[Any, ...]) -> float:
    seconds = args[0] if args else 0
    return float(seconds) if isinstance(seconds, int | float) else 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A program that cannot go on: the ``calls`` that it made in this turn, and those of which it needs an answer."""

    calls: tuple[HostCall, ...]
    pending: frozenset[int]


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a text that was fed; ``value`` is that of its last expression."""

    value: Any


Answer = Mapping[str, Any]
"""The answer to a call, as the interpreter takes it; from :func:`returned` or :func:`raised`."""


def returned(value: Any) -> Answer:
    """Return the answer that a call has a value."""
    return {"return_value": value}


def raised(message: str) -> Answer:
    """Return the answer that a call has failed, as the program's ``ToolError``."""
    return {"exc_type": "RuntimeError", "message": message}


@dataclass(eq=False)
class Worker:
    """One worker, while it runs one program. Feed it a text, then answer until it is done.

    ``names`` are the functions of the host that the program may call; any other name that it does not define is an
    error in it. Each method blocks a thread for as long as the program computes.
    """

    _session: "pydantic_monty.MontySession"
    _pid: int | None
    _names: frozenset[str]
    _print: Callable[[str], None]
    _turns: anyio.CapacityLimiter
    _snapshot: Any = None
    _is_busy: bool = False
    _is_killed: bool = False
    _sleeping: int | None = None

    async def feed(self, code: str, *, checked: bool = False) -> Waiting | Done:
        """Run a text until it is done or has to wait; ``checked``: only if the type checker has nothing to say.

        Raises:
            ProgramFailed, TypesRefused, WorkerLost: as they say.

        """
        return await self._turn(lambda: self._start(code, checked=checked))

    async def answer(self, answers: Mapping[int, Answer]) -> Waiting | Done:
        """Go on with the answers to some of its calls. Raises as :meth:`feed` does."""
        return await self._turn(lambda: self._resume(answers))

    async def killed_if_cancelled(self) -> None:
        """Kill the worker when the calling task is cancelled during a turn, which nothing else can end."""
        try:
            await anyio.sleep_forever()
        finally:
            if self._is_busy:
                self._kill()

    async def _turn(self, work: Callable[[], Waiting | Done]) -> Waiting | Done:
        self._is_busy = True
        try:
            return await _uninterrupted(lambda: _translated(work), self._turns)
        except WorkerLost:
            await anyio.lowlevel.checkpoint_if_cancelled()  # it was killed for that
            raise
        finally:
            self._is_busy = False

    def _start(self, code: str, *, checked: bool) -> Waiting | Done:
        snapshot = self._session.feed_start(
            code, print_callback=lambda _stream, text: self._print(text), skip_type_check=not checked
        )
        return self._until_blocked(snapshot)

    def _resume(self, answers: Mapping[int, Answer]) -> Waiting | Done:
        if self._sleeping is not None:
            snapshot = self._snapshot.resume(answers[self._sleeping])
            self._sleeping = None
        else:
            snapshot = self._snapshot.resume(dict(answers))
        return self._until_blocked(snapshot)

    def _until_blocked(self, snapshot: Any) -> Waiting | Done:
        """Take the calls of a turn, until the program waits for one of them: so many need one change of threads."""
        import pydantic_monty as monty  # noqa: PLC0415 - as above

        calls: list[HostCall] = []
        while True:
            if isinstance(snapshot, monty.MontyComplete):
                return Done(snapshot.output)
            if isinstance(snapshot, monty.FutureSnapshot):
                self._snapshot = snapshot
                return Waiting(tuple(calls), frozenset(snapshot.pending_call_ids))
            if isinstance(snapshot, monty.NameLookupSnapshot):
                snapshot = snapshot.resume()
                continue
            name = str(snapshot.function_name)
            if snapshot.is_os_function and name not in _SLEEPS:
                # Stubs of modules are wanted in another form; there are none besides the interpreter's own.
                snapshot = snapshot.resume({"return_value": {}}) if "stubs" in name else snapshot.resume_not_handled()
            elif name not in self._names and name not in _SLEEPS:
                snapshot = snapshot.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
            else:
                calls.append(HostCall(snapshot.call_id, name, snapshot.args, snapshot.kwargs))
                if name == _SLEEP:  # the one that is not awaited: it is answered before anything else goes on
                    self._snapshot, self._sleeping = snapshot, snapshot.call_id
                    return Waiting(tuple(calls), frozenset((snapshot.call_id,)))
                snapshot = snapshot.resume({"future": ...})

    def _kill(self) -> None:
        if self._pid is None or self._is_killed:
            return
        self._is_killed = True
        with suppress(OSError):
            os.kill(self._pid, getattr(signal, "SIGKILL", signal.SIGTERM))


async def _uninterrupted(work: Callable[[], _T], turns: anyio.CapacityLimiter) -> _T:
    """Return what ``work`` does in a thread, and wait for its end, whoever is cancelled meanwhile."""
    done: list[_T] = []
    with anyio.CancelScope(shield=True):
        done.append(await anyio.to_thread.run_sync(work, limiter=turns))
    return done[0]


def _translated(work: Callable[[], _T]) -> _T:
    """Return what ``work`` does, with our errors in the place of the interpreter's. Blocks."""
    import pydantic_monty as monty  # noqa: PLC0415 - at the first program: most gateways run none

    try:
        return work()
    except monty.MontyTypingError as error:
        raise TypesRefused(error.display()) from None
    except (monty.MontySyntaxError, monty.MontyRuntimeError) as error:
        raise _failure(error) from None
    except (monty.MontyError, OSError, TimeoutError) as error:
        timed_out = isinstance(error, monty.MontyCrashedError) and error.timed_out
        why = "It computed for too long (programs.compute_s)." if timed_out else "The worker that ran it has ended."
        raise WorkerLost(why, detail=str(error)) from None


def _failure(error: Any) -> ProgramFailed:
    """Return the end of a program, with the last line of its own text on the way."""
    said = truncate(one_line(error.display("type-msg")), _MESSAGE_MAX)
    for start, worded in _WORDED.items():
        if said.startswith(start):
            said = worded + said.removeprefix(start)
            break
    # What is fed first is ours.
    lines = [frame.line for frame in error.traceback() if frame.filename != _FIRST]
    return ProgramFailed(said, lines[-1] if lines else 0)


@dataclass(eq=False)
class Workers:
    """The workers of one gateway: started when a program runs, stopped when none has for a while.

    ``folder`` is where the file lies that starts them; None: in a folder of its own, which goes with them.
    ``tasks`` own what waits for the end of their use.
    """

    folder: Path | None
    tasks: TaskGroup
    _pool: "pydantic_monty.Monty | None" = field(default=None, init=False)
    _opening: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _in_use: int = field(default=0, init=False)
    _ended: anyio.Event = field(default_factory=anyio.Event, init=False)
    _places: anyio.CapacityLimiter | None = field(default=None, init=False)
    _files: ExitStack = field(default_factory=ExitStack, init=False)

    @asynccontextmanager
    async def worker(
        self, section: ProgramsSection, *, names: frozenset[str], stubs: str | None, on_print: Callable[[str], None]
    ) -> AsyncGenerator[Worker]:
        """Hold a worker for one program; wait for one that is free. ``stubs`` are for its checker; None: no checks.

        Raises:
            WorkerLost: none could be started.

        """
        places = self._places = self._places or anyio.CapacityLimiter(section.workers)
        places.total_tokens = section.workers
        async with places:
            self._in_use += 1
            try:
                async with self._session(section, names, stubs, on_print) as worker:
                    yield worker
            finally:
                self._in_use -= 1
                self._ended.set()

    @asynccontextmanager
    async def _session(
        self, section: ProgramsSection, names: frozenset[str], stubs: str | None, on_print: Callable[[str], None]
    ) -> AsyncGenerator[Worker]:
        pool = await self._opened(section)
        turns = anyio.CapacityLimiter(1)
        session = pool.checkout(
            limits={
                "max_feed_duration_secs": section.compute_s,
                "max_memory": section.memory_bytes,
                "max_recursion_depth": _RECURSION_MAX,
                "max_suspensions": _SUSPENSIONS + section.calls * _SUSPENSIONS_PER_CALL,
            },
            type_check=stubs is not None,
            type_check_stubs=stubs,
            type_check_format="json",
        )
        await _uninterrupted(lambda: _translated(session.__enter__), turns)  # one that starts takes some milliseconds
        try:
            yield Worker(session, session.worker_pid, names, on_print, turns)
        finally:
            await _uninterrupted(partial(session.__exit__, None, None, None), turns)

    async def _opened(self, section: ProgramsSection) -> "pydantic_monty.Monty":
        async with self._opening:
            if self._pool is None:
                self._pool = await anyio.to_thread.run_sync(lambda: _translated(partial(self._open, section)))
                self.tasks.start_soon(self._close_unused, section.idle_stop_s)
            return self._pool

    def _open(self, section: ProgramsSection) -> "pydantic_monty.Monty":
        import pydantic_monty  # noqa: PLC0415 - at the first program: most gateways run none

        folder = self.folder or Path(self._files.enter_context(TemporaryDirectory(prefix="toolcrib-")))
        pool = pydantic_monty.Monty(
            binary_path=_starter(folder),
            min_processes=0,
            max_processes=max(section.workers, _PROCESSES_MAX),
            feed_duration_limit_grace=_ANSWERS_AFTER_S,
        )
        return pool.__enter__()

    async def _close_unused(self, idle_s: float) -> None:
        """Stop the workers once no program has run for a while, or the gateway ends."""
        try:
            while True:
                self._ended = anyio.Event()
                with anyio.move_on_after(idle_s) as waiting:
                    await self._ended.wait()
                if waiting.cancelled_caught and not self._in_use:
                    return
        finally:
            pool, self._pool = self._pool, None
            if pool is not None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._close, pool)

    def _close(self, pool: "pydantic_monty.Monty") -> None:
        with self._files:
            pool.__exit__(None, None, None)


_STARTER = """#!/bin/sh
(
    while kill -0 $PPID && kill -0 $$; do sleep 2; done
    kill -9 $$
) </dev/null >/dev/null 2>&1 &
exec /usr/bin/env -i {program} "$@" 2>/dev/null
"""


def _starter(folder: Path) -> str | None:
    """Return the program that starts a worker without our environment and without our stderr; None: the usual one.

    Beside the worker, a shell looks every other second whether we are still there: one that computes would not notice.
    """
    program = _program()
    if program is None or sys.platform == "win32" or not Path("/bin/sh").exists():
        return None
    text = _STARTER.format(program=shlex.quote(program))
    path = folder / "program-worker"
    try:
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            folder.mkdir(parents=True, exist_ok=True)
            new = path.with_suffix(f".{os.getpid()}")
            new.write_text(text, encoding="utf-8")
            new.chmod(0o700)
            new.replace(path)
    except OSError:
        return None
    return str(path) if os.access(path, os.X_OK) else None


def _program() -> str | None:
    """Return the interpreter that came with the package, in the environment that runs us, or on the path."""
    for folder in dict.fromkeys((sysconfig.get_path("scripts"), str(Path(sys.executable).parent))):
        if found := shutil.which("monty", path=folder):
            return found
    return shutil.which("monty")
