"""The processes that run programs, as a gateway sees them: started when one is needed, and ended with all they began.

Each runs one program at a time (:mod:`toolcrib.programs.runner`). What comes from it is read in frames of bounded size,
whatever a program has made of the interpreter (ADR 91).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import anyio.to_thread
from anyio.abc import Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from toolcrib.base.errors import ToolcribError
from toolcrib.base.text import one_line, truncate
from toolcrib.config.schema import ProgramsSection
from toolcrib.programs.frames import HEAD, HEADER_MAX, NOT_STARTED, TEXT_MAX, header_of, packed
from toolcrib.programs.places import Places

_MESSAGE_MAX = 500
_SENT_AT_ONCE = 256 * 1024
"""Characters that are packed, and handed to the system, in one step: less than a millisecond of the event loop."""
_ENDS_WITHIN_S: Final = 1.0
_START: Final = (
    "import json, sys; begin = json.loads(sys.argv.pop()); sys.path[:] = begin.pop('path'); "
    "from toolcrib.programs.runner import main; main(**begin)"
)
_HAS_ENDED: Final = (
    "The process that ran it has ended: what it came to, or handed over, may take too much memory or time "
    "(programs.memory_bytes, programs.compute_s)."
)
UNREADABLE: Final = "The process that ran it has sent what cannot be read."


class WorkerLost(ToolcribError):
    """A worker ended in the middle of a program: it was killed, or used more than it may."""


class _HasEnded(WorkerLost):
    """A worker has ended without a word."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call of a program, to be answered by ``number``; ``weight`` is about the bytes that it takes here.

    ``text`` is what the kind of call takes: arguments as JSON, a query, or a handle; ``name`` is that of a tool.
    """

    number: int
    kind: Literal["call", "search", "result"]
    name: str
    text: str
    weight: int
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program has printed, of which ``text`` is kept; more than that is not told of."""

    text: str
    size: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A program has taken results of so many characters."""

    size: int


@dataclass(frozen=True, slots=True)
class Waits:
    """A program computes no more: it waits for calls or sleeps, until it is :class:`Ready`."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A program that waited could go on, and is to be told when."""


@dataclass(frozen=True, slots=True)
class TypesRefused:
    """The checker has something to say about a program; nothing ran. ``rendered`` is its JSON."""

    rendered: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A program has come to its end; ``printed_size`` are the characters that it has printed.

    ``value`` is the beginning of its value, as JSON or, of a text, as it is; None: it is None, or there is none.
    ``size`` is its whole size in characters, or that of a part where it is not ``is_counted``. With an error,
    ``problem`` says which, and ``line`` where, unless that is 0.
    """

    value: str | None = None
    size: int = 0
    is_counted: bool = True
    printed_size: int = 0
    problem: str | None = None
    line: int = 0


AnswerKind = Literal["text", "json", "failed"]
"""What an answer to a call is: a result of one of two kinds, or the text of a failure."""

Message = HostCall | Printed | Taken | Waits | Ready | TypesRefused | Ended
"""What comes from a worker while it runs a program."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one run: ``most`` characters of its value are kept, and ``held`` of the arguments of its calls."""

    section: ProgramsSection
    most: int
    held: int


