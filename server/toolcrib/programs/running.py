"""One run of a program: its calls, its bounds, and its end, after which nothing of it is left."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

import anyio
from anyio.abc import TaskGroup

from toolcrib.base.errors import ToolcribError, innermost
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.config.schema import ProgramsSection
from toolcrib.programs.checking import judged
from toolcrib.programs.frames import ARGUMENTS_MAX, TEXT_MAX, HostFunction
from toolcrib.programs.names import CALL
from toolcrib.programs.places import Place
from toolcrib.programs.source import AST, NotRunnable, Source, bound_name
from toolcrib.programs.stubs import declarations
from toolcrib.programs.workers import (
    UNREADABLE,
    AnswerKind,
    Bounds,
    Ended,
    HostCall,
    Printed,
    Ready,
    Taken,
    TypesRefused,
    Waits,
    Worker,
    WorkerLost,
    Workers,
)

_log = logging.getLogger(__name__)

_TEXT_MAX = 300
_HELD_MAX = 8 * 1024 * 1024
"""Bytes of the arguments of the calls that wait or are under way, as they are once built."""
_VALUE_MAX = TEXT_MAX // 4
"""Characters of a value that come in one frame, whatever they are."""


class CallFailed(Exception):
    """A call of a program failed; the text is that of the program's ``ToolError``."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a call of a program has come to: a text, or a value as JSON."""

    kind: Literal["text", "json"]
    text: str


class Host(Protocol):
    """What a program may reach: each call is answered in the name of whoever runs it."""

    async def call(self, name: str, arguments: str, made: "CallMade") -> Result:
        """Call a tool by a name that the program has, with arguments as JSON; return its result.

        ``made`` is told if the tool may change something. Raises:
            CallFailed: it has failed, or was refused.

        """
        ...

    async def search(self, query: str, limit: int) -> Result:
        """Return what a search of tools finds, as a JSON list; raises as :meth:`call` does."""
        ...

    async def result(self, handle: str) -> Result:
        """Return the text of a long result by its handle; raises as :meth:`call` does."""
        ...


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a program names: its public name, its input schema, and the JSON types of its results; none: any."""

    public_name: str
    schema: JsonObject
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was read, with the tools that its imports name; ``is_checked``: it passed the checker before."""

    source: Source
    tools: Mapping[str, Tool]
    is_checked: bool = False


@dataclass(slots=True)
class CallMade:
    """A call of a program: of which tool, and how it ended.

    ``problem`` is the text of a failure, cut. ``changes`` are the arguments, as they are shown, of a call that was
    allowed to be sent to a tool which may change something; None: it was not sent to one.
    """

    name: str
    outcome: Literal["under way", "ok", "failed"] = "under way"
    problem: str = ""
    changes: str | None = None


@dataclass(slots=True)
class Outcome:
    """What a run has come to.

    ``end`` is the end that its program came to; None: it was ended before. ``printed`` is what is kept of its prints,
    ``printed_size`` their whole size in characters; without an end, they had at least so many. ``notes`` are of the
    checker, about what has run all the same. ``problem`` says why it has failed or was ended; None: it has succeeded.
    """

    end: Ended | None = None
    printed: str = ""
    printed_size: int = 0
    notes: tuple[str, ...] = ()
    calls: list[CallMade] = field(default_factory=list[CallMade])
    problem: str | None = None


class _Bounded(ToolcribError):
    """A run is ended, because it has reached one of its bounds."""


class Deadline:
    """The end of a run on anyio's clock, which stands still while somebody is asked."""

    def __init__(self, seconds: float) -> None:
        self._left, self._asking = seconds, 0
        self.scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        """Do not count the time of the block."""
        if not self._asking:
            self._left = self.scope.deadline - anyio.current_time()
            self.scope.deadline = float("inf")
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self.scope.deadline = anyio.current_time() + self._left


