"""One run of a program: its calls, its bounds, and its end, after which nothing of it is left."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import anyio
from anyio.abc import TaskGroup

from toolcrib.base.errors import ToolcribError, innermost
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.config.schema import ProgramsSection
from toolcrib.programs.checking import judged
from toolcrib.programs.source import CALL, VALUE, NotRunnable, Source, bound_name
from toolcrib.programs.stubs import declarations
from toolcrib.programs.workers import (
    Answer,
    Done,
    HostCall,
    ProgramFailed,
    TypesRefused,
    Waiting,
    Worker,
    WorkerLost,
    Workers,
    raised,
    returned,
)

_CALL, _SEARCH, _RESULT = "toolcrib_call", "toolcrib_search", "toolcrib_result"
_NAMES: Final = frozenset((_CALL, _SEARCH, _RESULT))
_TEXT_MAX = 300
_ARGUMENTS_MAX = 1024 * 1024
"""Characters of the arguments of one call, as JSON."""
_HELD_MAX = 8 * 1024 * 1024
"""Characters of the arguments of the calls that wait or are under way."""


class CallFailed(Exception):
    """A call of a program failed; the text is that of the program's ``ToolError``."""


class Host(Protocol):
    """What a program may reach: each call is answered in the name of whoever runs it."""

    async def call(self, name: str, arguments: str) -> str:
        """Call a tool by a name that the program has, with arguments as JSON; return its result, marked.

        The first character is its mark: ``t`` a text, ``j`` JSON or else a text, ``m`` a list of such texts as JSON.

        Raises:
            CallFailed: it has failed, or was refused.

        """
        ...

    async def search(self, query: str, limit: int) -> str:
        """Return what a search of tools finds, as a JSON list; raises as :meth:`call` does."""
        ...

    async def result(self, handle: str) -> str:
        """Return the text of a long result by its handle; raises as :meth:`call` does."""
        ...


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a program names: its public name, and its input schema."""

    public_name: str
    schema: JsonObject


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was read, with the tools that its imports name; ``is_checked``: it passed the checker before."""

    source: Source
    tools: Mapping[str, Tool]
    is_checked: bool = False


@dataclass(slots=True)
class CallMade:
    """A call of a program: of which tool, and how it ended; ``problem`` is the text of a failure, cut."""

    name: str
    outcome: Literal["under way", "ok", "failed"] = "under way"
    problem: str = ""