class Worker:
    """One process, while it runs one program: begin, then take messages and answer until the program has ended.

    Every method raises :class:`WorkerLost` once the process has ended.
    """

    def __init__(self, process: Process, memory_bytes: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self.memory_bytes = process, memory_bytes
        self._sink, self._source = process.stdin, BufferedByteReceiveStream(process.stdout)
        self._sending = anyio.Lock()
        self._runs_nothing, self._has_half_a_frame = True, False

    @property
    def is_reusable(self) -> bool:
        """Whether no program runs in it, and all that was sent has come through, both ways."""
        return self._runs_nothing and not self._has_half_a_frame

    @property
    def is_alive(self) -> bool:
        """Whether its process has not ended."""
        return self._process.returncode is None

    async def ready(self) -> None:
        """Wait until it can run programs."""
        try:
            await self._frame()
        except _HasEnded:
            raise WorkerLost(NOT_STARTED, detail="it ended without a word") from None

    async def begin(self, prelude: str, code: str, bounds: Bounds, *, stubs: str | None) -> None:
        """Run a program after a prelude; ``stubs`` are for its checker, and None to run it unchecked."""
        self._runs_nothing = False
        section, texts = bounds.section, (stubs or "", prelude, code)
        await self._send(
            {
                "do": "run",
                "ends": [len(texts[0]), len(texts[0]) + len(prelude)],
                "checked": stubs is not None,
                "compute_s": section.compute_s,
                "memory_bytes": section.memory_bytes,
                "calls": section.calls,
                "printed": section.printed_bytes,
                "most": bounds.most,
                "held": bounds.held,
            },
            "".join(texts),
        )

    async def go_on(self) -> None:
        """Let a program go on: one that the checker has said something about, or one that has waited."""
        await self._send({"do": "go on"})

    async def stop(self) -> None:
        """Leave the program, about which the checker has said something."""
        await self._send({"do": "stop"})
        await self._frame()
        self._runs_nothing = True

    async def answer(self, number: int, kind: AnswerKind, text: str = "") -> None:
        """Answer a call."""
        await self._send({"do": "answer", "number": number, "kind": kind}, text)

    async def message(self) -> Message:
        """Wait for what comes next."""
        header, text = await self._frame()
        try:
            message = _MESSAGES[header["is"]](header, text)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise WorkerLost(UNREADABLE) from None
        self._runs_nothing = isinstance(message, Ended)
        return message

    async def _frame(self) -> tuple[Mapping[str, Any], str]:
        try:
            top, rest = HEAD.unpack(await self._source.receive_exactly(HEAD.size))
            if top > HEADER_MAX or rest > TEXT_MAX:
                raise WorkerLost(UNREADABLE)
            header = header_of(await self._source.receive_exactly(top))
            text = (await self._source.receive_exactly(rest)).decode("utf-8", "replace")
        except (ValueError, RecursionError):
            raise WorkerLost(UNREADABLE) from None
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise _HasEnded(_HAS_ENDED) from None
        if header.get("is") == "lost":
            detail = header.get("detail")
            raise WorkerLost(truncate(one_line(text), _MESSAGE_MAX), detail=detail if isinstance(detail, str) else "")
        return header, text

    async def _send(self, header: dict[str, Any], text: str = "") -> None:
        """Send a frame; a long text goes before it in pieces, so that there is never a second one of its length."""
        last = len(text) - len(text) % _SENT_AT_ONCE
        async with self._sending:
            if self._has_half_a_frame:
                raise WorkerLost(UNREADABLE)
            self._has_half_a_frame = True  # where this is cancelled
            try:
                for start in range(0, last, _SENT_AT_ONCE):
                    await self._sink.send(packed({"do": "more"}, text[start : start + _SENT_AT_ONCE]))
                await self._sink.send(packed(header, text[last:]))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise WorkerLost(_HAS_ENDED) from None
            self._has_half_a_frame = False

    async def end(self) -> None:
        """End the process and its own, whoever is cancelled meanwhile."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_ENDS_WITHIN_S):
                await self._process.aclose()  # it ends by itself when it can read no more, and waits for its own
            if self._process.returncode != 0 and hasattr(os, "killpg"):
                with suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGKILL)


def _host_call(header: Mapping[str, Any], text: str) -> HostCall:
    name, limit = header.get("name", ""), header.get("limit", 0)
    if header["kind"] not in ("call", "search", "result") or not isinstance(name, str) or not isinstance(limit, int):
        raise ValueError(header["kind"])
    return HostCall(int(header["number"]), header["kind"], name, text, int(header["weight"]), limit)


def _ended(header: Mapping[str, Any], text: str) -> Ended:
    printed = int(header["printed"])
    if header["size"] is None:
        return Ended(printed_size=printed)
    return Ended(text, int(header["size"]), bool(header["is_counted"]), printed)


def _failed(header: Mapping[str, Any], text: str) -> Ended:
    said = truncate(one_line(text), _MESSAGE_MAX)
    return Ended(printed_size=int(header["printed"]), problem=said, line=int(header["line"]))


_MESSAGES: Mapping[str, Callable[[Mapping[str, Any], str], Message]] = {
    "call": _host_call,
    "printed": lambda header, text: Printed(text, int(header["size"])),
    "taken": lambda header, _: Taken(int(header["size"])),
    "waits": lambda _header, _text: Waits(),
    "ready": lambda _header, _text: Ready(),
    "refused": lambda _, text: TypesRefused(text),
    "ended": _ended,
    "failed": _failed,
}
"""How each kind of frame is read."""


@dataclass(eq=False)
class Workers:
    """The workers of one gateway; ``tasks`` own what ends those that no program has used for a while.

    ``places`` are for the programs in them, while they compute.
    """

    tasks: TaskGroup
    places: Places = field(default_factory=Places, init=False)
    _section: ProgramsSection = field(default_factory=ProgramsSection, init=False)
    _idle: list[Worker] = field(default_factory=list[Worker], init=False)
    _in_use: int = field(default=0, init=False)
    _is_watched: bool = field(default=False, init=False)
    _used: anyio.Event = field(default_factory=anyio.Event, init=False)

    @asynccontextmanager
    async def worker(self, section: ProgramsSection) -> AsyncGenerator[Worker]:
        """Hold a worker for one program.

        Raises:
            WorkerLost: none could be started.

        """
        self._section = section
        self._watch()
        self._in_use += 1
        try:
            worker = await self._taken(section.memory_bytes)
            try:
                yield worker
            finally:
                if worker.is_reusable and self._is_watched and len(self._idle) < self._section.workers:
                    self._idle.append(worker)
                else:
                    await worker.end()
        finally:
            self._in_use -= 1
            self._used.set()

    async def _taken(self, memory_bytes: int) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.memory_bytes == memory_bytes and worker.is_alive:
                return worker
            await worker.end()
        return await _started(memory_bytes)

    def _watch(self) -> None:
        if not self._is_watched:
            self.tasks.start_soon(self._end_unused)
            self._is_watched = True

    async def _end_unused(self) -> None:
        """End the workers once no program has run for a while, or the gateway ends."""
        try:
            while True:
                self._used = anyio.Event()
                with anyio.move_on_after(self._section.idle_stop_s) as waiting:
                    await self._used.wait()
                if waiting.cancelled_caught and not self._in_use:
                    return
        finally:
            self._is_watched = False
            idle, self._idle = self._idle, []
            for worker in idle:
                await worker.end()


async def why_none_starts(section: ProgramsSection) -> str:
    """Start a worker and end it; return why that cannot be done, empty if it can."""
    try:
        worker = await _started(section.memory_bytes)
    except WorkerLost as error:
        return error.detail or str(error)
    await worker.end()
    return ""


async def _started(memory_bytes: int) -> Worker:
    interpreter = await anyio.to_thread.run_sync(_interpreter)
    try:
        worker = Worker(await _spawned({"interpreter": interpreter, "memory_bytes": memory_bytes}), memory_bytes)
    except OSError as error:
        raise WorkerLost(NOT_STARTED, detail=str(error)) from None
    is_ready = False
    try:
        await worker.ready()
        is_ready = True
    finally:
        if not is_ready:
            await worker.end()
    return worker


async def _spawned(begin: dict[str, Any]) -> Process:
    """Start a process without our environment and without our stderr; what has begun to run is not left half-way."""
    path = [folder for folder in sys.path if os.path.isabs(folder)]  # noqa: PTH117 - texts, as Python has them
    process: Process | None = None
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            [sys.executable or "python3", "-I", "-S", "-c", _START, json.dumps({"path": path, **begin})],
            stderr=subprocess.DEVNULL,
            cwd=os.sep,
            env=None if sys.platform == "win32" else {},  # there, Python does not start without some of it
            start_new_session=True,
        )
    assert process is not None
    return process


def _interpreter() -> str | None:
    """Return the interpreter that came with the package, in the environment that runs us, or on the path."""
    for folder in dict.fromkeys((sysconfig.get_path("scripts"), str(Path(sys.executable).parent))):
        if found := shutil.which("monty", path=folder):
            return found
    return shutil.which("monty")