class Run:
    """One run, for a ``caller``, who shares the places with others.

    ``most`` characters of its value are kept; ``progress`` is told of each call that has ended, and of a long wait.
    """

    def __init__(
        self,
        program: Program,
        host: Host,
        section: ProgramsSection,
        deadline: Deadline,
        *,
        caller: str,
        most: int,
        progress: Callable[[str], Awaitable[None]],
    ) -> None:
        self._program, self._host, self._section, self._deadline = program, host, section, deadline
        self._bounds = Bounds(section, min(most, _VALUE_MAX), _HELD_MAX)
        self._untaken_most = min(section.result_bytes, section.memory_bytes // 2)
        self._progress = progress
        self._caller, self._has_begun = caller, False
        self._calls_at_a_time = anyio.CapacityLimiter(section.calls_at_a_time)
        self._held = self._untaken = 0
        self._printed, self._room = list[str](), section.printed_bytes
        self._taken = anyio.Event()
        self.outcome = Outcome()

    async def run(self, workers: Workers) -> Outcome:
        """Run it, and return what it has come to. Nothing that it began goes on afterwards.

        Raises:
            NotRunnable: the checker refuses it; nothing ran.

        """
        with workers.places.place(self._caller, self._section.workers, self._progress) as place:
            try:
                with self._deadline.scope:
                    place.request()
                    await place.wait()
                    await self._in_worker(workers, place)
            except (_Bounded, WorkerLost) as error:
                self.outcome.problem = str(error)
                if error.detail:
                    _log.warning("%s %s", error, error.detail)
        if self._deadline.scope.cancelled_caught and self.outcome.end is None:
            self.outcome.problem = self._too_long(place)
        self.outcome.printed = "".join(self._printed)
        return self.outcome

    async def _in_worker(self, workers: Workers, place: Place) -> None:
        program = self._program
        stubs = None
        if not program.is_checked:
            kinds = {name: tool.kinds for name, tool in program.tools.items()}
            names = program.source.called
            stubs = declarations(self._schemas(), kinds, names, finds_names=program.source.finds_names)
        self._has_begun = True
        async with workers.worker(self._section) as worker:
            try:
                # The calls end with this group, which is left before the worker is, and before there is an answer.
                async with anyio.create_task_group() as calls:
                    await worker.begin(_prelude(program.tools), program.source.code, self._bounds, stubs=stubs)
                    await self._followed(worker, calls, place)
                    calls.cancel_scope.cancel()
            except BaseExceptionGroup as errors:
                error = innermost(errors)
                if isinstance(error, anyio.get_cancelled_exc_class()):
                    raise
                raise error from None

    def _too_long(self, place: Place) -> str:
        bound = "(timeout_s, at most programs.timeout_s)"
        if not self._has_begun:
            return f"It has not begun in time {bound}, because {place.why}. Nothing ran; try later."
        return f"It took too long {bound}. {place.long_wait}".rstrip()

    async def _go_on(self, worker: Worker, place: Place) -> None:
        await place.wait()
        with suppress(WorkerLost):  # whoever reads from it says why
            await worker.go_on()

    def _schemas(self) -> dict[str, JsonObject]:
        return {name: tool.schema for name, tool in self._program.tools.items()}

    def _texts(self) -> set[str]:
        return {name for name, tool in self._program.tools.items() if tool.kinds == ("string",)}

    async def _followed(self, worker: Worker, calls: TaskGroup, place: Place) -> None:
        """Do what the program wants, until it has ended."""
        outcome = self.outcome
        while not isinstance(message := await worker.message(), Ended):
            match message:
                case HostCall():
                    calls.start_soon(self._answer, message, self._begun(message), worker)
                case Printed(text, size):
                    self._printed.append(text[: self._room])
                    self._room -= len(self._printed[-1])
                    outcome.printed_size += size
                case Taken(size):
                    self._untaken -= size
                    self._taken.set()
                    self._taken = anyio.Event()
                case Waits() if place.given.is_set():
                    place.leave()
                case Ready() if place.is_left:
                    place.request()
                    if place.given.is_set():  # nearly always: then without a task
                        await self._go_on(worker, place)
                    else:
                        calls.start_soon(self._go_on, worker, place)
                case TypesRefused(rendered):
                    await self._judge(rendered, worker)
                case _:
                    raise WorkerLost(UNREADABLE)
        place.leave()
        outcome.end, outcome.printed_size, outcome.problem = message, message.printed_size, message.problem

    async def _judge(self, rendered: str, worker: Worker) -> None:
        """Go on, unless the checker has found a mistake for sure."""
        findings, notes = judged(rendered, self._program.source, self._schemas(), self._texts())
        if findings:
            await worker.stop()
            raise NotRunnable(findings)
        self.outcome.notes = tuple(notes)
        await worker.go_on()

    def _begun(self, call: HostCall) -> CallMade:
        made = CallMade(call.name or call.kind)
        self.outcome.calls.append(made)
        # Not an exception in the program, which could catch it and go on.
        if len(self.outcome.calls) > self._section.calls:
            raise _Bounded(f"It made more than {self._section.calls} calls (programs.calls).")
        self._held += call.weight
        if self._held > _HELD_MAX:
            raise _Bounded(f"The arguments of its calls under way take more than {_HELD_MAX} bytes.")
        return made

    async def _answer(self, call: HostCall, made: CallMade, worker: Worker) -> None:
        async with self._calls_at_a_time:
            # What a program computes or sleeps over is not added to.
            await self._untaken_below(self._untaken_most)
            kind, text = await self._called(call, made)
            self._held -= call.weight
            await self._progress(made.name)
            await self._untaken_below(max(self._section.memory_bytes // 2 - len(text), 0))
            self._untaken += len(text)
            with suppress(WorkerLost):  # whoever reads from it says why
                await worker.answer(call.number, kind, text)

    async def _untaken_below(self, size: int) -> None:
        while self._untaken > size:
            await self._taken.wait()

    async def _called(self, call: HostCall, made: CallMade) -> tuple[AnswerKind, str]:
        try:
            result = await self._reached(call, made)
        except CallFailed as error:
            made.outcome, made.problem = "failed", truncate(one_line(str(error)), _TEXT_MAX)
            return "failed", str(error)
        made.outcome = "ok"
        return result.kind, result.text

    async def _reached(self, call: HostCall, made: CallMade) -> Result:
        match call.kind:
            case "call":
                return await self._host.call(call.name, call.text, made)
            case "search":
                return await self._host.search(call.text, call.limit)
            case "result":
                return await self._host.result(call.text)


def _prelude(tools: Mapping[str, Tool]) -> str:
    """Return what a worker is given before a program: its tools, under the names that its imports are turned into."""
    lines = [f"{bound_name(name)} = toolcrib_tool({tool.public_name!r})" for name, tool in tools.items()]
    return "\n".join([_PRELUDE, *lines])


_PRELUDE = f"""
ToolError = RuntimeError
IOError = EnvironmentError = ConnectionError = OSError
eval = None
exec = None

def toolcrib_made(reach, look, read):
    import asyncio
    import json

    def opened(answer):
        return answer[1:] if answer[:1] == "t" else json.loads(answer[1:])

    async def reached(name, arguments):
        text = json.dumps(arguments)
        if len(text) > {ARGUMENTS_MAX}:
            raise ToolError("the arguments are longer than {ARGUMENTS_MAX} characters")
        return opened(await reach(name, text))

    def tool(name):
        async def called(*given, **arguments):
            if len(given) == 1 and isinstance(given[0], dict):
                arguments = {{**given[0], **arguments}}
            elif given:
                raise TypeError("tools take arguments by name")
            return await reached(name, arguments)
        return called

    async def call(name, arguments=None):
        return await reached(name, arguments or {{}})

    async def search(query, limit=8):
        return opened(await look(query, limit))

    async def result(handle):
        return opened(await read(handle))

    async def caught(awaited):
        try:
            return await awaited
        except Exception as error:
            return error

    async def parallel(calls, *, errors="raise"):
        if errors == "return":
            calls = [caught(each) for each in calls]
        return list(await asyncio.gather(*calls))

    class Ast:
        def literal_eval(self, node_or_string):
            return {HostFunction.LITERAL}(node_or_string)

    return tool, {CALL}, search, result, parallel, Ast()

async def _reach(name, arguments):
    return await {HostFunction.CALL}(name, arguments)

async def _look(query, limit):
    return await {HostFunction.SEARCH}(query, limit)

async def _read(handle):
    return await {HostFunction.RESULT}(handle)

toolcrib_tool, call, search, result, parallel, {AST} = toolcrib_made(_reach, _look, _read)
"""
"""The functions that every program has, in its own Python. Results cross as text alone, so that only the worker, which
is bounded, ever takes them apart (ADR 84). A program may set any of these names: nothing calls them but itself.
"""