@dataclass(slots=True)
class Outcome:
    """What a run has come to.

    ``value`` is that of the last expression, as JSON or, where ``is_text``, as it is; None: there is none, or it is
    None. Of it, and of ``printed``, so much is kept as may be shown; ``value_size`` and ``printed_size`` are the whole
    sizes, in characters. ``notes`` are of the checker, about what has run all the same. ``problem`` is None if it
    succeeded; ``line`` then has its place.
    """

    value: str | None = None
    is_text: bool = False
    value_size: int = 0
    printed: str = ""
    printed_size: int = 0
    notes: tuple[str, ...] = ()
    calls: list[CallMade] = field(default_factory=list[CallMade])
    problem: str | None = None
    line: int = 0


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
    """One run. ``most`` characters of its value are kept; ``progress`` is told of each call that has ended."""

    def __init__(
        self,
        program: Program,
        host: Host,
        section: ProgramsSection,
        deadline: Deadline,
        *,
        most: int,
        progress: Callable[[str], Awaitable[None]],
    ) -> None:
        self._program, self._host, self._section, self._deadline = program, host, section, deadline
        self._most, self._progress = most, progress
        self._places = anyio.CapacityLimiter(section.calls_at_a_time)
        self._answers: dict[int, Answer] = {}
        self._answered = anyio.Event()
        self._held = 0
        self.outcome = Outcome()

    async def run(self, workers: Workers) -> Outcome:
        """Run it, and return what it has come to. Nothing that it began goes on afterwards.

        Raises:
            NotRunnable: the checker refuses it; nothing ran.

        """
        try:
            with self._deadline.scope:
                await self._in_worker(workers)
        except ProgramFailed as error:
            self.outcome.problem, self.outcome.line = str(error), error.line
        except (_Bounded, WorkerLost) as error:
            self.outcome.problem = str(error)
        if self._deadline.scope.cancelled_caught:
            self.outcome.problem = "It took too long (timeout_s, at most programs.timeout_s)."
        return self.outcome

    async def _in_worker(self, workers: Workers) -> None:
        program = self._program
        stubs = None
        if not program.is_checked:
            schemas = {name: tool.schema for name, tool in program.tools.items()}
            stubs = declarations(schemas, program.source.called, finds_names=program.source.finds_names)
        async with workers.worker(self._section, names=_NAMES, stubs=stubs, on_print=self._print) as worker:
            try:
                # The calls end with this group, which is left before the worker is, and before there is an answer.
                async with anyio.create_task_group() as calls:
                    calls.start_soon(worker.killed_if_cancelled)
                    await self._through(worker, calls)
                    calls.cancel_scope.cancel()
            except BaseExceptionGroup as errors:
                error = innermost(errors)
                if isinstance(error, anyio.get_cancelled_exc_class()):
                    raise
                raise error from None

    async def _through(self, worker: Worker, calls: TaskGroup) -> None:
        """Feed the worker what is ours, the program, and what takes its value."""
        await worker.feed(_prelude(self._program.tools))
        await self._driven(worker, calls, await self._begun(worker))
        end = await self._driven(worker, calls, await worker.feed(f"toolcrib_end({VALUE}, {self._most})"))
        kind, text, size = end.value
        if kind != "n":
            self.outcome.value, self.outcome.is_text, self.outcome.value_size = str(text), kind == "t", int(size)

    async def _begun(self, worker: Worker) -> Waiting | Done:
        source, checked = self._program.source, not self._program.is_checked
        try:
            return await worker.feed(source.code, checked=checked)
        except TypesRefused as refused:
            schemas = {name: tool.schema for name, tool in self._program.tools.items()}
            findings, notes = judged(refused.rendered, source, schemas)
            if findings:
                raise NotRunnable(findings) from None
            self.outcome.notes = tuple(notes)
            return await worker.feed(source.code)

    async def _driven(self, worker: Worker, calls: TaskGroup, step: Waiting | Done) -> Done:
        while isinstance(step, Waiting):
            for call in step.calls:
                self._begin(call, calls)
            step = await worker.answer(await self._next_answers(step))
        return step

    def _begin(self, call: HostCall, calls: TaskGroup) -> None:
        made = None
        if call.sleeps_s is None:
            made = CallMade(_name_of(call))
            self.outcome.calls.append(made)
            # Not an exception in the program, which could catch it and go on.
            if len(self.outcome.calls) > self._section.calls:
                raise _Bounded(f"It made more than {self._section.calls} calls (programs.calls).")
            self._held += _size(call)
            if self._held > _HELD_MAX:
                raise _Bounded(f"The arguments of its calls under way take more than {_HELD_MAX} characters.")
        calls.start_soon(self._answer, call, made)

    async def _answer(self, call: HostCall, made: CallMade | None) -> None:
        if made is None:
            await anyio.sleep(min(max(call.sleeps_s or 0.0, 0.0), self._section.timeout_s))
            answer = returned(None)
        else:
            async with self._places:
                answer = await self._called(call, made)
            self._held -= _size(call)
            await self._progress(made.name)
        self._answers[call.number] = answer
        self._answered.set()

    async def _called(self, call: HostCall, made: CallMade) -> Answer:
        try:
            value = await self._reached(call)
        except CallFailed as error:
            made.outcome, made.problem = "failed", truncate(one_line(str(error)), _TEXT_MAX)
            return raised(str(error))
        made.outcome = "ok"
        return returned(value)

    async def _reached(self, call: HostCall) -> str:
        match call.name, call.args:
            case "toolcrib_call", (str(name), str(arguments)) if len(arguments) <= _ARGUMENTS_MAX:
                return await self._host.call(name, arguments)
            case "toolcrib_search", (str(query), int(limit)):
                return await self._host.search(query, limit)
            case "toolcrib_result", (str(handle),):
                return await self._host.result(handle)
            case _:
                raise CallFailed(f"The arguments do not fit, or are longer than {_ARGUMENTS_MAX} characters.")

    async def _next_answers(self, step: Waiting) -> dict[int, Answer]:
        """Wait until the program can go on, and return all answers that it takes now."""
        while not (ready := step.pending & self._answers.keys()):
            self._answered = anyio.Event()
            await self._answered.wait()
        return {number: self._answers.pop(number) for number in ready}

    def _print(self, text: str) -> None:
        outcome = self.outcome
        outcome.printed += text[: max(self._section.printed_bytes - len(outcome.printed), 0)]
        outcome.printed_size += len(text)


def _size(call: HostCall) -> int:
    return sum(len(each) for each in call.args if isinstance(each, str))


def _name_of(call: HostCall) -> str:
    first = call.args[0] if call.args else ""
    return str(first) if call.name == _CALL else call.name.removeprefix("toolcrib_")


def _prelude(tools: Mapping[str, Tool]) -> str:
    """Return what a worker is given before a program: its tools, under the names that its imports are turned into."""
    lines = [f"{bound_name(name)} = toolcrib_tool({tool.public_name!r})" for name, tool in tools.items()]
    return "\n".join([_PRELUDE, *lines])


_PRELUDE = f"""
ToolError = RuntimeError
{VALUE} = None
eval = None
exec = None

def toolcrib_made(reach, look, read):
    import asyncio
    import json

    def opened(answer):
        text = answer[1:]
        if answer[:1] == "t":
            return text
        try:
            value = json.loads(text)
            if answer[:1] == "j":
                return value
            text = "\\n".join(value)
            return [json.loads(each) for each in value]
        except ValueError:
            return text

    async def reached(name, arguments):
        text = json.dumps(arguments)
        if len(text) > {_ARGUMENTS_MAX}:
            raise ToolError("the arguments are longer than {_ARGUMENTS_MAX} characters")
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

    def plain(value):
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, dict):
            return {{(key if isinstance(key, str) else str(key)): plain(each) for key, each in value.items()}}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(each) for each in value]
        if isinstance(value, BaseException):
            return {{"error": str(value)}}
        return str(value)

    def end(value, most):
        if value is None:
            return ("n", "", 0)
        if isinstance(value, str):
            return ("t", value[:most], len(value))
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        except TypeError:
            text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
        return ("j", text[:most], len(text))

    return tool, {CALL}, search, result, parallel, end

async def _reach(name, arguments):
    return await {_CALL}(name, arguments)

async def _look(query, limit):
    return await {_SEARCH}(query, limit)

async def _read(handle):
    return await {_RESULT}(handle)

toolcrib_tool, call, search, result, parallel, toolcrib_end = toolcrib_made(_reach, _look, _read)
"""
"""The functions that every program has, in its own Python. Values cross as text alone, so that only the worker, which
is bounded, ever takes them apart (ADR 84).
"""
